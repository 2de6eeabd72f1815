"""Figures of docs/answers.md from the text of `perf script --ns -F comm,tid,cpu,time,event,trace`: a second
implementation, which shares no code, no order of steps and no data structure with the first. It is slow on purpose:
between two events it looks at every CPU and every waiting task, so that each integral is what its definition says.

    python3 count.py SCRIPT.txt > figures.json
"""
import collections
import fractions
import json
import math
import re
import sys

LINE = re.compile(r"^\s*(.*?)\s+(-?\d+)\s+\[(\d+)\]\s+(\d+)\.(\d+):\s+sched:(\w+):\s*(.*)$")
SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) ")
WOKEN = re.compile(r"comm=(.*) pid=(\d+) prio=-?\d+ target_cpu=(\d+)")
MOVED = re.compile(r"comm=(.*) pid=(\d+) prio=-?\d+ orig_cpu=(\d+) dest_cpu=(\d+)")
CHILD = re.compile(r"child_pid=(\d+)")
BOUND = re.compile(r"(ksoftirqd|migration|kworker|cpuhp|rcuc|idle_inject|watchdog|ktimers)/\d+(:.*)?$")
RENAMED = re.compile(r"\[\d+\]\s+(\d+)\.(\d+): PERF_RECORD_COMM")
UNKNOWN, IDLE = None, 0
GAP = 100_000


def events(path):
    found = [LINE.match(line) for line in open(path, errors="replace")]
    parts = [match.groups() for match in found if match]
    parts = [(int(s) * 10**9 + int(ns.ljust(9, "0")), int(cpu), int(tid), name, rest)
             for _, tid, cpu, s, ns, name, rest in parts]
    return sorted(parts, key=lambda event: event[0])


def last_name(path):
    """When a task was renamed last: events of that kind belong to the trace, too."""
    found = [RENAMED.search(line) for line in open(path, errors="replace")]
    return max([int(match[1]) * 10**9 + int(match[2].ljust(9, "0")) for match in found if match], default=0)


