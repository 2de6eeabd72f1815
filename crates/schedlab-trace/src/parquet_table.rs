//! Tables in Parquet files: typed columns for notebooks and databases. Needs the feature `parquet`.
//!
//! Memory: one row group ([`GROUP`] rows), for any table's length.

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group: large enough for its columns to pack well, small enough to be held.
const GROUP: usize = 1 << 16;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Nanoseconds of the trace's clock: `INT64`, never absent. Signed, so that differences are too.
    Time,
    /// A length of time in nanoseconds, where there is one: `INT64`.
    Duration,
    /// A CPU: `INT32` marked as 16 bits without sign.
    Cpu,
    /// A whole number other than a time: `INT32`.
    Number,
    /// A measured value: `DOUBLE`.
    Real,
    /// Text: UTF-8, in a dictionary as far as it repeats.
    Text,
}

/// A value on its way into a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Does not apply, or is not known.
    Absent,
    /// Of a column of [`ColumnKind::Time`] or [`ColumnKind::Duration`]; times beyond 2⁶³ ns (292 years) are written as that.
    Time(u64),
    /// Of a column of [`ColumnKind::Cpu`] or [`ColumnKind::Number`].
    Number(i32),
    /// Of a column of [`ColumnKind::Real`].
    Real(f64),
    /// Of a column of [`ColumnKind::Text`].
    Text(&'a str),
}

/// A Parquet file that is being written.
pub struct Table {
    writer: SerializedFileWriter<File>,
    columns: Vec<Values>,
    rows: usize,
}

/// The values of one column in the row group at hand; levels say which rows have one.
enum Values {
    Time(Vec<i64>),
    Duration(Vec<i64>, Vec<i16>),
    Number(Vec<i32>, Vec<i16>),
    Real(Vec<f64>, Vec<i16>),
    Text(Vec<ByteArray>, Vec<i16>, BTreeMap<String, ByteArray>),
}

impl Table {
    /// Begins a table of this name with these columns at `path`.
    ///
    /// # Errors
    /// The file cannot be written, or a name is none that a schema can have.
    #[expect(clippy::disallowed_methods, reason = "the caller hides the file until it is whole")]
    pub fn create(path: &Path, name: &str, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        let mut schema = format!("message {name} {{");
        for (column, kind) in columns {
            let (kind, note) = match kind {
                ColumnKind::Time => ("REQUIRED INT64", ""),
                ColumnKind::Duration => ("OPTIONAL INT64", ""),
                ColumnKind::Cpu => ("OPTIONAL INT32", " (UINT_16)"),
                ColumnKind::Number => ("OPTIONAL INT32", ""),
                ColumnKind::Real => ("OPTIONAL DOUBLE", ""),
                ColumnKind::Text => ("OPTIONAL BYTE_ARRAY", " (UTF8)"),
            };
            let _ = write!(schema, " {kind} {column}{note};");
        }
        schema.push_str(" }");
        let schema = parse_message_type(&schema).map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("schedlab".into())
            .build();
        let file = File::create(path)?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            .map_err(io::Error::other)?;
        let columns = columns.iter().map(|(_, kind)| Values::new(*kind)).collect();
        Ok(Self { writer, columns, rows: 0 })
    }

    /// Adds a row: a cell for each column, of its kind.
    ///
    /// # Errors
    /// I/O; or `InvalidInput` when the cells are not those of the columns.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let fits = cells.len() == self.columns.len()
            && cells.iter().zip(&mut self.columns).all(|(cell, values)| values.push(*cell));
        if !fits {
            let what = "the cells of a row are not those of the table's columns";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.rows += 1;
        if self.rows == GROUP {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is left and the file's end.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    /// As [`Self::finish`], for an owner that keeps the table.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        self.writer.finish().map_err(io::Error::other)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io::Error::other)?;
        for values in &mut self.columns {
            let column = group.next_column().map_err(io::Error::other)?;
            let mut column = column.expect("the group has the columns that the schema has");
            values.flush(column.untyped()).map_err(io::Error::other)?;
            column.close().map_err(io::Error::other)?;
        }
        group.close().map_err(io::Error::other)?;
        self.rows = 0;
        Ok(())
    }
}

impl Values {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Time => Self::Time(Vec::new()),
            ColumnKind::Duration => Self::Duration(Vec::new(), Vec::new()),
            ColumnKind::Cpu | ColumnKind::Number => Self::Number(Vec::new(), Vec::new()),
            ColumnKind::Real => Self::Real(Vec::new(), Vec::new()),
            ColumnKind::Text => Self::Text(Vec::new(), Vec::new(), BTreeMap::new()),
        }
    }

    /// Takes a cell; `false` when it is of another kind.
    fn push(&mut self, cell: Cell<'_>) -> bool {
        match (self, cell) {
            (Self::Time(values), Cell::Time(time)) => {
                values.push(i64::try_from(time).unwrap_or(i64::MAX));
            }
            (Self::Duration(values, levels), Cell::Time(time)) => {
                values.push(i64::try_from(time).unwrap_or(i64::MAX));
                levels.push(1);
            }
            (Self::Number(values, levels), Cell::Number(number)) => {
                values.push(number);
                levels.push(1);
            }
            (Self::Real(values, levels), Cell::Real(value)) => {
                values.push(value);
                levels.push(1);
            }
            (Self::Text(values, levels, known), Cell::Text(text)) => {
                // The same text is the same memory: names repeat by the thousand.
                let value = known.get(text).cloned().unwrap_or_else(|| {
                    let value = ByteArray::from(text.as_bytes().to_vec());
                    known.insert(text.to_owned(), value.clone());
                    value
                });
                values.push(value);
                levels.push(1);
            }
            (
                Self::Duration(_, levels)
                | Self::Number(_, levels)
                | Self::Real(_, levels)
                | Self::Text(_, levels, _),
                Cell::Absent,
            ) => levels.push(0),
            _ => return false,
        }
        true
    }

    fn flush(&mut self, writer: &mut ColumnWriter<'_>) -> parquet::errors::Result<()> {
        match (self, writer) {
            (Self::Time(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, None, None)?;
                values.clear();
            }
            (Self::Duration(values, levels), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
            }
            (Self::Number(values, levels), ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
            }
            (Self::Real(values, levels), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
            }
            (Self::Text(values, levels, known), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                writer.write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
                known.clear();
            }
            _ => unreachable!("the schema was made from the same kinds"),
        }
        Ok(())
    }
}
