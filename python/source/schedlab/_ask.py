"""Questions to a trace."""

from __future__ import annotations

import json
import os
from typing import Any

from ._command import called, options as spelled
from ._native import Trace


def ask(trace: Trace | str | os.PathLike[str], question: str, **options: Any) -> dict[str, Any]:
    """What ``schedlab trace QUESTION FILE --json`` prints.

    The questions are those of ``schedlab trace --help``, such as ``latency``, ``tasks``, ``cpus``,
    ``conservation``, ``why`` and ``migrations``. Options have the names of the command's, with ``_`` for
    ``-``. ``True`` gives an option without a value, a list gives it once for each value. ``docs/answers.md``
    describes the answers, and ``schedlab schema`` prints their schemas.

    >>> import schedlab
    >>> answer = schedlab.ask("late.dat", "latency", comm="app-consumer", top=1)
    >>> answer["tasks"][0]["comm"]
    'app-consumer'

    A trace that was read in part is asked about that part.

    Raises:
        ValueError: the command has no such question or option.
        CommandError: the trace cannot be read.
    """
    path = trace.path if isinstance(trace, Trace) else trace
    given = {**part_of(trace), **options} if isinstance(trace, Trace) else options
    words = ["trace", question, os.fspath(path), *spelled(given)]
    answer: dict[str, Any] = json.loads(called([*words, "--json"]))
    return answer


def part_of(trace: Trace) -> dict[str, Any]:
    """The part that was asked for, as options."""
    return dict(zip(("from", "to"), trace.part))
