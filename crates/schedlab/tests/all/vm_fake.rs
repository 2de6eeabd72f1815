//! Kernels of a few lines, and a QEMU that is a script: for tests of all paths but the real compiler and the
//! real machine.

use schedlab_host::Host;
use schedlab_model::{Pid, Topology};
use schedlab_vm::frame::Frame;
use schedlab_workload::Machine as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// A kernel's makefile: what `vm build` asks for, in no time. The image says what it was made of.
const MAKEFILE: &str = r#"
allnoconfig:
	@cp $(KCONFIG_ALLCONFIG) $(O)/.config
	@sed -n 's/^CONFIG_HZ_\([0-9]*\)=y/CONFIG_HZ=\1/p' $(KCONFIG_ALLCONFIG) >> $(O)/.config
vmlinux:
	@if test -e broken; then echo "sched.c:1: error: broken"; exit 1; fi
	@if test -e full; then head -c 9 /dev/zero > /dev/full; fi
	@if test -e slow; then echo $$$$ > $(O)/pid.new; mv $(O)/pid.new $(O)/pid; exec sleep 1000; fi
	@printf '\177ELF Linux version 6.1.0-fake (x) time=%s %s=. %s\n' "$$(cat time)" \
		"$(CFLAGS_fair.o)" "$$(cksum < $(O)/.config)" > $(O)/vmlinux
"#;

/// A QEMU that boots nothing: it tells what a guest would, and how long a run took by its kernel. Files beside
/// it let its guest panic, or hang in a run.
const QEMU: &str = r#"#!/usr/bin/env python3
import json, os, re, signal, sys, time
arguments = sys.argv[1:]
with open(os.path.dirname(os.path.abspath(__file__)) + "/arguments", "a") as file:
    file.write(" ".join(arguments) + "\n")
if "--version" in arguments:
    print("QEMU emulator version 99 (a script)")
    sys.exit()
after = lambda word: arguments[arguments.index(word) + 1]
here = os.path.dirname(os.path.abspath(__file__))
kernel = open(after("-kernel"), "rb").read().decode("latin-1")
frames = next(a for a in arguments if a.startswith("file,id=frames,path=")).split("path=")[1]
runs = "-incoming" in arguments
def send(frame, raw=b""):
    text = json.dumps(frame).encode()
    return len(text).to_bytes(4, "little") + len(raw).to_bytes(4, "little") + text + raw
def run():
    asked = json.load(open(after("-fw_cfg").split("file=")[1]))
    took = float(re.search(r"time=([0-9.]+)", kernel)[1])
    nops = re.search(r"function-entry=([0-9]+)", kernel)
    took *= 1 + 0.001 * int(nops[1] if nops else 0) + 0.0001 * asked["spec"]["repeat"]
    metric = {"name": "time_s", "unit": "seconds", "better": "lower"}
    told = send({"figure": {"metric": metric, "of": "", "value": took}})
    metric = {"name": "switches_involuntary", "unit": "count", "better": "neither"}
    told += send({"figure": {"metric": metric, "of": "", "value": 7.0}})
    if asked["spec"]["record"] is not None:
        told += send({"stream": "trace"}, open(here + "/trace.dat", "rb").read())
    return told + send({"ended": {"exit_code": 0, "interrupted": False, "censored": False}})
def tell(message):
    print(json.dumps(message), flush=True)
def stops(content):
    with open(frames, "wb") as file:
        file.write(content)
    tell({"event": "STOP"})
tell({"QMP": {}})
for line in sys.stdin:
    command = json.loads(line)["execute"]
    status = {"query-status": "paused", "query-migrate": "completed"}.get(command)
    tell({"return": {"status": status} if status else {}})
    if command == "qmp_capabilities" and os.path.exists(here + "/panic"):
        with open(after("-serial")[5:], "w") as console:
            console.write("Kernel panic - not syncing: no working init\n")
        tell({"event": "STOP"})
    elif command == "qmp_capabilities" and not runs:
        stops(open(here + "/ready", "rb").read())
    if command == "cont":
        if os.path.exists(here + "/flood"):
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            with open(frames, "r+b") as file:
                file.seek(int(open(here + "/flood").read()) - 1)
                file.write(b"x")
        if os.path.exists(here + "/line"):
            print("a" * (2 << 20), flush=True)
        if os.path.exists(here + "/hang"):
            with open(here + "/pid.new", "w") as file:
                file.write(str(os.getpid()))
            os.rename(here + "/pid.new", here + "/pid")
            time.sleep(1000)
        stops(run())
"#;

/// A folder with a cache, programs and sources of its own.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("bin")).unwrap();
        // A makefile of a few lines needs none of these.
        for tool in ["gcc", "flex", "bison", "bc", "xz"] {
            place.program(tool, "#!/bin/sh\nexit 0\n");
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A kernel's tree.
    pub(crate) fn tree(&self, name: &str) -> PathBuf {
        let tree = self.path(name);
        fs::create_dir_all(&tree).unwrap();
        for (file, text) in [("Kconfig", ""), ("Makefile", MAKEFILE), ("time", "1.0\n")] {
            fs::write(tree.join(file), text).unwrap();
        }
        tree
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let path = std::env::var("PATH").unwrap();
        command.args(words).env("XDG_CACHE_HOME", self.path("cache"));
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What is left of builds that did not end.
    pub(crate) fn half(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/schedlab/kernels")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect()
    }

    /// Puts the QEMU that is a script there, with a guest of this many CPUs; the setting that names it.
    pub(crate) fn machine(&self, cpus: u16) -> String {
        let host = Host::here().unwrap();
        let mut offers = host.offers().clone();
        offers.topology = Topology::flat(cpus);
        let (offers, facts) = (Box::new(offers), Box::new(host.facts()));
        let mut ready = Vec::new();
        Frame::Ready { offers, facts, domains: vec![Vec::new()] }.write(&[], &mut ready);
        fs::write(self.path("bin/ready"), ready).unwrap();
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
        fs::copy(corpus.join("buffers.dat"), self.path("bin/trace.dat")).unwrap();
        format!("qemu={}", self.program("qemu", QEMU).display())
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until something is there.
pub(crate) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process has ended, even if its new parent has not awaited it.
pub(crate) fn await_end(pid: Pid) {
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    wait_for(|| (stat().is_empty() || stat().contains(") Z ")).then_some(()));
}
