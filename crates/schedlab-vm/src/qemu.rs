//! A QEMU process: its command line, its console, and its end.

use crate::guest;
use crate::qmp::{Qmp, Wait};
use crate::request::{Clock, Request};
use crate::{Kernel, VmError};
use schedlab_sys::port::Port;
use schedlab_sys::signal::{self, Signals};
use schedlab_sys::{memory, process};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What every QEMU of one guest has in common: changing any of it makes another guest.
#[derive(Debug)]
pub(crate) struct Build {
    /// What was asked for.
    pub(crate) request: Request,
    /// The kernel that is booted.
    pub(crate) kernel: Kernel,
    /// The first file system.
    pub(crate) initramfs: File,
    /// `QEMU emulator version ...`.
    pub(crate) version: String,
    /// Whether KVM runs it.
    pub(crate) kvm: bool,
    /// Whether KVM was tried and did not boot it.
    pub(crate) fell_back: bool,
}

impl Build {
    /// The arguments that make the machine, without paths of this process.
    pub(crate) fn machine(&self) -> Vec<String> {
        let Request { memory_mib, seed, clock, .. } = &self.request;
        let mut all: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        add(&["-action", "panic=pause,watchdog=pause", "-device", "pvpanic", "-machine", "pc"]);
        add(&["-m", &format!("{memory_mib}M")]);
        all.extend(self.request.topology.arguments(self.request.cpus, *memory_mib));
        let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
        // QEMU's own CPUs are AMD's, whose threads it does not tell a kernel (topoext).
        let vendor = if self.request.topology.threads > 1 { ",vendor=GenuineIntel" } else { "" };
        match clock {
            Clock::Instructions => {
                add(&["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]);
                add(&["-cpu", &format!("qemu64{vendor}")]);
                add(&["-rtc", "base=2024-01-01T00:00:00,clock=vm"]);
                add(&["-seed", &seed.to_string(), "-device", "ib700"]);
            }
            Clock::Wall if self.kvm => add(&["-accel", "kvm", "-cpu", "host"]),
            Clock::Wall => {
                add(&["-accel", "tcg,thread=multi", "-cpu", &format!("max{vendor}")]);
            }
        }
        all
    }

    /// The kernel's command line.
    pub(crate) fn command_line(&self) -> String {
        // Nothing of the guest may be drawn at random: where things lie changes how fast they are.
        let fixed = match self.request.clock {
            Clock::Instructions => {
                "nokaslr norandmaps random.trust_cpu=off random.trust_bootloader=off \
                 mitigations=off tsc=reliable "
            }
            Clock::Wall => "",
        };
        let argument = guest::ARGUMENT;
        let clock = self.request.clock.name();
        format!("console=ttyS0 quiet panic=-1 {fixed}rdinit=/init -- {argument} {clock}")
    }
}

/// A running QEMU. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Qemu {
    child: Child,
    qmp: Qmp,
    console: File,
    frames: File,
    stderr: File,
}

/// Bytes that a file of QEMU may have beside the guest's memory: state of devices, frames, console.
const BESIDE_MEMORY: u64 = 256 << 20;

impl Build {
    /// Bytes of the longest file that QEMU writes for a guest: its saved state, which is its memory and little more.
    /// What the guest sends was in its memory, unless it is out to fill ours.
    const fn longest_file(&self) -> u64 {
        let memory = (self.request.memory_mib as u64) << 20;
        memory + memory / 64 + BESIDE_MEMORY
    }
}

impl Qemu {
    /// Starts one: from the beginning, or from a saved state with what is asked of the guest.
    pub(crate) fn start(
        build: &Build,
        restore: Option<(&File, &File)>,
        wait: &Wait<'_>,
    ) -> Result<Self, VmError> {
        let signals: Signals = signal::catch().map_err(VmError::io("catching signals"))?;
        let file = |name| memory::file(name).map_err(VmError::io("making a file in memory"));
        let console = file("console")?;
        let frames = file("frames")?;
        let stderr = file("stderr")?;
        let path = |file: &File| memory::path_of(file).display().to_string();
        let mut command = Command::new(&build.request.qemu);
        command
            .args(data_of(&build.request.qemu))
            .args(build.machine())
            .arg("-kernel")
            .arg(&build.kernel.image);
        command.args(["-initrd", &path(&build.initramfs), "-append", &build.command_line()]);
        command.args(["-chardev", "stdio,id=qmp,signal=off", "-mon", "chardev=qmp,mode=control"]);
        command.args(["-serial", &format!("file:{}", path(&console))]);
        command.args(["-chardev", &format!("file,id=frames,path={}", path(&frames))]);
        let port = Port::Console as u16;
        command.args(["-device", &format!("isa-debugcon,iobase={port},chardev=frames")]);
        match restore {
            None => command.args(["-fw_cfg", &format!("name={},string=none", guest::ITEM)]),
            Some((state, asked)) => command
                .args(["-fw_cfg", &format!("name={},file={}", guest::ITEM, path(asked))])
                .args(["-incoming", &format!("exec:cat {}", path(state))]),
        };
        let said = stderr.try_clone().map_err(VmError::io("making a file in memory"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        process::die_with_parent(&mut command);
        process::own_session(&mut command);
        process::limit_files(&mut command, build.longest_file());
        let mut child = command.spawn().map_err(|error| missing(error, &build.request.qemu))?;
        let streams = child.stdin.take().zip(child.stdout.take());
        let (to, from) = streams.expect("both are piped");
        let mut qemu = match Qmp::open(to, from, signals, wait) {
            Ok(qmp) => Self { child, qmp, console, frames, stderr },
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(explain(error, &text(&stderr)));
            }
        };
        if restore.is_some() {
            qemu.await_restored(wait)?;
        }
        Ok(qemu)
    }

    /// Waits until the guest stops the machine.
    pub(crate) fn await_stop(&mut self, wait: &Wait<'_>) -> Result<(), VmError> {
        match self.qmp.await_event(&["STOP", "SHUTDOWN", "RESET"], wait) {
            // A kernel that panics may stop the machine too, but it sends nothing before.
            Ok("STOP") if !self.frames()?.is_empty() => Ok(()),
            Ok(_) => Err(self.explain(VmError::Guest {
                what: format!("the guest's kernel gave up during {}", wait.doing),
                console: Vec::new(),
            })),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Saves the state of the stopped machine.
    pub(crate) fn save(&mut self, state: &File, wait: &Wait<'_>) -> Result<(), VmError> {
        let path = memory::path_of(state);
        let fast = json!({ "max-bandwidth": 1_u64 << 40 });
        self.qmp.ask("migrate-set-parameters", &fast, wait)?;
        let uri = format!("exec:cat > {}", path.display());
        self.qmp.ask("migrate", &json!({ "uri": uri }), wait)?;
        loop {
            let answer = self.qmp.ask("query-migrate", &json!({}), wait)?;
            match answer["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    let what = format!("QEMU could not save the guest: {answer}");
                    return Err(self.explain(VmError::Guest { what, console: Vec::new() }));
                }
                _ => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        }
    }

    fn await_restored(&mut self, wait: &Wait<'_>) -> Result<(), VmError> {
        loop {
            let answer = self.qmp.ask("query-status", &json!({}), wait);
            let answer = answer.map_err(|error| self.explain(error))?;
            if answer["status"].as_str() != Some("inmigrate") {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Lets the stopped machine go on.
    pub(crate) fn go_on(&mut self, wait: &Wait<'_>) -> Result<(), VmError> {
        self.qmp.ask("cont", &json!({}), wait).map(|_| ()).map_err(|error| self.explain(error))
    }

    /// What the guest sent.
    pub(crate) fn frames(&mut self) -> Result<Vec<u8>, VmError> {
        let mut bytes = Vec::new();
        self.frames
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.frames.read_to_end(&mut bytes))
            .map_err(VmError::io("reading what the guest sent"))?;
        Ok(bytes)
    }

    /// An error with what the console and QEMU itself said last.
    pub(crate) fn explain(&self, error: VmError) -> VmError {
        let mut said = text(&self.console);
        said.push_str(&text(&self.stderr));
        explain(error, &said)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many lines of a console are shown with an error.
const TAIL: usize = 12;

fn explain(error: VmError, said: &str) -> VmError {
    let VmError::Guest { what, .. } = error else { return error };
    let lines: Vec<&str> = said.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let printable = |line: &&str| line.chars().filter(|c| !c.is_control()).collect();
    let (rest, last) = lines.split_at(lines.len().saturating_sub(TAIL));
    // What init said last is the cause of a panic, whose dump may hide it.
    let own = rest.iter().rfind(|line| line.contains(guest::FAILED));
    VmError::Guest { what, console: own.into_iter().chain(last).map(printable).collect() }
}

fn text(file: &File) -> String {
    use std::os::unix::fs::FileExt;
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = vec![0; usize::try_from(length.min(1 << 20)).unwrap_or(0)];
    let from = length - bytes.len() as u64;
    let read = file.read_at(&mut bytes, from).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

/// Where a QEMU that was unpacked but not installed finds its data: beside it, as in its package.
fn data_of(program: &str) -> Vec<String> {
    let path = Path::new(program);
    let Some(root) = path.parent().and_then(Path::parent) else { return Vec::new() };
    if !path.is_absolute() || root == Path::new("/usr") {
        return Vec::new();
    }
    let folders = ["share/qemu", "share/seabios"].map(|name| root.join(name));
    let there = folders.into_iter().filter(|folder| folder.is_dir());
    there.flat_map(|folder| ["-L".to_owned(), folder.display().to_string()]).collect()
}

/// Whether KVM may be tried: only a boot shows whether it works.
pub(crate) fn may_use_kvm() -> bool {
    File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

/// The first version that boots several CPUs with the clock of instructions.
pub(crate) const SEVERAL_CPUS: u32 = 10;

/// The first number of a version such as `QEMU emulator version 7.2.22 (...)`.
pub(crate) fn major(version: &str) -> Option<u32> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).filter(|text| !text.is_empty());
    numbers.next()?.parse().ok()
}

fn missing(error: io::Error, program: &str) -> VmError {
    if error.kind() == io::ErrorKind::NotFound {
        let remedy = "install it (Debian: apt-get install qemu-system-x86), or name one with \
                      vm:qemu=PATH";
        return VmError::Missing { what: program.to_owned(), remedy: remedy.to_owned() };
    }
    VmError::io(format!("starting {program}"))(error)
}

/// The first line of `--version`.
pub(crate) fn version(program: &str) -> Result<String, VmError> {
    let out =
        Command::new(program).arg("--version").output().map_err(|error| missing(error, program))?;
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// A file in memory with this content.
pub(crate) fn file_of(name: &str, content: &[u8]) -> Result<File, VmError> {
    let mut file = memory::file(name).map_err(VmError::io("making a file in memory"))?;
    file.write_all(content).map_err(VmError::io("writing a file in memory"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_init_said_is_told_before_the_dump_of_a_panic() {
        let error = || VmError::Guest { what: "it died".to_owned(), console: Vec::new() };
        let dump: String = (0..20).map(|line| format!("[    2.0] R{line}: 0\n")).collect();
        let said = format!("boot\nschedlab: the guest failed: no scheduler\r\n{dump}");
        let told = explain(error(), &said).to_string();
        assert!(told.contains("console:\n  schedlab: the guest failed: no scheduler\n"), "{told}");
        assert_eq!((told.lines().count(), told.contains("boot")), (2 + TAIL, false), "{told}");
        let short = explain(error(), "schedlab: the guest failed: x\n").to_string();
        assert_eq!(short.matches("failed").count(), 1, "{short}");
    }
}
