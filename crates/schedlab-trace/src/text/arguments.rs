//! The arguments of the scheduler's events, as `key=value` (letters or raw numbers) or in the layout
//! of trace-cmd's plugin (`comm:pid [prio] S ==> comm:pid [prio]`).
//!
//! Names of tasks contain spaces, colons and arrows, so a name ends only where the next key begins.

use crate::states::{self, States};
use memchr::{memchr, memchr_iter, memrchr_iter};
use schedlab_model::{Cpu, Left, Phase, Pid, Prio, What};

/// What a line says beside its event: names of tasks.
pub(super) type Named<'a> = [Option<(Pid, &'a str)>; 2];

/// The event that these arguments spell, and the names in them; `None` when it is another tracepoint
/// or cannot be understood.
pub(super) fn what<'a>(event: &str, text: &'a str) -> Option<(What, Named<'a>)> {
    let text = without_latency(text);
    match event {
        "sched_switch" => {
            switch(text).or_else(|| plugin_switch(text)).or_else(|| by_tracer(event, text))
        }
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
            woken(event, text).or_else(|| by_tracer(event, text))
        }
        "sched_migrate_task" => {
            let (comm, pid, _) = task(text)?;
            let from = number(text, "orig_cpu=")?;
            let to = number(text, "dest_cpu=")?;
            let what = What::Migrate { pid, from: cpu(from)?, to: cpu(to)? };
            Some((what, [Some((pid, comm)), None]))
        }
        "sched_process_fork" => {
            let child = Pid(number(text, "child_pid=")?);
            let comm = between(text, "child_comm=", " child_pid=");
            Some((What::Fork { child }, [comm.map(|comm| (child, comm)), None]))
        }
        "sched_process_exec" => {
            Some((What::Exec { old: Pid(number(text, "old_pid=")?) }, [None, None]))
        }
        "sched_process_exit" => {
            let (comm, pid, _) = task(text)?;
            Some((What::Exit { pid }, [Some((pid, comm)), None]))
        }
        _ => None,
    }
}

/// `prev:prio:S ==> [cpu] next:prio:S comm`, with ` + ` in place of the arrow for a wakeup, as the tracers `wakeup` and
/// `wakeup_rt` print it.
pub(super) fn by_tracer<'a>(event: &str, text: &'a str) -> Option<(What, Named<'a>)> {
    let sign = if event == "sched_switch" { " ==> [" } else { " + [" };
    let (before, after) = text.split_once(sign)?;
    let (at, after) = after.split_once(']')?;
    let (prev, prev_prio, state) = tracer_task(before)?;
    // `100:  4:R cyclictest`: the priority is padded.
    let after = after.trim_start();
    let second = after.match_indices(':').nth(1)?.0;
    let end = second + after.get(second..)?.find(char::is_whitespace)?;
    let (next, comm) = after.split_at(end);
    let (next, next_prio, _) = tracer_task(next)?;
    let named = [Some((next, comm.trim())), None];
    let what = match event {
        "sched_switch" => What::Switch { prev, prev_prio, left: left(state), next, next_prio },
        _ => What::Wakeup { pid: next, prio: next_prio, cpu: cpu(at.parse().ok()?)?, new: false },
    };
    Some((what, named))
}

fn tracer_task(text: &str) -> Option<(Pid, Prio, &str)> {
    let mut parts = text.trim().splitn(3, ':');
    let pid = Pid(parts.next()?.trim().parse().ok()?);
    let prio = prio(parts.next()?.trim().parse().ok()?);
    Some((pid, prio, parts.next()?.trim()))
}

/// `trace-cmd report -w` prints how long a task took to run behind the switch to it.
fn without_latency(text: &str) -> &str {
    let before = text.ends_with(" usecs").then(|| text.rsplit_once(" Latency: ")).flatten();
    before.map_or(text, |(before, _)| before.trim_end())
}

