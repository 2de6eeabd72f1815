// @ts-check
// The flame graph of time off the CPU: of a task or of all, in what is shown or chosen.
import { Numbers, duration, taskName } from "./data.js";
import { firstFrom } from "./points.js";

/**
 * Sleeps in order of their begins, with the places of their stacks; each stack is the places of its frames' names. Wakers: 0 to 2
 * are those of WAKERS, tasks come behind them; their stacks are one more than their places, and 0 without one.
 * @typedef {{names: string[], stacks: number[][], since: Float64Array, stack: Uint32Array, task: Uint32Array,
 *   blocked: Float64Array, waited: Float64Array, waker: Uint32Array, wakerStack: Uint32Array, longest: number}} Sleeps
 *
 * @typedef {{name: string, time: number, isWakers: boolean, called: Map<string, Frame>}} Frame
 */

/** Boxes of a picture at most, and the narrowest as a part of its width. */
const BOXES_MAX = 3_000, NARROWEST = 0.002;
/** The height of a box in pixels. */
const ROW = 17;
const RUN_DELAY = "[run delay]";
/** Who ended a sleep, if not a task. */
const WAKERS = ["somebody", "an interrupt", "nobody before the end"];

/** @param {import("./data.js").Trace} trace @param {Uint8Array} bytes @returns {Sleeps} */
export function readSleeps({ head }, bytes) {
  const numbers = new Numbers(bytes), n = head.flame.sleeps;
  /** @type {number[][]} */
  const stacks = [];
  for (let i = 0; i < head.flame.stacks; i++) stacks.push(Array.from({ length: numbers.next() }, () => numbers.next()));
  const column = (/** @type {{[index: number]: number, length: number}} */ into) => {
    for (let i = 0; i < into.length; i++) into[i] = numbers.next();
  };
  const since = new Float64Array(n), stack = new Uint32Array(n), task = new Uint32Array(n), blocked = new Float64Array(n), waited = new Float64Array(n), waker = new Uint32Array(n), wakerStack = new Uint32Array(n);
  [since, stack, task, blocked, waited, waker, wakerStack].forEach(column);
  let longest = 0;
  for (let i = 0; i < n; i++) {
    if (i > 0) since[i] += since[i - 1];
    longest = Math.max(longest, blocked[i] + waited[i]);
  }
  return { names: new TextDecoder().decode(bytes.subarray(numbers.at)).split("\n"), stacks, since, stack, task, blocked, waited, waker, wakerStack, longest };
}

/** The time off the CPU in a window by command and stack; of one task if it is at least 0. With wakers, who ended a sleep stands on it.
 * @param {import("./data.js").Trace} trace @param {Sleeps} sleeps @param {number} from @param {number} to @param {number} only @param {boolean} wakers */
function treeOf({ head }, { names, stacks, since, stack, task, blocked, waited, waker, wakerStack, longest }, from, to, only, wakers) {
  /** @type {Frame} */
  const root = { name: "", time: 0, isWakers: false, called: new Map() };
  const called = (/** @type {Frame} */ of, /** @type {string} */ name, /** @type {number} */ time, isWakers = of.isWakers) => {
    const frame = of.called.get(name) ?? { name, time: 0, isWakers, called: new Map() };
    of.called.set(name, frame);
    frame.time += time;
    return frame;
  };
  for (let i = firstFrom(since, from - longest); i < since.length && since[i] < to; i++) {
    if (only >= 0 && task[i] !== only) continue;
    const woken = since[i] + blocked[i], within = (/** @type {number} */ a, /** @type {number} */ b) => Math.max(0, Math.min(b, to) - Math.max(a, from));
    const wait = within(woken, woken + waited[i]), time = within(since[i], woken) + wait;
    if (time <= 0) continue;
    root.time += time;
    let frame = called(root, head.tasks[task[i]][1], time);
    for (const place of stacks[stack[i]]) frame = called(frame, names[place], time);
    if (wait > 0) called(frame, RUN_DELAY, wait);
    if (!wakers || time <= wait) continue;
    const by = waker[i];
    frame = called(frame, `woken by ${WAKERS[by] ?? head.tasks[by - WAKERS.length][1]}`, time - wait, true);
    if (wakerStack[i] > 0) for (const place of stacks[wakerStack[i] - 1]) frame = called(frame, names[place], time - wait);
  }
  return root;
}

/** A tint for a name, the same in every picture. @param {string} name */
function tintOf(name) {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619) >>> 0;
  return 25 + ((hash >>> 8) & 7) * 5;
}

/**
 * Shows the flame graph of a task, or of all where it is negative; what was chosen comes before what is seen.
 * @param {import("./data.js").Trace} trace @param {Sleeps} sleeps @param {import("./view.js").View} view
 * @param {number} only @param {boolean} wakers @param {HTMLElement} into @param {() => void} turn
 */
export function showFlame(trace, sleeps, view, only, wakers, into, turn) {
  const [a, b] = view.measure ?? [view.from, view.to], from = Math.min(a, b), to = Math.max(a, b);
  const root = treeOf(trace, sleeps, from, to, only, wakers), title = document.createElement("p"), picture = document.createElement("div");
  const whose = only >= 0 ? taskName(trace, only) : "all tasks", { leftOut } = trace.head.flame;
  title.textContent = `Off the CPU: ${duration(root.time)} of ${whose} in ${duration(to - from)}${view.measure ? " chosen" : " shown"}` + (leftOut > 0 ? `; ${leftOut} later sleeps are not in the page` : "");
  const button = document.createElement("button");
  button.textContent = wakers ? "Hide who ended the sleeps" : "Show who ended the sleeps";
  button.addEventListener("click", turn);
  title.append(" ", button);
  /** @type {{frame: Frame, level: number, left: number}[]} */
  const boxes = [];
  const place = (/** @type {Frame} */ of, /** @type {number} */ level, /** @type {number} */ left) => {
    for (const frame of [...of.called.values()].sort((x, y) => y.time - x.time)) {
      if (frame.time < root.time * NARROWEST || boxes.length >= BOXES_MAX) continue;
      boxes.push({ frame, level, left });
      place(frame, level + 1, left);
      left += frame.time / root.time;
    }
  };
  place(root, 0, 0);
  const levels = boxes.reduce((most, { level }) => Math.max(most, level + 1), 1);
  picture.className = "boxes";
  picture.style.height = `${levels * ROW}px`;
  picture.replaceChildren(...boxes.map(({ frame, level, left }) => {
    const box = document.createElement("div"), part = frame.time / root.time;
    box.textContent = frame.name;
    box.title = `${frame.name}: ${duration(frame.time)}, ${(100 * part).toFixed(1)} %`;
    box.style.cssText = `left:${100 * left}%;width:${100 * part}%;bottom:${level * ROW}px`;
    if (level === 0) box.className = "command";
    else if (frame.name === RUN_DELAY && !frame.isWakers) box.className = "delay";
    else if (frame.name === "[no stack]" || frame.name === "[cut]") box.className = "unknown";
    else {
      box.className = frame.isWakers ? "waker" : "";
      box.style.setProperty("--tint", `${tintOf(frame.name)}%`);
    }
    return box;
  }));
  into.replaceChildren(title, picture);
  // Commands are at the bottom.
  into.scrollTop = into.scrollHeight;
}
