//! All metrics of all runs as a Parquet table.

use schedlab_experiment::StoredRun;
use std::path::Path;
use std::process::ExitCode;

/// Writes the table. Its columns are the same for all experiments: what a point has chosen on its axes is one text.
#[cfg(feature = "parquet")]
pub(super) fn write(runs: &[StoredRun], path: &Path) -> anyhow::Result<ExitCode> {
    use anyhow::Context as _;
    use schedlab_experiment::export::{Row, rows};
    use schedlab_model::table::Row as _;
    use schedlab_trace::NewFile;
    use schedlab_trace::parquet_table::Table;
    let context = || path.display().to_string();
    let file = NewFile::create(path).with_context(context)?;
    let mut table = Table::create(file.path(), "runs", Row::columns()).with_context(context)?;
    for row in rows(runs) {
        table.row(&row).with_context(context)?;
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
