//! The columns before the arguments: task, CPU, flags, time, event.

use schedlab_model::Context;

/// One line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The buffer, where several are printed: empty for the top one.
    pub(super) buffer: &'a str,
    pub(super) comm: &'a str,
    pub(super) pid: i32,
    /// Its process, where the text has that column.
    pub(super) process: Option<i32>,
    pub(super) cpu: u16,
    pub(super) context: Context,
    /// Nanoseconds; a time without a point is a raw number.
    pub(super) time: u64,
    /// Whether it is a raw number.
    pub(super) raw: bool,
    /// `sched` where the line says it, else empty.
    pub(super) system: &'a str,
    pub(super) event: &'a str,
    pub(super) arguments: &'a str,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Event(Line<'a>),
    /// Events of a CPU are missing before this line: how many, 0 when unknown.
    Lost {
        cpu: u16,
        count: u32,
    },
    Cpus(u16),
    /// A task on a CPU and columns that nobody here knows.
    Puzzle,
}

/// Takes a line apart; `None` when it is no event.
pub(super) fn parse(line: &str) -> Option<Said<'_>> {
    // In a web page each line is part of a script's string.
    let line = line.trim_start_matches('\u{feff}').trim_end_matches('\r');
    let line = line.strip_suffix("\\n\\").unwrap_or(line);
    if line.starts_with('#') || line.len() > 1 << 14 {
        return None;
    }
    if let Some(rest) = line.strip_prefix("CPU:") {
        return lost(rest);
    }
    if let Some(count) = line.strip_prefix("cpus=") {
        return count.trim().parse().ok().map(Said::Cpus);
    }
    let (buffer, line) = buffer(line);
    if may_be_of_tracer(line)
        && let Some(found) = wakeup_tracer(line)
    {
        return Some(Said::Event(Line { buffer, ..found }));
    }
    match bracketed(line).or_else(|| latency(line)) {
        Some(found) if found.event.starts_with("PERF_RECORD_") => None,
        // Android's own line about its clocks, at time 0: `dummy-0000 [000] 0.0: 0: trace_event_clock_sync: ...`.
        Some(found) if (found.comm, found.pid, found.time) == ("dummy", 0, 0) => None,
        Some(found) => Some(Said::Event(Line { buffer, ..found })),
        None => looks_like_an_event(line).then_some(Said::Puzzle),
    }
}

/// `name: ` before the padded task, as trace-cmd begins the lines of buffers other than the top one: a
/// task's name is padded to more than it can be long, so it never begins a line and ends so.
fn buffer(line: &str) -> (&str, &str) {
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    match line[..end].strip_suffix(':') {
        Some(name) if !name.is_empty() => (name, &line[end..]),
        _ => ("", line),
    }
}

/// `CPU:3 [77 EVENTS DROPPED]`, `CPU:3 [EVENTS DROPPED]`, `CPU:3 [LOST 77 EVENTS]`.
fn lost(rest: &str) -> Option<Said<'_>> {
    let (cpu, what) = rest.split_once('[')?;
    if !what.contains("EVENTS") {
        return None;
    }
    let count = what.split([' ', ']']).find_map(|word| word.parse().ok()).unwrap_or(0);
    Some(Said::Lost { cpu: cpu.trim().parse().ok()?, count })
}

/// `comm-pid (tgid) [cpu] flags time: event: arguments`; `comm pid [cpu] time: system:event: ...`.
fn bracketed(line: &str) -> Option<Line<'_>> {
    let mut from = 0;
    loop {
        let open = from + line.get(from..)?.find('[')?;
        from = open + 1;
        let inside = line.get(from..)?;
        let Some((cpu, rest)) = inside.split_once(']') else { continue };
        let Ok(cpu) = cpu.parse::<u16>() else { continue };
        let Some((comm, pid)) = task(&line[..open]) else { continue };
        if let Some(found) = tail(rest, comm, pid, cpu) {
            return Some(Line { process: process(&line[..open]), ..found });
        }
    }
}

/// Whether a task, a CPU and something with a colon stand there.
fn looks_like_an_event(line: &str) -> bool {
    let Some((tasks, rest)) = line.split_once('[') else { return false };
    let Some((cpu, rest)) = rest.split_once("] ") else { return false };
    // perf's own records are no events: `perf script --show-task-events`.
    let known = rest.contains(": PERF_RECORD_");
    cpu.parse::<u16>().is_ok() && task(tasks).is_some() && rest.contains(": ") && !known
}

