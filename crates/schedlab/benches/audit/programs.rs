//! The programs that are slowed, none of which knows anything of schedlab.

use super::Failure;
use super::table::{PARTS, Work};
use schedlab_model::CpuSet;
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub(super) const SCHEDLAB: &str = env!("CARGO_BIN_EXE_schedlab");

/// `node-single` is `node` without helper threads. `node-small` has 1 MiB for young objects and not 16, so that they
/// fit into the caches of a core.
pub(super) const NAMES: [&str; 9] =
    ["c", "python", "node", "node-single", "node-small", "gcc", "barrier", "phases", "short"];
/// Those of the table.
pub(super) const USUAL: [&str; 7] = ["c", "python", "node", "gcc", "barrier", "phases", "short"];

const FILES: [(&str, &str); 4] = [
    ("work.c", include_str!("work.c")),
    ("loop.py", include_str!("loop.py")),
    ("loop.js", include_str!("loop.js")),
    ("compile.sh", include_str!("compile.sh")),
];

/// Fewer rounds have a start that weighs as much as they do.
const ROUNDS_MIN: u64 = 10;
/// What each program works in a run, in seconds at full speed, unless something else is asked for.
pub(super) const WORK_S: f64 = 0.6;

/// The programs that this machine can run, ready to run.
pub(super) struct Programs {
    folder: TempDir,
    /// Their names, with the rounds of a run. Rounds and not seconds: a start takes as much of both runs of a pair.
    can: Vec<(&'static str, u64)>,
    /// The interpreter itself and not a script that looks for it, which would be slowed too.
    python: String,
    /// Steps of `work.c` in a millisecond at full speed.
    steps_in_ms: f64,
    /// The work of a run, in seconds at full speed.
    work_s: f64,
    cpus: CpuSet,
}

impl Programs {
    /// Writes the programs, compiles what is C and looks which of those that are wanted run here.
    pub(super) fn prepare(cpus: CpuSet, wanted: &[String], work_s: f64) -> Result<Self, Failure> {
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
        let runs = |name: &str| match name {
            "python" => python.is_ok(),
            "node" | "node-single" | "node-small" => node.is_ok(),
            "barrier" => compiled && two,
            _ => compiled,
        };
        // The loop tells how long a step takes.
        let wanted = |name: &&str| *name == "c" || wanted.iter().any(|wanted| wanted == name);
        let (can, cannot): (Vec<_>, Vec<_>) =
            NAMES.into_iter().filter(wanted).partition(|name| runs(name));
        for name in cannot {
            println!("MISSING: {name} does not run here; it is not measured");
        }
        let python = python.unwrap_or_default().trim().to_owned();
        let mut programs = Self { folder, can: Vec::new(), python, steps_in_ms: 0.0, work_s, cpus };
        // `c` is the first, and others need its steps.
        for name in can {
            let rounds = programs.calibrate(name)?;
            programs.can.push((name, rounds));
            if name == "c" {
                // A round of the loop is 2000 steps.
                programs.steps_in_ms = rounds as f64 / work_s * 2.0;
            }
        }
        Ok(programs)
    }

    /// How many rounds are the work of a run.
    fn calibrate(&self, program: &str) -> Result<u64, Failure> {
        let mut rounds = ROUNDS_MIN;
        loop {
            let part = self.run_full(program, rounds)?.seconds() / self.work_s;
            if part >= 0.5 {
                return Ok(((rounds as f64 / part) as u64).max(ROUNDS_MIN));
            }
            rounds = (rounds as f64 * (1.0 / part).clamp(2.0, 100.0)) as u64;
        }
    }

    /// The name, if the program runs here.
    pub(super) fn known(&self, name: &str) -> Option<&'static str> {
        self.can.iter().map(|(known, _)| *known).find(|known| *known == name)
    }

    /// The rounds of a program that runs here.
    fn rounds(&self, program: &str) -> u64 {
        self.can
            .iter()
            .find(|(known, _)| *known == program)
            .map_or(ROUNDS_MIN, |(_, rounds)| *rounds)
    }

