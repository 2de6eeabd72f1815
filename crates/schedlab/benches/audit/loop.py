"""Fills dictionaries for ROUNDS rounds. Prints when it began (CLOCK_MONOTONIC, in seconds), the seconds that had passed at
each of PARTS equal parts of them, and the part of the time that it had a CPU. Arguments: ROUNDS, one that is not used, PARTS."""

import sys
import time

rounds, parts, times = int(sys.argv[1]), int(sys.argv[3]), []
began, cpu = time.monotonic(), time.process_time()
for done in range(1, rounds + 1):
    entries = {}
    for i in range(300):
        entries[str(i)] = [i, i * i]
    total = sum(entry[1] for entry in entries.values())
    while len(times) < parts and done * parts >= (len(times) + 1) * rounds:
        times.append(time.monotonic() - began)
print(began, *times, (time.process_time() - cpu) / (time.monotonic() - began))
