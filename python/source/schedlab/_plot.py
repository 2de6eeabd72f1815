"""Pictures of a trace, made by ``schedlab draw``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ._ask import part_of
from ._command import called, options as spelled
from ._native import Trace


class Picture:
    """A picture as SVG. Notebooks show it."""

    def __init__(self, svg: str, caption: str) -> None:
        #: The picture.
        self.svg = svg
        #: What it shows, in a sentence.
        self.caption = caption

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the SVG to a file. Fonts are those of the reader, unless ``embed_fonts=True`` was given."""
        Path(path).write_text(self.svg, encoding="utf-8")
        return Path(path)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<schedlab picture: {self.caption}>"


class Plot:
    """The pictures of ``schedlab draw``. Options have the names of the command's, with ``_`` for ``-``.

    >>> import schedlab
    >>> picture = schedlab.read("late.dat").plot.cores(to="20ms", width_mm=85, grey=True)
    >>> picture.caption
    'Cores of late.dat: ... tasks on 4 CPUs from 0 to 20.0 ms of the trace (20.0 ms).'

    A trace that was read in part is drawn in that part.

    Raises:
        ValueError: the command has no such option.
        CommandError: the picture cannot be drawn.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def cores(self, **options: Any) -> Picture:
        """A row for each CPU, with a colour for each task."""
        return self._drawn("cores", options)

    def tasks(self, **options: Any) -> Picture:
        """A row for each task: running, waiting, sleeping, and who woke it."""
        return self._drawn("tasks", options)

    def waiting(self, **options: Any) -> Picture:
        """How many tasks ran and waited over time."""
        return self._drawn("waiting", options)

    def latency(self, **options: Any) -> Picture:
        """How long tasks waited for a CPU."""
        return self._drawn("latency", options)

    def wakeup(self, **options: Any) -> Picture:
        """One episode of lost CPU time."""
        return self._drawn("wakeup", options)

    def _drawn(self, kind: str, options: dict[str, Any]) -> Picture:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture.svg"
            words = ["draw", kind, os.fspath(self._trace.path), "--output", str(path), "--caption"]
            said = called([*words, *spelled({**part_of(self._trace), **options})])
            return Picture(path.read_text(encoding="utf-8"), said.splitlines()[-1])