/// Whether a line spells an event of the scheduler, in whatever columns: `sched_switch:`, `sched:sched_switch:`.
pub(super) fn tells_of_sched(line: &str) -> bool {
    let of_sched = |word: &str| {
        let name = word.strip_suffix(':').map(|name| name.rsplit(':').next().unwrap_or(name));
        name.is_some_and(|name| name.starts_with("sched_"))
    };
    !line.starts_with('#') && line.contains("sched_") && line.split_whitespace().any(of_sched)
}

/// The column that a line of `perf script` lacks: what it tells, and what `perf script -F` calls it.
pub(super) fn missing_column(line: &str) -> Option<(&'static str, &'static str)> {
    let line = line.trim_start_matches('\u{feff}');
    let is_time = |word: &str| {
        let stamp = word.strip_suffix(':').and_then(|stamp| stamp.split_once('.'));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        stamp.is_some_and(|(seconds, fraction)| digits(seconds) && digits(fraction))
    };
    if !line.split_whitespace().any(is_time) {
        return Some(("time", "time"));
    }
    let cpu = line.split_whitespace().find(|word| {
        let inside = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inside.is_some_and(|cpu| cpu.parse::<u16>().is_ok())
    });
    let Some(cpu) = cpu else { return Some(("CPU", "cpu")) };
    let before = line.split_once(cpu).map_or("", |parts| parts.0);
    task(before).is_none().then_some(("task", "tid"))
}

/// Whether the sign of a line for [`wakeup_tracer`] stands in it, which it would search at length.
fn may_be_of_tracer(line: &str) -> bool {
    line.match_indices('[')
        .any(|(at, _)| [" ==> ", " + "].iter().any(|sign| line[..at].ends_with(sign)))
}

/// `comm-pid 3d.h2. 2us : prev:prio:S ==> [cpu] next:prio:S comm`, or ` +` for a wakeup: how the latency tracers
/// (`wakeup`, `wakeup_rt`) print the scheduler's events.
fn wakeup_tracer(line: &str) -> Option<Line<'_>> {
    let (before, rest) = line.split_once("us : ").or_else(|| {
        line.match_indices("us").find_map(|(at, _)| {
            let mark = line.get(at + 2..at + 5)?;
            let marked = mark.starts_with(['!', '+', '#', '*', '@', '$']) && mark.ends_with(": ");
            marked.then(|| (&line[..at], &line[at + 5..]))
        })
    })?;
    let (event, _) = [("sched_switch", " ==> ["), ("sched_wakeup", " + [")]
        .into_iter()
        .find(|(_, sign)| rest.contains(sign))?;
    super::arguments::by_tracer(event, rest.trim())?;
    let (before, micros) = before.trim_end().rsplit_once(char::is_whitespace)?;
    let (tasks, flags) = before.trim_end().rsplit_once(char::is_whitespace)?;
    let (cpu, flags) = cpu_and_flags(flags)?;
    let (comm, pid) = task(tasks)?;
    let time = micros.parse::<u64>().ok()?.checked_mul(1000)?;
    let context = context(flags);
    let arguments = rest.trim();
    let buffer = "";
    let raw = false;
    let system = "";
    let process = None;
    Some(Line { buffer, comm, pid, process, cpu, context, time, raw, system, event, arguments })
}

/// `3d.h2.`: the CPU and its flags, of which there are at least four.
fn cpu_and_flags(text: &str) -> Option<(u16, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (cpu, flags) = text.split_at(digits);
    Some((cpu.parse().ok().filter(|_| flags.len() >= 4)?, flags))
}

/// The task before the CPU: `comm-pid`, `comm pid`, `comm pid/tid`, a `(tgid)` behind it or not.
fn task(text: &str) -> Option<(&str, i32)> {
    let text = text.trim();
    let text = match text.rsplit_once('(') {
        Some((before, tgid)) if tgid.ends_with(')') => before.trim_end(),
        _ => text,
    };
    let digits = text.len() - text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, pid) = text.split_at(digits);
    let pid: i32 = pid.parse().ok()?;
    // perf's task that has no number any longer, since it ended: `:-1    -1`.
    if before.trim_end_matches(['-', ' ']) == ":-1" {
        return Some((":-1", -1));
    }
    let before = match before.strip_suffix('/') {
        // `pid/tid`
        Some(rest) => rest.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => before,
    };
    let comm = before.strip_suffix(['-', ' ', '\t'])?.trim();
    Some((comm, pid))
}

