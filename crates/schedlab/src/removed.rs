//! Commands, options and their values that are gone, each with what does its work now.
//!
//! The parser refuses them as words that it never knew. [`successor`] and [`value`] then find the words in the
//! tables, so that the error names what to type instead.

use clap::Command;

/// What was typed, without `schedlab`, and what is to be typed. An option follows the words of its command. `a|b` is any
/// of these words; `{}` is the command as it was typed.
const REMOVED: &[(&str, &str)] = &[
    ("submit --slurm", "`schedlab cluster slurm`"),
    ("submit", "`schedlab cluster ssh --hosts HOST,..`, or `schedlab cluster slurm`"),
    ("plan --freeze", "`schedlab cluster plan --freeze`"),
    ("plan", "`schedlab cluster plan`; `schedlab run --dry-run` shows the runs"),
    ("work --claim", "`schedlab cluster work --shard`: each worker does a shard of its own"),
    ("work", "`schedlab cluster work`"),
    ("gather", "`schedlab cluster gather`"),
    (
        "slow --on",
        "`schedlab run FILE` with `machine = \"sim:cpus=4\"` and speeds over time as values of an \
         axis, as in `30% 60%@10s`: nodes are not simulated",
    ),
    ("slow --trace", "`schedlab record -o FILE` around the session: its marks are the changes"),
    (
        "slow machine",
        "`schedlab slow 40%`, with the ratio of a program's times on both machines as the speed",
    ),
    ("report", "`schedlab run report DIR`"),
    ("jobs run|peak|break|compare --significance", "`{} --criticality`"),
    (
        "jobs run|peak|break|grain|compare --retire",
        "`{} --workers N`: no pool grows and shrinks any more",
    ),
    (
        "jobs run|peak|break|grain|compare --reserve",
        "`{}` without the option: a compulsory job goes before all others",
    ),
    (
        "jobs run --lose-notification",
        "`{} --soak TIME` without the option: the pool has no notification that could be lost",
    ),
    (
        "jobs run --clock-jump",
        "`{} --soak TIME` without the option: the soak leaves the clock alone",
    ),
    ("load jobs --queues", "`{}` without the option: the pool has queues of one kind"),
    ("record --cgroup", "`schedlab record`: it always stores control groups"),
    ("vm compare", "`schedlab compare --side vm:kernel=NAME --side vm:kernel=NAME -- LOAD`"),
    (
        "sim diff",
        "`schedlab compare --side sim:kernel=A --side sim:kernel=B -- LOAD`, with the kernels' own code \
         that `schedlab sim build` compiles",
    ),
    (
        "sim placement",
        "`schedlab sim build TREE`: sim:kernel=TREE places tasks by the kernel's own code",
    ),
    (
        "sim validate",
        "`schedlab compare --side vm:kernel=A --side sim:kernel=B -- LOAD`; docs/simulation.md has the \
         errors of the built-in schedulers",
    ),
    ("sim truth", "`schedlab load WORKLOAD --on MACHINE --repeat N`"),
];

/// A value that an option takes no more.
struct RemovedValue {
    command: &'static [&'static str],
    /// Empty for what stands after the words of the command.
    option: &'static str,
    /// `..` is any value with these letters.
    value: &'static str,
    now: &'static str,
}

const SHED: &str =
    "`--emergency shed`: optional jobs that are due are dropped until nothing is late";

const REMOVED_VALUES: &[RemovedValue] = &[
    RemovedValue {
        command: &["jobs"],
        option: "--workers",
        value: "..",
        now: "`--workers N`: no pool grows and shrinks any more",
    },
    RemovedValue {
        command: &["jobs"],
        option: "--queues",
        value: "one-token",
        now: "`--queues pool`, the queues of schedlab's pool",
    },
    RemovedValue {
        command: &["jobs"],
        option: "--queues",
        value: "per-worker",
        now: "`--queues pool`, or `--queues stealing` for one bundle of jobs",
    },
    RemovedValue { command: &["jobs"], option: "--emergency", value: "pause", now: SHED },
    RemovedValue { command: &["load", "jobs"], option: "--emergency", value: "pause", now: SHED },
    RemovedValue {
        command: &["sim", "costs"],
        option: "",
        value: "icount-5.10",
        now: "`icount-6.1`, `icount-6.12`, or a file that `schedlab sim calibrate` writes",
    },
];

