"""Types of the compiled part."""

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, final

from ._plot import Plot

__all__ = ["Table", "Trace", "TraceWarning", "read", "table_of", "__version__"]
__version__: str

class TraceWarning(UserWarning):
    """What limits the figures of a trace: losses, kinds of events that were not recorded."""

@final
class Table:
    """A table of Arrow columns. pandas, Polars, DuckDB and pyarrow take it as it is."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
    @property
    def units(self) -> dict[str, str]:
        """The unit of each column that has one."""
    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
    def to_pandas(self) -> Any:
        """A pandas data frame; the names of tasks and reasons are categories."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class Trace:
    """A trace of any format that schedlab reads."""

    @property
    def events(self) -> Table:
        """Every event, with the columns of `schedlab trace convert FILE.csv`."""
    @property
    def slices(self) -> Table:
        """Who ran where, from when until when; without a pid, nothing is known of the CPU."""
    @property
    def waits(self) -> Table:
        """Who waited for a CPU, from when until when, and why."""
    @property
    def episodes(self) -> Table:
        """Episodes of lost CPU time, costliest first, as `schedlab trace conservation` finds them."""
    @property
    def tasks(self) -> Table:
        """What each task did with its time, longest run time first, as `schedlab trace tasks` tells it."""
    @property
    def plot(self) -> Plot:
        """Pictures of the trace, made by `schedlab draw`."""
    @property
    def path(self) -> Path:
        """The file."""
    @property
    def part(self) -> tuple[str | None, str | None]:
        """Where the part that was asked for starts and ends."""
    @property
    def format(self) -> str:
        """The format as people name it."""
    @property
    def clock(self) -> str:
        """The clock of all times."""
    @property
    def kernel(self) -> str | None:
        """The kernel that was traced, where the trace tells."""
    @property
    def cpus(self) -> list[int]:
        """The CPUs that were observed, where the trace tells."""
    @property
    def warnings(self) -> list[str]:
        """What limits the tables that were read so far."""

def read(
    path: str | PathLike[str],
    *,
    start: str | None = None,
    end: str | None = None,
    arguments: bool = False,
) -> Trace:
    """Opens a trace. Its tables are read when they are first used."""

def table_of(columns: Sequence[tuple[str, Sequence[Any]]]) -> Table:
    """A table of columns: pairs of a name and a list, in which `None` is absent."""
