// Run in a page by tests/all/page.rs: acts as a person would and writes down what the page shows.
(() => {
const page = () => window.schedlabPage;
const press = (key, more = {}) => dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
const pointer = (kind, x, y, more = {}) => {
  const box = document.getElementById("rows").getBoundingClientRect();
  document.getElementById("rows").dispatchEvent(new PointerEvent(kind, { pointerId: 1, bubbles: true, cancelable: true, clientX: box.left + x, clientY: box.top + y, ...more }));
};
const colourAt = (x, y) => {
  const canvas = document.getElementById("rows"), ratio = canvas.width / canvas.clientWidth;
  return [...canvas.getContext("2d").getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data].slice(0, 3).join(",");
};
const text = (id) => document.getElementById(id).textContent;

async function drive() {
  const result = {};
  const p = page(), trace = p.trace;
  await frame();
  const place = (row, time) => {
    const { rows, rowHeight } = p.painter.layout(p.view);
    return [rows.left + ((time - p.view.from) / (p.view.to - p.view.from)) * rows.width, rows.top + (row + 0.5) * rowHeight];
  };
  result.rows = trace.rows.map((row) => ({ cpu: row.cpu, slices: row.start.length, busy: row.busy[row.start.length] }));
  // The picture is there: the first slice of the first row has its task's colour.
  const first = trace.rows[0];
  // (Off the middle, where a grid line may stand.)
  const [x, y] = place(0, first.start[0] + 0.4 * (first.end[0] - first.start[0]));
  // Low in the row, under the name.
  result.colour = colourAt(x, y + 7);
  result.expected = [16, 8, 0].map((shift) => (trace.colours[first.task[0]] >> shift) & 255).join(",");
  // A hover tells the slice.
  pointer("pointermove", x, y);
  result.hover = text("tip");
  // A click chooses it.
  pointer("pointerdown", x, y); pointer("pointerup", x, y);
  result.chosen = text("chosen");
  press("Escape");
  // A search finds, and Enter goes.
  const input = document.getElementById("search");
  input.value = result.wanted = "b";
  input.dispatchEvent(new Event("input"));
  result.found = document.querySelectorAll("#found li").length;
  input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  result.followed = text("chosen");
  // The keyboard alone: closer, next slice of the task, back to the whole.
  const before = p.view.to - p.view.from;
  press("+");
  result.closer = (p.view.to - p.view.from) / before;
  const at = `${p.view.row}.${p.view.slice}`;
  press("n");
  result.stepped = `${p.view.row}.${p.view.slice}` !== at;
  press("m"); press("n"); press("m");
  result.measured = p.view.measure && Math.abs(p.view.measure[1] - p.view.measure[0]);
  press("f");
  result.whole = p.view.to - p.view.from === trace.span;
  // An episode in the list is a way to its place.
  document.querySelector("#episodes button")?.click();
  result.episode = p.view.from;
  press("f");
  // A wait in the list.
  document.querySelector("#waits button")?.click();
  result.longest = text("chosen");
  // The wheel zooms around the pointer.
  press("f");
  const canvas = document.getElementById("rows"), box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: box.left + x, clientY: box.top + y, cancelable: true }));
  result.wheel = (p.view.to - p.view.from) / trace.span;
  // The link restores the view.
  await new Promise((done) => setTimeout(done, 300));
  result.link = location.hash;
  // What is exported is one sound picture.
  const svg = new DOMParser().parseFromString(p.svg(), "image/svg+xml");
  result.svg = svg.querySelectorAll("path").length;
  result.svgBroken = svg.querySelector("parsererror") !== null;
  // Frames while moving.
  p.frames.length = 0;
  for (let i = 0; i < 60; i++) { press(i % 2 ? "ArrowRight" : "+"); p.now(); }
  result.frameMs = p.frames.reduce((sum, ms) => sum + ms, 0) / p.frames.length;
  result.ready = Number(document.body.dataset.ready);
  result.requests = performance.getEntriesByType("resource").length;
  result.scripts = document.querySelectorAll("script").length;
  return result;
}
return drive();
})()
