// @ts-check
// The picture: rows, axis, curve, minimap. Each pixel of a row costs two binary searches at most,
// so a frame costs pixels times rows, whatever the number of slices.
import { after, busyUpTo, upTo } from "./data.js";
import { WAITS, arrange, pieceAfter, piecesOf, recolour } from "./lanes.js";
import { causeTitle, fillCause, spread, waitingBy, waitsIn } from "./waits.js";
import { chosen, chosenEpisode, episodeLane, links, marks, wakeups } from "./over.js";
import { frequencyAt, speedOf } from "./power.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 * @typedef {import("./view.js").View} View
 * @typedef {{left: number, width: number, top: number, height: number}} Box
 * @typedef {{ground: number, text: string, muted: string, grid: string, axis: string, unknown: number,
 *   running: string, waiting: string, alarm: string, moved: string, events: string[], doing: number[], speeds: number[],
 *   causes: number[], edges: Map<number, number>}} Tones
 * `doing` are the colours of states, by their numbers; `causes` those of waits by the numbers of causes; `speeds` those of frequencies, from the lowest on; `edges`
 * gives a colour near the ground one that is seen beside it.
 */

/** Relative luminance, 0..1 (WCAG 2.2). @param {number} rgb */
function luminance(rgb) {
  const linear = (/** @type {number} */ channel) => channel <= 10 ? channel / 3294.6 : ((channel / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(rgb >> 16) + 0.7152 * linear((rgb >> 8) & 255) + 0.0722 * linear(rgb & 255);
}

/** @param {number} a @param {number} b */
function contrast(a, b) {
  const [one, two] = [luminance(a) + 0.05, luminance(b) + 0.05];
  return Math.max(one, two) / Math.min(one, two);
}

/** What can be read on a colour, with a contrast of 4.5 at least. @param {number} rgb */
export function inkOn(rgb) {
  return ["#111827", "#ffffff", "#000000"].find((ink) => contrast(rgb, parseInt(ink.slice(1), 16)) >= 4.5) ?? "#000000";
}

/** The colour, away from the ground until it is seen beside it. @param {number} rgb @param {number} ground */
function edgeOf(rgb, ground) {
  const end = luminance(ground) > 0.179 ? 0 : 0xffffff;
  for (let step = 0; step <= 16; step++) {
    const mixed = mix(end, rgb, step / 16);
    if (contrast(mixed, ground) >= 3) return mixed;
  }
  return end;
}


/** As much of a colour is left where another task is followed: names on it can still be read. */
const PALED = 0.15;
/** Rows so high, in pixels, have a line below pale slices. */
const EDGED = 12;
/** A name that is cut has this many letters at least, the ellipsis included. */
const NAME_LEAST = 6;

/** @param {Trace} trace @param {boolean} dark @returns {Tones} */
export function tones(trace, dark) {
  const theme = dark ? trace.head.themes.dark : trace.head.themes.light;
  const number = (/** @type {string} */ hex) => parseInt(hex.slice(1), 16), ground = number(theme.ground);
  const { text, muted, grid, axis, running, waiting, alarm, moved, events } = theme;
  const doing = [running, waiting, theme.moved, text, theme.unknown].map(number);
  const causes = [waiting, ...trace.head.causes.map((cause) => (dark ? cause.dark : cause.light))].map(number);
  const edges = new Map([...theme.tasks, theme.unknown].map(number).map((colour) => [colour, edgeOf(colour, ground)]));
  return { ground, text, muted, grid, axis, unknown: number(theme.unknown), running, waiting, alarm, moved, events, speeds: theme.speeds.map(number), causes, edges, doing: [...doing, mix(number(running), ground, 0.16)] };
}

/** @param {number} over @param {number} under @param {number} part 0..1 of `over` */
function mix(over, under, part) {
  const p = Math.round(part * 256), q = 256 - p;
  // Red and blue at once: green's place between them takes the carry.
  const ends = (((over & 0xff00ff) * p + (under & 0xff00ff) * q) / 256) & 0xff00ff;
  return ends | ((((over & 0xff00) * p + (under & 0xff00) * q) / 256) & 0xff00);
}

/**
 * The colours of a row's pixels, 0xRRGGBB: what ran longest where one slice fills the pixel, else as
 * strong as the pixel was busy. The busy time is exact; the hue is that of a slice in the pixel.
 * Where the row's slices are not there yet, its coarse columns stand for them.
 * @param {Trace} trace @param {View} view @param {number} index @param {Uint32Array} out
 * @param {Tones} tone
 */
export function rowColours(trace, view, index, out, tone) {
  const row = trace.rows[index], { start, end, task: tasks, count, known } = row;
  const width = out.length, step = (view.to - view.from) / width;
  const paled = view.task > 0 ? view.task : -1, speeds = view.by === "frequency" && trace.khz !== null;
  let first = after(row, view.from), before = busyUpTo(row, view.from, first);
  for (let x = 0; x < width; x++) {
    const from = view.from + x * step, to = from + step;
    if (to > known) return coarseColours(trace, view, row, out, tone, x);
    if (first >= count) { out.fill(tone.ground, x); return; }
    if (start[first] >= to) { out[x] = tone.ground; continue; }
    let task = tasks[first], share = 1, last = first;
    if (start[first] > from || end[first] < to) {
      last = after(row, to, first);
      const until = busyUpTo(row, to, last);
      share = Math.min(1, (until - before) / step);
      before = until;
      const middle = (first + Math.min(last, count - 1)) >> 1;
      if (start[middle] < to && tasks[middle] !== 0) task = tasks[middle];
      share = share > 0 ? Math.max(share, 0.12) : task === 0 ? 1 : 0.12;
    } else {
      if (end[first] === to) last++;
      before = busyUpTo(row, to, last);
    }
    let colour = task === 0 ? tone.unknown : speeds ? speedColour(trace, row, (from + to) / 2, tone) : trace.colours[task];
    if (paled > 0 && task !== paled) colour = mix(colour, tone.ground, PALED);
    out[x] = share >= 1 ? colour : mix(colour, tone.ground, share);
    first = last;
  }
}

/** The colour of what ran by the frequency of its CPU. @param {Trace} trace @param {import("./data.js").Row} row
 * @param {number} time @param {Tones} tone */
function speedColour(trace, row, time, tone) {
  const speed = speedOf(trace, frequencyAt(row.power, time), tone.speeds.length);
  return speed < 0 ? tone.unknown : tone.speeds[speed];
}

/**
 * The same from pixel `x` on, by the columns made before: each as strong as it was busy.
 * @param {Trace} trace @param {View} view @param {import("./data.js").Row} row
 * @param {Uint32Array} out @param {Tones} tone @param {number} x
 */
function coarseColours(trace, view, row, out, tone, x) {
  const columns = row.share.length, scale = columns / Math.max(trace.span, 1);
  const step = (view.to - view.from) / out.length;
  for (; x < out.length; x++) {
    const column = Math.min(columns - 1, Math.floor((view.from + (x + 0.5) * step) * scale));
    const task = row.top[column], share = row.share[column] / 255;
    const middle = view.from + (x + 0.5) * step;
    let colour = task === 0 ? tone.unknown : view.by === "frequency" && trace.khz ? speedColour(trace, row, middle, tone) : trace.colours[task];
    if (view.task > 0 && task !== view.task) colour = mix(colour, tone.ground, PALED);
    out[x] = share > 0 ? mix(colour, tone.ground, Math.max(share, 0.12)) : tone.ground;
  }
}

/**
 * The colours of a lane of tasks: each pixel the mean of what was done in it. Sleep yields to all else.
 * @param {import("./lanes.js").Pieces} pieces @param {View} view @param {Uint32Array} out @param {Tones} tone
 */
export function laneColours(pieces, view, out, tone) {
  const step = (view.to - view.from) / out.length, states = tone.doing.length;
  const spent = (/** @type {number} */ state, /** @type {number} */ time, /** @type {number} */ piece) =>
    pieces.sums[state][piece] + (piece < pieces.count && pieces.doing[piece] === state && time > pieces.start[piece] ? time - pieces.start[piece] : 0);
  let first = pieceAfter(pieces, view.from);
  for (let x = 0; x < out.length; x++) {
    const from = view.from + x * step, to = from + step;
    let last = first;
    while (last < pieces.count && pieces.end[last] <= to && last - first < 8) last++;
    if (last - first === 8) last = pieceAfter(pieces, to);
    let colour = tone.ground, rest = 1;
    for (let state = 0; state < states && rest > 0; state++) {
      const time = spent(state, to, last) - spent(state, from, first);
      if (time <= 0) continue;
      // What was there is never too pale to be seen.
      const share = state === states - 1 ? rest : Math.min(rest, Math.max(time / step, 0.15));
      const of = state === WAITS ? tone.causes[causeNear(pieces, first, last)] : tone.doing[state];
      colour = rest === 1 && share === 1 ? of : add(colour, tone.ground, of, share);
      rest -= share;
    }
    out[x] = colour;
    first = last;
  }
}

/** The cause of the longest of a few waits among pieces: those in one pixel. @param {import("./lanes.js").Pieces} pieces
 * @param {number} first @param {number} last */
function causeNear({ start, end, doing, cause, count }, first, last) {
  let best = 0, most = 0;
  for (let i = first; i <= last && i < count && i < first + 16; i++) {
    if (doing[i] === WAITS && end[i] - start[i] > most) [best, most] = [cause[i], end[i] - start[i]];
  }
  return best;
}

/** A colour in which a part of the ground gives way to another. @param {number} now @param {number} ground @param {number} to @param {number} part */
function add(now, ground, to, part) {
  const channel = (/** @type {number} */ shift) => {
    const of = (/** @type {number} */ rgb) => (rgb >> shift) & 255;
    return Math.max(0, Math.min(255, Math.round(of(now) + (of(to) - of(ground)) * part))) << shift;
  };
  return channel(16) | channel(8) | channel(0);
}

/**
 * Round instants in the window, at least `apart` of it from each other; `offset` is what is taken off their
 * labels, as text, where all would begin with the same digits.
 * @param {Trace} trace @param {View} view @param {number} count
 */
export function ticks(trace, view, count) {
  const length = view.to - view.from, { shift } = trace.head;
  const least = length / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(1, [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least) ?? power * 10);
  const [unit, name] = length < 1e4 ? [1, "ns"] : length < 1e7 ? [1e3, "µs"] : length < 1e10 ? [1e6, "ms"] : [1e9, "s"];
  const digits = Math.max(0, Math.min(9, Math.round(Math.log10(unit / step)) + (step < unit ? 1 : 0)));
  const from = view.from + shift, taken = from / unit < 1e4 ? 0 : Math.floor(from / (1e3 * unit)) * 1e3 * unit;
  const offset = taken === 0 ? "" : `${(taken / 1e9).toFixed(unit >= 1e6 ? 0 : unit >= 1e3 ? 3 : 6)} s +`;
  const list = [];
  for (let time = Math.ceil(from / step) * step; time <= view.to + shift; time += step) {
    list.push({ time: time - shift, label: ((time - taken) / unit).toFixed(step < unit ? digits : 0) });
  }
  return { list, name, offset };
}

/**
 * Running and waiting tasks in each of `count` equal parts of the window, as means. Far out it comes from sums made when the page was opened; close by, where
 * a column is narrower than two of their bins, from the slices themselves.
 * @param {Trace} trace @param {View} view @param {number} count
 */
export function curve(trace, view, count) {
  const running = new Float64Array(count), waiting = new Float64Array(count);
  const step = (view.to - view.from) / count;
  const { sums } = trace;
  if (!sums) {
    for (const row of trace.rows) {
      const scale = row.share.length / Math.max(trace.span, 1) , most = row.share.length - 1;
      for (let x = 0; x < count; x++) running[x] += row.share[Math.min(most, Math.floor((view.from + (x + 0.5) * step) * scale))] / 255;
    }
    return { running, waiting };
  }
  if (step >= 2 * sums.width) {
    let ran = upTo(sums.running, sums.width, view.from), waited = upTo(sums.waiting, sums.width, view.from);
    for (let x = 0; x < count; x++) {
      const to = view.from + (x + 1) * step;
      const runs = upTo(sums.running, sums.width, to), waits = upTo(sums.waiting, sums.width, to);
      running[x] = (runs - ran) / step;
      waiting[x] = (waits - waited) / step;
      [ran, waited] = [runs, waits];
    }
    return { running, waiting };
  }
  for (const row of trace.rows) {
    let last = after(row, view.from), before = busyUpTo(row, view.from, last);
    for (let x = 0; x < count && last < row.count; x++) {
      const to = view.from + (x + 1) * step;
      last = after(row, to, last);
      const until = busyUpTo(row, to, last);
      running[x] += (until - before) / step;
      before = until;
    }
  }
  waitsIn(trace, view.from, view.to, (start, end) => spread(waiting, view, step, start, end));
  return { running, waiting };
}

/**
 * Fills a canvas with lines of pixels, 0xRRGGBB each.
 * @param {HTMLCanvasElement & {image?: ImageData}} canvas @param {number} width @param {number} height
 * @param {(index: number, line: Uint32Array) => void} fill
 */
function lines(canvas, width, height, fill) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  if (canvas.width !== width || canvas.height !== height || !canvas.image) {
    [canvas.width, canvas.height] = [width, height];
    canvas.image = context.createImageData(width, height);
  }
  const pixels = new Uint32Array(canvas.image.data.buffer);
  for (let i = 0, at = 0; i < height; i++, at += width) {
    const line = pixels.subarray(at, at + width);
    fill(i, line);
    // The image wants bytes R G B A, which a little-endian word holds backwards.
    for (let x = 0; x < width; x++) {
      const rgb = line[x];
      line[x] = 0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16);
    }
  }
  context.putImageData(canvas.image, 0, 0);
}