/// First words that users of other tools try, and what answers their question here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("diff", "`schedlab trace compare A B` for traces, or `schedlab compare A B` for stored runs"),
    ("htop", "`schedlab watch`"),
    ("hist", "`schedlab trace latency FILE --histogram`"),
    ("latency", "`schedlab trace latency FILE`"),
    ("map", "`schedlab draw cores FILE -o FILE.svg`"),
    ("runqlat", "`schedlab watch`, or `schedlab trace latency FILE --histogram`"),
    ("runqlen", "`schedlab trace waiting FILE`"),
    ("stat", "`schedlab trace info FILE`"),
    ("timehist", "`schedlab trace events FILE`, or `schedlab trace latency FILE --worst 10`"),
    ("top", "`schedlab watch`, or `schedlab trace tasks FILE`"),
];

/// A sentence that names what replaces a removed command or option, or what does the work of another tool's word;
/// `None` if none was typed.
/// `all` is the command line that there is.
pub(crate) fn successor(words: &[&str], all: &Command) -> Option<String> {
    // What follows belongs to a command of the user's.
    let words: Vec<&str> = words.iter().copied().take_while(|word| *word != "--").collect();
    let mut found = REMOVED.iter().map(|(removed, now)| (Removed::parse(removed), now));
    let found = found.find(|(removed, _)| removed.is_typed(&words, all));
    if let Some((removed, now)) = found {
        return Some(removed.sentence(&words, now));
    }
    let (word, here) = ELSEWHERE.iter().find(|(word, _)| words.first() == Some(word))?;
    Some(format!("there is no `schedlab {word}`: use {here}"))
}

/// A sentence that names what replaces a removed value of an option; `None` if the value was never one.
/// `words` begin with the command.
pub(crate) fn value(words: &[&str], option: &str, value: &str) -> Option<String> {
    let is_it = |gone: &&RemovedValue| {
        words.starts_with(gone.command)
            && gone.option == option
            && (gone.value == value || gone.value == ".." && value.contains(".."))
    };
    let now = REMOVED_VALUES.iter().find(is_it)?.now;
    let typed = if option.is_empty() { value.to_owned() } else { format!("{option} {value}") };
    Some(format!("`{typed}` is now {now}"))
}

/// The same for an option of a command that reads its options itself.
pub(crate) fn option(command: &[&str], option: &str) -> Option<String> {
    let mut found = REMOVED.iter().map(|(removed, now)| (Removed::parse(removed), now));
    let (removed, now) =
        found.find(|(removed, _)| removed.command == command && removed.option == Some(option))?;
    Some(removed.sentence(command, now))
}

/// An entry of the table, taken apart.
struct Removed<'t> {
    command: Vec<&'t str>,
    option: Option<&'t str>,
}

impl<'t> Removed<'t> {
    fn parse(text: &'t str) -> Self {
        let mut command: Vec<&str> = text.split(' ').collect();
        let option = command.pop_if(|word| word.starts_with('-'));
        Self { command, option }
    }

    fn is_typed(&self, words: &[&str], all: &Command) -> bool {
        if self.command.len() > words.len() {
            return false;
        }
        let (command, rest) = words.split_at(self.command.len());
        let mut pairs = self.command.iter().zip(command);
        pairs.all(|(any, word)| any.split('|').any(|one| one == *word))
            && self.option.is_none_or(|option| {
                !goes_on(all, command, rest) && rest.iter().any(|word| is_option(word, option))
            })
    }

    fn sentence(&self, words: &[&str], now: &str) -> String {
        let command = words[..self.command.len()].join(" ");
        let now = now.replace("{}", &format!("schedlab {command}"));
        let option = self.option.map_or(String::new(), |option| format!(" {option}"));
        format!("`schedlab {command}{option}` is now {now}")
    }
}

/// Whether a subcommand of the command was typed after it, whose options are its own.
fn goes_on(all: &Command, command: &[&str], rest: &[&str]) -> bool {
    let found = command.iter().try_fold(all, |at, word| at.find_subcommand(word));
    found.zip(rest.first()).is_some_and(|(command, word)| command.find_subcommand(word).is_some())
}

