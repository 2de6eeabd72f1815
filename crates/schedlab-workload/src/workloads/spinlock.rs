//! Threads that take one lock by turns: what a holder that is displaced costs those that spin, or sleep, for it.
//!
//! It has the shape of a case that was argued about: PostgreSQL lost half of its throughput on Linux 7.0 with lazy preemption.
//! A holder that is displaced makes all others spin for nothing until it runs again.

use super::Workload;
use super::simple::{DURATION, INTERVAL, MICRO, WARM_UP, count, iterations, task, time, timing};
use crate::options::{Kind, OptionError, Options, option};
use crate::placement::MachineProperties;
use crate::plan::Plan;
use crate::{Behaviour, CounterId, Done, Instruments, LockId, Op, SampleId};
use schedlab_model::{Nanos, Phase};

pub(super) const WORKLOAD: Workload = Workload {
    name: "spinlock",
    about: "threads that take one lock by turns, and spin for it: what a displaced holder costs",
    options: &[
        option(
            "tasks",
            Kind::Number(0, 100_000),
            "0",
            "how many threads; 0: twice as many as CPUs",
        ),
        option("hold", MICRO, "100us", "work while the lock is held, as time at full speed"),
        option("work", MICRO, "100us", "work between two holds, as time at full speed"),
        option(
            "via",
            Kind::Choice(&["spin", "mutex"]),
            "spin",
            "how threads wait: they spin, or sleep as those of a mutex do",
        ),
        DURATION,
        WARM_UP,
        INTERVAL,
    ],
    build,
};

/// The numbers of the marks: that the lock is held, and asked for.
const HELD: u32 = 0;
const ASKED: u32 = 1;

/// Works, takes the lock, works and gives it back. A lock for which threads sleep needs no marks: futex calls tell of it.
struct LockTask {
    lock: LockId,
    hold: u64,
    work: u64,
    spins: bool,
    measured: Measured,
    at: At,
    since: Nanos,
}

#[derive(Clone, Copy)]
struct Measured {
    wait: SampleId,
    hold: SampleId,
    sections: CounterId,
}

/// What the last operation was.
#[derive(Clone, Copy)]
enum At {
    Work,
    Take,
    Hold,
    Give,
}

impl Behaviour for LockTask {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if matches!(last, Done::Stopped | Done::Failed(_)) {
            return Op::Exit;
        }
        if last == Done::Start {
            return Op::Compute { iterations: self.work };
        }
        let since = std::mem::replace(&mut self.since, now);
        match self.at {
            At::Work => {
                self.at = At::Take;
                if self.spins {
                    instruments.mark(now, ASKED, Phase::Begin);
                }
                if self.spins { Op::Spin(self.lock) } else { Op::Lock(self.lock) }
            }
            At::Take => {
                instruments.sample(self.measured.wait, (now - since).0);
                if self.spins {
                    instruments.mark(now, ASKED, Phase::End);
                    instruments.mark(now, HELD, Phase::Begin);
                }
                self.at = At::Hold;
                Op::Compute { iterations: self.hold }
            }
            At::Hold => {
                instruments.sample(self.measured.hold, (now - since).0);
                if self.spins {
                    instruments.mark(now, HELD, Phase::End);
                }
                self.at = At::Give;
                Op::Unlock(self.lock)
            }
            At::Give => {
                instruments.count(self.measured.sections, 1);
                self.at = At::Work;
                Op::Compute { iterations: self.work }
            }
        }
    }
}

fn build(options: &Options, around: &MachineProperties) -> Result<Plan, OptionError> {
    let mut plan = Plan::new("spinlock");
    plan.timing = timing(options);
    let tasks = match options.small("tasks") {
        0 => 2 * u32::try_from(around.allowed.len()).unwrap_or(1).max(1),
        tasks => tasks,
    };
    let wait = plan.series(time("lock_wait_ns"));
    let hold = plan.series(time("hold_ns"));
    let sections = plan.counter(count("sections"));
    plan.progress = Some(sections.0);
    plan.locks = 1;
    let spins = options.text("via") == "spin";
    if spins {
        plan.marks.extend(["lock:spinlock", "lock-wait:spinlock"].map(str::to_owned));
    }
    let role = plan.role("task");
    for index in 0..tasks {
        let behaviour = LockTask {
            lock: LockId(0),
            hold: iterations(options.duration("hold"), around),
            work: iterations(options.duration("work"), around),
            spins,
            measured: Measured { wait, hold, sections },
            at: At::Work,
            since: Nanos::ZERO,
        };
        plan.tasks.push(task("spinlock", role, index, behaviour));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use crate::placement::MachineProperties;
    use crate::{CounterId, DialId, Done, Instruments, LockId, Op, SampleId, workloads};
    use schedlab_model::{CpuSet, Nanos, Phase, Topology};

    #[derive(Default)]
    struct Heard {
        marks: Vec<(u64, u32, Phase)>,
        sections: u64,
    }

    impl Instruments for Heard {
        fn sample(&mut self, _: SampleId, _: u64) {}
        fn count(&mut self, _: CounterId, by: u64) {
            self.sections += by;
        }
        fn dial(&self, _: DialId) -> u64 {
            0
        }
        fn mark_request(&mut self, at: Nanos, id: u32, phase: Phase, _: u32) {
            self.marks.push((at.0, id, phase));
        }
    }

    #[test]
    fn a_task_works_takes_the_lock_and_gives_it_back_and_marks_who_spins() {
        for (via, take) in [("spin", Op::Spin(LockId(0))), ("mutex", Op::Lock(LockId(0)))] {
            let around = MachineProperties {
                topology: Topology::flat(2),
                allowed: CpuSet::first(2),
                speed: 1_000,
                seed: 1,
            };
            let given = [("via", via), ("hold", "3us"), ("work", "2us")];
            let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let mut plan = workloads::plan("spinlock", &given.into(), &around).unwrap();
            assert_eq!((plan.tasks.len(), plan.locks), (4, 1));
            let (mut heard, mut last) = (Heard::default(), Done::Start);
            let mut ops = Vec::new();
            for now in 1..=6 {
                ops.push(plan.tasks[0].behaviour.next(Nanos(now), last, &mut heard));
                last = Done::Ok;
            }
            let compute = |iterations| Op::Compute { iterations };
            let round = [compute(2_000), take, compute(3_000), Op::Unlock(LockId(0))];
            assert_eq!(ops, [&round[..], &round[..2]].concat());
            assert_eq!(heard.sections, 1);
            let (begin, end) = (Phase::Begin, Phase::End);
            let marks = [(2, 1, begin), (3, 1, end), (3, 0, begin), (4, 0, end), (6, 1, begin)];
            assert_eq!(heard.marks, if via == "spin" { &marks[..] } else { &[] });
            assert_eq!(plan.marks.len(), if via == "spin" { 2 } else { 0 });
        }
    }
}
