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
//! beside it. Each point ends with a verdict; the last line counts them. A point can be measured again
//! by its name.

#![expect(clippy::print_stdout, reason = "a benchmark speaks")]

use schedlab_host::slow::{Ground, Method, Paired, Speed, Work, granted, paired, set_program};
use schedlab_model::Nanos;
use schedlab_stats::paired_shift;

type Failure = Box<dyn std::error::Error>;

const PERCENTS: [u32; 3] = [25, 50, 75];
const METHODS: [&str; 2] = ["hogs", "quota"];
const SPEEDS: [&str; 3] = ["25%", "50%", "75%"];
const TESTS: [&str; 4] = ["seconds", "compute", "mixed", "barrier"];
/// Pairs of turns of a quarter of a second each; the promise is for 40 at least.
const PAIRS: usize = 60;
/// The controller may use this part of a CPU.
const CONTROLLER_MAX: f64 = 0.005;

/// What is to be run: everything where nothing is named.
struct Wanted {
    words: Vec<String>,
}

impl Wanted {
    /// The words of the command line; those that name nothing are refused, as a point that was not
    /// measured must not look like one that was.
    fn read() -> Result<(Self, bool), String> {
        let (mut words, mut short) = (Vec::new(), false);
        // `--bench` comes from cargo.
        for word in std::env::args().skip(1).filter(|word| word != "--bench") {
            let known = METHODS.iter().chain(&SPEEDS).chain(&TESTS).any(|known| *known == word);
            match word.as_str() {
                "--short" => short = true,
                _ if known => words.push(word),
                _ => return Err(format!("'{word}' is none of {METHODS:?} {SPEEDS:?} {TESTS:?}")),
            }
        }
        Ok((Self { words }, short))
    }

    /// Whether `word` was named, or no other one of its kind.
    fn has(&self, word: &str, kind: &[&str]) -> bool {
        let mut named = self.words.iter().filter(|w| kind.contains(&w.as_str())).peekable();
        named.peek().is_none() || named.any(|w| w == word)
    }

    /// The points of a test, of these methods.
    fn points(&self, test: &str, methods: &[Method]) -> Vec<(Method, Speed)> {
        if !self.has(test, &TESTS) {
            return Vec::new();
        }
        let speeds = PERCENTS.iter().filter(|p| self.has(&format!("{p}%"), &SPEEDS));
        let speeds: Vec<Speed> = speeds.filter_map(|p| Speed::percent(*p)).collect();
        let methods = methods.iter().filter(|method| self.has(method.name(), &METHODS));
        methods.flat_map(|&method| speeds.iter().map(move |&speed| (method, speed))).collect()
    }
}

/// How many points kept the promise, and the names of those that did not.
#[derive(Default)]
struct Tally {
    kept: usize,
    missed: Vec<String>,
}

impl Tally {
    fn note(&mut self, point: String, broken: &[String]) {
        if broken.is_empty() {
            println!("      pass");
            self.kept += 1;
        } else {
            println!("      MISSED: {}", broken.join("; "));
            self.missed.push(point);
        }
    }
}

/// A test of pairs, and what its points are held against.
struct Test {
    name: &'static str,
    work: Work,
    title: &'static str,
    /// How far off the ideal, in points or, with `relative`, in percent of it.
    off_max: f64,
    relative: bool,
    /// How wide the interval may be, in points.
    width_max: f64,
}

const BOTH: [Method; 2] = [Method::Hogs, Method::Quota];
const PAIRED: [Test; 3] = [
    Test {
        name: "compute",
        work: Work::Compute,
        title: "work of a computing loop (within 1.5 points, interval 3 wide at most)",
        off_max: 1.5,
        relative: false,
        width_max: 3.0,
    },
    Test {
        name: "mixed",
        work: Work::Mixed,
        title: "1 ms of computing, 1 ms of sleep (within 5 %)",
        off_max: 5.0,
        relative: true,
        width_max: f64::INFINITY,
    },
    Test {
        name: "barrier",
        work: Work::Barrier,
        title: "threads of two CPUs that meet at a barrier every 0.6 ms (within 5 %)",
        off_max: 5.0,
        relative: true,
        width_max: f64::INFINITY,
    },
];

