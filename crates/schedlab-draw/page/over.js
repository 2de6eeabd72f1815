// @ts-check
// What lies over the rows: marks, interrupts, wakeups, the chosen task, episodes, what is measured.
import { duration, slicesOf } from "./data.js";
import { laneOf, piecesOf, pieceAfter } from "./lanes.js";
import { firstFrom } from "./points.js";
import { drawPower } from "./power.js";
import { fillCause, labelOf, waitOf } from "./waits.js";

/**
 * @typedef {import("./paint.js").Painter} Painter
 * @typedef {import("./view.js").View} View
 * @typedef {ReturnType<Painter["layout"]>} Layout
 * @typedef {import("./paint.js").Box} Box
 */

/** Arrows beyond this many hide the rows. */
const ARROWS_MAX = 60;

/** The places of time and lanes. @param {View} view @param {Layout} layout */
function places(view, { rows: box, rowHeight }) {
  const x = (/** @type {number} */ time) => box.left + ((time - view.from) / (view.to - view.from)) * box.width;
  const y = (/** @type {number} */ lane) => box.top + (lane - view.top + 0.5) * rowHeight;
  return { x, y };
}

/** Draws only into the rows. @param {Painter} painter @param {Box} box @param {() => void} draw */
function within({ context: c }, box, draw) {
  c.save();
  c.beginPath();
  c.rect(box.left, box.top, box.width, box.height);
  c.clip();
  draw();
  c.restore();
}

/** The lines that a text takes in so much room. @param {CanvasRenderingContext2D} c @param {string} text @param {number} room */
function wrapped(c, text, room) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.length - 1, more = lines[last] === "" ? word : `${lines[last]} ${word}`;
    if (lines[last] !== "" && c.measureText(more).width > room) lines.push(word); else lines[last] = more;
  }
  return lines;
}

/** A text on a plate, so that it can be read on anything. @param {Painter} painter @param {string} text @param {number} x @param {number} y
 * its last line's @param {number} left @param {number} right where it must stay */
function plate({ context: c, tone }, text, x, y, left, right) {
  const lines = wrapped(c, text, right - left - 12), width = Math.max(...lines.map((line) => c.measureText(line).width));
  const from = Math.max(left + 4, Math.min(x - width / 2, right - width - 4)), top = y - 14 * (lines.length - 1);
  c.globalAlpha = 0.92;
  c.fillStyle = `#${tone.ground.toString(16).padStart(6, "0")}`;
  c.fillRect(from - 4, top - 11, width + 8, 14 * lines.length + 1);
  c.globalAlpha = 1;
  c.fillStyle = tone.text;
  c.textAlign = "left";
  c.textBaseline = "alphabetic";
  lines.forEach((line, i) => c.fillText(line, from, top + 14 * i));
}

/** Marks and other tracepoints: a pennant at the top of the row; where there are too many to tell apart, a
 * band as strong as they are dense. Interrupts are bars from entry to exit.
 * @param {Painter} painter @param {View} view @param {Layout} layout */
export function marks(painter, view, layout) {
  const { trace, context: c, lanes, tone } = painter, { rows: box, rowHeight } = layout;
  const { x } = places(view, layout), [first, end] = painter.seen(view);
  const size = Math.min(Math.max(rowHeight / 5, 2), 7), dense = box.width / 12;
  within(painter, box, () => {
    for (let lane = first; lane < end; lane++) {
      const place = lanes.lanes[lane].row, y = box.top + (lane - view.top) * rowHeight;
      const { requests } = lanes.lanes[lane];
      if (requests) brackets(painter, view, requests, x, y, rowHeight);
      if (place < 0) continue;
      const { points, interrupts, power } = trace.rows[place];
      drawPower(c, tone, view, power, x, y, rowHeight);
      bars(painter, view, interrupts, x, y + rowHeight * 0.72, Math.max(1, rowHeight * 0.2));
      const low = firstFrom(points.time, view.from), high = firstFrom(points.time, view.to);
      if (high - low > dense) { band(painter, points, low, high, x, y, Math.max(1, Math.min(3, rowHeight / 6)), box); continue; }
      c.fillStyle = tone.text;
      c.strokeStyle = `#${tone.ground.toString(16).padStart(6, "0")}`;
      c.lineWidth = 1;
      c.beginPath();
      for (let i = low, free = -1; i < high; i++) {
        const at = x(points.time[i]), phase = points.phase[i];
        if (points.paired[i] || at < free) continue;
        free = at + 1;
        // It points to where the time of a begin goes on, and of an end went by; else to both.
        c.moveTo(at - (phase === 0 ? 0 : size), y);
        c.lineTo(at + (phase === 1 ? 0 : size), y);
        c.lineTo(at, y + size * 1.6);
        c.closePath();
      }
      c.stroke();
      c.fill();
    }
  });
}

