//! From a trace.dat of ten million events on 128 CPUs to a PDF: at most 1.5 s is the aim.
//!
//! Prints each stage, and the page's size and time for the same trace. Beside it
//! kernelshark's load of the same file where its library is installed, and, on a trace that
//! `perf timechart` can still hold (recorded here, or named by `SCHEDLAB_PERF_DATA`), the ratio to that tool
//! in the same run. `SCHEDLAB_BENCH_EVENTS` asks for another number of events.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints what it found")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and the environment")]

use schedlab_draw::cores::{Cores, Size, cores};
use schedlab_draw::page::{Columns, page};
use schedlab_draw::rows::{Colouring, Rows, RowsOptions};
use schedlab_draw::{Theme, pdf, svg};
use schedlab_timeline::{ask, span_of};
use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Where files of this benchmark lie; no folder that other users share.
fn own() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    let events = std::env::var("SCHEDLAB_BENCH_EVENTS").ok().and_then(|text| text.parse().ok());
    let events = events.unwrap_or(10_000_000);
    let file = own().join(format!("picture-{}.dat", std::process::id()));
    let plan = Plan { cpus: 128, tasks_per_cpu: 3, events, seed: 1 };
    Synthetic::new(plan).write(&file, Header::default()).expect("the trace can be written");
    let size = std::fs::metadata(&file).expect("just written").len();
    println!("trace.dat: {events} events, 128 CPUs, {} MB", size >> 20);
    picture(&file);
    view(&file);
    kernelshark(&file);
    std::fs::remove_file(&file).expect("ours");
    peer();
}

/// Reads and draws; returns the seconds from the file to the bytes of the PDF.
fn picture(file: &Path) -> f64 {
    let start = Instant::now();
    let mut source = schedlab_trace::open(file).expect("a trace");
    let window = match source.info().span {
        Some(span) => span,
        None => {
            let span = span_of(source.as_mut()).expect("readable");
            source = schedlab_trace::open(file).expect("a trace");
            span
        }
    };
    let opened = start.elapsed();
    let question = Rows::new(RowsOptions {
        window,
        columns: Size::default().columns(false),
        colouring: Colouring::Pid,
        target: None,
        cpus: None,
        topology: None,
        theme: Theme::light(),
    });
    let reply = ask(source.as_mut(), question).expect("readable");
    let read = start.elapsed();
    let rows = Cores {
        title: "128 CPUs".into(),
        notes: Vec::new(),
        window,
        origin: window.start,
        rows: reply.answer.rows,
        names: reply.answer.names,
        legend: Vec::new(),
        marks: Vec::new(),
        labels: Vec::new(),
        lanes: Vec::new(),
    };
    let scene = cores(&rows, Size::default(), &Theme::light());
    let drawn = start.elapsed();
    let bytes = pdf(&scene);
    let all = start.elapsed().as_secs_f64();
    println!(
        "PDF in {all:.2} s (aim 1.5 s): open {:.2}, read {:.2}, scene {:.2}, spell {:.2}; {} KB, SVG {} KB",
        opened.as_secs_f64(),
        (read - opened).as_secs_f64(),
        (drawn - read).as_secs_f64(),
        all - drawn.as_secs_f64(),
        bytes.len() >> 10,
        svg(&scene).len() >> 10
    );
    all
}

fn view(file: &Path) {
    let start = Instant::now();
    let mut source = schedlab_trace::open(file).expect("a trace");
    let window = span_of(source.as_mut()).expect("readable");
    let mut source = schedlab_trace::open(file).expect("a trace");
    let reply = ask(source.as_mut(), Columns::new(window)).expect("readable");
    let html = page("bench", &reply.answer, None, &[], 0);
    println!(
        "page in {:.2} s: {} slices, {:.1} MB (aim: under 40 MB)",
        start.elapsed().as_secs_f64(),
        reply.answer.slices(),
        html.len() as f64 / 1e6
    );
}

