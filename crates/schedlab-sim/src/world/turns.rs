//! Turns: CPUs that one thread runs in their order, as QEMU does without KVM where instructions are its clock.
//!
//! A CPU has its turn up to the end of its slice, or until it idles; all others stand still. What comes to them waits for
//! their turns: interrupts of other CPUs, timers, wakeups. The clock goes on meanwhile, so their tasks are charged.
//!
//! A slice is the time up to the next timer of any CPU, by the number of all CPUs. It is computed when the first CPU
//! begins a round. Who sets a timer that is the next of all ends its own slice, and so does a timer that goes off; then
//! each CPU's next slice is computed when it begins. Where all CPUs idle, nobody has a turn until something comes to one
//! (QEMU 10, accel/tcg/tcg-accel-ops-rr.c and tcg-accel-ops-icount.c; `qemu_timer_notify_cb` of system/cpu-timers.c).
//!
//! A path of a kernel's code is not interrupted here: its CPU keeps the turn up to its end.

use super::{Happening, World};
use crate::event_queue::NEVER;

/// QEMU itself has a timer that goes off after so many nanoseconds.
const LONGEST: u64 = 100_000_000;
/// Slices become ever shorter before a timer. A nanosecond would be right and make a turn of each instruction.
const SHORTEST: u64 = 1_000;

#[derive(Default)]
pub(super) struct Turns {
    cpu: Option<usize>,
    /// The length of a slice in this round.
    slice: u64,
    /// When the turn ends, at the latest; and the time for which its end is planned.
    until: u64,
    ends: u64,
    /// When the next timer goes off: all slices are computed anew then.
    timer: u64,
    /// CPUs whose next slice is computed at its beginning.
    anew: Vec<bool>,
    /// What waits for the turn of each CPU, in order.
    waiting: Vec<Vec<Happening>>,
    /// An idle CPU that has its turn is on its way out of idle up to this time.
    wakes_until: u64,
}

impl World {
    /// From now on CPUs take turns, if they do at all. CPU 0 begins.
    pub(super) fn begin_turns(&mut self) {
        if self.config.turns && self.extras.turns.is_none() {
            let cpus = self.scene.cpus.len();
            self.extras.turns = Some(Turns {
                anew: vec![false; cpus],
                waiting: vec![Vec::new(); cpus],
                ..Turns::default()
            });
            (0..cpus).for_each(|cpu| self.respeed(cpu));
            self.give_turn(0, true);
        }
    }

    /// Whether a CPU stands still because it is not its turn.
    pub(super) fn stands_still(&self, cpu: usize) -> bool {
        self.extras.turns.as_ref().is_some_and(|turns| turns.cpu != Some(cpu))
    }

    /// How long an interrupt is on its way to a CPU. One that stands still has this way before it when its turn begins.
    pub(super) fn way_to(&self, cpu: usize, sleeps: bool) -> u64 {
        let costs = &self.config.costs;
        match self.stands_still(cpu) {
            true => 0,
            false => costs.ipi + if sleeps { costs.idle_exit } else { 0 },
        }
    }

    /// Whether something waits for the turn of its CPU, or came to nothing.
    pub(super) fn waits_for_turn(&mut self, happening: Happening) -> bool {
        let cpu = match happening {
            Happening::Stop => self.starter.map(|task| self.scene.tasks[task.index()].cpu),
            _ => self.cpu_of(happening),
        };
        let (Some(turns), Some(cpu)) = (&self.extras.turns, cpu) else { return false };
        let of = turns.cpu;
        if !self.is_still_to_come(happening) {
            self.is_taken(happening);
            return true;
        }
        if of == Some(cpu) {
            if self.begins_way(happening) && self.scene.cpus[cpu].running.is_none() {
                self.wakes_up_to(self.scene.now + self.config.costs.idle_exit);
            }
            return false;
        }
        self.extras.turns.iter_mut().for_each(|turns| turns.waiting[cpu].push(happening));
        if of.is_none() {
            self.give_turn(cpu, true);
        }
        true
    }

    /// Whether something has the way out of idle of its CPU still before it.
    fn begins_way(&self, happening: Happening) -> bool {
        match happening {
            Happening::Clock { awake, .. } | Happening::Timer(_, _, awake) => !awake,
            Happening::Alarm(alarm) => alarm.at == self.scene.now,
            _ => false,
        }
    }

    fn wakes_up_to(&mut self, time: u64) {
        self.extras
            .turns
            .iter_mut()
            .for_each(|turns| turns.wakes_until = turns.wakes_until.max(time));
    }

