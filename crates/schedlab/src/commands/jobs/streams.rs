//! Streams of jobs as options, and their figures.

use super::table;
use crate::commands::UsageError;
use schedlab_jobs::load::{IoLoad, Length, Stream, Streams, Usual};
use schedlab_jobs::policy::{NEVER, StreamId};
use schedlab_jobs::profile::{quantile, ready_times};
use schedlab_jobs::run::Run;
use schedlab_model::table::{Column, Row, Rows};
use schedlab_model::{Nanos, columns};

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
pub(super) struct Figures {
    stream: String,
    jobs: usize,
    ran: usize,
    failed: usize,
    late: usize,
    /// Ascending, as the next.
    lateness_ns: Vec<u64>,
    post_to_start_ns: Vec<u64>,
}

impl Row for Figures {
    const ABOUT: &'static str = "The jobs of one stream.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "stream" ["stream"] = row.stream.clone(), "Name of the stream.";
            "jobs" ["jobs", 2] = row.jobs, "Its jobs.";
            "ran" ["ran", 3] = row.ran, "Jobs that ran.";
            "failed" ["failed", 3] = row.failed, "They ran, and their I/O failed.";
            "late" ["late"] = row.late, "They ran, and began after their deadline.";
            "lateness_ns_p50" ["lateness p50", 1] = quantile(&row.lateness_ns, 0.5).map(Nanos), "After the start time and the end of the predecessors.";
            "lateness_ns_p99" ["lateness p99"] = quantile(&row.lateness_ns, 0.99).map(Nanos), "99 % of the jobs are not later.";
            "post_to_start_ns_p99" ["post to start", 1] = quantile(&row.post_to_start_ns, 0.99).map(Nanos), "The same, and after they were posted.";
        }
    }
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
                let mut lateness_ns: Vec<u64> = own
                    .iter()
                    .map(|span| span.begin.saturating_sub(ready[span.node as usize]))
                    .collect();
                let mut post_to_start_ns: Vec<u64> = own
                    .iter()
                    .map(|span| {
                        let posted = run.posted(span.node).unwrap_or(0);
                        span.begin.saturating_sub(ready[span.node as usize].max(posted))
                    })
                    .collect();
                lateness_ns.sort_unstable();
                post_to_start_ns.sort_unstable();
                let deadline = |node| match run.schedule().deadline(node) {
                    NEVER => NEVER,
                    deadline => deadline.saturating_add(run.base()),
                };
                let failed = |node| run.io(node).is_some_and(|io| io.fails);
                let jobs = (0..run.graph().len()).filter(|&node| run.stream(node) == id);
                Self {
                    stream: streams.name(id).to_owned(),
                    jobs: jobs.count(),
                    ran: own.len(),
                    failed: own.iter().filter(|span| failed(span.node)).count(),
                    late: own.iter().filter(|s| s.begin > deadline(s.node)).count(),
                    lateness_ns,
                    post_to_start_ns,
                }
            })
            .collect()
    }
}

/// The figures for people; nothing where all jobs are usual.
pub(super) fn text(streams: &Rows<'_, Figures>, room: usize) -> String {
    if streams.rows().is_empty() { String::new() } else { table::rows(streams, room, &[]) }
}
