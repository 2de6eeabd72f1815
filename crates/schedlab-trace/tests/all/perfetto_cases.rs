//! Perfetto's own tests of what it reads from traces, rebuilt by `corpus/perfetto.py`: each trace is read here, and the rows
//! that Perfetto's query gives are compared with what schedlab says.
//!
//! A row is one of these; `-` is a value that Perfetto leaves empty, and a duration of -1 lasts until the trace ends.
//!
//! - `slice TIME DURATION CPU TASK END`: a task ran
//! - `state TIME DURATION STATE TASK CPU`: a task ran, waited or slept
//! - `blocked TIME TASK IO FUNCTION`: a task slept uninterruptibly, and why
//! - `task TASK PROCESS NAME`, `mark TIME DURATION NAME`, `counter TIME EVENT ARGUMENT CPU`, `counted COUNT EVENT ARGUMENT`
//! - `within OUTER|INNER`: a mark lies within another one of its task; `bounds START END`; `cpu CPU`: it has events
//! - `active TIME CPUS`, `runnable TIME TASKS`, `idle CPU STATE COUNT DURATION`, `irq TIME DURATION`
//! - `sums FROM TO TASK RAN WAITED BLOCKED SLEPT`: how long a task did what in this time
//!
//! `?` stands for a time, a duration or a name that the query leaves out. `trace NAME` is the trace of an earlier test.

use schedlab_model::{Context, Cpu, CpuSet, Event, Left, Nanos, Phase, Pid, Span, TraceInfo, What};
use schedlab_timeline::{Reply, Slices, SlicesAnswer, ask, notation};
use schedlab_trace::{Options, open_bytes_with};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

/// The cases, a paragraph each.
fn cases() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/perfetto.txt");
    std::fs::read_to_string(path).unwrap()
}

/// Tests whose rows are not what schedlab says, and why it says something else.
const APART: &[(&str, &str)] = &[
    ("android_startup", "without wakeups nobody knows when a sleep ended"),
    ("android_startup_slow", "without wakeups nobody knows when a sleep ended"),
    ("android_startup_process_track", "a new task waits from its wakeup on, not from its creation"),
    ("regex_pattern_no_gap_after_irq_flags", "a time that no blank precedes is not read"),
    ("chrome_threads_skip_swapper_tid_override", "names of tasks in descriptors are not read"),
    ("chrome_thread_is_sandboxed_tid", "names of tasks in descriptors are not read"),
    ("track_descriptor_process_thread_sort_index", "names of tasks in descriptors are not read"),
    ("android_b2b_async_begin_list_slices", "a second begin of an open request is a begin here"),
    ("sched_switch_multiple_threads_thread_state", "a task that is first seen asleep has no event"),
    ("thread_state_gap_between_state_change", "why a task left is told later than its switch"),
    ("sched_blocked_proto_sched_blocked_reason", "events name a task as running that does not run"),
    ("process_tracking", "of two tasks with one number the last name is told"),
    ("process_tracking_machine_id", "of two tasks with one number the last name is told"),
    ("process_tracking_reused_thread_print", "of two tasks with one number one process is told"),
    ("track_event_same_tids_threads", "of two tasks with one number one process is told"),
    ("track_event_instant_slices", "Chrome's older form of events is not read"),
    ("streaming_profile_timestamp_delta_overflow", "Chrome's older form of times is not read"),
    ("track_event_absolute_timestamp_us_overflow", "Chrome's older form of times is not read"),
    ("track_event_delta_timestamp_addition_overflow", "Chrome's older form of times is not read"),
    ("track_event_tracks_slices", "Chrome's older form of events is not read"),
    ("track_event_with_atrace", "Chrome's older form of events is not read"),
];

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A message spelt by the numbers of its fields: `8:5 1{1:0 2:"a"} 3:[1 2]`.
fn message(text: &mut &str) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        *text = text.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = text[..digits].parse::<u64>() else { return out };
        let sign = text.as_bytes()[digits];
        *text = &text[digits + 1..];
        match (sign, text.as_bytes().first()) {
            (b'{', _) => {
                let inside = message(text);
                *text = text.strip_prefix('}').unwrap();
                field(&mut out, number, &inside);
            }
            (_, Some(b'"')) => {
                let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
                let value = values.next().unwrap().unwrap();
                *text = &text[values.byte_offset()..];
                field(&mut out, number, value.as_bytes());
            }
            (_, Some(b'[')) => {
                let (inside, rest) = text[1..].split_once(']').unwrap();
                *text = rest;
                let mut packed = Vec::new();
                inside.split(' ').for_each(|value| varint(&mut packed, value.parse().unwrap()));
                field(&mut out, number, &packed);
            }
            _ => {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                varint(&mut out, number << 3);
                varint(&mut out, text[..digits].parse().unwrap());
                *text = &text[digits..];
            }
        }
    }
}

