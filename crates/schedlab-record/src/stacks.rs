//! Call stacks of tasks that leave their CPUs to sleep: what a blocked task waits in. If asked for, also those of tasks that
//! wake others, and at each tick those of tasks that run.
//!
//! Ftrace logs them itself, behind the event (its trigger `stacktrace`). Perf events add them to the sample of the event;
//! [`Stacks::record`] makes the same record of that. Names of functions come from a copy of `/proc/kallsyms` in the spool,
//! of which the trace keeps the lines that its stacks need.

use super::sample::Sample;
use super::tracepoints::{STACK, Tracepoint};
use super::{RecordError, spool};
use schedlab_model::Warning;
use schedlab_sys::tracefs::Tracefs;
use schedlab_trace::call_chain::{CONTEXTS, IN_USER, SLEEPS};
use schedlab_trace::symbols::Symbols;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

/// Where ftrace is asked to log them: which event, and which of these. The low bits of `prev_state` are those of sleeping
/// tasks; a task that stays runnable has none.
pub(crate) const TRIGGER: (&str, &str) =
    ("events/sched/sched_switch/trigger", "stacktrace if prev_state & 255");
/// The same of tasks that wake others. In an interrupt (bits of `common_flags`) the stack would be that of a bystander.
pub(crate) const WAKERS: (&str, &str) =
    ("events/sched/sched_waking/trigger", "stacktrace if !(common_flags & 88)");
/// The same for the task that runs at each tick of a timer, except the idle task.
pub(crate) const RUNNING: (&str, &str) =
    ("events/timer/hrtimer_expire_entry/trigger", "stacktrace if common_pid != 0");
/// The tracepoint of timers that expire: system and name.
pub(crate) const FIRES: [&str; 2] = ["timer", "hrtimer_expire_entry"];
/// The bits of `common_flags` in a hardware interrupt, in a softirq and in an interrupt that cannot be masked.
const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;
/// The first address of the kernel.
const KERNEL: u64 = 1 << 63;

/// The kernel's addresses in a chain.
pub(crate) fn in_kernel(chain: &[u8]) -> impl Iterator<Item = u64> {
    chain.chunks_exact(8).map(number).filter(|word| (KERNEL..CONTEXTS).contains(word))
}

/// The program's addresses in a chain that the kernel made by frame pointers.
pub(crate) fn by_frame_pointers(chain: &[u8]) -> impl Iterator<Item = u64> {
    let behind = chain.chunks_exact(8).map(number).skip_while(|word| *word != IN_USER).skip(1);
    behind.take_while(|word| *word < KERNEL)
}

/// The format of a stack's record.
pub(crate) fn tracepoint(tracefs: &Tracefs) -> Result<Tracepoint, RecordError> {
    Tracepoint::of_ftrace(tracefs, STACK.1)
}

/// Stores the names of the kernel's functions beside a recording. If this user may not read them, the end of the
/// recording reports that they are missing.
pub(crate) fn keep_symbols(dir: &Path) -> Result<(), RecordError> {
    match std::fs::read("/proc/kallsyms") {
        Ok(text) => spool::write_bytes(&spool::symbols(dir), &text),
        Err(_) => Ok(()),
    }
}

/// Functions of timers, which `hrtimer_expire_entry` names by their addresses: the end of a quota's period is one.
const TIMERS: [&str; 7] = [
    "sched_cfs_period_timer",
    "sched_cfs_slack_timer",
    "sched_rt_period_timer",
    "dl_task_timer",
    "hrtimer_wakeup",
    "tick_nohz_handler",
    "tick_sched_timer",
];

/// Keeps the names of timers' functions beside a recording, as [`keep_symbols`] does with all.
pub(crate) fn keep_timers(dir: &Path) -> Result<(), RecordError> {
    let Ok(file) = File::open("/proc/kallsyms") else { return Ok(()) };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut line = String::new();
    let mut lines = String::new();
    let mut found = BTreeSet::new();
    // They come early in a list that takes long to read. Newer kernels have one of the two ticks, older ones both, one
    // behind the other.
    let mut more = 4096;
    while found.len() < TIMERS.len()
        && more > 0
        && file.read_line(&mut line).is_ok_and(|read| read > 0)
    {
        more -= u32::from(found.len() + 1 == TIMERS.len());
        let name = line.split_ascii_whitespace().nth(2);
        if let Some(place) = TIMERS.iter().position(|timer| name == Some(timer)) {
            found.insert(place);
            lines.push_str(&line);
        }
        line.clear();
    }
    let path = spool::symbols(dir);
    // Plain: the spool is private.
    std::fs::write(&path, lines).map_err(RecordError::file(&path))
}

/// The lines of `/proc/kallsyms` that these addresses and timers need, or why there are none.
pub(crate) fn symbols(dir: &Path, addresses: &BTreeSet<u64>) -> Result<Vec<u8>, Warning> {
    let symbols = Symbols::parse(&spool::read_if_there(&spool::symbols(dir)).unwrap_or_default());
    if symbols.is_empty() && !addresses.is_empty() {
        return Err(Warning::new(
            "stacks-unnamed",
            "stacks hold addresses without names: the kernel hides its symbols",
            "set kernel.kptr_restrict to 0, or record as root",
        ));
    }
    let timers = TIMERS.iter().filter_map(|name| symbols.address(name));
    Ok(symbols.text_of(&addresses.iter().copied().chain(timers).collect()))
}