/** Where the requests of a row begin and end. @param {Painter} painter @param {View} view @param {number[]} places in order
 * @param {(time: number) => number} x @param {number} y @param {number} height */
function brackets({ trace: { requests: { start, end } }, context: c, tone }, view, places, x, y, height) {
  c.fillStyle = tone.text;
  for (let i = firstFrom(places.map((place) => end[place]), view.from), free = -1; i < places.length && start[places[i]] < view.to; i++) {
    const from = x(start[places[i]]), to = x(end[places[i]]);
    if (to < free) continue;
    free = to + 2;
    c.fillRect(from, y + 1, 1, height - 2);
    c.fillRect(from, y + height - 2, Math.max(1, to - from), 1);
  }
}

/** Interrupts of a row that are in the window, one for each half pixel at most. @param {Painter} painter @param {View} view
 * @param {import("./points.js").Interrupts} interrupts @param {(time: number) => number} x @param {number} y @param {number} height */
function bars({ context: c, tone }, view, { start, end, soft }, x, y, height) {
  // One that began before the window may reach into it: begins are near each other.
  for (let i = Math.max(0, firstFrom(start, view.from) - 4), free = [-1, -1]; i < start.length && start[i] < view.to; i++) {
    const from = x(start[i]), to = Math.max(x(end[i]), from + 1);
    if (to < free[soft[i]]) continue;
    free[soft[i]] = to + 0.5;
    c.fillStyle = tone.events[soft[i]];
    c.fillRect(from, y, to - from, height);
  }
}

/** Dense points as a band: the more of them in three pixels, the stronger. @param {Painter} painter
 * @param {import("./points.js").Points} points @param {number} low @param {number} high
 * @param {(time: number) => number} x @param {number} y @param {number} height @param {Box} box */
function band({ context: c, tone }, points, low, high, x, y, height, box) {
  const cells = new Uint16Array(Math.ceil(box.width / 3) + 1);
  for (let i = low; i < high; i++) if (!points.paired[i]) cells[Math.floor((x(points.time[i]) - box.left) / 3)]++;
  c.fillStyle = tone.text;
  for (let cell = 0; cell < cells.length; cell++) {
    if (cells[cell] === 0) continue;
    // Pale enough not to be taken for a bar of its own: what ran stays what is seen.
    c.globalAlpha = Math.min(0.4, 0.12 + 0.06 * Math.log2(cells[cell]));
    c.fillRect(box.left + cell * 3, y, 3, height);
  }
  c.globalAlpha = 1;
}

/** In rows of tasks, who woke whom, while there are few enough to follow.
 * @param {Painter} painter @param {View} view @param {Layout} layout */
export function wakeups(painter, view, layout) {
  const { trace, context: c, lanes, tone } = painter, { rows: box, rowHeight } = layout;
  if (lanes.kind === "cpu" || rowHeight < 6) return;
  const { x, y } = places(view, layout), [first, end] = painter.seen(view);
  /** @type {{time: number, from: number, to: number}[]} */
  const arrows = [];
  for (let lane = first; lane < end && arrows.length <= ARROWS_MAX; lane++) {
    const pieces = piecesOf(trace, lanes, lanes.lanes[lane]);
    for (let i = pieceAfter(pieces, view.from); i < pieces.count && pieces.start[i] < view.to && arrows.length <= ARROWS_MAX; i++) {
      if (pieces.doing[i] !== 1 || pieces.row[i] < 0 || pieces.start[i] < view.from) continue;
      const waker = trace.rows[pieces.row[i]].waker[pieces.slice[i]], from = waker > 0 ? lanes.ofTask[waker] : -1;
      if (from >= 0 && from !== lane) arrows.push({ time: pieces.start[i], from, to: lane });
    }
  }
  if (arrows.length > ARROWS_MAX) return;
  within(painter, box, () => arrows.forEach(({ time, from, to }) => arrow(c, tone.text, x(time), y(from), x(time), y(to), 1)));
}

