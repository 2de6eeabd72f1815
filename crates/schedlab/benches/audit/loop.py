"""Fills dictionaries for some seconds. Prints rounds a second: of the whole time, and of the first second."""

import sys
import time

began, rounds, first = time.monotonic(), 0, 0
while True:
    entries = {}
    for i in range(300):
        entries[str(i)] = [i, i * i]
    total = sum(entry[1] for entry in entries.values())
    rounds += 1
    passed = time.monotonic() - began
    if not first and passed >= 1:
        first = rounds / passed
    if passed >= float(sys.argv[1]):
        break
print(rounds / passed, first)