/// Whether events of this name are the scheduler's kinds, so that arguments of no known form are news.
pub(super) fn is_ours(event: &str) -> bool {
    matches!(event, "sched_switch" | "sched_waking" | "sched_wakeup_new" | "sched_migrate_task")
}

/// A step on a CPU's way into or out of use: `cpu: 0001 target: 0 step: 239 (...)`. State 0 is unplugged.
pub(super) fn hotplug(text: &str) -> Option<(Cpu, bool)> {
    let after = |key: &str| text.split_once(key)?.1.split_whitespace().next();
    let at = after("cpu:")?.parse().ok()?;
    let target = after("target:")?.parse::<i32>().ok()?;
    Some((Cpu(at), target > 0))
}

/// The task that was current, where an event is always about that one.
pub(super) fn current(event: &str, text: &str) -> Option<Pid> {
    matches!(event, "sched_stat_runtime").then(|| number(text, " pid=").map(Pid)).flatten()
}

/// A mark that user space wrote into `trace_marker`: `B|4595|name`, `E|4595`, `S|4595|name|7`, `C|4595|name|12`; a name is
/// empty where the mark ends what its thread began last.
pub(super) fn written_mark(text: &str) -> Option<(Phase, &str, u32)> {
    let mut parts = text.splitn(3, '|');
    let kind = parts.next()?;
    let process = parts.next().unwrap_or_default();
    let spans = matches!(kind, "S" | "F" | "G" | "H");
    let phase = match kind {
        "B" | "S" | "G" => Phase::Begin,
        "E" | "F" | "H" => Phase::End,
        "I" | "C" | "N" => Phase::Point,
        _ => return None,
    };
    if !process.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let name = parts.next().unwrap_or_default().trim_end();
    // Behind the name stands the request, or what a counter counts.
    let (name, number) = match name.rsplit_once('|').filter(|_| spans || kind == "C") {
        Some((name, number)) => (name, number.parse().unwrap_or(0)),
        None => (name, 0),
    };
    // On a track of its own, which comes first.
    let name = match kind {
        "G" | "H" | "N" => name.split_once('|')?.1,
        _ => name,
    };
    (phase == Phase::End || !name.is_empty()).then_some((
        phase,
        name,
        if spans { number } else { 0 },
    ))
}

/// A mark of ours: `begin NAME pid=N request=M`; the last part may be missing.
pub(super) fn mark(text: &str) -> Option<(Phase, &str, Pid, u32)> {
    let (phase, rest) = text.split_once(' ')?;
    let phase = match phase {
        "begin" => Phase::Begin,
        "end" => Phase::End,
        "point" => Phase::Point,
        _ => return None,
    };
    let (name, numbers) = rest.rsplit_once(" pid=")?;
    let (pid, request) = numbers.split_once(" request=").unwrap_or((numbers, "0"));
    Some((phase, name, Pid(pid.trim().parse().ok()?), request.trim().parse().ok()?))
}

fn switch(text: &str) -> Option<(What, Named<'_>)> {
    let (before, after) = at_first(text, "next_comm=")?;
    let prev = Pid(number(before, " prev_pid=")?);
    let next = Pid(number(after, " next_pid=")?);
    let state = at_last(before, "prev_state=")?.1;
    let state = memchr(b'=', state.as_bytes()).map_or(state, |arrow| &state[..arrow]).trim();
    let what = What::Switch {
        prev,
        prev_prio: prio(number(before, " prev_prio=")?),
        left: left(state),
        next,
        next_prio: prio(number(after, " next_prio=")?),
    };
    let prev_comm = between(before, "prev_comm=", " prev_pid=").map(|comm| (prev, comm));
    let next_comm = at_last(after, " next_pid=").map(|(comm, _)| (next, comm));
    Some((what, [prev_comm, next_comm]))
}

