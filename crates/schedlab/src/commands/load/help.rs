//! The help of a workload, rendered by the parser that renders the help of every other command.
//!
//! Options of workloads are tables of `schedlab-workload`, which experiments read too. Here each row becomes an
//! argument of a command that is only printed.

use super::OWN;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use schedlab_workload::options::{Kind, OptionDoc};
use schedlab_workload::placement::COMMON;
use schedlab_workload::workloads::Workload;

/// What `schedlab load WORKLOAD --help` prints.
pub(super) fn text(workload: &Workload) -> String {
    command(workload).render_help().to_string()
}

/// The workload as a command with all its options.
pub(crate) fn command(workload: &Workload) -> Command {
    let tables = [
        ("Options of the workload", workload.options),
        ("Placement, policy and compatibility", COMMON),
        ("Runs and output", OWN),
    ];
    let command = Command::new(workload.name)
        .bin_name(format!("schedlab load {}", workload.name))
        .about(capital(workload.about))
        .disable_help_flag(true)
        .max_term_width(100);
    tables.iter().fold(command, |command, (title, table)| {
        command.args(table.iter().map(|doc| argument(doc).help_heading(*title)))
    })
}

fn argument(doc: &OptionDoc) -> Arg {
    let argument = Arg::new(doc.name).long(doc.name).help(capital(doc.help));
    let argument = match doc.short {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    let Some(value) = value_name(doc.kind) else { return argument.action(ArgAction::SetTrue) };
    let argument = argument.action(ArgAction::Set).value_name(value);
    let argument = match doc.kind {
        Kind::Choice(words) => argument.value_parser(PossibleValuesParser::new(words)),
        _ => argument,
    };
    if doc.default.is_empty() { argument } else { argument.default_value(doc.default) }
}

/// What stands for the value of an option in help; `None` for a flag.
pub(super) const fn value_name(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Flag => return None,
        Kind::Number(..) | Kind::Signed(..) => "N",
        Kind::Duration(_) => "TIME",
        Kind::Size(_) => "SIZE",
        Kind::Cpus => "CPUS",
        Kind::Choice(_) => "WORD",
        Kind::Text => "TEXT",
    })
}

/// The text with a capital at its start, as in the help of all commands. The name of a workload before a colon stays.
fn capital(text: &str) -> String {
    let names_a_workload = text.split(' ').next().is_some_and(|word| word.ends_with(':'));
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !names_a_workload => first.to_uppercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::workloads::CATALOGUE;

    #[test]
    fn the_help_of_each_workload_has_all_its_options_and_fits_a_hundred_columns() {
        for workload in CATALOGUE {
            let text = text(workload);
            for doc in workload.options.iter().chain(COMMON).chain(OWN) {
                assert!(
                    text.contains(&format!("--{}", doc.name)),
                    "{}: {}",
                    workload.name,
                    doc.name
                );
            }
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
            assert_eq!(wide, Vec::<&str>::new(), "{}", workload.name);
        }
    }

    #[test]
    fn a_workload_before_a_colon_keeps_its_name() {
        assert_eq!(capital("print JSON"), "Print JSON");
        assert_eq!(capital("schbench: find it"), "schbench: find it");
    }
}
