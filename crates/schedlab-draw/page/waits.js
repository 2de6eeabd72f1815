// @ts-check
// Waits for a CPU: why each was, who ran instead, what put the task there, and which is the next longer one.
import { after, duration, slicesOf, taskName } from "./data.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 * @typedef {{task: number, start: number, end: number, row: number, slice: number, queue: number, cause: number,
 *   open: boolean}} Wait
 * `row` and `slice` are what ran at its end, -1 where it had not ended; `queue` is the row of the CPU on whose queue the
 * task stood longest, -1 for none; `cause` the number of the longest cause, 0 if it is not told.
 */

/** So many of the longest waits are kept. */
const LONGEST_MAX = 4096;
/** Those who ran instead that are listed. */
const CULPRITS_MAX = 8;

/** A chosen open wait stands in place of a slice: its task, as a number below -1. @param {number} task */
export const openAs = (task) => -2 - task;
/** The task of such a number. @param {number} slice */
export const openTask = (slice) => -2 - slice;

/** The wait before a slice, or the one that did not end; `null` where there is none.
 * @param {Trace} trace @param {number} row @param {number} slice @returns {Wait|null} */
export function waitOf(trace, row, slice) {
  if (slice <= -2) {
    const open = trace.open.get(openTask(slice));
    return open ? { task: openTask(slice), start: open.since, end: trace.span, row: -1, slice, queue: rowOf(trace, open.cpu), cause: open.parts[0]?.[0] ?? 0, open: true } : null;
  }
  const of = trace.rows[row];
  if (!of || slice < 0 || slice >= of.count || of.wait[slice] === 0) return null;
  const queue = of.queue[slice] < 0 ? row : rowOf(trace, of.queue[slice]);
  return { task: of.task[slice], start: of.start[slice] - of.wait[slice], end: of.start[slice], row, slice, queue, cause: of.cause[slice], open: false };
}

/** The row of a CPU, or -1. @param {Trace} trace @param {number} cpu */
const rowOf = ({ rows }, cpu) => rows.findIndex((row) => row.cpu === cpu);

/** The causes of a wait with their times, longest first. @param {Trace} trace @param {Wait} wait @returns {[number, number][]} */
export function partsOf(trace, { task, row, slice, open, start, end }) {
  if (open) return trace.open.get(task)?.parts ?? [];
  const of = trace.rows[row], at = of.pairAt[slice];
  if (at === 0) return of.cause[slice] > 0 ? [[of.cause[slice], end - start]] : [];
  /** @type {[number, number][]} */
  const parts = [];
  for (let i = 0; i < of.pairs[at - 1]; i++) parts.push([of.pairs[at + 2 * i], of.pairs[at + 2 * i + 1]]);
  return parts.sort((a, b) => b[1] - a[1]);
}

/** Who ran on the CPU of its queue meanwhile, longest first. @param {Trace} trace @param {Wait} wait
 * @returns {{task: number, time: number, slice: number}[]} with the longest slice of each */
export function ranInstead(trace, { queue, start, end, task: waiter }) {
  const row = trace.rows[queue];
  /** @type {Map<number, {task: number, time: number, slice: number, most: number}>} */
  const found = new Map();
  if (!row) return [];
  for (let i = after(row, start); i < row.count && row.start[i] < end; i++) {
    const time = Math.min(row.end[i], end) - Math.max(row.start[i], start), task = row.task[i];
    if (time <= 0 || task === waiter) continue;
    const sum = found.get(task) ?? { task, time: 0, slice: i, most: 0 };
    sum.time += time;
    if (time > sum.most) [sum.slice, sum.most] = [i, time];
    found.set(task, sum);
  }
  return [...found.values()].sort((a, b) => b.time - a.time);
}

/** The slice that a task ran at an instant, or that ended then. @param {Trace} trace @param {number} task @param {number} time */
function sliceAround(trace, task, time) {
  const { row, slice } = slicesOf(trace, task);
  let low = 0;
  for (let high = row.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (trace.rows[row[middle]].start[slice[middle]] > time) high = middle; else low = middle + 1;
  }
  return low === 0 ? null : { row: row[low - 1], slice: slice[low - 1] };
}