export class Painter {
  /** @param {HTMLCanvasElement} canvas @param {Trace} trace @param {View} view */
  constructor(canvas, trace, view) {
    this.canvas = canvas;
    this.trace = trace;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.strip = document.createElement("canvas");
    this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    /** @type {HTMLCanvasElement|null} */
    this.overview = null;
    /** @type {Map<number, string>} */
    this.inks = new Map();
    /** What is said of the chosen wait. */
    this.label = { key: "", text: "" };
    this.lanes = arrange(trace, view);
    this.tone = tones(trace, this.dark);
    recolour(trace, view, this.dark);
  }

  /** Takes in that rows, order, colours or the ground are others. @param {View} view */
  changed(view) {
    this.lanes = arrange(this.trace, view);
    this.tone = tones(this.trace, this.dark);
    this.overview = null;
    recolour(this.trace, view, this.dark);
  }

  /** Where things stand, in CSS pixels. @param {View} view */
  layout(view) {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const { kind, lanes } = this.lanes, cpus = kind === "cpu";
    const left = cpus ? 58 : Math.round(Math.min(150, Math.max(70, width * 0.22)));
    const mini = 44, lane = this.trace.head.episodes.length > 0 ? 14 : 0, waits = cpus && this.trace.sums?.byCause ? 24 : 0, count = Math.max(lanes.length, 1);
    const room = height - mini - 30 - lane - waits - 26, least = Math.min(120, height / 4);
    // Few rows grow, so that no half of the window stays empty.
    const fits = Math.min((room - least) / count, Math.max(40, Math.min(200, (0.8 * room) / count)));
    const rowHeight = Math.max(view.rowHeight || (cpus ? fits : Math.max(fits, 16)), 1);
    // The curve takes what the rows leave.
    const curveHeight = Math.max(room - rowHeight * count, least);
    const top = mini + 30 + lane + waits;
    const rows = { left, width: Math.max(width - left - 10, 50), top, height: Math.max(Math.min(room - curveHeight, rowHeight * count), 20) };
    return { width, height, rows, rowHeight, mini: { left, width: rows.width, top: 8, height: mini - 14 },
      lane: { left, width: rows.width, top: top - lane - waits, height: Math.max(0, lane - 3) },
      waits: { left, width: rows.width, top: top - waits, height: Math.max(0, waits - 4) },
      curve: { left, width: rows.width, top: rows.top + rows.height + 10, height: curveHeight } };
  }