class Machine:
    def __init__(self, found, last_name):
        self.start, self.end = found[0][0], max(found[-1][0], last_name)
        self.cpus = sorted({event[1] for event in found})
        self.places = any(event[3] == "sched_wakeup" for event in found)
        self.on = {cpu: UNKNOWN for cpu in self.cpus}
        self.since = {cpu: self.start for cpu in self.cpus}
        self.mute = set()
        # Who waits: pid -> [CPU or None while no CPU was chosen, since, whether it was woken]
        self.waits, self.runs, self.asleep = {}, {}, {}
        self.tasks = collections.defaultdict(collections.Counter)
        self.slices, self.woken, self.delays = (collections.defaultdict(list) for _ in range(3))
        self.unfinished = 0
        self.cpu = collections.defaultdict(collections.Counter)
        self.running, self.waiting = collections.Counter(), collections.Counter()
        # Who waits on a CPU that went idle without it; where those ran last who have no CPU yet.
        self.held, self.coming = set(), {}
        self.growing, self.episodes, self.sums = {}, [], collections.Counter()
        self.lost = self.bound_ns = 0
        self.names = {}
        for _, _, _, name, rest in found:
            if name == "sched_switch":
                prev_comm, prev, _, comm, after = SWITCH.match(rest).groups()
                self.names.update({int(prev): prev_comm, int(after): comm})
        self.now = self.start

    def pass_time(self, to):
        time, queues = to - self.now, {cpu: [] for cpu in self.cpus}
        if time == 0:
            return
        for pid, (cpu, _, _) in self.waits.items():
            self.tasks[pid]["wait_ns"] += time
            if cpu in queues:
                queues[cpu].append(pid)
        for cpu, queue in queues.items():
            on, row = self.on[cpu], self.cpu[cpu]
            row["unknown_ns" if on is UNKNOWN else "idle_ns" if on == IDLE else "busy_ns"] += time
            row["wait_ns"] += time * len(queue)
            row["waiting_max"] = max(row["waiting_max"], len(queue))
            row["overloaded_ns"] += time if on and queue else 0
        self.running[sum(1 for on in self.on.values() if on)] += time
        self.waiting[len(self.waits)] += time
        idle = [cpu for cpu in self.cpus if self.on[cpu] == IDLE]
        free = [cpu for cpu in idle if not queues[cpu]]
        over = [cpu for cpu in self.cpus if self.on[cpu] and queues[cpu]]
        long = [cpu for cpu in self.cpus if len(queues[cpu]) + bool(self.on[cpu]) > 1]
        self.sums["schedviz_wall_ns"] += time * bool(free and over)
        self.sums["schedviz_cpu_ns"] += time * min(len(free), len(over))
        self.sums["schedviz_thread_ns"] += time * min(len(free), sum(len(queues[cpu]) for cpu in over))
        self.sums["systing_wall_ns"] += time * any(a != b for a in long for b in idle)
        self.lose(time, queues)
        self.now = to

    def is_bound(self, pid):
        return bool(BOUND.match(self.names.get(pid, "")))

    def lose(self, time, queues):
        """CPU time that is lost: with no affinity, each free CPU could serve each task that waits for another."""
        able = {cpu: [pid for pid in queue if pid not in self.held] for cpu, queue in queues.items()}
        came = set(self.coming.values())
        free = sum(1 for cpu in self.cpus if self.on[cpu] == IDLE and not able[cpu] and cpu not in came)
        busy = [cpu for cpu in self.cpus if self.on[cpu] and not self.names.get(self.on[cpu], "").startswith("migration/")]
        bound = sum(1 for cpu in busy for pid in able[cpu] if self.is_bound(pid))
        able = {cpu: sum(1 for pid in able[cpu] if not self.is_bound(pid)) for cpu in busy}
        waiters = sum(able.values())
        self.bound_ns += time * bound
        if not free:
            return
        self.lost += time * min(free, waiters)
        for cpu, count in able.items():
            if not count:
                continue
            row = self.growing.get(cpu)
            if row and self.now - row[1] > GAP:
                self.episodes.append(self.growing.pop(cpu))
                row = None
            if not row:
                row = self.growing[cpu] = [self.now, self.now, cpu, 0, 0]
            row[1] = self.now + time
            row[3] += time * count
            row[4] += fractions.Fraction(time * min(free, waiters) * count, waiters)

    def idles(self, cpu, since):
        """Who waits there was passed over, unless it came while the last task ran."""
        for pid, (queue, began, woken) in self.waits.items():
            if queue == cpu and (not woken or began < since):
                self.held.add(pid)

    def forget(self, pid):
        del self.waits[pid]
        self.held.discard(pid)
        self.coming.pop(pid, None)

    def vacate(self, cpu):
        """Who is there leaves, by whatever cause."""
        pid = self.on[cpu]
        if pid:
            self.tasks[pid]["run_ns"] += self.now - self.since[cpu]
            self.slices[pid].append(self.now - self.since[cpu])
            self.runs.pop(pid, None)
        self.on[cpu], self.since[cpu] = UNKNOWN, self.now

    def disprove(self, cpu):
        """An event names a task other than the one last seen on that CPU: the latter counts until now."""
        if self.on[cpu] == IDLE:
            self.mute.add(cpu)
        self.vacate(cpu)

    def wait(self, pid, cpu, woken):
        self.waits[pid] = [cpu, self.now, woken]
        self.held.discard(pid)
        if woken:
            self.slept(pid)
        self.asleep.pop(pid, None)

    def slept(self, pid):
        if pid in self.asleep:
            state, since = self.asleep[pid]
            kind = {"D": "uninterruptible_ns", "T": "stopped_ns", "t": "stopped_ns"}.get(state[0], "sleep_ns")
            self.tasks[pid][kind] += self.now - since

    def switch(self, cpu, prev, state, after):
        self.cpu[cpu]["switches"] += 1
        there, began = self.on[cpu], self.since[cpu]
        believed = True
        if there != prev:
            self.disprove(cpu)
            if prev in self.runs:
                believed = False
            elif prev in self.waits:
                self.forget(prev)
                self.unfinished += 1
        self.vacate(cpu)
        if prev:
            runnable = state.startswith("R")
            for row in (self.tasks[prev], self.cpu[cpu]):
                row["switches_involuntary" if runnable else "switches_voluntary"] += 1
            if believed and runnable:
                self.wait(prev, cpu, False)
            elif believed and state[0] not in "XZ":
                self.asleep[prev] = (state, self.now)
        else:
            self.mute.discard(cpu)
        if after:
            if after in self.runs:
                self.vacate(self.runs[after])
            if after in self.waits:
                _, since, woken = self.waits[after]
                self.forget(after)
                self.delays[after].append(self.now - since)
                if woken:
                    self.woken[after].append(self.now - since)
            self.runs[after] = cpu
            self.asleep.pop(after, None)
        self.on[cpu] = after if after or cpu not in self.mute else UNKNOWN
        if self.on[cpu] == IDLE:
            self.idles(cpu, began)

    def see(self, cpu, by, name, rest):
        if name == "sched_switch":
            prev_comm, prev, state, _, after = SWITCH.match(rest).groups()
            return self.switch(cpu, int(prev), state, int(after))
        # perf prints -1 for a task that is just ending. A program that is executed has its leader's number from then on.
        if self.on[cpu] not in (UNKNOWN, by) and by > 0 and name != "sched_process_exec":
            self.disprove(cpu)
        if self.on[cpu] is UNKNOWN and by >= 0 and by not in self.runs:
            if by in self.waits:
                self.forget(by)
                self.unfinished += 1
            since = self.since[cpu]
            self.on[cpu], self.since[cpu] = by, self.now
            if by:
                self.runs[by] = cpu
                self.asleep.pop(by, None)
            else:
                self.idles(cpu, since)
        if name in ("sched_waking", "sched_wakeup", "sched_wakeup_new"):
            pid, target = (int(part) for part in WOKEN.match(rest).groups()[1:])
            if pid in self.waits:
                if name != "sched_waking" and self.waits[pid][0] != target:
                    self.place(pid, target)
            elif pid not in self.runs:
                self.tasks[pid]["wakeups"] += 1
                placed = name != "sched_waking" or not self.places
                self.wait(pid, target if placed else None, True)
                if not placed:
                    self.coming[pid] = target
        elif name == "sched_migrate_task":
            pid, _, to = (int(part) for part in MOVED.match(rest).groups()[1:])
            self.tasks[pid]["migrations"] += 1
            self.cpu[to]["arrivals"] += 1
            if pid in self.waits:
                self.place(pid, to)

    def place(self, pid, cpu):
        self.waits[pid][0] = cpu
        self.held.discard(pid)
        self.coming.pop(pid, None)


