//! Traces that hold a part of what happened: each figure is right, a bound, or unknown, and one note says why.
//!
//! The files in `tests/partial` have known answers: a complete recording was made beside each kind, or the events
//! themselves show what is true.

use schedlab_model::table::{Bound, Rows};
use schedlab_model::{Cpu, Nanos, Need, Phase, Pid, What};
use schedlab_timeline::{
    Conservation, ConservationOptions, Cpus, CpusAnswer, Doing, InReply, Latency, LatencyAnswer,
    Power, Question, Reply, TaskRow, Tasks, TasksAnswer, WhyLate, WithArguments, ask,
};
use schedlab_trace::{Options, TraceErrorKind};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/partial").join(name)
}

fn asked<Q: Question>(name: &str, question: Q) -> Reply<Q::Answer> {
    let options = Options { arguments: true, ..Options::default() };
    let mut source = schedlab_trace::open_with(&path(name), &options).unwrap();
    ask(&mut *source, question).unwrap()
}

fn codes<A>(reply: &Reply<A>) -> Vec<&str> {
    reply.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

fn row(reply: &Reply<TasksAnswer>, pid: i32) -> Option<&TaskRow> {
    reply.answer.rows.iter().find(|row| row.pid == Pid(pid))
}

fn refused(name: &str) -> String {
    match schedlab_trace::open(&path(name)) {
        Err(error) if error.kind() == TraceErrorKind::NoEvents => error.to_string(),
        Err(other) => panic!("{name}: {other}"),
        Ok(_) => panic!("{name} was opened"),
    }
}

#[test]
fn sampled_switches_tell_no_run_time_and_no_wait() {
    let reply = asked("freq_sampled.data", Tasks::new());
    let needs = [Need::RunTime, Need::WaitTime, Need::Slices, Need::Switches, Need::Migrations];
    assert!(needs.iter().all(|need| reply.known.of(*need).is_none()));
    let rows: Vec<InReply<'_, TaskRow, TasksAnswer>> = reply.rows(&reply.answer.rows);
    let rows = Rows::new(&rows, reply.origin).known(&reply.known);
    assert!(rows.is_blank(), "{}", rows.csv(false));
    let [note] = &reply.warnings[..] else { panic!("one note says why: {:?}", reply.warnings) };
    assert!(note.what.starts_with("switches were sampled (-F 99)"), "{note}");
}

#[test]
fn only_the_recorded_commands_tasks_have_run_times_in_a_recording_of_it_alone() {
    let reply = asked("per_task.data", (Tasks::new(), Cpus::new()));
    assert_eq!(reply.known.of(Need::RunTime), Some(Bound::AtLeast));
    assert_eq!(reply.known.of(Need::WaitTime), None);
    assert_eq!(reply.known.of(Need::CpuTime), None);
    assert_eq!(codes(&reply), ["events-of-some-tasks"]);
    let rows = &reply.answer.0.rows;
    assert!(
        rows.len() > 40
            && rows.iter().all(|row| row.comm == "sched-messaging" || row.comm == "perf"),
        "no other task has a row"
    );
    // All tasks together ran for less than both CPUs were there.
    let ran: u64 = rows.iter().map(|row| row.ran.0).sum();
    assert!(ran > 0 && ran < 2 * reply.observed.duration().0, "{ran}");
}

#[test]
fn switches_as_records_of_their_own_tell_tasks_and_cpus() {
    let reply = asked("switch_events.data", (Tasks::new(), Cpus::new()));
    let (tasks, _) = &reply.answer;
    // Counted from `perf report -D`.
    for (pid, ran, switches) in
        [(28283, 51_666, 2), (18, 34_602, 2), (21, 27_632, 2), (15, 22_323, 4)]
    {
        let row = tasks.rows.iter().find(|row| row.pid == Pid(pid)).unwrap();
        assert_eq!((row.ran.0, row.voluntary), (ran, switches), "task {pid}");
    }
    let displaced = tasks.rows.iter().find(|row| row.pid == Pid(23159)).unwrap();
    assert!(displaced.waited > Nanos::ZERO && displaced.involuntary > 0);
    assert_eq!(reply.known.of(Need::WaitTime), Some(Bound::AtLeast), "no wakeups");
    assert_eq!(reply.known.of(Need::RunTime), Some(Bound::Exact));
    let switches: u64 = reply.answer.1.rows.iter().map(|row| row.switches).sum();
    assert_eq!(switches, 44, "each is told twice in the 86 records, but for those out of idle");
}

#[test]
fn a_wait_on_a_cpu_that_the_trace_does_not_cover_is_unknown() {
    let reply = asked("one_cpu.txt", Tasks::new());
    assert_eq!(row(&reply, 202).unwrap().waited, Nanos::ZERO, "it ran on CPU 0, and was freed");
    assert_eq!(row(&reply, 977).unwrap().waited, Nanos(3_320_000), "it waited on CPU 1");
    assert_eq!(codes(&reply), ["cpus-unobserved"]);
    let latency: Reply<LatencyAnswer> = asked("one_cpu.txt", Latency::new());
    assert_eq!(latency.answer.total.run_delay.sum(), 3_320_000);
    let bounds = [Need::WaitTime, Need::RunTime].map(|need| reply.known.of(need));
    assert_eq!(bounds, [Some(Bound::AtLeast); 2]);
    assert_eq!(reply.known.of(Need::CpuTime), Some(Bound::Exact), "CPU 1 is covered");
}

#[test]
fn an_interrupted_bystander_is_no_waker_where_the_text_has_no_flags() {
    let woken_by = |name: &str| {
        let reply = asked(name, Tasks::new());
        let by: Vec<_> = row(&reply, 11).unwrap().woken_by.iter().map(|of| of.waker).collect();
        (by, reply.known.of(Need::Wakers), codes(&reply).join(" "))
    };
    let (with, known, notes) = woken_by("L_irq.txt");
    assert_eq!((with, known, notes.as_str()), (vec![None], Some(Bound::Exact), ""));
    let (without, known, notes) = woken_by("L_noflag.txt");
    assert_eq!((without, known, notes.as_str()), (vec![None], None, "no-contexts"));
    let walked = asked("L_noflag.txt", WhyLate::new(Pid(11))).answer.unwrap();
    let is_waker = |doing: Doing| matches!(doing, Doing::Interrupt(_) | Doing::Unknown);
    let asleep = walked.spent.iter().filter(|part| part.depth > 0 || is_waker(part.doing));
    assert_eq!(asleep.count(), 0, "{:?}", walked.spent);
}

#[test]
fn an_unplugged_cpu_is_not_free() {
    let options = ConservationOptions::default();
    let source = schedlab_trace::open(&path("S.txt")).unwrap();
    let info = source.info().clone();
    let question = (Conservation::new(options, &info), Cpus::new());
    let reply = asked("S.txt", question);
    let (conservation, cpus): (_, CpusAnswer) = reply.answer;
    // It ran a task until 1 ms, and left use then.
    assert_eq!(conservation.total, Nanos::ZERO);
    assert_eq!(conservation.lost.high, Nanos::ZERO, "nor may it have been free");
    let unplugged = cpus.rows.iter().find(|row| row.cpu == Cpu(1)).unwrap();
    assert_eq!((unplugged.idle, unplugged.busy), (Nanos::ZERO, Nanos(1_000_000)));
}

#[test]
fn without_switches_no_run_time_is_told() {
    let text = std::fs::read_to_string(path("L_irq.txt")).unwrap();
    let kept: String = text
        .lines()
        .filter(|line| !line.contains("sched_switch"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut source = schedlab_trace::open_bytes(Path::new("x"), kept.into_bytes()).unwrap();
    let reply = ask(&mut *source, Tasks::new()).unwrap();
    let needs = [Need::RunTime, Need::WaitTime, Need::SleepTime, Need::Slices];
    assert!(needs.iter().all(|need| reply.known.of(*need).is_none()));
    assert_eq!(reply.known.of(Need::Wakeups), Some(Bound::AtLeast));
    assert_eq!(codes(&reply), ["no-switches"]);
}

#[test]
fn a_text_without_a_column_is_refused_with_the_option_that_prints_it() {
    for (name, column, option) in
        [("perf_no_cpu.txt", "CPU", "+cpu"), ("perf_no_tid.txt", "task", "+tid")]
    {
        let told = refused(name);
        assert!(told.contains(&format!("name no {column}")) && told.contains(option), "{told}");
    }
    assert!(refused("empty_ftrace.txt").contains("the buffer was empty"));
}

#[test]
fn a_column_of_periods_tabs_and_a_mark_of_order_are_read() {
    let reply = asked("perf_period.txt", Cpus::new());
    let switches: u64 = reply.answer.rows.iter().map(|row| row.switches).sum();
    assert_eq!(switches, 49);
    let text = std::fs::read_to_string(path("perf_period.txt")).unwrap();
    let tabs = format!("\u{feff}{}", text.replace(" [", "\t["));
    let mut source = schedlab_trace::open_bytes(Path::new("x"), tabs.into_bytes()).unwrap();
    let again = ask(&mut *source, Cpus::new()).unwrap();
    assert_eq!(again.answer.rows, reply.answer.rows);
}

#[test]
fn the_switch_names_the_task_whose_number_perf_does_not_know() {
    let mut source = schedlab_trace::open(&path("perf_minus_one.txt")).unwrap();
    let mut batch = Vec::new();
    let mut by = Vec::new();
    while source.next(&mut batch).unwrap() {
        by.extend(batch.iter().map(|event| event.by));
    }
    assert!(by.contains(&Pid(7612)) && by.iter().all(|pid| pid.0 > 0), "{by:?}");
}

#[test]
fn lines_that_are_not_understood_are_counted_and_make_figures_bounds() {
    let text = std::fs::read_to_string(path("perf_period.txt")).unwrap();
    // Every tenth line loses its time.
    let broken = |(at, line): (usize, &str)| match at % 10 {
        9 => line.replace("1444.", "yesterday:"),
        _ => line.to_owned(),
    };
    let kept: String = text.lines().enumerate().map(broken).map(|line| line + "\n").collect();
    let mut source = schedlab_trace::open_bytes(Path::new("x"), kept.into_bytes()).unwrap();
    let reply = ask(&mut *source, Tasks::new()).unwrap();
    let note = reply.warnings.iter().find(|warning| warning.code == "text-not-understood").unwrap();
    assert!(note.what.contains("15 of 150 lines"), "{note}");
    assert_eq!(reply.known.of(Need::RunTime), Some(Bound::AtLeast));
    assert_eq!(reply.known.of(Need::Waits), None);
}

#[test]
fn a_latency_tracers_text_tells_its_head_a_wakeup_and_a_switch() {
    let reply = asked("wakeup_rt_mail.txt", Latency::new());
    let found = reply.warnings.iter().find(|warning| warning.code == "latency-tracer").unwrap();
    let what = "the tracer wakeup_rt found a latency of 1689 us of cyclictest-100 on CPU 0";
    assert_eq!(found.what, what);
    let [task] = &reply.answer.tasks[..] else { panic!("{:?}", reply.answer.tasks) };
    let waited = (task.pid, task.comm.as_str(), task.delays.wakeup.max());
    assert_eq!(waited, (Pid(100), "cyclictest", Some(1_685_000)));
}

#[test]
fn perfettos_own_events_tell_frequencies_idle_states_interrupts_and_why_tasks_blocked() {
    let options = Options { arguments: true, ..Options::default() };
    let mut source =
        schedlab_trace::open_with(&path("perfetto_native_events.pb"), &options).unwrap();
    let mut batch = Vec::new();
    let mut told = Vec::new();
    while source.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            if let What::Other { format } = event.what {
                let name = source.info().others[usize::from(format)].name.clone();
                told.push(format!("{name} {}", source.arguments(index).unwrap_or_default()));
            }
        }
    }
    let has =
        |line: &str| assert!(told.iter().any(|one| one.starts_with(line)), "{line}: {told:#?}");
    has("cpu_frequency state=1500000 cpu_id=0");
    has("irq_handler_entry irq=5 name=eth");
    has("irq_handler_exit irq=5 ret=1");
    has("softirq_entry vec=1");
    has("cpu_idle state=1");
    has("sched_blocked_reason pid=11");
    assert!(!told.iter().any(|one| one.starts_with("other")), "{told:#?}");
    let reply = asked("perfetto_native_events.pb", Power::new(0));
    let cpu = &reply.answer.cpus[0];
    assert_eq!(cpu.range_hz, Some((1_500_000_000, 1_500_000_000)));
    let idle = cpu.idle.as_ref().unwrap().iter().find(|state| state.state == 1).unwrap();
    assert_eq!((idle.entered, idle.time), (1, Nanos(1000)));
}

#[test]
fn marks_of_android_are_marks_and_its_column_of_processes_tells_threads() {
    let mut source = schedlab_trace::open(&path("android_atrace.txt")).unwrap();
    let (mut batch, mut marks) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        for event in &batch {
            if let What::Mark { pid, id, phase, .. } = event.what {
                marks.push((pid, source.info().marks[id as usize].clone(), phase));
            }
        }
    }
    let frame = |phase| (Pid(4595), "Choreographer#doFrame".to_owned(), phase);
    assert_eq!(marks, [frame(Phase::Begin), frame(Phase::End)]);
    let processes = source.info().processes.clone().unwrap();
    assert_eq!(processes.get(&Pid(4610)), Some(&Pid(4595)));
}

