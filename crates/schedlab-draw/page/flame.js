// @ts-check
// The flame graph of time off and on the CPU: of a task, of requests or of all, in what is shown or chosen.
import { Numbers, after, duration, taskName } from "./data.js";
import { indexOf } from "./lanes.js";
import { inkOn } from "./paint.js";
import { firstFrom } from "./points.js";
import { byName, slowest } from "./requests.js";
import { causeTitle, openAs, partsOf, waitOf } from "./waits.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 *
 * Stacks are the places of their frames' names. Wakers: 0 to 2 are those of WAKERS, tasks come behind them; their stacks are one
 * more than their places, and 0 without one.
 * @typedef {{names: string[], stacks: number[][],
 *   sleeps: Timed, stack: Uint32Array, blocked: Float64Array, waited: Float64Array, waker: Uint32Array, wakerStack: Uint32Array,
 *   waits: Timed, length: Float64Array, why: Uint32Array, ticks: Timed, ran: Uint32Array}} Stacks
 * `waits` followed no sleep; `why` is a place in UNSLEPT. `ran` are the stacks of ticks.
 *
 * Which time is shown (an entry of TIMES), and within the requests of which name: -1 for all time.
 * @typedef {{time: string, requests: number, slowest: boolean}} Shown
 *
 * @typedef {{task: number, from: number, to: number}} Window of a task, or of all where it is negative
 * @typedef {{name: string, time: number, ticks: number, kind: string, cause: number, called: Map<string, Frame>}} Frame
 */

/** What can be shown. */
export const TIMES = ["off", "wakers", "causes", "running"];

/** Boxes of a picture at most, and the narrowest as a part of its width. */
const BOXES_MAX = 3_000, NARROWEST = 0.002;
/** The height of a box in pixels. */
const ROW = 17;
const RUN_DELAY = "[run delay]", NO_STACK = "[no stack]", NO_TICK = "[no tick]", UNKNOWN = [NO_STACK, NO_TICK, "[cut]"];
/** Who ended a sleep, if not a task. */
const WAKERS = ["somebody", "an interrupt", "nobody before the end"];
/** Why a task waited without a sleep; of the first its sleep was not seen. */
const UNSLEPT = [NO_STACK, "[displaced]", "[yielded]", "[new]"];

/** What began when, and of which task. */
class Timed {
  /** @param {Float64Array} since in order @param {Uint32Array} task */
  constructor(since, task) {
    this.since = since;
    this.task = task;
    this.longest = 0;
    /** By task: the places. @type {Map<number, {places: number[], since: number[]}>|null} */
    this.own = null;
  }

  /** @param {number} task */
  of(task) {
    if (!this.own) {
      this.own = new Map();
      for (let i = 0; i < this.task.length; i++) {
        const own = this.own.get(this.task[i]) ?? { places: [], since: [] };
        own.places.push(i);
        own.since.push(this.since[i]);
        this.own.set(this.task[i], own);
      }
    }
    return this.own.get(task) ?? { places: [], since: [] };
  }

  /** Calls with the place of each that may reach into a window. @param {Window} window @param {(place: number) => void} call */
  within({ task, from, to }, call) {
    const own = task < 0 ? null : this.of(task), since = own?.since ?? this.since;
    for (let i = firstFrom(since, from - this.longest); i < since.length && since[i] < to; i++) call(own ? own.places[i] : i);
  }
}

/** @param {Trace} trace @param {Uint8Array} bytes @returns {Stacks} */
export function readStacks({ head }, bytes) {
  const numbers = new Numbers(bytes), { flame } = head;
  /** @type {number[][]} */
  const stacks = [];
  for (let i = 0; i < flame.stacks; i++) stacks.push(Array.from({ length: numbers.next() }, () => numbers.next()));
  const whole = (/** @type {number} */ n) => Uint32Array.from({ length: n }, () => numbers.next());
  const times = (/** @type {number} */ n) => Float64Array.from({ length: n }, () => numbers.next());
  const begins = (/** @type {number} */ n) => { let time = 0; return Float64Array.from({ length: n }, () => (time += numbers.next())); };
  const slept = begins(flame.sleeps), stack = whole(flame.sleeps), sleeps = new Timed(slept, whole(flame.sleeps));
  const blocked = times(flame.sleeps), waited = times(flame.sleeps), waker = whole(flame.sleeps), wakerStack = whole(flame.sleeps);
  const waits = new Timed(begins(flame.waits), whole(flame.waits)), length = times(flame.waits), why = whole(flame.waits);
  const ticks = new Timed(begins(flame.ticks), whole(flame.ticks)), ran = whole(flame.ticks);
  for (let i = 0; i < blocked.length; i++) sleeps.longest = Math.max(sleeps.longest, blocked[i] + waited[i]);
  for (let i = 0; i < length.length; i++) waits.longest = Math.max(waits.longest, length[i]);
  return { names: new TextDecoder().decode(bytes.subarray(numbers.at)).split("\n"), stacks, sleeps, stack, blocked, waited, waker, wakerStack, waits, length, why, ticks, ran };
}