/// The process that stands in brackets behind the task: `(tgid)`; `(-----)` is none.
fn process(text: &str) -> Option<i32> {
    let (_, tgid) = text.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    tgid.trim().parse().ok().filter(|process| *process > 0)
}

/// Optional flags, time, event, arguments.
fn tail<'a>(rest: &'a str, comm: &'a str, pid: i32, cpu: u16) -> Option<Line<'a>> {
    let rest = rest.trim_start();
    let (first, after) = rest.split_once(char::is_whitespace)?;
    let (flags, stamp, after) = match first.strip_suffix(':') {
        Some(stamp) => ("", stamp, after),
        None => {
            let (stamp, after) = after.trim_start().split_once(':')?;
            (first, stamp, after)
        }
    };
    let stamp = stamp.trim();
    let time = nanoseconds(stamp)?;
    let raw = stamp.bytes().all(|byte| byte.is_ascii_digit());
    let after = without_period(without_step(after.trim_start()));
    // perf prints `system:event:`, the others `event:`.
    let end = after.find(|c: char| c.is_whitespace()).unwrap_or(after.len());
    let name = after[..end].strip_suffix(':')?;
    let (system, event) = name.rsplit_once(':').unwrap_or(("", name));
    if event.is_empty() || !event.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    let arguments = after[end..].trim();
    let context = if flags.is_empty() { Context::Unknown } else { context(flags) };
    let buffer = "";
    let process = None;
    Some(Line { buffer, comm, pid, process, cpu, context, time, raw, system, event, arguments })
}

/// Before the event `perf script -F +period` prints how much it stands for: `58267 sched:sched_stat_runtime:`.
fn without_period(text: &str) -> &str {
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return text;
    }
    match text.split_once(char::is_whitespace) {
        Some((period, rest)) if period.bytes().all(|byte| byte.is_ascii_digit()) => {
            rest.trim_start()
        }
        _ => text,
    }
}

/// Behind the time `trace-cmd report --ts-diff` prints the step from the event before: `(+9)`.
fn without_step(text: &str) -> &str {
    let step = text.strip_prefix("(+").and_then(|rest| rest.split_once(')'));
    match step {
        Some((digits, rest)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            rest.trim_start()
        }
        _ => text,
    }
}

/// `comm-pid  3d.h2. time: event: arguments`: the CPU stands before the flags.
fn latency(line: &str) -> Option<Line<'_>> {
    let (before, _) = line.split_once(": ")?;
    let (before, _) = before.trim_end().rsplit_once(char::is_whitespace)?;
    let before = before.trim_end();
    let (tasks, flags) = before.rsplit_once(char::is_whitespace)?;
    let (cpu, known) = cpu_and_flags(flags)?;
    let (comm, pid) = task(tasks)?;
    let rest = line.get(before.len() - known.len()..)?;
    tail(rest, comm, pid, cpu)
}

/// The third flag: `h` in an interrupt, `s` in a softirq, `H` in one inside the other, `z` in an NMI.
fn context(flags: &str) -> Context {
    match flags.as_bytes().get(2) {
        Some(b'h' | b'H') => Context::HardIrq,
        Some(b's') => Context::SoftIrq,
        Some(b'z' | b'Z') => Context::Nmi,
        _ => Context::Task,
    }
}

