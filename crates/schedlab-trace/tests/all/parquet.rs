//! Parquet: what is written is read back by `pyarrow` (another implementation, in C++), or where that
//! is absent by the reader of the crate that wrote it, said aloud.

use crate::common::header;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use schedlab_model::Nanos;
use schedlab_model::table::{At, column};
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::parquet_table::Table;
use schedlab_trace::synthetic::{Plan, Synthetic};
use schedlab_trace::{Target, convert, open};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// The CSV of the same trace, and its table as CSV by pyarrow; `None` where pyarrow is absent.
const SCRIPT: &str = r"
import sys, pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
print(','.join(f'{field.name}:{field.type}' for field in table.schema))
print(','.join(table.schema.names))
for row in zip(*[column.to_pylist() for column in table.columns]):
    print(','.join('' if value is None else str(value) for value in row))
";

fn by_pyarrow(path: &Path) -> Option<(String, String)> {
    let output = Command::new("python3").args(["-c", SCRIPT]).arg(path).output().ok();
    let output = output.filter(|output| output.status.success());
    if output.is_none() {
        drop(writeln!(
            std::io::stderr(),
            "MISSING: pyarrow: Parquet is read back by the crate that wrote it only"
        ));
    }
    let text = String::from_utf8(output?.stdout).unwrap();
    let (types, rows) = text.split_once('\n').unwrap();
    Some((types.to_owned(), rows.to_owned()))
}

/// The rows as the writer's own crate reads them, in the words of the CSV.
fn by_the_crate(path: &Path) -> String {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut text = String::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let cells: Vec<String> = row
            .get_column_iter()
            .map(|(_, field)| match field {
                Field::Null => String::new(),
                Field::Str(text) => text.clone(),
                other => other.to_string(),
            })
            .collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

#[test]
fn a_table_of_events_holds_what_the_csv_holds() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // More rows than a row group has.
    let plan = Plan { cpus: 4, events: 70_000, ..Plan::default() };
    Synthetic::new(plan).write(&at("a.dat"), header(Version::V6, Compression::None, 4)).unwrap();
    let csv = convert(&at("a.dat"), &at("a.csv"), Target::Csv).unwrap();
    let table = convert(&at("a.dat"), &at("a.parquet"), Target::Parquet).unwrap();
    assert_eq!(csv, table);
    let truth = std::fs::read_to_string(at("a.csv")).unwrap();
    let rows = truth.split_once('\n').unwrap().1;
    assert!(by_the_crate(&at("a.parquet")) == rows);
    let Some((types, text)) = by_pyarrow(&at("a.parquet")) else { return };
    assert!(text == truth, "pyarrow reads other rows than the CSV has");
    assert!(types.starts_with("time_ns:int64,cpu:uint16,event:string,"), "{types}");
    assert!(types.contains(",prio:int32,state:string,from_cpu:uint16,"), "{types}");
}

#[test]
fn a_table_without_rows_is_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let columns = vec![
        column("a", "", |row: &u64| At(Nanos(*row))),
        column("b", "", |row: &u64| row.to_string()),
    ];
    Table::create(&path, "none", columns).unwrap().finish().unwrap();
    assert_eq!(by_the_crate(&path), "");
    if let Some((types, text)) = by_pyarrow(&path) {
        assert_eq!((types.as_str(), text.as_str()), ("a:int64,b:string", "a,b\n"));
    }
}

#[test]
fn a_length_of_time_may_be_absent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let columns = vec![
        column("at", "", |row: &(u64, Option<u64>)| At(Nanos(row.0))),
        column("took", "", |row: &(u64, Option<u64>)| row.1.map(Nanos)),
    ];
    let mut table = Table::create(&path, "x", columns).unwrap();
    table.row(&(1, Some(5))).unwrap();
    table.row(&(2, None)).unwrap();
    table.finish().unwrap();
    assert_eq!(by_the_crate(&path), "1,5\n2,\n");
}

#[test]
fn measured_values_keep_all_their_digits_and_may_be_absent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let value = column("value", "", |row: &Option<f64>| *row);
    let mut table = Table::create(&path, "x", vec![value]).unwrap();
    for value in [Some(0.1 + 0.2), None, Some(-1e300)] {
        table.row(&value).unwrap();
    }
    table.finish().unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let values: Vec<Option<f64>> = rows
        .map(|row| match row.unwrap().get_column_iter().next().unwrap().1 {
            Field::Double(value) => Some(*value),
            _ => None,
        })
        .collect();
    assert_eq!(values, [Some(0.1 + 0.2), None, Some(-1e300)]);
}

#[test]
fn a_damaged_trace_becomes_a_table_with_its_losses() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/lost.dat");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    convert(&source, &path, Target::Parquet).unwrap();
    let (mut lost, mut batch) = (0, Vec::new());
    let mut events = open(&source).unwrap();
    while events.next(&mut batch).unwrap() {
        lost += batch.iter().filter(|event| event.what.kind().name() == "lost").count();
    }
    assert!(lost > 0);
    assert_eq!(by_the_crate(&path).matches(",lost,").count(), lost);
}
