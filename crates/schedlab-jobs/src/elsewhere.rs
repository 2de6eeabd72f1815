//! A run that another process performs: what that process is given, and the log that comes back.

use crate::graph::{Graph, Node};
use crate::load::Kind;
use crate::policy::{Criticality, Nanos, StreamId};
use crate::run::{Clock, Dropped, Run, Schedule, Span, Work};
use serde::{Deserialize, Serialize};

/// A run that has not begun, without the code of its work.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plain {
    graph: Graph,
    schedule: Schedule,
    // In order of nodes:
    expected_ns: Vec<Nanos>,
    kinds: Vec<String>,
    /// Which of [`CRITICALITIES`] each has.
    criticality: Vec<u8>,
    streams: Vec<StreamId>,
}

const CRITICALITIES: [Criticality; 3] =
    [Criticality::Optional, Criticality::Normal, Criticality::Compulsory];

/// What a run did.
#[derive(Debug, Serialize, Deserialize)]
pub struct Log {
    spans: Vec<Span>,
    dropped: Dropped,
}

/// Work that takes the planned time where time is virtual.
struct Planned {
    expected_ns: Vec<Nanos>,
    kinds: Vec<Kind>,
}

impl Work for Planned {
    fn perform(&self, _: Node) {}

    fn expected_ns(&self, node: Node) -> Nanos {
        self.expected_ns[node as usize]
    }

    fn kind(&self, node: Node) -> &'static str {
        self.kinds[node as usize].name()
    }
}

impl Plain {
    /// The run, with work that takes its time only where time is virtual.
    pub fn run(self) -> Run {
        let kinds = self.kinds.iter().map(|kind| kind.parse().unwrap_or_default()).collect();
        let work = Planned { expected_ns: self.expected_ns, kinds };
        let criticality = self.criticality.iter().map(|&at| CRITICALITIES[usize::from(at)]);
        Run::new(self.graph, self.schedule, Box::new(work), Clock::start())
            .with_criticality(criticality.collect())
            .with_streams(self.streams)
    }
}

impl Run {
    /// The run as another process gets it. Jobs that end after they returned are not part of it.
    pub fn plain(&self) -> Plain {
        let nodes = || 0..self.graph().len();
        Plain {
            graph: self.graph().clone(),
            schedule: self.schedule().clone(),
            expected_ns: nodes().map(|node| self.expected_ns(node)).collect(),
            kinds: nodes().map(|node| self.kind(node).to_owned()).collect(),
            criticality: nodes().map(|node| self.criticality(node) as u8).collect(),
            streams: nodes().map(|node| self.stream(node)).collect(),
        }
    }

    /// The log, for [`Run::take_over`].
    pub fn told_log(&self) -> Log {
        Log { spans: self.spans(), dropped: self.dropped() }
    }

    /// Logs what another process did, whose clock began with the run. The proof is made of this log.
    pub fn take_over(&self, mut log: Log) {
        self.set_base(0);
        // A predecessor ends no later, and has a smaller number.
        log.spans.sort_by_key(|span| (span.end, span.node));
        for span in &log.spans {
            self.log(span.node, span.worker as usize, span.begin, Some(span.end));
        }
        self.set_dropped(log.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};
    use crate::run::Flaw;

    #[test]
    fn a_run_elsewhere_is_proved_here() {
        let graph = || Shape::Stencil.build(&Rules { nodes: 40, fan: 4, ..Rules::default() });
        let work = || Planned { expected_ns: vec![7; 40], kinds: vec![Kind::Lock; 40] };
        let run = || Run::new(graph(), Schedule::default(), Box::new(work()), Clock::start());
        let here = run();
        let text = serde_json::to_string(&here.plain()).unwrap();
        let there = serde_json::from_str::<Plain>(&text).unwrap().run();
        assert_eq!((there.expected_ns(3), there.kind(3)), (7, "lock"));
        let at = |node: Node| 10 * u64::from(node);
        (0..40).for_each(|node| there.log(node, 1, at(node), Some(at(node) + 7)));
        assert_eq!(there.verify(), Ok(()));
        let log = |run: &Run| {
            let text = serde_json::to_string(&run.told_log()).unwrap();
            serde_json::from_str::<Log>(&text).unwrap()
        };
        here.take_over(log(&there));
        assert_eq!(here.verify(), Ok(()));
        assert_eq!(here.spans(), there.spans());
        // A log without the first job, whose process says that it is complete.
        let (short, again) = (run(), run());
        (1..40).for_each(|node| short.log(node, 1, at(node), Some(at(node) + 7)));
        again.take_over(log(&short));
        assert_eq!(again.verify(), Err(Flaw::Missing(0)));
    }
}
