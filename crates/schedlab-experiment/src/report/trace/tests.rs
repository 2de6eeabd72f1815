//! Tables and pictures of small traces.

use super::*;
use crate::report::{Report, trace_scenes};
use schedlab_timeline::{Question, notation};
use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};

const BOTH: TracePictures = TracePictures { cores: true, waiting: true };

/// The answer about a trace in the notation of the timeline.
fn answer<Q: Question>(text: &str, question: Q) -> Q::Answer {
    reply(text, question).answer
}

fn reply<Q: Question>(text: &str, question: Q) -> Reply<Q::Answer> {
    ask(&mut notation::parse(text).unwrap().source(), question).unwrap()
}

/// A trace of some events in a file, and how long it lasts.
fn traced(folder: &Path, events: u64) -> (PathBuf, Span) {
    let path = folder.join("x.dat");
    let plan = Plan { cpus: 2, tasks_per_cpu: 3, events, seed: 3 };
    Synthetic::new(plan).write(&path, Header::default()).unwrap();
    let span = span_of(schedlab_trace::open(&path).unwrap().as_mut()).unwrap();
    (path, span)
}

fn html(section: Section) -> String {
    let mut report = Report::new("t");
    report.add(section);
    report.html()
}

#[test]
fn pictures_are_those_that_the_experiment_draws() {
    let of = |draw: &[Drawing]| {
        let TracePictures { cores, waiting } = TracePictures::of(draw);
        (cores, waiting)
    };
    assert_eq!(of(&[]), (true, true));
    assert_eq!(of(&[Drawing::Cores]), (true, false));
    assert_eq!(of(&[Drawing::Map, Drawing::Waiting]), (false, true));
    assert_eq!(of(&[Drawing::Map]), (false, false));
}

#[test]
fn a_path_is_quoted_where_a_shell_would_read_it_otherwise() {
    assert_eq!(quoted(Path::new("/a/b-1.0_x+y=z,1/tracé.dat")), "/a/b-1.0_x+y=z,1/tracé.dat");
    assert_eq!(quoted(Path::new("/a b/$x")), "'/a b/$x'");
    assert_eq!(quoted(Path::new("it's")), "'it'\\''s'");
}

#[test]
fn a_trace_longer_than_four_close_ups_has_one_of_its_middle() {
    let of = |length: u64| close_up(Span::new(Nanos(1_000), Nanos(1_000 + length)));
    let four = 4 * CLOSE_UP.0;
    assert_eq!(of(four), None);
    let start = Nanos(1_000 + (four + 2) / 2);
    assert_eq!(of(four + 2), Some(Span::new(start, start + CLOSE_UP)));
}

#[test]
fn commands_are_listed_by_how_long_they_waited_and_those_that_never_did_are_not() {
    // B waits 2 us after its wakeup, A 4 us after it was displaced; C never waits.
    let text = "
        0 | AAAABBBBAAAA
          |   bbaaaa
        1 | CCCCCCCCCCCC
        A is called long
        B is called short
        C is called never";
    let table = {
        let Reply { answer, known, .. } = reply(text, Latency::new());
        latencies(&answer, &known).text()
    };
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect())
        .collect();
    assert_eq!(lines[0][..3], ["command", "wakeup latency: count", "wakeup latency: p50"]);
    let names: Vec<&str> = lines[1..].iter().map(|line| line[0]).collect();
    assert_eq!(names, ["long", "short", "all tasks"], "{table}");
    assert_eq!(lines[1][1..6], ["0", "-", "-", "-", "-"], "{table}");
    assert_eq!(lines[1][6..8], ["1", "4.00 µs"], "{table}");
    assert_eq!(lines[2][1..3], ["1", "2.00 µs"], "{table}");
}

/// A trace in which each of this many tasks runs once, the later ones longer.
fn tasks(count: u8) -> String {
    let letters = (0..count).map(|index| (char::from(b'A' + index), usize::from(index) + 1));
    let runs: String = letters.map(|(letter, times)| letter.to_string().repeat(times)).collect();
    format!("0 | {runs}.")
}

