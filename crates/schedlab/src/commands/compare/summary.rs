//! One command alone: how long it takes.

use super::Set;
use schedlab_experiment::StoredRun;
use schedlab_experiment::report::readable;
use schedlab_model::Unit;
use schedlab_model::table::TextTable;
use schedlab_stats::Sample;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Of a command that takes less, the start of the process is a part worth knowing.
const FAST_S: f64 = 0.02;
/// How often a process is started for that.
const STARTS: usize = 20;

/// Prints mean and deviation, median, the ends, and where the CPU time went.
pub(super) fn print(set: &Set, room: usize) -> anyhow::Result<()> {
    let mut out = crate::output::stdout();
    let whole: Vec<&StoredRun> = set.runs.iter().filter(|run| run.is_whole()).collect();
    let sample = |name: &str| Sample::new(whole.iter().filter_map(|run| run.value(name)));
    let Ok(times) = sample("time_s") else {
        writeln!(out, "{}: no run was finished", set.name)?;
        return Ok(());
    };
    let time = |seconds: f64| readable(seconds, Unit::Seconds);
    let spread = times.deviation().map_or(String::new(), |sd| format!(" ± {}", time(sd)));
    let failed = set.runs.iter().filter(|run| run.failure().is_some()).count();
    let failed = if failed > 0 { format!("; {failed} runs failed") } else { String::new() };
    writeln!(
        out,
        "{}: {}{spread} (mean ± sd of {} runs{failed})",
        set.name,
        time(times.mean()),
        times.len()
    )?;
    let mut table = TextTable::new(&["<median", "min", "max", "user", "system"]);
    let mean = |name: &str| sample(name).map_or("-".to_owned(), |sample| time(sample.mean()));
    let [user, system] = ["cpu_user_s", "cpu_system_s"].map(mean);
    let [median, min, max] = [times.median(), times.min(), times.max()].map(time);
    table.row(vec![median, min, max, user, system]);
    out.write_all(table.text(0, room).as_bytes())?;
    let apart = times.outliers();
    if !apart.is_empty() {
        let shown: Vec<String> = apart.iter().take(6).map(|one| time(*one)).collect();
        writeln!(out, "{} runs lie apart: {}", apart.len(), shown.join(", "))?;
    }
    if times.median() < FAST_S
        && let Some(start) = start_of_a_process()
    {
        writeln!(out, "The start of a process takes about {} of it.", time(start))?;
    }
    Ok(())
}

/// The median time of a program that does nothing.
fn start_of_a_process() -> Option<f64> {
    let one = |_| {
        let began = Instant::now();
        let mut command = Command::new("true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).status().ok()?;
        Some(began.elapsed().as_secs_f64())
    };
    Sample::new((0..STARTS).filter_map(one)).ok().map(|times| times.median())
}
