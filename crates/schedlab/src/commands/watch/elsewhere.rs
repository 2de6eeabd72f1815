//! `watch --ssh`: it runs on another host, and the traces that it wrote there are fetched at the end.

use super::{Args, is_view};
use crate::commands::UsageError;
use crate::commands::record::Files;
use crate::commands::ssh::{RemoteHost, typed};
use anyhow::{Context as _, ensure};
use schedlab_sys::signal;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// What `--keep` writes there.
const KEPT: &str = "kept.dat";
/// ssh itself failed.
const SSH_FAILED: i32 = 255;

/// Watches there; its exit code is ours.
pub(super) fn run(args: &Args, host: &str) -> anyhow::Result<ExitCode> {
    if args.listen.is_some() {
        let what = "--listen and --ssh do not go together: run schedlab there as a service (docs/watch.md)";
        return Err(UsageError(what.into()).into());
    }
    let name = args.output.file_name().and_then(|name| name.to_str());
    let name = name.context("-o names no file")?;
    let mut words = typed(&["-o", "--output", "--keep"])?;
    words.splice(1..1, ["--output", name].map(str::to_owned));
    if args.keep.is_some() {
        words.splice(1..1, ["--keep", KEPT].map(str::to_owned));
    }
    let is_view = is_view(args);
    let mut remote = args.ssh.reach(host)?;
    let status = remote.run(&words, is_view, signal::catch()?)?;
    let code = status.code().unwrap_or(SSH_FAILED);
    ensure!(code != SSH_FAILED, "{host}: the connection broke: traces that were there are gone");
    if is_view || args.keep.is_some() || !args.snapshot_if.is_empty() {
        fetch(args, name, &remote)?;
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Fetches the traces that were written there. Numbers begin anew there, and go on here.
fn fetch(args: &Args, name: &str, remote: &RemoteHost) -> anyhow::Result<()> {
    let there = Files::of(Path::new(name))?;
    let here = Files::of(&args.output)?;
    for name in remote.names()? {
        let kept = args.keep.as_ref().filter(|_| name == KEPT);
        let to = match kept {
            Some(keep) => keep.clone(),
            None if there.is_one(&name) => here.next()?.0,
            None => continue,
        };
        remote.fetch(&name, &to)?;
        writeln!(crate::output::stderr(), "schedlab: {}: {name} from there", to.display())?;
    }
    Ok(())
}
