//! Runs on other hosts through the system's ssh.
//!
//! Each host gets the program and the plan in a new folder under its temporary folder. A thread for each
//! host has it do one portion after another, and fetches the runs of each at once. So a host that
//! disappears takes one portion with it, which another host does. If this program disappears, the host
//! sees its standard input end, stops its work and removes the folder.

use super::quoted;
use anyhow::{Context as _, bail, ensure};
use schedlab_experiment::frozen::Frozen;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);

/// Whether all portions are done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    No,
    Stopped,
}

/// What is left to do, and by how many hosts it is being done.
struct Queue {
    left: VecDeque<usize>,
    under_way: usize,
}

/// A host under its name for ssh.
struct Host<'h> {
    name: &'h str,
    ssh: Vec<&'h str>,
    frozen: &'h Frozen,
    /// What it told: doctor's answer, a log, marks of its portions if each host does all.
    notes: PathBuf,
    stop: &'h (dyn Fn() -> bool + Sync),
}

/// Does the portions of a plan on hosts: they share them, or each does all.
pub(super) fn run(
    frozen: &Frozen,
    hosts: &[String],
    command: &str,
    binary: &Path,
    shares: bool,
) -> anyhow::Result<Whole> {
    let signals = schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let mut all = Vec::new();
    for name in hosts {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let folder: String = name.chars().map(plain).collect();
        ensure!(!name.is_empty() && !name.starts_with('-'), "invalid host '{name}'");
        let notes = frozen.folder.join("hosts").join(folder);
        fs::create_dir_all(&notes).with_context(|| notes.display().to_string())?;
        let ssh = command.split_whitespace().collect();
        all.push(Host { name, ssh, frozen, notes, stop: &stop });
    }
    let left = |is_done: &dyn Fn(usize) -> bool| {
        let left = (0..frozen.portions.len()).filter(|portion| !is_done(*portion));
        Mutex::new(Queue { left: left.collect(), under_way: 0 })
    };
    let shared = left(&|portion| frozen.is_done(portion));
    let own: Vec<Mutex<Queue>> =
        all.iter().map(|host| left(&|portion| host.mark(portion).exists())).collect();
    std::thread::scope(|scope| {
        for (host, own) in all.iter().zip(&own) {
            let queue = if shares { &shared } else { own };
            let life = move || {
                if let Err(error) = host.life(queue, binary, shares) {
                    let _ = writeln!(crate::output::stderr(), "schedlab: {}: {error:#}", host.name);
                }
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, life);
            started.map_err(|error| schedlab_sys::process::thread_refused(&error))?;
        }
        std::io::Result::Ok(())
    })
    .context("a thread for each host")?;
    let queues = if shares { std::slice::from_ref(&shared) } else { &own[..] };
    let is_empty = |queue: &Mutex<Queue>| locked(queue).left.is_empty();
    Ok(if queues.iter().all(is_empty) {
        Whole::Yes
    } else if stop() {
        Whole::Stopped
    } else {
        writeln!(crate::output::stderr(), "schedlab: portions are left; the same command goes on")?;
        Whole::No
    })
}

fn locked(queue: &Mutex<Queue>) -> std::sync::MutexGuard<'_, Queue> {
    queue.lock().expect("no thread panics while it holds the queue")
}

