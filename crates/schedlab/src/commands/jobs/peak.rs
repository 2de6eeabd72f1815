//! `schedlab jobs peak`: a sweep of the number of jobs, or of their length, and the models of run time.

use super::figures::Figures;
use super::fit::{self, ModelFigures, Models, milliseconds};
use super::options::Setup;
use super::{picture, table};
use crate::commands::UsageError;
use crate::json;
use anyhow::Context;
use schedlab_jobs::adaptors::Serial;
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::Shape;
use schedlab_jobs::load::Burner;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::virtual_time::VirtualTime;
use schedlab_model::table::{Column, Row, Rows, column};
use schedlab_model::{Nanos, columns};
use schedlab_stats::{Interval, Random, Sample, least_squares, t_interval};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab jobs peak`.
#[derive(clap::Args)]
#[command(after_help = "\
Jobs are independent unless you give --shape, and all due at once unless you give --arrivals.
With a gap between arrivals, concurrency cannot exceed the offered load; the table shows both.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) setup: Setup,
    /// Sweep the number of jobs
    #[arg(long, value_name = "FROM..TO", default_value = "10..100")]
    jobs: String,
    /// Sweep the length of jobs instead, with units; their number is --nodes
    #[arg(long, value_name = "FROM..TO")]
    lengths: Option<String>,
    /// Measure N points
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    points: u32,
    /// Run all points N times, in turns, in one random order
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// Executor: schedlab, rayon, tokio, channel, cmd:PROGRAM or lib:FILE.so
    #[arg(long, value_name = "NAME", default_value = "schedlab")]
    executor: String,
    /// Write the rows as CSV to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a gnuplot script with the data to FILE
    #[arg(long, value_name = "FILE")]
    gnuplot: Option<PathBuf>,
    /// Draw the regression with its residuals to FILE: .svg, .pdf or .png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    ground: picture::ThemeOption,
}

/// A run of the sweep.
struct Point {
    x: f64,
    ideal_ns: u64,
    figures: Figures,
}

impl Row for Point {
    const ABOUT: &'static str = Figures::ABOUT;

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "x" = row.x, "The number of jobs, or their length in ms.";
            "ideal_ns" ["ideal", 2] = Nanos(row.ideal_ns), "The run time of a list schedule without any cost.";
        };
        columns.extend(Figures::columns().into_iter().map(|one| one.of(|row: &Self| &row.figures)));
        // Text has the run time, which is the first of the figures, before the ideal one.
        columns.swap(1, 2);
        columns
    }
}

impl Point {
    const fn profile(&self) -> &Profile {
        &self.figures.profile
    }
}

/// `schedlab jobs peak --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'a> {
    interrupted: bool,
    executor: String,
    workers: usize,
    /// The last point on one worker without a scheduler.
    serial_ns: u64,
    model: Model,
    /// Each run, in order of x.
    points: Rows<'a, Point>,
    /// Each point over its repeats.
    repeated: Vec<Repeated>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/jobs-peak/1";
}

#[derive(Serialize, JsonSchema)]
struct Model {
    #[serde(flatten)]
    model: ModelFigures,
    /// What the socket consists of.
    socket_parts_ms: Socket,
}

