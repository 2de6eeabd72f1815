#!/usr/bin/env python3
"""concurrent.futures under schedlab's rig, over JSON lines on stdin and stdout (docs/executors.md).

    schedlab jobs compare --executor 'schedlab,cmd:python3 examples/executors/futures.py' --shape fork-join
"""

import heapq
import json
import math
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

MASK = (1 << 64) - 1
own = threading.local()
entering = threading.Lock()
entered = 0


def enter():
    """Gives each thread of the pool its number."""
    global entered
    with entering:
        own.worker = entered
        entered += 1


def mix(value):
    return ((value ^ (value >> 32)) * 0xD6E8FEB86659FD93) & MASK


def work(nonce, job, rounds, before, deadline):
    """Does a job, unless it is too late; what its work gave, and when."""
    begin = time.monotonic_ns()
    if begin > deadline:
        return job, None, None, begin, begin, None
    value = mix(nonce ^ (job + 1))
    for known in before:
        value = mix(value ^ known)
    for _ in range(rounds):
        value = mix(value)
    return job, own.worker, threading.get_native_id(), begin, time.monotonic_ns(), value


def main():
    head = json.loads(sys.stdin.readline())
    if head["schema"] not in ("schedlab/jobs-lines/3", "schedlab/jobs-lines/4"):
        sys.exit(f"unknown version of the lines: {head['schema']}")
    nonce, count = int(head["nonce"], 16), head["jobs"]
    rounds, after, starts, base = [0] * count, [[] for _ in range(count)], [0] * count, 0
    waits, successors, lives = [0] * count, [[] for _ in range(count)], [math.inf] * count
    for line in sys.stdin:
        order = json.loads(line)
        if "go" in order:
            base = order.get("base_ns", 0)
            break
        job = order["job"]
        rounds[job], after[job] = order["rounds"], order["after"]
        starts[job] = order.get("start_ns", 0)
        lives[job] = order.get("deadline_ns", math.inf)
        waits[job] = len(after[job])
        for before in after[job]:
            successors[before].append(job)

    values, lines, dropped = [0] * count, [], [False] * count
    due = [(base + starts[job], job) for job in range(count) if waits[job] == 0]
    heapq.heapify(due)

    def release(job):
        for successor in successors[job]:
            waits[successor] -= 1
            if waits[successor] == 0:
                heapq.heappush(due, (base + starts[successor], successor))

    def drop(job, why, at):
        dropped[job] = True
        lines.append({"job": job, "dropped": why, "at_ns": at})
        release(job)

    with ThreadPoolExecutor(head["workers"], initializer=enter) as pool:

        def start(job):
            before = [values[known] for known in after[job]]
            return pool.submit(work, nonce, job, rounds[job], before, base + lives[job])

        # A future has no start time: what is not due waits here.
        running = set()
        while due or running:
            left_ns = due[0][0] - time.monotonic_ns() if due else 0
            if due and left_ns <= 0:
                job = heapq.heappop(due)[1]
                if any(dropped[known] for known in after[job]):
                    drop(job, "abandoned", time.monotonic_ns())
                else:
                    running.add(start(job))
                continue
            timeout = left_ns / 1e9 if due else None
            if not running:
                time.sleep(timeout)
                continue
            done, running = wait(running, timeout, return_when=FIRST_COMPLETED)
            for future in done:
                job, worker, tid, begin, end, value = future.result()
                if value is None:
                    drop(job, "missed", begin)
                    continue
                values[job] = value
                times = {"begin_ns": begin, "end_ns": end}
                lines.append({"job": job, "worker": worker, "tid": tid, **times, "value": f"{value:016x}"})
                release(job)
    for line in lines:
        print(json.dumps(line))
    print(json.dumps({"done": True}))


main()
