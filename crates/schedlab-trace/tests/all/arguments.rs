//! Arguments of other tracepoints the scheduler's: told from every format, kept in every target.

use crate::common::{Bodies, data, header, peer, small};
use crate::convert::read;
use crate::perf_file::made_with;
use schedlab_model::What;
use schedlab_trace::dat::{Compression, Version};
use schedlab_trace::{Encoding, Options, Target, convert, open, open_with};
use std::path::Path;

const V6: Target = Target::Dat(Version::V6, Compression::None);

/// Name, time and arguments of every event beyond the scheduler's.
fn told(path: &Path) -> Vec<(String, u64, String)> {
    let options = Options { arguments: true, threads: 3, portion: Some(1), names: None };
    let mut source = open_with(path, &options).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            let What::Other { format } = event.what else { continue };
            let name = source.info().others[usize::from(format)].name.clone();
            let text = source.arguments(index).expect("every source tells them");
            all.push((name, event.time.0, text.into_owned()));
        }
    }
    all
}

#[test]
fn records_of_any_version_and_byte_order_tell_their_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let expected = format!("irq=7 name={}", "x".repeat(199));
    let kinds = [
        (Version::V6, Compression::None, false),
        (Version::V6, Compression::None, true),
        (Version::V7, Compression::Zlib, false),
        (Version::V7, Compression::Zstd, false),
    ];
    for (version, compression, big_endian) in kinds {
        let mut header = header(version, compression, 3);
        header.encoding = Encoding { big_endian, long: 8 };
        std::fs::write(&path, small(&header)).unwrap();
        let one = ("irq_handler_entry".to_owned(), 300_000_000_500, expected.clone());
        assert_eq!(told(&path), [one], "{version:?} {compression:?} {big_endian}");
    }
    for big_endian in [false, true] {
        let bodies = Bodies(Encoding { big_endian, long: 8 });
        std::fs::write(&path, made_with(big_endian, &[bodies.irq(0, 4)])).unwrap();
        let one = ("irq_handler_entry".to_owned(), 70, "irq=7 name=xxx".to_owned());
        assert_eq!(told(&path), [one], "perf.data, big-endian: {big_endian}");
    }
    let source = open(&path).unwrap();
    assert!(source.arguments(0).is_none(), "nobody asked");
}

#[test]
fn arguments_of_records_reach_text_csv_and_perfetto() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bodies = Bodies(Encoding::default());
    std::fs::write(at("a.data"), made_with(false, &[bodies.irq(0, 4)])).unwrap();
    convert(&at("a.data"), &at("b.dat"), V6).unwrap();
    for source in ["a.data", "b.dat"] {
        for (target, name) in
            [(Target::Report, "c.txt"), (Target::Csv, "c.csv"), (Target::Perfetto, "c.pftrace")]
        {
            let converted = convert(&at(source), &at(name), target).unwrap();
            let left_out = |what: &str| what.contains("other tracepoints");
            assert!(!converted.warnings.iter().any(|w| left_out(&w.what)), "{converted:?}");
        }
        assert_eq!(told(&at("c.txt")), told(&at(source)), "{source}");
        let csv = std::fs::read_to_string(at("c.csv")).unwrap();
        let row = csv.lines().find(|line| line.contains("irq_handler_entry")).unwrap();
        assert!(row.ends_with(",irq:irq_handler_entry,irq=7 name=xxx"), "{row}");
        let protobuf = std::fs::read(at("c.pftrace")).unwrap();
        // Field 36 of the event: `irq` in field 1, and the name in field 2.
        let field = [0xa2, 0x02, 7, 0x08, 7, 0x12, 3, b'x', b'x', b'x'];
        assert!(protobuf.windows(field.len()).any(|window| window == field), "{source}");
    }
}

#[test]
fn tracepoints_of_other_machines_say_what_trace_cmd_says() {
    let mut compared = 0;
    for name in ["lisa_sched_load.dat", "lisa_example_rtapp.dat", "trappy_trace.dat"] {
        let Some(path) = data("traces").map(|dir| dir.join(name)) else { return };
        let Some((raw, _)) = peer("trace-cmd", &["report", "-R", "-t", "-i"], &path) else {
            return;
        };
        for (event, time, text) in told(&path) {
            // trace-cmd puts the names of functions there, which the records hold as addresses.
            if matches!(event.as_str(), "print" | "bprint") {
                continue;
            }
            let stamp = format!(" {}.{:09}: {event}:", time / 1_000_000_000, time % 1_000_000_000);
            let lines = raw.lines().filter(|line| line.contains(&stamp));
            let theirs: Vec<&str> =
                lines.map(|line| line.split_once(&stamp).unwrap().1.trim()).collect();
            let read = format!("{theirs:?} of {} lines", raw.lines().count());
            assert!(theirs.contains(&text.as_str()), "{name}{stamp} {text}, trace-cmd: {read}");
            compared += 1;
        }
    }
    assert!(compared > 3000, "{compared}");
}

#[test]
fn arguments_of_other_tracepoints_pass_from_text_to_text_and_to_a_trace_dat() {
    let dir = tempfile::tempdir().unwrap();
    let [from, text, dat] = ["a.txt", "b.txt", "c.dat"].map(|name| dir.path().join(name));
    let (long, arguments) = ("y".repeat(4000), "irq=42 name=a disk, or %s");
    let lines = format!(
        " sh-7 [000] 1.000000100: irq_handler_entry: {arguments}\n\
         \x20sh-7 [000] 1.000000200: sched_waking: comm=a pid=8 prio=120 target_cpu=001\n\
         \x20sh-7 [001] 1.000000300: softirq_entry: vec={long}\n\
         \x20sh-7 [001] 1.000000400: empty:\n"
    );
    std::fs::write(&from, lines).unwrap();
    let said = |converted: &schedlab_trace::Converted, part: &str| {
        converted.warnings.iter().any(|warning| warning.what.contains(part))
    };
    let converted = convert(&from, &text, Target::Report).unwrap();
    assert!(!said(&converted, "other tracepoints"), "nothing is left out: {converted:?}");
    let report = std::fs::read_to_string(&text).unwrap();
    assert!(report.lines().any(|line| line.ends_with(arguments)), "{report}");
    assert!(report.contains(&long));
    let converted = convert(&text, &dat, V6).unwrap();
    assert!(said(&converted, "1 events keep only 3000 bytes of their arguments"), "{converted:?}");
    assert!(read(&dat).len() == 4);
    let cut = |(name, time, text): (String, u64, String)| {
        (name, time, text.chars().take(3000).collect::<String>())
    };
    assert!(told(&dat).into_iter().eq(told(&from).into_iter().map(cut)), "as the text has it");
    let Some((out, err)) = peer("trace-cmd", &["report", "-i"], &dat) else { return };
    assert!(out.lines().any(|line| line.ends_with(arguments)), "{out}{err}");
    assert!(out.contains(&format!("vec={}", "y".repeat(2996))) && out.contains("empty:"), "{out}");
}
