// Fills maps for some seconds. Prints rounds a second: of the whole time, and of the first second.

const began = performance.now(), seconds = Number(process.argv[2]);
let rounds = 0, first = 0, passed = 0;
while (passed < seconds) {
  const entries = new Map();
  for (let i = 0; i < 500; i++) entries.set("k" + i, { i });
  let total = 0;
  for (const entry of entries.values()) total += entry.i;
  rounds++;
  passed = (performance.now() - began) / 1000;
  if (first === 0 && passed >= 1) first = rounds / passed;
}
console.log(rounds / passed, first);
