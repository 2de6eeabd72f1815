//! A demand as rt-app's JSON.

use schedlab_model::Nanos;
use schedlab_workload::demand::{Actor, Demand, Step};
use std::fmt::Write as _;

/// The demand in rt-app's grammar: runs, sleeps, semaphores and forks. Times are microseconds there, so each step is
/// rounded. A wait for an interrupt becomes a sleep of its length: rt-app has no arrivals at given times. It has no objects
/// either: infer the demand without them ([`crate::Options::objects`]), or tasks do not wait for what they take.
#[must_use]
pub fn rt_app(demand: &Demand) -> String {
    let mut text = String::from("{\n  \"tasks\": {\n");
    for (index, actor) in demand.actors.iter().enumerate() {
        let comma = if index + 1 == demand.actors.len() { "" } else { "," };
        let _ = writeln!(text, "    \"{}\": {{", name(demand, index));
        text.push_str(&body(demand, index, actor));
        let _ = writeln!(text, "\n    }}{comma}");
    }
    text.push_str("  }\n}\n");
    text
}

/// Names are unique, and hold nothing that JSON or rt-app would take for something else.
fn name(demand: &Demand, index: usize) -> String {
    let actor = &demand.actors[index];
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let comm: String = actor.comm.chars().map(plain).collect();
    format!("{comm}-{}", actor.pid)
}

fn body(demand: &Demand, index: usize, actor: &Actor) -> String {
    let mut lines = Vec::new();
    if actor.forked {
        lines.push("\"instance\": 0".to_owned());
    }
    lines.push("\"loop\": 1".to_owned());
    if let Some(cpus) = &actor.cpus {
        let list: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        lines.push(format!("\"cpus\": [{}]", list.join(", ")));
    }
    let nice = actor.prio.0 - 120;
    if (-20..=19).contains(&nice) && nice != 0 {
        lines.push(format!("\"priority\": {nice}"));
    }
    let us = |time: Nanos| time.0.div_ceil(1_000);
    let mut events = 0;
    for (number, step) in actor.steps.iter().enumerate() {
        let line = match *step {
            Step::Run(time) | Step::InCall(time) => format!("\"run{number}\": {}", us(time)),
            Step::Post(task) => {
                format!("\"sem_post{number}\": \"{}\"", name(demand, task as usize))
            }
            Step::Wait => format!("\"sem_wait{number}\": \"{}\"", name(demand, index)),
            Step::Interrupt { slept, .. } => format!("\"sleep{number}\": {}", us(slept)),
            Step::Fork(task) => format!("\"fork{number}\": \"{}\"", name(demand, task as usize)),
            Step::Endless => format!("\"run{number}\": {}", us(demand.length)),
            // rt-app changes priorities by phases, which our flat list of events has not. Its pipes hold no tokens.
            Step::Prio(_) | Step::Put { .. } | Step::Take { .. } => continue,
        };
        events += 1;
        lines.push(line);
    }
    if events == 0 {
        lines.push("\"run\": 0".to_owned());
    }
    lines.iter().map(|line| format!("      {line}")).collect::<Vec<_>>().join(",\n")
}
