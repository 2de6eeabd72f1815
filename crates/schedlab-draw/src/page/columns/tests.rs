//! Small traces as packed columns, which are unpacked here.

use super::*;
use schedlab_model::EventSource as _;

#[test]
fn numbers_are_leb128() {
    let mut bytes = Vec::new();
    for number in [0, 127, 128, 300, u64::MAX] {
        leb128(&mut bytes, number);
    }
    assert_eq!(bytes[..6], [0, 127, 128, 1, 0xac, 2]);
    assert_eq!(bytes.len(), 6 + 10);
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    super::numbers(bytes).collect()
}

/// The page of a trace in the notation of the timeline, from its begin to its end.
pub(in crate::page) fn data(text: &str) -> PageData {
    let trace = schedlab_timeline::notation::parse(text).unwrap();
    let span = schedlab_timeline::span_of(&mut trace.source()).unwrap();
    let mut info = trace.source().info().clone();
    info.marks = vec!["phase".into()];
    let question = Columns::new(span).with_marks(&info);
    schedlab_timeline::ask(&mut trace.source(), question).unwrap().answer
}

const TWO: &str = "
    0 | AAAABBBB..AAAA..
      |  bbb
    1 | ..CC....BBBB..CC
    at 1: A wakes B
    at 3: C marks 0 begin
    B is called late";

#[test]
fn slices_are_gaps_lengths_tasks_and_waits_after_each_other() {
    let data = data(TWO);
    assert_eq!((data.cpus(), data.slices()), (2, 6));
    let [cpu0, cpu1] = [&data.cpus[0].1, &data.cpus[1].1];
    let columns = |track: &Track| track.parts[0].columns.each_ref().map(|c| numbers(c));
    let [gaps, lengths, tasks, _, waits, wakers, whys] = columns(cpu0);
    assert_eq!(gaps, [0, 0, 2_000]);
    assert_eq!(lengths, [4_000; 3]);
    let id = |pid: i32| data.tasks.iter().position(|task| task.pid == pid).unwrap() as u64;
    assert_eq!(tasks, [id(1), id(2), id(1)]);
    assert_eq!((waits[1], wakers[0]), (3_000, id(1)), "B waits 3 us and A woke it");
    assert_eq!(whys, [0], "nobody asked why");
    let [gaps, lengths, tasks, ..] = columns(cpu1);
    assert_eq!(gaps[1..], [4_000, 2_000]);
    assert_eq!(lengths[..2], [2_000, 4_000]);
    assert_eq!(tasks, [id(3), id(2), id(3)]);
}

#[test]
fn each_task_has_its_name_and_a_colour_unlike_that_of_its_neighbour() {
    let data = data(TWO);
    assert_eq!(data.tasks.len(), 4, "three tasks, and the place before the first");
    let of = |pid: i32| data.tasks.iter().find(|task| task.pid == pid).unwrap();
    assert_eq!([&*of(1).name, &*of(2).name], ["A", "late"]);
    assert_ne!(of(1).colours[0], of(2).colours[0], "they follow each other on CPU 0");
    assert_ne!(of(1).colours[1], of(2).colours[1], "their names differ");
}

#[test]
fn marks_keep_their_cpu_time_phase_and_task() {
    let data = data(TWO);
    let found: Vec<_> = data.points.found.iter().map(|p| (p.cpu, p.time, p.phase)).collect();
    assert_eq!(found, [(1, 3_000, 0)]);
    assert_eq!(data.tasks[data.points.found[0].task as usize].pid, 3);
}

#[test]
fn points_belong_to_the_window_and_have_a_name_and_the_rest_are_counted() {
    let window = Span::new(Nanos(100), Nanos(200));
    let mut points = Points { names: vec!["phase".into()], ..Points::default() };
    let point = |name| Point { cpu: 0, time: 0, name, phase: 2, task: 0, said: 0 };
    for at in [99_u32, 100, 200, 201] {
        points.push(window, Nanos(at.into()), Point { task: at, ..point(0) });
        points.push(window, Nanos(at.into()), point(1));
    }
    let found: Vec<_> = points.found.iter().map(|p| (p.task, p.time)).collect();
    assert_eq!(found, [(100, 0), (200, 100)]);
    for _ in points.found.len()..POINTS_MAX + 3 {
        points.push(window, Nanos(150), point(0));
    }
    assert_eq!((points.found.len(), points.left_out), (POINTS_MAX, 3));
}

