//! Runs on other hosts through the system's ssh.
//!
//! A thread for each host takes some of the runs that are left, sends them as a plan of their own, and fetches what was
//! done. So a host that disappears takes these runs with it, which another host does.

use super::{ToFreeze, UsageError, quoted};
use crate::commands::result_file::save;
use crate::commands::ssh::{RemoteHost, Way, host};
use anyhow::{Context as _, ensure};
use schedlab_experiment::frozen::Frozen;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);
/// Each host takes its part of the runs that are left in this many pieces: a lost host loses one of them.
const PIECES: usize = 4;
/// Simulated runs for which a connection is worth its time.
const TOGETHER: usize = 32;

/// Options of `schedlab cluster ssh`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab cluster ssh --hosts a,b,root@c x.toml    copy the program, do the runs there, report

Ctrl-C or a lost host lose no finished part: the same command goes on.")]
pub(super) struct Args {
    #[command(flatten)]
    plan: ToFreeze,
    /// Do the runs on these hosts
    #[arg(long, value_name = "HOST,..", value_delimiter = ',', required = true)]
    hosts: Vec<String>,
    /// Program that does the runs; a static one suits hosts with another C library [default: this one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Command that calls ssh, with options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    ssh_command: String,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    check(&args.hosts, &args.ssh_command)?;
    let planned = args.plan.read()?;
    let frozen = planned.freeze()?;
    let binary = match args.binary {
        Some(binary) => binary,
        None => schedlab_sys::process::this_program().context("this program's file")?,
    };
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let way = Way { ssh: &args.ssh_command, binary: Some(&binary), ends_with_ctrl_c: true };
    let is_whole = perform(&frozen, &args.hosts, &way, &stop)?;
    let told = super::gather(&frozen, std::slice::from_ref(&planned.folder), &planned.results)?;
    Ok(match is_whole && told.is_whole() {
        true => ExitCode::SUCCESS,
        false if stop() => ExitCode::from(crate::commands::run::EXIT_INTERRUPTED),
        false => ExitCode::FAILURE,
    })
}

/// Refuses hosts before anything is written.
fn check(hosts: &[String], command: &str) -> Result<(), UsageError> {
    let mut seen = BTreeSet::new();
    for name in hosts {
        host(name).map_err(UsageError)?;
        if !seen.insert(name) {
            return Err(UsageError(format!("host '{}' is given twice", name.escape_default())));
        }
    }
    match command.split_whitespace().next() {
        Some(_) => Ok(()),
        None => Err(UsageError("--ssh-command: give a command, such as ssh".to_owned())),
    }
}

/// A host's name as a name of a file, unlike that of any other host.
fn file_name(host: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let mut name = String::new();
    for (at, letter) in host.chars().enumerate() {
        match plain(letter) && (at > 0 || letter != '.') {
            true => name.push(letter),
            false => {
                let _ = write!(name, "_{:x}_", u32::from(letter));
            }
        }
    }
    name
}

/// The units of runs that are left, and how many hosts are at work on others.
struct Queue {
    left: Mutex<(Vec<Vec<usize>>, usize)>,
    /// The least number of units that a host takes.
    least: usize,
    hosts: usize,
}

impl Queue {
    fn of(units: Vec<Vec<usize>>, least: usize, hosts: usize) -> Self {
        Self { left: Mutex::new((units, 0)), least, hosts }
    }

    fn locked(&self) -> MutexGuard<'_, (Vec<Vec<usize>>, usize)> {
        self.left.lock().expect("no thread panics while it holds the queue")
    }

    /// Some units; `None` when all are done. Units that another host has may come back: none until then.
    fn take(&self) -> Option<Vec<Vec<usize>>> {
        let mut queue = self.locked();
        let (left, at_work) = &mut *queue;
        if left.is_empty() && *at_work == 0 {
            return None;
        }
        let part = (left.len() / (PIECES * self.hosts)).max(self.least).min(left.len());
        *at_work += usize::from(part > 0);
        Some(left.drain(..part).collect())
    }

    /// A host is done with what it took; what it could not do comes back.
    fn put_back(&self, units: Vec<Vec<usize>>) {
        let mut queue = self.locked();
        queue.0.extend(units);
        queue.1 -= 1;
    }
}

