#!/usr/bin/env python3
"""concurrent.futures under schedlab's rig, over JSON lines on stdin and stdout (docs/executors.md).

    schedlab jobs compare --executor 'schedlab,cmd:python3 examples/executors/futures.py' --shape fork-join
"""

import heapq
import json
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


def work(nonce, job, rounds, before):
    """Does a job; what its work gave, and when."""
    begin = time.monotonic_ns()
    value = mix(nonce ^ (job + 1))
    for known in before:
        value = mix(value ^ known)
    for _ in range(rounds):
        value = mix(value)
    return job, own.worker, threading.get_native_id(), begin, time.monotonic_ns(), value


def main():
    head = json.loads(sys.stdin.readline())
    if head["schema"] != "schedlab/jobs-lines/3":
        sys.exit(f"unknown version of the lines: {head['schema']}")
    nonce, count = int(head["nonce"], 16), head["jobs"]
    rounds, after, starts, base = [0] * count, [[] for _ in range(count)], [0] * count, 0
    waits, successors = [0] * count, [[] for _ in range(count)]
    for line in sys.stdin:
        order = json.loads(line)
        if "go" in order:
            base = order.get("base_ns", 0)
            break
        job = order["job"]
        rounds[job], after[job] = order["rounds"], order["after"]
        starts[job] = order.get("start_ns", 0)
        waits[job] = len(after[job])
        for before in after[job]:
            successors[before].append(job)

    values, lines = [0] * count, []
    with ThreadPoolExecutor(head["workers"], initializer=enter) as pool:

        def start(job):
            before = [values[known] for known in after[job]]
            return pool.submit(work, nonce, job, rounds[job], before)

        # A future has no start time: what is not due waits here.
        due = [(base + starts[job], job) for job in range(count) if waits[job] == 0]
        heapq.heapify(due)
        running = set()
        while due or running:
            left_ns = due[0][0] - time.monotonic_ns() if due else 0
            if due and left_ns <= 0:
                running.add(start(heapq.heappop(due)[1]))
                continue
            timeout = left_ns / 1e9 if due else None
            if not running:
                time.sleep(timeout)
                continue
            done, running = wait(running, timeout, return_when=FIRST_COMPLETED)
            for future in done:
                job, worker, tid, begin, end, value = future.result()
                values[job] = value
                times = {"begin_ns": begin, "end_ns": end}
                lines.append({"job": job, "worker": worker, "tid": tid, **times, "value": f"{value:016x}"})
                for successor in successors[job]:
                    waits[successor] -= 1
                    if waits[successor] == 0:
                        heapq.heappush(due, (base + starts[successor], successor))
    for line in lines:
        print(json.dumps(line))
    print(json.dumps({"done": True}))


main()