/// A zip archive, as far as readers look: a file by its name, how it is packed, and its bytes.
fn zip(members: &[(&str, u16, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, method, bytes) in members {
        let at = u32::try_from(out.len()).unwrap();
        let length = u32::try_from(bytes.len()).unwrap();
        let mut plain = bytes.clone();
        if *method == 8 {
            plain.clear();
            let mut inside = flate2::read::DeflateDecoder::new(&bytes[..]);
            std::io::Read::read_to_end(&mut inside, &mut plain).unwrap();
        }
        let mut sum = flate2::Crc::new();
        sum.update(&plain);
        let sum = sum.sum().to_le_bytes();
        let both =
            [&[20, 0, 0, 0], &method.to_le_bytes()[..], &[0; 4], &sum, &length.to_le_bytes()];
        let both = [&both.concat()[..], &[0; 4], &[name.len() as u8, 0]].concat();
        out.extend([b"PK\x03\x04", &both[..], &[3, 0], name.as_bytes(), b"xyz", bytes].concat());
        let entry = [b"PK\x01\x02\x14\0", &both[..], &[0; 12], &at.to_le_bytes()];
        directory.extend([&entry.concat(), name.as_bytes()].concat());
    }
    let (at, length) = (out.len() as u32, directory.len() as u32);
    out.extend(directory);
    out.extend([b"PK\x05\x06", &[0; 8][..], &length.to_le_bytes(), &at.to_le_bytes()].concat());
    out.extend(b"\x04\0note");
    out
}

fn packed<W>(mut out: W, finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>) -> Vec<u8>
where
    W: std::io::Write,
{
    out.write_all(&std::fs::read(path("one_cpu.txt")).unwrap()).unwrap();
    finish(out).unwrap()
}

/// What a file of these bytes says: its switches, or why it does not open.
fn switches(bytes: &[u8]) -> Result<u64, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    std::fs::write(&file, bytes).unwrap();
    let mut source = schedlab_trace::open(&file).map_err(|error| error.to_string())?;
    Ok(ask(&mut *source, Cpus::new()).unwrap().answer.rows[0].switches)
}

