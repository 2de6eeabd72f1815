"""The command ``schedlab``: where it is, and how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Sequence

#: The exit status of a command that was used wrongly.
_USAGE = 2


class CommandError(RuntimeError):
    """The command failed; the text is what it printed."""


def command() -> Path:
    """The command: what the variable ``SCHEDLAB`` names, else the one beside this Python, else that on the PATH.

    Raises:
        FileNotFoundError: there is none.
    """
    named = os.environ.get("SCHEDLAB")
    if named:
        return Path(named)
    beside = Path(sysconfig.get_path("scripts")) / "schedlab"
    if beside.is_file():
        return beside
    found = shutil.which("schedlab")
    if found:
        return Path(found)
    raise FileNotFoundError(
        "the command schedlab is not on the PATH: install it, or name its file in the variable SCHEDLAB"
    )


def called(arguments: Sequence[str | os.PathLike[str]]) -> str:
    """What the command prints.

    Raises:
        ValueError: the arguments are wrong.
        CommandError: the command failed.
    """
    words = [str(command()), *(os.fspath(argument) for argument in arguments)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.strip() or f"exit status {done.returncode}"
    if done.returncode == _USAGE:
        raise ValueError(said)
    raise CommandError(said)


def options(given: dict[str, Any]) -> list[str]:
    """Options as the command takes them: ``_`` for ``-``, ``True`` without a value, a list once for each value."""
    words: list[str] = []
    for name, value in {name.rstrip("_"): value for name, value in given.items()}.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not False and value is not None:
            words += [f"{flag}={each}" for each in (value if isinstance(value, (list, tuple)) else [value])]
    return words