/// Whether a packet itself has a bundle of events, or a task's state.
fn has_events(line: &str) -> bool {
    let mut depth = 0;
    line.split(' ').any(|word| {
        let is_top = depth == 0;
        depth += word.matches('{').count() as i32 - word.matches('}').count() as i32;
        is_top && (word.starts_with("1{") || word.starts_with("117{"))
    })
}

/// A trace as schedlab reads it.
struct Read {
    info: TraceInfo,
    events: Vec<(Event, String)>,
    reply: Reply<SlicesAnswer>,
}

/// Reads a case's trace; a trace of marks alone gets a switch beside them, since schedlab reads traces of the scheduler.
fn read(lines: &[&str], rows: &[&str]) -> Result<Read, String> {
    let mut bytes = Vec::new();
    for line in lines {
        if let Some(text) = line.strip_prefix("text ") {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(b'\n');
        } else if let Some(mut packet) = line.strip_prefix("packet ") {
            field(&mut bytes, 1, &message(&mut packet));
        }
    }
    let has_marks =
        rows.iter().all(|row| ["mark", "task", "within"].iter().any(|of| row.starts_with(of)));
    if has_marks && !lines.iter().any(|line| has_events(line)) && lines[0].starts_with("packet") {
        let mut switch = "1{1:0 2{1:1 2:0 4{2:0 4:0 6:0}}}";
        field(&mut bytes, 1, &message(&mut switch));
    }
    let options = Options { arguments: true, ..Options::default() };
    let mut source =
        open_bytes_with(Path::new("x"), bytes, &options).map_err(|error| error.to_string())?;
    let (mut events, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            events.push((*event, source.arguments(index).unwrap_or_default().into_owned()));
        }
    }
    let info = source.info().clone();
    let mut plain: Vec<Event> = events.iter().map(|(event, _)| *event).collect();
    let times: Vec<Nanos> = plain.iter().map(|event| event.time).collect();
    let (Some(first), Some(last)) = (times.iter().min().copied(), times.iter().max().copied())
    else {
        return Err("no events".into());
    };
    // So that what begins with the last event has a length.
    let end = last + Nanos(1000);
    let what = What::Mark { pid: Pid::IDLE, id: u32::MAX, phase: Phase::Point, request: 0 };
    plain.push(Event { time: end, by: Pid::IDLE, cpu: Cpu(0), context: Context::Task, what });
    let mut whole = info.clone();
    whole.span = Some(Span::new(first, end));
    whole.cpus = plain.iter().map(|event| event.cpu).collect::<CpuSet>();
    let trace = notation::Trace { info: whole, events: plain, tick: Nanos(1) };
    let reply = ask(&mut trace.source(), Slices::new(1 << 20).with_sleeps()).unwrap();
    Ok(Read { info, events, reply })
}

/// Whether a pid is that of a task by Perfetto's number, which may be larger than ours can be.
fn is(pid: i32, task: &str) -> bool {
    match task.parse::<i32>() {
        Ok(number) => number == pid,
        Err(_) => pid >= (1 << 22) - 64,
    }
}

impl Read {
    fn pid(&self, task: schedlab_timeline::TaskId) -> i32 {
        if task.is_some() { self.reply.state.task(task).pid.0 } else { 0 }
    }

    /// Whether an interval is the row's: of this task, from this time on, for so long.
    fn lasts(&self, from: Nanos, to: Nanos, time: &str, duration: &str) -> bool {
        let to_end = to == self.reply.observed.end;
        let length = to.0.saturating_sub(from.0).to_string();
        from.0.to_string() == time && (length == duration || to_end && duration == "-1")
    }