#[test]
fn a_part_holds_so_many_slices_and_the_next_one_begins_a_part() {
    let mut track = Track::default();
    for _ in 0..=SLICES_PER_PART {
        let bytes = track.push([0, 1, 1, 0, 0], 9, None, Cpu(0));
        assert_eq!(bytes, 5, "no wait, no waker");
    }
    assert_eq!(track.push([0, 1, 1, 0, 300], 9, None, Cpu(0)), 8, "a waker, and no cause");
    assert_eq!(track.count, SLICES_PER_PART + 2);
    let counts: Vec<usize> = track.parts.iter().map(|part| part.count).collect();
    assert_eq!(counts, [SLICES_PER_PART, 2]);
}

#[test]
fn a_page_that_ran_out_of_room_holds_no_slices() {
    let trace = schedlab_timeline::notation::parse(TWO).unwrap();
    let span = schedlab_timeline::span_of(&mut trace.source()).unwrap();
    let of = |bytes: usize| {
        let question = Columns::new(span).at_most(bytes);
        schedlab_timeline::ask(&mut trace.source(), question).unwrap().answer
    };
    assert!(of(1_000).is_whole());
    assert_eq!((of(20).is_whole(), of(20).slices()), (false, 0));
    assert!(of(20).fine.is_none(), "nobody asked for columns");
}

#[test]
fn columns_in_place_of_slices_are_those_of_a_pass_of_their_own() {
    let trace = schedlab_timeline::notation::parse(TWO).unwrap();
    let span = schedlab_timeline::span_of(&mut trace.source()).unwrap();
    let columns = span.duration().0 as usize;
    let own = (Density::new(span, columns, By::Task), Levels::new(span, LEVELS, Vec::new()));
    let (columns, levels) = schedlab_timeline::ask(&mut trace.source(), own).unwrap().answer;
    // Given up after the first slice, in the midst, and not at all.
    for bytes in [1, 30] {
        let question = Columns::new(span).at_most(bytes).or_columns();
        let data = schedlab_timeline::ask(&mut trace.source(), question).unwrap().answer;
        let (fine, curve) = data.fine.expect("too many slices");
        assert_eq!((&fine, &curve), (&columns, &levels[0].levels), "{bytes}");
    }
    let question = Columns::new(span).at_most(1_000).or_columns();
    let data = schedlab_timeline::ask(&mut trace.source(), question).unwrap().answer;
    assert!(data.is_whole() && data.fine.is_none());
}

#[test]
fn what_little_ran_in_a_column_is_not_rounded_away() {
    let cell = |busy, unknown| Cell { busy, unknown, top_part: 0, mixed: 1, top: 7 };
    assert_eq!(coarse(&cell(1, 0)), (1, 7));
    assert_eq!(coarse(&cell(0, 0)), (0, 7));
    assert_eq!(coarse(&cell(u16::MAX, 0)), (255, 7));
    assert_eq!(coarse(&cell(512, 512)), (2, 7));
    assert_eq!(coarse(&cell(512, 1_024)), (4, 0), "mostly unknown");
}

#[test]
fn eight_million_columns_are_divided_among_the_cpus() {
    assert_eq!([0, 1, 1_024].map(PageData::columns_of), [1 << 16, 1 << 16, 8_192]);
    assert_eq!(PageData::columns_of(1 << 20), COARSE_COLUMNS);
}

#[test]
fn numbers_begin_at_one_in_order_of_appearance() {
    let all = [None, Some('b'), Some('a'), Some('b')];
    assert_eq!(numbered(all.into_iter()), (vec![0, 1, 2, 1], vec!['b', 'a']));
}