/** @param {CanvasRenderingContext2D} c @param {string} colour @param {number} x @param {number} y @param {number} toX @param {number} toY @param {number} width */
function arrow(c, colour, x, y, toX, toY, width) {
  const angle = Math.atan2(toY - y, toX - x), size = 5 + width;
  c.strokeStyle = c.fillStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(toX, toY);
  c.stroke();
  c.beginPath();
  c.moveTo(toX, toY);
  c.lineTo(toX - size * Math.cos(angle - 0.4), toY - size * Math.sin(angle - 0.4));
  c.lineTo(toX - size * Math.cos(angle + 0.4), toY - size * Math.sin(angle + 0.4));
  c.fill();
  c.lineWidth = 1;
}

/** The chosen task from slice to slice. @param {Painter} painter @param {View} view @param {Layout} layout */
export function links(painter, view, layout) {
  const { trace, context: c, lanes, tone } = painter, { rows } = trace;
  if (view.task <= 0 || lanes.kind !== "cpu") return;
  const { row, slice } = slicesOf(trace, view.task), { x, y } = places(view, layout);
  const begin = (/** @type {number} */ i) => rows[row[i]].start[slice[i]];
  let first = 0;
  for (let high = row.length; first < high; ) {
    const middle = (first + high) >> 1;
    if (begin(middle) >= view.from) high = middle; else first = middle + 1;
  }
  // The slice before the window may move into it.
  first = Math.max(0, first - 1);
  /** @type {{start: number, end: number, lane: number}[]} */
  const slices = [];
  for (let i = first; i < row.length && slices.length <= 4000; i++) {
    slices.push({ start: begin(i), end: rows[row[i]].end[slice[i]], lane: lanes.ofRow[row[i]] });
    if (begin(i) > view.to) break;
  }
  if (slices.length > 4000) return;
  within(painter, layout.rows, () => {
    c.strokeStyle = tone.alarm;
    c.lineWidth = 1.2;
    c.beginPath();
    for (let i = 1; i < slices.length; i++) {
      if (slices[i].lane === slices[i - 1].lane) continue;
      c.moveTo(x(slices[i - 1].end), y(slices[i - 1].lane));
      c.lineTo(x(slices[i].start), y(slices[i].lane));
    }
    c.stroke();
    c.lineWidth = 1;
  });
}

/** The lane above the rows: each episode of the window, three pixels wide at least, however many rows there are.
 * @param {Painter} painter @param {View} view @param {Box} box */
export function episodeLane({ trace, context: c, tone }, view, box) {
  if (box.height <= 0) return;
  c.fillStyle = tone.muted;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("lost", box.left - 6, box.top + box.height / 2);
  c.fillStyle = tone.grid;
  c.fillRect(box.left, box.top, box.width, box.height);
  const scale = box.width / (view.to - view.from);
  trace.head.episodes.forEach((note, index) => {
    if (note.end < view.from || note.start > view.to) return;
    const from = Math.max(box.left, box.left + (note.start - view.from) * scale), to = Math.min(box.left + box.width, box.left + (note.end - view.from) * scale);
    c.fillStyle = index === view.episode ? tone.text : tone.alarm;
    c.fillRect(Math.min(from, box.left + box.width - 3), box.top, Math.max(3, to - from), box.height);
  });
}

/** The episode of the lane near a place, or -1. @param {Painter} painter @param {View} view @param {Box} box @param {number} x */
export function episodeAt({ trace }, view, box, x) {
  const scale = (view.to - view.from) / box.width, time = view.from + (x - box.left) * scale;
  let best = -1, least = 6 * scale;
  trace.head.episodes.forEach((note, index) => {
    const away = Math.max(note.start - time, time - Math.max(note.end, note.start + 3 * scale), 0);
    if (away < least) [best, least] = [index, away];
  });
  return best;
}

