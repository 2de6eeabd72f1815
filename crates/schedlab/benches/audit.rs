//! How true speeds are for programs that this project did not write, and that nothing was tuned with: a loop in C,
//! CPython, Node and a compiler. Run alone on a quiet machine:
//!
//! ```text
//! cargo bench -p schedlab --bench audit                        # the table of docs/slow.md: about 100 minutes
//! cargo bench -p schedlab --bench audit -- quota 50% python    # a piece: methods, speeds, programs by name
//! cargo bench -p schedlab --bench audit -- --short             # two pairs of a second, for a look
//! ```
//!
//! Each program works for a time and prints how many rounds it did. A pair is a run at full speed and a slowed run on
//! the same CPU, the order changing from pair to pair. Printed is the median of the ratios of 8 pairs, with the least
//! and the largest, as a Markdown table; off is in points of full speed.

#![expect(clippy::print_stdout, reason = "a benchmark speaks")]

use schedlab_host::slow::{Ground, last};
use std::path::Path;
use std::process::{Command, Stdio};

type Failure = Box<dyn std::error::Error>;

const SCHEDLAB: &str = env!("CARGO_BIN_EXE_schedlab");
const SPEEDS: [&str; 4] = ["20%", "30%", "50%", "80%"];
/// A name, and the options that make it.
const METHODS: [(&str, &[&str]); 5] = [
    ("hogs", &["--method", "hogs"]),
    ("quota", &["--method", "quota", "--filler", "off"]),
    ("quota-filled", &["--method", "quota", "--filler", "on"]),
    ("weight", &["--method", "weight-pinned"]),
    ("stop", &["--method", "stop-group"]),
];
/// A name, the file that it is in, and its text. `SECONDS` is its first argument.
const PROGRAMS: [(&str, &str, &str); 4] = [
    (
        "c",
        "loop.c",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n\
         static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }\n\
         static unsigned table[1 << 15];\n\
         int main(int argc, char **argv) {\n  double end = now() + atof(argv[argc - 1]);\n  unsigned long rounds = 0; unsigned x = 1;\n\
         \x20 while (now() < end) { for (int i = 0; i < 2000; i++) { x = x * 1664525u + 1013904223u; table[x >> 17] += x; } rounds++; }\n\
         \x20 printf(\"%lu\\n\", rounds); return table[0] == 1; }\n",
    ),
    (
        "python",
        "loop.py",
        "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nrounds = 0\n\
         while time.monotonic() < end:\n    d = {}\n    for i in range(300):\n        d[str(i)] = [i, i * i]\n    \
         s = sum(v[1] for v in d.values())\n    rounds += 1\nprint(rounds)\n",
    ),
    (
        "node",
        "loop.js",
        "const end = performance.now() + Number(process.argv[2]) * 1000; let rounds = 0;\n\
         while (performance.now() < end) { const m = new Map(); for (let i = 0; i < 500; i++) m.set('k' + i, {i});\n\
         \x20 let s = 0; for (const v of m.values()) s += v.i; rounds++; }\nconsole.log(rounds);\n",
    ),
    (
        "compiler",
        "compile.sh",
        "end=$(($(date +%s%N) + $(echo \"$1\" | awk '{printf \"%d\", $1 * 1e9}'))); n=0\n\
         cd \"$(dirname \"$0\")\"\nwhile [ $(date +%s%N) -lt $end ]; do gcc -O1 -c loop.c -o loop.$$.o || exit 1; n=$((n + 1)); done\n\
         took=$(($(date +%s%N) - end + $(echo \"$1\" | awk '{printf \"%d\", $1 * 1e9}')))\n\
         rm -f loop.$$.o; awk \"BEGIN { print $n * 1e9 / $took * $1 }\"\n",
    ),
];

/// The command line of a program that works for some seconds.
fn argv(program: &str, folder: &Path, seconds: f64) -> Vec<String> {
    let at = |file: &str| folder.join(file).display().to_string();
    let seconds = seconds.to_string();
    match program {
        "c" => vec![at("loop"), seconds],
        "python" => vec!["python3".into(), at("loop.py"), seconds],
        "node" => vec!["node".into(), at("loop.js"), seconds],
        _ => vec!["sh".into(), at("compile.sh"), seconds],
    }
}

/// Writes the programs and compiles what is C. Returns those that this machine can run; others are said.
fn prepare(folder: &Path) -> Result<Vec<&'static str>, Failure> {
    for (_, file, text) in PROGRAMS {
        std::fs::write(folder.join(file), text)?;
    }
    let mut gcc = Command::new("gcc");
    gcc.arg("-O2").arg(folder.join("loop.c")).arg("-o").arg(folder.join("loop"));
    let compiled = gcc.status().is_ok_and(|status| status.success());
    let runs = |name: &&str| match *name {
        "c" | "compiler" => compiled,
        name => {
            let program = if name == "python" { "python3" } else { name };
            let probe = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            probe.is_ok_and(|status| status.success())
        }
    };
    let (can, cannot): (Vec<_>, Vec<_>) =
        PROGRAMS.map(|(name, ..)| name).into_iter().partition(runs);
    for name in cannot {
        println!("MISSING: {name} does not run here; it is not measured");
    }
    Ok(can)
}

