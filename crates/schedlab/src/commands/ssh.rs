//! Work on another host through the system's ssh: the program in a private folder there, and what it made back here.
//!
//! One connection keeps the folder. A shell at its other end reads lines: each asks the command that runs to stop. When
//! the lines end, because this process has ended or the connection is broken, the shell ends the command and removes the
//! folder. Each command has a connection of its own.

use anyhow::{Context as _, bail, ensure};
use schedlab_model::Nanos;
use schedlab_sys::{process, signal};
use schedlab_trace::NewFile;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// The host to work on.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Ssh {
    /// Run it on HOST, with the same version there, or else with a copy of this program, removed at the end
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub(crate) ssh: Option<String>,
    /// Command that calls ssh, with options
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "ssh")]
    ssh_command: String,
    /// Program to put there; a static one suits hosts with another C library [default: this one]
    #[arg(long, value_name = "FILE", requires = "ssh")]
    binary: Option<PathBuf>,
}

/// How often a command there is looked at.
const LOOK: Nanos = Nanos::from_millis(50);
/// What a host says of its machine is short.
const LINE_MAX: u64 = 8 << 10;
/// Follows what a command printed: its exit code, in three digits. Without it, the connection broke.
const END: &str = "\nschedlab exit ";
const END_LENGTH: usize = END.len() + 4;

/// How a host is reached, and what goes there.
pub(crate) struct Way<'w> {
    /// The command that calls ssh, with options.
    pub(crate) ssh: &'w str,
    /// The program to put there; without one this program goes there, unless its version is there.
    pub(crate) binary: Option<&'w Path>,
    /// Whether the connection that keeps the folder ends with Ctrl-C, as all of the terminal's group do.
    pub(crate) ends_with_ctrl_c: bool,
}

impl Ssh {
    /// Goes to the host. Ctrl-C is for this process alone: it asks the program there to stop.
    pub(crate) fn reach(&self, host: &str) -> anyhow::Result<RemoteHost> {
        let binary = self.binary.as_deref();
        let way = Way { ssh: &self.ssh_command, binary, ends_with_ctrl_c: false };
        RemoteHost::of(&way, host).with_context(|| host.to_owned())
    }
}

/// A name that ssh takes for a host.
pub(crate) fn host(name: &str) -> Result<String, String> {
    match name.is_empty() || name.starts_with('-') {
        true => Err(format!("invalid host '{}': use a name that ssh knows", name.escape_default())),
        false => Ok(name.to_owned()),
    }
}

pub(crate) use schedlab_model::shell_word as quoted;

/// A shell's script on a host; `words` call ssh, which ends with this process: then the host ends what runs there.
fn there<S: AsRef<OsStr>>(words: &[S], host: &str, script: &str) -> Command {
    let mut command = Command::new(words.first().map_or(OsStr::new("ssh"), AsRef::as_ref));
    // Any shell that the user has there.
    let script = format!("sh -c {}", quoted(script));
    let rest = words.get(1..).unwrap_or_default();
    command.args(rest).args(["-o", "BatchMode=yes", host, &script]);
    process::die_with_parent(&mut command);
    command
}

/// What was typed, for the program there: without these options, each of which has a value.
pub(crate) fn typed(without: &[&str]) -> anyhow::Result<Vec<String>> {
    let words = std::env::args_os().skip(1).map(OsString::into_string);
    let words: Result<Vec<String>, _> = words.collect();
    let words = words.ok().context("a word of the command line is not text")?;
    Ok(rest(words, &[without, &["--ssh", "--ssh-command", "--binary"]].concat()))
}

fn rest(words: Vec<String>, without: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        }
        let is_joined = |name: &str| {
            let rest = word.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('=') || (name.len() == 2 && !rest.is_empty()))
        };
        if without.contains(&word.as_str()) {
            words.next();
        } else if !without.iter().any(|name| is_joined(name)) {
            kept.push(word);
        }
    }
    kept
}

/// A host with the program in its folder.
pub(crate) struct RemoteHost {
    words: Vec<String>,
    host: String,
    keeper: Child,
    /// Its end lets the host remove the folder.
    lines: Option<ChildStdin>,
    folder: String,
    program: String,
}

/// What a command there printed for a file.
pub(crate) struct Printed {
    pub(crate) file: NewFile,
    pub(crate) bytes: u64,
    pub(crate) code: u8,
}