/** CPUs of a list as Linux writes it (`0-3,8`). @param {string} list */
export function cpusOf(list) {
  return list.split(",").filter((part) => part !== "").flatMap((part) => {
    const [from, to] = part.split("-").map(Number);
    return Array.from({ length: (to ?? from) - from + 1 }, (_, i) => from + i);
  });
}

/** The chosen episode in its place: who waited how long, who woke it, which CPUs were free.
 * @param {Painter} painter @param {View} view @param {Layout} layout */
export function chosenEpisode(painter, view, layout) {
  const { trace, context: c, lanes, tone } = painter, { rows: box, rowHeight } = layout;
  const note = trace.head.episodes[view.episode];
  if (!note || note.end < view.from || note.start > view.to) return;
  const { x, y } = places(view, layout), { story } = note;
  const row = (/** @type {number} */ cpu) => trace.rows.findIndex((one) => one.cpu === cpu);
  const lane = lanes.kind === "cpu" ? lanes.ofRow[row(note.cpu)] : lanes.ofTask[story?.task ?? 0];
  const [start, end] = [x(note.start), x(note.end)], half = Math.max(2, rowHeight / 2);
  within(painter, { ...box, height: box.height }, () => {
    if (story && lanes.kind === "cpu") {
      for (const cpu of cpusOf(story.free)) {
        const at = row(cpu);
        if (at >= 0) gapsOf(trace.rows[at], note, (from, to) => hatch(painter, x(from), y(lanes.ofRow[at]) - half, x(to) - x(from), 2 * half));
      }
    }
    if (lane === undefined || lane < 0) return;
    const at = y(lane), since = story ? x(story.since) : start;
    c.fillStyle = tone.waiting;
    c.fillRect(since, at + half * 0.45, Math.max(2, end - since), Math.max(2, half * 0.5));
    const waker = story && story.waker > 0 ? (lanes.kind === "cpu" ? lanes.ofRow[row(story.wakerCpu)] : lanes.ofTask[story.waker]) : -1;
    if (story && waker !== undefined && waker >= 0 && waker !== lane) arrow(c, tone.alarm, since, y(waker), since, at, 1.8);
    // A bracket as long as the episode.
    c.strokeStyle = tone.alarm;
    c.lineWidth = 2;
    c.strokeRect(start, at - half + 1, Math.max(2, end - start), Math.max(2, 2 * half - 2));
    c.lineWidth = 1;
  });
  if (lane === undefined || lane < 0) return;
  const name = story && story.task > 0 ? `${trace.head.tasks[story.task]?.[1] ?? "a task"} waits, ` : "";
  const lost = story ? `, ${duration(story.cost)} lost` : "";
  const text = `${name}${duration(note.end - note.start)}${lost}`, above = y(lane) - half - 6;
  // Beside its row, not on it.
  const beside = above >= box.top + 10 ? above : y(lane) + half + 14;
  plate(painter, text, (Math.max(start, box.left) + Math.min(end, box.left + box.width)) / 2, beside, box.left, box.left + box.width);
}

/** Calls with each stretch of an interval in which a row has no slice. @param {import("./data.js").Row} row
 * @param {{start: number, end: number}} note @param {(from: number, to: number) => void} call */
function gapsOf(row, note, call) {
  let since = note.start;
  if (row.count > 0) {
    let low = 0;
    for (let high = row.count; low < high; ) {
      const middle = (low + high) >> 1;
      if (row.end[middle] > note.start) high = middle; else low = middle + 1;
    }
    for (let i = low, n = 0; i < row.count && row.start[i] < note.end && n < 3000; i++, n++) {
      if (row.start[i] > since) call(since, row.start[i]);
      since = Math.max(since, row.end[i]);
    }
  }
  if (since < note.end) call(since, note.end);
}

