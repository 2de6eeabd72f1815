// @ts-check
// The column beside the picture: what is chosen, sums by task, what colours mean, episodes, waits.
import { after, duration, taskName } from "./data.js";
import { DOING, WAITS, groupName } from "./lanes.js";
import { causeTitle, decisionOf, fillCause, hasCulprit, interruptsIn, longestOf, partsOf, ranInstead, summedBy, waitText } from "./waits.js";
import { frequencyName } from "./power.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 * @typedef {import("./view.js").View} View
 */

/** Sums by task take at most so many slices at one go: about a quarter of a second. */
const SLICES_MAX = 20_000_000;
/** The legend of the dotted line, whose sample is dotted too. */
const DOTTED = "the number of CPUs";
/** Entries of the table of sums. */
const SUMS_MAX = 14;

/** A button in a list, perhaps with a swatch. @param {string} text @param {() => void} action @param {string} [colour] */
export function entry(text, action, colour) {
  const item = document.createElement("li"), button = document.createElement("button");
  button.textContent = text;
  button.addEventListener("click", action);
  if (colour !== undefined) button.prepend(swatch(colour));
  item.append(button);
  return item;
}

/** @param {string} colour */
function swatch(colour) {
  const box = document.createElement("i");
  box.className = "swatch";
  box.style.background = box.style.color = colour;
  return box;
}

/** A swatch with the pattern of a cause. @param {Trace} trace @param {boolean} dark @param {number} cause */
function causeSwatch(trace, dark, cause) {
  const box = document.createElement("canvas");
  box.className = "swatch";
  [box.width, box.height] = [22, 16];
  fillCause(/** @type {CanvasRenderingContext2D} */ (box.getContext("2d")), trace, dark, cause, { left: 0, top: 0, width: 22, height: 16 });
  return box;
}

/** @param {number} rgb */
export const hexOf = (rgb) => `#${rgb.toString(16).padStart(6, "0")}`;

/**
 * Time run and waited by task in a window; `null` where it has too many slices. Waits count where they
 * ended with running.
 * @param {Trace} trace @param {number} from @param {number} to
 */
function sumsOf(trace, from, to) {
  if (from <= 0 && to >= trace.span) return { ran: trace.ran, waited: trace.waited };
  const ran = new Float64Array(trace.ran.length), waited = new Float64Array(trace.ran.length);
  if (trace.head.fine > 0) {
    for (const { share, top } of trace.rows) {
      const width = Math.max(trace.span, 1) / share.length;
      for (let i = Math.floor(from / width); i < share.length && i * width < to; i++) {
        const part = Math.min(to, (i + 1) * width) - Math.max(from, i * width);
        ran[top[i]] += (share[i] / 255) * Math.max(0, part);
      }
    }
    return { ran, waited };
  }
  const ends = trace.rows.map((row) => [after(row, from), Math.min(after(row, to) + 2, row.count)]);
  if (ends.reduce((sum, [first, end]) => sum + end - first, 0) > SLICES_MAX) return null;
  trace.rows.forEach(({ start, end, task, wait }, r) => {
    for (let i = ends[r][0]; i < ends[r][1]; i++) {
      ran[task[i]] += Math.max(0, Math.min(end[i], to) - Math.max(start[i], from));
      if (wait[i] > 0) waited[task[i]] += Math.max(0, Math.min(start[i], to) - Math.max(start[i] - wait[i], from));
    }
  });
  return { ran, waited };
}

/**
 * The sums of the selection, or of what is seen, by what decides colours; so it is the legend, too.
 * @param {Trace} trace @param {View} view @param {(task: number) => void} follow
 * @returns {{title: string, items: HTMLElement[]}}
 */