    /// Whether a timer was not set anew since, and an interrupt not taken with another.
    fn is_still_to_come(&self, happening: Happening) -> bool {
        match happening {
            Happening::Timer(task, sleep, _) => self.sleeps_still(task, sleep),
            Happening::Clock { cpu, at, .. } => self.clock_of_code(cpu) == Some(at),
            Happening::Interrupt(cpu) => self.is_sent(cpu),
            _ => true,
        }
    }

    /// The time of the next timer of any CPU.
    fn next_timer(&self) -> u64 {
        let now = self.scene.now;
        let is_timer = |happening| match happening {
            Happening::Clock { awake, .. } | Happening::Timer(_, _, awake) => !awake,
            Happening::Alarm(_) | Happening::TickOf(_) | Happening::Tick | Happening::Stop => true,
            _ => false,
        };
        let times = self.agenda.others().filter(|&(at, happening)| {
            at > now && is_timer(happening) && self.is_still_to_come(happening)
        });
        times.map(|(at, _)| at).min().unwrap_or(NEVER).min(now + LONGEST)
    }

    /// A CPU is about to have a timer set for this time. If no other is as early, its turn ends.
    pub(super) fn sets_timer(&mut self, cpu: usize, at: u64) {
        let now = self.scene.now;
        if self.extras.turns.is_none()
            || self.stands_still(cpu)
            || at <= now
            || at >= self.next_timer()
        {
            return;
        }
        if let Some(turns) = &mut self.extras.turns {
            turns.anew.fill(true);
            turns.anew[cpu] = false;
            turns.until = now;
        }
        self.plan_end_of_turn(now);
    }

    /// After each event: a CPU that idles gives its turn up.
    pub(super) fn mind_turn(&mut self) {
        let Some(turns) = &self.extras.turns else { return };
        let Some(cpu) = turns.cpu else { return };
        if self.scene.cpus[cpu].running.is_none() {
            let at = self.time_of(cpu).max(turns.wakes_until + 1);
            self.plan_end_of_turn(at);
        }
    }

    fn plan_end_of_turn(&mut self, at: u64) {
        let Some(turns) = &mut self.extras.turns else { return };
        if turns.cpu.is_none() || at >= turns.ends {
            return;
        }
        turns.ends = at;
        self.agenda.post_last(at, Happening::TurnEnds(at));
    }

    /// The planned end of a turn has come, unless another was planned since.
    pub(super) fn turn_ends(&mut self, at: u64) {
        let now = self.scene.now;
        let Some(turns) = &mut self.extras.turns else { return };
        let Some(cpu) = turns.cpu.filter(|_| turns.ends == at) else { return };
        turns.ends = NEVER;
        let works = self.scene.cpus[cpu].running.is_some();
        let least = if works { turns.until } else { turns.wakes_until + 1 };
        let later = least.max(self.pieces[cpu].began);
        if later > now {
            return self.plan_end_of_turn(later);
        }
        let mut after = cpu;
        if now >= turns.timer {
            // The CPU after it, if there is one, has its timers go off, and no slice.
            turns.anew.fill(true);
            after += usize::from(cpu + 1 < turns.waiting.len());
        }
        self.pass_turn(cpu, after);
    }

    /// The next CPU after another gets its turn that has anything to do.
    fn pass_turn(&mut self, from: usize, after: usize) {
        let Some(turns) = &mut self.extras.turns else { return };
        turns.cpu = None;
        let cpus = turns.waiting.len();
        let mut is_anew = false;
        let next = (after + 1..=after + cpus).find(|at| {
            let cpu = at % cpus;
            is_anew |= std::mem::take(&mut turns.anew[cpu]) || cpu == 0;
            self.scene.cpus[cpu].running.is_some() || !turns.waiting[cpu].is_empty()
        });
        self.respeed(from);
        if let Some(next) = next {
            self.give_turn(next % cpus, is_anew);
        }
    }

    fn give_turn(&mut self, cpu: usize, is_anew: bool) {
        let now = self.scene.now;
        let next_timer = self.next_timer();
        let Some(turns) = &mut self.extras.turns else { return };
        if is_anew {
            turns.slice = ((next_timer - now) / turns.waiting.len() as u64).max(SHORTEST);
        }
        turns.cpu = Some(cpu);
        turns.until = (now + turns.slice).min(next_timer);
        turns.timer = next_timer;
        turns.ends = NEVER;
        turns.wakes_until = 0;
        let until = turns.until;
        let waiting = std::mem::take(&mut turns.waiting[cpu]);
        let idle = self.scene.cpus[cpu].running.is_none();
        for happening in waiting {
            // A timer has a way out of idle of its own.
            let way = if idle { self.config.costs.idle_exit } else { 0 };
            let at = if self.begins_way(happening) { now } else { now + way };
            self.agenda.post(at, cpu, happening);
            self.wakes_up_to(now + way);
        }
        self.respeed(cpu);
        self.plan_end_of_turn(until);
    }
}
