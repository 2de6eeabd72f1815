//! `schedlab trace`: questions to a trace, a file each.

mod convert;
mod info;

use clap::Subcommand;
use std::process::ExitCode;

/// Options of `schedlab trace`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// What the file is and what it holds: events per kind and CPU, losses, clock
    Info(info::Args),
    /// From any format to any other; says what the target can't hold
    Convert(convert::Args),
}

/// Runs it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.question {
        Question::Info(args) => info::run(args),
        Question::Convert(args) => convert::run(args),
    }
}
