//! What the jobs of a run waited for.

use crate::graph::Node;
use crate::policy::NEVER;
use crate::profile::ready_times;
use crate::run::{Run, Span};
use crate::waits::{Ran, Wait, waits};

/// The waits of the jobs of a run whose executor tells the sleeps of its workers, and of those that were dropped because
/// they were too late.
pub fn waits_of(run: &Run) -> Option<Vec<(Node, Wait)>> {
    let sleeps = run.sleeps()?;
    let spans = run.spans();
    let ready = ready_times(run, &spans);
    let mut ran = vec![false; ready.len()];
    spans.iter().for_each(|span| ran[span.node as usize] = true);
    // Work of another kind takes longer for other reasons.
    let planned = |node| if run.kind(node) == "cpu" { run.expected_ns(node) } else { 0 };
    let of = |&Span { node, worker, begin, end, .. }: &Span| {
        let worker = worker as usize;
        let due = ready[node as usize].min(begin);
        (node, Ran { worker, due, begin, end, planned: planned(node) })
    };
    let missed = |node: Node| {
        let latest = run.schedule().deadline(node);
        let before = run.graph().predecessors(node);
        let is_missed = !ran[node as usize] && before.iter().all(|&before| ran[before as usize]);
        let due = ready[node as usize];
        (is_missed && latest != NEVER).then(|| {
            let begin = due.max(run.base() + latest);
            (node, Ran { worker: 0, due, begin, end: begin, planned: 0 })
        })
    };
    let jobs = spans.iter().map(of).chain((0..run.graph().len()).filter_map(missed));
    let (nodes, jobs): (Vec<Node>, Vec<Ran>) = jobs.unzip();
    let waits = waits(&jobs, &sleeps, &run.stopped());
    Some(nodes.into_iter().zip(waits).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};
    use crate::run::{Clock, NoWork, Schedule};
    use crate::waits::Cause;

    #[test]
    fn a_run_tells_the_waits_of_its_jobs_and_of_those_that_were_dropped_as_too_late() {
        let graph = Shape::Isolated.build(&Rules { nodes: 2, ..Rules::default() });
        let schedule = Schedule { life_ns: Some(50), ..Schedule::default() };
        let run = Run::new(graph, schedule, Box::new(NoWork), Clock::still());
        run.set_base(100);
        run.log(0, 0, 100, Some(400));
        assert_eq!(waits_of(&run), None, "nobody tells of sleeps");
        run.set_sleeps(vec![vec![]]);
        let found = waits_of(&run).expect("sleeps are known");
        let found: Vec<_> = found
            .iter()
            .map(|(node, wait)| (*node, Cause::ALL.map(|cause| wait.of(cause)), wait.sum()))
            .collect();
        assert_eq!(found, [(0, [0; 4], 0), (1, [50, 0, 0, 0], 50)]);
    }
}
