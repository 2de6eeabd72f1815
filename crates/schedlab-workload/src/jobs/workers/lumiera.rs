//! A worker by Lumiera's rules. It goes the rounds of [`Rounds`]: it takes the token, gives back what it ran, takes what is
//! due, wakes whom the rules name, and runs jobs, spins or sleeps. While it holds the token it computes for as long as
//! that takes, so a machine that displaces it then keeps the others waiting.

use super::{AtWork, Stepping, Waiting, Workers};
use crate::{Instruments, Op};
use schedlab_jobs::graph::Node;
use schedlab_jobs::policy::{JobId, Outcome, Pause, Step, Verdict};
use schedlab_jobs::rounds::Rounds;
use schedlab_model::Nanos;
use std::sync::Arc;

pub(super) struct Worker {
    crew: Arc<Workers>,
    number: usize,
    rounds: Rounds<Node>,
    stage: Stage,
}

enum Stage {
    Begin,
    /// It tries to take the token.
    Ask,
    /// It has spent its time with the token: it lets go, then wakes these workers, the last one first.
    LetGo {
        verdict: Verdict,
        wakes: Vec<usize>,
    },
    Wake {
        verdict: Verdict,
        wakes: Vec<usize>,
    },
    /// It tried without effect, and has stayed away since then.
    BackedOff {
        since: Nanos,
        spun: bool,
    },
    Yield,
    /// It begins the next of its jobs.
    Perform,
    /// It is at a job; the operations that are left, the next one last.
    Job {
        id: JobId,
        at: AtWork,
    },
}

impl Worker {
    pub(super) fn new(crew: Arc<Workers>, number: usize, step: Step) -> Self {
        Self { crew, number, rounds: Rounds::new(number, step), stage: Stage::Begin }
    }
}

impl Stepping for Worker {
    fn step(&mut self, now: Nanos, instruments: &mut dyn Instruments) -> Option<Op> {
        match std::mem::replace(&mut self.stage, Stage::Ask) {
            Stage::Begin => {
                self.rounds.begin(self.crew.since_base(now));
                None
            }
            Stage::Ask => self.ask(now),
            Stage::LetGo { verdict, wakes } => {
                self.crew.state().held = false;
                self.stage = Stage::Wake { verdict, wakes };
                None
            }
            Stage::Wake { verdict, mut wakes } => match wakes.pop() {
                Some(other) => {
                    self.stage = Stage::Wake { verdict, wakes };
                    Some(self.crew.wake(other, now))
                }
                None => self.follow(verdict),
            },
            Stage::BackedOff { since, spun } => {
                self.crew.state().back_off_ns += (now - since).0;
                spun.then_some(Op::Yield)
            }
            Stage::Yield => Some(Op::Yield),
            Stage::Perform => {
                self.take_up(now, instruments);
                None
            }
            Stage::Job { id, mut at } => match at.left.pop() {
                Some(op) => {
                    self.stage = Stage::Job { id, at };
                    Some(op)
                }
                None => {
                    let end = at.end(&self.crew, self.number, now, instruments);
                    self.rounds.ran(id, Outcome::Done);
                    self.rounds.worked(at.begin, end);
                    self.stage = Stage::Perform;
                    None
                }
            },
        }
    }
}

impl Worker {
    /// One attempt at the token.
    fn ask(&mut self, now: Nanos) -> Option<Op> {
        let crew = self.crew.clone();
        let at = crew.since_base(now);
        let mut state = crew.state();
        if state.over {
            return Some(Op::Exit);
        }
        if state.held {
            let pause = self.rounds.back_off();
            self.stage = Stage::BackedOff { since: now, spun: matches!(pause, Pause::Spin { .. }) };
            return match pause {
                Pause::Spin { turns, rounds } => {
                    crew.compute(crew.costs.spin_for_ns(turns, rounds))
                }
                Pause::Sleep(ns) => Some(Op::Sleep(Nanos(ns))),
            };
        }
        let Waiting::Lumiera(agenda) = &mut state.waiting else { return Some(Op::Exit) };
        let (pull, jobs) = self.rounds.manage(at, agenda);
        let hold_ns = crew.costs.hold_ns(jobs);
        state.held = true;
        state.management_ns += hold_ns;
        state.over = state.left() == 0;
        let mut wakes = Vec::from_iter(pull.wake);
        if state.over {
            wakes = crew.others(self.number);
            wakes.reverse();
        }
        self.stage = Stage::LetGo { verdict: pull.verdict, wakes };
        crew.compute(hold_ns)
    }

    /// Does what the policy said.
    fn follow(&mut self, verdict: Verdict) -> Option<Op> {
        let (over, base) = {
            let state = self.crew.state();
            (state.over, state.base.unwrap_or_default())
        };
        let word = self.crew.words[self.number];
        match verdict {
            _ if over => Some(Op::Exit),
            Verdict::Run => {
                self.stage = Stage::Perform;
                None
            }
            Verdict::Spin => {
                self.stage = Stage::Yield;
                self.crew.compute(self.crew.costs.spin_ns)
            }
            Verdict::Sleep { until } => {
                self.rounds.slept();
                Some(Op::WaitUntil { word, until: base + Nanos(until) })
            }
        }
    }

    fn take_up(&mut self, now: Nanos, instruments: &mut dyn Instruments) {
        if let Some(job) = self.rounds.next_job() {
            let at = AtWork::begin(&self.crew, job.job, now, instruments);
            self.stage = Stage::Job { id: job.id, at };
        }
    }
}