impl RemoteHost {
    /// Goes to the host, and puts the program there if the same version is not. Errors do not name the host.
    pub(crate) fn of(way: &Way<'_>, host: &str) -> anyhow::Result<Self> {
        let mut words: Vec<String> = way.ssh.split_whitespace().map(str::to_owned).collect();
        ensure!(!words.is_empty(), "--ssh-command: give a command, such as ssh");
        // A connection that is dead ends in a minute.
        let alive = ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"];
        words.extend(alive.map(str::to_owned));
        let binary = match way.binary {
            Some(binary) => binary.to_owned(),
            None => process::this_program().context("this program's file")?,
        };
        let file = File::open(&binary).with_context(|| binary.display().to_string())?;
        let version = match way.binary {
            Some(_) => String::new(),
            None => format!("schedlab {}", env!("CARGO_PKG_VERSION")),
        };
        let script = keeper(file.metadata()?.len(), &version);
        let mut command = there(&words, host, &script);
        if !way.ends_with_ctrl_c {
            command.process_group(0);
        }
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().with_context(|| words.join(" "))?;
        let lines = keeper.stdin.take();
        let mut said = BufReader::new(keeper.stdout.take().context("the output of ssh")?);
        let folder = String::new();
        let program = String::new();
        let mut remote = Self { words, host: host.to_owned(), keeper, lines, folder, program };
        remote.arrive(&mut said, file, way.binary.is_some())?;
        Ok(remote)
    }

    fn arrive(
        &mut self,
        said: &mut impl io::BufRead,
        mut file: File,
        is_chosen: bool,
    ) -> anyhow::Result<()> {
        let first = line(said)?.context("ssh did not get there")?;
        let mut parts = first.splitn(3, ' ');
        let there = parts.next().unwrap_or_default();
        let machine = parts.next().unwrap_or_default();
        self.folder = parts.next().unwrap_or_default().to_owned();
        ensure!(self.folder.starts_with('/'), "mktemp -d there printed no folder");
        self.program = "schedlab".to_owned();
        if there == "need" {
            let here = std::env::consts::ARCH;
            if machine != here && !is_chosen {
                let machine = machine.escape_debug();
                bail!("it has {machine} and this program is for {here}: give one with --binary");
            }
            let lines = self.lines.as_mut().context("the input of ssh")?;
            // A broken connection says why by itself.
            let _ = io::copy(&mut file, lines).and_then(|_| lines.flush());
            self.program = format!("{}/schedlab", self.folder);
        }
        line(said)?.context(
            "the program does not run there: give a static one with --binary (docs/machines.md)",
        )?;
        Ok(())
    }

    /// Starts a script there whose output is read here.
    pub(crate) fn piped(
        &self,
        script: &str,
        stderr: Stdio,
    ) -> anyhow::Result<(Child, ChildStdout)> {
        let mut command = there(&self.words, &self.host, script);
        command.stdin(Stdio::null()).stderr(stderr);
        let command = command.stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| self.words.join(" "))?;
        let from = child.stdout.take().context("the output of ssh")?;
        Ok((child, from))
    }

    /// Runs a script there with this as its standard input; what it prints.
    pub(crate) fn send(&self, script: &str, input: Stdio) -> anyhow::Result<String> {
        let mut command = there(&self.words, &self.host, script);
        let output = command.stdin(input).output().with_context(|| self.words.join(" "))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", said.trim().escape_debug());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The folder there, as a word of a shell.
    pub(crate) fn folder(&self) -> String {
        quoted(&self.folder)
    }

    /// The script that runs the program in the folder.
    pub(crate) fn script(&self, words: &[impl AsRef<str>]) -> String {
        let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
        let folder = self.folder();
        let program = quoted(&self.program);
        let colours = std::env::var("NO_COLOR").unwrap_or_default();
        format!(
            "cd {folder} && echo $$ >pid && exec env TMPDIR={folder} NO_COLOR={} {program} {}",
            quoted(&colours),
            words.join(" ")
        )
    }

    /// Runs the program with the streams of this one; with a terminal, if `is_view`.
    pub(crate) fn run(
        &mut self,
        words: &[String],
        is_view: bool,
        signals: signal::Signals,
    ) -> anyhow::Result<ExitStatus> {
        let mut ssh = self.words.clone();
        if is_view {
            ssh.push("-t".to_owned());
        }
        let mut command = there(&ssh, &self.host, &self.script(words));
        if !is_view {
            command.stdin(Stdio::null()).process_group(0);
        }
        let mut child = command.spawn().with_context(|| self.words.join(" "))?;
        self.wait(&mut child, signals)
    }

    /// Runs the program, and gathers what it prints as the file `to`.
    pub(crate) fn print(
        &mut self,
        words: &[String],
        to: NewFile,
        signals: signal::Signals,
    ) -> anyhow::Result<Printed> {
        let script = self.script(words);
        let script = format!("sh -c {}; printf '{END}%03d\\n' $?", quoted(&script));
        let (mut child, from) = self.piped(&script, Stdio::inherit())?;
        let copy = std::thread::Builder::new().spawn(move || copied(from, to))?;
        self.wait(&mut child, signals)?;
        let copied = copy.join().ok().context("copying what the host sent")??;
        let host = &self.host;
        copied.with_context(|| format!("{host}: the connection broke, so nothing was written"))
    }

    /// Waits for its end. A signal of ours asks it to stop.
    fn wait(&mut self, child: &mut Child, signals: signal::Signals) -> anyhow::Result<ExitStatus> {
        let mut is_asked = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            match is_asked {
                true => std::thread::sleep(LOOK.as_duration()),
                false => drop(process::poll(&[signals.fd()], Some(LOOK))?),
            }
            if signals.caught().is_some() && !is_asked {
                is_asked = true;
                // A broken connection ends it as well.
                let _ = self.lines.as_mut().map(|lines| lines.write_all(b"\n"));
            }
        }
    }

    /// The names in its folder.
    pub(crate) fn names(&self) -> anyhow::Result<Vec<String>> {
        let listed = self.send(&format!("ls -1 {}", self.folder()), Stdio::null());
        let listed = listed.with_context(|| self.host.clone())?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Fetches a file of its folder.
    pub(crate) fn fetch(&self, name: &str, to: &Path) -> anyhow::Result<()> {
        let mut file =
            NewFile::create(to).with_context(|| format!("cannot write {}", to.display()))?;
        let script = format!("cat {}/{}", self.folder(), quoted(name));
        let (mut child, mut from) = self.piped(&script, Stdio::inherit())?;
        io::copy(&mut from, &mut file)?;
        ensure!(child.wait()?.success(), "{}: {name} did not come", self.host);
        file.keep().with_context(|| format!("cannot write {}", to.display()))
    }
}

