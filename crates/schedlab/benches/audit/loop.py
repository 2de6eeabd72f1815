"""Fills dictionaries for ROUNDS rounds. Prints the seconds that had passed at each twentieth of them, and a 1: it
computes all the time."""

import sys
import time

rounds, times = int(sys.argv[1]), []
began = time.monotonic()
for done in range(1, rounds + 1):
    entries = {}
    for i in range(300):
        entries[str(i)] = [i, i * i]
    total = sum(entry[1] for entry in entries.values())
    while len(times) < 20 and done * 20 >= (len(times) + 1) * rounds:
        times.append(time.monotonic() - began)
print(*times, 1)