#[test]
fn how_a_slice_ended_has_the_number_that_the_script_knows() {
    let all =
        [Left::Preempted, Left::Displaced, Left::Slept, Left::Blocked, Left::Stopped, Left::Dead];
    assert_eq!(all.map(|left| code(Some(left))), [1, 2, 3, 4, 5, 6]);
    assert_eq!([code(None), code(Some(Left::Other))], [0, 0]);
}

#[test]
fn times_count_from_the_begin_of_the_window() {
    let trace = schedlab_timeline::notation::parse(TWO).unwrap();
    let span = schedlab_timeline::span_of(&mut trace.source()).unwrap();
    let window = Span::new(span.start + Nanos(2_000), span.end);
    let cut = schedlab_timeline::Cut { from: Some(window.start), to: None };
    let question = Columns::new(window);
    let reply = schedlab_timeline::ask_within(&mut trace.source(), cut, question);
    let part = &reply.unwrap().answer.cpus[0].1.parts[0];
    assert_eq!(numbers(&part.columns[0]), [0, 0, 2_000]);
    assert_eq!(numbers(&part.columns[1]), [2_000, 4_000, 4_000]);
}

#[test]
fn a_task_knows_who_created_it() {
    let data = data("0 | AAAA..\n1 | ..BBBB\nat 1: A forks B");
    let place = |pid: i32| data.tasks.iter().position(|task| task.pid == pid).unwrap();
    assert_eq!(data.tasks[place(2)].parent as usize, place(1));
    assert_eq!(data.tasks[place(1)].parent, 0);
}

/// The page of two CPUs with other tracepoints 3 us after the begin: an interrupt on CPU 0 and on CPU 1, a call stack,
/// and a change of frequency.
fn with_tracepoints(prepare: fn(Columns) -> Columns) -> PageData {
    use schedlab_model::{Event, OtherFormat, What};
    let text = "0 | AAAABBBB\n1 | ........\nat 1: A marks 0 end\nat 2: A marks 1 begin";
    let mut trace = schedlab_timeline::notation::parse(text).unwrap();
    trace.events.retain(|event| !matches!(event.what, What::Other { .. }));
    let span = schedlab_timeline::span_of(&mut trace.source()).unwrap();
    let other = |system: &str, name: &str| OtherFormat { system: system.into(), name: name.into() };
    trace.info.marks = vec!["phase".into()];
    trace.info.others =
        vec![other("irq", "enter"), other("ftrace", STACK), other("power", "cpu_frequency")];
    let first = trace.events[0];
    let at = trace.events.partition_point(|event| event.time <= span.start + Nanos(3_000));
    let event = |cpu, format| Event {
        time: span.start + Nanos(3_000),
        cpu: Cpu(cpu),
        what: What::Other { format },
        ..first
    };
    trace.events.splice(at..at, [event(0, 0), event(1, 0), event(0, 1), event(0, 2)]);
    let question = prepare(Columns::new(span).with_marks(&trace.info));
    schedlab_timeline::ask(&mut trace.source(), question).unwrap().answer
}

/// Name, CPU, pid and phase of each point.
fn told(data: &PageData) -> Vec<(&str, u16, i32, u8)> {
    let told = |point: &Point| {
        let name = data.points.names[point.name].as_str();
        (name, point.cpu, data.tasks[point.task as usize].pid, point.phase)
    };
    data.points.found.iter().map(told).collect()
}

#[test]
fn tracepoints_are_shown_with_who_ran_and_stacks_and_unknown_marks_are_not() {
    let data = with_tracepoints(|columns| columns);
    let all =
        [("phase", 0, 0, 1), ("enter", 0, 1, 2), ("enter", 1, 0, 2), ("cpu_frequency", 0, 1, 2)];
    assert_eq!(told(&data), all);
    let data = with_tracepoints(Columns::without_power);
    assert_eq!(told(&data), all[..3], "frequencies are shown as steps");
}

#[test]
fn how_long_each_task_ran_within_the_window_is_kept_for_its_colour() {
    let data = data(TWO);
    let ran = |pid: i32| {
        let place = data.tasks.iter().position(|task| task.pid == pid).unwrap();
        data.ran[place].0
    };
    assert_eq!([ran(1), ran(2)], [8_000, 8_000]);
    let time = data.window.duration().0;
    assert_eq!(ran(3), 2_000 + time - 14_000, "to the end of the window");
}

