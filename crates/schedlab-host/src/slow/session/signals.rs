//! What signals do to a session. Those of the terminal are the command's, which gets them itself; those that a
//! process sends to schedlab are passed on. So a slowed prompt or debugger behaves as it does without schedlab.

use super::super::SlowError;
use super::{Active, Ended, Session};
use schedlab_model::{Nanos, Pid};
use schedlab_sys::signal::ReceivedSignal;
use schedlab_sys::{clock, process};

const GRACE: Nanos = Nanos::from_secs(2);

const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
const SIGTSTP: i32 = 20;

impl Session {
    /// Does what a signal asks for; returns how the session ends, if it does.
    pub(super) fn heed(
        &mut self,
        came: ReceivedSignal,
        has_commands: bool,
    ) -> Result<Option<Ended>, SlowError> {
        match came.signal {
            SIGTSTP => {
                self.suspend(came.typed);
                Ok(None)
            }
            // A command may go on after these, as a prompt does.
            SIGINT | SIGQUIT if has_commands => {
                self.let_go_on()?;
                if !came.typed {
                    self.pass(came.signal);
                }
                Ok(None)
            }
            signal => {
                self.end_commands(signal, came.typed)?;
                let done = has_commands && self.nodes.iter_mut().all(Active::is_done);
                Ok(Some(match done {
                    true => Ended::Commands(self.code()),
                    false => Ended::Interrupted(signal),
                }))
            }
        }
    }

    /// Asks commands to end and waits for a moment. What does not end is killed by the guard.
    pub(super) fn end_commands(&mut self, signal: i32, passed: bool) -> Result<(), SlowError> {
        if self.plan.request.keep {
            return Ok(());
        }
        self.let_go_on()?;
        if !passed {
            self.pass(signal);
        }
        let until = clock::monotonic() + GRACE;
        while clock::monotonic() < until && !self.nodes.iter_mut().all(Active::is_done) {
            let next = self.tick(&[])?.min(until);
            self.wait(next, None)?;
        }
        Ok(())
    }

    fn pass(&mut self, signal: i32) {
        for running in self.nodes.iter().flat_map(|active| &active.commands) {
            if running.code.is_none() {
                let _ = process::kill(Pid(running.child.id().cast_signed()), signal);
            }
        }
    }

    /// Nodes that stand still cannot heed a signal.
    fn let_go_on(&mut self) -> Result<(), SlowError> {
        (0..self.nodes.len())
            .filter(|&index| self.nodes[index].failed)
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|index| self.stand(index, false))
    }

    /// Stands still with the command, burners and noise included, until the shell continues the job.
    fn suspend(&mut self, typed: bool) {
        if !typed {
            self.pass(SIGTSTP);
        }
        self.aides().for_each(|helper| helper.signal(SIGSTOP));
        let began = clock::monotonic();
        let _ = process::kill(Pid(std::process::id().cast_signed()), SIGSTOP);
        // Continued.
        self.aides().for_each(|helper| helper.signal(SIGCONT));
        self.pass(SIGCONT);
        let slept = clock::monotonic() - began;
        self.limiters().for_each(|limiter| limiter.slept(slept));
    }
}