fn is_option(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;
    use std::ffi::OsString;

    /// The deepest subcommand that these words name, and how many of them it took.
    fn known(words: &[&str]) -> (clap::Command, usize) {
        let (mut command, mut taken) = (Cli::command(), 0);
        for word in words {
            let Some(next) = command.find_subcommand(word).cloned() else { break };
            (command, taken) = (next, taken + 1);
        }
        (command, taken)
    }

    #[test]
    fn what_is_removed_is_refused_and_its_successor_exists() {
        for (removed, now) in REMOVED.iter().chain(ELSEWHERE) {
            let Removed { command: words, option } = Removed::parse(removed);
            let first = |any: &&'static str| any.split('|').next().unwrap_or_default();
            let words: Vec<&str> = words.iter().map(first).collect();
            let now = now.replace("{}", &format!("schedlab {}", words.join(" ")));
            let (command, taken) = known(&words);
            let has = |name: &str| {
                let long = name.strip_prefix("--");
                command.get_arguments().any(|one| one.get_long() == long)
            };
            let is_gone = option.map_or(taken < words.len(), |option| !has(option));
            assert!(is_gone, "`schedlab {removed}` exists");
            let named = now.split('`').nth(1).and_then(|text| text.strip_prefix("schedlab "));
            let named: Vec<&str> = named.expect("a successor is a command").split(' ').collect();
            let (command, taken) = known(&named);
            let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let words = named.iter().take_while(|word| is_word(word)).count();
            let is_whole = taken == words || command.get_positionals().next().is_some();
            assert!(taken > 0 && is_whole, "`{removed}`: no command `{}`", named.join(" "));
            // `load` reads its options itself.
            let options = named
                .iter()
                .filter(|word| word.len() > 2 && word.starts_with("--") && named[0] != "load");
            for option in options {
                let name = option.trim_start_matches('-');
                let is_there = command.get_arguments().any(|one| one.get_long() == Some(name));
                assert!(is_there, "`{removed}`: {} has no {option}", named.join(" "));
            }
        }
    }

    #[test]
    fn words_of_a_users_command_are_not_looked_up() {
        let typed = |line: &str| {
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            successor(&words, &Cli::command())
        };
        let found = typed("schedlab sim truth x.toml").unwrap();
        assert!(found.starts_with("`schedlab sim truth` is now `schedlab load "), "{found}");
        assert_eq!(typed("schedlab slow -- sim truth"), None);
        assert!(typed("schedlab slow nodes.toml --on=sim").is_some());
        assert_eq!(typed("schedlab slow evaluate --on host"), None);
        assert_eq!(typed("schedlab sim costs truth"), None);
    }

    /// All commands and options of the version at commit 3dccda7d that are gone since.
    const GONE: &str = "\
gather
gather --output
jobs break --reserve
jobs break --retire
jobs break --significance
jobs compare --reserve
jobs compare --retire
jobs compare --significance
jobs grain --reserve
jobs grain --retire
jobs peak --reserve
jobs peak --retire
jobs peak --significance
jobs run --clock-jump
jobs run --lose-notification
jobs run --reserve
jobs run --retire
jobs run --significance
plan
plan --freeze
plan --on
plan --output
record --cgroup
report
report --output
report --parquet
report --title
sim diff
sim diff --against
sim diff --dark
sim diff --list
sim diff --on
sim diff --option
sim diff --picture
sim diff --seed
sim diff --seeds
sim diff --set
sim diff --set-model
sim placement
sim placement --list
sim placement --on
sim truth
sim truth --starts
sim validate
slow --on
slow --trace
slow machine pi4
submit
submit --binary
submit --dry-run
submit --freeze
submit --on
submit --output
submit --sbatch
submit --slurm
submit --ssh
submit --ssh-command
vm compare
vm compare --choices
vm compare --dark
vm compare --draw
vm compare --ext
vm compare --hz
vm compare --json
vm compare --metric
vm compare --output
vm compare --placebo
vm compare --placebos
vm compare --preempt
vm compare --set
vm compare --starts
vm compare --time-limit
vm compare --tree
vm compare --vm
vm compare --workload
work
work --claim
work --lease
work --name
work --shard";

    /// What the program says of this line.
    fn refused(line: &str) -> String {
        let words: Vec<OsString> =
            ["schedlab"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
        let error = crate::cli::command().try_get_matches_from(&words).expect_err(line);
        crate::cli::with_advice(error, &words).to_string()
    }

    #[test]
    fn each_command_and_option_that_is_gone_is_refused_with_its_successor() {
        for line in GONE.lines() {
            let said = refused(line);
            assert!(said.contains("` is now `schedlab "), "{line}: {said}");
        }
    }

    #[test]
    fn each_value_that_is_gone_is_refused_with_its_successor() {
        for line in [
            "jobs run --workers 2..8",
            "jobs peak --queues one-token",
            "jobs break --queues=per-worker",
            "jobs compare --emergency pause",
        ] {
            let said = refused(line);
            assert!(said.contains("` is now `--"), "{line}: {said}");
        }
        assert!(!refused("jobs run --queues pause").contains("is now"));
        assert!(!refused("jobs run --workers 0").contains("is now"));
    }
}
