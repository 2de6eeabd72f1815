//! A worker of schedlab's pool: it asks the pool's policy what to do next, runs a job, wakes whom the policy names, or
//! sleeps. The queues are lists without a cost of their own; taking a job costs [`Costs::take_ns`].
//!
//! [`Costs::take_ns`]: schedlab_jobs::virtual_time::Costs::take_ns

use super::{AtWork, Stepping, Waiting, Workers};
use crate::{Instruments, Op};
use schedlab_jobs::graph::Node;
use schedlab_jobs::modelled::{Step, Task};
use schedlab_jobs::policy::NEVER;
use schedlab_model::Nanos;
use std::sync::Arc;

pub(super) struct Worker {
    crew: Arc<Workers>,
    number: usize,
    /// Whom to wake before anything else, the last one first.
    wakes: Vec<usize>,
    stage: Stage,
}

enum Stage {
    Ask,
    /// It runs this job after a moment.
    Take(Node),
    Job(AtWork),
    Sleep(u64),
    Exit,
}

impl Worker {
    pub(super) fn new(crew: Arc<Workers>, number: usize) -> Self {
        Self { crew, number, wakes: Vec::new(), stage: Stage::Ask }
    }

    /// Gives back what it ran, and asks what is next.
    fn ask(&mut self, now: Nanos) -> Option<Op> {
        let crew = Arc::clone(&self.crew);
        let at = crew.since_base(now);
        let mut state = crew.state();
        let Waiting::Pool(jobs) = &mut state.waiting else { return Some(Op::Exit) };
        jobs.set_now(at);
        jobs.end(self.number, false);
        let mut again = 0;
        let op = loop {
            match jobs.step(self.number) {
                Step::Run(Task::Node(node)) => {
                    self.stage = Stage::Take(node);
                    break crew.compute(crew.costs.take_ns);
                }
                // All jobs are posted before the run begins.
                Step::Run(Task::Chunk(_)) => jobs.end(self.number, false),
                Step::Again if again == 0 => again += 1,
                Step::Again => break crew.compute(crew.costs.spin_ns.max(1)),
                Step::Sleep(until) => {
                    self.stage = Stage::Sleep(until);
                    break None;
                }
            }
        };
        self.wakes = jobs.woken();
        self.wakes.reverse();
        if matches!(self.stage, Stage::Take(..)) {
            state.management_ns += crew.costs.take_ns;
        } else if !state.over && state.left() == 0 {
            state.over = true;
            self.wakes = crew.others(self.number);
        }
        if state.over {
            self.stage = Stage::Exit;
        }
        op
    }
}

impl Stepping for Worker {
    fn step(&mut self, now: Nanos, instruments: &mut dyn Instruments) -> Option<Op> {
        if let Some(other) = self.wakes.pop() {
            return Some(self.crew.wake(other, now));
        }
        match std::mem::replace(&mut self.stage, Stage::Ask) {
            Stage::Ask => self.ask(now),
            Stage::Take(node) => {
                self.stage = Stage::Job(AtWork::begin(&self.crew, node, now, instruments));
                None
            }
            Stage::Job(mut at) => match at.left.pop() {
                Some(op) => {
                    self.stage = Stage::Job(at);
                    Some(op)
                }
                None => {
                    at.end(&self.crew, self.number, now, instruments);
                    self.ask(now)
                }
            },
            Stage::Sleep(until) => {
                let word = self.crew.words[self.number];
                let base = self.crew.state().base.unwrap_or_default();
                Some(match until {
                    NEVER => Op::Wait(word),
                    until => Op::WaitUntil { word, until: base + Nanos(until) },
                })
            }
            Stage::Exit => Some(Op::Exit),
        }
    }
}