#[derive(Serialize, JsonSchema)]
struct Socket {
    work: Option<f64>,
    ramp_up: Option<f64>,
    shutdown: Option<f64>,
    rest: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
struct Repeated {
    x: f64,
    run_ns: Vec<f64>,
    run_ns_mean: f64,
    /// The interval of the mean; `null` of a single run.
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    run_ns_ci95: Option<[f64; 2]>,
}

pub(super) fn run(args: &Args, room: usize) -> anyhow::Result<ExitCode> {
    if args.lengths.is_none() && args.setup.graph.file().is_some() {
        let what = "a graph from a file has its own number of jobs: sweep --lengths";
        return Err(UsageError(what.to_owned()).into());
    }
    let mut executor = args.setup.executor.named(&args.executor)?;
    let workers = executor.workers();
    let burner = args.setup.burner(workers)?;
    let mut rows = Vec::new();
    let swept = points(args)?;
    'turns: for _ in 0..args.repeat {
        for &x in &swept {
            match row(args, executor.as_mut(), burner, x, rows.len() as u64) {
                Ok(row) => rows.push(row),
                Err(_) if super::interrupted() => break 'turns,
                Err(error) => return Err(error),
            }
        }
    }
    if super::interrupted() {
        let all = swept.len() * args.repeat as usize;
        table::note(&format!("interrupted: {} of {all} runs are measured", rows.len()));
        anyhow::ensure!(rows.len() >= 3, "interrupted before there were three points to fit");
    }
    let serial_ns = serial(args, burner, rows.iter().map(|row| row.x).fold(0.0, f64::max))?;
    let points: Vec<(f64, f64)> =
        rows.iter().map(|row| (row.x, row.profile().covered_ns as f64 / 1e6)).collect();
    let models = Models::of(&points)?;
    let others = others(&rows);
    let label = if args.lengths.is_some() { "length of a job, ms" } else { "jobs" };
    if let Some(file) = &args.csv {
        table::save(file, csv(&rows).as_bytes())?;
    }
    if let Some(file) = &args.gnuplot {
        table::save(file, gnuplot(&rows, &models, label).as_bytes())?;
    }
    if let Some(file) = &args.output {
        let each = match args.lengths {
            Some(_) => String::new(),
            None => format!(", jobs of {}", args.setup.load.time),
        };
        let title = format!("Load peak: {}, {workers} workers{each}", executor.name());
        let curves = others.iter().map(fit::Column::curve).collect();
        let chart = fit::chart(&title, label, &points, &models, curves);
        picture::write(file, &chart, &args.ground.theme())?;
    }
    rows.sort_by(|a, b| a.x.total_cmp(&b.x));
    if args.setup.json {
        json::print(&Document {
            interrupted: super::interrupted(),
            executor: executor.name(),
            workers,
            serial_ns,
            model: Model { model: models.document(), socket_parts_ms: socket(&rows, workers) },
            points: Rows::new(&rows, Nanos::ZERO),
            repeated: repeated(&rows),
        })?;
    } else {
        let repeats = args.repeat;
        let answer = Answer { rows: &rows, label, workers, serial_ns, repeats, models, others };
        table::say(&answer.text(room))?;
    }
    Ok(super::code(ExitCode::SUCCESS))
}

/// What a sweep found.
struct Answer<'a> {
    rows: &'a [Point],
    /// Names the axis.
    label: &'a str,
    workers: usize,
    serial_ns: u64,
    repeats: u32,
    models: Models,
    others: Vec<fit::Column>,
}

impl Answer<'_> {
    /// The answer in words, and in tables of at most `room` characters a line.
    fn text(&self, room: usize) -> String {
        let Self { rows, label, workers, .. } = *self;
        let mut text = text(rows, label, room);
        let serial = table::time(self.serial_ns as f64);
        let _ = writeln!(text, "\nserial, at the last point: {serial}\n");
        if self.repeats > 1 {
            text += &intervals(rows, label);
        }
        text += &self.models.text(room);
        text.extend(self.others.iter().map(fit::Column::text));
        let parts = socket(rows, workers);
        let of = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), milliseconds);
        let [work, ramp, down, rest] =
            [parts.work, parts.ramp_up, parts.shutdown, parts.rest].map(of);
        let _ = writeln!(
            text,
            "of the socket, by events: work {work}, ramp-up {ramp}, shutdown {down}, rest {rest}"
        );
        text
    }
}

/// The points in random order, so that drift is not taken for an effect; both bounds are among them.
fn points(args: &Args) -> anyhow::Result<Vec<f64>> {
    let wrong = |text: &str| {
        UsageError(format!("invalid range '{text}': use FROM..TO, with FROM below TO"))
    };
    let (text, unit) = match &args.lengths {
        Some(lengths) => (lengths, true),
        None => (&args.jobs, false),
    };
    let (from, to) = text.split_once("..").ok_or_else(|| wrong(text))?;
    let read = |bound: &str| -> Option<f64> {
        if unit {
            bound.parse::<Nanos>().ok().map(|ns| ns.0 as f64 / 1e6)
        } else {
            bound.parse().ok()
        }
    };
    let (from, to) = read(from).zip(read(to)).ok_or_else(|| wrong(text))?;
    if !(from > 0.0 && from < to && to < 1e8) {
        return Err(wrong(text).into());
    }
    let mut random = Random::new(args.setup.graph.seed.unwrap_or(1));
    let mut points: Vec<f64> =
        (0..args.points).map(|_| from + random.unit() * (to - from)).collect();
    let last = points.len() - 1;
    (points[last - 1], points[last]) = (from, to);
    if !unit {
        points.iter_mut().for_each(|x| *x = x.round());
    }
    Ok(points)
}

