"""Questions to a trace."""

from __future__ import annotations

import json
import os
from typing import Any

from ._command import called
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
    words: list[str] = ["trace", question]
    if isinstance(trace, Trace):
        path: str | os.PathLike[str] = trace.path
        for option, point in zip(("from", "to"), trace.part):
            if point is not None:
                options.setdefault(option, point)
    else:
        path = trace
    words.append(os.fspath(path))
    for name, value in options.items():
        words.extend(_option(name, value))
    answer: dict[str, Any] = json.loads(called([*words, "--json"]))
    return answer


def _option(name: str, value: Any) -> list[str]:
    """An option as the command takes it."""
    flag = "--" + name.rstrip("_").replace("_", "-")
    if value is True:
        return [flag]
    if value is False or value is None:
        return []
    values = value if isinstance(value, (list, tuple)) else [value]
    return [f"{flag}={each}" for each in values]
