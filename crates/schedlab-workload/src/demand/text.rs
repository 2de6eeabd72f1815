//! A demand as text: the form in which a run's spec holds it.
//!
//! ```text
//! schedlab-demand 1
//! time 1000000000 5000000000
//! object pipe
//! task 812 120 0 0-3 there open server
//! r1500 w r20000 p1 i4000000,3900000
//! task 813 120 1 - forked closed client of two words
//! w r10 n130
//! ```
//!
//! `time` has start and length in nanoseconds. `task` has pid, priority, CPU, allowed CPUs (`-`: all), whether it is
//! there at the beginning or forked, its source and its name. A line `as batch 3000000 /autogroup-7` may follow: policy,
//! slice and group, or `-` for those that it has none of. Steps: `r` runs, `p` posts, `w` waits, `i` waits for an
//! interrupt at a time after a sleep of this length, `f` forks, `n` has a priority from now on, `e` runs until the end.
//! `object` lines are numbered; `o3,100` puts 100 bytes into object 3, `t3,100` takes them out, `c` runs within a call
//! that does so.

use super::{Actor, Class, Demand, Object, Source, Step};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid, Prio};
use std::fmt::Write as _;
use std::str::FromStr;

const HEAD: &str = "schedlab-demand 1";

impl std::fmt::Display for Demand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{HEAD}\ntime {} {}", self.start.0, self.length.0)?;
        for object in &self.objects {
            writeln!(f, "object {}", object.name())?;
        }
        for actor in &self.actors {
            let cpus = actor.cpus.as_ref().map_or("-".to_owned(), ToString::to_string);
            let begins = if actor.forked { "forked" } else { "there" };
            let source = if actor.source == Source::Open { "open" } else { "closed" };
            let Actor { pid, prio, cpu, comm, .. } = actor;
            writeln!(f, "task {pid} {} {} {cpus} {begins} {source} {comm}", prio.0, cpu.0)?;
            if let Some(line) = manner(actor) {
                writeln!(f, "{line}")?;
            }
            let mut line = String::new();
            for step in &actor.steps {
                let _ = match step {
                    Step::Run(time) => write!(line, "r{} ", time.0),
                    Step::Post(task) => write!(line, "p{task} "),
                    Step::Wait => write!(line, "w "),
                    Step::Interrupt { at, slept } => write!(line, "i{},{} ", at.0, slept.0),
                    Step::Fork(task) => write!(line, "f{task} "),
                    Step::Prio(prio) => write!(line, "n{} ", prio.0),
                    Step::Endless => write!(line, "e "),
                    Step::Put { object, bytes } => write!(line, "o{object},{bytes} "),
                    Step::Take { object, bytes } => write!(line, "t{object},{bytes} "),
                    Step::InCall(time) => write!(line, "c{} ", time.0),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The line of policy, slice and group; `None` if the task has none of them.
fn manner(actor: &Actor) -> Option<String> {
    let Actor { class, slice, group, .. } = actor;
    if class.is_none() && slice.is_none() && group.is_none() {
        return None;
    }
    let class = class.map_or("-", Class::name);
    let slice = slice.map_or("-".to_owned(), |slice| slice.0.to_string());
    Some(format!("as {class} {slice} {}", group.as_deref().unwrap_or("-")))
}

/// Reads that line's rest.
fn read_manner(rest: &str, actor: &mut Actor) -> Result<(), String> {
    let mut words = rest.splitn(3, ' ');
    actor.class = match words.next() {
        Some("-") => None,
        name => {
            let name = name.unwrap_or_default();
            let wrong = || format!("unknown policy '{}'", schedlab_model::visible(name));
            Some(Class::of(name).ok_or_else(wrong)?)
        }
    };
    actor.slice = match words.next() {
        Some("-") => None,
        time => Some(Nanos(number(time, "time in nanoseconds")?)),
    };
    actor.group = words.next().filter(|group| *group != "-").map(str::to_owned);
    Ok(())
}

fn number<T: FromStr>(word: Option<&str>, what: &str) -> Result<T, String> {
    let word = word.unwrap_or_default();
    word.parse().map_err(|_| format!("invalid {what} '{}'", schedlab_model::visible(word)))
}

impl FromStr for Step {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let wrong = || format!("unknown step '{}'", schedlab_model::visible(word));
        let letter = word.chars().next().ok_or_else(wrong)?;
        let rest = Some(&word[letter.len_utf8()..]);
        let time = |word| number(word, "time in nanoseconds").map(Nanos);
        Ok(match letter {
            'r' => Self::Run(time(rest)?),
            'p' => Self::Post(number(rest, "task's number")?),
            'w' if rest == Some("") => Self::Wait,
            'e' if rest == Some("") => Self::Endless,
            'i' => {
                let (at, slept) = rest.and_then(|rest| rest.split_once(',')).ok_or_else(wrong)?;
                Self::Interrupt { at: time(Some(at))?, slept: time(Some(slept))? }
            }
            'f' => Self::Fork(number(rest, "task's number")?),
            'c' => Self::InCall(time(rest)?),
            'o' | 't' => {
                let (object, bytes) =
                    rest.and_then(|rest| rest.split_once(',')).ok_or_else(wrong)?;
                let object = number(Some(object), "object's number")?;
                let bytes = number(Some(bytes), "number of bytes")?;
                if letter == 'o' {
                    Self::Put { object, bytes }
                } else {
                    Self::Take { object, bytes }
                }
            }
            'n' => Self::Prio(Prio(number(rest, "priority")?)),
            _ => return Err(wrong()),
        })
    }
}

fn actor(line: &str) -> Result<Actor, String> {
    let mut words = line.splitn(7, ' ');
    let pid = Pid(number(words.next(), "pid")?);
    let prio = Prio(number(words.next(), "priority")?);
    let cpu = Cpu(number(words.next(), "CPU")?);
    let cpus = match words.next() {
        Some("-") => None,
        list => Some(number::<CpuSet>(list, "list of CPUs")?),
    };
    let forked = match words.next() {
        Some("there") => false,
        Some("forked") => true,
        _ => return Err("a task is 'there' or 'forked'".to_owned()),
    };
    let source = match words.next() {
        Some("open") => Source::Open,
        Some("closed") => Source::Closed,
        _ => return Err("a source is 'open' or 'closed'".to_owned()),
    };
    let comm = words.next().unwrap_or_default().to_owned();
    let class = None;
    let slice = None;
    let group = None;
    let steps = Vec::new();
    Ok(Actor { pid, comm, prio, class, slice, group, cpus, cpu, forked, source, steps })
}

impl FromStr for Demand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut demand = Self::default();
        for (at, line) in text.lines().enumerate() {
            let told = |why: String| format!("line {}: {why}", at + 1);
            if at == 0 {
                if line != HEAD {
                    return Err(told(format!("a demand begins with '{HEAD}'")));
                }
            } else if let Some(rest) = line.strip_prefix("time ") {
                let mut words = rest.split(' ');
                demand.start =
                    number(words.next(), "time in nanoseconds").map(Nanos).map_err(told)?;
                demand.length =
                    number(words.next(), "time in nanoseconds").map(Nanos).map_err(told)?;
            } else if let Some(name) = line.strip_prefix("object ") {
                let wrong = || format!("unknown object '{}'", schedlab_model::visible(name));
                demand.objects.push(Object::of(name).ok_or_else(wrong).map_err(told)?);
            } else if let Some(rest) = line.strip_prefix("task ") {
                demand.actors.push(actor(rest).map_err(told)?);
            } else if let (Some(rest), Some(last)) =
                (line.strip_prefix("as "), demand.actors.last_mut())
            {
                read_manner(rest, last).map_err(told)?;
            } else if let Some(last) = demand.actors.last_mut() {
                for word in line.split_ascii_whitespace() {
                    last.steps.push(word.parse().map_err(told)?);
                }
            } else {
                return Err(told("steps come after a task".to_owned()));
            }
        }
        if text.is_empty() {
            return Err(format!("line 1: a demand begins with '{HEAD}'"));
        }
        demand.check()?;
        Ok(demand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Demand {
        let actor = |pid, comm: &str, forked: bool, steps| Actor {
            pid: Pid(pid),
            comm: comm.to_owned(),
            prio: Prio::NORMAL,
            class: forked.then_some(Class::Batch),
            slice: None,
            group: forked.then(|| "/a b".to_owned()),
            cpus: (!forked).then(|| "0-1".parse().unwrap()),
            cpu: Cpu(1),
            forked,
            source: if forked { Source::Closed } else { Source::Open },
            steps,
        };
        let interrupt = Step::Interrupt { at: Nanos(7), slept: Nanos(5) };
        let put = Step::Put { object: 0, bytes: 9 };
        let take = Step::Take { object: 0, bytes: 9 };
        let first = vec![Step::Run(Nanos(3)), Step::Fork(1), Step::Post(1), interrupt, put];
        let second =
            vec![Step::Wait, Step::Prio(Prio(130)), take, Step::InCall(Nanos(4)), Step::Endless];
        let actors = vec![actor(8, "a", false, first), actor(9, "two words", true, second)];
        Demand { start: Nanos(100), length: Nanos(50), actors, objects: vec![Object::Socket] }
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(two().to_string().parse::<Demand>().unwrap(), two());
        let empty = Demand::default();
        assert_eq!(empty.to_string().parse::<Demand>().unwrap(), empty);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let text = two().to_string();
        for (from, to, part) in [
            ("schedlab-demand 1", "x", "line 1: a demand begins"),
            ("r3", "q3", "line 5: unknown step 'q3'"),
            ("r3", "r-3", "line 5: invalid time in nanoseconds '-3'"),
            ("i7,5", "i7", "line 5: unknown step"),
            ("f1", "f2", "names task number 2"),
            (" p1", "", "waits 1 times"),
            ("f1 ", "", "is started 0 times"),
            (" 0-1 ", " z ", "line 4: invalid list of CPUs 'z'"),
            ("task 8", "task x", "line 4: invalid pid 'x'"),
            ("as batch", "as lot", "line 7: unknown policy 'lot'"),
            ("open", "ajar", "'open' or 'closed'"),
            ("object socket", "object drum", "line 3: unknown object 'drum'"),
            ("o0,9", "o0", "line 5: unknown step 'o0'"),
            ("o0,9", "o1,9", "names object number 1"),
            ("t0,9", "t0,8", "object 0: 1 bytes more are put than taken"),
            ("o0,9", "t0,9", "more than one task takes from object 0"),
        ] {
            let error = text.replacen(from, to, 1).parse::<Demand>().unwrap_err();
            assert!(error.contains(part), "{from} -> {to}: {error}");
        }
        assert!("".parse::<Demand>().is_err());
    }
}
