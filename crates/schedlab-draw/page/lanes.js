// @ts-check
// What the rows of the picture are: CPUs in an order, tasks, or groups of tasks; and which colour tasks have.
import { after, taskName } from "./data.js";
import { rowsOf } from "./requests.js";
import { openAs, openTask } from "./waits.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 * @typedef {import("./view.js").View} View
 *
 * What a task or a command did, in order of time, without overlaps: states are numbers of `DOING`.
 * `row` and `slice` say which slice of a CPU it is, -1 where it is none; of a wait that did not end the slice is
 * `openAs(task)`. `cause` is that of a wait. `sums[s][i]` is the time of
 * state s in the pieces before i.
 * @typedef {{count: number, start: Float64Array, end: Float64Array, doing: Uint8Array,
 *   row: Int32Array, slice: Int32Array, cause: Uint8Array, sums: Float64Array[]}} Pieces
 *
 * A row of the picture: a CPU's (`row` is its place in the trace), that of some tasks, or what these did in `requests`.
 * @typedef {{name: string, row: number, tasks: number[], pieces: Pieces|null, requests?: number[]}} Lane
 *
 * All of them; where each CPU's row and each task stands, -1 for nowhere.
 * @typedef {{kind: string, lanes: Lane[], ofRow: Int32Array, ofTask: Int32Array, built: Lane[]}} Lanes
 *
 * The slices of each task: those of task t are the places `first[t]` up to `first[t + 1]`.
 * @typedef {{first: Uint32Array, row: Uint32Array, slice: Uint32Array}} Index
 */

/** States, those first that are shown where tasks of one row do different things. */
export const DOING = ["runs", "waits for a CPU", "uninterruptible (D)", "stopped", "not known", "sleeps"];
export const RUNS = 0, WAITS = 1;
const NOT_KNOWN = 4, SLEEPS = 5;

/** What a task does after it left its CPU, by the code in the data. */
const AFTER = [NOT_KNOWN, NOT_KNOWN, NOT_KNOWN, SLEEPS, 2, 3, -1];

/** What can decide colours: of tasks, in the order of the data; and the frequency, which is one of CPUs. */
export const RULES = ["task", "command", "parent", "priority", "process", "group", "frequency"];

/** By what rows are made, and how they are ordered. */
export const KINDS = ["cpu", "task", "command", "process", "group", "request"];
export const ORDERS = ["number", "socket", "busy"];

/** Lanes whose pieces are kept. */
const BUILT_MAX = 300;

/** The name under which a task's colour is listed. @param {Trace} trace @param {number} task @param {string} rule */
export function groupName(trace, task, rule) {
  if (task === 0) return "not known";
  const [, name, parent, prio] = trace.head.tasks[task];
  if (rule === "command") return name;
  if (rule === "process" || rule === "group") return ownerName(trace, task, rule);
  if (rule === "parent") return `children of ${taskName(trace, parent || task)}`;
  if (rule === "priority") return prio < 0 ? "deadline" : prio < 100 ? `real-time ${99 - prio}` : `nice ${prio - 120}`;
  return taskName(trace, task);
}

/** The process or the control group of a task. @param {Trace} trace @param {number} task @param {string} kind */
function ownerName({ head }, task, kind) {
  const [, , , , , process, group] = head.tasks[task];
  if (kind === "process") return head.processes[process - 1] ?? "process not known";
  return head.groups[group - 1] ?? "control group not known";
}

/** Whether the trace tells what rows or colours of a kind need. @param {Trace} trace @param {string} kind */
export function isTold({ head, khz, requests }, kind) {
  if (kind === "request") return requests.start.length > 0;
  if (kind === "process") return head.processes.length > 0;
  if (kind === "group") return head.groups.length > 0;
  return kind !== "frequency" || khz !== null;
}

/**
 * Gives each task its colour by the rule of the view; with a target, only tasks whose names begin so.
 * @param {Trace} trace @param {View} view @param {boolean} dark
 */
export function recolour(trace, view, dark) {
  const theme = dark ? trace.head.themes.dark : trace.head.themes.light;
  const number = (/** @type {string} */ hex) => parseInt(hex.slice(1), 16);
  const palette = theme.tasks.map(number), other = number(theme.other), rule = Math.max(0, RULES.indexOf(view.by));
  trace.head.tasks.forEach(([, name, , , colours], task) => {
    trace.colours[task] = task === 0 ? number(theme.unknown) : view.target !== "" && !name.startsWith(view.target) ? other : palette[colours[rule] ?? colours[0]];
  });
}

/**
 * The rows that the view asks for.
 * @param {Trace} trace @param {View} view @returns {Lanes}
 */
