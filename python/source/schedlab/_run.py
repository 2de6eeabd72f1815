"""Experiments, and what they measured."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Sequence

from ._command import called
from ._native import Table, table_of


@dataclass(frozen=True)
class Sample:
    """The values of a metric at one point, one for each run."""

    #: The metric, such as ``time_s``.
    metric: str
    #: Its unit: ``seconds``, ``nanoseconds``, ``count``, ``per_second``, ``bytes``, ``bytes_per_second`` or
    #: ``fraction``.
    unit: str
    #: Which direction is an improvement: ``lower``, ``higher`` or ``neither``.
    better: str
    #: The values in the order of the repeats.
    values: list[float]


@dataclass(frozen=True)
class Results:
    """The runs of an experiment, as they are stored."""

    #: The folder.
    folder: Path
    #: Each run with its manifest, figures and warnings (the schema ``schedlab/report/1``).
    runs: list[dict[str, Any]] = field(repr=False)

    @property
    def report(self) -> Path:
        """The report, an HTML file."""
        return self.folder / "report.html"

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The verdicts on the claims of the experiment; none if it has no claims."""
        path = self.folder / "claims.json"
        if not path.is_file():
            return []
        claims: list[dict[str, Any]] = json.loads(path.read_text())["claims"]
        return claims

    @property
    def traces(self) -> list[Path]:
        """The traces of recorded runs, in the order of the runs."""
        # A run's folder is named by what was asked and by where it was done.
        folders = (self.folder / "runs").glob("*/trace.dat")
        by_run = {path.parent.name.split("-")[0]: path for path in folders}
        found = [by_run.get(run["manifest"]["id"]) for run in self.runs]
        return [path for path in found if path is not None]

    @property
    def samples(self) -> Table:
        """A row for each figure of each run, with a column for each axis. ``value`` is in ``unit``."""
        rows = [(run, figure) for run in self.runs for figure in run["figures"]]
        axes = sorted({axis for run in self.runs for axis in run["manifest"]["point"]})
        of_run = {"run": "id", "workload": "workload", "machine": "machine", "block": "block"}
        columns: list[tuple[str, Sequence[Any]]] = []
        for name, key in of_run.items():
            columns.append((name, [run["manifest"][key] for run, _ in rows]))
        for axis in axes:
            # The machine is a column already.
            if axis not in of_run:
                columns.append((axis, [run["manifest"]["point"].get(axis) for run, _ in rows]))
        for name in ("name", "unit", "better"):
            column = "metric" if name == "name" else name
            columns.append((column, [figure["metric"][name] for _, figure in rows]))
        columns.append(("of", [figure.get("of") or None for _, figure in rows]))
        columns.append(("value", [_real(figure["value"]) for _, figure in rows]))
        columns.append(("warnings", [_codes(run) for run, _ in rows]))
        return table_of(columns)

    def sample(self, metric: str, *, workload: str | None = None, of: str = "", **point: Any) -> Sample:
        """The values of a metric at a point.

        ``point`` names the choice on the axes whose names are words of Python; ``**{"idle-prev": 1}`` names others.

        Raises:
            KeyError: no run at this point has the metric.
        """
        wanted = {axis: str(value) for axis, value in point.items()}
        found = [
            (run["manifest"]["block"], figure)
            for run in self.runs
            if (workload is None or run["manifest"]["workload"] == workload)
            and all(run["manifest"]["point"].get(axis) == value for axis, value in wanted.items())
            for figure in run["figures"]
            if figure["metric"]["name"] == metric and figure.get("of", "") == of
        ]
        values = [figure["value"] for _, figure in sorted(found, key=lambda one: one[0])]
        values = [value for value in values if value is not None]
        if not values:
            raise KeyError(f"no run has {metric} at {wanted or 'any point'}")
        about = found[0][1]["metric"]
        return Sample(metric, about["unit"], about["better"], values)


def _real(value: float | None) -> float | None:
    return None if value is None else float(value)


def _codes(run: dict[str, Any]) -> str | None:
    return " ".join(warning["code"] for warning in run["warnings"]) or None


def run(
    experiment: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] = "results",
    on: str | None = None,
) -> Results:
    """Runs an experiment: a TOML file, or its text. Runs that are stored already are not repeated.

    >>> import schedlab
    >>> done = schedlab.run('''
    ... name = "threads"
    ... machine = "sim:cpus=2"
    ... repeats = 3
    ... [workload]
    ... name = "hackbench"
    ... options = { groups = 1, fds = 2, loops = 20 }
    ... ''')
    >>> sample = done.sample("time_s")
    >>> sample.unit, len(sample.values)
    ('seconds', 3)

    Raises:
        ValueError: the experiment has a mistake.
        CommandError: a run failed.
    """
    if isinstance(experiment, str) and "\n" in experiment:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "experiment.toml"
            path.write_text(experiment)
            return run(path, output=output, on=on)
    words: list[str | os.PathLike[str]] = ["run", experiment, "--output", output]
    if on is not None:
        words += ["--on", on]
    report = Path(called(words).splitlines()[-1])
    return results(report.parent)


def results(folder: str | os.PathLike[str]) -> Results:
    """The stored results of an experiment in this folder, from its ``figures.json``."""
    folder = Path(folder)
    runs = json.loads((folder / "figures.json").read_text())["runs"]
    return Results(folder, runs)
