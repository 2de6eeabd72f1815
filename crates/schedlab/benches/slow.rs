//! How true speeds are, in the figures that the project promises. Run alone on a quiet machine:
//!
//! ```text
//! cargo bench -p schedlab --bench slow                      # all: some eight minutes
//! cargo bench -p schedlab --bench slow -- hogs 25% compute  # a piece: methods, speeds, tests by name
//! cargo bench -p schedlab --bench slow -- --short           # seconds, for a look
//! ```
//!
//! Tests: `seconds`, CPU time granted in each second; `compute`, work of a computing loop; `mixed`,
//! computing and sleeping; `barrier`, threads that meet. The last three by pairs of adjacent turns at
//! full speed and slowed: printed is the median of all means of two pairs' ratios (Hodges and Lehmann)
//! with its 95 % interval, which one turn disturbed by something else hardly moves, and the plain mean
//! beside it. Each line ends with what it is held against.

#![expect(clippy::print_stdout, reason = "a benchmark speaks")]

use schedlab_host::slow::{Ground, Method, Paired, Speed, Work, granted, paired, set_program};
use schedlab_stats::paired_shift;

const PERCENTS: [u32; 3] = [25, 50, 75];
/// Pairs of turns of a quarter of a second each.
const PAIRS: usize = 60;

/// What is to be run: everything where nothing is named.
struct Wanted {
    words: Vec<String>,
}

impl Wanted {
    /// Whether `word` was named, or no other one of its kind.
    fn has(&self, word: &str, kind: &[&str]) -> bool {
        let mut named = self.words.iter().filter(|w| kind.contains(&w.as_str())).peekable();
        named.peek().is_none() || named.any(|w| w == word)
    }

    fn methods(&self) -> Vec<Method> {
        let all = [Method::Hogs, Method::Quota];
        all.into_iter().filter(|method| self.has(method.name(), &["hogs", "quota"])).collect()
    }

    fn speeds(&self) -> Vec<Speed> {
        let named = |percent: &u32| self.has(&format!("{percent}%"), &["25%", "50%", "75%"]);
        PERCENTS
            .iter()
            .filter(|percent| named(percent))
            .filter_map(|p| Speed::percent(*p))
            .collect()
    }

    fn test(&self, name: &str) -> bool {
        self.has(name, &["seconds", "compute", "mixed", "barrier"])
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_program(env!("CARGO_BIN_EXE_schedlab").into());
    let words: Vec<String> = std::env::args().skip(1).collect();
    let short = words.iter().any(|word| word == "--short");
    let (wanted, ground) = (Wanted { words }, Ground::here());
    println!("load average {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    if wanted.test("seconds") {
        by_the_second(&wanted, &ground, if short { 2 } else { 10 })?;
    }
    let pairs = if short { 6 } else { PAIRS };
    for (name, work, methods, title) in [
        (
            "compute",
            Work::Compute,
            wanted.methods(),
            "work of a computing loop (within 1.5 points, interval 3 wide at most)",
        ),
        ("mixed", Work::Mixed, vec![Method::Hogs], "1 ms of computing, 1 ms of sleep (within 5 %)"),
        (
            "barrier",
            Work::Barrier,
            vec![Method::Hogs],
            "threads of two CPUs that meet at a barrier every 0.6 ms (within 5 %)",
        ),
    ] {
        if !wanted.test(name) {
            continue;
        }
        println!("\n{title}; {pairs} pairs");
        for method in methods {
            for speed in wanted.speeds() {
                print(method, speed, &paired(work, method, speed, pairs, &ground)?)?;
            }
        }
    }
    Ok(())
}

fn by_the_second(
    wanted: &Wanted,
    ground: &Ground,
    seconds: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "\nCPU time granted in each of {seconds} seconds (within 1 point of the speed in every one)"
    );
    for method in wanted.methods() {
        for speed in wanted.speeds() {
            let shares = granted(method, speed, seconds, ground)?;
            let off = shares.iter().map(|share| (share - speed.fraction()) * 100.0);
            let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
            for points in off {
                (low, high) = (low.min(points), high.max(points));
            }
            println!("  {method:<6} {speed:>4}: {low:+.2} .. {high:+.2} points off");
        }
    }
    Ok(())
}

fn print(method: Method, speed: Speed, paired: &Paired) -> Result<(), Box<dyn std::error::Error>> {
    let shift = paired_shift(&paired.ratios, 0.95)?;
    let mean = paired.ratios.iter().sum::<f64>() / paired.ratios.len() as f64;
    let percent = |part: f64| part * 100.0;
    println!(
        "  {method:<6} {speed:>4}: {:.2}% of full speed, 95% interval {:.2} .. {:.2} ({:.2} wide), mean {:.2}, \
         ideal {:.2}: {:+.2} points, {:+.1}%; controller {:.2}% of a CPU (below 0.5%)",
        percent(shift.estimate),
        percent(shift.low),
        percent(shift.high),
        percent(shift.high - shift.low),
        percent(mean),
        percent(paired.ideal),
        percent(shift.estimate - paired.ideal),
        percent(shift.estimate / paired.ideal - 1.0),
        percent(paired.controller),
    );
    Ok(())
}
