// @ts-check
// Requests: what the marks of one name enclose, and the rows that they make.
import { Numbers } from "./data.js";
import { firstFrom } from "./points.js";

/**
 * In order of their begins. `name` is a place in the names of points, `task` who ended it.
 * @typedef {{start: Float64Array, end: Float64Array, name: Uint32Array, task: Uint32Array}} Requests
 */

/** @returns {Requests} */
export function noRequests(n = 0) {
  return { start: new Float64Array(n), end: new Float64Array(n), name: new Uint32Array(n), task: new Uint32Array(n) };
}

/** @param {import("./data.js").Trace} trace @param {Uint8Array} bytes @returns {Requests} */
export function readRequests({ head }, bytes) {
  const numbers = new Numbers(bytes), found = noRequests(head.requests[0]), { start, end, name, task } = found;
  for (let i = 0, time = 0; i < start.length; i++) start[i] = time += numbers.next();
  for (let i = 0; i < start.length; i++) end[i] = start[i] + numbers.next();
  for (let i = 0; i < start.length; i++) name[i] = numbers.next();
  for (let i = 0; i < start.length; i++) task[i] = numbers.next();
  return found;
}

/** The places of the requests of each name. @param {Requests} requests @returns {Map<number, number[]>} */
export function byName({ name }) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  name.forEach((of, place) => { const places = found.get(of); if (places) places.push(place); else found.set(of, [place]); });
  return found;
}

/** The slowest 1 % of some requests, at least one. @param {Requests} requests @param {number[]} places */
export function slowest({ start, end }, places) {
  const length = (/** @type {number} */ i) => end[i] - start[i];
  return places.slice().sort((a, b) => length(b) - length(a) || start[a] - start[b]).slice(0, Math.ceil(places.length / 100));
}

/** The rows of requests: those of one name that do not overlap share one.
 * @param {import("./data.js").Trace} trace @returns {{name: string, tasks: number[], requests: number[]}[]} */
export function rowsOf({ head, requests }) {
  return [...byName(requests)].flatMap(([name, places]) => {
    /** @type {{requests: number[], end: number}[]} */
    const rows = [];
    for (const place of places) {
      let row = rows.find(({ end }) => end <= requests.start[place]);
      if (!row) rows.push(row = { requests: [], end: 0 });
      row.requests.push(place);
      row.end = requests.end[place];
    }
    const title = head.points.names[name] ?? "?";
    return rows.map(({ requests: own }, i) => ({ name: rows.length > 1 ? `${title} ${i + 1}` : title, tasks: [...new Set(own.map((place) => requests.task[place]))], requests: own }));
  });
}

/** The request of a row at an instant; -1 for none. @param {Requests} requests @param {number[]} places @param {number} time */
export function requestAt({ start, end }, places, time) {
  const starts = places.map((place) => start[place]), place = places[firstFrom(starts, time + 0.5) - 1] ?? -1;
  return place >= 0 && end[place] > time ? place : -1;
}
