// @ts-check
// Two pages beside each other: what one looks at, the other does, from the instant on at which they are aligned.

/** @typedef {{marks: [string, number[]][], commands: [string, number][], worst: number|null, window: [number, number]}} Told
 * @typedef {{frame: HTMLIFrameElement, told: Told|null, chosen: number, window: [number, number]|null}} Side */

/** @param {string} id */
const field = (id) => /** @type {HTMLSelectElement & HTMLInputElement} */ (document.getElementById(id));

/** @type {Side[]} */
const sides = ["a", "b"].map((id) => ({ frame: /** @type {HTMLIFrameElement} */ (document.getElementById(id)), told: null, chosen: 0, window: null }));

/** The instant of a side that lies above that of the other one, in its page's time. @param {Side} side */
function anchor(side) {
  const way = field("align").value;
  if (way === "chosen") return side.chosen;
  if (way === "begin") return 0;
  if (way === "worst") return side.told?.worst ?? 0;
  const starts = side.told?.marks.find(([name]) => `mark ${name}` === way)?.[1] ?? [];
  return starts[Number(field("request").value) - 1] ?? 0;
}

/** @param {Side} side @param {object} what */
const tell = (side, what) => side.frame.contentWindow?.postMessage({ schedlab: what }, "*");

/** The other side looks where this one does. @param {Side} from */
function follow(from) {
  const to = sides[1 - sides.indexOf(from)];
  if (!field("linked").checked || !from.window) return;
  const by = anchor(to) - anchor(from);
  tell(to, { window: [from.window[0] + by, from.window[1] + by] });
}

/** Both stand at the instant at which they are aligned. */
function align() {
  const way = field("align").value;
  field("request").disabled = !way.startsWith("mark ");
  field("aligned").textContent = way === "chosen" ? "press o in each page at the instant" : "";
  const [a] = sides;
  if (!a.window) return;
  const half = (a.window[1] - a.window[0]) / 2, at = anchor(a);
  if (way !== "begin") {
    a.window = [at - half, at + half];
    tell(a, { window: a.window });
  }
  follow(a);
}

/** Rows of the same roles in the same order. */
function roles() {
  const kind = field("rows").value;
  /** @type {Map<string, number>} */
  const times = new Map();
  for (const { told } of sides) for (const [name, time] of told?.commands ?? []) times.set(name, (times.get(name) ?? 0) + time);
  const order = [...times].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
  if (kind !== "") sides.forEach((side) => tell(side, { rows: kind, roles: kind === "command" ? order : null }));
}

addEventListener("message", ({ source, data }) => {
  const side = sides.find(({ frame }) => frame.contentWindow === source), what = data?.schedlab;
  if (!side || !what) return;
  if (what.told) {
    side.told = what.told;
    const names = (/** @type {Side} */ { told }) => told?.marks.map(([name]) => name) ?? [];
    if (sides.every(({ told }) => told)) {
      for (const name of names(sides[0]).filter((name) => names(sides[1]).includes(name))) field("align").append(new Option(`mark ${name}`));
      // Where each has an answer, it stands at its worst wait: the second one looks as far as the first.
      if (sides.some(({ told }) => told?.worst === null)) field("align").value = "begin";
      for (const side of sides) side.window = side.told?.window ?? null;
      follow(sides[0]);
      roles();
      document.body.dataset.ready = "1";
    }
  }
  if (what.chosen !== undefined) {
    side.chosen = what.chosen;
    if (field("align").value === "chosen") align();
  }
  if (what.window) {
    side.window = what.window;
    follow(side);
  }
});

field("align").onchange = align;
field("request").onchange = align;
field("linked").onchange = align;
field("rows").onchange = roles;
