//! `record --snapshot --max N`: one snapshot after the other, the newest kept. It runs as a service: it ends by SIGTERM or
//! Ctrl-C, goes on where an earlier run stopped, and removes what a killed run left.
//!
//! While a snapshot is written, nothing is watched. That time is reported.

use super::{LOOK, finish_with, marks_of, note, remove_marks};
use anyhow::Context as _;
use schedlab_model::Nanos;
use schedlab_record::{Ended, Options, Recorder};
use schedlab_sys::{clock, process, signal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Snapshots until a signal, or until `options.time` is over. Each is a file beside `output`.
pub(super) fn run(
    options: &Options,
    output: &Path,
    max: u32,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let signals = signal::catch()?;
    let files = Files::of(output)?;
    let until = options.time.map(|time| clock::monotonic() + time);
    let is_over = || until.is_some_and(|until| clock::monotonic() >= until);
    files.remove_what_was_killed();
    let marks = marks_of(options, output);
    note("watching; end with Ctrl-C");
    let mut blind: Option<Nanos> = None;
    loop {
        let recorder = Recorder::start_with(options, &files.spool(), marks.as_deref())?;
        if let Some(since) = blind {
            note(&format!("nothing was watched for {}", clock::monotonic() - since));
        }
        while signals.caught().is_none() && !is_over() && recorder.ended().is_none() {
            process::poll(&[signals.fd()], Some(LOOK))?;
        }
        let ended = recorder.ended();
        let dir = recorder.stop()?;
        if !matches!(ended, Some(Ended::Spike(_) | Ended::Overrun(_))) {
            std::fs::remove_dir_all(&dir)?;
            remove_marks(marks.as_deref());
            return Ok(ExitCode::SUCCESS);
        }
        blind = Some(clock::monotonic());
        if let Some(ended) = ended {
            note(&ended.to_string());
        }
        let (file, _) = files.next()?;
        finish_with(&dir, &file, marks.as_deref(), json)
            .map(drop)
            .with_context(|| file.display().to_string())?;
        files.prune(max)?;
    }
}

/// The numbered files of a run: `late-000001.dat` for `late.dat`.
#[derive(Clone)]
pub(crate) struct Files {
    dir: PathBuf,
    stem: String,
    ending: String,
}

impl Files {
    pub(crate) fn of(output: &Path) -> anyhow::Result<Self> {
        let text =
            |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let stem = text(output.file_stem()).context("-o names no file")?;
        let ending = text(output.extension());
        let ending = ending.map_or_else(String::new, |ending| format!(".{ending}"));
        let dir = output.parent().filter(|dir| !dir.as_os_str().is_empty());
        Ok(Self { dir: dir.unwrap_or(Path::new(".")).to_owned(), stem, ending })
    }

    fn file(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}-{number:06}{}", self.stem, self.ending))
    }

    /// Numbers of the names that are there and pass, ascending.
    fn numbers(&self, number: impl Fn(&str) -> Option<u64>) -> std::io::Result<Vec<u64>> {
        let entries = std::fs::read_dir(&self.dir)?.flatten();
        let mut numbers: Vec<u64> =
            entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn number(&self, name: &str) -> Option<u64> {
        let digits =
            name.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.ending)?;
        let is_ours = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_ours.then(|| digits.parse().ok()).flatten()
    }

    /// Whether a file of this name is one of them.
    pub(crate) fn is_one(&self, name: &str) -> bool {
        self.number(name).is_some()
    }

    /// A file that nobody has, and the folder in which its events can wait. The number is taken once that folder is
    /// there, so others can be asked for while the file is made.
    pub(crate) fn next(&self) -> std::io::Result<(PathBuf, PathBuf)> {
        let taken = |name: &str| self.number(owner_of(name).map_or(name, |(of, _)| of));
        let file = self.file(self.numbers(taken)?.last().copied().unwrap_or(0) + 1);
        let spool = owned(&file);
        Ok((file, spool))
    }

    /// Removes all but the newest.
    pub(crate) fn prune(&self, max: u32) -> std::io::Result<()> {
        let numbers = self.numbers(|name| self.number(name))?;
        let old = numbers.len().saturating_sub(max as usize);
        numbers[..old].iter().try_for_each(|number| std::fs::remove_file(self.file(*number)))
    }

    /// Where a recording grows that has no number yet.
    fn spool(&self) -> PathBuf {
        owned(&self.dir.join(format!("{}{}", self.stem, self.ending)))
    }

    /// A run that was killed leaves its spools.
    pub(crate) fn remove_what_was_killed(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        let own = format!("{}{}", self.stem, self.ending);
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| {
                let (file, pid) = owner_of(name)?;
                (file == own || self.is_one(file)).then_some(pid)
            });
            let is_dead = owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
            if is_dead && std::fs::remove_dir_all(entry.path()).is_ok() {
                let path = entry.path();
                note(&format!("removed {}, which a killed recording left", path.display()));
            }
        }
    }
}

/// The spool of a file. Its name holds the pid, which tells that a spool's process is dead.
fn owned(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.spool", std::process::id()));
    name.into()
}

/// The name of a spool's file, and the process that writes it.
fn owner_of(name: &str) -> Option<(&str, u32)> {
    let (file, pid) = name.strip_suffix(".spool")?.rsplit_once('.')?;
    Some((file, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_numbered_on_and_the_oldest_give_way() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(&dir.path().join("late.dat")).unwrap();
        let next = || files.next().unwrap().0;
        assert_eq!(next(), dir.path().join("late-000001.dat"));
        let ours = ["late-000003.dat", "late-000012.dat", "late-000004.dat"];
        for name in ours.iter().chain(&["late-7.dat", "late.dat"]) {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        assert_eq!(next(), dir.path().join("late-000013.dat"));
        files.prune(2).unwrap();
        assert_eq!(files.numbers(|name| files.number(name)).unwrap(), [4, 12]);
        assert!(dir.path().join("late-7.dat").exists(), "what is not ours stays");
    }

    #[test]
    fn a_file_that_is_being_made_keeps_its_number_and_room_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(&dir.path().join("late.dat")).unwrap();
        let (first, spool) = files.next().unwrap();
        std::fs::create_dir(&spool).unwrap();
        let (second, other) = files.next().unwrap();
        assert_eq!(second, dir.path().join("late-000002.dat"));
        assert!(first != second && spool != other);
        // One that is not finished is no file yet, and takes no other's place.
        std::fs::write(&second, "x").unwrap();
        files.prune(1).unwrap();
        assert!(second.exists() && spool.exists());
    }

    #[test]
    fn the_spool_of_a_dead_process_is_removed_and_that_of_a_living_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(&dir.path().join("late.dat")).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = ["late.dat", "late-000003.dat"]
            .map(|file| dir.path().join(format!("{file}.{}.spool", child.id())));
        let others = dir.path().join(format!("late-3.dat.{}.spool", child.id()));
        child.wait().unwrap();
        let (_, own) = files.next().unwrap();
        for spool in dead.iter().chain([&others, &own, &files.spool()]) {
            std::fs::create_dir(spool).unwrap();
        }
        files.remove_what_was_killed();
        assert!(dead.iter().all(|spool| !spool.exists()));
        assert!([own, others, files.spool()].iter().all(|spool| spool.exists()));
    }
}
