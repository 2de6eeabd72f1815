//! A run once more, without the cost of a scheduler. The lateness that is left comes from the load and the machine.

use crate::executor::{Executor, ExecutorError};
use crate::graph::Node;
use crate::policy::Nanos;
use crate::profile::Profile;
use crate::run::{Run, Work};
use crate::virtual_time::VirtualTime;
use std::sync::Arc;

/// Jobs that take what they took.
struct Achieved(Vec<Nanos>);

impl Work for Achieved {
    fn perform(&self, _: Node) {}

    fn expected_ns(&self, node: Node) -> Nanos {
        self.0[node as usize]
    }
}

/// The ideal list schedule of a finished run, each job as long as it really was, interruptions by others
/// included. Where measured lateness is above this one's, the executor (or a stall between two jobs) made it.
///
/// # Errors
/// When the graph does not come to its end, which a proved run's does.
pub fn replay(run: &Run, workers: usize) -> Result<Profile, ExecutorError> {
    let mut took = vec![0; run.graph().len() as usize];
    for span in run.spans() {
        took[span.node as usize] = span.end.saturating_sub(span.begin);
    }
    let graph = run.graph().clone();
    let schedule = run.schedule().clone();
    let again = Arc::new(Run::new(graph, schedule, Box::new(Achieved(took)), run.clock()));
    VirtualTime::ideal(workers).run(&again)?;
    Ok(Profile::of(&again, workers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};
    use crate::run::{Clock, NoWork, Schedule};

    #[test]
    fn a_stall_in_a_job_is_replayed_and_one_between_jobs_is_not() {
        let graph = Shape::Isolated.build(&Rules { nodes: 3, ..Rules::default() });
        let starts = vec![0, 1_000_000, 2_000_000];
        let schedule = Schedule { starts, life_ns: None, ..Schedule::default() };
        let run = Run::new(graph, schedule, Box::new(NoWork), Clock::start());
        run.set_base(0);
        // The first job was held up for 400 us beyond the second's start; then 300 us went by for nothing.
        run.log(0, 0, 0, Some(1_400_000));
        run.log(1, 0, 1_700_000, Some(1_800_000));
        run.log(2, 0, 2_000_000, Some(2_100_000));
        let late = |profile: &Profile| profile.lateness(1.0).map(|ns| ns / 100_000);
        assert_eq!(late(&Profile::of(&run, 1)), Some(7));
        assert_eq!(late(&replay(&run, 1).unwrap()), Some(4));
    }
}
