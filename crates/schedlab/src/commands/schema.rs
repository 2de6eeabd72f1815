//! `schedlab schema`: the JSON schemas of what `--json` prints.

use super::UsageError;
use crate::json;
use std::io::Write as _;
use std::process::ExitCode;

/// Options of `schedlab schema`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command with dashes, such as trace-latency; without it, list the ids
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let all = super::documents();
    let mut out = crate::output::stdout();
    let Some(name) = &args.name else {
        for schema in &all {
            writeln!(out, "{}", schema.id)?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let wanted = |schema: &&json::Schema| schema.name() == name || schema.id == name;
    let schema = all.iter().find(wanted).ok_or_else(|| {
        UsageError(format!("unknown schema '{name}': `schedlab schema` lists them"))
    })?;
    out.write_all(schema.text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
