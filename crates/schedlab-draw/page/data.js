// @ts-check
// The trace as columns: unpacked part by part, coarse first, then only read.

/**
 * @typedef {{cpu: number, socket: number|null, llc: number|null, count: number}} CpuHead
 * @typedef {{start: number, end: number, cpu: number, text: string}} Note
 * @typedef {{title: string, origin: string, span: number, columns: number, cpus: CpuHead[],
 *   tasks: [number, string, string][], parts: [number, number, number][],
 *   points: {names: string[], counts: number[], leftOut: number}, episodes: Note[],
 *   episodesCount: number}} Head
 * `parts` are [row, slices, bytes], in the order in which they stand in the document.
 *
 * Slices of one CPU, in order of time. Times are nanoseconds since the trace began: whole numbers
 * below 2^53, so exact. `busy[i]` is the time that slices before i take. The first `count` are there;
 * they say all up to the instant `known`. `index[b]` is the first that ends after `b * bin`.
 * `share` (of 255) and `top` tell how busy each of the equal columns of the whole trace was and who
 * ran longest in it: what is shown until the slices are there.
 * @typedef {{cpu: number, socket: number|null, llc: number|null, count: number, known: number,
 *   start: Float64Array, end: Float64Array, busy: Float64Array, wait: Float64Array,
 *   task: Uint32Array, waker: Uint32Array, left: Uint8Array, index: Uint32Array, bin: number,
 *   share: Uint8Array, top: Uint32Array, points: Points}} Row
 *
 * Marks of users and other tracepoints that fired on a CPU, in order of time. The phase is 0 for a
 * begin, 1 for an end, 2 for an instant; the task 0 where it is not known. `said` less 1 is the place of
 * what it said in the trace's list.
 * @typedef {{time: Float64Array, name: Uint32Array, phase: Uint8Array, task: Uint32Array, said: Uint32Array}} Points
 *
 * Task time run and waited up to the edges of equally wide bins, so that a column of the curve costs
 * two look-ups however many slices it covers.
 * @typedef {{width: number, running: Float64Array, waiting: Float64Array}} Sums
 * @typedef {{head: Head, said: string[], span: number, rows: Row[], colours: Uint32Array, sums: Sums|null,
 *   followed: {task: number, row: Uint32Array, slice: Uint32Array}|null}} Trace
 */

const BINS = 1 << 18;

/** How a slice ended, by the code in the data. */
export const LEFT = ["unknown", "preempted", "yielded", "slept", "blocked", "stopped", "ended"];

