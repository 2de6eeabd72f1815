//! Lateness that a stopped machine made, told from lateness that the executor made.
//!
//! A *stall* is a span in which a worker that should have run did not, though no other task had its CPU: the
//! machine itself stopped (a hypervisor, firmware). Its *shadow* reaches from its begin to when the backlog
//! that it made is worked off. When that is, is computed: the arrivals are replayed by an ideal list schedule of jobs as
//! long as planned, once as if nothing had happened and once with each worker gone during its stalls. Where a job starts
//! later in the second, it lies in a shadow, and so does what was to start between a stall's begin and the last of
//! these. An executor that takes longer than the ideal to work off the backlog is late outside the shadow.

use crate::graph::Node;
use crate::policy::Nanos;
use crate::profile::{quantile, ready_times};
use crate::run::{Held, Run};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A worker of a pool did not run though it should have, on the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Which worker, from 0.
    pub worker: usize,
    /// When it began, at the earliest.
    pub(crate) from: Nanos,
    /// The length of the stall, in nanoseconds.
    pub lost_ns: Nanos,
}

impl Stall {
    /// The stall of a worker that the pool reported as held up, by the machine or by other tasks.
    pub const fn of(worker: usize, held: &Held) -> Self {
        Self { worker, from: held.from, lost_ns: held.lost_ns }
    }
}

/// Lateness of a run, and of its jobs outside the shadow of stalls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnstalledLateness {
    /// Spans in which starts are set aside, ascending and apart from each other.
    pub(crate) spans: Vec<(Nanos, Nanos)>,
    /// Number of jobs that were to start in the shadow.
    pub aside: usize,
    /// Start lateness of the others, ascending.
    pub lateness_ns: Vec<Nanos>,
}

impl UnstalledLateness {
    /// Sets aside what the stalls made late.
    pub fn of(run: &Run, workers: usize, stalls: &[Stall]) -> Self {
        let spans = run.spans();
        let ready = ready_times(run, &spans);
        let dark = dark(run, workers, stalls);
        let is_dark = |time: Nanos| {
            let next = dark.partition_point(|&(from, _)| from <= time);
            next.checked_sub(1).is_some_and(|last| time <= dark[last].1)
        };
        let mut aside = 0;
        let mut lateness_ns = Vec::new();
        for span in &spans {
            let could = ready[span.node as usize];
            if is_dark(could) {
                aside += 1;
            } else {
                lateness_ns.push(span.begin.saturating_sub(could));
            }
        }
        lateness_ns.sort_unstable();
        Self { spans: dark, aside, lateness_ns }
    }

    /// A quantile of start lateness outside the shadow, `q` from 0 to 1; `None` if no job is
    /// outside.
    pub fn lateness(&self, q: f64) -> Option<Nanos> {
        quantile(&self.lateness_ns, q)
    }
}

/// The shadows, on the run's clock.
fn dark(run: &Run, workers: usize, stalls: &[Stall]) -> Vec<(Nanos, Nanos)> {
    let base = run.base();
    let mut away = vec![Vec::new(); workers];
    for stall in stalls.iter().filter(|stall| stall.worker < workers) {
        let from = stall.from.saturating_sub(base);
        let until = (stall.from + stall.lost_ns).saturating_sub(base);
        away[stall.worker].push((from, until));
    }
    away.iter_mut().for_each(|spans| spans.sort_unstable());
    let undisturbed = starts(run, &vec![Vec::new(); workers]);
    let disturbed = starts(run, &away);
    // Of each job that the stalls made later: from when it would have started until when it did.
    let mut dark: Vec<(Nanos, Nanos)> = away.concat();
    let pairs = undisturbed.iter().zip(&disturbed);
    dark.extend(pairs.filter(|(would, did)| did > would).map(|(&would, &did)| (would, did)));
    dark.sort_unstable();
    let mut joined: Vec<(Nanos, Nanos)> = Vec::new();
    for (from, until) in dark {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => joined.push((from, until)),
        }
    }
    joined.iter().map(|&(from, until)| (from + base, until + base)).collect()
}

/// When each job starts in a list schedule by start times, each as long as planned, every worker away at its spans
/// (ascending). Relative to the base.
fn starts(run: &Run, away: &[Vec<(Nanos, Nanos)>]) -> Vec<Nanos> {
    let graph = run.graph();
    let mut pending: Vec<usize> =
        (0..graph.len()).map(|node| graph.predecessors(node).len()).collect();
    let mut started = vec![0; graph.len() as usize];
    // Ends before releases: at the same moment a worker is free for what is released.
    let mut events: BinaryHeap<Reverse<(Nanos, Event)>> = BinaryHeap::new();
    let release = |node: Node, now: Nanos| (run.schedule().start(node).max(now), Event::Due(node));
    for node in (0..graph.len()).filter(|&node| pending[node as usize] == 0) {
        events.push(Reverse(release(node, 0)));
    }
    let mut free: Vec<bool> = vec![true; away.len()];
    let mut due: BinaryHeap<Reverse<(Nanos, Node)>> = BinaryHeap::new();
    while let Some(Reverse((now, event))) = events.pop() {
        match event {
            Event::Ended(worker, node) => {
                free[worker] = true;
                for &next in graph.successors(node) {
                    pending[next as usize] -= 1;
                    if pending[next as usize] == 0 {
                        events.push(Reverse(release(next, now)));
                    }
                }
            }
            Event::Back => {}
            Event::Due(node) => due.push(Reverse((run.schedule().start(node), node))),
        }
        for worker in 0..away.len() {
            if !free[worker] || due.is_empty() {
                continue;
            }
            if let Some(back) = gone(&away[worker], now) {
                events.push(Reverse((back, Event::Back)));
                continue;
            }
            let Some(Reverse((_, node))) = due.pop() else { break };
            started[node as usize] = now;
            free[worker] = false;
            let end = end(&away[worker], now, run.expected_ns(node));
            events.push(Reverse((end, Event::Ended(worker, node))));
        }
    }
    started
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(usize, Node),
    Back,
    Due(Node),
}

