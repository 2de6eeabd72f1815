// @ts-check
// The trace as columns: unpacked once, then only read.

/**
 * @typedef {{cpu: number, socket: number|null, llc: number|null, bytes: number, count: number}} CpuHead
 * @typedef {{start: number, end: number, cpu: number, text: string}} Note
 * @typedef {{title: string, origin: string, span: number, cpus: CpuHead[],
 *   tasks: [number, string, string][], violations: Note[],
 *   violationsCount: number}} Head
 *
 * Slices of one CPU, in order of time. Times are nanoseconds since the trace began: whole numbers
 * below 2^53, so exact. `busy[i]` is the time that slices before i take.
 * @typedef {{cpu: number, socket: number|null, llc: number|null, start: Float64Array,
 *   end: Float64Array, busy: Float64Array, wait: Float64Array, task: Uint32Array,
 *   waker: Uint32Array, left: Uint8Array}} Row
 *
 * Task time run and waited up to the edges of equally wide bins, so that a column of the curve costs
 * two look-ups however many slices it covers.
 * @typedef {{width: number, running: Float64Array, waiting: Float64Array}} Sums
 * @typedef {{head: Head, span: number, rows: Row[], colours: Uint32Array, sums: Sums}} Trace
 */

const BINS = 65536;

/** How a slice ended, by the code in the data. */
export const LEFT = ["unknown", "preempted", "yielded", "slept", "blocked", "stopped", "ended"];

/**
 * Unpacks the page's own data: base64, raw deflate, then variable-length numbers.
 * @param {string} text
 * @returns {Promise<Uint8Array>}
 */
export async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * @param {Head} head
 * @param {Uint8Array} bytes
 * @returns {Trace}
 */
export function decode(head, bytes) {
  let at = 0;
  const number = () => {
    let value = 0, scale = 1, byte = 0;
    do {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  };
  const rows = head.cpus.map((cpu) => {
    const n = cpu.count;
    const row = {
      cpu: cpu.cpu, socket: cpu.socket, llc: cpu.llc,
      start: new Float64Array(n), end: new Float64Array(n), busy: new Float64Array(n + 1),
      wait: new Float64Array(n), task: new Uint32Array(n), waker: new Uint32Array(n),
      left: new Uint8Array(n),
    };
    let time = 0;
    for (let i = 0; i < n; i++) {
      row.start[i] = time += number();
      const length = number();
      row.end[i] = time += length;
      row.task[i] = number();
      row.left[i] = number();
      row.wait[i] = number();
      row.waker[i] = row.wait[i] > 0 ? number() : 0;
      row.busy[i + 1] = row.busy[i] + (row.task[i] === 0 ? 0 : length);
    }
    return row;
  });
  const colours = Uint32Array.from(head.tasks, (task) => parseInt(task[2], 16));
  return { head, span: head.span, rows, colours, sums: sumUp(rows, head.span) };
}

/**
 * The time of intervals up to an instant t is the sum of (t - start) over those that began, less the
 * sum of (t - end) over those that ended: so counts and sums of starts and ends in each bin suffice.
 * @param {Row[]} rows @param {number} span
 * @returns {Sums}
 */
function sumUp(rows, span) {
  const width = Math.max(span, 1) / BINS;
  const columns = () => ({ count: new Float64Array(BINS + 1), sum: new Float64Array(BINS + 1) });
  const run = columns(), wait = columns();
  const note = (/** @type {ReturnType<typeof columns>} */ into, /** @type {number} */ time, /** @type {number} */ sign) => {
    const bin = Math.min(BINS, Math.max(0, Math.ceil(time / width)));
    into.count[bin] += sign;
    into.sum[bin] += sign * time;
  };
  for (const row of rows) {
    for (let i = 0; i < row.start.length; i++) {
      if (row.task[i] !== 0) {
        note(run, row.start[i], 1);
        note(run, row.end[i], -1);
      }
      if (row.wait[i] > 0) {
        note(wait, Math.max(0, row.start[i] - row.wait[i]), 1);
        note(wait, row.start[i], -1);
      }
    }
  }
  const total = (/** @type {ReturnType<typeof columns>} */ { count, sum }) => {
    const edges = new Float64Array(BINS + 1);
    for (let bin = 0, n = 0, times = 0; bin <= BINS; bin++) {
      n += count[bin];
      times += sum[bin];
      edges[bin] = bin * width * n - times;
    }
    return edges;
  };
  return { width, running: total(run), waiting: total(wait) };
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
 * The first slice that ends after `time`.
 * @param {Row} row @param {number} time @param {number} [from]
 */
export function after(row, time, from = 0) {
  let low = from, high = row.end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

/**
 * How long the CPU was busy in [from, to): exact.
 * @param {Row} row @param {number} from @param {number} to @param {number} first @param {number} last
 * the first slice that ends after `from`, the first that ends after `to`
 */
export function busy(row, from, to, first, last) {
  const before = (/** @type {number} */ index, /** @type {number} */ time) =>
    row.busy[index] + (index < row.end.length && row.task[index] !== 0
      ? Math.max(0, time - row.start[index]) : 0);
  return before(last, to) - before(first, from);
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
