#!/usr/bin/env python3
"""concurrent.futures under schedlab's rig, over JSON lines on stdin and stdout.

    schedlab jobs compare --on 'schedlab,cmd:python3 examples/executors/futures.py' --shape fork-join

In come {"workers", "jobs"}, then a line per job {"job", "work_ns", "after"}, then {"go": true}.
Out goes a line per job {"job", "worker", "begin_ns", "end_ns"} on CLOCK_MONOTONIC, then {"done": true}.
"""

import json
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

workers_seen = {}


def calibrate():
    """Turns of the loop in a nanosecond: the fastest of a few tries."""
    turns, best = 20_000, 0.0
    for _ in range(20):
        begin = time.monotonic_ns()
        burn(turns)
        best = max(best, turns / max(1, time.monotonic_ns() - begin))
    return best


def burn(turns):
    value = 1
    for turn in range(turns):
        value = (value * 31 + turn) & 0xFFFF_FFFF
    return value


def work(job, turns):
    worker = workers_seen.setdefault(threading.get_ident(), len(workers_seen))
    begin = time.monotonic_ns()
    burn(turns)
    return job, worker, begin, time.monotonic_ns()


def main():
    head = json.loads(sys.stdin.readline())
    count = head["jobs"]
    turns, waits, successors = [0] * count, [0] * count, [[] for _ in range(count)]
    rate = calibrate()
    for line in sys.stdin:
        order = json.loads(line)
        if "go" in order:
            break
        job = order["job"]
        turns[job] = int(order["work_ns"] * rate)
        waits[job] = len(order["after"])
        for before in order["after"]:
            successors[before].append(job)

    lines = []
    with ThreadPoolExecutor(head["workers"]) as pool:
        running = {pool.submit(work, job, turns[job]) for job in range(count) if waits[job] == 0}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                job, worker, begin, end = future.result()
                lines.append({"job": job, "worker": worker, "begin_ns": begin, "end_ns": end})
                for after in successors[job]:
                    waits[after] -= 1
                    if waits[after] == 0:
                        running.add(pool.submit(work, after, turns[after]))
    for line in lines:
        print(json.dumps(line))
    print(json.dumps({"done": True}))


main()
