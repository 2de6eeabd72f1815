//! Pictures of graphs, runs and sweeps, through the charts of `schedlab-draw`.

use crate::commands::result_file::save_picture;
pub(super) use crate::commands::result_file::{ThemeOption, check_picture as check};
use schedlab_draw::chart::{
    Axis, Chart, Edge, Gantt, Graph as GraphChart, Job, Line, Node, Sample, Series, Shape,
};
use schedlab_draw::{Colour, Theme, WORDS};
use schedlab_jobs::graph::Graph;
use schedlab_jobs::profile::concurrency_steps;
use schedlab_jobs::run::Run;
use schedlab_model::{Nanos, Span};
use schedlab_rig::{Cause, Stalls};
use std::collections::BTreeSet;
use std::path::Path;

const WIDTH_PX: i32 = 1200;
/// Levels of a graph whose colours the legend names.
const LEVELS_NAMED: usize = 8;

/// Writes a chart in the format that the name asks for.
pub(super) fn write(file: &Path, chart: &dyn Chart, theme: &Theme) -> anyhow::Result<()> {
    save_picture(file, &chart.scene(WIDTH_PX, theme))
}

/// A graph, coloured by weight.
pub(super) fn graph(graph: &Graph, title: &str, theme: &Theme) -> GraphChart {
    let nodes = (0..graph.len()).map(|node| Node {
        level: graph.level(node) as usize,
        name: node.to_string(),
        colour: theme.series(graph.weight(node) as usize),
    });
    let edges = (0..graph.len()).flat_map(|from| {
        let to = graph.successors(from).iter();
        to.map(move |&to| Edge { from: from as usize, to: to as usize })
    });
    let weights: BTreeSet<u32> = (0..graph.len()).map(|node| graph.weight(node)).collect();
    let legend = weights
        .iter()
        .take(theme.series.len())
        .map(|&weight| (theme.series(weight as usize), format!("weight {weight}")));
    GraphChart {
        title: title.to_owned(),
        notes: vec![format!(
            "{} jobs, {} levels, {} edges, hash {:016X}",
            graph.len(),
            graph.levels(),
            graph.edges(),
            graph.hash()
        )],
        nodes: nodes.collect(),
        edges: edges.collect(),
        legend: legend.collect(),
    }
}

/// What the colours of a painted run mean; time without any work to do stays blank.
const CAUSES: [(Cause, usize); 5] = [
    (Cause::JobDelayed, 1),
    (Cause::RunDelay, 5),
    (Cause::Awake, 6),
    (Cause::Asleep, 3),
    (Cause::Dependency, 8),
];

/// A recorded run: its jobs, and each other moment of each worker in the colour of its cause.
pub(super) fn painted(
    run: &Run,
    workers: usize,
    title: &str,
    notes: Vec<String>,
    stalls: &Stalls,
    theme: &Theme,
) -> Gantt {
    let mut gantt = self::run(run, workers, title, notes, theme);
    let job = theme.series(0);
    gantt.jobs.iter_mut().for_each(|one| one.colour = job);
    let base = run.base();
    let at = |time: Nanos| Nanos(time.0.saturating_sub(base));
    gantt.legend = vec![(job, "in jobs".to_owned())];
    for (cause, colour) in CAUSES {
        let colour = theme.series(colour);
        let all = stalls.stretches.iter().flatten().filter(|stall| stall.cause == cause);
        let before = gantt.over.len();
        gantt.over.extend(all.map(|stall| Job {
            lane: stall.worker,
            span: Span::new(at(stall.span.start), at(stall.span.end)),
            name: String::new(),
            colour,
            due: None,
        }));
        if gantt.over.len() > before {
            gantt.legend.push((colour, cause.key().replace('_', " ")));
        }
    }
    gantt.legend.push((WORDS, "blank: no work".to_owned()));
    gantt
}

/// A run: a lane per worker, each job where it ran.
pub(super) fn run(
    run: &Run,
    workers: usize,
    title: &str,
    notes: Vec<String>,
    theme: &Theme,
) -> Gantt {
    let base = run.base();
    let at = |time: u64| Nanos(time.saturating_sub(base));
    let timed = run.schedule().is_timed();
    let jobs = run.spans().into_iter().map(|span| Job {
        lane: span.worker as usize,
        span: Span::new(at(span.begin), at(span.end)),
        name: span.node.to_string(),
        colour: theme.series(run.graph().level(span.node) as usize),
        due: timed.then(|| Nanos(run.schedule().start(span.node))),
    });
    Gantt {
        title: title.to_owned(),
        notes,
        lanes: (0..workers).map(|worker| format!("worker {worker}")).collect(),
        jobs: jobs.collect(),
        over: Vec::new(),
        legend: levels(run, theme),
    }
}

/// What the colours of jobs mean, for the first few levels of the graph.
fn levels(run: &Run, theme: &Theme) -> Vec<(Colour, String)> {
    let count = run.graph().levels() as usize;
    let shown = count.min(LEVELS_NAMED);
    let mut legend: Vec<_> =
        (0..shown).map(|level| (theme.series(level), format!("level {level}"))).collect();
    if count > shown {
        let colours = theme.series.len();
        let again = if count > colours {
            format!("; colours repeat after {colours} levels")
        } else {
            String::new()
        };
        legend.push((WORDS, format!("and so on to level {}{again}", count - 1)));
    }
    legend
}

/// How many jobs ran at once, over the time of a run, beside the number of workers.
pub(super) fn concurrency(run: &Run, workers: usize, title: &str, notes: Vec<String>) -> Line {
    let ms = |time: u64| (time as f64 - run.base() as f64) / 1e6;
    let steps = concurrency_steps(&run.spans());
    let samples: Vec<Sample> =
        steps.iter().map(|&(time, level)| Sample::new(ms(time), level as f64)).collect();
    let ends = [samples.first(), samples.last()];
    let all = ends.into_iter().flatten().map(|end| Sample::new(end.x, workers as f64)).collect();
    Line {
        title: title.to_owned(),
        notes,
        x: Axis::new("time, ms"),
        y: Axis::counts("jobs at once").over(0.0, workers as f64 + 0.2),
        series: vec![
            Series { shape: Shape::Steps, ..Series::new("running", samples) },
            Series::ideal("workers", all),
        ],
    }
}