fn main() -> Result<(), Failure> {
    set_program(env!("CARGO_BIN_EXE_schedlab").into());
    let ((wanted, short), ground) = (Wanted::read()?, Ground::here());
    println!("load average {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    let mut tally = Tally::default();
    by_the_second(&wanted, &ground, if short { 2 } else { 10 }, &mut tally)?;
    let pairs = if short { 6 } else { PAIRS };
    for test in &PAIRED {
        // A budget is no speed: sleepers and threads that meet are not slowed by it as they should be.
        let methods = if test.work == Work::Compute { &BOTH[..] } else { &BOTH[..1] };
        let points = wanted.points(test.name, methods);
        if !points.is_empty() {
            println!("\n{}; {pairs} pairs", test.title);
        }
        for (method, speed) in points {
            test.tell(
                method,
                speed,
                &paired(test.work, method, speed, pairs, &ground)?,
                &mut tally,
            )?;
        }
    }
    println!("\n{} points kept the promise, {} missed it", tally.kept, tally.missed.len());
    for point in &tally.missed {
        println!("  again: cargo bench -p schedlab --bench slow -- {point}");
    }
    Ok(())
}

fn by_the_second(
    wanted: &Wanted,
    ground: &Ground,
    seconds: usize,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let points = wanted.points("seconds", &BOTH);
    if !points.is_empty() {
        println!("\nCPU time granted in each of {seconds} seconds (within 1 point in every one)");
    }
    for (method, speed) in points {
        let before = stolen();
        let shares = granted(method, speed, seconds, ground)?;
        let stolen = stolen() - before;
        let off = |share: &f64| (share - speed.fraction()) * 100.0;
        let low = shares.iter().map(off).fold(f64::INFINITY, f64::min);
        let high = shares.iter().map(off).fold(f64::NEG_INFINITY, f64::max);
        println!(
            "  {method:<6} {speed:>4}: {low:+.2} .. {high:+.2} points off; {stolen} stolen from the machine meanwhile"
        );
        let mut broken = Vec::new();
        if shares.len() < seconds {
            broken.push(format!("only {} seconds were measured", shares.len()));
        }
        if low < -1.0 || high > 1.0 {
            broken.push("a second is more than 1 point off".to_owned());
        }
        tally.note(format!("{method} {speed} seconds"), &broken);
    }
    Ok(())
}

/// What a hypervisor took from all CPUs so far: 10 ms in a second are a point that no method has in its hands.
fn stolen() -> Nanos {
    Nanos(schedlab_host::facts::facts().load.steal_ns)
}

impl Test {
    fn tell(
        &self,
        method: Method,
        speed: Speed,
        paired: &Paired,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let shift = paired_shift(&paired.ratios, 0.95)?;
        let mean = paired.ratios.iter().sum::<f64>() / paired.ratios.len() as f64;
        let percent = |part: f64| part * 100.0;
        let points = percent(shift.estimate - paired.ideal);
        let relative = percent(shift.estimate / paired.ideal - 1.0);
        let width = percent(shift.high - shift.low);
        println!(
            "  {method:<6} {speed:>4}: target {:.2}%, got {:.2}% of full speed ({points:+.2} points, {relative:+.1}%), \
             95% interval {:.2} .. {:.2} ({width:.2} wide)",
            percent(paired.ideal),
            percent(shift.estimate),
            percent(shift.low),
            percent(shift.high),
        );
        println!(
            "      mean {:.2}%, CPU time {:.2}% of that at full speed, controller {:.2}% of a CPU",
            percent(mean),
            percent(paired.granted),
            percent(paired.controller),
        );
        let off = if self.relative { relative } else { points };
        let mut broken = Vec::new();
        if off.abs() > self.off_max || !off.is_finite() {
            let unit = if self.relative { "%" } else { " points" };
            broken.push(format!("{off:+.2}{unit} off, {}{unit} at most", self.off_max));
        }
        if width > self.width_max {
            broken.push(format!("interval {width:.2} points wide, {} at most", self.width_max));
        }
        if paired.controller > CONTROLLER_MAX {
            broken.push("the controller used more than 0.5% of a CPU".to_owned());
        }
        tally.note(format!("{method} {speed} {}", self.name), &broken);
        Ok(())
    }
}
