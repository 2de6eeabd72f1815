// @ts-check
// Marks of users and other tracepoints: single instants, and interrupts as intervals.
import { Numbers, taskName } from "./data.js";

/**
 * What fired on a CPU, in order of time. The phase is 0 for a begin, 1 for an end, 2 for an instant;
 * the task 0 where it is not known. `said` less 1 is the place of what it said in the trace's list.
 * `paired` marks those that are an end of an interrupt's interval.
 * @typedef {{time: Float64Array, name: Uint32Array, phase: Uint8Array, task: Uint32Array,
 *   said: Uint32Array, paired: Uint8Array}} Points
 *
 * From an entry to its exit: the point of the entry, in order of their begins. `soft` is 1 for softirqs.
 * @typedef {{start: Float64Array, end: Float64Array, point: Uint32Array, soft: Uint8Array}} Interrupts
 */

/** @param {number} [n] @returns {Points} */
export function noPoints(n = 0) {
  return { time: new Float64Array(n), name: new Uint32Array(n), phase: new Uint8Array(n), task: new Uint32Array(n), said: new Uint32Array(n), paired: new Uint8Array(n) };
}

/** @returns {Interrupts} */
export function noInterrupts() {
  return { start: new Float64Array(0), end: new Float64Array(0), point: new Uint32Array(0), soft: new Uint8Array(0) };
}

/** How a point is called, by the code in the data. */
const PHASE = ["begin", "end", ""];

/** Pairs of tracepoints that are intervals: by the name of the entry, that of the exit. */
const PAIRS = new Map([["irq_handler_entry", "irq_handler_exit"], ["softirq_entry", "softirq_exit"]]);

/**
 * The points of all rows: for each row a column of gaps, names, phases, tasks, and of the places of what they
 * said in the list that follows, line by line.
 * @param {import("./data.js").Trace} trace @param {Uint8Array} bytes
 */
export function readPoints(trace, bytes) {
  const numbers = new Numbers(bytes);
  trace.rows.forEach((row, r) => {
    const n = trace.head.points.counts[r], points = noPoints(n);
    for (let i = 0, time = 0; i < n; i++) points.time[i] = time += numbers.next();
    for (let i = 0; i < n; i++) points.name[i] = numbers.next();
    for (let i = 0; i < n; i++) points.phase[i] = numbers.next();
    for (let i = 0; i < n; i++) points.task[i] = numbers.next();
    for (let i = 0; i < n; i++) points.said[i] = numbers.next();
    row.points = points;
    row.interrupts = pairsOf(points, trace.head.points.names);
  });
  trace.said = new TextDecoder().decode(bytes.subarray(numbers.at)).split("\n");
}

/** The interrupts among the points of a row. @param {Points} points @param {string[]} names @returns {Interrupts} */
function pairsOf(points, names) {
  const entries = [...PAIRS.keys()].map((name) => names.indexOf(name)), exits = [...PAIRS.values()].map((name) => names.indexOf(name));
  /** @type {{start: number, end: number, point: number, soft: number}[]} */
  const found = [];
  const open = [-1, -1];
  for (let i = 0; i < points.time.length; i++) {
    const entry = entries.indexOf(points.name[i]), exit = exits.indexOf(points.name[i]);
    if (entry >= 0) open[entry] = i;
    if (exit < 0 || open[exit] < 0) continue;
    const point = open[exit];
    found.push({ start: points.time[point], end: points.time[i], point, soft: exit });
    points.paired[point] = points.paired[i] = 1;
    open[exit] = -1;
  }
  found.sort((a, b) => a.start - b.start);
  return { start: Float64Array.from(found, (one) => one.start), end: Float64Array.from(found, (one) => one.end),
    point: Uint32Array.from(found, (one) => one.point), soft: Uint8Array.from(found, (one) => one.soft) };
}

/** The first of ascending numbers that is at least `least`. @param {ArrayLike<number>} list @param {number} least */
export function firstFrom(list, least) {
  let low = 0;
  for (let high = list.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (list[middle] >= least) high = middle; else low = middle + 1;
  }
  return low;
}

/**
 * The last point of a row at most `room` ns away from an instant and nearest to it, or -1.
 * @param {import("./data.js").Row} row @param {number} time @param {number} room
 */
export function pointAt(row, time, room) {
  const times = row.points.time;
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] > time) high = middle; else low = middle + 1;
  }
  const before = low - 1, distance = (/** @type {number} */ i) => (i >= 0 && i < times.length ? Math.abs(times[i] - time) : Infinity);
  const best = distance(before) <= distance(low) ? before : low;
  return distance(best) <= room ? best : -1;
}

/**
 * What is known about a point: a line, and one more with what it said.
 * @param {import("./data.js").Trace} trace @param {import("./data.js").Row} row @param {number} point
 */
export function pointText(trace, row, point) {
  const { time, task, said } = row.points;
  const by = task[point] > 0 ? `, ${taskName(trace, task[point])}` : "", what = whatOf(trace, row, point);
  return `${what} at ${((time[point] + trace.head.shift) / 1e6).toFixed(6)} ms on CPU ${row.cpu}${by}` + (said[point] > 0 ? `\n${trace.said[said[point] - 1]}` : "");
}

/** A point's name, and whether it begins or ends something. @param {import("./data.js").Trace} trace
 * @param {import("./data.js").Row} row @param {number} point */
function whatOf(trace, { points: { name, phase } }, point) {
  return [trace.head.points.names[name[point]] ?? "?", PHASE[phase[point]]].join(" ").trim();
}

/** A point in one line: its name, the task, what it said. @param {import("./data.js").Trace} trace
 * @param {import("./data.js").Row} row @param {number} point */
export function pointName(trace, row, point) {
  const { task, said } = row.points, by = task[point] > 0 ? `  ${taskName(trace, task[point])}` : "";
  return `${whatOf(trace, row, point)}${by}` + (said[point] > 0 ? `  ${trace.said[said[point] - 1]}` : "");
}
