// @ts-check
// The trace as columns: unpacked part by part, coarse first, then only read.
import { noInterrupts, noPoints } from "./points.js";
import { noPower } from "./power.js";
import { noRequests } from "./requests.js";

/**
 * @typedef {{cpu: number, socket: number|null, llc: number|null, count: number}} CpuHead
 * @typedef {{since: number, task: number, cost: number, waker: number, wakerCpu: number, free: string}} Story
 * Since when a task waited, who, how much CPU time was lost, who woke it (0 is not known) and where,
 * and the list of CPUs that were free.
 * @typedef {{start: number, end: number, cpu: number, text: string, story: Story|null}} Note
 * @typedef {{ground: string, text: string, muted: string, grid: string, axis: string, unknown: string,
 *   running: string, waiting: string, alarm: string, moved: string, other: string,
 *   tasks: string[], events: string[], speeds: string[]}} ThemeHead colours, `#rrggbb`
 * @typedef {{title: string, origin: string, shift: number, span: number, columns: number,
 *   fine: number, cpus: CpuHead[], tasks: [number, string, number, number, number[], number, number][],
 *   parts: [number, number, number][], points: {names: string[], counts: number[], leftOut: number},
 *   power: {counts: [number, number][], leftOut: number}, processes: string[], groups: string[],
 *   themes: {light: ThemeHead, dark: ThemeHead}, episodes: Note[], episodesCount: number,
 *   answer: {lines: string[], worst: [number, number, number]|null}|null,
 *   causes: {title: string, about: string, culprit: boolean, pattern: string, light: string, dark: string}[],
 *   open: [number, number, number, [number, number][]][], off: [number, number, number][],
 *   flame: {stacks: number, sleeps: number, waits: number, ticks: number, leftOut: [number, number, number]}, requests: [number, number]}} Head
 * `worst` is the task of the worst wait, when it begins and ends. `causes` are those of waits by their numbers, less 1; `culprit` says
 * whether somebody else ran instead.
 * `open` are waits that did not end: task, since when, CPU or -1, causes with their times.
 * `off`: task, and by how much its run time and its waiting are off, as the kernel counted.
 * What `flame` leaves out: sleeps, waits that followed none, ticks. `requests`: how many are there, and how many are left out.
 * `tasks` are [pid, name, parent or 0, priority, colour numbers by rule, process, group]; the last two are places
 * in their lists, plus 1, or 0 for not known. `parts` are [row, slices,
 * bytes], in the order in which they stand in the document. `shift` is what the page's zero is later
 * than the trace's begin. Where `fine` is not 0, the trace is too large for its slices: parts hold so many
 * columns for each row, and one (row -1) the waiting tasks.
 *
 * Slices of one CPU, in order of time. Times are nanoseconds since the page's zero: whole numbers
 * below 2^53, so exact. `busy[i]` is the time that slices before i take. The first `count` are there;
 * they say all up to the instant `known`. `index[b]` is the first that ends after `b * bin`.
 * `share` (of 255) and `top` tell how busy each of the equal columns of the whole trace was and who
 * ran longest in it: what is shown until the slices are there.
 * @typedef {{cpu: number, socket: number|null, llc: number|null, count: number, known: number,
 *   start: Float64Array, end: Float64Array, busy: Float64Array, wait: Float64Array,
 *   task: Uint32Array, waker: Uint32Array, left: Uint8Array, index: Uint32Array, bin: number,
 *   cause: Uint8Array, queue: Int16Array, pairAt: Uint32Array, pairs: number[],
 *   share: Uint8Array, top: Uint32Array, points: import("./points.js").Points,
 *   interrupts: import("./points.js").Interrupts, power: import("./power.js").Power}} Row
 *
 * `cause` is the number of the longest cause of the wait before a slice, 0 if it is not told; `queue` the CPU on whose
 * queue the task stood longest, -1 for the one that it ran on. Where a wait has several causes, `pairAt` less 1 is the place in
 * `pairs` of their number, and their numbers and times.
 *
 * Task time run and waited up to the edges of equally wide bins, so that a column of the curve costs
 * two look-ups however many slices it covers; waited by cause too, with wider bins.
 * @typedef {{width: number, running: Float64Array, waiting: Float64Array,
 *   byCause?: {width: number, edges: Float64Array[]}}} Sums
 * @typedef {{head: Head, said: string[], khz: [number, number]|null, span: number, rows: Row[], colours: Uint32Array, sums: Sums|null,
 *   ran: Float64Array, waited: Float64Array, index: import("./lanes.js").Index|null,
 *   followed: {task: number, row: Uint32Array, slice: Uint32Array}|null,
 *   open: Map<number, {since: number, cpu: number, parts: [number, number][]}>, longest: import("./waits.js").Wait[]|null, roles: string[]|null,
 *   requests: import("./requests.js").Requests}} Trace
 * `roles` are the rows of commands where another trace stands beside. `khz` are the lowest and the highest frequency. `ran` and `waited` are sums by task over the whole page.
 */

