//! The load child, end to end: this test program is its own load child and its own guardian, as the command is.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program with a main of its own is not seen as one"
)]

mod judge;
#[expect(dead_code, reason = "other test programs need the rest")]
#[path = "../../../schedlab/tests/all/machine_lock.rs"]
mod machine_lock;

use judge::*;
use schedlab_host::load;
use schedlab_sys::guard;
use std::path::Path;

const TESTS: &[(&str, fn())] = &[
    ("hackbench_passes_all_messages_in_every_form", hackbench_passes_all_messages),
    ("schbench_answers_requests_in_every_mode", schbench_answers_requests),
    ("an_open_loop_counts_what_it_drops", open_loop_counts_drops),
    ("a_duration_ends_tasks_that_would_go_on", a_duration_ends_tasks),
    ("a_killed_task_ends_the_run_with_its_name_and_leaves_nothing", a_killed_task_is_told),
    ("a_killed_child_leaves_no_process", a_killed_child_leaves_nothing),
    ("wrong_options_are_told_before_anything_is_started", wrong_options_are_told),
    ("a_command_passes_its_exit_code_and_output", a_command_passes_its_code),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == load::ARGUMENT) {
        let code = load::load_child();
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
    if let [_, first, journal] = arguments.as_slice()
        && first == guard::ARGUMENT
    {
        return guard::guardian(Path::new(journal)).unwrap();
    }
    let filter = arguments.iter().skip(1).find(|a| !a.starts_with('-'));
    if arguments.iter().any(|a| a == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    machine_lock::take();
    for (name, test) in TESTS {
        if filter.is_none_or(|part| name.contains(part.as_str())) {
            // One that hangs is known by its name.
            eprintln!("test {name}");
            let before = tasks_of_ours();
            test();
            nothing_left(before, name);
            println!("test {name} ... ok");
        }
    }
}