export function sums(trace, view, follow) {
  const [a, b] = view.measure ?? [view.from, view.to], from = Math.min(a, b), to = Math.max(a, b);
  const chosen = view.measure !== null && to > from;
  const title = chosen ? `In the selection of ${duration(to - from)}` : `In the ${duration(view.to - view.from)} shown`;
  const found = chosen ? sumsOf(trace, from, to) : sumsOf(trace, view.from, view.to);
  if (!found) return { title: `${title}: too much to sum up; look closer`, items: [] };
  // By how much the kernel counted otherwise is known of the whole trace alone.
  const ends = chosen ? [from, to] : [view.from, view.to], isWhole = ends[0] <= 0 && ends[1] >= trace.span;
  const off = new Map(isWhole ? trace.head.off.map(([task, ...times]) => [task, times]) : []);
  const told = (/** @type {number} */ time, /** @type {number} */ apart) => duration(time) + (apart > 0 ? ` ± ${duration(apart)}` : "");
  /** @type {Map<string, {task: number, ran: number, waited: number, most: number, off: number[]}>} */
  const groups = new Map();
  found.ran.forEach((ran, task) => {
    const waited = found.waited[task], name = groupName(trace, task, view.by);
    if (ran + waited <= 0) return;
    const group = groups.get(name) ?? { task, ran: 0, waited: 0, most: -1, off: [0, 0] };
    if (ran > group.most) [group.task, group.most] = [task, ran];
    group.ran += ran;
    group.waited += waited;
    group.off = group.off.map((apart, i) => apart + (off.get(task)?.[i] ?? 0));
    groups.set(name, group);
  });
  const order = [...groups].sort(([, a], [, b]) => b.ran - a.ran || b.waited - a.waited);
  const items = order.slice(0, SUMS_MAX).map(([name, { task, ran, waited, off: apart }]) =>
    entry(`${name}  ${told(ran, apart[0])}` + (waited > 0 ? `, waited ${told(waited, apart[1])}` : ""), () => { if (task > 0) follow(task); }, hexOf(trace.colours[task])));
  if (order.length > SUMS_MAX) {
    const rest = order.slice(SUMS_MAX).reduce((sum, [, group]) => sum + group.ran, 0), item = document.createElement("li");
    item.textContent = `and ${order.length - SUMS_MAX} more, ${duration(rest)}`;
    items.push(item);
  }
  return { title: trace.head.fine > 0 ? `${title} (by who ran longest in each column)` : title, items };
}

/** What else is in the picture. @param {Trace} trace @param {import("./paint.js").Painter} painter @returns {HTMLElement[]} */
export function legend(trace, { tone, lanes, dark }) {
  /** @type {[string, string][]} */
  const entries = lanes.kind === "cpu"
    ? [[hexOf(tone.ground), "idle"], [hexOf(tone.unknown), "not known: before a CPU's first switch, or after lost events"]]
    : DOING.flatMap((name, state) => (state === WAITS && causesMet(trace).length > 0 ? [] : [[hexOf(tone.doing[state]), name]]));
  if (trace.head.episodes.length > 0) entries.push([tone.alarm, "episode of lost CPU time; hatched: free meanwhile"]);
  const interrupts = trace.rows.flatMap((row) => [...new Set(row.interrupts.soft)]);
  if (interrupts.includes(0)) entries.push([tone.events[0], "interrupt"]);
  if (interrupts.includes(1)) entries.push([tone.events[1], "softirq"]);
  entries.push(...powerLegend(trace, tone));
  if (trace.head.points.counts.some((count) => count > 0)) entries.push([tone.text, "mark or tracepoint; a band where they are dense"]);
  entries.push([tone.running, "curve: tasks that run"], [tone.waiting, "on top of it: tasks that wait for a CPU"], [tone.text, DOTTED]);
  const causes = causesMet(trace).map((cause) => {
    const item = document.createElement("li"), { title, about } = trace.head.causes[cause - 1];
    item.append(causeSwatch(trace, dark, cause), `${title}: ${about}`);
    return item;
  });
  if (causes.length > 0) causes.unshift(Object.assign(document.createElement("li"), { textContent: "Waits, each in the colour of its longest cause:" }));
  return causes.concat(entries.map(([colour, text]) => {
    const item = document.createElement("li"), box = swatch(colour);
    if (text === DOTTED) box.classList.add("dotted");
    item.append(box, text);
    return item;
  }));
}

/** The causes that waits of the page have. @param {Trace} trace @returns {number[]} */
function causesMet({ head, sums }) {
  const edges = sums?.byCause?.edges ?? [];
  return head.causes.map((_, place) => place + 1).filter((cause) => (edges[cause]?.at(-1) ?? 0) > 0);
}

/** Why a wait was, who ran instead, and what put the task there. @param {Trace} trace @param {boolean} dark
 * @param {import("./waits.js").Wait} wait @param {(task: number) => void} follow @returns {HTMLElement[]} */
