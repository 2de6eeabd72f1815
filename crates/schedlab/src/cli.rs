//! What can be typed. Help, completions and the man page all come from here.

use crate::commands;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

const ABOUT: &str = "A workbench for CPU schedulers: load, slow, record, draw, explain, tune";

const LEARN: &str = "\
First steps:
  schedlab tour                                run two loads and write one HTML report
  schedlab doctor                              what this machine allows, and how to get the rest
  schedlab record -o x.dat -- make -j8         record scheduler events while a command runs
  schedlab why x.dat                           who waited for a CPU, why, and what would help
  schedlab draw cores x.dat -o x.svg           draw a row for each CPU (svg, pdf or png)

Durations and sizes take units (1.5ms, 64KiB); CPUs are lists as in Linux (0-3,8).
Results go to stdout, notes to stderr. --json prints JSON.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (finished measurements are kept).";

/// The commands of the first screen of help, by what they are for. The others have their help, too.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Traces", &["record", "trace", "draw", "view", "why", "watch", "replay"]),
    ("This machine", &["doctor", "tour", "load", "slow", "knobs"]),
    ("Comparisons", &["run", "compare", "tune", "gallery"]),
    ("Other machines and executors", &["sim", "vm", "jobs", "cluster"]),
];

/// The command line, whose help lists the commands in groups.
pub(crate) fn command() -> clap::Command {
    let all = Cli::command();
    let line = |name: &&str| {
        let about = all.find_subcommand(name).and_then(clap::Command::get_about);
        format!("  {name:<9}{}\n", about.map(ToString::to_string).unwrap_or_default())
    };
    let group = |(title, names): (&str, &[&str])| {
        format!("\n{title}:\n{}", names.iter().map(line).collect::<String>())
    };
    let list: String = GROUPS.into_iter().map(group).collect();
    all.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}\n{{after-help}}\n"
    ))
}

/// The command line.
#[derive(Parser)]
#[command(name = "schedlab", version, about = ABOUT, after_help = LEARN, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands, in the order in which a new user needs them.
#[expect(clippy::large_enum_variant, reason = "there is one, for as long as the program runs")]
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run two loads, record them and write one HTML report
    Tour(commands::tour::Args),
    /// Show what this machine allows, and how to get each missing permission
    Doctor(commands::doctor::Args),
    /// Run one workload: schbench, hackbench and more
    Load(commands::load::Args),
    /// Record the scheduler events of this machine into a trace.dat
    Record(commands::record::Args),
    /// Tell who waited longest for a CPU, why, who is to blame, and what would help
    Why(commands::trace::why::Args),
    /// Show who waits for a CPU on this machine now, and why: window by window
    Watch(commands::watch::Args),
    /// Ask a trace: latency, tasks, CPUs, lost CPU time, causes and more
    Trace(commands::trace::Args),
    /// Draw a trace or a table as SVG, PDF or PNG
    Draw(commands::draw::Args),
    /// Write a trace as one interactive HTML page
    View(commands::view::Args),
    /// Replay a trace on another scheduler: which tasks wait less, which wait more
    Replay(commands::replay::Args),
    /// Slow CPUs to chosen speeds, and run virtual nodes
    Slow(commands::slow::Args),
    /// List and set scheduler tunables, and put them back afterwards
    Knobs(commands::knobs::Args),
    /// Build the scheduler of a kernel's source tree for simulation; files of costs and machines
    Sim(commands::sim::Args),
    /// Load a job executor with graphs of jobs, and find its breaking point
    Jobs(commands::jobs::Args),
    /// Fetch and build kernels for QEMU, and find the commit that made one slower
    Vm(commands::vm::Args),
    /// Run an experiment: plan, run, store, report; continue where it stopped
    Run(commands::run::Args),
    /// Search for a setting that beats the default, and confirm the gain with fresh runs
    Tune(commands::tune::Args),
    /// Share the runs of an experiment among several machines: by hand, through ssh or Slurm
    Cluster(commands::cluster::Args),
    /// Published results about schedulers, repeated: list them, run them, read the verdicts
    Gallery(commands::gallery::Args),
    /// Compare stored results, commands, or machines under one load, with a verdict
    Compare(commands::compare::Args),
    /// Print the JSON schemas of what --json prints
    Schema(commands::schema::Args),
    /// Print shell completions, or the man page
    Shell(commands::shell::Args),
}