/// A host under its name for ssh.
struct Host<'h> {
    name: &'h str,
    way: &'h Way<'h>,
    frozen: &'h Frozen,
    /// The name of its folders here.
    file_name: String,
    /// What it told: doctor's answer, and a log.
    notes: PathBuf,
    stop: &'h (dyn Fn() -> bool + Sync),
}

/// Does the runs of a plan on hosts: they share them, or each does all. Whether all runs were done.
fn perform(
    frozen: &Frozen,
    hosts: &[String],
    way: &Way<'_>,
    stop: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<bool> {
    let host = |name| -> anyhow::Result<Host<'_>> {
        let file_name = file_name(name);
        let notes = frozen.folder.join("hosts").join(&file_name);
        fs::create_dir_all(&notes).with_context(|| notes.display().to_string())?;
        Ok(Host { name, way, frozen, file_name, notes, stop })
    };
    let hosts: Vec<Host<'_>> = hosts.iter().map(|name| host(name)).collect::<Result<_, _>>()?;
    let units = frozen.plan.units();
    let least = if frozen.experiment.measures_its_host() { 1 } else { TOGETHER };
    let queues: Vec<Queue> = match frozen.experiment.may_be_shared() {
        true => vec![Queue::of(frozen.unfinished(units, &frozen.workers()?)?, least, hosts.len())],
        false => {
            let own = |host: &Host<'_>| frozen.unfinished(units.clone(), &[host.worker()]);
            let own: Result<Vec<_>, _> = hosts.iter().map(own).collect();
            own?.into_iter().map(|units| Queue::of(units, least, 1)).collect()
        }
    };
    std::thread::scope(|scope| {
        for (at, host) in hosts.iter().enumerate() {
            let queue = &queues[at % queues.len()];
            let life = move || {
                if let Err(error) = host.life(queue) {
                    let _ = writeln!(crate::output::stderr(), "schedlab: {}: {error:#}", host.name);
                }
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, life);
            started.map_err(|error| schedlab_sys::process::thread_refused(&error))?;
        }
        std::io::Result::Ok(())
    })
    .context("a thread for each host")?;
    Ok(queues.iter().all(|queue| queue.locked().0.is_empty()))
}

