// @ts-check
// Frequencies, idle states, IPIs and timers of CPUs.
import { Numbers, duration } from "./data.js";
import { firstFrom } from "./points.js";

/**
 * Of one CPU: from when on it had which frequency (kHz), and its idle states and interrupts by their begins. `kind` is
 * 0 for an IPI, 1 for a timer, 2 and more for idle state 0 and deeper. `longest` is the length of the longest.
 * @typedef {{at: Float64Array, khz: Float64Array, start: Float64Array, end: Float64Array, kind: Uint32Array,
 *   longest: number}} Power
 */

/** @param {number} [steps] @param {number} [spans] @returns {Power} */
export function noPower(steps = 0, spans = 0) {
  return { at: new Float64Array(steps), khz: new Float64Array(steps), start: new Float64Array(spans),
    end: new Float64Array(spans), kind: new Uint32Array(spans), longest: 0 };
}

/** What all rows had. @param {import("./data.js").Trace} trace @param {Uint8Array} bytes */
export function readPower(trace, bytes) {
  const numbers = new Numbers(bytes);
  let low = Infinity, high = 0;
  trace.rows.forEach((row, r) => {
    const [steps, spans] = trace.head.power.counts[r], power = noPower(steps, spans);
    for (let i = 0, time = 0; i < steps; i++) power.at[i] = time += numbers.next();
    for (let i = 0; i < steps; i++) {
      power.khz[i] = numbers.next();
      [low, high] = [Math.min(low, power.khz[i]), Math.max(high, power.khz[i])];
    }
    for (let i = 0, time = 0; i < spans; i++) power.start[i] = time += numbers.next();
    for (let i = 0; i < spans; i++) {
      const length = numbers.next();
      power.end[i] = power.start[i] + length;
      power.longest = Math.max(power.longest, length);
    }
    for (let i = 0; i < spans; i++) power.kind[i] = numbers.next();
    row.power = power;
  });
  trace.khz = high > 0 ? [low, high] : null;
}

/** The frequency of a CPU at an instant in kHz, 0 while it is not known. @param {Power} power @param {number} time */
export function frequencyAt({ at, khz }, time) {
  const next = firstFrom(at, time), i = next < at.length && at[next] === time ? next : next - 1;
  return i < 0 ? 0 : khz[i];
}

/** Which of the colours of frequencies one has, -1 for one that is not known. @param {import("./data.js").Trace} trace
 * @param {number} khz @param {number} colours how many there are */
export function speedOf({ khz: range }, khz, colours) {
  if (!range || khz <= 0) return -1;
  const [low, high] = range;
  return high > low ? Math.round(((khz - low) / (high - low)) * (colours - 1)) : colours - 1;
}

/** @param {number} khz */
export function frequencyName(khz) {
  return khz >= 1e6 ? `${(khz / 1e6).toFixed(2)} GHz` : `${Math.round(khz / 1e3)} MHz`;
}

/** @param {number} kind */
export function kindName(kind) {
  return kind === 0 ? "IPI" : kind === 1 ? "timer" : `idle state ${kind - 2}`;
}

/** What a CPU was in at an instant, a line each. @param {Power} power @param {number} time @param {number} room
 * how far beside a short one the instant may lie */
export function powerText(power, time, room) {
  const lines = [], khz = frequencyAt(power, time);
  if (khz > 0) lines.push(`frequency ${frequencyName(khz)}`);
  for (let i = firstFrom(power.start, time - power.longest - room); i < power.start.length && power.start[i] <= time + room; i++) {
    if (power.end[i] + room < time) continue;
    if (power.kind[i] >= 2 && (power.start[i] > time || power.end[i] <= time)) continue;
    lines.push(`${kindName(power.kind[i])}, ${duration(power.end[i] - power.start[i])}`);
    if (lines.length > 6) break;
  }
  return lines;
}

/** Pixels for each IPI and timer of a row, on average; with fewer they are not drawn. */
const SHORT_ROOM = 8;

/**
 * Draws a row's idle states along its lower edge, the deeper the stronger, and its interrupts above that.
 * @param {CanvasRenderingContext2D} c @param {import("./paint.js").Tones} tone @param {import("./view.js").View} view
 * @param {Power} power @param {(time: number) => number} x @param {number} y the row's upper edge @param {number} height
 */
export function drawPower(c, tone, view, power, x, y, height) {
  const { start, end, kind, longest } = power, strip = Math.max(1, height * 0.2);
  const free = [-1, -1, -1], first = firstFrom(start, view.from - longest), behind = firstFrom(start, view.to);
  let short = 0;
  for (let i = first; i < behind; i++) if (kind[i] < 2) short++;
  // More IPIs and timers than this would be a band that says nothing and hides what ran.
  const tellable = short <= (x(view.to) - x(view.from)) / SHORT_ROOM;
  for (let i = first; i < behind; i++) {
    if (end[i] < view.from || (kind[i] < 2 && !tellable)) continue;
    const lane = Math.min(kind[i], 2), from = x(start[i]), to = Math.max(x(end[i]), from + (lane === 2 ? 0.5 : 1));
    if (to < free[lane]) continue;
    free[lane] = to + 0.5;
    c.globalAlpha = lane === 2 ? Math.min(0.9, 0.25 + 0.2 * (kind[i] - 2)) : 1;
    c.fillStyle = [tone.moved, tone.events[3], tone.muted][lane];
    c.fillRect(from, lane === 2 ? y + height - strip : y + height * 0.52, to - from, strip);
  }
  c.globalAlpha = 1;
}