  /** The lanes that are seen, first and the one behind the last. @param {View} view @returns {[number, number]} */
  seen(view) {
    const { rows: box, rowHeight } = this.layout(view);
    return [Math.max(0, Math.floor(view.top)), Math.min(this.lanes.lanes.length, Math.ceil(view.top + box.height / rowHeight))];
  }

  /** @param {View} view */
  paint(view) {
    const ratio = devicePixelRatio || 1;
    const layout = this.layout(view);
    const [w, h] = [Math.round(layout.width * ratio), Math.round(layout.height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      [this.canvas.width, this.canvas.height, this.overview] = [w, h, null];
    }
    const c = this.context, { tone } = this;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, layout.width, layout.height);
    c.font = "11px Inter, system-ui, sans-serif";
    this.rows(view, layout, tone, ratio);
    this.axis(view, layout, tone);
    marks(this, view, layout);
    wakeups(this, view, layout);
    links(this, view, layout);
    this.curve(view, layout.curve, tone);
    this.minimap(view, layout.mini, tone);
    this.waits(view, layout.waits, tone);
    episodeLane(this, view, layout.lane);
    chosenEpisode(this, view, layout);
    chosen(this, view, layout);
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone @param {number} ratio */
  rows(view, layout, tone, ratio) {
    const { rows: box, rowHeight } = layout, c = this.context, { lanes } = this.lanes;
    const [first, end] = this.seen(view);
    c.save();
    c.beginPath();
    c.rect(box.left, box.top, box.width, Math.min(box.height, (lanes.length - view.top) * rowHeight));
    c.clip();
    if (end > first) {
      const edged = rowHeight >= EDGED && lanes[first].row >= 0;
      this.pixels(view, first, end, Math.max(1, Math.round(box.width * ratio)), tone, edged);
      c.imageSmoothingEnabled = false;
      const gap = rowHeight >= 8 ? 1 : 0;
      if (gap === 0) {
        c.drawImage(this.strip, box.left, box.top + (first - view.top) * rowHeight, box.width, (end - first) * rowHeight);
      } else {
        for (let i = first; i < end; i++) {
          const y = box.top + (i - view.top) * rowHeight + gap / 2, line = edged ? 2 * (i - first) : i - first;
          c.drawImage(this.strip, 0, line, this.strip.width, 1, box.left, y, box.width, rowHeight - gap);
          if (edged) c.drawImage(this.strip, 0, line + 1, this.strip.width, 1, box.left, y + rowHeight - gap - 1, box.width, 1);
        }
      }
    }
    if (rowHeight >= 14) this.names(view, layout, first, end);
    c.restore();
    c.save();
    c.beginPath();
    c.rect(0, box.top - 5, box.left, box.height + 10);
    c.clip();
    c.fillStyle = tone.muted;
    c.textAlign = "right";
    c.textBaseline = "middle";
    const every = 2 ** Math.max(0, Math.ceil(Math.log2(11 / rowHeight)));
    for (let i = first; i < end; i++) {
      const y = box.top + (i - view.top + 0.5) * rowHeight;
      if (i % every !== 0 || y >= box.top + box.height || y <= box.top) continue;
      const { row, name } = lanes[i];
      const label = row >= 0 && rowHeight < 12 ? String(this.trace.rows[row].cpu) : name;
      c.fillText(this.shortened(label, box.left - 10), box.left - 6, y);
    }
    c.restore();
    if (this.lanes.kind === "cpu" && view.order === "socket") this.sockets(view, layout, tone, first, end);
  }

  /** Waiting tasks of all CPUs by cause: the band is full where one task waits or more. @param {View} view @param {Box} box @param {Tones} tone */
  waits(view, box, tone) {
    if (box.height <= 0) return;
    const c = this.context, count = Math.max(2, Math.floor(box.width / 2)), columns = waitingBy(this.trace, view, count);
    c.fillStyle = tone.muted;
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText("waits", box.left - 6, box.top + box.height / 2);
    c.fillStyle = tone.grid;
    c.fillRect(box.left, box.top + box.height - 1, box.width, 1);
    const step = box.width / count;
    const parts = (/** @type {number} */ x) => {
      const all = columns.reduce((sum, column) => sum + column[x], 0);
      // What was there is never too low to be seen.
      const scale = all > 0 ? (box.height * Math.max(0.2, Math.min(1, all))) / all : 0;
      return columns.map((column) => column[x] * scale);
    };
    const same = (/** @type {number[]} */ a, /** @type {number[]} */ b) => a.every((height, i) => Math.abs(height - b[i]) < 0.5);
    for (let x = 0; x < count; ) {
      const heights = parts(x);
      let end = x + 1;
      // Equal columns are one, so that patterns have room.
      while (end < count && same(parts(end), heights)) end++;
      let bottom = box.top + box.height;
      heights.forEach((height, cause) => {
        if (height < 0.5) return;
        bottom -= height;
        fillCause(c, this.trace, this.dark, cause, { left: box.left + x * step, top: bottom, width: (end - x) * step, height });
      });
      x = end;
    }
  }

  /** A text with an ellipsis where it does not fit. @param {string} text @param {number} room */
  shortened(text, room) {
    const width = (/** @type {string} */ of) => this.context.measureText(of).width;
    if (width(text) <= room) return text;
    let letters = text.length - 1;
    while (letters > 0 && width(text.slice(0, letters) + "…") > room) letters--;
    return text.slice(0, letters) + "…";
  }

  /** Fills the strip: a line of pixels for each row; below it, where rows are edged, the line at its lower edge.
   * @param {View} view @param {number} first @param {number} end @param {number} width @param {Tones} tone @param {boolean} edged */
  pixels(view, first, end, width, tone, edged) {
    if (!edged) {
      lines(this.strip, width, end - first, (i, line) => this.colours(view, first + i, line, tone));
      return;
    }
    const row = new Uint32Array(width);
    lines(this.strip, width, 2 * (end - first), (i, line) => {
      if (i % 2 === 0) {
        this.colours(view, first + i / 2, row, tone);
        line.set(row);
      } else {
        for (let x = 0; x < width; x++) line[x] = tone.edges.get(row[x]) ?? row[x];
      }
    });
  }

  /** What can be read on a colour. @param {number} rgb */
  ink(rgb) {
    const ink = this.inks.get(rgb) ?? inkOn(rgb);
    this.inks.set(rgb, ink);
    return ink;
  }

  /** The pixels of a lane. @param {View} view @param {number} index @param {Uint32Array} out @param {Tones} tone */
  colours(view, index, out, tone) {
    const lane = this.lanes.lanes[index];
    if (lane.row >= 0) rowColours(this.trace, view, lane.row, out, tone);
    else laneColours(piecesOf(this.trace, this.lanes, lane), view, out, tone);
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {number} first @param {number} end */
  names(view, layout, first, end) {
    const { rows: box, rowHeight } = layout, c = this.context;
    const scale = box.width / (view.to - view.from);
    c.textAlign = "left";
    c.textBaseline = "middle";
    const say = (/** @type {string} */ name, /** @type {number} */ rgb, /** @type {number} */ from, /** @type {number} */ room, /** @type {number} */ lane) => {
      const letters = Math.floor(room / 6.2);
      // Two letters of a name tell nothing.
      if (name.length > letters && letters < NAME_LEAST) return;
      c.fillStyle = rgb < 0 ? this.tone.muted : this.ink(rgb);
      c.fillText(name.length > letters ? name.slice(0, Math.max(1, letters - 1)) + "…" : name, box.left + (from - view.from) * scale + 3, box.top + (lane - view.top + 0.5) * rowHeight);
    };
    for (let r = first; r < end; r++) {
      const { row: place } = this.lanes.lanes[r];
      if (place < 0) {
        const pieces = piecesOf(this.trace, this.lanes, this.lanes.lanes[r]);
        for (let i = pieceAfter(pieces, view.from), n = 0; i < pieces.count && pieces.start[i] < view.to && n < 400; i++, n++) {
          const from = Math.max(pieces.start[i], view.from), room = (Math.min(pieces.end[i], view.to) - from) * scale - 6;
          if (room >= 40 && pieces.doing[i] === 0) say(`CPU ${this.trace.rows[pieces.row[i]].cpu}`, this.tone.doing[0], from, room, r);
          if (pieces.doing[i] !== WAITS || (pieces.end[i] - pieces.start[i]) * scale < 3) continue;
          const left = box.left + (from - view.from) * scale, top = box.top + (r - view.top) * rowHeight + 1;
          fillCause(c, this.trace, this.dark, pieces.cause[i], { left, top, width: room + 6, height: rowHeight - 2 });
          const title = causeTitle(this.trace, pieces.cause[i]), width = c.measureText(title).width;
          if (width > room) continue;
          // On the plain colour: lines behind letters make them hard to read.
          const colour = this.tone.causes[pieces.cause[i]];
          c.fillStyle = `#${colour.toString(16).padStart(6, "0")}`;
          c.fillRect(left, top, width + 6, rowHeight - 2);
          say(title, colour, from, room + 6, r);
        }
        continue;
      }
      const row = this.trace.rows[place];
      for (let i = after(row, view.from), n = 0; i < row.count && row.start[i] < view.to && n < 400; i++, n++) {
        const from = Math.max(row.start[i], view.from);
        const room = (Math.min(row.end[i], view.to) - from) * scale - 6;
        if (room < 26 || row.task[i] === 0) continue;
        const pale = view.task > 0 && view.task !== row.task[i];
        const colour = view.by === "frequency" && this.trace.khz ? speedColour(this.trace, row, from, this.tone) : this.trace.colours[row.task[i]];
        say(this.trace.head.tasks[row.task[i]][1], pale ? -1 : colour, from, room, r);
      }
    }
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone @param {number} first @param {number} end */
  sockets(view, layout, tone, first, end) {
    const { rows: box, rowHeight } = layout, c = this.context, rows = this.trace.rows;
    c.strokeStyle = tone.muted;
    c.beginPath();
    for (let i = Math.max(first, 1); i < end; i++) {
      if (rows[i].socket !== rows[i - 1].socket) {
        const y = Math.round(box.top + (i - view.top) * rowHeight) + 0.5;
        // Right of the CPUs' numbers, which it would strike through.
        c.moveTo(box.left - 4, y);
        c.lineTo(box.left + box.width, y);
      }
    }
    c.stroke();
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone */
  axis(view, layout, tone) {
    const c = this.context, { rows: box, curve: below, mini } = layout;
    const { list, name, offset } = ticks(this.trace, view, box.width / 90);
    const y = mini.top + mini.height + 24;
    c.textBaseline = "alphabetic";
    c.lineWidth = 1;
    c.fillStyle = tone.muted;
    c.textAlign = "left";
    c.fillText(`[${name}]`, 8, y);
    if (offset) c.fillText(offset, 8, y - 12);
    let free = 8 + c.measureText(`[${name}]`).width + 8;
    for (const { time, label } of list) {
      const x = Math.round(box.left + ((time - view.from) / (view.to - view.from)) * box.width) + 0.5;
      c.strokeStyle = tone.grid;
      c.globalAlpha = 0.4;
      c.beginPath();
      c.moveTo(x, box.top);
      c.lineTo(x, below.top + below.height);
      c.stroke();
      c.globalAlpha = 1;
      // Whole at both ends, and none on another.
      const width = c.measureText(label).width, at = Math.min(Math.max(x - width / 2, free), layout.width - 3 - width);
      if (at < free || at > x || at + width < x) continue;
      c.fillText(label, at, y);
      free = at + width + 8;
    }
  }

  /** @param {View} view @param {Box} box @param {Tones} tone */
  curve(view, box, tone) {
    const c = this.context, count = Math.max(2, Math.floor(box.width / 2));
    const { running, waiting } = curve(this.trace, view, count);
    const cpus = this.trace.rows.length;
    let most = 0;
    for (let i = 0; i < count; i++) most = Math.max(most, running[i] + waiting[i]);
    const top = Math.max(most, cpus) * 1.08 || 1;
    const y = (/** @type {number} */ tasks) => box.top + box.height * (1 - tasks / top);
    const area = (/** @type {(i: number) => number} */ upper, /** @type {(i: number) => number} */ lower, /** @type {string} */ colour) => {
      c.fillStyle = colour;
      c.beginPath();
      // Numbers of tasks change in steps.
      const x = (/** @type {number} */ i) => box.left + (i * box.width) / count;
      for (let i = 0; i < count; i++) { c.lineTo(x(i), y(upper(i))); c.lineTo(x(i + 1), y(upper(i))); }
      for (let i = count - 1; i >= 0; i--) { c.lineTo(x(i + 1), y(lower(i))); c.lineTo(x(i), y(lower(i))); }
      c.fill();
    };
    // Paler ones could not be told from the ground.
    c.globalAlpha = 0.85;
    area((i) => running[i], () => 0, tone.running);
    c.globalAlpha = 1;
    area((i) => running[i] + waiting[i], (i) => running[i], tone.waiting);
    c.globalAlpha = 1;
    c.strokeStyle = tone.text;
    c.setLineDash([2, 3]);
    c.beginPath();
    c.moveTo(box.left, y(cpus));
    c.lineTo(box.left + box.width, y(cpus));
    c.stroke();
    c.setLineDash([]);
    c.fillStyle = tone.muted;
    c.textAlign = "right";
    c.textBaseline = "middle";
    // Where both do not fit, the number: the legend says what the line is.
    const words = `${cpus} CPU${cpus === 1 ? "" : "s"}`;
    c.fillText(c.measureText(words).width > box.left - 8 ? String(cpus) : words, box.left - 6, y(cpus));
    // A line of CPUs near the bottom leaves no room for the zero.
    if (y(0) - y(cpus) > 14) c.fillText("0", box.left - 6, y(0) - 2);
    const middle = (y(cpus) + y(0)) / 2;
    // The height of the curve, where it has room.
    if (y(cpus) - y(most) > 16) c.fillText(this.shortened(`${Math.round(most)} tasks`, box.left - 8), box.left - 6, y(most));
    else if (y(0) - y(cpus) > 44) c.fillText("tasks", box.left - 6, middle);
    c.textBaseline = "alphabetic";
  }

  /** @param {View} view @param {Box} box @param {Tones} tone */
  minimap(view, box, tone) {
    const c = this.context, all = { ...view, from: 0, to: Math.max(this.trace.span, 1), task: -1 };
    if (!this.overview) {
      this.overview = document.createElement("canvas");
      const { rows } = this.trace, { columns } = this.trace.head;
      if (rows.length > 0) lines(this.overview, columns, rows.length, (i, line) => coarseColours(this.trace, all, rows[i], line, tone, 0));
    }
    c.imageSmoothingEnabled = true;
    c.drawImage(this.overview, box.left, box.top, box.width, box.height);
    c.strokeStyle = tone.grid;
    c.strokeRect(box.left + 0.5, box.top + 0.5, box.width - 1, box.height - 1);
    c.strokeStyle = c.fillStyle = tone.alarm;
    for (const note of this.trace.head.episodes) {
      c.fillRect(box.left + (note.start / all.to) * box.width, box.top + box.height - 3, Math.max(1, ((note.end - note.start) / all.to) * box.width), 3);
    }
    const x = box.left + (view.from / all.to) * box.width;
    c.strokeStyle = tone.text;
    c.lineWidth = 1.5;
    c.strokeRect(x, box.top, Math.max(2, ((view.to - view.from) / all.to) * box.width), box.height);
    c.lineWidth = 1;
  }
}
