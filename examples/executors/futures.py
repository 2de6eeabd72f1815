#!/usr/bin/env python3
"""concurrent.futures under schedlab's rig, over JSON lines on stdin and stdout (docs/executors.md).

    schedlab jobs compare --executor 'schedlab,cmd:python3 examples/executors/futures.py' --shape fork-join
"""

import json
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

MASK = (1 << 64) - 1
workers_seen = {}


def mix(value):
    return ((value ^ (value >> 32)) * 0xD6E8FEB86659FD93) & MASK


def work(nonce, job, rounds, before):
    """Does a job; what its work gave, and when."""
    worker = workers_seen.setdefault(threading.get_ident(), len(workers_seen))
    begin = time.monotonic_ns()
    value = mix(nonce ^ (job + 1))
    for known in before:
        value = mix(value ^ known)
    for _ in range(rounds):
        value = mix(value)
    return job, worker, begin, time.monotonic_ns(), value


def main():
    head = json.loads(sys.stdin.readline())
    if head["schema"] != "schedlab/jobs-lines/2":
        sys.exit(f"unknown version of the lines: {head['schema']}")
    nonce, count = int(head["nonce"], 16), head["jobs"]
    rounds, after = [0] * count, [[] for _ in range(count)]
    waits, successors = [0] * count, [[] for _ in range(count)]
    for line in sys.stdin:
        order = json.loads(line)
        if "go" in order:
            break
        job = order["job"]
        rounds[job], after[job] = order["rounds"], order["after"]
        waits[job] = len(after[job])
        for before in after[job]:
            successors[before].append(job)

    values, lines = [0] * count, []
    with ThreadPoolExecutor(head["workers"]) as pool:

        def start(job):
            before = [values[known] for known in after[job]]
            return pool.submit(work, nonce, job, rounds[job], before)

        running = {start(job) for job in range(count) if waits[job] == 0}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                job, worker, begin, end, value = future.result()
                values[job] = value
                lines.append(
                    {"job": job, "worker": worker, "begin_ns": begin, "end_ns": end, "value": f"{value:016x}"}
                )
                for successor in successors[job]:
                    waits[successor] -= 1
                    if waits[successor] == 0:
                        running.add(start(successor))
    for line in lines:
        print(json.dumps(line))
    print(json.dumps({"done": True}))


main()