/// The part of kernelshark that reads a file before anything can be drawn. Its three functions are
/// declared here, so that the library alone suffices, without the headers that its own ones need.
const LOAD: &str = r#"
#include <stdio.h>
#include <sys/types.h>
_Bool kshark_instance(void **);
int kshark_open(void *, const char *);
ssize_t kshark_load_entries(void *, int, void ***);
int main(int count, char **names) {
    void *context = NULL;
    void **rows = NULL;
    if (count < 2 || !kshark_instance(&context)) return 1;
    int stream = kshark_open(context, names[1]);
    if (stream < 0) return 2;
    ssize_t found = kshark_load_entries(context, stream, &rows);
    printf("%zd", found);
    return found > 0 ? 0 : 3;
}
"#;

/// How long libkshark takes to load the same file, by a small program built against it here.
fn kernelshark(file: &Path) {
    let base = own().join(format!("kshark-{}", std::process::id()));
    let source = base.with_extension("c");
    std::fs::write(&source, LOAD).expect("writable");
    let mut build = Command::new("cc");
    build.arg("-O2").arg(&source).arg("-o").arg(&base).arg("-l:libkshark.so.2");
    let built = build.output().is_ok_and(|output| output.status.success());
    if built {
        let start = Instant::now();
        let done = Command::new(&base).arg(file).output();
        let theirs = start.elapsed().as_secs_f64();
        match done {
            Ok(output) if output.status.success() => println!(
                "kernelshark's load: {theirs:.2} s for {} rows, before anything is drawn",
                String::from_utf8_lossy(&output.stdout)
            ),
            Ok(output) => {
                eprintln!("MISSING: libkshark could not load the trace: {}", output.status);
            }
            Err(error) => eprintln!("MISSING: libkshark's program did not start: {error}"),
        }
    } else {
        eprintln!("MISSING: libkshark2 and a C compiler: kernelshark's load was not measured");
    }
    let _ = std::fs::remove_file(&base);
    let _ = std::fs::remove_file(&source);
}

/// `perf timechart` on a trace that it can hold: the one that `SCHEDLAB_PERF_DATA` names, else a short
/// recording of perf's own scheduler benchmark, made here.
fn peer() {
    let recorded = own().join(format!("peer-{}.data", std::process::id()));
    match std::env::var_os("SCHEDLAB_PERF_DATA").map(PathBuf::from) {
        Some(file) => timechart(&file),
        None if record(&recorded) => timechart(&recorded),
        None => eprintln!(
            "MISSING: a right to record by 'perf sched record', or perf itself, and no SCHEDLAB_PERF_DATA: \
             perf timechart was not measured"
        ),
    }
    let _ = std::fs::remove_file(&recorded);
}

fn record(file: &Path) -> bool {
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-o"]).arg(file);
    // Some tens of thousands of switches: `perf timechart` takes minutes for millions.
    perf.args(["--", "perf", "bench", "sched", "messaging", "-g", "2", "-l", "100"]);
    perf.output().is_ok_and(|output| output.status.success()) && file.exists()
}

fn timechart(file: &Path) {
    let out = own().join(format!("timechart-{}.svg", std::process::id()));
    let start = Instant::now();
    let done =
        Command::new("perf").arg("timechart").arg("-i").arg(file).arg("-o").arg(&out).output();
    let theirs = start.elapsed().as_secs_f64();
    match done {
        Ok(output) if output.status.success() => {
            let ours = picture(file);
            let size = std::fs::metadata(&out).map_or(0, |data| data.len());
            println!(
                "perf timechart of the same {} KB: {theirs:.2} s, {} KB; {:.1} times ours",
                std::fs::metadata(file).map_or(0, |data| data.len()) >> 10,
                size >> 10,
                theirs / ours
            );
        }
        _ => eprintln!("MISSING: perf timechart could not draw {}", file.display()),
    }
    let _ = std::fs::remove_file(&out);
}