impl Host<'_> {
    /// The folder of its runs.
    fn worker(&self) -> PathBuf {
        self.frozen.folder.join("workers").join(&self.file_name)
    }

    /// Takes runs until none is left, the host fails, or the user stops.
    fn life(&self, queue: &Queue) -> anyhow::Result<()> {
        if queue.locked().0.is_empty() {
            return Ok(());
        }
        let remote = RemoteHost::of(self.way, self.name)?;
        let told = remote.send(&remote.script(&["doctor", "--json"]), Stdio::null())?;
        save(&self.notes.join("doctor.json"), told)?;
        self.parts(queue, &remote)
    }

    fn parts(&self, queue: &Queue, remote: &RemoteHost) -> anyhow::Result<()> {
        while !(self.stop)() {
            let Some(units) = queue.take() else { break };
            if units.is_empty() {
                std::thread::sleep(LOOK);
                continue;
            }
            let done = self.part(&units, remote);
            let is_done = matches!(done, Ok(true));
            queue.put_back(if is_done { Vec::new() } else { units });
            if !is_done {
                return done.map(drop);
            }
        }
        Ok(())
    }

    /// Does some runs there and fetches them; `false` where the user stopped it.
    fn part(&self, units: &[Vec<usize>], remote: &RemoteHost) -> anyhow::Result<bool> {
        let runs: usize = units.iter().map(Vec::len).sum();
        writeln!(crate::output::stderr(), "{}: {runs} runs", self.name)?;
        self.send_plan(units, remote)?;
        let work = remote.script(&["cluster", "work", "frozen", "--name", "here"]);
        let script = format!(
            "sh -c {} >/dev/null; code=$?; tar -cf - -C {}/frozen/workers/here runs; exit $code",
            quoted(&work),
            remote.folder()
        );
        let incoming = self.empty("incoming")?;
        let (mut child, stream) = remote.piped(&script, self.log()?.into())?;
        let mut unpack = Command::new("tar");
        unpack.args(["-xf", "-", "--no-same-owner", "-C"]).arg(&incoming);
        let mut unpack = unpack.stdin(stream).stderr(self.log()?).spawn().context("tar")?;
        let code = self.wait(&mut child);
        let unpacked = unpack.wait()?;
        let Some(code) = code? else { return Ok(false) };
        // With 1, some runs failed; the others are there.
        if code <= 1 && unpacked.success() && incoming.join("runs").is_dir() {
            self.keep(&incoming)?;
        }
        let log = self.log_path();
        ensure!(
            code == 0 && unpacked.success(),
            "{runs} runs failed with exit code {code}: see {}",
            log.display()
        );
        Ok(true)
    }

    /// Sends some runs as a plan of their own.
    fn send_plan(&self, units: &[Vec<usize>], remote: &RemoteHost) -> anyhow::Result<()> {
        let part = self.empty("part")?;
        self.frozen.write_part(units, &part)?;
        let mut pack = Command::new("tar");
        pack.args(["-cf", "-", "-C"]).arg(&part).arg(".").stdout(Stdio::piped());
        let mut pack = pack.stderr(self.log()?).spawn().context("tar")?;
        let stream = pack.stdout.take().context("the output of tar")?;
        let there = remote.folder() + "/frozen";
        let script = format!("rm -rf {there} && mkdir {there} && tar -xf - -C {there}");
        remote.send(&script, stream.into())?;
        ensure!(pack.wait()?.success(), "tar failed: see {}", self.log_path().display());
        Ok(())
    }

    /// Puts fetched runs beside those that the host did before.
    fn keep(&self, incoming: &Path) -> anyhow::Result<()> {
        let target = self.worker().join("runs");
        fs::create_dir_all(&target).with_context(|| target.display().to_string())?;
        let from = incoming.join("runs");
        for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
            let entry = entry?;
            let to = target.join(entry.file_name());
            if !entry.file_name().to_string_lossy().starts_with('.') && !to.exists() {
                fs::rename(entry.path(), &to).with_context(|| to.display().to_string())?;
            }
        }
        Ok(())
    }

    /// An empty folder of this name beside what the host told.
    fn empty(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.notes.join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// The exit code; `None` where the user stopped it.
    fn wait(&self, child: &mut Child) -> anyhow::Result<Option<i32>> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((!(self.stop)()).then(|| status.code().unwrap_or(255)));
            }
            if (self.stop)() {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn log_path(&self) -> PathBuf {
        self.notes.join("log")
    }

    fn log(&self) -> anyhow::Result<File> {
        let path = self.log_path();
        let file = File::options().create(true).append(true).open(&path);
        file.with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_folders_of_their_own() {
        let hosts = ["a.b", "a-b", "a_b", "a@b", "a_40_b", "..", ".", "::1", "a/b", "é"];
        let names: BTreeSet<String> = hosts.into_iter().map(file_name).collect();
        assert_eq!(names.len(), hosts.len(), "{names:?}");
        let fits = |name: &String| !name.starts_with('.') && !name.contains('/') && name.is_ascii();
        assert!(names.iter().all(fits), "{names:?}");
        assert_eq!(file_name("a.b"), "a.b");
    }

    #[test]
    fn hosts_that_ssh_takes_for_options_and_hosts_that_are_given_twice_are_refused() {
        let told = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
            check(&hosts, "ssh").map_err(|error| error.0)
        };
        assert_eq!(told(&["a.b", "root@a-b"]), Ok(()));
        assert!(told(&["a", "-oProxyCommand=x"]).unwrap_err().contains("invalid host"));
        assert!(told(&["a", ""]).unwrap_err().contains("invalid host ''"));
        assert_eq!(told(&["a", "b", "a"]).unwrap_err(), "host 'a' is given twice");
        assert!(check(&["a".to_owned()], " ").is_err(), "no command");
    }

    #[test]
    fn units_of_a_lost_host_come_back_before_the_queue_ends() {
        let queue = Queue::of((0..10).map(|run| vec![run]).collect(), 4, 2);
        let first = queue.take().unwrap();
        let second = queue.take().unwrap();
        let third = queue.take().unwrap();
        assert_eq!([first.len(), second.len(), third.len()], [4, 4, 2]);
        assert_eq!(queue.take(), Some(Vec::new()), "others are at work");
        queue.put_back(second);
        assert_eq!(queue.take().unwrap().len(), 4);
        (0..3).for_each(|_| queue.put_back(Vec::new()));
        assert_eq!(queue.take(), None);
    }
}
