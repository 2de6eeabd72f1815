//! Tables in Parquet files: typed columns for notebooks and databases. Needs the feature `parquet`.
//!
//! Memory: one row group ([`GROUP`] rows), for any table's length.

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use schedlab_model::table::{Cell, Column, Kind};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group: large enough for its columns to pack well, small enough to be held.
const GROUP: usize = 1 << 16;

/// A Parquet file that is being written, with the columns of its rows.
///
/// Points in time are `INT64` and never absent; signed, so that differences are too. Durations and counts are `INT64`, CPUs
/// `INT32` marked as 16 bits without sign, other whole numbers and flags `INT32`, measured numbers and shares `DOUBLE`, all
/// else UTF-8 in a dictionary as far as it repeats.
pub struct Table<R> {
    writer: SerializedFileWriter<File>,
    columns: Vec<(Column<R>, Values)>,
    rows: usize,
}

/// The values of one column in the row group at hand; levels say which rows have one.
enum Values {
    Required(Vec<i64>),
    Long(Optional<i64>),
    Number(Optional<i32>),
    Real(Optional<f64>),
    Text(Optional<ByteArray>, BTreeMap<String, ByteArray>),
}

/// Values that may be absent.
struct Optional<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Optional<T> {
    const fn new() -> Self {
        Self { values: Vec::new(), levels: Vec::new() }
    }

    fn push(&mut self, value: Option<T>) {
        self.levels.push(value.is_some().into());
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

impl<R> Table<R> {
    /// Begins a table of this name with these columns at `path`.
    ///
    /// # Errors
    /// The file cannot be written, or a name is none that a schema can have.
    pub fn create(path: &Path, name: &str, columns: Vec<Column<R>>) -> io::Result<Self> {
        let mut schema = format!("message {name} {{");
        for head in columns.iter().map(Column::head) {
            let (kind, note) = match head.kind {
                Kind::Point => ("REQUIRED INT64", ""),
                Kind::Duration | Kind::Count => ("OPTIONAL INT64", ""),
                Kind::Cpu => ("OPTIONAL INT32", " (UINT_16)"),
                Kind::Number | Kind::Flag => ("OPTIONAL INT32", ""),
                Kind::Share | Kind::Real | Kind::MeanTime => ("OPTIONAL DOUBLE", ""),
                _ => ("OPTIONAL BYTE_ARRAY", " (UTF8)"),
            };
            let _ = write!(schema, " {kind} {}{note};", head.name);
        }
        schema.push_str(" }");
        let schema = parse_message_type(&schema).map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("schedlab".into())
            .build();
        // Plain: the caller hides the file until it is whole.
        let file = File::create(path)?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            .map_err(io::Error::other)?;
        let columns = columns.into_iter().map(|column| {
            let values = Values::new(&column.head().kind);
            (column, values)
        });
        Ok(Self { writer, columns: columns.collect(), rows: 0 })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// I/O.
    pub fn row(&mut self, row: &R) -> io::Result<()> {
        for (column, values) in &mut self.columns {
            values.push(&column.value(row).cell);
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
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.writer.finish().map_err(io::Error::other)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io::Error::other)?;
        for (_, values) in &mut self.columns {
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
    const fn new(kind: &Kind) -> Self {
        match kind {
            Kind::Point => Self::Required(Vec::new()),
            Kind::Duration | Kind::Count => Self::Long(Optional::new()),
            Kind::Cpu | Kind::Number | Kind::Flag => Self::Number(Optional::new()),
            Kind::Share | Kind::Real | Kind::MeanTime => Self::Real(Optional::new()),
            _ => Self::Text(Optional::new(), BTreeMap::new()),
        }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        match self {
            Self::Required(values) => values.push(whole(cell).unwrap_or(0)),
            Self::Long(values) => values.push(whole(cell)),
            Self::Number(values) => {
                let narrow = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
                values.push(whole(cell).map(narrow));
            }
            Self::Real(values) => values.push(match cell {
                Cell::Real(number) if number.is_finite() => Some(*number),
                _ => None,
            }),
            Self::Text(values, known) => values.push(match cell {
                // The same text is the same memory: names repeat by the thousand.
                Cell::Text(text) => Some(known.get(&**text).cloned().unwrap_or_else(|| {
                    let value = ByteArray::from(text.as_bytes().to_vec());
                    known.insert(text.to_string(), value.clone());
                    value
                })),
                _ => None,
            }),
        }
    }

    fn flush(&mut self, writer: &mut ColumnWriter<'_>) -> parquet::errors::Result<()> {
        match (self, writer) {
            (Self::Required(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, None, None)?;
                values.clear();
            }
            (Self::Long(of), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(&of.values, Some(&of.levels), None)?;
                of.clear();
            }
            (Self::Number(of), ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(&of.values, Some(&of.levels), None)?;
                of.clear();
            }
            (Self::Real(of), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(&of.values, Some(&of.levels), None)?;
                of.clear();
            }
            (Self::Text(of, known), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                writer.write_batch(&of.values, Some(&of.levels), None)?;
                of.clear();
                known.clear();
            }
            _ => unreachable!("the schema was made from the same kinds"),
        }
        Ok(())
    }
}

/// A whole number; times beyond 2⁶³ ns (292 years) are written as that.
fn whole(cell: &Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Whole(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
        Cell::Signed(number) => Some(*number),
        Cell::Flag(flag) => Some((*flag).into()),
        _ => None,
    }
}
