//! The loops of tasks that do nothing but send or receive, without a step of a behaviour between two
//! system calls.
//!
//! A message through a pipe takes half a microsecond: asking a behaviour for each operation and
//! looking its channel up made hackbench a quarter slower than the original. The loops here perform
//! what the behaviour would yield (a test compares what the kernel counted for both); a stop is seen
//! after each round and by the one that is interrupted in a call.

use super::arena::Arena;
use super::interpret::{End, Stage, code};
use super::live_counters;
use schedlab_model::Phase;
use schedlab_sys::clock;
use schedlab_workload::{Behaviour, ChannelId, CounterId, Loop, SampleId};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

/// A task's loop, made ready: nothing is allocated once it runs.
pub(super) struct Native {
    work: Work,
    /// The channels in the order of their use; closed when this is dropped.
    files: Vec<Arc<File>>,
    buffer: Vec<u8>,
}

enum Work {
    Send { rounds: u64, stamped: bool, mark: Option<u32> },
    Receive { messages: u64, latency: Option<SampleId>, counter: CounterId },
}

/// Why a loop ends before its time.
enum Ended {
    /// All senders are gone.
    Closed,
    /// All tasks shall end.
    Stopped,
    /// The system refused (errno).
    Failed(i32),
}

impl Native {
    /// The loop of a behaviour that has one, with the ends of its channels.
    pub(super) fn of(behaviour: &dyn Behaviour, ends: &[(u32, Option<End>)]) -> Option<Self> {
        let file = |channel: &ChannelId, writes: bool| {
            let mut own = ends.iter().filter(|(id, _)| *id == channel.0);
            own.find_map(|(_, end)| match end {
                Some(End::Write(file)) if writes => Some(file.clone()),
                Some(End::Read(file)) if !writes => Some(file.clone()),
                _ => None,
            })
        };
        match behaviour.whole()? {
            Loop::Send { channels, bytes, rounds, stamped, mark } => Some(Self {
                work: Work::Send { rounds, stamped: stamped && bytes > 8, mark },
                files: channels.iter().map(|id| file(id, true)).collect::<Option<_>>()?,
                buffer: vec![b'-'; bytes as usize],
            }),
            Loop::Receive { channel, bytes, messages, latency, counter } => Some(Self {
                work: Work::Receive { messages, latency: latency.filter(|_| bytes > 8), counter },
                files: vec![file(&channel, false)?],
                buffer: vec![b'-'; bytes as usize],
            }),
        }
    }

    /// Runs it to its end, with marks where a stage is there to put them; the error that ended it, if one did.
    pub(super) fn run<S: Stage>(
        &mut self,
        arena: &Arena,
        task: usize,
        stage: Option<&S>,
    ) -> Option<i32> {
        let ended = match self.work {
            Work::Send { rounds, stamped, mark } => {
                self.send(arena, rounds, stamped, stage.zip(mark))
            }
            Work::Receive { messages, latency, counter } => {
                self.receive(arena, task, messages, latency, counter)
            }
        };
        match ended {
            // Others have closed what they held because all shall stop.
            Err(Ended::Failed(errno)) if !arena.stopping() => Some(errno),
            _ => None,
        }
    }