impl Command {
    /// Runs what was typed.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Tour(args) => commands::tour::run(args),
            Self::Doctor(args) => commands::doctor::run(args),
            Self::Load(args) => commands::load::run(args),
            Self::Record(args) => commands::record::run(args),
            Self::Why(args) => commands::trace::why::run(&args),
            Self::Watch(args) => commands::watch::run(&args),
            Self::Trace(args) => commands::trace::run(args),
            Self::Draw(args) => commands::draw::run(args),
            Self::View(args) => commands::view::run(&args),
            Self::Slow(args) => commands::slow::run(args),
            Self::Knobs(args) => commands::knobs::run(args),
            Self::Replay(args) => commands::replay::run(&args),
            Self::Sim(args) => commands::sim::run(args),
            Self::Jobs(args) => commands::jobs::run(args),
            Self::Run(args) => commands::run::run(args),
            Self::Tune(args) => commands::tune::run(args),
            Self::Cluster(args) => commands::cluster::run(args),
            Self::Vm(args) => commands::vm::run(args),
            Self::Gallery(args) => commands::gallery::run(args),
            Self::Compare(args) => commands::compare::run(args),
            Self::Schema(args) => commands::schema::run(&args),
            Self::Shell(args) => commands::shell::run(&args, Cli::command()),
        }
    }
}