#[test]
fn what_a_tracepoint_said_belongs_to_its_point_alone() {
    let mut said = Said::default();
    let start = with_tracepoints(|columns| columns).window.start;
    let at = |after| start + Nanos(after);
    // Of a mark, of another time, and of both interrupts.
    said.events = vec![(Cpu(0), at(2_000), 1), (Cpu(0), at(3_000), 2), (Cpu(1), at(3_000), 3)];
    said.texts = ["a", "b", "c"].map(str::to_owned).to_vec();
    let data = with_tracepoints(|columns| columns).with_arguments(said);
    let numbers: Vec<u32> = data.points.found.iter().map(|point| point.said).collect();
    assert_eq!(numbers, [0, 2, 3, 0]);
    assert_eq!(data.points.texts, ["a", "b", "c"]);
}

#[test]
fn tasks_of_one_process_and_group_have_one_number_and_colour() {
    let trace = schedlab_timeline::notation::parse(TWO).unwrap();
    let span = schedlab_timeline::span_of(&mut trace.source()).unwrap();
    let mut info = trace.source().info().clone();
    info.processes = Some(BTreeMap::from([(Pid(2), Pid(1))]));
    let reply = schedlab_timeline::ask(&mut trace.source(), Columns::new(span)).unwrap();
    let plain = reply.answer.clone().with_owners(&Belongs::of(trace.source().info()), &reply.state);
    assert!(plain.processes.is_empty() && plain.tasks.iter().all(|task| task.process == 0));
    let data = reply.answer.with_owners(&Belongs::of(&info), &reply.state);
    let of = |pid: i32| data.tasks.iter().find(|task| task.pid == pid).unwrap();
    assert_eq!(of(1).process, of(2).process);
    assert_ne!(of(1).process, of(3).process);
    assert_eq!(of(1).colours[4], of(2).colours[4]);
    assert_eq!(data.processes.len(), 2);
    assert!(data.processes[of(1).process - 1].contains('A'), "{:?}", data.processes);
    assert!(data.groups.is_empty() && of(1).group == 0);
}

#[test]
fn a_wait_carries_its_causes_and_the_cpu_of_its_queue() {
    let trace = schedlab_timeline::notation::parse(WAITS).unwrap();
    let span = schedlab_timeline::span_of(&mut trace.source()).unwrap();
    let causes = Causes::new(trace.source().info(), &[], 8);
    let question = Columns::new(span).with_causes(causes);
    let mut data = schedlab_timeline::ask(&mut trace.source(), question).unwrap().answer;
    let whys = |cpu: usize| numbers(&data.cpus[cpu].1.parts[0].columns[6]);
    let [misplaced, competition] = [WaitCause::Misplaced, WaitCause::Fair].map(number_of);
    // B waits 3 us, of which CPU 1 is free for 1 us before C runs there. Then it waits for 2 us on CPU 0, and CPU 1 takes
    // it over.
    assert_eq!(whys(0), [SEVERAL + 2, competition, misplaced, 1_000]);
    assert_eq!(whys(1), [ELSEWHERE + competition, 0]);
    // Of a wait that began before the window less is known than its length.
    let explained = data.open[0].clone();
    let mut bytes = Vec::new();
    put_why(&mut bytes, 9_000, Some(&(explained.parts, None)), Cpu(0));
    assert_eq!(numbers(&bytes), [IN_PART + SEVERAL + 1, competition, 2_000]);
    // D waits at the end.
    let open: Vec<_> = data.open.iter().map(|wait| (wait.until - wait.since, wait.cpu)).collect();
    assert_eq!(open, [(Nanos(2_000), Some(Cpu(0)))]);
    let total = data.take_causes().unwrap().total.sum();
    assert_eq!(total, Nanos(3_000 + 2_000 + 2_000));
}

const WAITS: &str = "
    0 | AAAABBEEEEEEEE
      |  bbb  bb    dd
    1 | ..CCCCCCBBBBCC
    at 1: A wakes B
    at 12: E wakes D";
