//! A record reduced to the 32 bytes that its event needs. Records that wait for their turn in time are kept so.
//!
//! A record is reduced while its bytes are in the L1 cache, and another thread takes it over cheaply. Only
//! records that `fast_decode` understands are reduced. A task's name becomes a number (`name_numbers`); whether
//! the name is new is decided when the record's turn comes, so the events are those that decoding then would give.

use crate::decode::Stamp;
use crate::fast_decode::{self, Known, MIGRATE, Near, REACH, Record, SWITCH, TASK};
use crate::merge::Out;
use crate::name_numbers::Numbers;
use crate::names::Names;
use crate::plan::Decoder;
use schedlab_model::{Comm, Context, Cpu, Event, Left, Nanos, Pid, Prio, What};

/// A record that waits. Half a line of the cache, and never across two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct ReducedRecord {
    pub(crate) time: u64,
    /// The task that was running; it is the one that a switch takes from its CPU. Without an event: the first of
    /// two numbers that belong to the one that holds it.
    by: u32,
    /// The task that the event is about; the one that a switch puts on its CPU. Without an event: the second number.
    pid: i32,
    name: u32,
    /// That of the name of `by`, or two CPUs, or the number of a tracepoint that is none of the scheduler's.
    more: u32,
    prio: i16,
    by_prio: i16,
    form: Form,
    context: Context,
    left: Left,
}

const _: () = assert!(size_of::<ReducedRecord>() == 32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// No event: what it is lies elsewhere.
    Elsewhere,
    Other,
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
}

impl ReducedRecord {
    /// Holds a place in the order of time for what lies elsewhere, where these numbers say.
    pub(crate) fn elsewhere(time: u64, numbers: [u32; 2]) -> Self {
        Self {
            time,
            by: numbers[0],
            pid: numbers[1].cast_signed(),
            name: 0,
            more: 0,
            prio: 0,
            by_prio: 0,
            form: Form::Elsewhere,
            context: Context::Task,
            left: Left::Other,
        }
    }

    /// The numbers that it was given; `None` where it is an event's.
    pub(crate) fn numbers(&self) -> Option<[u32; 2]> {
        (self.form == Form::Elsewhere).then_some([self.by, self.pid.cast_unsigned()])
    }

    /// Puts its event, after names that are news; `false` when it has none.
    #[inline(always)]
    pub(crate) fn put(&self, cpu: Cpu, names: &mut Names, out: &mut impl Out) -> bool {
        let pid = Pid(self.pid);
        let prio = Prio(self.prio);
        let more = self.more;
        let places = [Cpu(more as u16), Cpu((more >> 16) as u16)];
        match self.form {
            Form::Switch => {
                self.called(cpu, self.by.cast_signed(), more, names, out);
                self.called(cpu, self.pid, self.name, names, out);
                let prev = Pid(self.by.cast_signed());
                let prev_prio = Prio(self.by_prio);
                let left = self.left;
                let next = pid;
                let next_prio = prio;
                let what = What::Switch { prev, prev_prio, left, next, next_prio };
                out.put(self.event(cpu, what));
            }
            Form::Waking => {
                self.called(cpu, self.pid, self.name, names, out);
                out.put(self.event(cpu, What::Waking { pid, prio, last_cpu: places[0] }));
            }
            Form::Wakeup => {
                self.called(cpu, self.pid, self.name, names, out);
                out.put(self.event(cpu, What::Wakeup { pid, prio, cpu: places[0], new: false }));
            }
            Form::WakeupNew => {
                self.called(cpu, self.pid, self.name, names, out);
                out.put(self.event(cpu, What::Wakeup { pid, prio, cpu: places[0], new: true }));
            }
            Form::Migrate => {
                self.called(cpu, self.pid, self.name, names, out);
                let [from, to] = places;
                out.put(self.event(cpu, What::Migrate { pid, from, to }));
            }
            Form::Other => out.put(self.event(cpu, What::Other { format: more as u16 })),
            Form::Elsewhere => return false,
        }
        true
    }

    #[inline(always)]
    fn event(&self, cpu: Cpu, what: What) -> Event {
        let by = Pid(self.by.cast_signed());
        Event { time: Nanos(self.time), by, cpu, context: self.context, what }
    }

    #[inline(always)]
    fn called(&self, cpu: Cpu, pid: i32, name: u32, names: &mut Names, out: &mut impl Out) {
        if let Some(comm) = names.changed_to(pid, name) {
            let event = self.event(cpu, What::Lost { count: None });
            out.aside(move |batch| fast_decode::renamed(event, Pid(pid), comm, batch));
        }
    }
}

