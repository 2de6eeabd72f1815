// @ts-check
// The picture: rows, axis, curve, minimap. Each pixel of a row costs two binary searches at most,
// so a frame costs pixels times rows, whatever the number of slices.
import { after, busyUpTo, duration, slicesOf, upTo } from "./data.js";

/**
 * @typedef {import("./data.js").Trace} Trace
 * @typedef {import("./view.js").View} View
 * @typedef {{left: number, width: number, top: number, height: number}} Box
 * @typedef {{ground: number, text: string, muted: string, grid: string, unknown: number,
 *   running: string, waiting: string, alarm: string}} Tones
 */

/** @param {boolean} dark @returns {Tones} */
export function tones(dark) {
  return dark
    ? { ground: 0x161b24, text: "#e8ebf0", muted: "#9aa5b4", grid: "#29313d", unknown: 0x3a424f, running: "#56b4e9", waiting: "#e69f00", alarm: "#ff5c8a" }
    : { ground: 0xffffff, text: "#111827", muted: "#556070", grid: "#e5e7eb", unknown: 0xd1d5db, running: "#0072b2", waiting: "#d55e00", alarm: "#c00050" };
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
  const paled = view.task > 0 ? view.task : -1;
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
    let colour = task === 0 ? tone.unknown : trace.colours[task];
    if (paled > 0 && task !== paled) colour = mix(colour, tone.ground, 0.22);
    out[x] = share >= 1 ? colour : mix(colour, tone.ground, share);
    first = last;
  }
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
    let colour = task === 0 ? tone.unknown : trace.colours[task];
    if (view.task > 0 && task !== view.task) colour = mix(colour, tone.ground, 0.22);
    out[x] = share > 0 ? mix(colour, tone.ground, Math.max(share, 0.12)) : tone.ground;
  }
}

/**
 * Round instants in the window, at least `apart` of it from each other.
 * @param {View} view @param {number} count
 */
export function ticks(view, count) {
  const length = view.to - view.from;
  const least = length / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(1, [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least) ?? power * 10);
  const [unit, name] = length < 1e4 ? [1, "ns"] : length < 1e7 ? [1e3, "µs"] : length < 1e10 ? [1e6, "ms"] : [1e9, "s"];
  const digits = Math.max(0, Math.min(9, Math.round(Math.log10(unit / step)) + (step < unit ? 1 : 0)));
  const list = [];
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    list.push({ time, label: (time / unit).toFixed(step < unit ? digits : 0) });
  }
  return { list, name };
}