/// How the kernel lays out switches and stacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stacks {
    id: u16,
    size_at: usize,
    callers_at: usize,
    switch: u16,
    /// The offset and the size of the state.
    state: (usize, usize),
    /// The wakeups with stacks, if these are recorded.
    waking: Option<u16>,
    /// The timers with stacks of the tasks that they interrupt, if these are recorded.
    fires: Option<u16>,
}

impl Stacks {
    /// `None` where no stacks are recorded; `wakers`, `running`: whether those of wakers, and of tasks that run, are.
    pub(crate) fn of(tracepoints: &[Tracepoint], wakers: bool, running: bool) -> Option<Self> {
        let stack = tracepoints.iter().find(|point| point.is_stack())?;
        let switch = tracepoints.iter().find(|point| point.name == "sched_switch")?;
        let waking = tracepoints.iter().find(|point| wakers && point.name == "sched_waking");
        let fires = tracepoints.iter().find(|point| running && point.name == FIRES[1]);
        Some(Self {
            id: stack.id,
            size_at: stack.field("size")?.0,
            callers_at: stack.field("caller")?.0,
            switch: switch.id,
            state: switch.field("prev_state")?,
            waking: waking.map(|point| point.id),
            fires: fires.map(|point| point.id),
        })
    }

    /// Whether the stack of a sample is kept: its task goes to sleep, wakes another, or a timer interrupts it.
    pub(crate) fn are_kept_of(&self, sample: &Sample<'_>) -> bool {
        self.goes_to_sleep(sample) || self.wakes(sample) || self.runs(sample)
    }

    /// Whether a sample is a timer that interrupts a task.
    fn runs(&self, sample: &Sample<'_>) -> bool {
        let id = tracepoint_of(sample);
        id.is_some() && id == self.fires && sample.raw.get(4..8).is_some_and(|pid| number(pid) != 0)
    }

    /// Whether the sample's task made the wakeup. A wakeup by an interrupt has the stack of a task that only ran there.
    fn wakes(&self, sample: &Sample<'_>) -> bool {
        let id = tracepoint_of(sample);
        let is_tasks = |flags: &u8| flags & IN_INTERRUPT == 0;
        id.is_some() && id == self.waking && sample.raw.get(2).is_some_and(is_tasks)
    }

    /// Whether a sample is a switch after which its task sleeps.
    fn goes_to_sleep(&self, sample: &Sample<'_>) -> bool {
        let id = tracepoint_of(sample);
        let state = sample.raw.get(self.state.0..self.state.0 + self.state.1).map(number);
        id == Some(self.switch) && state.is_some_and(|state| state & SLEEPS != 0)
    }

    /// The record of such a sample's stack: the kernel's functions, then these words for the program's.
    pub(crate) fn record(&self, sample: &Sample<'_>, user: &[u64]) -> Option<Vec<u8>> {
        let addresses: Vec<u64> = in_kernel(sample.chain).chain(user.iter().copied()).collect();
        if addresses.is_empty() {
            return None;
        }
        let mut body = vec![0; self.callers_at];
        let common = sample.raw.get(..8)?;
        body.get_mut(..8)?.copy_from_slice(common);
        body.get_mut(..2)?.copy_from_slice(&self.id.to_ne_bytes());
        let count = u32::try_from(addresses.len()).ok()?;
        body.get_mut(self.size_at..self.size_at + 4)?.copy_from_slice(&count.to_ne_bytes());
        body.extend(addresses.iter().flat_map(|address| address.to_ne_bytes()));
        Some(body)
    }

    /// The kernel's addresses in a stack's record; none of another record.
    pub(crate) fn addresses<'a>(&self, body: &'a [u8]) -> impl Iterator<Item = u64> + use<'a> {
        let is_stack = body.first_chunk().is_some_and(|id| u16::from_ne_bytes(*id) == self.id);
        let callers = if is_stack { body.get(self.callers_at..) } else { None };
        let size = body.get(self.size_at..).and_then(|rest| rest.first_chunk());
        let count = size.map_or(0, |size| u32::from_ne_bytes(*size) as usize);
        let words = callers.unwrap_or_default().chunks_exact(8).take(count).map(number);
        words.filter(|word| *word >= KERNEL)
    }
}

/// The number of a sample's tracepoint.
fn tracepoint_of(sample: &Sample<'_>) -> Option<u16> {
    sample.raw.first_chunk().map(|id| u16::from_ne_bytes(*id))
}

/// A number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    let size = bytes.len().min(8);
    if cfg!(target_endian = "big") {
        wide[8 - size..].copy_from_slice(&bytes[..size]);
    } else {
        wide[..size].copy_from_slice(&bytes[..size]);
    }
    u64::from_ne_bytes(wide)
}

#[cfg(test)]
mod tests {
    use super::super::sample::SampleLayout;
    use super::*;