    fn slice(&self, words: &[&str]) -> bool {
        let [time, duration, cpu, task, end] = words[..] else { return false };
        let state = |left: Option<Left>| match left {
            Some(Left::Dead) => matches!(end, "X" | "Z" | "X|Z"),
            Some(Left::Other) | None => end == "-",
            Some(left) => end.trim_end_matches('+') == left.letters().trim_end_matches('+'),
        };
        if matches!(task, "0" | "-") {
            return self.between_switches(words);
        }
        self.reply.answer.slices.iter().any(|slice| {
            self.lasts(slice.from, slice.to, time, duration)
                && (cpu == "-" || slice.cpu.0.to_string() == cpu)
                && is(self.pid(slice.task), task)
                && (end == "-" || state(slice.left))
        })
    }

    /// Idle CPUs have no slices: they are between two switches.
    fn between_switches(&self, words: &[&str]) -> bool {
        let switches = self.events.iter().map(|(event, _)| event).filter(|event| {
            event.cpu.0.to_string() == words[2] && matches!(event.what, What::Switch { .. })
        });
        let mut times = switches.map(|event| event.time.0);
        let Some(from) = times.find(|time| time.to_string() == words[0]) else { return false };
        let to = times.next();
        words[1] == "?" || to.map_or(words[1] == "-1", |to| (to - from).to_string() == words[1])
    }

    fn state(&self, words: &[&str]) -> bool {
        let [time, duration, state, task, cpu] = words[..] else { return false };
        let is = |pid: i32| is(pid, task);
        let at = |from: Nanos, to: Nanos| self.lasts(from, to, time, duration);
        let answer = &self.reply.answer;
        let left = answer
            .slices
            .iter()
            .find(|slice| is(self.pid(slice.task)) && slice.to.0.to_string() == time);
        let left = left.and_then(|slice| slice.left);
        let exited = || {
            self.events.iter().any(|(event, _)| {
                event.time.0.to_string() == time
                    && matches!(event.what, What::Exit { pid } if is(pid.0))
            })
        };
        match state {
            "Running" => self.slice(&[time, duration, cpu, task, "-"]),
            "R" | "R+" => {
                answer.waits.iter().any(|wait| is(self.pid(wait.task)) && at(wait.from, wait.to))
            }
            "X" | "Z" => left == Some(Left::Dead) || exited(),
            // It left its CPU, and nobody says why.
            "-" => matches!(left, None | Some(Left::Other)),
            _ => {
                let slept = |left: Left| left.letters() == state;
                answer.sleeps.iter().any(|sleep| {
                    is(self.pid(sleep.task)) && at(sleep.from, sleep.to) && slept(sleep.left)
                })
            }
        }
    }

    fn others<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Event, &'a str)> + 'a {
        self.events.iter().filter_map(move |(event, arguments)| match event.what {
            What::Other { format } if self.info.others[usize::from(format)].name == name => {
                Some((event, arguments.as_str()))
            }
            _ => None,
        })
    }

    fn blocked(&self, words: &[&str]) -> bool {
        let [time, task, io, function] = words[..] else { return false };
        let slept = self.reply.answer.slices.iter().any(|slice| {
            self.pid(slice.task).to_string() == task
                && (time == "?" || slice.to.0.to_string() == time)
                && slice.left == Some(Left::Blocked)
        });
        let mut why = self.others("sched_blocked_reason").filter(|(event, arguments)| {
            let of = arguments.split(' ').any(|word| word == format!("pid={task}"));
            of && (time == "?" || event.time.0 >= time.parse().unwrap())
        });
        let is_told = |(_, arguments): (&Event, &str)| {
            let is_io = io == "-" || arguments.contains(&format!("iowait={io}"));
            let caller = arguments.split("caller=").nth(1).unwrap_or_default();
            is_io && (function == "-" || caller == function)
        };
        // With a time the first one after it counts.
        slept && if time == "?" { why.any(is_told) } else { why.next().is_some_and(is_told) }
    }

    fn task(&self, words: &[&str]) -> bool {
        let (task, process, name) = (words[0], words[1], words[2..].join(" "));
        let mut named = self.info.comms.clone();
        for (event, _) in &self.events {
            if let What::Comm { pid, comm } = event.what {
                named.insert(pid, comm);
            }
        }
        let of = |pid: Pid| {
            self.info.processes.as_ref().and_then(|all| all.get(&pid)).map_or(pid.0, |of| of.0)
        };
        named.iter().any(|(pid, comm)| {
            let comm = String::from_utf8_lossy(comm).trim_end_matches('\0').to_owned();
            let is_named = name == "-" || name.starts_with(&comm) && !comm.is_empty();
            is(pid.0, task) && is_named && (process == "-" || of(*pid).to_string() == process)
        })
    }