/** Who woke the task, with the slice in which it did so; `null` where no task did.
 * @param {Trace} trace @param {Wait} wait */
export function wakerOf(trace, wait) {
  const waker = wait.open ? 0 : trace.rows[wait.row].waker[wait.slice];
  const at = waker > 0 ? sliceAround(trace, waker, wait.start) : null;
  return at && { task: waker, ...at };
}

/** What put the task where it waited, in a sentence. @param {Trace} trace @param {Wait} wait */
export function decisionOf(trace, wait) {
  const { rows } = trace, queue = rows[wait.queue], there = queue ? `CPU ${queue.cpu}` : "no CPU yet";
  const waker = wakerOf(trace, wait), last = sliceAround(trace, wait.task, wait.start - (wait.open ? 0 : 1));
  const moved = !wait.open && queue && wait.queue !== wait.row ? ` CPU ${rows[wait.row].cpu} took it over from there.` : "";
  if (waker) return `Woken by ${taskName(trace, waker.task)} on CPU ${rows[waker.row].cpu}; it waited on ${there}.${moved}`;
  const row = last && rows[last.row];
  if (row && row.end[last.slice] === wait.start && (row.left[last.slice] === 1 || row.left[last.slice] === 2)) {
    const next = last.slice + 1 < row.count && row.start[last.slice + 1] === wait.start ? row.task[last.slice + 1] : 0;
    return `Displaced on CPU ${row.cpu}` + (next > 0 ? ` by ${taskName(trace, next)}` : "") + `; it waited on ${there}.${moved}`;
  }
  return wait.start <= 0 ? `It waited when the trace began; it waited on ${there}.${moved}` : `Woken by an interrupt, or newly created; it waited on ${there}.${moved}`;
}

/** How long each group of those who ran instead ran. @param {{task: number, time: number}[]} ran
 * @param {(task: number) => string} nameOf @returns {[string, number][]} */
export function summedBy(ran, nameOf) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const { task, time } of ran) sums.set(nameOf(task), (sums.get(nameOf(task)) ?? 0) + time);
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, CULPRITS_MAX);
}

/** Whether a wait comes before another in the list of the longest. @param {Wait} a @param {Wait} b */
const order = (a, b) => b.end - b.start - (a.end - a.start) || a.start - b.start || a.task - b.task;

/** The longest waits of the whole trace, longest first, those that did not end among them. @param {Trace} trace @returns {Wait[]} */
export function longestOf(trace) {
  if (trace.longest) return trace.longest;
  /** @type {{length: number, row: number, slice: number}[]} */
  let found = [];
  let least = 0;
  const cut = () => {
    found.sort((a, b) => b.length - a.length);
    found.length = Math.min(found.length, LONGEST_MAX);
    if (found.length === LONGEST_MAX) least = found[LONGEST_MAX - 1].length;
  };
  trace.rows.forEach(({ wait, count }, row) => {
    for (let slice = 0; slice < count; slice++) {
      if (wait[slice] <= least) continue;
      found.push({ length: wait[slice], row, slice });
      if (found.length > 4 * LONGEST_MAX) cut();
    }
  });
  for (const [task, { since }] of trace.open) found.push({ length: trace.span - since, row: -1, slice: openAs(task) });
  cut();
  const longest = found.map(({ row, slice }) => /** @type {Wait} */ (waitOf(trace, row, slice))).sort(order);
  if (trace.rows.every((row) => row.known === Infinity)) trace.longest = longest;
  return longest;
}

/** The next longer wait, or with a negative way the next shorter one: of the longest. @param {Trace} trace @param {Wait|null} wait @param {number} way */
export function nextWait(trace, wait, way) {
  const longest = longestOf(trace);
  if (!wait) return longest[0];
  const place = longest.findIndex((one) => order(one, wait) >= 0), here = place >= 0 ? place : longest.length;
  const isIt = longest[here] && order(longest[here], wait) === 0;
  return longest[way > 0 ? here - 1 : here + (isIt ? 1 : 0)];
}

