"""pandas, Polars, DuckDB and pyarrow take the tables, and their buffers are ours."""

import unittest

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import schedlab

from .made import trace


def addresses(table: pa.Table, column: str) -> list[int]:
    """Where the values of a column lie."""
    return [chunk.buffers()[-1].address for chunk in table[column].chunks]


class HandOver(unittest.TestCase):
    def setUp(self):
        self.waits = schedlab.read(trace()).waits
        self.arrow = pa.table(self.waits)
        self.expected = sum(
            row["end_ns"] - row["start_ns"] for row in self.arrow.select(["start_ns", "end_ns"]).to_pylist()
        )

    def test_pyarrow_gets_the_same_memory_each_time(self):
        again = pa.table(self.waits)
        for column in self.waits.columns:
            self.assertEqual(addresses(self.arrow, column), addresses(again, column), column)
        self.assertEqual(len(self.arrow), len(self.waits))
        units = {field.name: field.metadata for field in self.arrow.schema if field.metadata}
        self.assertEqual(units["start_ns"], {b"unit": b"ns"})

    def test_polars_keeps_the_memory(self):
        frame = pl.DataFrame(self.waits)
        self.assertEqual((frame["end_ns"] - frame["start_ns"]).sum(), self.expected)
        back = frame.select("start_ns").to_arrow()
        self.assertEqual(addresses(back, "start_ns"), addresses(self.arrow, "start_ns"))

    def test_pandas_keeps_the_memory(self):
        frame = self.arrow.to_pandas(types_mapper=pd.ArrowDtype)
        self.assertEqual(int((frame["end_ns"] - frame["start_ns"]).sum()), self.expected)
        held = pa.chunked_array(frame["start_ns"].array.__arrow_array__())
        kept = pa.table({"start_ns": held})
        self.assertEqual(addresses(kept, "start_ns"), addresses(self.arrow, "start_ns"))

    def test_pandas_takes_a_table_by_itself(self):
        for frame in (self.waits.to_pandas(), pd.DataFrame(self.waits)):
            self.assertEqual(int((frame["end_ns"] - frame["start_ns"]).sum()), self.expected)
            self.assertEqual(list(frame.columns), self.waits.columns)
        self.assertEqual(str(self.waits.to_pandas()["why"].dtype), "category")

    def test_rows_are_those_of_arrow_one_by_one(self):
        read = schedlab.read(trace())
        for table in (read.events, read.slices, read.waits, read.episodes, read.tasks):
            self.assertEqual(list(table), pa.table(table).to_pylist())

    def test_duckdb_queries_a_table_by_its_variable(self):
        waits = self.waits
        total = duckdb.sql("select sum(end_ns - start_ns) from waits").fetchall()[0][0]
        self.assertEqual(int(total), self.expected)
        self.assertIs(waits, self.waits)
        why = dict(duckdb.sql("select why, count(*) from waits group by why").fetchall())
        self.assertEqual(sum(why.values()), len(self.waits))

    def test_a_table_outlives_its_trace(self):
        waits = schedlab.read(trace()).waits
        table = pa.table(waits)
        del waits
        self.assertEqual(table.num_rows, len(self.waits))


if __name__ == "__main__":
    unittest.main()
