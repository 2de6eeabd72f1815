"""Scheduler traces as Arrow tables, questions to traces, and experiments.

:func:`read` opens a trace. Its tables leave through the Arrow PyCapsule interface, so pandas, Polars,
DuckDB and pyarrow take their buffers without copying:

>>> import schedlab
>>> trace = schedlab.read("late.dat")
>>> trace.waits.columns
['start_ns', 'end_ns', 'cpu', 'pid', 'comm', 'why']
>>> trace.waits.units
{'start_ns': 'ns', 'end_ns': 'ns'}

``trace.tasks.to_pandas()`` and ``pandas.DataFrame(trace.waits)`` are data frames, ``trace.plot.cores()`` is a
picture that a notebook shows.

:func:`ask` answers the questions of ``schedlab trace``, :func:`run` runs an experiment. Both start the
command ``schedlab``.
"""

from ._ask import ask
from ._command import CommandError, command
from ._native import Table, Trace, TraceWarning, __version__, read
from ._plot import Picture, Plot
from ._run import Results, Sample, results, run

__all__ = [
    "CommandError",
    "Picture",
    "Plot",
    "Results",
    "Sample",
    "Table",
    "Trace",
    "TraceWarning",
    "__version__",
    "ask",
    "command",
    "read",
    "results",
    "run",
]