const BINS = 1 << 18;
/** Bins of the waits of each cause. */
const CAUSE_BINS = 1 << 14;
/** What stands behind a wait's cause in the data: the CPU of its queue follows; the first of several causes has its time, too;
 * several causes follow. */
const ELSEWHERE = 64, IN_PART = 32, SEVERAL = 16;

/** How a slice ended, by the code in the data. */
export const LEFT = ["unknown", "displaced in the kernel", "displaced", "slept", "blocked", "stopped", "ended"];

/**
 * Base64 to bytes.
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
function bytesOf(text) {
  const native = /** @type {{fromBase64?: (text: string) => Uint8Array<ArrayBuffer>}} */ (/** @type {unknown} */ (Uint8Array));
  if (native.fromBase64) return native.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/**
 * Unpacks a piece of the page's own data: base64, then raw deflate.
 * @param {string} text
 * @returns {Promise<Uint8Array>}
 */
export async function unpack(text) {
  const stream = new DecompressionStream("deflate-raw"), writer = stream.writable.getWriter();
  // What fails is told by the reader.
  writer.write(bytesOf(text.trim())).catch(() => {});
  writer.close().catch(() => {});
  const reader = stream.readable.getReader();
  /** @type {Uint8Array[]} */
  const chunks = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    length += value.length;
  }
  if (chunks.length === 1) return chunks[0];
  const bytes = new Uint8Array(length);
  for (let i = 0, at = 0; i < chunks.length; at += chunks[i++].length) bytes.set(chunks[i], at);
  return bytes;
}

/** LEB128 numbers, one after the other. */
export class Numbers {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, scale = 128;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  }
}

/**
 * The columns of a row: a byte for each says how busy it was, then numbers say who ran longest: 0 is
 * the same as before.
 * @param {Numbers} numbers @param {number} count
 */
function columnsOf(numbers, count) {
  const share = numbers.bytes.slice(numbers.at, numbers.at + count), top = new Uint32Array(count);
  numbers.at += count;
  for (let i = 0, last = 0; i < count; i++) {
    const next = numbers.next();
    top[i] = last = next === 0 ? last : next - 1;
  }
  return { share, top };
}

/**
 * The trace as far as the page's head and its coarse columns tell it: no slices yet.
 * @param {Head} head
 * @param {Uint8Array} coarse for each row a byte for each column, then a task for each
 * @returns {Trace}
 */
export function outline(head, coarse) {
  const numbers = new Numbers(coarse);
  const rows = head.cpus.map((cpu) => {
    const n = cpu.count, bins = Math.max(1, n >> 3);
    const { share, top } = columnsOf(numbers, head.columns);
    return {
      cpu: cpu.cpu, socket: cpu.socket, llc: cpu.llc, count: 0, known: n === 0 && head.fine === 0 ? Infinity : 0,
      start: new Float64Array(n), end: new Float64Array(n), busy: new Float64Array(n + 1),
      wait: new Float64Array(n), task: new Uint32Array(n), waker: new Uint32Array(n),
      left: new Uint8Array(n), cause: new Uint8Array(n), queue: new Int16Array(n).fill(-1), pairAt: new Uint32Array(n), pairs: [], index: new Uint32Array(bins + 2).fill(n),
      bin: Math.max(1, Math.ceil(head.span / bins)), share, top, points: noPoints(), interrupts: noInterrupts(), power: noPower(),
    };
  });
  const tasks = head.tasks.length;
  const open = new Map(head.open.map(([task, since, cpu, parts]) => [task, { since, cpu, parts }]));
  return { head, said: [], khz: null, span: head.span, open, longest: null, roles: null, requests: noRequests(), rows, colours: new Uint32Array(tasks), sums: null,
    ran: new Float64Array(tasks), waited: new Float64Array(tasks), index: null, followed: null };
}