/** The longest wait that covers an instant, of those that are kept. @param {Trace} trace @param {number} time */
export function waitAt(trace, time) {
  return longestOf(trace).find(({ start, end }) => start <= time && time < end);
}

/** Calls with each wait that overlaps a window: from, to, cause. @param {Trace} trace @param {number} from @param {number} to
 * @param {(start: number, end: number, cause: number) => void} call */
export function waitsIn(trace, from, to, call) {
  const ends = trace.rows.map((row) => Math.min(after(row, to) + 2, row.count));
  trace.rows.forEach((row, r) => {
    for (let i = after(row, from); i < ends[r]; i++) if (row.wait[i] > 0) call(row.start[i] - row.wait[i], row.start[i], row.cause[i]);
  });
  // A wait lies before its slice: that of a long one can be far behind the window.
  for (const { start, end, row, slice, cause, open } of longestOf(trace)) {
    if (start < to && end > from && (open || slice >= ends[row])) call(start, end, cause);
  }
}

/** Mean numbers of waiting tasks by cause in each of equal columns of the window. @param {Trace} trace
 * @param {import("./view.js").View} view @param {number} count @returns {Float64Array[]} */
export function waitingBy(trace, view, count) {
  const causes = trace.head.causes.length + 1, columns = Array.from({ length: causes }, () => new Float64Array(count));
  const step = (view.to - view.from) / count, { sums } = trace;
  if (!sums?.byCause) return columns;
  const { width, edges } = sums.byCause;
  if (step >= 2 * width) {
    for (let cause = 0; cause < causes; cause++) {
      const sum = (/** @type {number} */ time) => {
        const place = Math.min(Math.max(time / width, 0), edges[cause].length - 1), bin = Math.min(Math.floor(place), edges[cause].length - 2);
        return edges[cause][bin] + (edges[cause][bin + 1] - edges[cause][bin]) * (place - bin);
      };
      for (let x = 0, before = sum(view.from); x < count; x++) {
        const now = sum(view.from + (x + 1) * step);
        columns[cause][x] = (now - before) / step;
        before = now;
      }
    }
    return columns;
  }
  waitsIn(trace, view.from, view.to, (start, end, cause) => spread(columns[cause], view, step, start, end));
  return columns;
}

/** Adds an interval to the columns that it covers. @param {Float64Array} sums @param {import("./view.js").View} view
 * @param {number} step @param {number} start @param {number} end */
export function spread(sums, view, step, start, end) {
  const from = Math.max(start, view.from), to = Math.min(end, view.to);
  if (to <= from) return;
  let x = Math.min(sums.length - 1, Math.floor((from - view.from) / step));
  const last = Math.min(sums.length - 1, Math.floor((to - view.from) / step));
  if (x === last) { sums[x] += (to - from) / step; return; }
  sums[x] += (view.from + (x + 1) * step - from) / step;
  for (x++; x < last; x++) sums[x] += 1;
  sums[last] += (to - (view.from + last * step)) / step;
}

/** What a cause is called. @param {Trace} trace @param {number} cause */
export const causeTitle = ({ head }, cause) => head.causes[cause - 1]?.title ?? "waits for a CPU";

/** Interrupts that its CPU handled meanwhile, longest first, by what they said. @param {Trace} trace @param {Wait} wait
 * @returns {[string, number][]} */
export function interruptsIn(trace, { queue, start, end }) {
  const row = trace.rows[queue];
  /** @type {Map<string, number>} */
  const sums = new Map();
  row?.interrupts.start.forEach((from, i) => {
    const time = Math.min(row.interrupts.end[i], end) - Math.max(from, start);
    if (time <= 0) return;
    const point = row.interrupts.point[i], said = row.points.said[point];
    const name = said > 0 ? trace.said[said - 1] : trace.head.points.names[row.points.name[point]];
    sums.set(name, (sums.get(name) ?? 0) + time);
  });
  return [...sums].sort((a, b) => b[1] - a[1]);
}