/// `comm:pid [prio] S ==> comm:pid [prio]`
fn plugin_switch(text: &str) -> Option<(What, Named<'_>)> {
    let (before, after) = at_last(text, " ==>")?;
    let (before, state) = before.rsplit_once(' ')?;
    let (prev_comm, prev, prev_prio) = plugin_task(before)?;
    let (next_comm, next, next_prio) = plugin_task(after)?;
    let what = What::Switch { prev, prev_prio, left: left(state), next, next_prio };
    Some((what, [Some((prev, prev_comm)), Some((next, next_comm))]))
}

fn plugin_task(text: &str) -> Option<(&str, Pid, Prio)> {
    let (task, prio_text) = text.trim().strip_suffix(']')?.rsplit_once(" [")?;
    let (comm, pid) = task.rsplit_once(':')?;
    Some((comm, Pid(pid.parse().ok()?), prio(prio_text.parse().ok()?)))
}

fn woken<'a>(event: &str, text: &'a str) -> Option<(What, Named<'a>)> {
    // Old kernels log wakeups of tasks that were awake already.
    let is_awake = at_last(text, "success=").is_some_and(|(_, success)| success.starts_with('0'));
    if is_awake || (text.contains('<') && text.contains("<CANT FIND FIELD")) {
        return None;
    }
    let (comm, pid, prio, at) = match task(text) {
        Some((comm, pid, prio)) => (comm, pid, prio, number(text, "target_cpu=")?),
        None => {
            // `comm:pid [prio] success=1 CPU:005`
            let (before, at) = at_last(text, " CPU:")?;
            let (before, after) = before.rsplit_once(']')?;
            if !after.is_empty() && !after.contains("success") {
                return None;
            }
            let end = before.len() + 1;
            let (comm, pid, prio) = plugin_task(text.get(..end)?)?;
            (comm, pid, prio, at.trim().parse().ok()?)
        }
    };
    let cpu = cpu(at)?;
    let what = match event {
        "sched_waking" => What::Waking { pid, prio, last_cpu: cpu },
        _ => What::Wakeup { pid, prio, cpu, new: event == "sched_wakeup_new" },
    };
    Some((what, [Some((pid, comm)), None]))
}

/// The task of the arguments `comm=NAME pid=N prio=N`.
fn task(text: &str) -> Option<(&str, Pid, Prio)> {
    let comm = between(text, "comm=", " pid=")?;
    let pid = Pid(number(text, " pid=")?);
    Some((comm, pid, prio(number(text, " prio=")?)))
}

/// The number behind the last `key`: names come before the numbers that belong to them.
fn number(text: &str, key: &str) -> Option<i32> {
    let (_, rest) = at_last(text, key)?;
    // The tracer's option `fields` prints `0x78 (120)`.
    if let Some(hex) = rest.strip_prefix("0x") {
        let end = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        return Some(u32::from_str_radix(hex.get(..end)?, 16).ok()?.cast_signed());
    }
    let end = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'-').count();
    rest.get(..end)?.parse().ok()
}

fn between<'a>(text: &'a str, key: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = at_first(text, key)?;
    at_last(rest, end).map(|(value, _)| value)
}

/// What stands before and behind the first `key`.
fn at_first<'a>(text: &'a str, key: &str) -> Option<(&'a str, &'a str)> {
    let last = *key.as_bytes().last()?;
    parted(text, key, memchr_iter(last, text.as_bytes()))
}

/// What stands before and behind the last `key`.
fn at_last<'a>(text: &'a str, key: &str) -> Option<(&'a str, &'a str)> {
    let last = *key.as_bytes().last()?;
    parted(text, key, memrchr_iter(last, text.as_bytes()))
}

/// What stands before and behind the `key` that ends at one of these places, those of its last byte. That byte is rare in a
/// line, so this is faster than the standard library's search.
fn parted<'a>(
    text: &'a str,
    key: &str,
    mut lasts: impl Iterator<Item = usize>,
) -> Option<(&'a str, &'a str)> {
    let last = lasts.find(|last| text.as_bytes()[..=*last].ends_with(key.as_bytes()))?;
    Some((&text[..last + 1 - key.len()], &text[last + 1..]))
}