/// An error with what to do. What was removed has a successor. Where a command was typed and the `--` before it was
/// forgotten, the parser takes the command's words for our own, and what it says of them helps nobody.
pub(crate) fn with_advice(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    use clap::error::ErrorKind::{
        ArgumentConflict, InvalidSubcommand, InvalidValue, MissingRequiredArgument,
        UnknownArgument, ValueValidation,
    };
    let words: Vec<&str> = arguments.iter().skip(1).map_while(|word| word.to_str()).collect();
    let replaced = match error.kind() {
        InvalidSubcommand | UnknownArgument => crate::removed::successor(&words, &Cli::command()),
        InvalidValue | ValueValidation => removed_value(&error, &words),
        _ => None,
    };
    if let Some(text) = replaced {
        return Cli::command().error(error.kind(), text);
    }
    let is_it =
        matches!(error.kind(), UnknownArgument | ArgumentConflict | MissingRequiredArgument)
            && error.get(ContextKind::SuggestedArg).is_none()
            && arguments.iter().all(|argument| argument != "--");
    if is_it && let Some(name) = takes_a_command(arguments) {
        let tip = format!("put -- before the command that is to run: {name} [OPTIONS] -- CMD");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// What replaces the value that the parser refused; `None` if it was never one.
fn removed_value(error: &clap::Error, words: &[&str]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    // As in `--workers <N>`.
    let option = text(ContextKind::InvalidArg)?.split([' ', '=']).next()?;
    crate::removed::value(words, option, text(ContextKind::InvalidValue)?)
}

/// The name of the subcommand that was typed, if a command of the user's comes last in it.
fn takes_a_command(arguments: &[OsString]) -> Option<String> {
    let mut command = &Cli::command();
    let mut name = command.get_name().to_owned();
    for word in arguments.iter().skip(1).map_while(|word| word.to_str()) {
        let Some(next) = command.find_subcommand(word) else { break };
        command = next;
        name = format!("{name} {word}");
    }
    command.get_positionals().any(clap::Arg::is_last_set).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(command: &mut clap::Command) -> Vec<String> {
        let name = command.get_name().to_owned();
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help = command.render_long_help().to_string();
        let is_there = |line: &&str| help.lines().any(|there| there == *line);
        let lines = text.lines().filter(|line| !is_there(line));
        let mut found: Vec<String> = lines.map(|line| format!("{name}: {line}")).collect();
        found.extend(command.get_subcommands_mut().flat_map(broken));
        found
    }

    /// A line that is too long is broken, which destroys columns; the indent of a first line is lost.
    #[test]
    fn examples_and_tables_of_the_help_keep_their_lines() {
        assert_eq!(broken(&mut Cli::command()), Vec::<String>::new());
    }

    /// The words of a command as a shell reads them, without what is said beside it.
    fn shell_words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        let mut last = ' ';
        for letter in line.chars() {
            match (quote, letter) {
                (None, ';') => break,
                (None, ' ' | '|' | '>' | '#') if last == ' ' => break,
                (None, '\'' | '"') => quote = Some(letter),
                (Some(open), _) if open == letter => quote = None,
                (None, ' ') => words.push(std::mem::take(&mut word)),
                _ => word.push(letter),
            }
            last = letter;
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    /// Options that mean the same wherever they occur.
    const SHARED: [&str; 6] = ["json", "threads", "topology", "dark", "comm", "regex"];

    /// The help of a command and of its options, with the names of both; the same for its subcommands.
    fn texts(command: &clap::Command, into: &mut Vec<(String, String)>) {
        let name = command.get_name();
        into.extend(command.get_about().map(|about| (name.to_owned(), about.to_string())));
        for option in command.get_arguments().filter(|option| option.get_help().is_some()) {
            let long = option.get_long().unwrap_or(option.get_id().as_str());
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            into.push((format!("{name} {long}"), help));
        }
        command.get_subcommands().for_each(|command| texts(command, into));
    }

    /// The help of all commands, and of all workloads, whose options the command `load` reads by itself.
    fn all_texts() -> Vec<(String, String)> {
        let mut all = Vec::new();
        texts(&Cli::command(), &mut all);
        let workloads = schedlab_workload::workloads::CATALOGUE.iter();
        workloads.for_each(|workload| texts(&commands::load::help::command(workload), &mut all));
        all
    }

    /// The table of `docs/glossary.md` that `cargo xtask tidy` reads as well.
    fn banned_words() -> Vec<String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/glossary.md");
        let glossary = std::fs::read_to_string(path).unwrap();
        let table = glossary.split("\n## Banned words").nth(1).unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        rows.map(|(word, _)| word.to_owned()).collect()
    }

    #[test]
    fn help_follows_the_style_guide() {
        let banned = banned_words();
        let (all, mut found) = (all_texts(), Vec::new());
        for (name, text) in &all {
            let padded = format!(" {} ", text.to_lowercase());
            let words = banned.iter().filter(|word| padded.contains(&format!(" {word} ")));
            found.extend(words.map(|word| format!("{name}: '{word}': {text}")));
            let begins_small = text.starts_with(|c: char| c.is_ascii_lowercase());
            let names_a_workload = text.split(' ').next().is_some_and(|word| word.ends_with(':'));
            if text.ends_with('.') || (begins_small && !names_a_workload) {
                found.push(format!("{name}: no capital at its start, or a full stop: {text}"));
            }
        }
        let sentences = all.iter().flat_map(|(_, text)| text.split(". "));
        let mut lengths: Vec<usize> = sentences.map(|s| s.split_whitespace().count()).collect();
        lengths.sort_unstable();
        assert!(lengths[lengths.len() * 9 / 10] <= 22, "one sentence in ten is too long");
        assert!(lengths.last().is_some_and(|longest| *longest <= 35), "a sentence over 35 words");
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_shared_option_has_one_wording() {
        let mut all = Vec::new();
        texts(&Cli::command(), &mut all);
        // A workload may have threads of its own; JSON it prints as all commands do.
        all.extend(all_texts().into_iter().filter(|(name, _)| name.ends_with(" json")));
        for shared in SHARED {
            let end = format!(" {shared}");
            let ours = all.iter().filter(|(name, _)| name.ends_with(&end));
            // The output of a slowed command is on stdout, so `slow` prints JSON elsewhere and says where.
            let mut texts: Vec<&str> = ours
                .map(|(_, text)| text.trim_end_matches(" on stderr; stdout belongs to the command"))
                .collect();
            texts.sort_unstable();
            texts.dedup();
            assert_eq!(texts.len(), 1, "--{shared}: {texts:?}");
        }
    }

    /// How many commands a text shows, and what is wrong with them. They are indented or fenced; one with an ellipsis
    /// is none.
    fn mistakes(place: &str, indent: &str, text: &str) -> (usize, Vec<String>) {
        let mut is_fenced = false;
        let lines = text.lines().filter(|line| {
            is_fenced ^= line.starts_with("```");
            is_fenced || line.starts_with(indent)
        });
        let lines = lines.map(|line| line.trim().trim_start_matches("$ "));
        let lines = lines.filter(|line| line.starts_with("schedlab "));
        let lines = lines.filter(|line| !line.contains(" ..."));
        let (mut commands, mut found) = (0, Vec::new());
        for line in lines {
            commands += 1;
            if let Err(error) = Cli::command().try_get_matches_from(shell_words(line)) {
                use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
                let what = error.to_string();
                let what = what.lines().next().unwrap_or_default();
                if !matches!(error.kind(), DisplayHelp | DisplayVersion) {
                    found.push(format!("{place}: {line}: {what}"));
                }
            }
        }
        (commands, found)
    }

    fn mistakes_of_help(command: &clap::Command) -> Vec<String> {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, mut found) = mistakes(&format!("{} --help", command.get_name()), "  ", &text);
        found.extend(command.get_subcommands().flat_map(mistakes_of_help));
        found
    }

    #[test]
    fn commands_in_documents_and_help_are_understood() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        // What the chapters of the guide hold is run by tests/all/guide.rs.
        let docs = ["docs", "docs/gallery"];
        let docs = docs.map(|folder| std::fs::read_dir(format!("{root}/{folder}")).unwrap());
        let docs = docs.into_iter().flatten().flatten();
        let mut files: Vec<_> = docs.map(|entry| entry.path()).collect();
        files.extend(["README.md", "CONTRIBUTING.md"].map(|name| format!("{root}/{name}").into()));
        let (mut commands, mut found) = (0, mistakes_of_help(&Cli::command()));
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
            let text = std::fs::read_to_string(file).unwrap();
            let (more, wrong) = mistakes(&file.display().to_string(), "    ", &text);
            commands += more;
            found.extend(wrong);
        }
        assert!(commands > 40, "only {commands} commands were found");
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn words_of_a_command_are_those_of_a_shell() {
        let words = |line| shell_words(line).join("|");
        assert_eq!(
            words("schedlab load 'a b' -x \"c # d\"  what it does"),
            "schedlab|load|a b|-x|c # d"
        );
        assert_eq!(words("schedlab slow status; schedlab slow end"), "schedlab|slow|status");
        assert_eq!(words("schedlab trace why x.dat > a.txt"), "schedlab|trace|why|x.dat");
    }
}