fn row(
    args: &Args,
    executor: &mut dyn Executor,
    burner: Burner,
    x: f64,
    seed: u64,
) -> anyhow::Result<Point> {
    let workers = executor.workers();
    let make = || one(args, burner, x, seed);
    let measured = make()?;
    let told = executor.run(&measured)?;
    measured.verify().with_context(|| format!("at {x}, the run failed its proof"))?;
    let profile = Profile::of(&measured, workers);
    let ideal = make()?;
    VirtualTime::ideal(workers).run(&ideal)?;
    let ideal_ns = Profile::of(&ideal, workers).covered_ns;
    Ok(Point { x, ideal_ns, figures: Figures { profile, workers, told } })
}

/// A fresh run for a point.
fn one(
    args: &Args,
    burner: Burner,
    x: f64,
    seed: u64,
) -> anyhow::Result<std::sync::Arc<schedlab_jobs::run::Run>> {
    let nodes = if args.lengths.is_some() { args.setup.graph.nodes } else { x as u32 };
    // The usual peak is of independent jobs; shapes and rules are taken as asked.
    let graph = args.setup.graph.sized(nodes, Shape::Isolated)?;
    let time = if args.lengths.is_some() { Nanos((x * 1e6) as u64) } else { args.setup.load.time };
    Ok(std::sync::Arc::new(args.setup.load.at(time, graph, burner, seed)?))
}

fn serial(args: &Args, burner: Burner, x: f64) -> anyhow::Result<u64> {
    let run = one(args, burner, x, 0)?;
    let plain = !run.schedule().is_timed() && !run.schedule().has_deadlines();
    if !plain || run.is_stopped() || args.setup.executor.on.is_some() {
        // A serial pass does not know start times; its work is the sum of the planned work. So it is when no time is left,
        // and in virtual time.
        return Ok((0..run.graph().len()).map(|node| run.expected_ns(node)).sum());
    }
    Serial.run(&run)?;
    Ok(Profile::of(&run, 1).covered_ns)
}

/// Each point over its repeats.
fn repeated(rows: &[Point]) -> Vec<Repeated> {
    let same = |a: &Point, b: &Point| a.x.total_cmp(&b.x).is_eq();
    let of = |runs: &[Point]| {
        let times: Vec<f64> = runs.iter().map(|run| run.profile().covered_ns as f64).collect();
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        let interval = Sample::new(times.clone()).ok().and_then(|s| t_interval(&s, 0.95).ok());
        let interval = interval.map(Interval::not_negative);
        Repeated {
            x: runs.first().map_or(0.0, |run| run.x),
            run_ns: times,
            run_ns_mean: mean,
            run_ns_ci95: interval.map(|interval| [interval.low, interval.high]),
        }
    };
    rows.chunk_by(same).map(of).collect()
}

fn intervals(rows: &[Point], label: &str) -> String {
    let mut cells = vec![[label, "runs", "run, mean", "95 %"].map(str::to_owned).to_vec()];
    for Repeated { x, run_ns, run_ns_mean, run_ns_ci95 } in repeated(rows) {
        let range = |[low, high]: [f64; 2]| format!("{}..{}", table::time(low), table::time(high));
        let ci95 = run_ns_ci95.map_or_else(|| "-".to_owned(), range);
        let count = run_ns.len().to_string();
        cells.push(vec![format!("{x:.3}"), count, table::time(run_ns_mean), ci95]);
    }
    table::columns(&cells) + "\n"
}