/** The slices of tasks in order of time; of an index that stays, they are ordered once. */
class InOrder {
  /** @param {Trace} trace */
  constructor(trace) {
    this.rows = trace.rows;
    this.index = indexOf(trace);
    /** @type {Map<number, number[]>} */
    this.known = ORDERED.get(this.index) ?? new Map();
    ORDERED.set(this.index, this.known);
  }

  /** The places of a task's slices in the index. @param {number} task */
  of(task) {
    const found = this.known.get(task);
    if (found) return found;
    const places = Array.from({ length: this.index.first[task + 1] - this.index.first[task] }, (_, i) => this.index.first[task] + i);
    places.sort((a, b) => this.start(a) - this.start(b));
    this.known.set(task, places);
    return places;
  }

  /** @param {number} place */
  start(place) {
    return this.rows[this.index.row[place]].start[this.index.slice[place]];
  }

  /** @param {number} place */
  end(place) {
    return this.rows[this.index.row[place]].end[this.index.slice[place]];
  }
}

/** @type {WeakMap<import("./lanes.js").Index, Map<number, number[]>>} */
const ORDERED = new WeakMap();

/** The first place of ascending ones for which something holds. @param {number[]} places @param {(place: number) => boolean} holds */
function firstOf(places, holds) {
  let low = 0;
  for (let high = places.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (holds(places[middle])) high = middle; else low = middle + 1;
  }
  return low;
}

/** The causes of a part of a wait, with times: none where it is not all and has several. @param {Trace} trace @param {InOrder} slices
 * @param {number} task @param {number} end of the wait @param {number} part of it @returns {[number, number][]} */
function causesOf(trace, slices, task, end, part) {
  const places = slices.of(task), place = places[firstOf(places, (at) => slices.start(at) >= end)], { row, slice } = slices.index;
  const ran = place !== undefined && slices.start(place) === end, wait = ran ? waitOf(trace, row[place], slice[place]) : waitOf(trace, -1, openAs(task));
  if (!wait || wait.end !== end) return [];
  const parts = partsOf(trace, wait);
  if (parts.length === 1) return [[parts[0][0], part]];
  return part === wait.end - wait.start ? parts : [];
}

/** @param {string} name @param {string} kind @param {number} cause @returns {Frame} */
const frameOf = (name, kind, cause = 0) => ({ name, time: 0, ticks: 0, kind, cause, called: new Map() });

/** The frame that stands on another, with more time. @param {Frame} of @param {string} name @param {number} time @param {string} kind
 * @param {number} cause @param {number} ticks */
function on(of, name, time, kind = of.kind === "waker" ? "waker" : "", cause = 0, ticks = 0) {
  const frame = of.called.get(name) ?? frameOf(name, kind, cause);
  of.called.set(name, frame);
  frame.time += time;
  frame.ticks += ticks;
  return frame;
}