/// `seconds.fraction`, exactly; `12us` with the latency format's mark of a long step behind it;
/// without a point the number itself.
fn nanoseconds(text: &str) -> Option<u64> {
    let unmarked = text.trim_end_matches(['!', '+', '#', '*', '@', '$']);
    if let Some(micros) = unmarked.strip_suffix("us") {
        return micros.parse::<u64>().ok()?.checked_mul(1000);
    }
    let Some((seconds, fraction)) = text.split_once('.') else { return text.parse().ok() };
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - u32::try_from(digits).ok()?);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> Line<'_> {
        match parse(line) {
            Some(Said::Event(found)) => found,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_spelling_of_the_columns_is_understood() {
        for (line, comm, pid, cpu, time, context) in [
            ("  <idle>-0     [002]  2084.021443: cpu_idle:  state=1", "<idle>", 0, 2, 443_000, 3),
            (
                "  C1 Comp-Thre-1659 [001]  2084.021443860: x: y",
                "C1 Comp-Thre",
                1659,
                1,
                443_860,
                3,
            ),
            ("kworker/-310     3d.h2.  2084.021443: x:   a=1", "kworker/", 310, 3, 443_000, 1),
            ("  sh-7 [000] d.s3 2084.021443: x: a", "sh", 7, 0, 443_000, 2),
            (" a b-7  (   12) [005] .... 2084.021443: x: a\\n\\", "a b", 7, 5, 443_000, 0),
            ("  swapper  0 [011]  2084.021443: sched:x: a", "swapper", 0, 11, 443_000, 3),
            ("  a [1] b 12/13 [011]  2084.021443: sched:x:", "a [1] b", 13, 11, 443_000, 3),
        ] {
            let found = event(line);
            let contexts = [Context::Task, Context::HardIrq, Context::SoftIrq, Context::Unknown];
            let context = contexts[context];
            assert_eq!(
                (found.comm, found.pid, found.cpu, found.time - 2_084_021_000_000, found.context),
                (comm, pid, cpu, time, context),
                "{line}"
            );
        }
        assert_eq!(event(" p 1 [0] 1.5: sched:sched_exit: a: b").system, "sched");
        assert_eq!(event("p-1 [0] 1.5: (+9)     x: y").event, "x");
        let ticks = event("p-1 [0] 123456: x: y");
        assert!(ticks.time == 123_456 && ticks.raw && !event("p-1 [0] 1.5: x: y").raw);
    }

    #[test]
    fn lines_of_further_buffers_begin_with_their_names() {
        let line =
            event("ax:            <...>-9998  [001] 35746.586332: sched_process_wait: comm=a");
        assert_eq!((line.buffer, line.comm, line.pid), ("ax", "<...>", 9998));
        let line = event("     kworker/0:1-9998  [001] 35746.586332: x: comm=a");
        assert_eq!((line.buffer, line.comm), ("", "kworker/0:1"));
    }

    #[test]
    fn the_latency_format_counts_microseconds_from_its_start() {
        for (line, time) in [
            ("    bash-1234      0d..2.    7us : sched_switch: a=1", 7_000),
            ("  <idle>-0         0dNh3.   12us!: sched_switch: a=1", 12_000),
            ("kworker/-77        0....  1234us+: sched_switch: a=1", 1_234_000),
        ] {
            let found = event(line);
            assert_eq!((found.time, found.cpu, found.event), (time, 0, "sched_switch"), "{line}");
        }
    }

    #[test]
    fn losses_and_counts_are_lines_too() {
        assert_eq!(parse("CPU:3 [77 EVENTS DROPPED]"), Some(Said::Lost { cpu: 3, count: 77 }));
        assert_eq!(parse("CPU:3 [EVENTS DROPPED]"), Some(Said::Lost { cpu: 3, count: 0 }));
        assert_eq!(parse("CPU:3 [LOST 5 EVENTS]"), Some(Said::Lost { cpu: 3, count: 5 }));
        assert_eq!(parse("cpus=6"), Some(Said::Cpus(6)));
    }

    #[test]
    fn lines_with_columns_that_are_not_known_are_told_apart_from_others() {
        for line in ["a-1 [0] 1.0000000001: x: y", "a-1 [000] yesterday: x: y=1"] {
            assert_eq!(parse(line), Some(Said::Puzzle), "{line}");
        }
    }

    #[test]
    fn other_lines_are_no_events() {
        for line in [
            "",
            "# tracer: nop",
            "version = 6",
            "<script>var a = [1]; x: y</script>",
            "a-1 [0]",
            "a 1 [0] 1.5: PERF_RECORD_COMM: a:1/1",
            "a 1 [0] 1.5: PERF_RECORD_FORK(1:1):(0:0)",
            "a-1 [70000] 1.0: x: y",
            "ü-1 [é] 1.0: x: y",
            "[0] 1.0: x: y",
            "           dummy-0000  [000] 0.0: 0: trace_event_clock_sync: parent_ts=1.5",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
