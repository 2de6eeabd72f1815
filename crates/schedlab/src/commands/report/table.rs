//! All metrics of all runs as a Parquet table.

use schedlab_experiment::StoredRun;
use std::path::Path;
use std::process::ExitCode;

/// The columns, the same for all experiments: what a point has chosen on its axes is one text.
#[cfg(feature = "parquet")]
const COLUMNS: [(&str, schedlab_trace::parquet_table::ColumnKind); 15] = {
    use schedlab_trace::parquet_table::ColumnKind::{Number, Real, Text};
    [
        ("run", Text),
        ("workload", Text),
        ("machine", Text),
        ("host", Text),
        ("kernel", Text),
        ("block", Number),
        ("started_at", Text),
        ("point", Text),
        ("metric", Text),
        ("unit", Text),
        ("of", Text),
        ("value", Real),
        ("whole", Number),
        ("censored", Number),
        ("warnings", Text),
    ]
};

/// Writes the table.
#[cfg(feature = "parquet")]
pub(super) fn write(runs: &[StoredRun], path: &Path) -> anyhow::Result<ExitCode> {
    use anyhow::Context as _;
    use schedlab_experiment::export::{Row, rows};
    use schedlab_trace::NewFile;
    use schedlab_trace::parquet_table::{Cell, Table};
    let context = || path.display().to_string();
    let file = NewFile::create(path).with_context(context)?;
    let mut table = Table::create(file.path(), "runs", &COLUMNS).with_context(context)?;
    for row in rows(runs) {
        let Row { run, workload, machine, host, kernel, block, started_at, point, .. } = &row;
        table
            .row(&[
                Cell::Text(run),
                Cell::Text(workload),
                Cell::Text(machine),
                Cell::Text(host),
                Cell::Text(kernel),
                Cell::Number(i32::try_from(*block).unwrap_or(i32::MAX)),
                Cell::Text(started_at),
                Cell::Text(point),
                Cell::Text(&row.metric),
                Cell::Text(&row.unit),
                Cell::Text(&row.of),
                row.value.map_or(Cell::Absent, Cell::Real),
                Cell::Number(row.whole.into()),
                Cell::Number(row.censored.into()),
                Cell::Text(&row.warnings),
            ])
            .with_context(context)?;
    }
    table.finish().with_context(context)?;
    file.keep().with_context(context)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "parquet"))]
pub(super) fn write(_runs: &[StoredRun], _path: &Path) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "cannot write Parquet: this schedlab was built without it; build it with `cargo build \
         --release --features parquet`, or use figures.csv of the report"
    )
}