/// What the socket consists of, in ms. The run time of each point is the sum of four parts, each divided by the workers:
/// work, what idle workers lost in ramp-up and in shutdown, and the rest. Each part gets a line over the points as the run
/// time does; least squares are additive, so the sockets of these lines add up to that of the run time.
fn socket(rows: &[Point], workers: usize) -> Socket {
    let of = |part: fn(&Profile, u64) -> f64| {
        let points: Vec<(f64, f64)> =
            rows.iter().map(|r| (r.x, part(r.profile(), workers as u64) / 1e6)).collect();
        least_squares(&points).ok().map(|fit| fit.line.intercept)
    };
    Socket {
        work: of(|p, workers| p.wall_ns as f64 / workers as f64),
        ramp_up: of(|p, _| p.ramp_up_lost_ns.unwrap_or(0) as f64),
        shutdown: of(shutdown_lost),
        rest: of(|p, workers| {
            let ramp = p.ramp_up_lost_ns.unwrap_or(0) as f64;
            p.covered_ns as f64
                - p.wall_ns as f64 / workers as f64
                - ramp
                - shutdown_lost(p, workers)
        }),
    }
}

/// Of a run with fewer jobs than workers, all idle time.
fn shutdown_lost(profile: &Profile, workers: u64) -> f64 {
    let idle = profile.covered_ns as f64 - profile.wall_ns as f64 / workers as f64;
    profile.shutdown_lost_ns.map_or(idle, |lost| lost as f64)
}

fn text(rows: &[Point], label: &str, room: usize) -> String {
    // What x is called is known only now, and whole numbers have no decimals.
    let x = column("jobs_or_length", "x", |row: &Point| match row.x {
        x if x == x.round() => format!("{x}"),
        x => format!("{x:.3}"),
    });
    let rows = Rows::new(rows, Nanos::ZERO).before("x", x.title(label.to_owned()));
    table::rows(&rows, room, &["x"])
}

/// What is measured beside the run time.
fn others(rows: &[Point]) -> Vec<fit::Column> {
    let of = |name, value: fn(&Profile) -> f64| {
        fit::Column::over(name, rows.iter().map(|row| (row.x, value(row.profile()))).collect())
    };
    let all = [
        of("concurrency", Profile::concurrency),
        of("job time, µs", |p| p.wall_ns as f64 / p.jobs.max(1) as f64 / 1e3),
        of("impeded, µs a job", |p| p.impeded_ns() as f64 / p.jobs.max(1) as f64 / 1e3),
    ];
    all.into_iter().flatten().collect()
}

/// The original's columns, in its units.
fn csv(rows: &[Point]) -> String {
    let mut text = String::from(
        "\"load size\",\"result time\",\"concurrency\",\"avg jobtime\",\"avg impeded\"\n",
    );
    for Point { x, figures: Figures { profile, .. }, .. } in rows {
        let jobs = profile.jobs.max(1) as f64;
        let _ = writeln!(
            text,
            "{x},{},{},{},{}",
            profile.covered_ns as f64 / 1e6,
            profile.concurrency(),
            profile.wall_ns as f64 / jobs / 1e3,
            profile.impeded_ns() as f64 / jobs / 1e3,
        );
    }
    text
}

/// Above the run times with the line, below concurrency as impulses, and on a second axis the times of a job. Both
/// plots stand over each other, and no point lies on a frame.
fn gnuplot(rows: &[Point], models: &Models, label: &str) -> String {
    let line = models.line.line;
    let xs = || rows.iter().map(|row| row.x);
    let from = xs().fold(f64::MAX, f64::min);
    let to = xs().fold(0.0, f64::max);
    let room = (to - from) / 20.0;
    format!(
        "$data << EOD\n{}EOD\n\
         set datafile separator ','\n\
         set multiplot layout 2,1\n\
         set grid\nset key above left vertical Left reverse width -6\n\
         set lmargin 10\nset rmargin 10\nset xrange [{}:{}]\nset yrange [0:*]\n\
         set ylabel 'run time, ms'\n\
         plot $data using 1:2 skip 1 with points pt 7 title 'measured', \\\n     \
         {} + {} * x with lines lw 2 title '{}'\n\
         set xlabel '{label}'\nset ylabel 'concurrency'\n\
         set ytics nomirror\nset y2tics\nset y2label 'us a job'\nset y2range [0:*]\n\
         plot $data using 1:3 skip 1 with impulses lw 2 title 'concurrency', \\\n     \
         $data using 1:4 skip 1 axes x1y2 with points pt 5 ps 0.6 title 'job time', \\\n     \
         $data using 1:5 skip 1 axes x1y2 with points pt 9 ps 0.6 title 'impeded'\n\
         unset multiplot\n",
        csv(rows),
        from - room,
        to + room,
        line.intercept,
        line.slope,
        models.sentence(),
    )
}
