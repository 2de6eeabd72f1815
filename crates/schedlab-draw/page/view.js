// @ts-check
// What is looked at: the window of time, the rows, what is chosen. Pure functions on a plain value.
import { after, slicesOf } from "./data.js";
import { KINDS, ORDERS, RULES } from "./lanes.js";
import { openAs, openTask } from "./waits.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 * @typedef {{from: number, to: number, top: number, rowHeight: number, task: number,
 *   row: number, slice: number, measure: [number, number]|null, episode: number,
 *   rows: string, order: string, by: string, target: string, events: string}} View
 * `top` is the first row shown (fractional), `rowHeight` 0 chooses it; task, row, slice and episode are
 * -1 when none is chosen. A slice below -1 is a wait that did not end (`openAs`). `rows` says what rows are, `order` their order, `by` what decides colours, `events` the
 * filter of the list of events.
 */

/** @param {Trace} trace @returns {View} */
export function whole(trace) {
  return { from: 0, to: Math.max(trace.span, 1), top: 0, rowHeight: 0, task: -1, row: -1, slice: -1, measure: null, episode: -1,
    rows: KINDS[0], order: ORDERS[1], by: RULES[0], target: "", events: "" };
}

/**
 * The window moved and scaled so that it stays inside of the trace and shows at least 10 ns.
 * @param {Trace} trace @param {View} view @param {number} from @param {number} to
 */
export function look(trace, view, from, to) {
  const span = Math.max(trace.span, 1);
  const length = Math.min(Math.max(to - from, Math.min(10, span)), span);
  const middle = (from + to) / 2;
  view.from = Math.min(Math.max(middle - length / 2, 0), span - length);
  view.to = view.from + length;
}

/**
 * @param {Trace} trace @param {View} view @param {number} factor below 1 looks closer
 * @param {number} at the instant that stays where it is
 */
export function zoom(trace, view, factor, at) {
  const length = (view.to - view.from) * factor;
  const part = (at - view.from) / (view.to - view.from);
  look(trace, view, at - length * part, at + length * (1 - part));
}

/** @param {Trace} trace @param {View} view @param {number} part of the window */
export function pan(trace, view, part) {
  const by = (view.to - view.from) * part;
  look(trace, view, view.from + by, view.to + by);
}

/**
 * Brings an interval into the middle of the window, with at most so much room on each side.
 * @param {Trace} trace @param {View} view @param {number} start @param {number} end @param {number} [most]
 */
export function show(trace, view, start, end, most = 1e9) {
  const room = Math.max((end - start) * 2, Math.min((view.to - view.from) / 2, most));
  look(trace, view, (start + end) / 2 - room, (start + end) / 2 + room);
}

/**
 * The slice under an instant of a row, or -1.
 * @param {Trace} trace @param {number} row @param {number} time
 */
export function sliceAt(trace, row, time) {
  const slices = trace.rows[row];
  if (!slices) return -1;
  const index = after(slices, time);
  return index < slices.count && slices.start[index] <= time ? index : -1;
}

/**
 * The nearest slice of a task that begins after (or before) an instant, over all CPUs.
 * @param {Trace} trace @param {number} task @param {number} time @param {1|-1} direction
 * @returns {{row: number, slice: number}|null}
 */
export function nextOf(trace, task, time, direction) {
  const { row, slice } = slicesOf(trace, task);
  const start = (/** @type {number} */ i) => trace.rows[row[i]].start[slice[i]];
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (direction > 0 ? start(middle) > time : start(middle) >= time) high = middle; else low = middle + 1;
  }
  const found = direction > 0 ? low : low - 1;
  return found >= 0 && found < row.length ? { row: row[found], slice: slice[found] } : null;
}

/**
 * Tasks whose name or pid matches, at most `most`.
 * @param {Trace} trace @param {string} text @param {number} [most]
 */
export function search(trace, text, most = 50) {
  const wanted = text.trim().toLowerCase();
  /** @type {number[]} */
  const found = [];
  if (wanted === "") return found;
  for (let task = 1; task < trace.head.tasks.length && found.length < most; task++) {
    const [pid, name] = trace.head.tasks[task];
    if (String(pid) === wanted || `${name}:${pid}`.toLowerCase().includes(wanted)) found.push(task);
  }
  return found;
}

/**
 * The view as a link's fragment, and back.
 * @param {View} view
 */
export function toLink(view) {
  const parts = [`t=${Math.round(view.from)}-${Math.round(view.to)}`];
  if (view.task > 0) parts.push(`task=${view.task}`);
  if (view.row >= 0 && view.slice >= 0) parts.push(`at=${view.row}.${view.slice}`);
  if (view.slice <= -2) parts.push(`open=${openTask(view.slice)}`);
  if (view.measure) parts.push(`m=${view.measure.map(Math.round).join("-")}`);
  if (view.episode >= 0) parts.push(`e=${view.episode}`);
  if (view.top > 0) parts.push(`y=${view.top.toFixed(2)}`);
  if (view.rowHeight > 0) parts.push(`h=${view.rowHeight.toFixed(2)}`);
  // Always: which rows come first depends on the trace.
  parts.push(`rows=${view.rows}`);
  if (view.order !== ORDERS[1]) parts.push(`order=${view.order}`);
  if (view.by !== RULES[0]) parts.push(`by=${view.by}`);
  if (view.target !== "") parts.push(`target=${encodeURIComponent(view.target)}`);
  if (view.events !== "") parts.push(`events=${encodeURIComponent(view.events)}`);
  return "#" + parts.join("&");
}

/** @param {Trace} trace @param {View} view @param {string} link */
export function fromLink(trace, view, link) {
  const wanted = new URLSearchParams(link.replace(/^#/, ""));
  const pair = (/** @type {string|null} */ text) => {
    const numbers = (text ?? "").split(/[-.]/).map(Number);
    return numbers.length === 2 && numbers.every(Number.isFinite) ? numbers : null;
  };
  const among = (/** @type {string} */ key, /** @type {string[]} */ known, /** @type {string} */ now) => known.find((one) => one === wanted.get(key)) ?? now;
  const window = pair(wanted.get("t"));
  if (window && window[0] < window[1]) look(trace, view, window[0], window[1]);
  const task = Number(wanted.get("task"));
  if (Number.isInteger(task) && task > 0 && task < trace.head.tasks.length) view.task = task;
  const at = pair(wanted.get("at"));
  if (at && at[1] < (trace.rows[at[0]]?.count ?? 0)) [view.row, view.slice] = at;
  const open = Number(wanted.get("open") ?? NaN);
  if (trace.open.has(open)) [view.row, view.slice] = [-1, openAs(open)];
  const measure = pair(wanted.get("m"));
  if (measure) view.measure = [measure[0], measure[1]];
  const episode = Number(wanted.get("e") ?? -1);
  if (trace.head.episodes[episode]) view.episode = episode;
  const top = Number(wanted.get("y") ?? NaN), height = Number(wanted.get("h") ?? NaN);
  if (top >= 0 && top < 1e6) view.top = top;
  if (height >= 1 && height <= 200) view.rowHeight = height;
  view.rows = among("rows", KINDS, view.rows);
  view.order = among("order", ORDERS, view.order);
  view.by = among("by", RULES, view.by);
  view.target = wanted.get("target") ?? view.target;
  view.events = wanted.get("events") ?? view.events;
}