#[test]
fn a_trace_that_is_packed_is_unpacked() {
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    let fast = flate2::Compression::fast;
    let plain = std::fs::read(path("one_cpu.txt")).unwrap();
    let gzip = packed(GzEncoder::new(Vec::new(), fast()), GzEncoder::finish);
    let zlib = packed(ZlibEncoder::new(Vec::new(), fast()), ZlibEncoder::finish);
    let deflated = packed(DeflateEncoder::new(Vec::new(), fast()), DeflateEncoder::finish);
    assert_eq!(switches(&gzip), Ok(3));
    let atrace = |packed: &[u8]| [b"capturing trace... done\nTRACE:\n", packed].concat();
    assert_eq!((switches(&atrace(&zlib)), switches(&atrace(&plain))), (Ok(3), Ok(3)));
    for (method, bytes) in [(0, plain.clone()), (8, deflated.clone())] {
        assert_eq!(switches(&zip(&[("a.txt", method, bytes)])), Ok(3), "{method}");
    }
    // Beside files that are no traces the one that is counts; of two none is preferred.
    let trace = ("a/t.txt", 8, deflated);
    let beside = ("a/notes.txt", 0, b"no event".to_vec());
    let archive = zip(&[("a/", 0, vec![]), beside.clone(), trace.clone()]);
    assert_eq!(switches(&archive), Ok(3));
    let two = switches(&zip(&[trace.clone(), ("b\n.txt", 0, plain.clone())])).unwrap_err();
    assert!(two.contains("it holds 2 traces (a/t.txt, b\\n.txt): unpack one"), "{two}");
    let none = switches(&zip(&[beside.clone(), beside])).unwrap_err();
    assert!(none.contains("none of its files begins as a trace"), "{none}");
    let other = switches(&zip(&[("a.txt", 12, plain.clone())])).unwrap_err();
    assert!(other.contains("a.txt: it is packed by another method"), "{other}");
    // A bit of what is packed.
    let mut damaged = zip(&[("a.txt", 0, plain.clone())]);
    damaged[60] ^= 1;
    assert!(switches(&damaged).unwrap_err().contains("checksum"), "{:?}", switches(&damaged));
    for cut in 4..archive.len() {
        assert!(switches(&archive[..cut]).is_err() || cut > archive.len() - 6, "{cut}");
    }
}