impl Host<'_> {
    /// Takes portions until none is left, the host fails, or the user stops.
    fn life(&self, queue: &Mutex<Queue>, binary: &Path, shares: bool) -> anyhow::Result<()> {
        if locked(queue).left.is_empty() {
            return Ok(());
        }
        let folder = self.prepare(binary)?;
        let done = self.portions(queue, &folder, shares);
        let removed = self.ask(&format!("rm -rf {}", quoted(&folder)));
        done?;
        removed.map(drop)
    }

    fn portions(&self, queue: &Mutex<Queue>, folder: &str, shares: bool) -> anyhow::Result<()> {
        while !(self.stop)() {
            let taken = {
                let mut queue = locked(queue);
                let taken = queue.left.pop_front();
                queue.under_way += usize::from(taken.is_some());
                // A portion under way may come back.
                if taken.is_none() && queue.under_way == 0 {
                    return Ok(());
                }
                taken
            };
            let Some(portion) = taken else {
                std::thread::sleep(LOOK);
                continue;
            };
            let done = self.portion(portion, folder, shares);
            let mut queue = locked(queue);
            queue.under_way -= 1;
            if !matches!(done, Ok(true)) {
                queue.left.push_front(portion);
                return done.map(drop);
            }
        }
        Ok(())
    }

    /// Does a portion there and fetches its runs; `false` where the user stopped it.
    fn portion(&self, portion: usize, folder: &str, shares: bool) -> anyhow::Result<bool> {
        let (number, of) = (portion + 1, self.frozen.portions.len());
        writeln!(crate::output::stderr(), "{}: portion {number} of {of}", self.name)?;
        let there = quoted(folder);
        // The end of the standard input says that nobody waits for the runs any more.
        let script = format!(
            "exec 3<&0\n\
             {there}/schedlab work {there}/frozen --shard {number}/{of} --name shard-{number} </dev/null 3<&- &\n\
             work=$!\n\
             {{ read -r end <&3; : >{there}/left; kill $work; }} >/dev/null 2>&1 &\n\
             look=$!\nwait $work\ncode=$?\n\
             if [ -e {there}/left ]; then rm -rf {there}; else kill $look 2>/dev/null; fi\nexit $code"
        );
        let log = self.log()?;
        let mut command = self.ssh(&script);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| self.ssh.join(" "))?;
        let open = child.stdin.take();
        let code = self.wait(&mut child)?;
        drop(open);
        let Some(code) = code else { return Ok(false) };
        ensure!(
            code == 0,
            "portion {number} failed with exit code {code}: see {}",
            self.log_path().display()
        );
        self.fetch(folder, portion)?;
        if shares {
            self.frozen.mark_done(portion, self.name)?;
        } else {
            fs::write(self.mark(portion), "").with_context(|| self.notes.display().to_string())?;
        }
        Ok(true)
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

    /// Copies the program and the plan, and asks doctor. Returns the folder.
    fn prepare(&self, binary: &Path) -> anyhow::Result<String> {
        let folder = self.ask("mktemp -d")?;
        let folder = folder.trim_end().to_owned();
        ensure!(
            folder.starts_with('/') && !folder.contains('\n'),
            "mktemp -d there printed no folder"
        );
        let there = quoted(&folder);
        let open = |path: &Path| File::open(path).with_context(|| path.display().to_string());
        self.send(&format!("cat >{there}/schedlab && chmod 755 {there}/schedlab"), open(binary)?)?;
        let told = self.ask(&format!("{there}/schedlab doctor --json")).context(
            "the program does not run there: give a static one with --binary (docs/machines.md)",
        )?;
        let path = self.notes.join("doctor.json");
        fs::write(&path, told).with_context(|| path.display().to_string())?;
        self.ask(&format!("mkdir {there}/frozen"))?;
        for name in ["experiment.toml", "frozen.json", "runs.jsonl"] {
            let file = open(&self.frozen.folder.join(name))?;
            self.send(&format!("cat >{there}/frozen/{name}"), file)?;
        }
        Ok(folder)
    }

    /// Fetches the runs of a portion, and removes them there.
    fn fetch(&self, folder: &str, portion: usize) -> anyhow::Result<()> {
        let incoming = self.notes.join(".incoming");
        let _ = fs::remove_dir_all(&incoming);
        fs::create_dir_all(&incoming).with_context(|| incoming.display().to_string())?;
        let there = quoted(folder);
        let mut command = self.ssh(&format!("tar -cf - -C {there}/frozen workers"));
        let mut sends =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(self.log()?).spawn()?;
        let stream = sends.stdout.take().context("tar's output")?;
        let mut unpack = Command::new("tar");
        unpack.args(["-xf", "-", "--no-same-owner", "-C"]).arg(&incoming);
        let unpacked = unpack.stdin(stream).stderr(self.log()?).status().context("tar")?;
        ensure!(
            sends.wait()?.success() && unpacked.success(),
            "fetching the runs failed: see {}",
            self.log_path().display()
        );
        let name = self.notes.file_name().unwrap_or_default().to_string_lossy();
        let target = self.frozen.folder.join("workers").join(format!("{name}-{}", portion + 1));
        let from = incoming.join("workers").join(format!("shard-{}", portion + 1));
        let _ = fs::remove_dir_all(&target);
        fs::rename(&from, &target).with_context(|| from.display().to_string())?;
        let _ = fs::remove_dir_all(&incoming);
        self.ask(&format!("rm -rf {there}/frozen/workers")).map(drop)
    }

    /// What a script prints there.
    fn ask(&self, script: &str) -> anyhow::Result<String> {
        let out =
            self.ssh(script).stdin(Stdio::null()).output().with_context(|| self.ssh.join(" "))?;
        let said = String::from_utf8_lossy(&out.stderr);
        if !out.status.success() {
            bail!("{}", said.trim());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Runs a script there with a file as its standard input.
    fn send(&self, script: &str, file: File) -> anyhow::Result<()> {
        let out = self.ssh(script).stdin(file).output().with_context(|| self.ssh.join(" "))?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{}", said.trim());
        Ok(())
    }

    fn ssh(&self, script: &str) -> Command {
        let mut command = Command::new(self.ssh[0]);
        // Any shell that the user has there.
        let script = format!("sh -c {}", quoted(script));
        command.args(&self.ssh[1..]).args(["-o", "BatchMode=yes", self.name, &script]);
        command
    }

    fn log_path(&self) -> PathBuf {
        self.notes.join("log")
    }

    fn log(&self) -> anyhow::Result<File> {
        let path = self.log_path();
        let file = File::options().create(true).append(true).open(&path);
        file.with_context(|| path.display().to_string())
    }

    fn mark(&self, portion: usize) -> PathBuf {
        self.notes.join(format!("done-{}", portion + 1))
    }
}
