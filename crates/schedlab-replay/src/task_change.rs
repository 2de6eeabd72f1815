//! Changes of single tasks of a demand: `nice:TASK=5`, `slice:TASK=3ms`, `cpus:TASK=0-1`.

use schedlab_model::{CpuSet, Nanos, Prio, Setting};
use schedlab_workload::demand::{Actor, Demand, Step};

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Nice(i32),
    /// Its slice; `None`: that of the machine.
    Slice(Option<Nanos>),
    /// The CPUs that it may use; `None`: all of the machine.
    Cpus(Option<CpuSet>),
}

/// A change of the tasks of a name, or of the task of a pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskChange {
    task: String,
    what: What,
}

impl TaskChange {
    /// Reads a setting; `None` if it is not about single tasks.
    ///
    /// # Errors
    /// When the value is wrong, in a sentence.
    pub fn of(setting: &Setting) -> Option<Result<Self, String>> {
        let (kind, task) = setting.knob.split_once(':')?;
        let value = setting.value.as_str();
        let what = match kind {
            "nice" => nice(value),
            "slice" => slice(value),
            "cpus" => cpus(value),
            _ => return None,
        };
        let wrong = |why| format!("--set {}={value}: {why}", setting.knob);
        if task.is_empty() {
            return Some(Err(wrong("name a task, as in nice:make=5 or nice:1234=5".to_owned())));
        }
        let task = task.to_owned();
        Some(what.map(|what| Self { task, what }).map_err(wrong))
    }

    /// Makes the change.
    ///
    /// # Errors
    /// When no task has the name or pid, or it is not a fair task and the change is one for those.
    pub fn apply(&self, demand: &mut Demand) -> Result<(), String> {
        let mut found = false;
        for actor in &mut demand.actors {
            if actor.comm == self.task || actor.pid.0.to_string() == self.task {
                found = true;
                self.change(actor);
            }
        }
        let none =
            "the trace has no task of this name or pid; list the tasks with `schedlab trace tasks`";
        if found { Ok(()) } else { Err(format!("'{}': {none}", self.task)) }
    }

    fn change(&self, actor: &mut Actor) {
        match &self.what {
            What::Nice(nice) => {
                let prio = Prio(i16::try_from(120 + nice).expect("it is within limits"));
                actor.prio = prio;
                // What the task itself asked for later gives way too.
                actor.steps.retain(|step| !matches!(step, Step::Prio(_)));
            }
            What::Slice(slice) => actor.slice = *slice,
            What::Cpus(cpus) => actor.cpus.clone_from(cpus),
        }
    }
}

fn nice(value: &str) -> Result<What, String> {
    let nice = value.parse().ok().filter(|nice| (-20..=19).contains(nice));
    nice.map(What::Nice).ok_or_else(|| "use -20 to 19".to_owned())
}

fn slice(value: &str) -> Result<What, String> {
    if value == "0" {
        return Ok(What::Slice(None));
    }
    let time: Nanos = value.parse().map_err(|error| format!("{error}"))?;
    let allowed = 100_000..=100_000_000;
    let slice = Some(time).filter(|time| allowed.contains(&time.0));
    slice.map(|time| What::Slice(Some(time))).ok_or_else(|| "use 100us to 100ms, or 0".to_owned())
}

fn cpus(value: &str) -> Result<What, String> {
    if value == "all" {
        return Ok(What::Cpus(None));
    }
    let cpus: CpuSet = value.parse().map_err(|error| format!("{error}"))?;
    if cpus.is_empty() {
        return Err("name at least one CPU, or 'all'".to_owned());
    }
    Ok(What::Cpus(Some(cpus)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, Pid};
    use schedlab_workload::demand::Source;

    fn demand() -> Demand {
        let actor = |pid, comm: &str| Actor {
            pid: Pid(pid),
            comm: comm.to_owned(),
            prio: Prio::NORMAL,
            class: None,
            slice: None,
            group: None,
            cpus: None,
            cpu: Cpu(0),
            forked: false,
            source: Source::Open,
            steps: vec![Step::Run(Nanos(5)), Step::Prio(Prio(130)), Step::Run(Nanos(5))],
        };
        let actors = vec![actor(7, "a"), actor(8, "b"), actor(9, "b")];
        Demand { length: Nanos(10), actors, ..Demand::default() }
    }

    fn set(knob: &str, value: &str) -> Setting {
        Setting { knob: knob.to_owned(), value: value.to_owned() }
    }

    fn changed(knob: &str, value: &str) -> Demand {
        let mut demand = demand();
        TaskChange::of(&set(knob, value)).unwrap().unwrap().apply(&mut demand).unwrap();
        demand
    }

    #[test]
    fn a_change_is_for_a_pid_or_for_all_of_a_name() {
        let of = |demand: Demand| demand.actors.iter().map(|one| one.prio.0).collect::<Vec<_>>();
        assert_eq!(of(changed("nice:b", "5")), [120, 125, 125]);
        assert_eq!(of(changed("nice:8", "-3")), [120, 117, 120]);
        let steps = &changed("nice:8", "-3").actors[1].steps;
        assert!(!steps.contains(&Step::Prio(Prio(130))), "{steps:?}");
        assert_eq!(changed("slice:a", "3ms").actors[0].slice, Some(Nanos(3_000_000)));
        let cpus = changed("cpus:9", "0-1").actors[2].cpus.clone().unwrap();
        assert_eq!(cpus.to_string(), "0-1");
    }

    #[test]
    fn mistakes_are_told_and_other_settings_are_passed_over() {
        for (knob, value, part) in [
            ("nice:a", "20", "use -20 to 19"),
            ("slice:a", "1us", "use 100us to 100ms"),
            ("cpus:a", "x", "--set cpus:a=x"),
            ("nice:", "5", "name a task"),
        ] {
            let why = TaskChange::of(&set(knob, value)).unwrap().unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(TaskChange::of(&set("base_slice", "3ms")), None);
        assert_eq!(TaskChange::of(&set("speed:0-3", "50%")), None);
        let nobody = TaskChange::of(&set("nice:c", "5")).unwrap().unwrap();
        let why = nobody.apply(&mut demand()).unwrap_err();
        assert!(why.starts_with("'c': the trace has no task"), "{why}");
    }
}