    fn points() -> Vec<Tracepoint> {
        let point = |system: &str, name: &str, id, format: &str| Tracepoint {
            system: system.into(),
            name: name.into(),
            id,
            format: format.into(),
        };
        vec![
            point(
                "sched",
                "sched_switch",
                300,
                "\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n",
            ),
            point(
                STACK.0,
                STACK.1,
                4,
                "\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
                 \tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n",
            ),
        ]
    }

    #[test]
    fn the_programs_part_of_a_chain_is_behind_its_mark() {
        let of = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            by_frame_pointers(&bytes).collect::<Vec<_>>()
        };
        let kernel = [u64::MAX - 127, 0xffff_ffff_8100_0010];
        assert_eq!(of(&[&kernel[..], &[IN_USER, 0x10, 0x20]].concat()), [0x10, 0x20]);
        assert_eq!(of(&[&[IN_USER, 0x10], &kernel[..]].concat()), [0x10]);
        assert!(of(&kernel).is_empty() && of(&[]).is_empty());
    }

    #[test]
    fn a_sample_of_a_task_that_sleeps_gives_the_record_that_ftrace_would_write() {
        let stacks = Stacks::of(&points(), false, false).unwrap();
        let chain = [u64::MAX - 127, 0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020];
        let chain: Vec<u8> = chain.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let raw = |state: u64| {
            let head = [300u16.to_ne_bytes().as_slice(), &[1, 2], &7u32.to_ne_bytes()].concat();
            [head, state.to_ne_bytes().to_vec()].concat()
        };
        let asleep = raw(1);
        let preempted = raw(0x100);
        let body = |raw: &[u8]| {
            let time = [1u64, 3].map(u64::to_ne_bytes).concat();
            let size = u32::try_from(raw.len()).unwrap().to_ne_bytes();
            [&time, &chain, size.as_slice(), raw].concat()
        };
        let layout = SampleLayout { has_task: false, has_chain: true };
        let record = |raw: &[u8], user: &[u64]| {
            let body = body(raw);
            let sample = Sample::parse(&body, layout).unwrap();
            stacks.are_kept_of(&sample).then(|| stacks.record(&sample, user)).flatten()
        };
        let made = record(&asleep, &[]).unwrap();
        assert_eq!(made[..2], 4u16.to_ne_bytes());
        assert_eq!((made[4..8].to_vec(), made.len()), (7u32.to_ne_bytes().to_vec(), 32));
        let addresses: Vec<u64> = stacks.addresses(&made).collect();
        assert_eq!(addresses, [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0020]);
        assert_eq!(stacks.addresses(&asleep).count(), 0, "a switch is no stack");
        let made = record(&asleep, &[0x10, 0x20]).unwrap();
        assert_eq!((made.len(), &made[8..12]), (48, &4u32.to_ne_bytes()[..]));
        assert_eq!(stacks.addresses(&made).count(), 2, "the program's are no addresses");
        assert_eq!(record(&preempted, &[]), None, "it was preempted");
        for length in 0..asleep.len() {
            assert_eq!(record(&asleep[..length], &[]), None);
        }
        assert!(Stacks::of(&points()[..1], false, false).is_none());
    }

    #[test]
    fn a_wakers_stack_is_kept_if_it_was_asked_for_and_no_interrupt_woke() {
        let mut points = points();
        points.push(Tracepoint {
            system: "sched".into(),
            name: "sched_waking".into(),
            id: 375,
            format: String::new(),
        });
        let is_kept = |wakers: bool, flags: u8| {
            let raw = [&375u16.to_ne_bytes()[..], &[flags, 0], &[0; 4]].concat();
            let size = u32::try_from(raw.len()).unwrap().to_ne_bytes();
            let body = [&[0; 16][..], &size, &raw].concat();
            let layout = SampleLayout { has_task: false, has_chain: true };
            let sample = Sample::parse(&body, layout).unwrap();
            Stacks::of(&points, wakers, false).unwrap().are_kept_of(&sample)
        };
        assert_eq!(
            [0, 1, 0x08, 0x10, 0x40].map(|flags| is_kept(true, flags)),
            [true, true, false, false, false]
        );
        assert!(!is_kept(false, 0));
    }

    #[test]
    fn a_running_tasks_stack_is_kept_if_it_was_asked_for_and_no_cpu_idled() {
        let mut points = points();
        let [system, name] = FIRES.map(str::to_owned);
        points.push(Tracepoint { system, name, id: 410, format: String::new() });
        let is_kept = |running: bool, pid: u32| {
            let raw = [&410u16.to_ne_bytes()[..], &[0x08, 0], &pid.to_ne_bytes()].concat();
            let size = u32::try_from(raw.len()).unwrap().to_ne_bytes();
            let body = [&[0; 16][..], &size, &raw].concat();
            let layout = SampleLayout { has_task: false, has_chain: true };
            let sample = Sample::parse(&body, layout).unwrap();
            Stacks::of(&points, false, running).unwrap().are_kept_of(&sample)
        };
        assert_eq!([is_kept(true, 7), is_kept(true, 0), is_kept(false, 7)], [true, false, false]);
    }
}