/**
 * Takes in a part of a page without slices: the fine columns of a row, or the waiting tasks.
 * @param {Trace} trace @param {number} row @param {Uint8Array} bytes @param {number} count columns
 */
export function fineColumns(trace, row, bytes, count) {
  const numbers = new Numbers(bytes), width = Math.max(trace.span, 1) / count;
  if (row >= 0) {
    Object.assign(trace.rows[row], columnsOf(numbers, count));
    const { share, top } = trace.rows[row];
    for (let i = 0; i < count; i++) trace.ran[top[i]] += (share[i] / 255) * width;
    return;
  }
  const running = new Float64Array(count + 1), waiting = new Float64Array(count + 1);
  for (let i = 0; i < count; i++) running[i + 1] = running[i] + numbers.next();
  for (let i = 0; i < count; i++) waiting[i + 1] = waiting[i] + numbers.next();
  trace.sums = { width, running, waiting };
}

/**
 * Puts the slices of a part behind those that its row has: a column after the other, of gaps,
 * lengths, tasks, ways of leaving, waits, and the wakers and causes of those that waited.
 * @param {Row} row @param {Uint8Array} bytes @param {number} count
 */
export function append(row, bytes, count) {
  const numbers = new Numbers(bytes), first = row.count, last = first + count;
  const { start, end, task, left, wait, waker, busy, index, bin } = row;
  for (let i = first; i < last; i++) start[i] = numbers.next();
  for (let i = first; i < last; i++) end[i] = numbers.next();
  for (let i = first; i < last; i++) task[i] = numbers.next();
  for (let i = first; i < last; i++) left[i] = numbers.next();
  for (let i = first; i < last; i++) wait[i] = numbers.next();
  for (let i = first; i < last; i++) if (wait[i] > 0) waker[i] = numbers.next();
  for (let i = first; i < last; i++) if (wait[i] > 0) why(numbers, row, i);
  let time = first > 0 ? end[first - 1] : 0;
  let edge = first > 0 ? Math.ceil(time / bin) : 0;
  for (let i = first; i < last; i++) {
    const length = end[i];
    start[i] = time += start[i];
    end[i] = time += length;
    busy[i + 1] = busy[i] + (task[i] === 0 ? 0 : length);
    for (; edge * bin < time && edge < index.length; edge++) index[edge] = i;
  }
  row.count = last;
  row.known = last === start.length ? Infinity : time;
}

/** Reads why the wait before a slice was. @param {Numbers} numbers @param {Row} row @param {number} slice */
function why(numbers, row, slice) {
  const code = numbers.next(), count = code & (SEVERAL - 1), { pairs } = row;
  if ((code & SEVERAL) === 0) row.cause[slice] = count;
  else if (count > 0) {
    row.cause[slice] = numbers.next();
    row.pairAt[slice] = pairs.length + 1;
    const time = pairs.push(count, row.cause[slice], code & IN_PART ? numbers.next() : row.wait[slice]) - 1;
    for (let i = 1; i < count; i++) {
      const part = pairs.push(numbers.next(), numbers.next()) - 1;
      if ((code & IN_PART) === 0) pairs[time] -= pairs[part];
    }
  }
  if (code >= ELSEWHERE) row.queue[slice] = numbers.next();
}

/**
 * The time of intervals up to an instant t is the sum of (t - start) over those that began, less the
 * sum of (t - end) over those that ended: so counts and sums of starts and ends in each bin suffice.
 */
export class Totals {
  /** @param {Trace} trace */
  constructor({ span, head }) {
    this.span = span;
    const columns = (/** @type {number} */ bins) => ({ width: Math.max(span, 1) / bins, count: new Float64Array(bins + 1), sum: new Float64Array(bins + 1) });
    this.run = columns(BINS);
    this.wait = columns(BINS);
    this.causes = Array.from({ length: head.causes.length + 1 }, () => columns(CAUSE_BINS));
  }

  /** Takes in slices of a row. @param {Trace} trace @param {Row} row @param {number} first @param {number} last */
  add({ ran, waited }, row, first, last) {
    for (let i = first; i < last; i++) {
      ran[row.task[i]] += row.end[i] - row.start[i];
      waited[row.task[i]] += row.wait[i];
    }
    for (let i = first; i < last; i++) {
      if (row.task[i] !== 0) count(this.run, row.start[i], row.end[i]);
      if (row.wait[i] > 0) this.waits(row.start[i] - row.wait[i], row.start[i], row.cause[i]);
    }
  }