/** Whether somebody else who ran is why it waited. @param {Trace} trace @param {Wait} wait */
export const hasCulprit = ({ head }, { cause }) => cause === 0 || head.causes[cause - 1].culprit;

/** A wait and who ran instead longest, for a label. @param {Trace} trace @param {Wait} wait */
export function labelOf(trace, wait) {
  const queue = trace.rows[wait.queue], length = wait.end - wait.start;
  const ran = hasCulprit(trace, wait) ? ranInstead(trace, wait).find(({ task }) => task > 0) : undefined;
  const interrupt = interruptsIn(trace, wait).find(([, time]) => !hasCulprit(trace, wait) && 2 * time > length);
  const who = ran ? taskName(trace, ran.task) : interrupt?.[0], behind = who && queue ? ` behind ${who} on CPU ${queue.cpu}` : "";
  return `${taskName(trace, wait.task)} waits ${wait.open ? "≥ " : ""}${duration(length)}${behind}` + (wait.cause > 0 ? `: ${causeTitle(trace, wait.cause)}` : "");
}

/** A wait in a line. @param {Trace} trace @param {Wait} wait */
export function waitText(trace, wait) {
  const length = duration(wait.end - wait.start), cause = wait.cause > 0 ? `, ${causeTitle(trace, wait.cause)}` : "";
  return `${wait.open ? "≥ " : ""}${length}  ${taskName(trace, wait.task)}${cause}` + (wait.open ? ", still waits" : "");
}

/** Draws the lines of a cause's pattern on a tile of 8 by 8. @param {string} pattern @param {string} ink */
function tileOf(pattern, ink) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const c = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
  c.strokeStyle = c.fillStyle = ink;
  c.lineWidth = 1.4;
  const line = (/** @type {number[]} */ ...[x, y, toX, toY]) => { c.beginPath(); c.moveTo(x, y); c.lineTo(toX, toY); c.stroke(); };
  const rising = () => [[-2, 2, 2, -2], [-2, 10, 10, -2], [6, 10, 10, 6]].forEach((place) => line(...place));
  const falling = () => [[-2, 6, 2, 10], [-2, -2, 10, 10], [6, -2, 10, 2]].forEach((place) => line(...place));
  if (pattern === "rising" || pattern === "crossed") rising();
  if (pattern === "falling" || pattern === "crossed") falling();
  if (pattern === "upright") line(4, 0, 4, 8);
  if (pattern === "level") line(0, 4, 8, 4);
  if (pattern === "dotted") { c.fillRect(1, 1, 2, 2); c.fillRect(5, 5, 2, 2); }
  return tile;
}

/** The colour and the pattern of a cause over a box. @param {CanvasRenderingContext2D} c @param {Trace} trace @param {boolean} dark
 * @param {number} cause @param {import("./paint.js").Box} box */
export function fillCause(c, trace, dark, cause, { left, top, width, height }) {
  const look = trace.head.causes[cause - 1], theme = dark ? trace.head.themes.dark : trace.head.themes.light;
  c.fillStyle = look ? (dark ? look.dark : look.light) : theme.waiting;
  c.fillRect(left, top, width, height);
  if (!look || look.pattern === "plain" || width < 3 || height < 5) return;
  const key = `${look.pattern} ${theme.ground}`, tile = tiles.get(key) ?? tileOf(look.pattern, theme.ground);
  tiles.set(key, tile);
  const pattern = c.createPattern(tile, "repeat");
  if (!pattern) return;
  c.globalAlpha = 0.6;
  c.fillStyle = pattern;
  c.fillRect(left, top, width, height);
  c.globalAlpha = 1;
}

/** @type {Map<string, HTMLCanvasElement>} */
const tiles = new Map();
