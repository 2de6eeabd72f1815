// Fills maps for ROUNDS rounds. Prints when it began (CLOCK_MONOTONIC, in seconds), the seconds that had passed at each of
// PARTS equal parts of them, and the part of the time that it had a CPU, its helper threads included. A fifth as many rounds
// go before: how soon code is compiled differs from run to run. Arguments: ROUNDS, one that is not used, PARTS.

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
const began = now(), before = process.cpuUsage();
for (let done = 1; done <= rounds; done++) {
  round();
  while (times.length < parts && done * parts >= (times.length + 1) * rounds) {
    times.push(now() - began);
  }
}
const cpu = process.cpuUsage(before);
console.log([began].concat(times, (cpu.user + cpu.system) / 1e6 / (now() - began)).join(" "));