/** @param {Painter} painter @param {number} x @param {number} y @param {number} width @param {number} height */
function hatch({ context: c, tone }, x, y, width, height) {
  c.save();
  c.beginPath();
  c.rect(x, y, Math.max(width, 1), height);
  c.clip();
  c.globalAlpha = 0.12;
  c.fillStyle = c.strokeStyle = tone.alarm;
  c.fillRect(x, y, Math.max(width, 1), height);
  c.globalAlpha = 0.8;
  c.lineWidth = 1;
  c.beginPath();
  // Not beyond the window: a stretch can be far longer.
  const from = Math.max(x, 0), to = Math.min(x + width, c.canvas.width);
  for (let at = Math.floor(from / 7) * 7 - height; at < to; at += 7) {
    c.moveTo(at, y + height);
    c.lineTo(at + height, y);
  }
  c.stroke();
  c.restore();
}

/** The chosen slice, and what is measured. @param {Painter} painter @param {View} view @param {Layout} layout */
export function chosen(painter, view, layout) {
  const { trace, context: c, lanes, tone } = painter, { rows: box, rowHeight, curve: below } = layout;
  const { x, y } = places(view, layout), lane = laneOf(trace, lanes, view.row, view.slice);
  const wait = waitOf(trace, view.row, view.slice);
  if (wait && layout.waits.height > 0) within(painter, { ...layout.waits, top: layout.waits.top - 1, height: layout.waits.height + 2 }, () => {
    c.strokeStyle = tone.text;
    c.lineWidth = 2;
    c.strokeRect(x(wait.start), layout.waits.top, Math.max(2, x(wait.end) - x(wait.start)), layout.waits.height);
    c.lineWidth = 1;
  });
  // On its queue's CPU, or in its own row, from when to when it waited.
  const stood = wait && (lanes.kind === "cpu" ? lanes.ofRow[wait.queue] ?? -1 : lanes.ofTask[wait.task]);
  if (wait && stood !== null && stood >= 0) within(painter, box, () => {
    const from = x(wait.start), width = Math.max(2, x(wait.end) - from), height = Math.max(3, Math.min(8, rowHeight / 4));
    if (lanes.kind === "cpu") {
      c.fillStyle = tone.text;
      c.fillRect(from, y(stood) + rowHeight / 2 - height - 2, width, height + 2);
      fillCause(c, trace, painter.dark, wait.cause, { left: from, top: y(stood) + rowHeight / 2 - height - 1, width, height });
    } else {
      c.strokeStyle = tone.text;
      c.lineWidth = 2;
      c.strokeRect(from, y(stood) - rowHeight / 2 + 1, width, rowHeight - 2);
      c.lineWidth = 1;
    }
  });
  if (wait && stood !== null && stood >= 0) {
    const above = y(stood) - rowHeight / 2 - 6, key = `${wait.task} ${wait.start} ${wait.end}`;
    // Who ran instead is looked up once.
    if (painter.label.key !== key) painter.label = { key, text: labelOf(trace, wait) };
    const [from, to] = [Math.max(x(wait.start), box.left), Math.min(x(wait.end), box.left + box.width)];
    if (from < to) plate(painter, painter.label.text, (from + to) / 2, above >= box.top + 10 ? above : y(stood) + rowHeight / 2 + 14, box.left, box.left + box.width);
  }
  if (view.slice >= 0 && lane >= 0) {
    const row = trace.rows[view.row], from = x(row.start[view.slice]);
    within(painter, { ...box, left: box.left - 1, top: box.top - 1, width: box.width + 2, height: box.height + 2 }, () => {
      c.strokeStyle = tone.text;
      c.lineWidth = 2;
      c.strokeRect(from, y(lane) - rowHeight / 2, Math.max(2, x(row.end[view.slice]) - from), rowHeight);
      c.lineWidth = 1;
    });
  }
  if (!view.measure) return;
  const [a, b] = view.measure.map(x), height = below.top + below.height - box.top;
  within(painter, { ...box, height }, () => {
    c.fillStyle = c.strokeStyle = tone.alarm;
    c.globalAlpha = 0.15;
    c.fillRect(Math.min(a, b), box.top, Math.abs(b - a), height);
    c.globalAlpha = 1;
    c.strokeRect(Math.min(a, b), box.top, Math.abs(b - a), height);
  });
  plate(painter, duration(Math.abs(view.measure[1] - view.measure[0])), (a + b) / 2, box.top + 14, box.left, box.left + box.width);
}