  /** @param {number} start @param {number} end @param {number} cause */
  waits(start, end, cause) {
    count(this.wait, Math.max(0, start), end);
    if (this.causes[cause]) count(this.causes[cause], Math.max(0, start), end);
  }

  /** Takes in waits that did not end. @param {Trace} trace */
  open({ waited, open }) {
    for (const [task, { since, parts }] of open) {
      waited[task] += this.span - since;
      this.waits(since, this.span, parts[0]?.[0] ?? 0);
    }
  }

  /** @returns {Sums} */
  sums() {
    return { width: this.run.width, running: edgesOf(this.run), waiting: edgesOf(this.wait),
      byCause: { width: this.causes[0].width, edges: this.causes.map(edgesOf) } };
  }
}

/** @typedef {{width: number, count: Float64Array, sum: Float64Array}} Bins */

/** Counts an interval. @param {Bins} bins @param {number} start @param {number} end */
function count({ width, count, sum }, start, end) {
  const last = count.length - 1, begin = Math.min(last, Math.ceil(start / width)), bin = Math.min(last, Math.ceil(end / width));
  count[begin] += 1;
  sum[begin] += start;
  count[bin] -= 1;
  sum[bin] -= end;
}

/** The time of intervals up to the edge of each bin. @param {Bins} bins */
function edgesOf({ width, count, sum }) {
  const edges = new Float64Array(count.length);
  for (let bin = 0, n = 0, times = 0; bin < count.length; bin++) {
    n += count[bin];
    times += sum[bin];
    edges[bin] = bin * width * n - times;
  }
  return edges;
}

/**
 * Such a sum at any instant, taken as a straight line inside of a bin.
 * @param {Float64Array} edges @param {number} width @param {number} time
 */
export function upTo(edges, width, time) {
  const bins = edges.length - 1, place = Math.min(Math.max(time / width, 0), bins), bin = Math.min(Math.floor(place), bins - 1);
  return edges[bin] + (edges[bin + 1] - edges[bin]) * (place - bin);
}

/**
 * The first slice that ends after `time`; `from` says where it is at least.
 * @param {Row} row @param {number} time @param {number} [from]
 */
export function after(row, time, from = 0) {
  const { end, index, count } = row;
  // Mostly it is near.
  for (let near = Math.min(from + 3, count); from < near; from++) if (end[from] > time) return from;
  if (time < 0 || from >= count) return from;
  const bin = Math.min(Math.floor(time / row.bin), index.length - 2);
  let low = Math.max(from, Math.min(index[bin], count)), high = Math.max(low, Math.min(index[bin + 1], count));
  // A quotient that was rounded up to a whole number is a bin too far.
  while (low > from && end[low - 1] > time) low--;
  if (high < count && end[high] <= time) high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

/**
 * How long the CPU was busy before an instant: exact.
 * @param {Row} row @param {number} time @param {number} index the first slice that ends after it
 */
export function busyUpTo(row, time, index) {
  return row.busy[index] + (index < row.count && row.task[index] !== 0 && time > row.start[index] ? time - row.start[index] : 0);
}

/**
 * All slices of a task in order of time; the last one asked for is kept.
 * @param {Trace} trace @param {number} task
 */
export function slicesOf(trace, task) {
  if (trace.followed?.task === task) return trace.followed;
  /** @type {{start: number, row: number, slice: number}[]} */
  const found = [];
  let whole = true;
  trace.rows.forEach((row, r) => {
    const { task: tasks, start, count } = row;
    for (let i = 0; i < count; i++) if (tasks[i] === task) found.push({ start: start[i], row: r, slice: i });
    whole &&= row.known === Infinity;
  });
  found.sort((a, b) => a.start - b.start || a.row - b.row);
  const followed = { task, row: Uint32Array.from(found, (one) => one.row), slice: Uint32Array.from(found, (one) => one.slice) };
  if (whole) trace.followed = followed;
  return followed;
}

/**
 * A duration as people write it: three digits and a unit.
 * @param {number} ns
 */
export function duration(ns) {
  const sign = ns < 0 ? "−" : "";
  ns = Math.abs(ns);
  const [unit, name] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / unit;
  return sign + value.toFixed(unit === 1 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0) + " " + name;
}

/**
 * @param {Trace} trace @param {number} task
 */
export function taskName(trace, task) {
  const [pid, name] = trace.head.tasks[task] ?? [0, "?"];
  return task === 0 ? "unknown" : `${name}:${pid}`;
}

