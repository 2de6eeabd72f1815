//! A command of the user's as a load among others: placed as they are, begun and ended with them, with
//! figures of its own. What it prints is not shown; the last line of it is reported where it fails.

use super::Workload;
use crate::options::{Kind, OptionError, Options, option};
use crate::placement::MachineProperties;
use crate::plan::{Plan, Task, Timing};
use crate::{Behaviour, Done, Instruments, Op, WorkloadSpec};
use schedlab_model::Nanos;

pub(super) const NAME: &str = "command";

pub(super) const WORKLOAD: Workload = Workload {
    name: NAME,
    about: "a command of yours: command [OPTIONS] -- PROGRAM ARGUMENTS",
    options: &[
        option("line", Kind::Text, "", "what a shell runs, instead of PROGRAM ARGUMENTS"),
        option(
            "duration",
            Kind::Duration(1_000_000_000),
            "0",
            "end it after this time; 0: when it ends",
        ),
    ],
    build,
};

#[must_use]
pub fn of(argv: &[String]) -> WorkloadSpec {
    let options = [("line".to_owned(), line(argv))].into_iter().collect();
    WorkloadSpec::Builtin { name: NAME.to_owned(), options }
}

/// Words as a shell takes them for themselves.
#[must_use]
pub fn line(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// What the command does is its own affair.
struct Foreign;

impl Behaviour for Foreign {
    fn next(&mut self, _: Nanos, _: Done, _: &mut dyn Instruments) -> Op {
        Op::Exit
    }
}

fn build(options: &Options, _: &MachineProperties) -> Result<Plan, OptionError> {
    let line = options.text("line");
    if line.trim().is_empty() {
        let why = "missing command: write command [OPTIONS] -- PROGRAM ARGUMENTS";
        return Err(OptionError::new("line", why));
    }
    let mut plan = Plan::new(NAME);
    let duration = options.duration("duration");
    plan.timing =
        Timing { duration: (duration > Nanos::ZERO).then_some(duration), ..Timing::default() };
    plan.command = Some(line.to_owned());
    let role = plan.role(NAME);
    plan.tasks.push(Task::new("", role, Box::new(Foreign)));
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a real shell judges the quoting")]
    fn words_reach_the_program_as_they_were_typed() {
        let words = ["a b", "it's", "", "$HOME", "*", "plain-1=x,y", "\n;"].map(str::to_owned);
        let script = format!("for word in {}; do printf '<%s>' \"$word\"; done", line(&words));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}
