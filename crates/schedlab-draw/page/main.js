// @ts-check
// The page: puts the trace on the canvas, and turns wheel, touch, keys and clicks into views.
import { LEFT, Totals, after, append, duration, fineColumns, outline, taskName, unpack } from "./data.js";
import { fromLink, look, nextOf, pan, search, show, sliceAt, toLink, whole, zoom } from "./view.js";
import { isTold, laneOf, sliceOn } from "./lanes.js";
import { answered, entry, explained, legend, sums, waitList } from "./lists.js";
import { longestOf, nextWait, openTask, ranInstead, waitAt, waitOf, wakerOf } from "./waits.js";
import { episodeAt } from "./over.js";
import { Painter } from "./paint.js";
import { pointAt, pointText, readPoints } from "./points.js";
import { EventList } from "./events.js";
import { powerText, readPower } from "./power.js";
import { byName, readRequests, requestAt } from "./requests.js";
import { readStacks, showFlame, timesOf } from "./flame.js";
import { toSvg } from "./export.js";

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Inside of a report the page has no address of its own: no link can restore its view. */
const FRAMED = location.protocol === "about:";
/** Whether the document around it holds another page beside it. Others are told nothing. */
const BESIDE = FRAMED && window.name === "beside";

class Page {
  /** @param {import("./data.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.view = whole(trace);
    this.canvas = /** @type {HTMLCanvasElement} */ (element("rows"));
    /** The address that the page was opened with: its slice can be chosen when it is there. */
    this.wanted = location.hash;
    this.toWorst();
    fromLink(trace, this.view, this.wanted);
    this.painter = new Painter(this.canvas, trace, this.view);
    this.pending = false;
    /** Times with their stacks, if the trace has any. @type {import("./flame.js").Stacks|null} */
    this.stacks = null;
    /** What the flame graph shows. @type {import("./flame.js").Shown} */
    this.shown = { time: "off", requests: -1, slowest: false };
    /** What the page beside was told last, or what it said. @type {string} */
    this.heard = "";
    /** @type {number[]} */
    this.frames = [];
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    this.moved = 0;
    /** The place that was gone to last, and the window then.
     * @type {{time: number, from: number, to: number}|undefined} */
    this.last = undefined;
    const filter = /** @type {HTMLInputElement} */ (element("events-filter"));
    this.events = new EventList(trace, element("events"), element("events-title"), filter, (item) => this.toEvent(item));
    filter.oninput = () => { this.view.events = filter.value; this.paint(); this.events.show(this.view); };
    filter.onkeydown = (event) => event.stopPropagation();
    element("events-back").onclick = () => this.events.turn(this.view, -1);
    element("events-on").onclick = () => this.events.turn(this.view, 1);
    this.listen();
    this.controls();
    this.lists();
    this.details();
    this.now();
  }

  /** The page begins with its answer, and at the moment that this is about. */
  toWorst() {
    const { answer } = this.trace.head;
    if (!answer) return;
    this.answer();
    element("answer").hidden = false;
    if (!answer.worst) return;
    const [, start, end] = answer.worst;
    show(this.trace, this.view, start, end, (end - start) / 4);
    element("worst").hidden = false;
  }

  answer() {
    const { answer } = this.trace.head;
    if (answer) element("answer").replaceChildren(...answered(this.trace, answer.lines, matchMedia("(prefers-color-scheme: dark)").matches));
  }

  /** The wait that the answer is about, once it is there. */
  worst() {
    const worst = this.trace.head.answer?.worst;
    return worst && longestOf(this.trace).find(({ task, end }) => task === worst[0] && end === worst[2]);
  }

  /** Chooses the wait of the answer, where the address did not ask for another view. */
  begin() {
    const wanted = new URLSearchParams(this.wanted.replace(/^#/, "")), worst = this.worst(), { view, trace } = this;
    if (!worst) return;
    // On one or two CPUs rows of tasks tell more: who waited, and who ran meanwhile.
    if (trace.rows.length <= 2 && trace.head.fine === 0 && !wanted.has("rows") && view.rows === "cpu") [view.rows, view.order] = ["task", "busy"];
    if (view.row >= 0 || view.slice !== -1 || view.task >= 0 || wanted.has("t")) return;
    [view.row, view.slice] = [worst.row, worst.slice];
  }

  /** Tells the document that holds this page in a frame beside another. @param {object} what */
  tell(what) {
    if (!BESIDE) return;
    const key = JSON.stringify(what);
    if (key === this.heard) return;
    this.heard = key;
    parent.postMessage({ schedlab: what }, "*");
  }

  /** Does what the other page of the pair does. @param {MessageEvent} event */
  hear({ source, data }) {
    const what = BESIDE && source === parent ? data?.schedlab : undefined;
    if (!what) return;
    if (what.window) {
      look(this.trace, this.view, what.window[0], what.window[1]);
      // It is no news to whom it came from.
      this.heard = JSON.stringify({ window: [this.view.from, this.view.to] });
      this.paint();
    }
    if (what.rows) {
      [this.view.rows, this.view.order, this.view.top] = [what.rows, "busy", 0];
      this.trace.roles = what.roles;
      this.controls();
      this.changed();
    }
  }

  /** What the document that holds two pages aligns them by. */
  introduce() {
    const { head, rows, ran } = this.trace, { names } = head.points;
    /** @type {Map<string, number[]>} */
    const starts = new Map();
    for (const { points: { time, name, phase } } of rows) {
      for (let i = 0; i < time.length; i++) {
        if (phase[i] !== 0) continue;
        const of = starts.get(names[name[i]]) ?? [];
        of.push(time[i]);
        starts.set(names[name[i]], of);
      }
    }
    /** @type {Map<string, number>} */
    const commands = new Map();
    head.tasks.forEach(([, name], task) => { if (task > 0 && ran[task] > 0) commands.set(name, (commands.get(name) ?? 0) + ran[task]); });
    const { from, to } = this.view, worst = head.answer?.worst?.[1] ?? null;
    this.tell({ told: { worst, window: [from, to], marks: [...starts].map(([name, times]) => [name, times.sort((a, b) => a - b).slice(0, 10_000)]), commands: [...commands] } });
  }

  /** Takes in what came since the last time, or the last of it. @param {number} part 0..1 */
  grown(part) {
    element("progress").hidden = part >= 1;
    element("progress").textContent = `reading ${Math.floor(part * 100)} %`;
    if (part >= 1) {
      const at = new URLSearchParams(this.wanted.replace(/^#/, "")).get("at");
      if (at && this.view.row < 0) fromLink(this.trace, this.view, `at=${at}`);
      this.begin();
      // Who ran how long is known now, and so are rows of tasks and their order.
      this.controls();
      this.changed();
      this.waits();
      this.details();
      this.reveal(this.chosenLane());
      this.introduce();
    }
    this.paint();
  }

  /** Rows, order, colours or target are others. */
  changed() {
    this.painter.changed(this.view);
    this.scroll(0);
    element("legend").replaceChildren(...legend(this.trace, this.painter));
    this.paint();
  }

  /** Paints at the next frame. */
  paint() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => this.now());
  }

  now() {
    const start = performance.now();
    this.painter.paint(this.view);
    this.pending = false;
    this.frames.push(performance.now() - start);
    if (this.frames.length > 500) this.frames.shift();
    if (!("ready" in document.body.dataset)) return;
    clearTimeout(this.linking);
    // Browsers refuse a history that changes with every frame; sums take longer than one.
    this.linking = setTimeout(() => {
      if (!FRAMED) history.replaceState(null, "", toLink(this.view));
      this.tell({ window: [this.view.from, this.view.to] });
      this.sums();
      this.flame();
      this.events.show(this.view);
    }, 200);
  }

  /** @param {number} x in CSS pixels of the canvas */
  timeAt(x) {
    const box = this.painter.layout(this.view).rows;
    return this.view.from + ((x - box.left) / box.width) * (this.view.to - this.view.from);
  }

  /** The lane at a height, or -1. @param {number} y */
  laneAt(y) {
    const { rows, rowHeight } = this.painter.layout(this.view);
    const lane = Math.floor((y - rows.top) / rowHeight + this.view.top);
    return y >= rows.top && y < rows.top + rows.height && lane < this.painter.lanes.lanes.length ? lane : -1;
  }

  listen() {
    const c = this.canvas;
    c.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    c.addEventListener("pointerdown", (event) => this.down(event));
    c.addEventListener("pointermove", (event) => this.move(event));
    c.addEventListener("pointerup", (event) => this.up(event));
    c.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    c.addEventListener("pointerleave", () => this.hover(null));
    c.addEventListener("dblclick", (event) => { zoom(this.trace, this.view, 0.25, this.timeAt(event.offsetX)); this.paint(); });
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("message", (event) => this.hear(event));
    addEventListener("resize", () => this.paint());
    // The column beside can change the width, too.
    new ResizeObserver(() => this.paint()).observe(c);
    addEventListener("hashchange", () => { fromLink(this.trace, this.view, location.hash); this.controls(); this.details(); this.changed(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
      this.painter.dark = event.matches;
      this.answer();
      this.details();
      this.changed();
    });
    const input = /** @type {HTMLInputElement} */ (element("search"));
    input.addEventListener("input", () => this.found(input.value));
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") input.blur();
      if (event.key === "Enter") {
        const task = search(this.trace, input.value, 1)[0];
        if (task !== undefined) { this.follow(task); input.blur(); c.focus(); }
      }
    });
    element("worst").addEventListener("click", () => { const worst = this.worst(); if (worst) this.goWait(worst); });
    element("fit").addEventListener("click", () => { look(this.trace, this.view, 0, this.trace.span); this.paint(); });
    element("flame-button").addEventListener("click", () => this.toggleFlame());
    element("svg").addEventListener("click", () => this.save());
    element("link").addEventListener("click", () => this.copy());
    element("link").hidden = FRAMED;
    element("help").addEventListener("click", () => element("keys").toggleAttribute("hidden"));
  }

  /** Lets rows, order, colours and target be chosen. */
  controls() {
    const { view, trace } = this;
    /** @type {HTMLInputElement} */ (element("events-filter")).value = view.events;
    for (const key of /** @type {("rows"|"order"|"by")[]} */ (["rows", "order", "by"])) {
      const select = /** @type {HTMLSelectElement} */ (element(key === "rows" ? "kind" : key));
      select.value = view[key];
      // Without slices only CPUs have rows.
      select.disabled = key === "rows" && trace.head.fine > 0;
      for (const option of select.options) option.disabled = key !== "order" && !isTold(trace, option.value);
      select.onchange = () => {
        view[key] = select.value;
        if (key === "rows") [view.top, view.rowHeight] = [0, 0];
        this.canvas.focus();
        this.changed();
      };
    }
    const target = /** @type {HTMLInputElement} */ (element("target"));
    target.value = view.target;
    target.oninput = () => { view.target = target.value.trim(); this.changed(); };
    target.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Enter" || event.key === "Escape") this.canvas.focus();
    };
    element("legend").replaceChildren(...legend(trace, this.painter));
  }

  /** Sums by task of what is selected, or of what is seen. */
  sums() {
    const { title, items } = sums(this.trace, this.view, (task) => this.follow(task));
    element("sums-title").textContent = title;
    element("sums").replaceChildren(...items);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    if (event.ctrlKey) this.height(event.deltaY < 0 ? 1.2 : 1 / 1.2);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan(this.trace, this.view, (event.deltaX || event.deltaY) / 1000);
    } else {
      zoom(this.trace, this.view, Math.exp(event.deltaY / 400), this.timeAt(event.offsetX));
    }
    this.paint();
  }

  /** Makes rows higher or lower. @param {number} by */
  height(by) {
    const { rowHeight } = this.painter.layout(this.view);
    this.view.rowHeight = Math.min(200, Math.max(1, rowHeight * by));
    this.scroll(0);
  }

  /** @param {number} rows */
  scroll(rows) {
    const { rows: box, rowHeight } = this.painter.layout(this.view);
    const most = Math.max(0, this.painter.lanes.lanes.length - box.height / rowHeight);
    this.view.top = Math.min(most, Math.max(0, this.view.top + rows));
  }

  /** @param {PointerEvent} event */
  down(event) {
    this.canvas.setPointerCapture?.(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.moved = 0;
    const { mini, lane, waits } = this.painter.layout(this.view);
    this.onWaits = event.offsetY >= waits.top && event.offsetY < waits.top + waits.height;
    this.onMini = event.offsetY < mini.top + mini.height;
    this.onLane = event.offsetY >= lane.top - 1 && event.offsetY <= lane.top + lane.height + 1;
    this.measuring = event.shiftKey;
    if (this.measuring) this.view.measure = [this.timeAt(event.offsetX), this.timeAt(event.offsetX)];
    if (this.onMini) this.jump(event.offsetX);
  }

  /** @param {number} x on the minimap */
  jump(x) {
    const { mini } = this.painter.layout(this.view), half = (this.view.to - this.view.from) / 2;
    const middle = ((x - mini.left) / mini.width) * this.trace.span;
    look(this.trace, this.view, middle - half, middle + half);
    this.paint();
  }

  /** @param {PointerEvent} event */
  move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return this.hover(event);
    const dx = event.offsetX - last.x, dy = event.offsetY - last.y;
    this.moved += Math.abs(dx) + Math.abs(dy);
    const { rows, rowHeight } = this.painter.layout(this.view);
    if (this.onMini) this.jump(event.offsetX);
    else if (this.measuring && this.view.measure) this.view.measure[1] = this.timeAt(event.offsetX);
    else if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const before = Math.max(20, Math.abs(last.x - other.x)), now = Math.max(20, Math.abs(event.offsetX - other.x));
        zoom(this.trace, this.view, before / now, this.timeAt((event.offsetX + other.x) / 2));
      }
    } else {
      pan(this.trace, this.view, -dx / rows.width);
      this.scroll(-dy / rowHeight);
    }
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.paint();
  }

  /** @param {PointerEvent} event */
  up(event) {
    this.pointers.delete(event.pointerId);
    if (this.moved < 4 && !this.onMini) {
      if (this.measuring) this.view.measure = null;
      const { lane } = this.painter.layout(this.view), episode = this.onLane ? episodeAt(this.painter, this.view, lane, event.offsetX) : -1;
      const wait = this.onWaits ? waitAt(this.trace, this.timeAt(event.offsetX)) : undefined;
      if (episode >= 0) this.goTo(episode);
      else if (wait) this.choose(wait.row, wait.slice);
      else {
        const { row, slice } = sliceOn(this.trace, this.painter.lanes, this.laneAt(event.offsetY), this.timeAt(event.offsetX));
        this.choose(row, slice);
      }
    }
    this.paint();
  }

  /** @param {number} row @param {number} slice */
  choose(row, slice) {
    [this.view.row, this.view.slice, this.view.episode] = [row, slice, -1];
    this.view.task = slice <= -2 ? openTask(slice) : slice < 0 ? -1 : this.trace.rows[row].task[slice] || -1;
    this.details();
    this.paint();
  }

  /** Takes in times with their stacks, and lets be chosen which of them are shown. @param {import("./flame.js").Stacks} stacks */
  withStacks(stacks) {
    const time = /** @type {HTMLSelectElement} */ (element("flame-time")), within = /** @type {HTMLSelectElement} */ (element("flame-requests"));
    const times = timesOf(this.trace, stacks), { requests, head } = this.trace;
    if (times.length === 0) return;
    this.stacks = stacks;
    this.shown.time = times[0];
    for (const option of time.options) option.hidden = option.disabled = !times.includes(option.value);
    time.value = times[0];
    time.onchange = () => { this.shown.time = time.value; this.flame(); };
    for (const name of byName(requests).keys()) {
      const title = head.points.names[name];
      within.append(new Option(`within '${title}'`, `${name}`), new Option(`within the slowest 1 % of '${title}'`, `${name} slowest`));
    }
    within.hidden = within.options.length < 2;
    within.onchange = () => {
      const [name, slowest] = within.value.split(" ");
      Object.assign(this.shown, { requests: Number(name), slowest: slowest !== undefined });
      this.flame();
    };
    element("flame-button").hidden = false;
  }

  /** Shows or hides times by stack. */
  toggleFlame() {
    if (!this.stacks) { element("chosen").textContent = "The trace holds no stacks: 'schedlab record --stacks user,kernel' stores them."; return; }
    element("flame").toggleAttribute("hidden");
    this.flame();
  }

  /** The times of the chosen task, or of all, where they are shown. */
  flame() {
    const into = element("flame"), only = this.view.task > 0 ? this.view.task : this.wait()?.task ?? -1;
    if (!this.stacks || into.hidden) return null;
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const root = showFlame(this.trace, this.stacks, this.view, only, this.shown, dark, element("flame-title"), element("flame-boxes"));
    // Commands are at the bottom.
    into.scrollTop = into.scrollHeight;
    return root;
  }

  /** Chooses a task and goes to its first slice. @param {number} task */
  follow(task) {
    const first = nextOf(this.trace, task, -1, 1);
    if (first) this.go(first.row, first.slice);
  }

  /** Chooses a wait and brings it into view. @param {import("./waits.js").Wait} wait */
  goWait(wait) {
    const { from, to } = this.view, length = wait.end - wait.start;
    if (wait.start < from || wait.end > to || length * 50 < to - from) show(this.trace, this.view, wait.start, wait.end, length / 4);
    this.choose(wait.row, wait.slice);
    // Who ran instead must be seen as well as the task itself.
    this.view.task = -1;
    this.reveal(this.chosenLane());
  }

  /** The wait that is chosen, or that ended with the chosen slice. */
  wait() {
    return waitOf(this.trace, this.view.row, this.view.slice);
  }

  /** The lane of what is chosen, -1 for none. */
  chosenLane() {
    return laneOf(this.trace, this.painter.lanes, this.view.row, this.view.slice);
  }

  /** Goes to the next longer wait, or the next shorter one. @param {number} way */
  nextWait(way) {
    const next = nextWait(this.trace, this.wait(), way);
    if (next) this.goWait(next);
    else element("chosen").textContent = longestOf(this.trace).length === 0 ? "Nobody waited for a CPU." : way > 0 ? "This is the longest wait." : "No shorter wait is listed.";
  }

  /** Goes to who woke the task that waits. */
  toWaker() {
    const wait = this.wait(), waker = wait && wakerOf(this.trace, wait);
    if (waker) this.go(waker.row, waker.slice);
    else element("chosen").textContent = wait ? "No task woke it." : "Choose a wait first: w goes to the longest.";
  }

  /** Goes to who ran longest while the task waited. */
  toCulprit() {
    const wait = this.wait(), culprit = wait && ranInstead(this.trace, wait).find(({ task }) => task > 0);
    if (wait && culprit) this.go(wait.queue, culprit.slice);
    else element("chosen").textContent = wait ? "Nobody ran on its CPU meanwhile." : "Choose a wait first: w goes to the longest.";
  }

  /** Chooses a slice and brings it into view. @param {number} row @param {number} slice */
  go(row, slice) {
    const { start, end } = this.trace.rows[row];
    const inside = start[slice] >= this.view.from && end[slice] <= this.view.to;
    if (!inside) show(this.trace, this.view, start[slice], end[slice]);
    this.reveal(laneOf(this.trace, this.painter.lanes, row, slice));
    this.choose(row, slice);
  }

  /** Scrolls a lane into view. @param {number} lane */
  reveal(lane) {
    const { rows, rowHeight } = this.painter.layout(this.view);
    if (lane >= 0 && (lane < this.view.top || lane + 1 > this.view.top + rows.height / rowHeight)) this.scroll(lane - this.view.top - 2);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { view, trace } = this;
    const middle = (view.from + view.to) / 2;
    const chosen = view.row >= 0 && view.slice >= 0 ? trace.rows[view.row].start[view.slice] : this.wait()?.start ?? middle;
    const step = (/** @type {1|-1} */ way) => {
      const task = view.task > 0 ? view.task : this.wait()?.task ?? -1, to = task > 0 ? nextOf(trace, task, chosen, way) : null;
      if (to) this.go(to.row, to.slice);
    };
    const beside = (/** @type {number} */ way) => {
      const row = Math.max(0, view.row), slices = trace.rows[row];
      if (!slices || slices.count === 0) return;
      const slice = view.slice < 0 ? Math.max(0, sliceAt(trace, row, middle)) : view.slice + way;
      this.go(row, Math.min(Math.max(slice, 0), slices.count - 1));
    };
    const toRow = (/** @type {number} */ way) => {
      const { lanes } = this.painter, now = laneOf(trace, lanes, view.row, view.slice);
      const lane = Math.min(Math.max(now + way, 0), lanes.lanes.length - 1), of = lanes.lanes[lane];
      if (!of) return;
      const row = trace.rows[of.row];
      // What runs there then, or what runs next.
      const next = row ? { row: of.row, slice: Math.min(after(row, chosen), row.count - 1) } : nextOf(trace, of.tasks[0], chosen - 1, 1) ?? nextOf(trace, of.tasks[0], chosen, -1);
      if (!next) return;
      this.choose(next.row, next.slice);
      this.reveal(lane);
    };
    const page = (/** @type {number} */ way) => {
      const { rows, rowHeight } = this.painter.layout(view);
      this.scroll((way * 0.9 * rows.height) / rowHeight);
    };
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => pan(trace, view, -0.1), ArrowRight: () => pan(trace, view, 0.1),
      "+": () => zoom(trace, view, 0.7, chosen), "=": () => zoom(trace, view, 0.7, chosen),
      "-": () => zoom(trace, view, 1 / 0.7, chosen),
      ArrowUp: () => toRow(-1), ArrowDown: () => toRow(1), PageUp: () => page(-1), PageDown: () => page(1),
      "[": () => beside(-1), "]": () => beside(1),
      n: () => step(1), p: () => step(-1),
      w: () => this.nextWait(event.shiftKey ? -1 : 1), W: () => this.nextWait(-1),
      "(": () => this.height(1 / 1.2), ")": () => this.height(1.2),
      o: () => this.tell({ chosen }),
      u: () => this.toWaker(), c: () => this.toCulprit(),
      a: () => { const worst = this.worst(); if (worst) this.goWait(worst); },
      f: () => look(trace, view, 0, trace.span), Home: () => look(trace, view, 0, trace.span),
      m: () => { view.measure = view.measure && view.measure[0] === view.measure[1] ? [view.measure[0], chosen] : [chosen, chosen]; },
      k: () => this.point(1), K: () => this.point(-1),
      v: () => this.episode(event.shiftKey ? -1 : 1), V: () => this.episode(-1),
      e: () => this.save(), l: () => this.copy(), i: () => this.toggleFlame(),
      "/": () => element("search").focus(), "?": () => element("keys").toggleAttribute("hidden"),
      Escape: () => {
        if (!element("keys").hidden) { element("keys").hidden = true; return; }
        if (!element("flame").hidden) { element("flame").hidden = true; return; }
        view.measure = null;
        view.episode = -1;
        this.choose(-1, -1);
      },
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    // Where letters are typed, or arrows choose, they mean that. A button that was clicked wants neither.
    if (!action || (event.target instanceof HTMLElement && event.target.closest("input,select,a"))) return;
    event.preventDefault();
    action();
    this.paint();
  }

  /** From where the next place is sought: the one that was gone to, until the view moves; then the
   * window's begin, backwards its end. @param {number} way */
  since(way) {
    const { from, to } = this.view;
    if (this.last?.from === from && this.last.to === to) return this.last.time;
    return way > 0 ? from - 1 : to + 1;
  }

  /** Goes to the next mark or tracepoint of any row. @param {number} way */
  point(way) {
    const from = this.since(way);
    let best = { row: -1, point: -1, time: way * Infinity };
    this.trace.rows.forEach(({ points: { time } }, row) => {
      let low = 0, high = time.length;
      while (low < high) {
        const half = (low + high) >> 1;
        if (way > 0 ? time[half] > from : time[half] >= from) high = half; else low = half + 1;
      }
      const point = way > 0 ? low : low - 1;
      if (point >= 0 && point < time.length && way * (time[point] - best.time) < 0) best = { row, point, time: time[point] };
    });
    if (best.row < 0) return;
    show(this.trace, this.view, best.time, best.time);
    this.last = { time: best.time, from: this.view.from, to: this.view.to };
    this.choose(best.row, sliceAt(this.trace, best.row, best.time));
    const chosen = element("chosen");
    chosen.textContent = `${pointText(this.trace, this.trace.rows[best.row], best.point)}\n${this.view.slice >= 0 ? chosen.textContent : ""}`.trim();
  }

  /** Goes to the next episode. @param {number} way */
  episode(way) {
    const from = this.since(way), list = this.trace.head.episodes;
    const next = way > 0 ? list.findIndex((note) => note.start > from) : list.findLastIndex((note) => note.start < from);
    if (next >= 0) this.goTo(next);
  }

  /** Goes to an event of the list. @param {import("./events.js").Item} item */
  toEvent({ time, row, slice, text }) {
    const { view } = this, { from, to } = view;
    // The window moves only where the event lies outside.
    if (time < from || time >= to) show(this.trace, view, time, time);
    this.choose(row, slice >= 0 ? slice : sliceAt(this.trace, row, time));
    this.reveal(laneOf(this.trace, this.painter.lanes, view.row, view.slice));
    if (view.slice < 0) element("chosen").textContent = text;
    this.paint();
  }

  /** Chooses an episode and goes there. @param {number} episode its place in the list */
  goTo(episode) {
    const note = this.trace.head.episodes[episode];
    // Close enough that it is an eighth of what is seen.
    show(this.trace, this.view, note.start, note.end, 4 * (note.end - note.start));
    this.last = { time: note.start, from: this.view.from, to: this.view.to };
    const row = this.trace.rows.findIndex((row) => row.cpu === note.cpu);
    if (row >= 0) this.choose(row, sliceAt(this.trace, row, note.start));
    this.view.episode = episode;
    const { lanes } = this.painter;
    this.reveal(lanes.kind === "cpu" ? lanes.ofRow[row] ?? -1 : lanes.ofTask[note.story?.task ?? 0]);
    this.details();
    this.paint();
  }

  /** @param {PointerEvent|null} event */
  hover(event) {
    const tip = element("tip");
    const lane = event ? this.laneAt(event.offsetY) : -1;
    if (!event || lane < 0) { tip.hidden = true; return; }
    const time = this.timeAt(event.offsetX), { row, slice } = sliceOn(this.trace, this.painter.lanes, lane, time);
    const room = (4 * (this.view.to - this.view.from)) / this.painter.layout(this.view).rows.width;
    const slices = this.painter.lanes.lanes[lane].row >= 0 ? this.trace.rows[row] : undefined, point = slices ? pointAt(slices, time, room) : -1;
    const open = waitOf(this.trace, row, slice);
    const lines = slice >= 0 ? this.describe(row, slice) : open ? [`${taskName(this.trace, open.task)} still waits after ${duration(open.end - open.start)}`] : [];
    const { requests: own } = this.painter.lanes.lanes[lane], { requests } = this.trace, request = own ? requestAt(requests, own, time) : -1;
    if (request >= 0) lines.unshift(`${this.trace.head.points.names[requests.name[request]]}: ${duration(requests.end[request] - requests.start[request])} from ${((requests.start[request] + this.trace.head.shift) / 1e6).toFixed(6)} ms, ended by ${taskName(this.trace, requests.task[request])}`);
    if (slices && point >= 0) lines.unshift(pointText(this.trace, slices, point));
    if (slices) lines.push(...powerText(slices.power, time, room));
    if (slices && slice < 0 && this.trace.head.fine > 0) lines.push(this.column(slices, time));
    tip.hidden = lines.length === 0;
    if (tip.hidden) return;
    tip.textContent = lines.join("\n");
    // Beside the pointer, and within the picture.
    const { offsetWidth: width, offsetHeight: height } = tip, { clientWidth, clientHeight } = this.canvas;
    tip.style.left = Math.max(0, Math.min(event.offsetX + 14, clientWidth - width - 4)) + "px";
    tip.style.top = (event.offsetY + 18 + height < clientHeight ? event.offsetY + 14 : Math.max(0, event.offsetY - height - 10)) + "px";
  }

  /** What a page without slices knows of a place. @param {import("./data.js").Row} row @param {number} time */
  column({ cpu, share, top }, time) {
    const i = Math.min(share.length - 1, Math.floor((time / Math.max(this.trace.span, 1)) * share.length));
    const busy = Math.round((share[i] / 255) * 100), width = duration(this.trace.span / share.length);
    return `CPU ${cpu} busy ${busy} % of ${width}` + (share[i] > 0 ? `, longest with ${taskName(this.trace, top[i])}` : "");
  }

  /** What is known about a slice, a line each. @param {number} row @param {number} slice */
  describe(row, slice) {
    const slices = this.trace.rows[row], wait = slices.wait[slice];
    const lines = [taskName(this.trace, slices.task[slice]) + ` on CPU ${slices.cpu}`];
    const ran = slices.end[slice] - slices.start[slice];
    lines.push(`ran ${duration(ran)} (${ran} ns) from ${((slices.start[slice] + this.trace.head.shift) / 1e6).toFixed(6)} ms, then ${LEFT[slices.left[slice]]}`);
    if (wait > 0) {
      const waker = slices.waker[slice];
      lines.push(`waited ${duration(wait)} (${wait} ns) before` + (waker > 0 ? `, woken by ${taskName(this.trace, waker)}` : ""));
    }
    return lines;
  }

  details() {
    const { row, slice, task, episode } = this.view, note = this.trace.head.episodes[episode];
    const wait = this.wait(), lines = row >= 0 && slice >= 0 ? this.describe(row, slice) : wait ? [`${taskName(this.trace, wait.task)} has not run since`] : [];
    this.name(lines[0]);
    element("wait").replaceChildren(...(wait ? explained(this.trace, this.painter.dark, wait, (task) => this.follow(task)) : []));
    if (note) lines.push("", `Episode of ${duration(note.end - note.start)} on CPU ${note.cpu}` + (note.story ? `, ${duration(note.story.cost)} of CPU time lost` : ""), note.text);
    element("chosen").textContent = lines.length > 0 ? lines.join("\n").trim() : task > 0 ? taskName(this.trace, task) : this.trace.head.fine > 0 ? "This page shows columns: the trace is too large for all its slices. 'schedlab view --from --to' shows a part with all." : matchMedia("(pointer: coarse)").matches ? "Tap a slice to choose it." : "Click a slice, or press ] to choose one.";
  }

  /** Tells readers of screens the rows, and which one has what is chosen. @param {string|undefined} chosen */
  name(chosen) {
    const { kind, lanes } = this.painter.lanes, lane = this.chosenLane(), of = kind === "cpu" ? "CPUs" : kind === "group" ? "control groups" : kind === "process" ? "processes" : `${kind}s`;
    const row = lane >= 0 ? ` Row ${lane + 1}, ${lanes[lane].name}.` : "", what = chosen ? ` Chosen: ${chosen}.` : "";
    this.canvas.setAttribute("aria-label", `${lanes.length} rows of ${of} over time.${row}${what} The ? button lists the keys.`);
  }

  /** @param {string} text */
  found(text) {
    const list = element("found"), tasks = search(this.trace, text, 30);
    list.replaceChildren(...tasks.map((task) => entry(taskName(this.trace, task), () => this.follow(task))));
    if (tasks.length === 0 && text.trim() !== "") {
      const nobody = document.createElement("li");
      nobody.textContent = `No task has '${text.trim()}' in its name or as its pid.`;
      list.append(nobody);
    }
  }

  lists() {
    const { head } = this.trace, notes = head.episodes;
    // What cost most comes first; a few nanoseconds are no place to begin.
    const cost = (/** @type {number} */ place) => notes[place].story?.cost ?? 0;
    const costliest = [...notes.keys()].sort((a, b) => cost(b) - cost(a) || a - b);
    element("episodes").replaceChildren(...costliest.map((place) => entry(`${((notes[place].start + head.shift) / 1e6).toFixed(3)} ms  ${notes[place].text}`, () => this.goTo(place))));
    element("episode-count").textContent = `Episodes of lost CPU time: ${head.episodesCount}` + (notes.length < head.episodesCount ? `, the ${notes.length} costliest:` : "");
    const { counts, leftOut } = head.points, marks = counts.reduce((sum, count) => sum + count, 0);
    element("point-count").hidden = marks === 0;
    element("point-count").textContent = `Marks and tracepoints: ${marks}` + (leftOut > 0 ? `, without the ${leftOut} last` : "") + " (k, K: next, previous)";
  }

  /** Lists the longest waits. */
  waits() {
    element("waits").replaceChildren(...waitList(this.trace, 40, (wait) => this.goWait(wait)));
  }

  svg() {
    return toSvg(this.painter, this.view, Math.round(this.painter.layout(this.view).rows.width));
  }

  save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.svg()], { type: "image/svg+xml" }));
    link.download = "schedlab.svg";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  copy() {
    if (FRAMED) return;
    history.replaceState(null, "", toLink(this.view));
    navigator.clipboard?.writeText(location.href).catch(() => {});
    element("chosen").textContent = "The address of this page now restores this view.";
  }
}