/** Time off the CPU. @param {Trace} trace @param {Stacks} of @param {string} time which @param {Window[]} windows */
function offCpu(trace, of, time, windows) {
  const { names, stacks, sleeps, stack, blocked, waited, waker, wakerStack, waits, length, why } = of, { head } = trace, root = frameOf("", "");
  const slices = time === "causes" ? new InOrder(trace) : null;
  const put = (/** @type {Frame} */ frame, /** @type {number} */ task, /** @type {number} */ end, /** @type {number} */ part) => {
    if (slices) for (const [cause, share] of causesOf(trace, slices, task, end, part)) on(frame, causeTitle(trace, cause), share, "cause", cause);
  };
  for (const window of windows) {
    const within = (/** @type {number} */ a, /** @type {number} */ b) => Math.max(0, Math.min(b, window.to) - Math.max(a, window.from));
    sleeps.within(window, (i) => {
      const since = sleeps.since[i], woken = since + blocked[i], task = sleeps.task[i], asleep = within(since, woken), wait = within(woken, woken + waited[i]);
      if (asleep + wait <= 0) return;
      root.time += asleep + wait;
      let frame = on(root, head.tasks[task][1], asleep + wait, "command");
      for (const place of stacks[stack[i]]) frame = on(frame, names[place], asleep + wait);
      if (wait > 0) put(on(frame, RUN_DELAY, wait, "delay"), task, woken + waited[i], wait);
      if (time !== "wakers" || asleep <= 0) return;
      const by = waker[i];
      frame = on(frame, `woken by ${WAKERS[by] ?? head.tasks[by - WAKERS.length][1]}`, asleep, "waker");
      if (wakerStack[i] > 0) for (const place of stacks[wakerStack[i] - 1]) frame = on(frame, names[place], asleep);
    });
    if (time === "causes") waits.within(window, (i) => {
      const since = waits.since[i], end = since + length[i], wait = within(since, end), task = waits.task[i], what = UNSLEPT[why[i]];
      if (wait <= 0) return;
      root.time += wait;
      const command = on(root, head.tasks[task][1], wait, "command");
      put(why[i] > 0 ? on(command, what, wait, "delay") : on(on(command, what, wait), RUN_DELAY, wait, "delay"), task, end, wait);
    });
  }
  return root;
}

/** Time on the CPU, which is divided as ticks are. @param {Trace} trace @param {Stacks} of @param {Window[]} windows */
function onCpu(trace, { names, stacks, ticks, ran }, windows) {
  const { rows, head } = trace, root = frameOf("", ""), times = new Map();
  /** @type {InOrder|null} */
  let slices = null;
  /** By task: how many ticks met each stack. @type {Map<number, Map<number, number>>} */
  const met = new Map();
  for (const window of windows) {
    const { task, from, to } = window;
    const add = (/** @type {import("./data.js").Row} */ row, /** @type {number} */ i) => {
      const time = Math.min(row.end[i], to) - Math.max(row.start[i], from);
      if (time > 0 && row.task[i] > 0) times.set(row.task[i], (times.get(row.task[i]) ?? 0) + time);
    };
    if (task < 0) for (const row of rows) for (let i = after(row, from); i < row.count && row.start[i] < to; i++) add(row, i);
    else {
      const order = slices ??= new InOrder(trace), places = order.of(task), { row, slice } = order.index;
      for (let i = firstOf(places, (at) => order.end(at) > from); i < places.length && order.start(places[i]) < to; i++) add(rows[row[places[i]]], slice[places[i]]);
    }
    ticks.within(window, (i) => {
      const own = met.get(ticks.task[i]) ?? new Map();
      own.set(ran[i], (own.get(ran[i]) ?? 0) + 1);
      met.set(ticks.task[i], own);
    });
  }
  for (const [task, time] of times) {
    const own = met.get(task) ?? new Map(), all = [...own.values()].reduce((sum, count) => sum + count, 0);
    root.time += time;
    root.ticks += all;
    const command = on(root, head.tasks[task][1], time, "command", 0, all);
    if (all === 0) on(command, NO_TICK, time);
    for (const [stack, count] of own) {
      let frame = command;
      for (const place of stacks[stack]) frame = on(frame, names[place], (time * count) / all, "", 0, count);
    }
  }
  return root;
}

/** A tint for a name, the same in every picture. @param {string} name */
function tintOf(name) {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619) >>> 0;
  return 25 + ((hash >>> 8) & 7) * 5;
}

/** The windows of a task, of requests, or of all. @param {Trace} trace @param {Shown} shown @param {number} only @param {number} from @param {number} to
 * @returns {Window[]} */
