"""Tables of a trace hold what the command says of it."""

import csv
import unittest
import warnings
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import schedlab

from .made import ROOT, document, folder, said, trace


def rows(table: schedlab.Table) -> list[dict]:
    """The rows with plain values."""
    return pa.table(table).to_pylist()


class Events(unittest.TestCase):
    def compare(self, path: Path, table: schedlab.Table) -> int:
        """The events are those of `trace convert`, cell by cell."""
        target = Path(folder()) / "events.csv"
        said("trace", "convert", str(path), str(target), "--raw")
        with open(target, newline="") as file:
            reader = csv.DictReader(file)
            expected = list(reader)
        self.assertEqual(table.columns, reader.fieldnames)
        # The command has the tracepoint that says so instead.
        found = [row for row in rows(table) if row["event"] != "cpu_online"]
        self.assertEqual(len(found), len(expected))
        for mine, theirs in zip(found, expected):
            mine = {name: "" if value is None else str(value) for name, value in mine.items()}
            self.assertEqual(mine, theirs)
        return len(found)

    def test_events_are_those_of_the_command_cell_by_cell(self):
        self.assertGreater(self.compare(trace(), schedlab.read(trace(), arguments=True).events), 5_000)

    def test_so_are_those_of_a_small_trace_with_other_tracepoints(self):
        path = ROOT / "corpus" / "zlib.dat"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", schedlab.TraceWarning)
            self.compare(path, schedlab.read(path, arguments=True).events)

    def test_so_are_those_of_every_trace_of_the_corpus(self):
        contexts = set()
        for path in sorted((ROOT / "corpus").iterdir()):
            if path.suffix not in (".md", ".py"):
                with warnings.catch_warnings(), self.subTest(path.name):
                    warnings.simplefilter("ignore", schedlab.TraceWarning)
                    table = schedlab.read(path, arguments=True).events
                    self.compare(path, table)
                    contexts |= {row["context"] for row in rows(table)}
        self.assertIn("unknown", contexts)

    def test_hotplug_has_its_cpu_and_what_became_of_it(self):
        path = Path(folder()) / "hotplug.txt"
        head = "sh 7 [000] 1.00000000"
        path.write_text(
            f"{head}1: sched:sched_waking: comm=a pid=8 prio=120 target_cpu=001\n"
            f"{head}2: cpuhp:cpuhp_enter: cpu: 0001 target: 0 step: 237 (x)\n"
            f"{head}3: cpuhp:cpuhp_enter: cpu: 0001 target: 237 step: 0 (x)\n"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", schedlab.TraceWarning)
            table = schedlab.read(path, arguments=True).events
        self.assertEqual(self.compare(path, table), 4)
        found = [(row["state"], row["to_cpu"]) for row in rows(table) if row["event"] == "cpu_online"]
        self.assertEqual(found, [("offline", 1), ("online", 1)])
        self.assertEqual({row["context"] for row in rows(table)}, {"unknown"})

    def test_arguments_are_a_column_only_if_they_are_wanted(self):
        self.assertNotIn("arguments", schedlab.read(trace()).events.columns)
        both = [schedlab.read(trace(), arguments=wanted).events for wanted in (False, True)]
        plain, whole = (pa.table(table) for table in both)
        self.assertTrue(plain.equals(whole.drop_columns(["arguments"])))

    def test_a_part_holds_the_events_of_the_part(self):
        whole = pa.table(schedlab.read(trace()).events)["time_ns"].to_pylist()
        origin = int(document("tasks")["origin_ns"])
        part = schedlab.read(trace(), start="20ms", end="30ms")
        times = pa.table(part.events)["time_ns"].to_pylist()
        expected = [at for at in whole if 20_000_000 <= at - origin < 30_000_000]
        self.assertEqual(times, expected)
        self.assertGreater(len(times), 100)
        open_end = pa.table(schedlab.read(trace(), start="20ms").events)["time_ns"].to_pylist()
        self.assertEqual(open_end, [at for at in whole if at - origin >= 20_000_000])


class Intervals(unittest.TestCase):
    def test_slices_add_up_to_the_run_time_of_each_task(self):
        ran = defaultdict(int)
        for row in rows(schedlab.read(trace()).slices):
            if row["pid"] is not None:
                ran[row["pid"]] += row["end_ns"] - row["start_ns"]
        tasks = document("tasks", "--top", "0")["tasks"]
        self.assertEqual(dict(ran), {task["pid"]: task["run_ns"] for task in tasks if task["run_ns"]})

    def test_waits_add_up_to_the_run_delay_of_each_task(self):
        delay, unfinished = defaultdict(int), set()
        for row in rows(schedlab.read(trace()).waits):
            delay[row["pid"]] += row["end_ns"] - row["start_ns"]
        expected = {}
        for task in document("latency", "--top", "0")["tasks"]:
            if task["unfinished"]:
                unfinished.add(task["pid"])
            else:
                expected[task["pid"]] = task["run_delay"]["latency_ns_sum"]
        mine = {pid: sum_ns for pid, sum_ns in delay.items() if pid not in unfinished}
        self.assertEqual(mine, {pid: sum_ns for pid, sum_ns in expected.items() if sum_ns})
        self.assertGreater(len(mine), 10)

    def test_a_part_is_cut_at_its_ends(self):
        origin = int(document("tasks")["origin_ns"])
        part = schedlab.read(trace(), start="20ms", end="30ms")
        for table in (part.slices, part.waits):
            for row in rows(table):
                self.assertLessEqual(origin + 20_000_000, row["start_ns"])
                self.assertLessEqual(row["end_ns"], origin + 30_000_000)


def nested(row: dict) -> dict:
    """A row as JSON has it: what names have in common before a dot is an object."""
    tree: dict = {}
    for name, value in row.items():
        *path, last = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = [nested(each) if isinstance(each, dict) else each for each in value] if isinstance(value, list) else value
    return tree


class Declared(unittest.TestCase):
    def test_episodes_are_those_of_the_command_column_by_column(self):
        answer = document("conservation", "--top", "0")
        origin = int(answer["origin_ns"])
        found = rows(schedlab.read(trace()).episodes)
        self.assertEqual(len(found), answer["count"])
        self.assertGreater(len(found), 5)
        for mine, theirs in zip(found, answer["episodes"]):
            for point in ("start_ns", "end_ns"):
                mine[point] -= origin
            self.assertEqual(nested(mine), theirs)

    def test_tasks_are_those_of_the_command_column_by_column(self):
        found = rows(schedlab.read(trace()).tasks)
        expected = document("tasks", "--top", "0")["tasks"]
        self.assertEqual(len(found), len(expected))
        self.assertGreater(len(found), 10)
        for mine, theirs in zip(found, expected):
            # JSON has null for an object of which nothing is known.
            for sleep in mine["woken_by"]:
                if sleep["by.pid"] is None:
                    sleep["by"] = sleep.pop("by.pid")
                    del sleep["by.comm"]
            self.assertEqual(nested(mine), theirs)


class Faults(unittest.TestCase):
    def test_what_is_no_trace_is_an_error_that_names_the_file(self):
        with self.assertRaisesRegex(OSError, "nowhere.dat"):
            schedlab.read("nowhere.dat")
        with self.assertRaisesRegex(ValueError, "pyproject.toml"):
            schedlab.read(ROOT / "python" / "pyproject.toml")
        for start, end in (("1", None), ("3s", "2s")):
            with self.assertRaises(ValueError):
                schedlab.read(trace(), start=start, end=end)

    def test_losses_are_a_warning_and_stay_with_the_trace(self):
        lost = schedlab.read(ROOT / "corpus" / "lost.dat")
        self.assertEqual(lost.warnings, [])
        with self.assertWarns(schedlab.TraceWarning):
            lost.slices
        self.assertTrue(any("lost" in warning for warning in lost.warnings), lost.warnings)

    def test_every_trace_of_the_corpus_can_be_read(self):
        paths = [path for path in sorted((ROOT / "corpus").iterdir()) if path.suffix not in (".md", ".py")]
        for path in paths:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", schedlab.TraceWarning)
                one = schedlab.read(path)
                for table in (one.events, one.slices, one.waits, one.episodes, one.tasks):
                    pa.table(table).validate(full=True)


if __name__ == "__main__":
    unittest.main()