    /// The CPUs of a program.
    pub(super) fn cpus(&self, program: &str) -> String {
        match program {
            "barrier" => self.cpus.to_string(),
            _ => self.cpus.iter().last().unwrap_or_default().to_string(),
        }
    }

    /// The command line of a program that works for some rounds and times some equal parts of them. Only `work.c` needs
    /// the steps of a millisecond.
    fn argv(&self, program: &str, rounds: u64, parts: usize) -> Vec<String> {
        let at = |file: &str| self.folder.path().join(file).display().to_string();
        let mut argv = match program {
            "c" => vec![at("work"), "loop".into()],
            "python" => vec![self.python.clone(), at("loop.py")],
            "node" => vec!["node".into(), at("loop.js")],
            "node-single" => vec!["node".into(), "--single-threaded".into(), at("loop.js")],
            "node-small" => {
                vec!["node".into(), "--max-semi-space-size=1".into(), at("loop.js")]
            }
            "gcc" => vec!["sh".into(), at("compile.sh")],
            kind => vec![at("work"), kind.into()],
        };
        argv.extend([rounds.to_string(), self.steps_in_ms.round().to_string(), parts.to_string()]);
        argv
    }

    /// Runs a program at full speed.
    pub(super) fn full(&self, program: &str) -> Result<Work, Failure> {
        self.run_full(program, self.rounds(program))
    }

    fn run_full(&self, program: &str, rounds: u64) -> Result<Work, Failure> {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.cpus(program)]).args(self.argv(program, rounds, PARTS));
        Ok(began(&output(&mut command)?)?.1.parse()?)
    }

    /// Runs a program slowed by these options of `schedlab slow`.
    pub(super) fn slowed(
        &self,
        program: &str,
        speed: &str,
        options: &[&str],
    ) -> Result<Work, Failure> {
        let argv = self.argv(program, self.rounds(program), PARTS);
        Ok(began(&self.under(program, speed, options, &argv)?)?.1.parse()?)
    }

    /// When a slowed run began, the seconds that had passed at each of many short parts of it, and the part of the time
    /// that it had a CPU.
    pub(super) fn parts(
        &self,
        program: &str,
        speed: &str,
        options: &[&str],
        (work_s, parts): (f64, usize),
    ) -> Result<(f64, Vec<f64>, f64), Failure> {
        let rounds = (self.rounds(program) as f64 * work_s / self.work_s) as u64;
        // Each part has as many rounds as any other.
        let each = (rounds / parts as u64).max(1);
        let parts = rounds / each;
        let argv = self.argv(program, parts * each, parts as usize);
        let printed = self.under(program, speed, options, &argv)?;
        let (began, times) = began(&printed)?;
        let mut times: Vec<f64> =
            times.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        // The last number is no time.
        let granted = times.pop().ok_or("it printed nothing")?;
        Ok((began, times, granted))
    }

    /// What a command printed that was slowed by these options.
    fn under(
        &self,
        program: &str,
        speed: &str,
        options: &[&str],
        argv: &[String],
    ) -> Result<String, Failure> {
        let mut command = Command::new(SCHEDLAB);
        command.args(["slow", "--cpu", &format!("{}={speed}", self.cpus(program))]).args(options);
        output(command.arg("--").args(argv))
    }
}

/// When a program began, and the rest of what it printed.
fn began(printed: &str) -> Result<(f64, &str), Failure> {
    let parts = printed.trim_start().split_once(' ');
    let (began, rest) = parts.ok_or_else(|| format!("'{printed}' is not what a program prints"))?;
    Ok((began.parse()?, rest))
}

/// What a command printed.
fn output(command: &mut Command) -> Result<String, Failure> {
    // Else CPython's dictionaries differ from run to run.
    command.env("PYTHONHASHSEED", "0").stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}: {why}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