/** Lets the browser do what waits: input, a frame. */
const breathe = () => new Promise((done) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => { port1.close(); done(undefined); };
  port2.postMessage(0);
});

/** The next frame that was painted, or a little later where frames are not wanted (in the background). */
const painted = () => new Promise((done) => {
  requestAnimationFrame(() => setTimeout(done, 0));
  setTimeout(done, 500);
});

/** The text of an element that the document may still be getting. @param {() => Element|null|undefined} find */
async function whenThere(find) {
  for (let found; ; await new Promise((done) => setTimeout(done, 2))) {
    found = find();
    // An element is whole once something follows it.
    if (found && (found.nextElementSibling || document.readyState !== "loading")) {
      const text = found.textContent ?? "";
      found.textContent = "";
      return text;
    }
    if (!found && document.readyState !== "loading") throw new Error("the file was cut: a part of its data is missing");
  }
}

/** Shows the coarse picture, then takes in part after part. */
async function start() {
  const head = /** @type {import("./data.js").Head} */ (JSON.parse(element("head").textContent ?? ""));
  const trace = outline(head, await unpack(await whenThere(() => element("coarse"))));
  const page = new Page(trace), totals = new Totals(trace);
  Object.assign(window, { schedlabPage: page });
  await painted();
  document.body.dataset.first = String(Math.round(performance.now()));
  readPoints(trace, await unpack(await whenThere(() => element("points"))));
  readPower(trace, await unpack(await whenThere(() => element("power"))));
  trace.requests = readRequests(trace, await unpack(await whenThere(() => element("requests"))));
  page.withStacks(readStacks(trace, await unpack(await whenThere(() => element("stacks")))));
  const parts = document.getElementsByClassName("part");
  let shown = performance.now(), breathed = shown;
  for (const [index, [row, count, bytes]] of head.parts.entries()) {
    const slices = await unpack(await whenThere(() => parts[index]));
    if (slices.length !== bytes) throw new Error(`part ${index} of the data is damaged`);
    if (head.fine > 0) fineColumns(trace, row, slices, count);
    else {
      const into = trace.rows[row], before = into.count;
      append(into, slices, count);
      totals.add(trace, into, before, into.count);
    }
    const now = performance.now();
    if (now - shown > 250) {
      page.grown(index / head.parts.length);
      shown = now;
    }
    if (now - breathed > 6) {
      await breathe();
      breathed = performance.now();
    }
  }
  totals.open(trace);
  trace.sums ??= totals.sums();
  document.body.dataset.ready = String(Math.round(performance.now()));
  page.grown(1);
}

start().catch((error) => {
  element("chosen").textContent = `This page could not be opened: ${error}. It needs a browser of 2023 or later.`;
});