function windowsOf({ requests }, shown, only, from, to) {
  if (shown.requests < 0) return [{ task: only, from, to }];
  const all = byName(requests).get(shown.requests) ?? [], places = shown.slowest ? slowest(requests, all) : all;
  const seen = places.filter((i) => requests.start[i] < to && requests.end[i] > from && (only < 0 || requests.task[i] === only));
  return seen.map((i) => ({ task: requests.task[i], from: Math.max(from, requests.start[i]), to: Math.min(to, requests.end[i]) }));
}

/** What the picture shows, in a line. @param {Trace} trace @param {Shown} shown @param {Frame} root @param {number} windows how many
 * @param {number} only @param {string} looked */
function titleOf(trace, shown, root, windows, only, looked) {
  const { leftOut } = trace.head.flame, running = shown.time === "running", slow = shown.slowest ? " of the slowest 1 %" : "";
  const within = shown.requests < 0 ? "" : ` within ${windows}${slow} '${trace.head.points.names[shown.requests]}'`;
  const left = (/** @type {number} */ count, /** @type {string} */ what) => (count > 0 ? `; ${count} later ${what} are not in the page` : "");
  const divided = running ? `, divided by ${root.ticks} ticks` : "";
  const gone = running ? left(leftOut[2], "ticks") : left(leftOut[0], "sleeps") + (shown.time === "causes" ? left(leftOut[1], "waits") : "");
  return `${duration(root.time)} of ${only >= 0 ? taskName(trace, only) : "all tasks"}${within} in ${looked}${divided}${gone}`;
}

/** The ways in which time can be shown, for the choice of one. @param {Trace} trace @param {Stacks} of @returns {string[]} */
export function timesOf({ head }, of) {
  const off = of.blocked.length > 0, slices = head.fine === 0;
  return TIMES.filter((time) => (time === "running" ? slices && of.ran.length > 0 : off && (time !== "causes" || (slices && head.causes.length > 0))));
}

/**
 * Shows the flame graph of a task, or of all where it is negative; what was chosen comes before what is seen.
 * @param {Trace} trace @param {Stacks} of @param {import("./view.js").View} view @param {number} only @param {Shown} shown
 * @param {boolean} dark @param {HTMLElement} title @param {HTMLElement} picture @returns {Frame} all of it
 */
export function showFlame(trace, of, view, only, shown, dark, title, picture) {
  const [a, b] = view.measure ?? [view.from, view.to], from = Math.min(a, b), to = Math.max(a, b);
  const windows = windowsOf(trace, shown, only, from, to), root = shown.time === "running" ? onCpu(trace, of, windows) : offCpu(trace, of, shown.time, windows);
  title.textContent = titleOf(trace, shown, root, windows.length, only, `${duration(to - from)}${view.measure ? " chosen" : " shown"}`);
  /** @type {{frame: Frame, level: number, left: number}[]} */
  const boxes = [];
  const place = (/** @type {Frame} */ on, /** @type {number} */ level, /** @type {number} */ left) => {
    for (const frame of [...on.called.values()].sort((x, y) => y.time - x.time)) {
      if (frame.time < root.time * NARROWEST || boxes.length >= BOXES_MAX) continue;
      boxes.push({ frame, level, left });
      place(frame, level + 1, left);
      left += frame.time / root.time;
    }
  };
  place(root, 0, 0);
  const levels = boxes.reduce((most, { level }) => Math.max(most, level + 1), 1);
  picture.style.height = `${levels * ROW}px`;
  picture.replaceChildren(...boxes.map(({ frame, level, left }) => {
    const box = document.createElement("div"), part = frame.time / root.time;
    box.textContent = frame.name;
    box.title = `${frame.name}: ${duration(frame.time)}, ${(100 * part).toFixed(1)} %` + (frame.ticks > 0 ? `, ${frame.ticks} ticks` : "");
    box.style.cssText = `left:${100 * left}%;width:${100 * part}%;bottom:${level * ROW}px`;
    box.className = UNKNOWN.includes(frame.name) ? "unknown" : frame.kind;
    if (frame.kind === "cause") {
      const { light, dark: night } = trace.head.causes[frame.cause - 1], colour = dark ? night : light;
      [box.style.background, box.style.color] = [colour, inkOn(parseInt(colour.slice(1), 16))];
    } else box.style.setProperty("--tint", `${tintOf(frame.name)}%`);
    return box;
  }));
  return root;
}