export function arrange(trace, view) {
  const { rows, head, ran, waited } = trace;
  const ofRow = new Int32Array(rows.length).fill(-1), ofTask = new Int32Array(head.tasks.length).fill(-1);
  /** @type {Lane[]} */
  let lanes;
  if (view.rows === "cpu" || head.fine > 0) {
    const busy = rows.map((row) => (row.known === Infinity ? row.busy[row.count] : row.share.reduce((sum, share) => sum + share, 0)));
    const places = rows.map((_, place) => place);
    // The data stand in the order of sockets.
    if (view.order === "number") places.sort((a, b) => rows[a].cpu - rows[b].cpu);
    if (view.order === "busy") places.sort((a, b) => busy[b] - busy[a] || rows[a].cpu - rows[b].cpu);
    lanes = places.map((row) => ({ name: `CPU ${rows[row].cpu}`, row, tasks: [], pieces: null }));
    lanes.forEach(({ row }, lane) => { ofRow[row] = lane; });
    return { kind: "cpu", lanes, ofRow, ofTask, built: [] };
  }
  if (view.rows === "request") {
    // A task may stand in several rows: none is its own.
    lanes = rowsOf(trace).map((lane) => ({ ...lane, row: -1, pieces: null }));
    return { kind: "request", lanes, ofRow, ofTask, built: [] };
  }
  /** @type {Map<string|number, Lane>} */
  const found = new Map();
  for (let task = 1; task < head.tasks.length; task++) {
    const [, name] = head.tasks[task];
    if (ran[task] + waited[task] === 0 || (view.target !== "" && !name.startsWith(view.target))) continue;
    const title = groupName(trace, task, view.rows), key = view.rows === "task" ? task : title, lane = found.get(key);
    if (lane) lane.tasks.push(task);
    else found.set(key, { name: title, row: -1, tasks: [task], pieces: null });
  }
  // Beside another trace, rows are those of both, in one order.
  if (trace.roles && view.rows === "command") {
    lanes = trace.roles.map((name) => found.get(name) ?? { name, row: -1, tasks: [], pieces: null });
    lanes.forEach(({ tasks }, lane) => tasks.forEach((task) => { ofTask[task] = lane; }));
    return { kind: view.rows, lanes, ofRow, ofTask, built: [] };
  }
  const time = (/** @type {Lane} */ lane) => lane.tasks.reduce((sum, task) => sum + ran[task] + waited[task], 0);
  const times = new Map([...found.values()].map((lane) => [lane, time(lane)]));
  const least = (/** @type {Lane} */ lane) => head.tasks[lane.tasks[0]][0];
  lanes = [...found.values()];
  if (view.order === "number") lanes.sort((a, b) => (view.rows === "command" || view.rows === "group" ? (a.name < b.name ? -1 : 1) : least(a) - least(b)));
  else lanes.sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0));
  lanes.forEach(({ tasks }, lane) => tasks.forEach((task) => { ofTask[task] = lane; }));
  return { kind: view.rows, lanes, ofRow, ofTask, built: [] };
}

/** The slices of all tasks, by task. @param {Trace} trace @returns {Index} */
export function indexOf(trace) {
  if (trace.index) return trace.index;
  const first = new Uint32Array(trace.head.tasks.length + 1);
  for (const { task, count } of trace.rows) for (let i = 0; i < count; i++) first[task[i] + 1]++;
  for (let i = 1; i < first.length; i++) first[i] += first[i - 1];
  const next = first.slice(), all = first[first.length - 1];
  const row = new Uint32Array(all), slice = new Uint32Array(all);
  trace.rows.forEach(({ task, count }, r) => {
    for (let i = 0; i < count; i++) {
      const place = next[task[i]]++;
      row[place] = r;
      slice[place] = i;
    }
  });
  const index = { first, row, slice };
  if (trace.rows.every((one) => one.known === Infinity)) trace.index = index;
  return index;
}

/**
 * What one task did. @param {Trace} trace @param {number} task
 * @returns {{start: number, end: number, doing: number, row: number, slice: number, cause: number}[]}
 */
function lifeOf(trace, task) {
  const { first, row, slice } = indexOf(trace), places = [];
  for (let i = first[task]; i < first[task + 1]; i++) places.push(i);
  const begin = (/** @type {number} */ i) => trace.rows[row[i]].start[slice[i]];
  places.sort((a, b) => begin(a) - begin(b));
  const life = [];
  let until = 0, then = -1;
  for (const i of places) {
    const of = trace.rows[row[i]], at = slice[i], start = Math.max(of.start[at], until);
    const waits = Math.max(until, Math.min(start, start - of.wait[at]));
    if (then >= 0 && waits > until) life.push({ start: until, end: waits, doing: then, row: -1, slice: -1, cause: 0 });
    if (start > waits) life.push({ start: waits, end: start, doing: WAITS, row: row[i], slice: at, cause: of.cause[at] });
    if (of.end[at] > start) life.push({ start, end: of.end[at], doing: RUNS, row: row[i], slice: at, cause: 0 });
    until = Math.max(until, of.end[at]);
    then = AFTER[of.left[at]];
  }
  const open = trace.open.get(task), since = open ? Math.min(Math.max(until, open.since), trace.span) : trace.span;
  if (then >= 0 && until < since) life.push({ start: until, end: since, doing: then, row: -1, slice: -1, cause: 0 });
  if (open && since < trace.span) life.push({ start: since, end: trace.span, doing: WAITS, row: -1, slice: openAs(task), cause: open.parts[0]?.[0] ?? 0 });
  return life;
}

