//! Streams of jobs as options, and their figures.

use super::table;
use crate::commands::UsageError;
use schedlab_jobs::load::{IoLoad, Length, Stream, Streams, Usual};
use schedlab_jobs::policy::{NEVER, StreamId};
use schedlab_jobs::profile::{quantile, ready_times};
use schedlab_jobs::run::Run;
use schedlab_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What differs between jobs beside their work.
#[derive(clap::Args)]
pub(super) struct StreamArgs {
    /// Distribution of lives around --life: fixed, exponential, bimodal:FRACTION:TIMES or pareto:SHAPE
    #[arg(long, value_name = "LENGTH", default_value = "fixed", requires = "life")]
    life_spread: Length,
    /// Give a part of the jobs its own values, as in preview:share=30%,time=100us,life=5ms,criticality=optional,
    /// io=2ms:1%; also length and life-spread. Shares are drawn from seed and job (repeatable)
    #[arg(long = "stream", value_name = "NAME:share=PART,KEY=VALUE,...")]
    streams: Vec<Stream>,
    /// Let I/O go on for TIME after each job, while its worker is free; a part may fail, as in 2ms:1%
    #[arg(long, value_name = "TIME[:PART]")]
    io: Option<IoLoad>,
}

impl StreamArgs {
    /// Refuses streams and I/O where a command makes its own schedule.
    pub(super) fn refuse(&self, command: &str) -> Result<(), UsageError> {
        if self.streams.is_empty() && self.io.is_none() {
            return Ok(());
        }
        Err(UsageError(format!("{command} does not offer --stream and --io")))
    }

    pub(super) fn streams(
        &self,
        time: Nanos,
        length: Length,
        life: Option<Nanos>,
        seed: u64,
    ) -> anyhow::Result<Streams> {
        let life_ns = life.map(|life| life.0);
        let usual =
            Usual { time_ns: time.0, length, life_ns, spread: self.life_spread, io: self.io };
        let lifeless = self.streams.iter().find(|stream| {
            let matters = stream.criticality.is_some() || stream.spread.is_some();
            matters && stream.life_ns.is_none() && life.is_none()
        });
        if let Some(stream) = lifeless {
            let what = format!("--stream {}: criticality needs a life", stream.name);
            return Err(UsageError(what).into());
        }
        let streams = Streams::new(usual, self.streams.clone(), seed);
        Ok(streams.map_err(|why| UsageError(format!("--stream: {why}")))?)
    }
}

/// The jobs of one stream.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StreamFigures")]
pub(super) struct Figures {
    stream: String,
    jobs: u64,
    ran: u64,
    /// They ran, and their I/O failed.
    failed: u64,
    /// They ran, and began after their deadline.
    late: u64,
    /// After the start time and the end of the predecessors.
    lateness_ns_p50: Option<u64>,
    lateness_ns_p99: Option<u64>,
    /// The same, and after they were posted.
    post_to_start_ns_p99: Option<u64>,
}

impl Figures {
    /// Of each stream; none where all jobs are usual.
    pub(super) fn of(run: &Run, streams: &Streams) -> Vec<Self> {
        if streams.is_empty() {
            return Vec::new();
        }
        let spans = run.spans();
        let ready = ready_times(run, &spans);
        let ids = (0..run.graph().len()).map(|node| run.stream(node));
        let ids: std::collections::BTreeSet<StreamId> = ids.collect();
        ids.into_iter()
            .map(|id| {
                let own: Vec<_> = spans.iter().filter(|s| run.stream(s.node) == id).collect();
                let mut lateness: Vec<u64> = own
                    .iter()
                    .map(|span| span.begin.saturating_sub(ready[span.node as usize]))
                    .collect();
                let mut post: Vec<u64> = own
                    .iter()
                    .map(|span| {
                        let posted = run.posted(span.node).unwrap_or(0);
                        span.begin.saturating_sub(ready[span.node as usize].max(posted))
                    })
                    .collect();
                lateness.sort_unstable();
                post.sort_unstable();
                let deadline = |node| match run.schedule().deadline(node) {
                    NEVER => NEVER,
                    deadline => deadline.saturating_add(run.base()),
                };
                let failed = |node| run.io(node).is_some_and(|io| io.fails);
                let jobs = (0..run.graph().len()).filter(|&node| run.stream(node) == id);
                Self {
                    stream: streams.name(id).to_owned(),
                    jobs: jobs.count() as u64,
                    ran: own.len() as u64,
                    failed: own.iter().filter(|span| failed(span.node)).count() as u64,
                    late: own.iter().filter(|s| s.begin > deadline(s.node)).count() as u64,
                    lateness_ns_p50: quantile(&lateness, 0.5),
                    lateness_ns_p99: quantile(&lateness, 0.99),
                    post_to_start_ns_p99: quantile(&post, 0.99),
                }
            })
            .collect()
    }
}

/// The figures for people.
pub(super) fn text(streams: &[Figures], room: usize) -> String {
    if streams.is_empty() {
        return String::new();
    }
    let head = [
        "stream",
        "jobs",
        "ran",
        "failed",
        "late",
        "lateness p50",
        "lateness p99",
        "post to start",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| table::time(ns as f64));
    rows.extend(streams.iter().map(|stream| {
        vec![
            stream.stream.clone(),
            stream.jobs.to_string(),
            stream.ran.to_string(),
            stream.failed.to_string(),
            stream.late.to_string(),
            time(stream.lateness_ns_p50),
            time(stream.lateness_ns_p99),
            time(stream.post_to_start_ns_p99),
        ]
    }));
    table::fitting(&rows, &[0, 2, 3, 3, 0, 1, 0, 1], room)
}
