//! `schedlab trace`: questions to a trace, a file each.

mod blocked;
mod check;
pub(crate) mod compare;
mod conservation;
mod convert;
mod cpus;
mod cut;
mod episode;
mod events;
pub(crate) mod form;
mod groups;
mod info;
pub(crate) mod input;
#[cfg(feature = "parquet")]
mod intervals;
pub(crate) mod latency;
mod locality;
mod locks;
mod migrations;
mod power;
mod pprof;
mod ran_instead;
mod running;
pub(crate) mod stack_form;
mod stack_times;
pub(crate) mod stacks;
mod tasks;
mod waiting;
pub(crate) mod why;

use crate::json::{self, Schema};
use clap::Subcommand;
use std::process::ExitCode;

/// Options of `schedlab trace`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// Print what the file holds: events by kind and CPU, losses, clock
    Info(info::Args),
    /// Print wakeup latency and run delay, with percentiles
    Latency(latency::Args),
    /// Print run time, slices, switches and migrations of each task
    Tasks(tasks::Args),
    /// Print time off the CPU by call stack: where tasks blocked, for flame graphs too
    Stacks(stacks::Args),
    /// Print utilisation, idle, unknown and overloaded time of each CPU
    Cpus(cpus::Args),
    /// Print how many tasks ran and waited over time
    Waiting(waiting::Args),
    /// Print the CPU time that was lost while tasks waited: where, how much, and why
    Conservation(conservation::Args),
    /// Explain why tasks waited, or what a task or request spent its time on (also `schedlab why`)
    Why(why::Args),
    /// Print frequencies, idle states, IPIs and timers of CPUs, and work of tasks in cycles
    Power(power::Args),
    /// Print who waited for locks, who held them, and what holders without a CPU cost
    Locks(locks::Args),
    /// Print who wakes whom, wakeups that leave the LLC, node or socket, and run time away from home
    Locality(locality::Args),
    /// Print migrations: how far, by what, and in which chains
    Migrations(migrations::Args),
    /// Compare a trace's times with what the kernel counted while it was recorded
    Check(check::Args),
    /// Compare two traces on all of the above
    Compare(compare::Args),
    /// Print events, filtered, in pages
    Events(events::Args),
    /// Write a part of a trace as trace.dat: a time range, CPUs or tasks
    Cut(cut::Args),
    /// Convert a trace to another format, and report what that format cannot hold
    Convert(convert::Args),
}