    /// The marks: task, number, begin, and end where there is one.
    fn marks(&self) -> Vec<(Pid, u32, Nanos, Option<Nanos>)> {
        let mut open = BTreeMap::<(Pid, u32, u32), Vec<Nanos>>::new();
        let mut found = Vec::new();
        for (event, _) in &self.events {
            let What::Mark { pid, id, phase, request } = event.what else { continue };
            let key = (pid, id, request);
            match phase {
                Phase::Begin => open.entry(key).or_default().push(event.time),
                Phase::End => {
                    if let Some(from) = open.get_mut(&key).and_then(Vec::pop) {
                        found.push((pid, id, from, Some(event.time)));
                    }
                }
                Phase::Point => found.push((pid, id, event.time, Some(event.time))),
            }
        }
        for ((pid, id, _), begun) in open {
            found.extend(begun.into_iter().map(|from| (pid, id, from, None)));
        }
        found
    }

    fn mark(&self, words: &[&str]) -> bool {
        let (time, duration, name) = (words[0], words[1], words[2..].join(" "));
        self.marks().into_iter().any(|(_, id, from, to)| {
            let lasted = to.map_or("-1".to_owned(), |to| (to - from).0.to_string());
            (name == "?" || self.info.marks[id as usize] == name)
                && (time == "?" || from.0.to_string() == time)
                && (duration == "?" || lasted == duration)
        })
    }

    fn within(&self, words: &[&str]) -> bool {
        let names = words.join(" ");
        let (outer, inner) = names.split_once('|').unwrap();
        let marks = self.marks();
        let of = |name: &str| {
            let is = |id: u32| self.info.marks[id as usize] == name;
            marks.iter().filter(|mark| is(mark.1)).copied().collect::<Vec<_>>()
        };
        let end = |to: Option<Nanos>| to.unwrap_or(Nanos(u64::MAX));
        of(inner).iter().any(|inner| {
            let holds = |outer: &(Pid, u32, Nanos, Option<Nanos>)| {
                outer.0 == inner.0 && outer.2 <= inner.2 && end(inner.3) <= end(outer.3)
            };
            of(outer).iter().any(holds)
        })
    }

    fn counter(&self, words: &[&str]) -> bool {
        let [time, name, value, cpu] = words[..] else { return false };
        self.others(name).any(|(event, arguments)| {
            let has = |word: &str| arguments.split(' ').any(|one| one == word);
            // Older kernels leave a part of the name out.
            let has_value = has(value) || has(&value.replace("_freq", ""));
            event.time.0.to_string() == time && has_value && has(cpu)
        })
    }

    /// How many events of this name have this argument.
    fn counted(&self, words: &[&str]) -> bool {
        let [number, name, argument] = words[..] else { return false };
        let has = |(_, arguments): &(&Event, &str)| arguments.split(' ').any(|of| of == argument);
        self.others(name).filter(has).count().to_string() == number
    }

    fn bounds(&self, words: &[&str]) -> bool {
        let times = || self.events.iter().map(|(event, _)| event.time.0);
        let ends = [times().min(), times().max()];
        ends.map(|time| time.unwrap_or_default().to_string()) == words
    }

    /// How many tasks wait for a CPU from this time on.
    fn runnable(&self, words: &[&str]) -> bool {
        let time = Nanos(words[0].parse().unwrap());
        let waits = self.reply.answer.waits.iter();
        waits.filter(|wait| wait.from <= time && time < wait.to).count().to_string() == words[1]
    }

    /// Whether an interrupt of a device or of the kernel took this long.
    fn irq(&self, words: &[&str]) -> bool {
        let at = |name: &str, time: u64| self.others(name).any(|(event, _)| event.time.0 == time);
        let from: u64 = words[0].parse().unwrap();
        let to = from + words[1].parse::<u64>().unwrap();
        let pairs = [("irq_handler_entry", "irq_handler_exit"), ("softirq_entry", "softirq_exit")];
        pairs.into_iter().any(|(entry, exit)| at(entry, from) && at(exit, to))
    }

