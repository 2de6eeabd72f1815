"""A simulated trace, made once by the command, and what the command says of it."""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import schedlab

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = tempfile.TemporaryDirectory()


def said(*arguments: str) -> str:
    """What the command prints."""
    words = [str(schedlab.command()), *arguments]
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=_FOLDER.name).stdout


@functools.cache
def trace() -> Path:
    """A trace of a simulated server on four CPUs."""
    path = Path(_FOLDER.name) / "late.dat"
    said("load", "app", "--duration", "100ms", "--on", "sim:cpus=4,kernel=cfs-6.1", "--trace", str(path))
    return path


def document(question: str, *options: str) -> dict:
    """An answer of the command about that trace."""
    return json.loads(said("trace", question, str(trace()), "--json", *options))


def folder() -> str:
    """A folder for what tests write, in which ``late.dat`` is."""
    trace()
    return _FOLDER.name


class inside:
    """Works in that folder."""

    def __enter__(self) -> None:
        self.before = os.getcwd()
        os.chdir(folder())

    def __exit__(self, *_: object) -> None:
        os.chdir(self.before)
