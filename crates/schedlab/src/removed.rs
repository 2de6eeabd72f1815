//! Commands and options that are gone, each with what does its work now.
//!
//! The parser refuses them as words that it never knew. [`successor`] then finds the words in the table, so
//! that the error names the command to type instead.

use clap::Command;
use std::ffi::OsString;

/// What was typed, without `schedlab`, and what is to be typed. An option follows the words of its command.
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
    ("jobs run --significance", "`schedlab jobs run --criticality`"),
    ("jobs compare --significance", "`schedlab jobs compare --criticality`"),
    ("jobs peak --significance", "`schedlab jobs peak --criticality`"),
    ("jobs run --retire", "`schedlab jobs run --workers N`: no pool grows and shrinks any more"),
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
pub(crate) fn successor(arguments: &[OsString], all: &Command) -> Option<String> {
    let words: Vec<&str> = arguments.iter().skip(1).map_while(|word| word.to_str()).collect();
    // What follows belongs to a command of the user's.
    let words: Vec<&str> = words.into_iter().take_while(|word| *word != "--").collect();
    let is_typed = |removed: &str| {
        let (command, option) = parts(removed);
        words.starts_with(&command)
            && option.is_none_or(|option| {
                !goes_on(all, &command, &words) && words.iter().any(|word| is_option(word, option))
            })
    };
    if let Some((removed, now)) = REMOVED.iter().find(|(removed, _)| is_typed(removed)) {
        return Some(format!("`schedlab {removed}` is now {now}"));
    }
    let (word, here) = ELSEWHERE.iter().find(|(word, _)| words.first() == Some(word))?;
    Some(format!("there is no `schedlab {word}`: use {here}"))
}

/// The words of a command, and the option after them.
fn parts(removed: &str) -> (Vec<&str>, Option<&str>) {
    let mut command: Vec<&str> = removed.split(' ').collect();
    let option = command.pop_if(|word| word.starts_with('-'));
    (command, option)
}

/// Whether a subcommand of the command was typed, whose options are its own.
fn goes_on(all: &Command, command: &[&str], words: &[&str]) -> bool {
    let found = command.iter().try_fold(all, |at, word| at.find_subcommand(word));
    let next = words.get(command.len());
    found.zip(next).is_some_and(|(command, word)| command.find_subcommand(word).is_some())
}

fn is_option(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

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
            let (words, option) = parts(removed);
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
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            successor(&words, &Cli::command())
        };
        let found = typed("schedlab sim truth x.toml").unwrap();
        assert!(found.starts_with("`schedlab sim truth` is now `schedlab load "), "{found}");
        assert_eq!(typed("schedlab slow -- sim truth"), None);
        assert!(typed("schedlab slow nodes.toml --on=sim").is_some());
        assert_eq!(typed("schedlab slow evaluate --on host"), None);
        assert_eq!(typed("schedlab sim costs truth"), None);
    }
}