/** What the tasks that ended requests did in them. @param {Trace} trace @param {number[]} places of requests in order */
function lifeWithin(trace, places) {
  const { start, end, task } = trace.requests;
  /** @type {Map<number, {life: ReturnType<typeof lifeOf>, at: number}>} */
  const lives = new Map();
  return places.flatMap((place) => {
    const own = lives.get(task[place]) ?? { life: lifeOf(trace, task[place]), at: 0 }, within = [];
    lives.set(task[place], own);
    while (own.at < own.life.length && own.life[own.at].end <= start[place]) own.at++;
    for (let i = own.at; i < own.life.length && own.life[i].start < end[place]; i++) {
      within.push({ ...own.life[i], start: Math.max(own.life[i].start, start[place]), end: Math.min(own.life[i].end, end[place]) });
    }
    return within;
  });
}

/**
 * What the tasks of a lane did; of several tasks what comes first in `DOING`.
 * @param {Trace} trace @param {Lanes} lanes @param {Lane} lane @returns {Pieces}
 */
export function piecesOf(trace, lanes, lane) {
  if (lane.pieces) return lane.pieces;
  let life = lane.requests ? lifeWithin(trace, lane.requests) : lane.tasks.length === 1 ? lifeOf(trace, lane.tasks[0]) : [];
  if (lane.tasks.length > 1 && !lane.requests) {
    const edges = lane.tasks.flatMap((task) => lifeOf(trace, task)).flatMap((piece) => [{ at: piece.start, by: 1, piece }, { at: piece.end, by: -1, piece }]);
    edges.sort((a, b) => a.at - b.at || a.by - b.by);
    const now = DOING.map(() => new Set());
    let since = 0;
    for (const { at, by, piece } of edges) {
      const doing = now.findIndex((set) => set.size > 0);
      if (doing >= 0 && at > since) {
        const [first] = now[doing], last = life[life.length - 1];
        if (last && last.end === since && last.doing === doing && last.cause === first.cause && (doing !== RUNS || last.row === first.row)) last.end = at;
        else life.push({ ...first, start: since, end: at, doing });
      }
      if (by > 0) now[piece.doing].add(piece); else now[piece.doing].delete(piece);
      since = at;
    }
  }
  const count = life.length;
  const sums = DOING.map((_, doing) => {
    const sum = new Float64Array(count + 1);
    life.forEach((piece, i) => { sum[i + 1] = sum[i] + (piece.doing === doing ? piece.end - piece.start : 0); });
    return sum;
  });
  lane.pieces = { count, start: Float64Array.from(life, (p) => p.start), end: Float64Array.from(life, (p) => p.end),
    doing: Uint8Array.from(life, (p) => p.doing), row: Int32Array.from(life, (p) => p.row), slice: Int32Array.from(life, (p) => p.slice),
    cause: Uint8Array.from(life, (p) => p.cause), sums };
  // Only those that were seen last are kept.
  if (trace.index) lanes.built.push(lane); else { const { pieces } = lane; lane.pieces = null; return pieces; }
  if (lanes.built.length > BUILT_MAX) lanes.built.splice(0, BUILT_MAX / 2).forEach((old) => { if (old !== lane) old.pieces = null; });
  return lane.pieces;
}

/** The first piece that ends after an instant. @param {Pieces} pieces @param {number} time */
export function pieceAfter({ end, count }, time) {
  let low = 0;
  for (let high = count; low < high; ) {
    const middle = (low + high) >> 1;
    if (end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

/**
 * The slice of a CPU that a lane shows at an instant: what runs, or what is waited for.
 * @param {Trace} trace @param {Lanes} lanes @param {number} lane @param {number} time
 * @returns {{row: number, slice: number}} slice -1 for none
 */
export function sliceOn(trace, lanes, lane, time) {
  const of = lanes.lanes[lane], none = { row: of?.row ?? -1, slice: -1 };
  if (!of) return none;
  if (of.row >= 0) {
    const row = trace.rows[of.row], slice = after(row, time);
    return slice < row.count && row.start[slice] <= time ? { row: of.row, slice } : none;
  }
  const pieces = piecesOf(trace, lanes, of), piece = pieceAfter(pieces, time);
  return piece < pieces.count && pieces.start[piece] <= time ? { row: pieces.row[piece], slice: pieces.slice[piece] } : none;
}

/** Where a slice stands, -1 for nowhere. @param {Trace} trace @param {Lanes} lanes @param {number} row @param {number} slice */
export function laneOf(trace, lanes, row, slice) {
  if (row < 0) return slice <= -2 && lanes.kind !== "cpu" ? lanes.ofTask[openTask(slice)] : -1;
  return lanes.kind === "cpu" ? lanes.ofRow[row] ?? -1 : slice >= 0 ? lanes.ofTask[trace.rows[row].task[slice]] : -1;
}