export function explained(trace, dark, wait, follow) {
  const line = (/** @type {string} */ text) => Object.assign(document.createElement("p"), { textContent: text });
  const list = (/** @type {HTMLElement[]} */ items) => {
    const made = document.createElement("ul");
    made.append(...items);
    return made;
  };
  const all = wait.end - wait.start, share = (/** @type {number} */ time) => `${duration(time)}, ${Math.round((100 * time) / all)} %`;
  const why = partsOf(trace, wait).map(([cause, time]) => {
    const item = document.createElement("li");
    item.append(causeSwatch(trace, dark, cause), `${causeTitle(trace, cause)}  ${share(time)}`);
    item.title = trace.head.causes[cause - 1]?.about ?? "";
    return item;
  });
  const ran = ranInstead(trace, wait), queue = trace.rows[wait.queue];
  /** @type {HTMLElement[]} */
  const parts = [line(`Waited ${wait.open ? "at least " : ""}${duration(all)} for a CPU` + (wait.open ? " and still waits" : "") + (why.length > 0 ? ", because:" : "."))];
  if (why.length > 0) parts.push(list(why));
  parts.push(line(decisionOf(trace, wait)));
  if (!queue) return parts;
  if (ran.length === 0) return [...parts, line(`CPU ${queue.cpu} ran nobody else meanwhile.`)];
  const interrupts = interruptsIn(trace, wait).slice(0, 3).map(([said, time]) => `${said} ${share(time)}`);
  if (interrupts.length > 0) parts.push(line(`Interrupts on CPU ${queue.cpu}: ${interrupts.join("; ")}.`));
  parts.push(line(`Ran on CPU ${queue.cpu} ${hasCulprit(trace, wait) ? "instead" : "meanwhile"}:`));
  const told = ran.filter(({ task }) => task > 0).slice(0, 8);
  parts.push(list(told.map(({ task, time }) => entry(`${taskName(trace, task)}  ${share(time)}`, () => follow(task), hexOf(trace.colours[task])))));
  const by = (/** @type {string} */ title, /** @type {string} */ rule) => {
    const sums = summedBy(told, (task) => groupName(trace, task, rule));
    if (sums.length > 0) parts.push(line(`${title}: ${sums.map(([name, time]) => `${name} ${duration(time)}`).join(", ")}.`));
  };
  by("By command", "command");
  if (trace.head.groups.length > 0) by("By control group", "group");
  return parts;
}

/** Frequencies, idle states, IPIs and timers. @param {Trace} trace @param {import("./paint.js").Tones} tone @returns {[string, string][]} */
function powerLegend(trace, tone) {
  /** @type {[string, string][]} */
  const entries = [], kinds = new Set(trace.rows.flatMap((row) => [...new Set(row.power.kind)]));
  if (kinds.has(0)) entries.push([tone.moved, "interrupt of another CPU (IPI), where they can be told apart"]);
  if (kinds.has(1)) entries.push([tone.events[3], "timer (hrtimer), where they can be told apart"]);
  if ([...kinds].some((kind) => kind >= 2)) entries.push([tone.muted, "idle state, at the lower edge: the stronger, the deeper"]);
  if (trace.khz) {
    const [low, high] = trace.khz, steps = low < high ? tone.speeds.length : 1;
    // From the highest down: each colour stands for the frequencies around its own.
    for (let step = steps - 1; step >= 0; step--) {
      const khz = steps > 1 ? low + ((high - low) * step) / (steps - 1) : high;
      const colour = tone.speeds[steps > 1 ? step : tone.speeds.length - 1];
      entries.push([hexOf(colour), `${step === steps - 1 ? "frequency " : ""}${frequencyName(khz)}`]);
    }
  }
  if (trace.head.power.leftOut > 0) entries.push([hexOf(tone.unknown), `${trace.head.power.leftOut} more of these are left out`]);
  return entries;
}

/**
 * The answer's lines as paragraphs; lines with an indent are entries of a list, with the swatch of the cause that they
 * begin with.
 * @param {Trace} trace @param {string[]} lines @param {boolean} dark @returns {HTMLElement[]}
 */
export function answered(trace, lines, dark) {
  const causeOf = (/** @type {string} */ text) => {
    const fits = trace.head.causes.map(({ title }, place) => ({ place, length: text.startsWith(`${title} `) ? title.length : 0 }));
    const best = fits.reduce((best, one) => (one.length > best.length ? one : best), { place: -1, length: 0 });
    return best.place + 1;
  };
  /** @type {HTMLElement[]} */
  const parts = [];
  let open = false;
  for (const line of lines) {
    const indented = line.startsWith("  "), text = line.trim().replace(/\s+/g, " ");
    if (text === "") { open = false; continue; }
    let last = parts[parts.length - 1];
    if (!open || (last.tagName === "UL") !== indented) {
      last = document.createElement(indented ? "ul" : "p");
      parts.push(last);
      open = true;
    }
    if (indented) {
      const item = document.createElement("li");
      const cause = causeOf(text);
      if (cause > 0) item.append(causeSwatch(trace, dark, cause));
      item.append(text);
      last.append(item);
    } else last.textContent = `${last.textContent} ${text}`.trim();
  }
  return parts;
}

/** The longest waits, to go to. @param {Trace} trace @param {number} most @param {(wait: import("./waits.js").Wait) => void} go */
export function waitList(trace, most, go) {
  return longestOf(trace).slice(0, most).map((wait) => entry(waitText(trace, wait), () => go(wait)));
}
