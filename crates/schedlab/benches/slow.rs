//! How true speeds are, in the figures that the project promises. Run alone on a quiet machine:
//!
//! ```text
//! cargo bench -p schedlab --bench slow            # some ten minutes
//! cargo bench -p schedlab --bench slow -- --short # seconds, for a look
//! ```
//!
//! Printed: CPU time granted in each second; work of a computing loop over interleaved pairs with full
//! speed, with its 95 % interval; computing and sleeping; threads that meet at barriers; and the CPU
//! time of the controller outside its burners. Each line ends with what it is held against.

#![expect(clippy::print_stdout, reason = "a benchmark speaks")]

use schedlab_host::slow::{
    Benchmark, Evaluation, Figures, Ground, Method, Results, Speed, evaluate, granted, set_program,
};
use schedlab_model::Nanos;
use schedlab_sys::signal;

const PERCENTS: [u32; 3] = [25, 50, 75];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_program(env!("CARGO_BIN_EXE_schedlab").into());
    let short = std::env::args().any(|argument| argument == "--short");
    let ground = Ground::here();
    println!("load average {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    by_the_second(&ground, if short { 2 } else { 10 })?;
    let signals = signal::catch()?;
    let dir = std::env::temp_dir().join(format!("schedlab-bench-slow-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    for (benchmarks, cpus, title) in [
        (
            vec![Benchmark::Cpu],
            1,
            "work of a computing loop (within 1.5 points, interval 3 wide at most)",
        ),
        (vec![Benchmark::Sleep], 1, "1 ms of computing, 1 ms of sleep (hogs within 5 %)"),
        (
            vec![Benchmark::Barrier],
            2,
            "threads that meet at a barrier every 0.6 ms (hogs within 5 %)",
        ),
    ] {
        let evaluation = Evaluation {
            methods: vec![Method::Hogs, Method::Quota],
            benchmarks,
            cpus: vec![cpus],
            speeds: PERCENTS.into_iter().filter_map(Speed::percent).collect(),
            repeats: if short { 3 } else { 40 },
            time: Nanos::from_millis(if short { 200 } else { 600 }),
        };
        println!("\n{title}");
        let results = evaluate(&evaluation, &ground, &dir, signals, &mut |_, _, _| ())?;
        print(&results);
        if results.partial {
            println!("interrupted: the figures are partial");
            break;
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn by_the_second(ground: &Ground, seconds: usize) -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "\nCPU time granted in each of {seconds} seconds (within 1 point of the speed in every one)"
    );
    for method in [Method::Hogs, Method::Quota] {
        for speed in PERCENTS.into_iter().filter_map(Speed::percent) {
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

fn print(results: &Results) {
    for figures in results.results.iter().filter(|figures: &&Figures| figures.method != "none") {
        let (reached, interval) = figures.reached();
        let (low, high) = interval.unwrap_or((f64::NAN, f64::NAN));
        println!(
            "  {:<6} {:>3.0}%: {:.2}% of full speed, 95% interval {:.2} .. {:.2} ({:.2} wide), ideal {:.2}: {:+.2} points, \
             {:+.1}%; controller {:.2}% of a CPU (below 0.5%)",
            figures.method,
            figures.speed * 100.0,
            reached * 100.0,
            low * 100.0,
            high * 100.0,
            (high - low) * 100.0,
            figures.ideal * 100.0,
            (reached - figures.ideal) * 100.0,
            (reached / figures.ideal - 1.0) * 100.0,
            figures.controller * 100.0,
        );
    }
    for why in &results.left_out {
        println!("  left out: {why}");
    }
}
