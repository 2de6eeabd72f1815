//! What our own code costs on the measured path, beside the system calls and the clock.

use super::arena::Arena;
use super::interpret::{Bare, Interpreter};
use schedlab_model::{Better, Metric, Nanos, Unit};
use schedlab_sys::clock;
use schedlab_workload::plan::{Plan, Task};
use schedlab_workload::{Behaviour, ChannelId, Done, Instruments, Op, SampleId};

/// Steps of the interpreter between a worker's request for work and its wakeup: the worker queues
/// itself, wakes and waits; the message thread takes, wakes, looks again and waits.
const STEPS_OF_A_WAKEUP: f64 = 7.0;

/// What schedlab's own code costs beside system calls, in nanoseconds: each the smallest of some
/// tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// One reading of the clock.
    pub clock_ns: f64,
    /// One step of the interpreter without its clock reading and without what it performs.
    pub step_ns: f64,
    /// The time that one sample takes, in nanoseconds.
    pub sample_ns: f64,
}

impl Overhead {
    /// Our own code for a wakeup of schbench: its steps and its sample, beyond the clock readings.
    #[must_use]
    pub fn wakeup_ns(&self) -> f64 {
        STEPS_OF_A_WAKEUP * self.step_ns + self.sample_ns
    }
}

/// Yields operations that cost nothing, with or without a sample for each.
struct Idle {
    left: u32,
    samples: bool,
}

impl Behaviour for Idle {
    fn next(&mut self, now: Nanos, _: Done, instruments: &mut dyn Instruments) -> Op {
        if self.left == 0 {
            return Op::Exit;
        }
        self.left -= 1;
        if self.samples {
            instruments.sample(SampleId(0), now.0 & 0xffff);
        }
        Op::Close(ChannelId(0))
    }
}

/// Measures it; takes some tens of milliseconds.
///
/// # Errors
/// When there is no shared memory to be had.
pub fn overhead() -> std::io::Result<Overhead> {
    const STEPS: u32 = 200_000;
    let mut plan = Plan::new("overhead");
    plan.series(Metric::new("value", Unit::Count, Better::Neither));
    plan.tasks.push(Task::new("", 0, Box::new(Idle { left: 0, samples: false })));
    let arena = Arena::new(&plan)?;
    let fastest = |work: &dyn Fn()| {
        let once = || {
            let began = clock::monotonic();
            work();
            (clock::monotonic() - began).0
        };
        (0..15).map(|_| once()).min().unwrap_or(0) as f64 / f64::from(STEPS)
    };
    let clock_ns = fastest(&|| {
        for _ in 0..STEPS {
            std::hint::black_box(clock::monotonic());
        }
    });
    let run = |samples| {
        fastest(&|| {
            let mut interpreter = Interpreter::new(&arena, 0, Vec::new(), Vec::new(), &Bare);
            let _ = interpreter.run(&mut Idle { left: STEPS, samples });
        })
    };
    let plain = run(false);
    let sampled = run(true);
    Ok(Overhead {
        clock_ns,
        step_ns: (plain - clock_ns).max(0.0),
        sample_ns: (sampled - plain).max(0.0),
    })
}
