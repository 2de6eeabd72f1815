//! The order of events at one time, kept in files that lie CPU by CPU.

use schedlab_model::{Cpu, Event, Nanos};

/// Gives events the times with which they are written, so that a reader that merges CPUs by time sees
/// them in the order in which they came.
///
/// Events at one time are normal: Linux ticks all CPUs at once, and virtual time stands still between
/// cause and effect. A file that lies CPU by CPU keeps only the time, and readers put the lower CPU
/// first. So an event that follows one of a higher CPU at the same time is written one nanosecond
/// later, and events behind it are moved only as far as they must.
#[derive(Debug, Default)]
pub(crate) struct Order {
    last: Option<(Nanos, Cpu)>,
    moved: u64,
    furthest: Nanos,
}

impl Order {
    /// The time with which the next event is written.
    pub(crate) fn time(&mut self, event: &Event) -> Nanos {
        let mut time = event.time;
        if let Some((last, cpu)) = self.last {
            time = time.max(last);
            if time == last && event.cpu < cpu {
                time = Nanos(time.0.saturating_add(1));
            }
        }
        if time > event.time {
            self.moved += 1;
            self.furthest = self.furthest.max(time - event.time);
        }
        self.last = Some((time, event.cpu));
        time
    }

    /// A sentence about the events that were moved, if any were.
    pub(crate) fn warning(&self) -> Option<String> {
        let Self { moved, furthest, .. } = self;
        (*moved > 0).then(|| {
            format!(
                "{moved} events are written up to {furthest} later: this keeps the order of \
                events at one time"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Context, Pid, What};

    fn times(events: &[(u64, u16)]) -> (Vec<u64>, Option<String>) {
        let mut order = Order::default();
        let event = |&(time, cpu)| Event {
            time: Nanos(time),
            by: Pid(1),
            cpu: Cpu(cpu),
            context: Context::Task,
            what: What::Exit { pid: Pid(1) },
        };
        let times = events.iter().map(|e| order.time(&event(e)).0).collect();
        (times, order.warning())
    }

    #[test]
    fn only_events_that_readers_would_turn_around_are_moved() {
        assert_eq!(times(&[(5, 0), (5, 0), (5, 1), (6, 0)]), (vec![5, 5, 5, 6], None));
        let (moved, told) = times(&[(5, 1), (5, 0), (5, 1), (5, 0), (6, 1), (9, 0)]);
        assert_eq!(moved, [5, 6, 6, 7, 7, 9]);
        assert!(told.unwrap().starts_with("4 events are written up to 2ns later"));
    }
}
