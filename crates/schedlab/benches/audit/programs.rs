//! The programs that are slowed, none of which knows anything of schedlab.

use super::Failure;
use super::table::Work;
use schedlab_model::CpuSet;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const SCHEDLAB: &str = env!("CARGO_BIN_EXE_schedlab");

pub(super) const NAMES: [&str; 6] = ["c", "python", "node", "gcc", "barrier", "phases"];

const FILES: [(&str, &str); 4] = [
    ("work.c", include_str!("work.c")),
    ("loop.py", include_str!("loop.py")),
    ("loop.js", include_str!("loop.js")),
    ("compile.sh", include_str!("compile.sh")),
];

/// The programs that this machine can run, ready to run.
pub(super) struct Programs {
    folder: TempDir,
    can: Vec<&'static str>,
    /// The interpreter itself and not a script that looks for it, which would be slowed too.
    python: String,
    /// Steps of `work.c` in a millisecond at full speed.
    steps_in_ms: f64,
    cpus: CpuSet,
}

impl Programs {
    /// Writes the programs, compiles what is C and looks what runs here.
    pub(super) fn prepare(cpus: CpuSet) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        for (file, text) in FILES {
            std::fs::write(folder.path().join(file), text)?;
        }
        let mut gcc = Command::new("gcc");
        gcc.current_dir(&folder).args(["-O2", "-pthread", "work.c", "-o", "work"]);
        let compiled = gcc.status().is_ok_and(|status| status.success());
        let python =
            output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
        let node = output(Command::new("node").arg("--version"));
        let two = cpus.len() == 2;
        let can = NAMES.into_iter().filter(|name| match *name {
            "python" => python.is_ok(),
            "node" => node.is_ok(),
            "barrier" => compiled && two,
            _ => compiled,
        });
        let can: Vec<_> = can.collect();
        for name in NAMES.iter().filter(|name| !can.contains(name)) {
            println!("MISSING: {name} does not run here; it is not measured");
        }
        let python = python.unwrap_or_default().trim().to_owned();
        let mut programs = Self { folder, can, python, steps_in_ms: 0.0, cpus };
        if compiled {
            // A round of the loop is 2000 steps.
            programs.steps_in_ms = programs.full("c", 1.2)?.rate * 2.0;
        }
        Ok(programs)
    }

    /// The name, if the program runs here.
    pub(super) fn known(&self, name: &str) -> Option<&'static str> {
        self.can.iter().find(|known| **known == name).copied()
    }

    /// The CPUs of a program.
    fn cpus(&self, program: &str) -> String {
        match program {
            "barrier" => self.cpus.to_string(),
            _ => self.cpus.iter().last().unwrap_or_default().to_string(),
        }
    }

    /// The command line of a program that works for some seconds.
    fn argv(&self, program: &str, seconds: f64) -> Vec<String> {
        let at = |file: &str| self.folder.path().join(file).display().to_string();
        let steps = self.steps_in_ms.round().to_string();
        let work = |kind: &str| vec![at("work"), kind.to_owned(), seconds.to_string(), steps];
        match program {
            "c" => work("loop"),
            "python" => vec![self.python.clone(), at("loop.py"), seconds.to_string()],
            "node" => vec!["node".into(), at("loop.js"), seconds.to_string()],
            "gcc" => vec!["sh".into(), at("compile.sh"), seconds.to_string()],
            kind => work(kind),
        }
    }

    pub(super) fn full(&self, program: &str, seconds: f64) -> Result<Work, Failure> {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.cpus(program)]).args(self.argv(program, seconds));
        Ok(output(&mut command)?.parse()?)
    }

    pub(super) fn slowed(
        &self,
        program: &str,
        seconds: f64,
        speed: &str,
        options: &[&str],
    ) -> Result<Work, Failure> {
        let mut command = Command::new(SCHEDLAB);
        command.args(["slow", "--cpu", &format!("{}={speed}", self.cpus(program))]).args(options);
        Ok(output(command.arg("--").args(self.argv(program, seconds)))?.parse()?)
    }
}

/// What a command printed.
fn output(command: &mut Command) -> Result<String, Failure> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}: {why}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
