"""Questions and experiments give what the command gives."""

import json
import os
import unittest
from pathlib import Path
from unittest import mock

import pyarrow as pa
import schedlab

from .made import document, inside, said, trace

EXPERIMENT = """
name = "groups"
machine = ["sim:cpus=1", "sim:cpus=2"]
repeats = 2
record = true
[workload]
name = "hackbench"
options = { fds = 2, loops = 20 }
[[axis]]
option = "groups"
values = [1, 2]
[[claim]]
says = "twice the groups take longer"
metric = "time_s"
at = { groups = 2, machine = "sim:cpus=1" }
against = { groups = 1, machine = "sim:cpus=1" }
at_least = 1.2
why = "one CPU does twice the work"
"""


class Ask(unittest.TestCase):
    def test_an_answer_is_the_document_of_the_command(self):
        self.assertEqual(schedlab.ask(trace(), "tasks", top=3), document("tasks", "--top", "3"))
        chosen = schedlab.ask(trace(), "latency", comm=["app-consumer", "app-producer"])
        expected = document("latency", "--comm", "app-consumer", "--comm", "app-producer")
        self.assertEqual(chosen, expected)

    def test_a_part_is_asked_about_as_it_was_read(self):
        part = schedlab.read(trace(), start="20ms", end="30ms")
        self.assertEqual(schedlab.ask(part, "cpus"), document("cpus", "--from", "20ms", "--to", "30ms"))

    def test_wrong_questions_and_files_are_errors_in_the_words_of_the_command(self):
        with self.assertRaisesRegex(ValueError, "moon"):
            schedlab.ask(trace(), "moon")
        with self.assertRaisesRegex(schedlab.CommandError, "nowhere.dat"):
            schedlab.ask("nowhere.dat", "tasks")

    def test_without_the_command_the_message_says_how_to_get_it(self):
        away = {"PATH": "/nowhere"}
        with mock.patch.dict(os.environ, away, clear=True), mock.patch("sysconfig.get_path", lambda _: "/nowhere"):
            with self.assertRaisesRegex(FileNotFoundError, "SCHEDLAB"):
                schedlab.command()


class Run(unittest.TestCase):
    def test_samples_are_the_stored_figures_with_their_units(self):
        with inside():
            done = schedlab.run(EXPERIMENT)
            self.assertTrue(done.report.is_file())
            table = pa.table(done.samples).to_pylist()
            stored = json.loads((done.folder / "figures.json").read_text())["runs"]
            self.assertEqual(len(stored), 8)
            self.assertEqual(len(table), sum(len(run["figures"]) for run in stored))
            flat = [(run, figure) for run in stored for figure in run["figures"]]
            for row, (run, figure) in zip(table, flat):
                self.assertEqual(row["run"], run["manifest"]["id"])
                self.assertEqual(row["groups"], run["manifest"]["point"]["groups"])
                self.assertEqual((row["metric"], row["unit"]), (figure["metric"]["name"], figure["metric"]["unit"]))
                self.assertEqual(row["value"], figure["value"])
            sample = done.sample("time_s", groups=2, machine="sim:cpus=2")
            self.assertEqual((sample.unit, sample.better, len(sample.values)), ("seconds", "lower", 2))
            with self.assertRaises(KeyError):
                done.sample("time_s", groups=3)
            self.assertEqual([claim["verdict"] for claim in done.claims], ["reproduced in the model"])
            self.assertEqual(len(done.traces), 8)
            self.assertGreater(len(schedlab.read(done.traces[0]).slices), 0)
            # The same again does no run, and gives the same.
            again = schedlab.run(EXPERIMENT)
            self.assertEqual(again, done)
            self.assertEqual(schedlab.results(Path("results") / "groups"), done)

    def test_a_mistake_in_an_experiment_is_named(self):
        with inside(), self.assertRaisesRegex(ValueError, "repeets"):
            schedlab.run('name = "x"\nrepeets = 3\n[workload]\nname = "cpu"\n')

    def test_the_command_is_of_the_same_version(self):
        self.assertTrue(said("--version").startswith(f"schedlab {schedlab.__version__}"))


if __name__ == "__main__":
    unittest.main()
