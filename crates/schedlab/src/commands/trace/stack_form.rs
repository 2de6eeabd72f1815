//! How stacks with times are printed: as a table, folded, or for pprof.

use super::{form, pprof};
use crate::commands::result_file::save;
use crate::output::folded_table;
use schedlab_model::{Nanos, Warning};
use schedlab_timeline::FoldedStack;
use std::io::Write as _;
use std::path::PathBuf;

/// Options for it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct StackForm {
    /// Print a line for each stack, outermost function first, with its microseconds; with --minus, with those of
    /// a second of each trace
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(super) folded: bool,
    /// Write the stacks to FILE for pprof (`go tool pprof FILE`), and print no table
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "csv", "folded", "minus"])]
    pprof: Option<PathBuf>,
    /// Print at most N rows, longest time first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(super) top: usize,
}

impl StackForm {
    /// Writes stacks `of` a kind of time in a form for tools. False if a table was asked for.
    pub(super) fn write(
        &self,
        of: &str,
        stacks: impl FnOnce() -> Vec<FoldedStack>,
        observed: Nanos,
    ) -> anyhow::Result<bool> {
        if let Some(path) = &self.pprof {
            save(path, &pprof::profile(of, &stacks(), observed.0)?)?;
            return Ok(true);
        }
        if self.folded {
            let mut out = crate::output::stdout();
            for stack in stacks() {
                let micros = micros(stack.time);
                if micros > 0 {
                    writeln!(out, "{} {micros}", stack.frames.join(";"))?;
                }
            }
        }
        Ok(self.folded)
    }
}

/// A table of stacks in lines of `room` characters: a long stack goes on below.
pub(super) fn folded_stacks(table: &str, room: usize) -> String {
    folded_table(table, "in (called by)", room)
}

/// Whole microseconds: a sleep of less is none for tools that read whole numbers.
pub(super) const fn micros(time: Nanos) -> u64 {
    (time.0 + 500) / 1_000
}

/// What a table would say around itself, on stderr.
pub(super) fn notes(warnings: &[Warning], headline: &str) -> std::io::Result<()> {
    form::print_notes(warnings);
    writeln!(crate::output::stderr(), "schedlab: {headline}")
}