/// Until when a worker is away at a time, if it is.
fn gone(away: &[(Nanos, Nanos)], now: Nanos) -> Option<Nanos> {
    let begun = away.partition_point(|&(from, _)| from <= now);
    away[..begun].iter().rev().take(8).map(|&(_, until)| until).filter(|&until| until > now).max()
}

/// When a job that starts now ends: later by what the worker is away meanwhile.
fn end(away: &[(Nanos, Nanos)], now: Nanos, takes: Nanos) -> Nanos {
    let mut end = now + takes;
    for &(from, until) in &away[away.partition_point(|&(from, _)| from < now)..] {
        if from >= end {
            break;
        }
        end += until - from;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};
    use crate::run::{Clock, Schedule, Work};

    const US: Nanos = 1_000;

    struct Fixed(Nanos);

    impl Work for Fixed {
        fn perform(&self, _: Node) {}

        fn expected_ns(&self, _: Node) -> Nanos {
            self.0
        }
    }

    /// Jobs of 200 us, one every 400 us, on one worker; each begins that late.
    fn run(lateness_us: &[Nanos]) -> Run {
        let count = lateness_us.len();
        let graph = Shape::Isolated.build(&Rules { nodes: count as u32, ..Rules::default() });
        let starts: Vec<Nanos> = (0..count as Nanos).map(|i| i * 400 * US).collect();
        let schedule = Schedule { starts: starts.clone(), life_ns: None, ..Schedule::default() };
        let run = Run::new(graph, schedule, Box::new(Fixed(200 * US)), Clock::start());
        run.set_base(7_000);
        for (node, (start, late)) in starts.iter().zip(lateness_us).enumerate() {
            let begin = 7_000 + start + late * US;
            run.log(node as Node, 0, begin, Some(begin + 200 * US));
        }
        run
    }

    #[test]
    fn the_shadow_ends_when_the_backlog_is_worked_off_and_not_later() {
        // Gone from 300 to 1300 us: the jobs of 400, 800 and 1200 start at 1300, 1500 and 1700, that of 1600 at 1900, of
        // 2000 at 2100, of 2400 at its time.
        let late = [3, 900, 700, 500, 300, 100, 5, 600, 2];
        let stall = Stall { worker: 0, from: 7_000 + 300 * US, lost_ns: 1_000 * US };
        let shadow = UnstalledLateness::of(&run(&late), 1, &[stall]);
        let at = |us| 7_000 + us * US;
        assert_eq!(shadow.spans, [(at(300), at(1_900)), (at(2_000), at(2_100))]);
        assert_eq!((shadow.aside, shadow.lateness(1.0)), (5, Some(600 * US)));
        // The 600 us of a later job are the executor's: nothing had stopped.
        assert_eq!(shadow.lateness_ns, [2, 3, 5, 600].map(|us| us * US));
    }

    #[test]
    fn without_stalls_nothing_is_set_aside() {
        let shadow = UnstalledLateness::of(&run(&[900, 0, 0]), 1, &[]);
        assert_eq!((shadow.aside, shadow.lateness(1.0)), (0, Some(900 * US)));
    }

    #[test]
    fn a_stall_of_one_worker_casts_no_shadow_while_the_other_keeps_up() {
        let stall = Stall { worker: 1, from: 7_000 + 800 * US, lost_ns: 2_000 * US };
        let shadow = UnstalledLateness::of(&run(&[0; 10]), 2, &[stall]);
        // The jobs that were to start meanwhile are set aside; none beyond.
        assert_eq!(shadow.spans, [(7_000 + 800 * US, 7_000 + 2_800 * US)]);
        assert_eq!(shadow.aside, 6);
    }

    #[test]
    fn a_job_that_runs_into_a_stall_takes_its_successors_along() {
        let graph = Shape::Chain.build(&Rules { nodes: 3, ..Rules::default() });
        let run = Run::new(graph, Schedule::default(), Box::new(Fixed(100)), Clock::start());
        assert_eq!(starts(&run, &[vec![], vec![]]), [0, 100, 200]);
        assert_eq!(starts(&run, &[vec![(50, 80), (90, 100)], vec![]]), [0, 140, 240]);
        // The one that is away takes no job.
        assert_eq!(starts(&run, &[vec![(0, 500)], vec![]]), [0, 100, 200]);
        assert_eq!(starts(&run, &[vec![(0, 500)]]), [500, 600, 700]);
    }
}
