// @ts-check
// What is seen, as SVG.
import { rowColours, ticks, tones } from "./paint.js";

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/**
 * @param {import("./data.js").Trace} trace @param {import("./view.js").View} view
 * @param {number} width @param {number} first the first row @param {number} count rows
 */
export function toSvg(trace, view, width, first, count) {
  const tone = tones(false);
  const left = 60, top = 40, rowHeight = Math.max(3, Math.min(20, 700 / Math.max(count, 1)));
  const height = top + rowHeight * count + 40;
  const line = new Uint32Array(Math.max(1, Math.round(width)));
  /** @type {Map<number, string[]>} */
  const paths = new Map();
  for (let i = first; i < first + count; i++) {
    rowColours(trace, view, i, line, tone);
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
  const { list, name } = ticks(view, width / 90);
  for (const { time, label } of list) {
    parts.push(text(left + ((time - view.from) / (view.to - view.from)) * width, height - 24, "middle", label));
  }
  parts.push(text(left + width / 2, height - 8, "middle", `time since the trace began [${name}]`));
  const every = 2 ** Math.max(0, Math.ceil(Math.log2(11 / rowHeight)));
  for (let i = first; i < first + count; i += every) {
    parts.push(text(left - 6, top + (i - first + 0.5) * rowHeight + 4, "end", `CPU ${trace.rows[i].cpu}`));
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width + left + 20}" height="${height}" font-family="Inter, sans-serif" font-size="11"><title>${escaped(trace.head.title)}</title><rect width="100%" height="100%" fill="#fff"/><text x="16" y="24" font-size="15" font-weight="600">${escaped(trace.head.title)}</text>${parts.join("\n")}</svg>\n`;
}