fn prio(value: i32) -> Prio {
    Prio(i16::try_from(value).unwrap_or(i16::MAX))
}

fn cpu(value: i32) -> Option<Cpu> {
    u16::try_from(value).ok().map(Cpu)
}

/// Letters, or a raw number whose kernel nobody knows: what all kernels agree on.
fn left(state: &str) -> Left {
    let hex = state.strip_prefix("0x").and_then(|rest| rest.split(' ').next());
    let number = hex.map_or_else(|| state.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    match number.ok_or(()) {
        // Parked since 4.14, dead before.
        Ok(0x40) => Left::Other,
        Ok(number) => States::parse("").left(number),
        Err(_) => states::from_letters(state.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switched(text: &str) -> (i32, Left, i32, Vec<&str>) {
        match what("sched_switch", text) {
            Some((What::Switch { prev, left, next, .. }, named)) => {
                (prev.0, left, next.0, named.into_iter().flatten().map(|n| n.1).collect())
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_switch_is_understood_in_all_its_spellings() {
        for (state, left) in [("S", Left::Slept), ("R+", Left::Preempted), ("D|W", Left::Blocked)] {
            let text = format!(
                "prev_comm=C1 Comp prev_pid=7 prev_prio=120 prev_state={state} ==> \
                 next_comm=a ==> b next_pid=9 next_prio=0"
            );
            assert_eq!(switched(&text), (7, left, 9, vec!["C1 Comp", "a ==> b"]));
        }
        for (state, left) in
            [("0", Left::Displaced), ("4096", Left::Preempted), ("2", Left::Blocked)]
        {
            let text = format!(
                "prev_comm=sh prev_pid=7 prev_prio=120 prev_state={state} next_comm=x next_pid=9 \
                 next_prio=120"
            );
            assert_eq!(switched(&text), (7, left, 9, vec!["sh", "x"]));
        }
        // The tracer's option `fields`.
        let text = "prev_comm=sh prev_pid=0x7 (7) prev_prio=0x78 (120) prev_state=0x2 (2) next_comm=x \
                    next_pid=0x5796 (22422) next_prio=0x78 (120)";
        assert_eq!(switched(text), (7, Left::Blocked, 22_422, vec!["sh", "x"]));
        // `trace-cmd report -w`.
        assert_eq!(
            switched("sh:7 [120] S ==> a b:9 [120] Latency: 12.345 usecs"),
            (7, Left::Slept, 9, vec!["sh", "a b"])
        );
        assert_eq!(
            switched("kworker/2:1:2923 [120] S ==> a b:9 [-1]"),
            (2923, Left::Slept, 9, vec!["kworker/2:1", "a b"])
        );
    }

    #[test]
    fn wakeups_are_understood_and_those_without_effect_passed_over() {
        let expected = What::Wakeup { pid: Pid(16), prio: Prio(120), cpu: Cpu(2), new: false };
        for text in [
            "comm=a b pid=16 prio=120 success=1 target_cpu=002",
            "comm=a b pid=16 prio=120 target_cpu=2",
            "a b:16 [120] success=1 CPU:002",
            "a b:16 [120] CPU:002",
        ] {
            let (what, named) = what("sched_wakeup", text).unwrap();
            assert_eq!((what, named[0]), (expected, Some((Pid(16), "a b"))), "{text}");
        }
        assert_eq!(what("sched_wakeup", "comm=a pid=1 prio=1 success=0 target_cpu=0"), None);
        assert_eq!(what("sched_wakeup", "nonsense"), None);
    }

    #[test]
    fn marks_are_printed_by_name() {
        assert_eq!(mark("begin warm up pid=5"), Some((Phase::Begin, "warm up", Pid(5), 0)));
        let across = mark("end warm up pid=5 request=7");
        assert_eq!(across, Some((Phase::End, "warm up", Pid(5), 7)));
        assert_eq!(mark("middle x pid=5"), None);
    }

    #[test]
    fn tasks_are_created_moved_and_end() {
        let (pid, comm) = (Pid(7), "a b");
        let told = |event, text| what(event, text).unwrap();
        let migrate = told("sched_migrate_task", "comm=a b pid=7 prio=120 orig_cpu=1 dest_cpu=2");
        let moved = What::Migrate { pid, from: Cpu(1), to: Cpu(2) };
        assert_eq!(migrate, (moved, [Some((pid, comm)), None]));
        let fork = told("sched_process_fork", "comm=sh pid=1 child_comm=a b child_pid=7");
        assert_eq!(fork, (What::Fork { child: pid }, [Some((pid, comm)), None]));
        let exec = told("sched_process_exec", "filename=/bin/a pid=7 old_pid=6");
        assert_eq!(exec, (What::Exec { old: Pid(6) }, [None, None]));
        let exit = told("sched_process_exit", "comm=a b pid=7 prio=120");
        assert_eq!(exit, (What::Exit { pid }, [Some((pid, comm)), None]));
        assert_eq!(what("sched_stat_runtime", "comm=a pid=7 prio=120"), None);
        let far = "comm=a pid=7 prio=120 orig_cpu=1 dest_cpu=70000";
        assert_eq!(what("sched_migrate_task", far), None, "no CPU has this number");
    }

    #[test]
    fn wakeups_name_what_they_are() {
        let text = "comm=a pid=7 prio=120 target_cpu=002";
        let of = |event| what(event, text).unwrap().0;
        let (pid, prio, cpu) = (Pid(7), Prio(120), Cpu(2));
        assert_eq!(of("sched_waking"), What::Waking { pid, prio, last_cpu: cpu });
        assert_eq!(of("sched_wakeup"), What::Wakeup { pid, prio, cpu, new: false });
        assert_eq!(of("sched_wakeup_new"), What::Wakeup { pid, prio, cpu, new: true });
        assert_eq!(what("sched_wakeup", "a:7 [120] nonsense CPU:002"), None);
        assert_eq!(what("sched_wakeup", "a:7 [120] success=0 CPU:002"), None);
        assert_eq!(what("sched_wakeup", "a:7 [120] <CANT FIND FIELD x> CPU:002"), None);
    }

    #[test]
    fn only_events_that_always_have_an_effect_are_missed() {
        let ours = ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_migrate_task"];
        assert!(ours.into_iter().all(is_ours));
        assert!(!is_ours("sched_wakeup") && !is_ours("irq_handler_entry"));
    }

    #[test]
    fn a_state_is_letters_or_a_number_that_all_kernels_agree_on() {
        assert_eq!(
            [left("S"), left("R+"), left("R")],
            [Left::Slept, Left::Preempted, Left::Displaced]
        );
        assert_eq!(
            [left("1"), left("0x2 (2)"), left("0x40")],
            [Left::Slept, Left::Blocked, Left::Other]
        );
        assert_eq!([left("64"), left("128")], [Left::Other, Left::IdleSleep]);
    }

    #[test]
    fn numbers_may_be_negative_or_hexadecimal_and_priorities_are_bounded() {
        assert_eq!([number("a=-5 b", "a="), number("a=0x1f (31)", "a=")], [Some(-5), Some(31)]);
        assert_eq!(number("a=0xffffffff", "a="), Some(-1));
        assert_eq!([number("a=x", "a="), number("b=1", "a=")], [None, None]);
        assert_eq!(number("name a=1 a=2", "a="), Some(2), "the last one counts");
        assert_eq!([prio(-1), prio(40_000)], [Prio(-1), Prio(i16::MAX)]);
    }

    #[test]
    fn only_a_latency_behind_a_switch_is_left_out() {
        assert_eq!(without_latency("a ==> b Latency: 12.345 usecs"), "a ==> b");
        assert_eq!(without_latency("a ==> b Latency: 12.345 ms"), "a ==> b Latency: 12.345 ms");
        assert_eq!(without_latency("12 usecs"), "12 usecs");
    }
}