#[test]
fn of_many_commands_those_that_ran_longest_are_listed() {
    let rows = |count: u8| {
        let table = switches(&reply(&tasks(count), Tasks::new())).text();
        table
            .lines()
            .skip(1)
            .map(|line| line.split("  ").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let most = u8::try_from(COMMANDS_MAX).unwrap();
    assert_eq!(rows(2), ["B", "A", "all tasks"]);
    assert_eq!(rows(most).len(), COMMANDS_MAX + 1);
    let more = rows(most + 3);
    assert_eq!(
        (more.len(), more[0].as_str(), more.contains(&"A".to_owned())),
        (COMMANDS_MAX + 1, "O", false)
    );
}

#[test]
fn switches_of_tasks_of_one_name_are_added() {
    let text = "
        0 | AAAABBBB....
          |     aa
        1 | ......AABB..
        A is called load
        B is called load";
    let table = switches(&reply(text, Tasks::new())).text();
    let cells = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect()
    };
    let load = cells("load");
    assert_eq!(load[1..3], ["2", "12.0 µs"], "{table}");
    assert_eq!(cells("all tasks")[1..], load[1..], "{table}");
    assert_eq!(load[3..6], ["2", "2", "2"], "voluntary, involuntary, migrations: {table}");
}

#[test]
fn each_cpu_has_what_is_known_of_it() {
    let text = "
        0 | AAAABBBB....
          |   bb
        1 | ????????????";
    let table = {
        let Reply { answer, known, .. } = reply(text, Cpus::new());
        cpu_table(&answer, &known).text()
    };
    let cells: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect())
        .collect();
    let busy = readable(8.0 / 12.0, Unit::Fraction);
    assert_eq!(cells[1], ["0", &busy, "4.00 µs", "0", "2", "2.00 µs", "1"], "{table}");
    assert_eq!(cells[2], ["1", "-", "0", "12.0 µs", "0", "0", "0"], "{table}");
}

#[test]
fn a_section_holds_the_pictures_that_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (path, span) = traced(folder.path(), 400);
    assert!(close_up(span).is_none(), "{span:?}");
    let of =
        |cores, waiting| html(trace_section("s", &path, TracePictures { cores, waiting }).unwrap());
    let both = of(true, true);
    assert_eq!(both.matches("<figure").count(), 2);
    assert!(both.contains("<p>") && both.contains(" were observed. Wakeup latency is"), "{both}");
    assert!(both.contains("<iframe") && both.contains("<td>all tasks</td>"), "a page and tables");
    assert_eq!(both.matches("<table>").count(), 3);
    let cores = of(true, false);
    let has = |html: &str| {
        ["Each CPU", "Tasks that ran"].map(|of| html.contains(&format!("<figcaption>{of}")))
    };
    assert_eq!([has(&both), has(&cores)], [[true, true], [true, false]]);
    assert_eq!(has(&of(false, true)), [false, true]);
}

#[test]
fn a_long_trace_has_a_close_up_where_rows_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let (path, span) = traced(folder.path(), 3_000);
    let window = close_up(span).unwrap();
    let text = html(trace_section("s", &path, BOTH).unwrap());
    let from = time(window.start - span.start);
    assert!(text.contains(&format!("The same, close up: 20.0 ms from {from} on.")), "{text}");
    let without = TracePictures { cores: false, waiting: true };
    assert!(!html(trace_section("s", &path, without).unwrap()).contains("close up"));
    let names = |wanted| -> Vec<&str> {
        trace_scenes(&path, wanted).unwrap().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(BOTH), ["cores", "waiting", "cores-close"]);
    assert_eq!(names(without), ["waiting"]);
    assert_eq!(names(TracePictures { cores: true, waiting: false }), ["cores", "cores-close"]);
}

#[test]
fn rows_of_cpus_say_how_many_tasks_ran_and_how_long() {
    let text = "0 | AAAABBBB\n1 | ..CC....";
    let (window, theme) = (Span::new(Nanos(0), Nanos(8_000)), Theme::default());
    let drawn =
        draw_rows(answer(text, rows(window, None, theme.clone())), window, Nanos(0), None, &theme);
    let svg = schedlab_draw::svg(&drawn);
    assert!(svg.contains("2 CPUs, 3 tasks, 8.00 µs"), "{svg}");
    let levels = Levels::new(window, columns(WIDTH_PX), Vec::new());
    let svg = schedlab_draw::svg(&draw_curve(answer(text, levels), window, &theme));
    assert!(svg.contains("2 CPUs, 8.00 µs") && svg.contains("Running and waiting tasks"), "{svg}");
}

#[test]
fn a_trace_that_is_not_there_is_an_error_with_its_path() {
    let error = trace_section("s", Path::new("/nowhere/x.dat"), BOTH).unwrap_err().to_string();
    assert!(error.contains("/nowhere/x.dat"), "{error}");
}
