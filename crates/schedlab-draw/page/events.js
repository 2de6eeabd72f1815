// @ts-check
// The list of events beside the rows: what happened in the window, in order of time, filtered and page by page.
import { LEFT, after, taskName } from "./data.js";
import { firstFrom, pointName } from "./points.js";
import { frequencyName, kindName } from "./power.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 * @typedef {import("./data.js").Row} Row
 * An event: when, on which row, which slice or -1, and a line about it.
 * @typedef {{time: number, row: number, slice: number, text: string}} Item
 */

/** Entries of a page. */
export const PAGE = 40;
/** Events that are looked at for one page at most: a filter that fits few stops there and says so. */
const LOOKED_MAX = 300_000;

/**
 * Whether a line has all words, and none behind a minus.
 * @param {string} filter @returns {(text: string) => boolean}
 */
export function filterOf(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== "" && word !== "-");
  return (text) => {
    const line = text.toLowerCase();
    return words.every((word) => (word.startsWith("-") ? !line.includes(word.slice(1)) : line.includes(word)));
  };
}

/** Events of a row from an instant until another, in no order. @param {Trace} trace @param {number} r @param {number} from
 * @param {number} to @param {(item: Item) => void} give */
function eventsOf(trace, r, from, to, give) {
  const row = trace.rows[r], cpu = `CPU ${row.cpu}`;
  const put = (/** @type {number} */ time, /** @type {number} */ slice, /** @type {string} */ text) => { if (time >= from && time < to) give({ time, row: r, slice, text: `${cpu}  ${text}` }); };
  const { start, end, task, wait, waker, left, count, points, power } = row;
  // A wait begins before its slice, so slices behind the window can have wakeups in it: look a little on.
  const last = Math.min(after(row, to) + 2, count);
  for (let i = Math.max(0, after(row, from) - 1); i < last; i++) {
    const name = taskName(trace, task[i]);
    if (wait[i] > 0) put(start[i] - wait[i], i, waker[i] > 0 ? `wakeup  ${name} by ${taskName(trace, waker[i])}` : `runnable  ${name}`);
    // What is not known does not begin with a switch.
    if (task[i] !== 0 && (i === 0 || end[i - 1] < start[i])) put(start[i], i, `switch  idle → ${name}`);
    const next = i + 1 < count && start[i + 1] === end[i] ? taskName(trace, task[i + 1]) : "idle";
    if (row.known === Infinity || i + 1 < count) put(end[i], i, `switch  ${name}${task[i] === 0 ? "" : ` (${LEFT[left[i]]})`} → ${next}`);
  }
  for (let i = firstFrom(points.time, from); i < points.time.length && points.time[i] < to; i++) put(points.time[i], -1, pointName(trace, row, i));
  for (let i = firstFrom(power.at, from); i < power.at.length && power.at[i] < to; i++) put(power.at[i], -1, `frequency  ${frequencyName(power.khz[i])}`);
  for (let i = firstFrom(power.start, from); i < power.start.length && power.start[i] < to; i++) put(power.start[i], -1, kindName(power.kind[i]));
}

/** How many events lie in a window at most. @param {Trace} trace @param {number} from @param {number} to */
function eventsMost(trace, from, to) {
  const between = (/** @type {ArrayLike<number>} */ list) => firstFrom(list, to) - firstFrom(list, from);
  return trace.rows.reduce((sum, row) => sum + 3 * (after(row, to) - after(row, from) + 3) + between(row.points.time) + between(row.power.at) + between(row.power.start), 0);
}

/**
 * Some events from an instant on, or, backwards, those before it; the window is looked through in steps that fit.
 * @param {Trace} trace @param {{from: number, to: number}} view @param {number} at @param {1|-1} way @param {string} filter
 * @returns {{items: Item[], cut: boolean}} in order of time; `cut` where looking stopped before a page was full
 */
