// Fills maps for ROUNDS rounds. Prints when it began (CLOCK_MONOTONIC, in seconds), the seconds that had passed at each of
// PARTS equal parts of them, and a 1: it computes all the time. A fifth as many rounds go before: how soon code is
// compiled differs from run to run. Arguments: ROUNDS, one that is not used, PARTS.

const rounds = Number(process.argv[2]), parts = Number(process.argv[4]), times = [];

function round() {
  const entries = new Map();
  for (let i = 0; i < 500; i++) entries.set("k" + i, { i });
  let total = 0;
  for (const entry of entries.values()) total += entry.i;
  return total;
}

for (let done = 0; done < rounds / 5; done++) round();
const now = () => Number(process.hrtime.bigint()) / 1e9;
const began = now();
for (let done = 1; done <= rounds; done++) {
  round();
  while (times.length < parts && done * parts >= (times.length + 1) * rounds) {
    times.push(now() - began);
  }
}
console.log([began].concat(times, 1).join(" "));