    /// How long a task ran, waited, slept uninterruptibly and interruptibly between two times.
    fn sums(&self, words: &[&str]) -> bool {
        let [from, to] = [words[0], words[1]].map(|time| Nanos(time.parse().unwrap()));
        let answer = &self.reply.answer;
        let mut sums = [0; 4];
        let mut add = |what: usize, task, begin: Nanos, end: Nanos| {
            if self.pid(task).to_string() == words[2] {
                sums[what] += end.min(to).0.saturating_sub(begin.max(from).0);
            }
        };
        answer.slices.iter().for_each(|slice| add(0, slice.task, slice.from, slice.to));
        answer.waits.iter().for_each(|wait| add(1, wait.task, wait.from, wait.to));
        for sleep in &answer.sleeps {
            let what = if sleep.left == Left::Blocked { 2 } else { 3 };
            add(what, sleep.task, sleep.from, sleep.to);
        }
        sums.map(|sum| sum.to_string()) == words[3..]
    }

    /// How many CPUs run a task from this time on.
    fn active(&self, words: &[&str]) -> bool {
        let time = Nanos(words[0].parse().unwrap());
        let runs = |slice: &&schedlab_timeline::Slice| {
            slice.from <= time && time < slice.to && self.pid(slice.task) != 0
        };
        self.reply.answer.slices.iter().filter(runs).count().to_string() == words[1]
    }

    /// How often and how long a CPU was in an idle state.
    fn idle(&self, words: &[&str]) -> bool {
        let mut entered = None;
        let (mut count, mut sum) = (0_u64, 0_u64);
        for (event, arguments) in self.others("cpu_idle") {
            let told = schedlab_model::fields(arguments);
            let of = |key: &str| {
                told.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
            };
            if of("cpu_id") != Some(words[0]) {
                continue;
            }
            if let Some(from) = entered.take() {
                sum += (event.time - from).0;
                count += 1;
            }
            entered = (of("state") == Some(words[1])).then_some(event.time);
        }
        words[2..] == [count.to_string(), sum.to_string()]
    }

    fn holds(&self, row: &str) -> bool {
        let words: Vec<&str> = row.split(' ').collect();
        match words[0] {
            "slice" => self.slice(&words[1..]),
            "state" => self.state(&words[1..]),
            "blocked" => self.blocked(&words[1..]),
            "task" => self.task(&words[1..]),
            "mark" => self.mark(&words[1..]),
            "counter" => self.counter(&words[1..]),
            "within" => self.within(&words[1..]),
            "cpu" => self.events.iter().any(|(event, _)| event.cpu.0.to_string() == words[1]),
            "counted" => self.counted(&words[1..]),
            "bounds" => self.bounds(&words[1..]),
            "runnable" => self.runnable(&words[1..]),
            "irq" => self.irq(&words[1..]),
            "sums" => self.sums(&words[1..]),
            "active" => self.active(&words[1..]),
            "idle" => self.idle(&words[1..]),
            _ => false,
        }
    }
}

#[test]
fn perfettos_own_tests_have_the_rows_that_perfetto_gives() {
    let (mut count, mut rows_seen, mut wrong) = (0, 0, Vec::new());
    let mut traces = BTreeMap::<&str, Vec<&str>>::new();
    let cases = cases();
    for case in cases.split("\n\n").skip(1) {
        let lines: Vec<&str> = case.lines().collect();
        let name = lines[0].rsplit(' ').next().unwrap();
        let is_trace =
            |line: &&str| ["packet ", "text ", "trace "].iter().any(|of| line.starts_with(of));
        let (trace, rows): (Vec<&str>, Vec<&str>) =
            lines[1..].iter().partition(|line| is_trace(line));
        let trace = match trace[0].strip_prefix("trace ") {
            Some(earlier) => traces[earlier].clone(),
            None => trace,
        };
        traces.insert(name, trace.clone());
        let missing: Vec<String> = match read(&trace, &rows) {
            Ok(read) => {
                let missing = rows.iter().filter(|row| !read.holds(row));
                missing.map(|row| (*row).to_owned()).collect()
            }
            Err(error) => vec![error],
        };
        count += 1;
        rows_seen += rows.len();
        match APART.iter().find(|(apart, _)| *apart == name) {
            Some((_, why)) if missing.is_empty() => {
                wrong.push(format!("{name} is no longer apart: {why}"));
            }
            Some(_) => {}
            None if missing.is_empty() => {}
            None => wrong.push(format!("{}\n  {}", lines[0], missing.join("\n  "))),
        }
    }
    drop(writeln!(
        std::io::stderr(),
        "{count} of Perfetto's tests with {rows_seen} rows, {} told otherwise on purpose",
        APART.len()
    ));
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 140, "{count}");
}