impl Drop for RemoteHost {
    /// Leaves nothing there.
    fn drop(&mut self) {
        drop(self.lines.take());
        let _ = self.keeper.wait();
    }
}

/// A line that a host says; `None` if it says no more.
fn line(said: &mut impl io::BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    said.take(LINE_MAX).read_line(&mut text)?;
    Ok(Some(text.trim_end().to_owned()).filter(|text| !text.is_empty()))
}

/// Copies all but the end, which has the exit code; `None` if that is missing.
fn copied(mut from: impl Read, mut file: NewFile) -> io::Result<Option<Printed>> {
    let (mut held, mut some, mut bytes) = (Vec::new(), vec![0; 1 << 16], 0);
    loop {
        let count = from.read(&mut some)?;
        held.extend_from_slice(&some[..count]);
        if count == 0 {
            break;
        }
        let ready = held.len().saturating_sub(END_LENGTH);
        file.write_all(&held[..ready])?;
        bytes += ready as u64;
        held.drain(..ready);
    }
    let end = std::str::from_utf8(&held).ok().and_then(|end| end.strip_prefix(END));
    let code = end.and_then(|code| code.trim_end().parse().ok());
    Ok(code.map(|code| Printed { file, bytes, code }))
}

/// The script that keeps the folder.
fn keeper(size: u64, version: &str) -> String {
    let version = quoted(version);
    format!(
        r#"umask 077
d=$(mktemp -d) && d=$(cd "$d" && pwd -P) || exit 1
trap 'rm -rf "$d"' EXIT
trap 'exit 1' HUP INT TERM PIPE
have=need
[ -n {version} ] && [ "$(schedlab --version 2>/dev/null)" = {version} ] && have=have
echo "$have $(uname -m) $d"
if [ $have = need ]; then
  head -c {size} >"$d/schedlab" && chmod 700 "$d/schedlab" && "$d/schedlab" --version >/dev/null || exit 1
fi
echo ready
ask() {{ read -r p <"$d/pid" && [ "$(readlink "/proc/$p/cwd")" = "$d" ] && kill "-$1" "$p"; }} 2>/dev/null
while read -r line; do ask TERM; done
n=0
while ask TERM; do
  sleep 1; n=$((n + 1))
  [ $n -lt 60 ] || ask KILL
done"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_of_a_shell() {
        for word in ["plain", "two words", "it's", "$HOME `x` \"y\"", "a\nb"] {
            let command = format!("printf %s {}", quoted(word));
            let out = Command::new("sh").args(["-c", &command]).output();
            assert_eq!(out.expect("there is a shell").stdout, word.as_bytes());
        }
    }

    #[test]
    fn options_for_here_do_not_go_there_and_the_users_command_does() {
        let typed = |line: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            rest(words, &["-o", "--output", "--ssh", "--ssh-command"]).join(" ")
        };
        assert_eq!(typed("record --ssh a -e irq -o x.dat"), "record -e irq");
        assert_eq!(typed("record --ssh=a -ox.dat --output=y --time 1s"), "record --time 1s");
        assert_eq!(typed("record --ssh a -- cc -o x --ssh b"), "record -- cc -o x --ssh b");
    }

    #[test]
    fn what_a_host_sent_is_whole_only_with_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        let all = [vec![7; 200_000], format!("{END}003\n").into_bytes()].concat();
        let sent = |bytes: &[u8]| copied(bytes, NewFile::create(&path).unwrap()).unwrap();
        assert!(sent(&all[..all.len() - 1]).is_none() && sent(&[]).is_none());
        let printed = sent(&all).unwrap();
        assert_eq!((printed.bytes, printed.code), (200_000, 3));
        assert!(!path.exists(), "it has no name before it is kept");
        printed.file.keep().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 200_000]);
        assert_eq!(sent(&all[200_000..]).map(|printed| printed.bytes), Some(0));
    }

    #[test]
    fn hosts_that_ssh_takes_for_options_are_refused() {
        assert!(host("root@a-b").is_ok() && host("").is_err() && host("-oProxyCommand=x").is_err());
    }
}