/** How a point is called, by the code in the data. */
export const PHASE = ["begin", "end", ""];

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
class Numbers {
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
 * The trace as far as the page's head and its coarse columns tell it: no slices yet.
 * @param {Head} head
 * @param {Uint8Array} coarse for each row a byte for each column, then a task for each
 * @returns {Trace}
 */
export function outline(head, coarse) {
  const numbers = new Numbers(coarse), none = new Float64Array(0);
  const rows = head.cpus.map((cpu) => {
    const n = cpu.count, bins = Math.max(1, n >> 3);
    const share = coarse.slice(numbers.at, numbers.at + head.columns);
    numbers.at += head.columns;
    const top = new Uint32Array(head.columns);
    for (let i = 0; i < head.columns; i++) top[i] = numbers.next();
    return {
      cpu: cpu.cpu, socket: cpu.socket, llc: cpu.llc, count: 0, known: n === 0 ? Infinity : 0,
      start: new Float64Array(n), end: new Float64Array(n), busy: new Float64Array(n + 1),
      wait: new Float64Array(n), task: new Uint32Array(n), waker: new Uint32Array(n),
      left: new Uint8Array(n), index: new Uint32Array(bins + 2).fill(n),
      bin: Math.max(1, Math.ceil(head.span / bins)), share, top,
      points: { time: none, name: new Uint32Array(0), phase: new Uint8Array(0), task: new Uint32Array(0), said: new Uint32Array(0) },
    };
  });
  const colours = Uint32Array.from(head.tasks, (task) => parseInt(task[2], 16));
  return { head, said: [], span: head.span, rows, colours, sums: null, followed: null };
}

/**
 * Puts the slices of a part behind those that its row has: a column after the other, of gaps,
 * lengths, tasks, ways of leaving, waits, and the wakers of those that waited.
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

/**
 * The points of all rows: for each row a column of gaps, names, phases, tasks, and of the places of what they
 * said in the list that follows, line by line.
 * @param {Trace} trace @param {Uint8Array} bytes
 */
export function points(trace, bytes) {
  const numbers = new Numbers(bytes);
  trace.rows.forEach((row, r) => {
    const n = trace.head.points.counts[r];
    const points = { time: new Float64Array(n), name: new Uint32Array(n), phase: new Uint8Array(n), task: new Uint32Array(n), said: new Uint32Array(n) };
    for (let i = 0, time = 0; i < n; i++) points.time[i] = time += numbers.next();
    for (let i = 0; i < n; i++) points.name[i] = numbers.next();
    for (let i = 0; i < n; i++) points.phase[i] = numbers.next();
    for (let i = 0; i < n; i++) points.task[i] = numbers.next();
    for (let i = 0; i < n; i++) points.said[i] = numbers.next();
    row.points = points;
  });
  trace.said = new TextDecoder().decode(bytes.subarray(numbers.at)).split("\n");
}

/**
 * The time of intervals up to an instant t is the sum of (t - start) over those that began, less the
 * sum of (t - end) over those that ended: so counts and sums of starts and ends in each bin suffice.
 */
export class Totals {
  /** @param {number} span */
  constructor(span) {
    this.width = Math.max(span, 1) / BINS;
    const columns = () => ({ count: new Float64Array(BINS + 1), sum: new Float64Array(BINS + 1) });
    this.run = columns();
    this.wait = columns();
  }

  /** Takes in slices of a row. @param {Row} row @param {number} first @param {number} last */
  add(row, first, last) {
    const { width, run, wait } = this;
    for (let i = first; i < last; i++) {
      const start = row.start[i], begin = Math.min(BINS, Math.ceil(start / width));
      if (row.task[i] !== 0) {
        const end = row.end[i], bin = Math.min(BINS, Math.ceil(end / width));
        run.count[begin] += 1;
        run.sum[begin] += start;
        run.count[bin] -= 1;
        run.sum[bin] -= end;
      }
      if (row.wait[i] > 0) {
        const since = Math.max(0, start - row.wait[i]), bin = Math.min(BINS, Math.ceil(since / width));
        wait.count[bin] += 1;
        wait.sum[bin] += since;
        wait.count[begin] -= 1;
        wait.sum[begin] -= start;
      }
    }
  }

  /** @returns {Sums} */
  sums() {
    const total = (/** @type {{count: Float64Array, sum: Float64Array}} */ { count, sum }) => {
      const edges = new Float64Array(BINS + 1);
      for (let bin = 0, n = 0, times = 0; bin <= BINS; bin++) {
        n += count[bin];
        times += sum[bin];
        edges[bin] = bin * this.width * n - times;
      }
      return edges;
    };
    return { width: this.width, running: total(this.run), waiting: total(this.wait) };
  }
}

/**
 * Such a sum at any instant, taken as a straight line inside of a bin.
 * @param {Float64Array} edges @param {number} width @param {number} time
 */
export function upTo(edges, width, time) {
  const place = Math.min(Math.max(time / width, 0), BINS), bin = Math.min(Math.floor(place), BINS - 1);
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

/**
 * The last point of a row at most `room` ns away from an instant and nearest to it, or -1.
 * @param {Row} row @param {number} time @param {number} room
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
 * @param {Trace} trace @param {Row} row @param {number} point
 */
export function pointText(trace, row, point) {
  const { time, name, phase, task, said } = row.points;
  const by = task[point] > 0 ? `, ${taskName(trace, task[point])}` : "";
  const what = [trace.head.points.names[name[point]] ?? "?", PHASE[phase[point]]].join(" ").trim();
  return `${what} at ${(time[point] / 1e6).toFixed(6)} ms on CPU ${row.cpu}${by}` + (said[point] > 0 ? `\n${trace.said[said[point] - 1]}` : "");
}