    fn send<S: Stage>(
        &mut self,
        arena: &Arena,
        rounds: u64,
        stamped: bool,
        mark: Option<(&S, u32)>,
    ) -> Result<(), Ended> {
        let put = |phase| {
            if let Some((stage, id)) = mark {
                stage.mark(clock::monotonic(), id, phase, 0);
            }
        };
        for _ in 0..rounds {
            put(Phase::Begin);
            for file in &self.files {
                if stamped {
                    self.buffer[..8].copy_from_slice(&clock::monotonic().0.to_ne_bytes());
                }
                write(arena, file, &self.buffer)?;
            }
            put(Phase::End);
            if arena.stopping() {
                return Err(Ended::Stopped);
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        arena: &Arena,
        task: usize,
        messages: u64,
        latency: Option<SampleId>,
        counter: CounterId,
    ) -> Result<(), Ended> {
        let counter = arena.counter(task, counter.0);
        let series = latency.map(|id| arena.series(task, id.0));
        let file = &self.files[0];
        for _ in 0..messages {
            read(arena, file, &mut self.buffer)?;
            if let (Some(series), Some(stamp)) = (series, self.buffer.first_chunk()) {
                let sent = u64::from_ne_bytes(*stamp);
                series.record(clock::monotonic().0.saturating_sub(sent));
            }
            live_counters::count(counter, 1);
        }
        Ok(())
    }
}

/// Whether an error of a call was only an interruption after which the task goes on.
fn goes_on(arena: &Arena, error: &std::io::Error) -> Result<(), Ended> {
    match error.kind() {
        ErrorKind::Interrupted if arena.stopping() => Err(Ended::Stopped),
        ErrorKind::Interrupted => Ok(()),
        _ => Err(Ended::Failed(code(error))),
    }
}

#[inline]
fn write(arena: &Arena, mut file: &File, mut bytes: &[u8]) -> Result<(), Ended> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) => goes_on(arena, &error)?,
        }
    }
    Ok(())
}