#[test]
fn a_packed_file_that_is_written_anew_is_read_anew() {
    use flate2::write::GzEncoder;
    let plain = std::fs::read(path("one_cpu.txt")).unwrap();
    let lines: Vec<&[u8]> = plain.split_inclusive(|byte| *byte == b'\n').collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.gz");
    let lengths = [lines.len(), lines.len() - 1].map(|count| {
        let mut out = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut out, &lines[..count].concat()).unwrap();
        std::fs::write(&file, out.finish().unwrap()).unwrap();
        let mut source = schedlab_trace::open(&file).unwrap();
        let (mut batch, mut events) = (Vec::new(), 0);
        while source.next(&mut batch).unwrap() {
            events += batch.len();
        }
        events
    });
    assert!(lengths[0] > lengths[1], "{lengths:?}");
}

#[test]
fn texts_in_other_spellings_are_refused_with_the_option_that_prints_them() {
    let told = |bytes: &[u8]| {
        schedlab_trace::open_bytes(Path::new("x"), bytes.to_vec()).err().unwrap().to_string()
    };
    assert!(told(b"\xff\xfe#\0 \0").contains("iconv -f UTF-16"));
    let raw = "# tracer: nop\n#\n1234 0 48931234567 type: 315\n";
    assert!(told(raw.as_bytes()).contains("noraw"), "{}", told(raw.as_bytes()));
    let hex = "# tracer: nop\n#\n000004d2 00000000 0000000b64a1c3d7 01\n";
    assert!(told(hex.as_bytes()).contains("nohex"), "{}", told(hex.as_bytes()));
}

#[test]
fn a_blocked_tasks_function_is_told_by_the_event_that_comes_when_it_is_woken() {
    let reply = asked("android_atrace.txt", WithArguments(Tasks::new()));
    let [blocked] = &row(&reply, 4610).unwrap().blocked[..] else { panic!("one place") };
    let function = reply.answer.stacks.text(blocked.stack.unwrap());
    assert_eq!((function, blocked.count), ("dma_fence_default_wait", 1));
    assert_eq!(blocked.time, Nanos(1_600_000), "from the switch to the wakeup");
    let reply = asked("perfetto_native_events.pb", WithArguments(Tasks::new()));
    let blocked = &row(&reply, 11).unwrap().blocked;
    let place = reply.answer.stacks.text(blocked[0].stack.unwrap());
    assert!(place.ends_with("(I/O)"), "{place}");
}