impl Decoder {
    /// Has a reduced record held; `false` when it goes the long way. `bytes` are its own and what lies behind
    /// it.
    #[inline(always)]
    pub(crate) fn reduced(
        &self,
        known: Known,
        time: u64,
        bytes: &[u8; REACH],
        numbers: &mut Numbers,
        hold: impl FnOnce(ReducedRecord),
    ) -> bool {
        use fast_decode::Kind;
        // CPUs of reduced records are their lanes.
        let stamp = Stamp { time, cpu: Cpu(0) };
        let record = |at| Record::new(self, bytes, at, stamp);
        match known.kind {
            Kind::UsualSwitch => record(SWITCH).switched(self, numbers).map(hold).is_some(),
            kind @ (Kind::UsualWaking
            | Kind::UsualWakeup
            | Kind::UsualWakeupNew
            | Kind::UsualMigrate) => {
                hold(record(MIGRATE).task(Form::of(kind), numbers));
                true
            }
            Kind::Far => false,
            // The one that keeps bodies does so on the long way.
            Kind::UsualOther | Kind::Other if self.keeps => false,
            Kind::UsualOther => {
                let format = self.near.get(usize::from(known.id)).map_or(0, |near| near.other);
                hold(record(TASK).other(format));
                true
            }
            _ => {
                let near = self.near.get(usize::from(known.id)).copied().unwrap_or_default();
                self.reduced_placed(&near, &record(near.places), numbers).map(hold).is_some()
            }
        }
    }

    /// The reduced form of a record whose places are not the usual ones: by itself, to leave registers to the others.
    #[inline(never)]
    fn reduced_placed(
        &self,
        near: &Near,
        record: &Record<'_>,
        numbers: &mut Numbers,
    ) -> Option<ReducedRecord> {
        use fast_decode::Kind;
        match near.kind {
            Kind::Switch => record.switched(self, numbers),
            Kind::Other => Some(record.other(near.other)),
            kind => Some(record.task(Form::of(kind), numbers)),
        }
    }
}

impl Form {
    /// That of a kind that is about one task.
    #[inline(always)]
    fn of(kind: fast_decode::Kind) -> Self {
        use fast_decode::Kind;
        match kind {
            Kind::Waking | Kind::UsualWaking => Self::Waking,
            Kind::Wakeup | Kind::UsualWakeup => Self::Wakeup,
            Kind::WakeupNew | Kind::UsualWakeupNew => Self::WakeupNew,
            _ => Self::Migrate,
        }
    }
}

impl Record<'_> {
    #[inline(always)]
    fn number(&self, numbers: &mut Numbers, pid: i32, comm: u8) -> u32 {
        let comm: &Comm = self.name(comm);
        numbers.of(pid, comm)
    }

    /// `None` when the task that leaves is not the one that was running, which no kernel writes.
    #[inline(always)]
    fn switched(&self, decoder: &Decoder, numbers: &mut Numbers) -> Option<ReducedRecord> {
        let at = self.at;
        let prev = self.word(at.pid);
        let next = self.word(at.next);
        let name = self.number(numbers, next, at.next_comm);
        let reduced = ReducedRecord {
            time: self.stamp.time,
            by: prev.cast_unsigned(),
            pid: next,
            name,
            more: self.number(numbers, prev, at.comm),
            prio: self.prio(at.next_prio).0,
            by_prio: self.prio(at.prio).0,
            form: Form::Switch,
            context: self.context,
            left: self.left(decoder),
        };
        (self.word(at.by) == prev).then_some(reduced)
    }

    #[inline(always)]
    fn task(&self, form: Form, numbers: &mut Numbers) -> ReducedRecord {
        let at = self.at;
        let pid = self.word(at.pid);
        let [there, to] = [at.there, at.next].map(|at| u32::from(self.place(at).0));
        ReducedRecord {
            pid,
            name: self.number(numbers, pid, at.comm),
            more: there | to << 16,
            prio: self.prio(at.prio).0,
            ..self.plain(form)
        }
    }

    #[inline(always)]
    fn other(&self, format: u16) -> ReducedRecord {
        ReducedRecord { more: format.into(), ..self.plain(Form::Other) }
    }

    #[inline(always)]
    fn plain(&self, form: Form) -> ReducedRecord {
        let by = self.word(self.at.by).cast_unsigned();
        let Self { context, stamp, .. } = *self;
        ReducedRecord { by, form, context, ..ReducedRecord::elsewhere(stamp.time, [0; 2]) }
    }
}