/// The rounds that a command printed.
fn rounds(command: &mut Command) -> Result<f64, Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.trim().parse()?)
}

/// Ratios of slowed to full work, sorted.
fn ratios(
    program: &[String],
    cpu: &str,
    (speed, options): (&str, &[&str]),
    pairs: usize,
) -> Result<Vec<f64>, Failure> {
    let full = || rounds(Command::new("taskset").args(["-c", cpu]).args(program));
    let slowed = || {
        let mut command = Command::new(SCHEDLAB);
        command.args(["slow", "--no-measure", "--cpu", &format!("{cpu}={speed}")]).args(options);
        rounds(command.arg("--").args(program))
    };
    let mut all = Vec::new();
    for pair in 0..pairs {
        let (full, slowed) = match pair % 2 {
            0 => (full()?, slowed()?),
            _ => {
                let slowed = slowed()?;
                (full()?, slowed)
            }
        };
        all.push(slowed / full);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let short = words.iter().any(|word| word == "--short");
    let methods = METHODS.map(|(name, _)| name);
    let programs = PROGRAMS.map(|(name, ..)| name);
    let kinds: [&[&str]; 3] = [&methods, &SPEEDS, &programs];
    let known = |word: &&String| {
        *word == "--short" || kinds.iter().any(|kind| kind.contains(&word.as_str()))
    };
    if let Some(word) = words.iter().find(|word| !known(word)) {
        return Err(
            format!("'{word}' is none of {methods:?} {SPEEDS:?} {programs:?} --short").into()
        );
    }
    let has = |word: &str, kind: &[&str]| {
        let mut named = words.iter().filter(|word| kind.contains(&word.as_str())).peekable();
        named.peek().is_none() || named.any(|named| named == word)
    };
    let (pairs, seconds) = if short { (2, 1.0) } else { (8, 4.0) };
    let folder = tempfile::tempdir()?;
    let can = prepare(folder.path())?;
    let cpu = last(&Ground::here().allowed, 1).to_string();
    println!("load average {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    println!("CPU {cpu}, {pairs} pairs of {seconds} s\n");
    println!(
        "| program | method | asked | work | least to most | off |\n|---|---|---|---|---|---|"
    );
    for program in can.into_iter().filter(|program| has(program, &programs)) {
        let argv = argv(program, folder.path(), seconds);
        for (method, options) in METHODS.iter().filter(|(method, _)| has(method, &methods)) {
            for speed in SPEEDS.iter().filter(|speed| has(speed, &SPEEDS)) {
                let all = ratios(&argv, &cpu, (speed, options), pairs)?;
                let median = f64::midpoint(all[(pairs - 1) / 2], all[pairs / 2]) * 100.0;
                let asked: f64 = speed.trim_end_matches('%').parse()?;
                println!(
                    "| {program} | {method} | {speed} | {median:.1} % | {:.1} to {:.1} % | {:+.1} |",
                    all[0] * 100.0,
                    all[pairs - 1] * 100.0,
                    median - asked
                );
            }
        }
    }
    Ok(())
}