/// What the questions print with `--json`.
pub(crate) fn documents() -> Vec<Schema> {
    vec![
        json::of::<info::Document>(),
        json::of::<latency::Document<'_>>(),
        json::of::<tasks::Document<'_>>(),
        json::of::<stacks::Document<'_>>(),
        json::of::<stacks::ChangeDocument<'_>>(),
        json::of::<running::Document<'_>>(),
        json::of::<cpus::Document<'_>>(),
        json::of::<waiting::Document<'_>>(),
        json::of::<conservation::Document<'_>>(),
        json::of::<why::Document<'_>>(),
        json::of::<why::CausesDocument<'_>>(),
        json::of::<why::blame::Document<'_>>(),
        json::of::<why::RequestsDocument<'_>>(),
        json::of::<locality::Document<'_>>(),
        json::of::<migrations::Document<'_>>(),
        json::of::<compare::Document<'_>>(),
        json::of::<events::Document<'_>>(),
        json::of::<groups::Document<'_>>(),
        json::of::<check::Document<'_>>(),
        json::of::<power::Document<'_>>(),
        json::of::<locks::Document<'_>>(),
    ]
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.question {
        Question::Info(args) => info::run(&args),
        Question::Latency(args) => latency::run(&args),
        Question::Tasks(args) => tasks::run(&args),
        Question::Stacks(args) => stacks::run(&args),
        Question::Cpus(args) => cpus::run(&args),
        Question::Waiting(args) => waiting::run(&args),
        Question::Conservation(args) => conservation::run(&args),
        Question::Why(args) => why::run(&args),
        Question::Power(args) => power::run(&args),
        Question::Locks(args) => locks::run(&args),
        Question::Locality(args) => locality::run(&args),
        Question::Migrations(args) => migrations::run(&args),
        Question::Check(args) => check::run(&args),
        Question::Compare(args) => compare::run(&args),
        Question::Events(args) => events::run(&args),
        Question::Cut(args) => cut::run(&args),
        Question::Convert(args) => convert::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use schedlab_model::table::{Head, Row};
    use schedlab_model::{Better, Unit};
    use schedlab_timeline as timeline;
    use schedlab_timeline::{InReply, Total, totals};
    use std::fmt::Write as _;
    use std::path::Path;

    /// A question, what its rows are, and their columns.
    type Described = (&'static str, &'static str, Vec<Head>);

    fn table<R: Row>(name: &'static str) -> Described {
        (name, R::ABOUT, R::columns().iter().map(|column| column.head().clone()).collect())
    }

    fn tables() -> Vec<Described> {
        vec![
            table::<timeline::Waited<'_>>("latency"),
            table::<InReply<'_, timeline::TaskRow, timeline::TasksAnswer>>("tasks"),
            table::<timeline::StackRow>("stacks"),
            table::<timeline::RunningStackRow>("stacks --running"),
            table::<timeline::CpuRow>("cpus"),
            table::<timeline::PlacedBin>("waiting"),
            table::<InReply<'_, timeline::Episode, timeline::ConservationAnswer>>("conservation"),
            table::<InReply<'_, timeline::TaskCauses, timeline::CausesAnswer>>("why"),
            table::<InReply<'_, timeline::Blame, timeline::CausesAnswer>>("why: blame"),
            table::<super::why::blame::Taken>("why --blame"),
            table::<super::why::Entry<'_>>("why --pid"),
            table::<InReply<'_, timeline::LocalityRow, timeline::LocalityAnswer>>("locality"),
            table::<InReply<'_, timeline::ChainedHop, timeline::MigrationsAnswer>>("migrations"),
            table::<super::compare::Both>("compare"),
            table::<schedlab_trace::Line>("events"),
            table::<super::groups::Row>("groups"),
            table::<super::check::Row>("check"),
            table::<timeline::CpuPower>("power"),
            table::<InReply<'_, timeline::LockHeld, timeline::LocksAnswer>>("locks"),
            table::<super::why::locks::Waited<'_>>("why --mark: locks"),
        ]
    }

    /// Ends the descriptions of the columns of `stacks` that repeat those of `why`.
    const OF_CAUSES: &str = " `null` without `--causes`.";

    /// What columns share a line by: the object with a key for each distance, or the causes of `why`.
    fn alike(head: &Head) -> Option<&str> {
        let object = head.name.rsplit_once('.').map(|(object, _)| object);
        let distances = ["by_distance", "from_previous", "from_waker"];
        let by_distance = object.filter(|object| distances.iter().any(|end| object.ends_with(end)));
        by_distance.or_else(|| head.about.ends_with(OF_CAUSES).then_some(OF_CAUSES))
    }

    fn column_line(columns: &[&Head]) -> String {
        let [first, others @ ..] = columns else { return String::new() };
        for Head { name, about, .. } in columns {
            assert!(about.ends_with('.'), "{name} has no description");
        }
        let (name, about) = (&first.name, &first.about);
        let Some(last) = others.last() else { return format!("| `{name}` | {about} |\n") };
        if first.about.ends_with(OF_CAUSES) {
            let about = "That waiting by cause, see [why](#columns-of-why);";
            return format!("| `{name}` to `{}` | {about}{OF_CAUSES} |\n", last.name);
        }
        let mut names = format!("`{name}`");
        let mut about = about.trim_end_matches('.').to_owned();
        for Head { name, about: other, .. } in others {
            let key = name.rsplit('.').next().unwrap_or_default();
            let _ = write!(names, ", `.{key}`");
            let _ = write!(about, ", {}", other.trim_start_matches("Those ").trim_end_matches('.'));
        }
        format!("| {names} | {about}. |\n")
    }

    /// The generated part of `docs/answers.md`.
    fn page() -> String {
        let mut page = String::new();
        for (name, row, columns) in tables() {
            let _ = write!(
                page,
                "### Columns of {name}\n\n{row}\n\n| column | what it tells |\n|---|---|\n"
            );
            assert!(row.ends_with('.'), "trace {name}: its rows have no description");
            let columns: Vec<&Head> = columns.iter().filter(|head| !head.on_request).collect();
            for alike in columns.chunk_by(|a, b| alike(a).is_some() && alike(a) == alike(b)) {
                page.push_str(&column_line(alike));
            }
            page.push('\n');
        }
        page + "### Totals\n\n\
                Numbers for the whole trace. `trace compare` prints them; a recorded run stores them with\n\
                `trace_` before the name. *Grows* marks those that `trace compare` divides by the time.\n\n\
                | total | better | grows | definition |\n|---|---|---|---|\n"
            + &total_lines()
    }

    /// A line for each total; the quantiles of a histogram share one, and the parts by cause.
    fn total_lines() -> String {
        let base = |total: &Total| total.name.split("_ns_").next().unwrap_or_default().to_owned();
        let share = |a: &Total, b: &Total| a.name.contains("_ns_") && base(a) == base(b);
        let mut text = String::new();
        for run in totals().chunk_by(|a, b| share(a, b) || a.about == b.about && a.grows == b.grows)
        {
            let [first, others @ ..] = run else { continue };
            let mut names = format!("`{}`", first.name);
            for total in others {
                let end = total.name.rsplit('_').next().unwrap_or_default();
                let _ = match share(first, total) {
                    true => write!(names, ", `_{end}`"),
                    false => write!(names, ", `{}`", total.name),
                };
            }
            let better = match first.better {
                Better::Lower => "lower",
                Better::Higher => "higher",
                Better::Neither => "",
            };
            let grows = if first.grows { "yes" } else { "" };
            let unit = if first.unit == Unit::Fraction { " From 0 to 1." } else { "" };
            let _ = writeln!(text, "| {names} | {better} | {grows} | {}{unit} |", first.about);
        }
        text
    }

    const BEGIN: &str = "<!-- generated: begin -->\n";
    const END: &str = "<!-- generated: end -->\n";

    #[test]
    fn the_page_of_answers_holds_their_columns_and_totals() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/answers.md");
        let kept = std::fs::read_to_string(&path).expect("docs/answers.md is checked in");
        let (before, rest) = kept.split_once(BEGIN).expect("the generated part begins");
        let (_, after) = rest.split_once(END).expect("the generated part ends");
        let made = format!("{before}{BEGIN}{}{END}{after}", page());
        if std::env::var_os("SCHEDLAB_DOCS").is_some_and(|word| word == "write") {
            std::fs::write(&path, &made).expect("docs/ can be written");
        }
        let kept = std::fs::read_to_string(&path).expect("docs/answers.md is checked in");
        assert!(
            kept == made,
            "docs/answers.md is out of date: SCHEDLAB_DOCS=write cargo test -p schedlab answers_holds"
        );
    }
}