export function eventsFrom(trace, view, at, way, filter) {
  // What happens at the last instant of the trace belongs to a window that ends there.
  const { from } = view, to = view.to >= trace.span ? trace.span + 1 : view.to;
  const fits = filterOf(filter), step = Math.max(1, (to - from) / 1024);
  /** @type {Item[]} */
  let items = [];
  let looked = 0, width = step, edge = at;
  while (items.length < PAGE && (way > 0 ? edge < to : edge > from)) {
    const next = way > 0 ? Math.min(to, edge + width) : Math.max(from, edge - width);
    const [begin, end] = way > 0 ? [edge, next] : [next, edge];
    const here = eventsMost(trace, begin, end);
    // Not too much at one go, but for a step that can't be cut.
    if (here > LOOKED_MAX / 4 && width > 1) { width = Math.max(1, width / 4); continue; }
    looked += here;
    /** @type {Item[]} */
    const found = [];
    trace.rows.forEach((_, row) => eventsOf(trace, row, begin, end, (item) => { if (fits(item.text)) found.push(item); }));
    found.sort((a, b) => a.time - b.time || a.row - b.row);
    items = way > 0 ? items.concat(found) : found.concat(items);
    edge = next;
    width *= 2;
    if (looked > LOOKED_MAX) break;
  }
  const cut = items.length < PAGE && (way > 0 ? edge < to : edge > from);
  return { items: way > 0 ? upToAnInstant(items) : items.slice(Math.max(0, items.length - PAGE)), cut };
}

/** A page, and all events of its last instant: the next one begins behind it. @param {Item[]} items */
function upToAnInstant(items) {
  if (items.length <= PAGE) return items;
  let end = PAGE;
  while (end < items.length && items[end].time === items[PAGE - 1].time) end++;
  return items.slice(0, end);
}

/** The list and where it stands. */
export class EventList {
  /** @param {Trace} trace @param {HTMLElement} list @param {HTMLElement} title @param {HTMLInputElement} filter
   * @param {(item: Item) => void} go */
  constructor(trace, list, title, filter, go) {
    this.trace = trace;
    this.list = list;
    this.title = title;
    this.filter = filter;
    this.go = go;
    this.at = -1;
    /** @type {1|-1} */
    this.way = 1;
    /** The window and the filter that the list was made for. */
    this.made = "";
    /** @type {Item[]} */
    this.items = [];
  }

  /** Shows events of a window: from its begin where it is another one. @param {import("./view.js").View} view */
  show(view) {
    const wanted = `${view.from} ${view.to} ${this.filter.value} ${this.trace.rows.map((row) => row.count).join()}`;
    if (wanted === this.made) return;
    this.made = wanted;
    [this.at, this.way] = [view.from, 1];
    this.fill(view);
  }

  /** The next or the previous page. @param {import("./view.js").View} view @param {1|-1} way */
  turn(view, way) {
    const edge = way > 0 ? this.items[this.items.length - 1] : this.items[0];
    if (!edge) return;
    const before = this.items, at = way > 0 ? edge.time + 1 : edge.time;
    [this.at, this.way] = [at, way];
    this.fill(view);
    // There is no page beyond the last one.
    if (this.items.length > 0) return;
    this.items = before;
    this.render(view, false);
  }

  /** @param {import("./view.js").View} view */
  fill(view) {
    const { items, cut } = eventsFrom(this.trace, view, this.at, this.way, this.filter.value);
    this.items = items;
    this.render(view, cut);
  }

  /** @param {import("./view.js").View} view @param {boolean} cut */
  render(view, cut) {
    const { trace } = this;
    this.title.textContent = trace.head.fine > 0 ? "Events: this page has no slices; 'schedlab trace events' lists all" : "Events in what is shown";
    this.list.replaceChildren(...this.items.map((item) => {
      const entry = document.createElement("li"), button = document.createElement("button");
      button.textContent = `${((item.time + trace.head.shift) / 1e6).toFixed(6)} ms  ${item.text}`;
      button.addEventListener("click", () => this.go(item));
      entry.append(button);
      return entry;
    }));
    if (!cut && this.items.length > 0) return;
    const note = document.createElement("li");
    note.textContent = cut ? "Looked through many events without enough that fit: look closer, or go on." : "no event fits";
    this.list.append(note);
  }
}