#[inline]
fn read(arena: &Arena, mut file: &File, bytes: &mut [u8]) -> Result<(), Ended> {
    let mut at = 0;
    while at < bytes.len() {
        match file.read(&mut bytes[at..]) {
            Ok(0) if at == 0 => return Err(Ended::Closed),
            // The sender died within a message.
            Ok(0) => return Err(Ended::Failed(32)),
            Ok(read) => at += read,
            Err(error) => goes_on(arena, &error)?,
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::super::interpret::{Bare, Interpreter};
    use super::super::start_tasks::Channels;
    use super::*;
    use schedlab_model::{Nanos, Topology};
    use schedlab_sys::allocation::allocations;
    use schedlab_workload::measure::Copied;
    use schedlab_workload::placement::MachineProperties;
    use schedlab_workload::plan::{Plan, Task};
    use schedlab_workload::workloads;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    const GROUPS: usize = 2;
    const FDS: u64 = 3;
    const LOOPS: u64 = 40;
    const BYTES: u64 = 100;

    fn plan(more: &str) -> Plan {
        let line =
            format!("threads groups={GROUPS} fds={FDS} loops={LOOPS} datasize={BYTES} {more}");
        let options = line.split_whitespace().map(|word| {
            let (name, value) = word.split_once('=').unwrap_or((word, "true"));
            (name.to_owned(), value.to_owned())
        });
        let topology = Topology::flat(1);
        let allowed = [schedlab_model::Cpu(0)].into_iter().collect();
        let around = MachineProperties { topology, allowed, speed: 1, seed: 1 };
        workloads::plan("hackbench", &options.collect(), &around).unwrap()
    }

    /// Bytes read and written and calls for each, of the calling thread, as the kernel counts them.
    fn counted() -> [u64; 4] {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let mut lines = text.lines();
        [(); 4].map(|()| lines.next().unwrap().split_once(": ").unwrap().1.parse().unwrap())
    }

    /// A stage that counts marks instead of putting them.
    #[derive(Default)]
    struct Marked(AtomicU64);

    impl Stage for Marked {
        fn mark(&self, _: Nanos, _: u32, _: Phase, _: u32) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// What a task did between its go and its end, by the kernel's count, and what it says itself: also its marks.
    fn perform(
        mut task: Task,
        index: usize,
        ends: Vec<(u32, Option<End>)>,
        by: &By<'_>,
    ) -> [u64; 7] {
        let stage = Marked::default();
        let mut native = by.native.then(|| Native::of(&*task.behaviour, &ends).unwrap());
        let mut interpreter = Interpreter::new(by.arena, index, ends, Vec::new(), &stage);
        by.go.wait();
        let before = counted();
        let allocated = allocations();
        let error = match &mut native {
            Some(native) => native.run(by.arena, index, Some(&stage)),
            None => interpreter.run(&mut *task.behaviour),
        };
        assert!(!by.native || allocations() == allocated, "a loop allocates");
        let after = counted();
        assert_eq!(error, None);
        let told = by.arena.counter(index, 0).load(std::sync::atomic::Ordering::Relaxed);
        let samples = by.samples.then(|| by.arena.series(index, 0).copy());
        let samples = samples.map_or(0, |copy| copy.since(&Copied::default()).count());
        let [a, b, c, d] = std::array::from_fn(|i| after[i] - before[i]);
        [a, b, c, d, told, samples, stage.0.load(Relaxed)]
    }

    struct By<'a> {
        native: bool,
        samples: bool,
        arena: &'a Arena,
        go: &'a Barrier,
    }

    /// For each task in turn.
    fn performed(native: bool, more: &str) -> Vec<[u64; 7]> {
        let mut plan = plan(more);
        let arena = Arena::new(&plan).unwrap();
        let tasks = std::mem::take(&mut plan.tasks);
        let mut channels = Channels::new(&plan, None);
        channels.see(&tasks);
        let go = Barrier::new(tasks.len());
        let by = By { native, samples: !plan.samples.is_empty(), arena: &arena, go: &go };
        std::thread::scope(|scope| {
            let started: Vec<_> = tasks
                .into_iter()
                .enumerate()
                .map(|(index, task)| {
                    let ends = channels.ends(&task).unwrap();
                    let by = &by;
                    scope.spawn(move || perform(task, index, ends, by))
                })
                .collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_loop_performs_the_operations_that_the_behaviour_yields() {
        for more in ["", "pipe", "compat=upstream", "pipe compat=upstream"] {
            let looped = performed(true, more);
            let yielded = performed(false, more);
            assert_eq!(looped, yielded, "{more}");
            for group in looped.chunks(2 * FDS as usize) {
                let (receivers, senders) = group.split_at(FDS as usize);
                let messages = FDS * LOOPS;
                for [_, bytes, _, writes, .., marks] in senders {
                    assert_eq!((*writes, *bytes), (messages, messages * BYTES), "{more}");
                    // A begin and an end for each round.
                    let rounds = if more.contains("upstream") { 0 } else { LOOPS };
                    assert_eq!(*marks, 2 * rounds, "{more}");
                }
                for [bytes, _, reads, _, told, samples, _] in receivers {
                    // Reading the kernel's count is itself counted.
                    assert!(*reads >= messages && *reads < messages + 8, "{more}: {reads}");
                    assert!(*bytes >= messages * BYTES, "{more}: {bytes}");
                    assert_eq!(*told, messages);
                    let expected = if more.contains("upstream") { 0 } else { messages };
                    assert_eq!(*samples, expected, "{more}");
                }
            }
        }
    }

    #[test]
    fn a_loop_sees_the_end_of_its_senders_and_a_stop() {
        let mut plan = plan("");
        let arena = Arena::new(&plan).unwrap();
        let tasks = std::mem::take(&mut plan.tasks);
        let mut channels = Channels::new(&plan, None);
        channels.see(&tasks);
        let native =
            |ends: &[(u32, Option<End>)], at: usize| Native::of(&*tasks[at].behaviour, ends);
        let mut receiver = native(&channels.ends(&tasks[0]).unwrap(), 0).unwrap();
        let mut sender =
            native(&channels.ends(&tasks[FDS as usize]).unwrap(), FDS as usize).unwrap();
        assert!(native(&[], 0).is_none(), "a loop without its channel");
        arena.stop().store(1, std::sync::atomic::Ordering::Relaxed);
        // A round is whole; then it sees that it shall stop.
        assert_eq!(sender.run(&arena, FDS as usize, None::<&Bare>), None);
        drop((sender, channels));
        assert_eq!(receiver.run(&arena, 0, None::<&Bare>), None);
        assert_eq!(arena.counter(0, 0).load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}
