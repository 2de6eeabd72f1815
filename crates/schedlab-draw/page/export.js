// @ts-check
// What is seen, as SVG.
import { recolour } from "./lanes.js";
import { curve, ticks, tones } from "./paint.js";
import { pointText } from "./points.js";

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/**
 * The marks of the rows in the window, each with what it says.
 * @param {import("./paint.js").Painter} painter @param {import("./view.js").View} view
 * @param {number} first @param {number} count @param {(time: number) => number} x
 * @param {(row: number) => number} y
 */
function pennants({ trace, lanes }, view, first, count, x, y) {
  const parts = [];
  for (let r = first; r < first + count; r++) {
    const row = trace.rows[lanes.lanes[r].row];
    if (!row) continue;
    const { time, phase } = row.points;
    for (let i = 0; i < time.length && parts.length < 5000; i++) {
      if (time[i] < view.from || time[i] > view.to) continue;
      const left = phase[i] === 0 ? 0 : 4, right = phase[i] === 1 ? 0 : 4;
      parts.push(`<path fill="#111827" stroke="#fff" stroke-width="0.6" d="M${(x(time[i]) - left).toFixed(1)} ${y(r).toFixed(1)}h${left + right}l-${right} 7z"><title>${escaped(pointText(trace, row, i))}</title></path>`);
    }
  }
  return parts;
}

/**
 * Running and waiting tasks, and the dotted line at the number of CPUs.
 * @param {import("./data.js").Trace} trace @param {import("./view.js").View} view
 * @param {number} left @param {number} width @param {number} top @param {number} height
 */
function levels(trace, view, left, width, top, height) {
  const count = Math.max(2, Math.floor(width / 2)), { running, waiting } = curve(trace, view, count);
  const cpus = trace.rows.length, tone = tones(trace, false);
  const most = running.reduce((most, ran, i) => Math.max(most, ran + waiting[i]), cpus) * 1.08 || 1;
  // Numbers of tasks change in steps.
  const step = (/** @type {number} */ i, /** @type {number} */ tasks) => [i, i + 1].map((edge) =>
    `${(left + (edge * width) / count).toFixed(1)} ${(top + height * (1 - tasks / most)).toFixed(1)}`);
  const upper = [...running].flatMap((ran, i) => step(i, ran)), both = [...running].flatMap((ran, i) => step(i, ran + waiting[i]));
  const line = top + height * (1 - cpus / most);
  return [
    `<path fill="${tone.running}" fill-opacity="0.85" d="M${left} ${top + height}L${upper.join("L")}L${left + width} ${top + height}z"/>`,
    `<path fill="${tone.waiting}" d="M${both.join("L")}L${upper.reverse().join("L")}z"/>`,
    `<path stroke="#111827" stroke-dasharray="2 3" d="M${left} ${line.toFixed(1)}h${width}"/>`,
    `<text x="${left - 6}" y="${(line + 4).toFixed(1)}" text-anchor="end">${cpus}</text>`,
  ];
}

/**
 * On white ground, whatever the page has.
 * @param {import("./paint.js").Painter} painter @param {import("./view.js").View} view @param {number} width
 */
export function toSvg(painter, view, width) {
  recolour(painter.trace, view, false);
  const text = spelled(painter, view, width);
  recolour(painter.trace, view, painter.dark);
  return text;
}

/** @param {import("./paint.js").Painter} painter @param {import("./view.js").View} view @param {number} width */
function spelled(painter, view, width) {
  const { trace, lanes } = painter, tone = tones(trace, false), [first, end] = painter.seen(view), count = end - first;
  const left = lanes.kind === "cpu" ? 60 : 150, top = 40, rowHeight = Math.max(3, Math.min(20, 700 / Math.max(count, 1)));
  const below = top + rowHeight * count + 10, height = below + 120 + 40;
  const line = new Uint32Array(Math.max(1, Math.round(width)));
  /** @type {Map<number, string[]>} */
  const paths = new Map();
  for (let i = first; i < first + count; i++) {
    painter.colours(view, i, line, tone);
    const y = (top + (i - first) * rowHeight).toFixed(1);
    for (let x = 0; x < line.length; ) {
      let end = x + 1;
      while (end < line.length && line[end] === line[x]) end++;
      if (line[x] !== tone.ground) {
        const path = paths.get(line[x]) ?? [];
        path.push(`M${left + x} ${y}h${end - x}v${(rowHeight * 0.92).toFixed(1)}h-${end - x}z`);
        paths.set(line[x], path);
      }
      x = end;
    }
  }
  const text = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ anchor, /** @type {string} */ what) =>
    `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escaped(what)}</text>`;
  const parts = [...paths].map(([rgb, path]) => `<path fill="#${rgb.toString(16).padStart(6, "0")}" d="${path.join("")}"/>`);
  const place = (/** @type {number} */ time) => left + ((time - view.from) / (view.to - view.from)) * width;
  parts.push(...pennants(painter, view, first, count, place, (row) => top + (row - first) * rowHeight));
  parts.push(...levels(trace, view, left, width, below, 120));
  const { list, name, offset } = ticks(trace, view, width / 90);
  for (const { time, label } of list) {
    parts.push(text(place(time), height - 24, "middle", label));
  }
  parts.push(text(left + width / 2, height - 8, "middle", `time since the trace began: ${offset} [${name}]`));
  const every = 2 ** Math.max(0, Math.ceil(Math.log2(11 / rowHeight)));
  for (let i = first; i < first + count; i += every) {
    parts.push(text(left - 6, top + (i - first + 0.5) * rowHeight + 4, "end", lanes.lanes[i].name));
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width + left + 20}" height="${height}" font-family="Inter, sans-serif" font-size="11"><title>${escaped(trace.head.title)}</title><rect width="100%" height="100%" fill="#fff"/><text x="16" y="24" font-size="15" font-weight="600">${escaped(trace.head.title)}</text>${parts.join("\n")}</svg>\n`;
}
