//! `record --ssh`: the recording is made on another host, and its trace is written here.

use super::{Args, note, refuse, shown, takes_a_trace};
use crate::commands::ssh::{Printed, typed};
use anyhow::Context as _;
use schedlab_model::Bytes;
use schedlab_sys::signal;
use schedlab_trace::NewFile;
use std::process::ExitCode;

/// Records there; its exit code, or that of the command that was recorded, is ours.
pub(super) fn run(args: &Args, host: &str) -> anyhow::Result<ExitCode> {
    let other = [
        (args.json, "--json"),
        (args.max.is_some(), "--max"),
        (args.salvage.is_some(), "--salvage"),
        (!args.request_list.is_empty(), "--request-list"),
    ];
    refuse(&other, "--ssh", "run schedlab there")?;
    takes_a_trace(&args.output)?;
    let cannot = || format!("cannot write {}", args.output.display());
    let file = NewFile::create(&args.output).with_context(cannot)?;
    let mut words = typed(&["-o", "--output"])?;
    words.splice(1..1, ["-o", "-"].map(str::to_owned));
    let mut remote = args.ssh.reach(host)?;
    let Printed { file, bytes, code } = remote.print(&words, file, signal::catch()?)?;
    if bytes > 0 {
        file.keep().with_context(cannot)?;
        note(&format!("{}: {} from {host}", shown(&args.output), Bytes(bytes)));
    }
    Ok(ExitCode::from(code))
}