def histogram(times, still):
    """Waits that ended, and as much as was seen of those that did not."""
    times = sorted(times)
    at = lambda part: times[max(0, math.ceil(part * len(times)) - 1)]
    figures = {"count": len(times), "latency_ns_sum": sum(times) + sum(still)}
    if times or still:
        figures.update(latency_ns_max=max(times + still))
    if times:
        figures.update(latency_ns_p50=at(0.5), latency_ns_p90=at(0.9), latency_ns_p99=at(0.99))
    return figures


def still(machine, pid, kinds):
    """How long a task waits already, if it waits so."""
    _, since, woken = machine.waits.get(pid, (None, 0, None))
    return [machine.end - since] if woken in kinds and machine.end > since else []


def figures(machine):
    for cpu in machine.cpus:
        machine.vacate(cpu)
    for pid in machine.asleep:
        machine.slept(pid)
    times = lambda counter: [counter[n] for n in range(max(counter, default=-1) + 1)]
    episodes = machine.episodes + list(machine.growing.values())
    episodes = [[a - machine.start, b - machine.start, cpu, waited, float(cost)] for a, b, cpu, waited, cost in episodes]
    tasks = {pid: dict(row, slices=len(machine.slices[pid])) for pid, row in machine.tasks.items() if pid}
    return {
        "origin_ns": str(machine.start),
        "end_ns": machine.end - machine.start,
        "tasks": tasks,
        "latency": {pid: {"wakeup": histogram(machine.woken[pid], still(machine, pid, [True])),
                          "run_delay": histogram(machine.delays[pid], still(machine, pid, [True, False]))}
                    for pid in set(machine.delays) | set(machine.waits)},
        "unfinished": machine.unfinished + len(machine.waits),
        "cpus": {cpu: machine.cpu[cpu] for cpu in machine.cpus},
        "running_time_ns": times(machine.running),
        "waiting_time_ns": times(machine.waiting),
        "episodes": episodes,
        "lost_ns": machine.lost,
        "bound_ns": machine.bound_ns,
        "definitions": machine.sums,
    }


found = events(sys.argv[1])
machine = Machine(found, last_name(sys.argv[1]))
for time, cpu, by, name, rest in found:
    machine.pass_time(time)
    machine.see(cpu, by, name, rest)
machine.pass_time(machine.end)
json.dump(figures(machine), sys.stdout)