/**
 * Running and waiting tasks in each of `count` equal parts of the window, as means. Waits are those
 * that ended with running. Far out it comes from sums made when the page was opened; close by, where
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
  const add = (/** @type {Float64Array} */ sums, /** @type {number} */ start, /** @type {number} */ end) => {
    const from = Math.max(start, view.from), to = Math.min(end, view.to);
    if (to <= from) return;
    let x = Math.min(count - 1, Math.floor((from - view.from) / step));
    const last = Math.min(count - 1, Math.floor((to - view.from) / step));
    if (x === last) { sums[x] += (to - from) / step; return; }
    sums[x] += (view.from + (x + 1) * step - from) / step;
    for (x++; x < last; x++) sums[x] += 1;
    sums[last] += (to - (view.from + last * step)) / step;
  };
  for (const row of trace.rows) {
    let last = after(row, view.from), before = busyUpTo(row, view.from, last);
    const start = last;
    for (let x = 0; x < count && last < row.count; x++) {
      const to = view.from + (x + 1) * step;
      last = after(row, to, last);
      const until = busyUpTo(row, to, last);
      running[x] += (until - before) / step;
      before = until;
    }
    // A wait lies before its slice, so slices after the window can have waits in it: look a little on.
    const end = Math.min(after(row, view.to) + 2, row.count);
    for (let i = start; i < end; i++) {
      if (row.wait[i] > 0) add(waiting, row.start[i] - row.wait[i], row.start[i]);
    }
  }
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
  /** @param {HTMLCanvasElement} canvas @param {Trace} trace */
  constructor(canvas, trace) {
    this.canvas = canvas;
    this.trace = trace;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.strip = document.createElement("canvas");
    this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    /** @type {HTMLCanvasElement|null} */
    this.overview = null;
  }

  /** Where things stand, in CSS pixels. @param {View} view */
  layout(view) {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const left = 58, mini = 44, room = height - mini - 30 - 26, count = Math.max(this.trace.rows.length, 1);
    const rowHeight = Math.max(view.rowHeight || Math.min((room - Math.min(120, height / 4)) / count, 40), 1);
    // The curve takes what the rows leave.
    const curveHeight = Math.min(Math.max(room - rowHeight * count, Math.min(120, height / 4)), 320);
    const rows = { left, width: Math.max(width - left - 10, 50), top: mini + 30, height: Math.max(Math.min(room - curveHeight, rowHeight * count), 20) };
    return { width, height, rows, rowHeight, mini: { left, width: rows.width, top: 8, height: mini - 10 },
      curve: { left, width: rows.width, top: rows.top + rows.height + 10, height: curveHeight } };
  }

  /** @param {View} view */
  paint(view) {
    const ratio = devicePixelRatio || 1;
    const layout = this.layout(view);
    const [w, h] = [Math.round(layout.width * ratio), Math.round(layout.height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      [this.canvas.width, this.canvas.height, this.overview] = [w, h, null];
    }
    const c = this.context, tone = tones(this.dark);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, layout.width, layout.height);
    c.font = "11px Inter, system-ui, sans-serif";
    this.rows(view, layout, tone, ratio);
    this.axis(view, layout, tone);
    this.points(view, layout, tone);
    this.links(view, layout, tone);
    this.curve(view, layout.curve, tone);
    this.minimap(view, layout.mini, tone);
    this.chosen(view, layout, tone);
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone @param {number} ratio */
  rows(view, layout, tone, ratio) {
    const { rows: box, rowHeight } = layout;
    const c = this.context;
    const count = Math.min(this.trace.rows.length, Math.ceil(view.top + box.height / rowHeight) + 1);
    const first = Math.max(0, Math.floor(view.top));
    c.save();
    c.beginPath();
    c.rect(box.left, box.top, box.width, Math.min(box.height, (this.trace.rows.length - view.top) * rowHeight));
    c.clip();
    if (count > first) {
      this.pixels(view, first, count, Math.max(1, Math.round(box.width * ratio)), tone);
      c.imageSmoothingEnabled = false;
      const gap = rowHeight >= 8 ? 1 : 0;
      if (gap === 0) {
        c.drawImage(this.strip, box.left, box.top + (first - view.top) * rowHeight, box.width, (count - first) * rowHeight);
      } else {
        for (let i = first; i < count; i++) {
          c.drawImage(this.strip, 0, i - first, this.strip.width, 1, box.left, box.top + (i - view.top) * rowHeight + gap / 2, box.width, rowHeight - gap);
        }
      }
    }
    if (rowHeight >= 14) this.names(view, layout, first, count);
    c.restore();
    c.fillStyle = tone.muted;
    c.textAlign = "right";
    c.textBaseline = "middle";
    const every = 2 ** Math.max(0, Math.ceil(Math.log2(11 / rowHeight)));
    for (let i = first; i < count; i++) {
      const y = box.top + (i - view.top + 0.5) * rowHeight;
      if (i % every === 0 && y < box.top + box.height && y > box.top) c.fillText((rowHeight >= 12 ? "CPU " : "") + this.trace.rows[i].cpu, box.left - 6, y);
    }
    this.sockets(view, layout, tone, first, count);
  }

  /** Fills the strip: a line of pixels for each row. @param {View} view @param {number} first
   * @param {number} end @param {number} width @param {Tones} tone */
  pixels(view, first, end, width, tone) {
    lines(this.strip, width, end - first, (i, line) => rowColours(this.trace, view, first + i, line, tone));
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {number} first @param {number} end */
  names(view, layout, first, end) {
    const { rows: box, rowHeight } = layout, c = this.context;
    const scale = box.width / (view.to - view.from);
    c.textAlign = "left";
    c.textBaseline = "middle";
    for (let r = first; r < end; r++) {
      const row = this.trace.rows[r];
      for (let i = after(row, view.from), n = 0; i < row.count && row.start[i] < view.to && n < 400; i++, n++) {
        const from = Math.max(row.start[i], view.from);
        const room = (Math.min(row.end[i], view.to) - from) * scale - 6;
        if (room < 26 || row.task[i] === 0) continue;
        let name = this.trace.head.tasks[row.task[i]][1];
        const letters = Math.floor(room / 6.2);
        if (name.length > letters) name = name.slice(0, Math.max(1, letters - 1)) + "…";
        const rgb = this.trace.colours[row.task[i]];
        const luma = (299 * (rgb >> 16) + 587 * ((rgb >> 8) & 255) + 114 * (rgb & 255)) / 1000;
        c.fillStyle = view.task > 0 && view.task !== row.task[i] ? "#888888" : luma > 140 ? "#111827" : "#ffffff";
        c.fillText(name, box.left + (from - view.from) * scale + 3, box.top + (r - view.top + 0.5) * rowHeight);
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
        c.moveTo(4, y);
        c.lineTo(box.left + box.width, y);
      }
    }
    c.stroke();
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone */
  axis(view, layout, tone) {
    const c = this.context, { rows: box, curve: below } = layout;
    const { list, name } = ticks(view, box.width / 90);
    c.textAlign = "center";
    c.textBaseline = "alphabetic";
    c.lineWidth = 1;
    for (const { time, label } of list) {
      const x = Math.round(box.left + ((time - view.from) / (view.to - view.from)) * box.width) + 0.5;
      c.strokeStyle = tone.grid;
      c.globalAlpha = 0.4;
      c.beginPath();
      c.moveTo(x, box.top);
      c.lineTo(x, below.top + below.height);
      c.stroke();
      c.globalAlpha = 1;
      c.fillStyle = tone.muted;
      c.fillText(label, x, box.top - 6);
    }
    c.textAlign = "left";
    c.fillText(`[${name}]`, 8, box.top - 6);
  }

  /** Marks and other tracepoints: a pennant at the top of the row, one for each pixel at most.
   * @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone */
  points(view, layout, tone) {
    const { rows: box, rowHeight } = layout, c = this.context;
    const scale = box.width / (view.to - view.from), size = Math.min(Math.max(rowHeight / 3, 2), 7);
    c.save();
    c.beginPath();
    c.rect(box.left, box.top, box.width, box.height);
    c.clip();
    c.fillStyle = tone.text;
    c.strokeStyle = tone.ground === 0xffffff ? "#ffffff" : "#161b24";
    c.lineWidth = 1;
    c.beginPath();
    const last = Math.min(this.trace.rows.length, Math.ceil(view.top + box.height / rowHeight));
    for (let r = Math.max(0, Math.floor(view.top)); r < last; r++) {
      const { time, phase } = this.trace.rows[r].points, y = box.top + (r - view.top) * rowHeight;
      let low = 0;
      for (let high = time.length; low < high; ) {
        const middle = (low + high) >> 1;
        if (time[middle] >= view.from) high = middle; else low = middle + 1;
      }
      for (let i = low, free = -1; i < time.length && time[i] <= view.to; i++) {
        const x = box.left + (time[i] - view.from) * scale;
        if (x < free) continue;
        free = x + 1;
        // It points to where the time of a begin goes on, and of an end went by; else to both.
        c.moveTo(x - (phase[i] === 0 ? 0 : size), y);
        c.lineTo(x + (phase[i] === 1 ? 0 : size), y);
        c.lineTo(x, y + size * 1.6);
        c.closePath();
      }
    }
    c.stroke();
    c.fill();
    c.restore();
  }

  /** The chosen task from slice to slice. @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone */
  links(view, layout, tone) {
    if (view.task <= 0) return;
    const { rows: box, rowHeight } = layout, c = this.context;
    const { row, slice } = slicesOf(this.trace, view.task), rows = this.trace.rows;
    const begin = (/** @type {number} */ i) => rows[row[i]].start[slice[i]];
    let first = 0;
    for (let high = row.length; first < high; ) {
      const middle = (first + high) >> 1;
      if (begin(middle) >= view.from) high = middle; else first = middle + 1;
    }
    // The slice before the window may move into it.
    first = Math.max(0, first - 1);
    /** @type {{start: number, end: number, row: number}[]} */
    const slices = [];
    for (let i = first; i < row.length && slices.length <= 4000; i++) {
      slices.push({ start: begin(i), end: rows[row[i]].end[slice[i]], row: row[i] });
      if (begin(i) > view.to) break;
    }
    if (slices.length > 4000) return;
    const x = (/** @type {number} */ time) => box.left + ((time - view.from) / (view.to - view.from)) * box.width;
    const y = (/** @type {number} */ row) => box.top + (row - view.top + 0.5) * rowHeight;
    c.save();
    c.beginPath();
    c.rect(box.left, box.top, box.width, box.height);
    c.clip();
    c.strokeStyle = tone.alarm;
    c.lineWidth = 1.2;
    c.beginPath();
    for (let i = 1; i < slices.length; i++) {
      if (slices[i].row === slices[i - 1].row) continue;
      c.moveTo(x(slices[i - 1].end), y(slices[i - 1].row));
      c.lineTo(x(slices[i].start), y(slices[i].row));
    }
    c.stroke();
    c.restore();
  }

  /** @param {View} view @param {Box} box @param {Tones} tone */
  curve(view, box, tone) {
    const c = this.context, count = Math.max(2, Math.floor(box.width / 2));
    const { running, waiting } = curve(this.trace, view, count);
    const cpus = this.trace.rows.length;
    let top = cpus;
    for (let i = 0; i < count; i++) top = Math.max(top, running[i] + waiting[i]);
    top = Math.max(top * 1.08, 1);
    const y = (/** @type {number} */ tasks) => box.top + box.height * (1 - tasks / top);
    const area = (/** @type {(i: number) => number} */ upper, /** @type {(i: number) => number} */ lower, /** @type {string} */ colour) => {
      c.fillStyle = colour;
      c.beginPath();
      for (let i = 0; i < count; i++) c.lineTo(box.left + (i * box.width) / (count - 1), y(upper(i)));
      for (let i = count - 1; i >= 0; i--) c.lineTo(box.left + (i * box.width) / (count - 1), y(lower(i)));
      c.fill();
    };
    c.globalAlpha = 0.55;
    area((i) => running[i], () => 0, tone.running);
    c.globalAlpha = 0.8;
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
    c.fillText(String(cpus), box.left - 6, y(cpus) + 4);
    c.fillText("0", box.left - 6, y(0));
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
    c.lineWidth = 1.5;
    c.strokeRect(x, box.top, Math.max(2, ((view.to - view.from) / all.to) * box.width), box.height);
    c.lineWidth = 1;
  }

  /** @param {View} view @param {ReturnType<Painter["layout"]>} layout @param {Tones} tone */
  chosen(view, layout, tone) {
    const { rows: box, rowHeight, curve: below } = layout, c = this.context;
    const x = (/** @type {number} */ time) => box.left + ((time - view.from) / (view.to - view.from)) * box.width;
    c.save();
    c.beginPath();
    c.rect(box.left - 1, box.top - 1, box.width + 2, below.top + below.height - box.top + 2);
    c.clip();
    if (view.row >= 0 && view.slice >= 0) {
      const row = this.trace.rows[view.row];
      c.strokeStyle = tone.text;
      c.lineWidth = 2;
      c.strokeRect(x(row.start[view.slice]), box.top + (view.row - view.top) * rowHeight, Math.max(2, x(row.end[view.slice]) - x(row.start[view.slice])), rowHeight);
      const wait = row.wait[view.slice];
      if (wait > 0) {
        c.strokeStyle = tone.waiting;
        c.beginPath();
        const y = box.top + (view.row - view.top + 0.5) * rowHeight;
        c.moveTo(x(row.start[view.slice] - wait), y);
        c.lineTo(x(row.start[view.slice]), y);
        c.stroke();
      }
    }
    if (view.measure) {
      const [a, b] = view.measure.map(x);
      c.fillStyle = tone.alarm;
      c.globalAlpha = 0.15;
      c.fillRect(Math.min(a, b), box.top, Math.abs(b - a), below.top + below.height - box.top);
      c.globalAlpha = 1;
      c.textAlign = "center";
      c.fillText(duration(Math.abs(view.measure[1] - view.measure[0])), (a + b) / 2, box.top + 14);
    }
    c.restore();
  }
}
