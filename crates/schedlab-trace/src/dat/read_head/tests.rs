//! Options and tables of a head, each by itself.

use super::*;
use std::path::Path;

fn little(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// What a head says after these options.
fn with(options: &[(u16, &[u8])]) -> Head {
    let input = Input::memory(Path::new("x"), Vec::new());
    let header = Header { clock: String::new(), cpus: 0, ..Header::default() };
    let mut reader = Reader::new(&input, header);
    options.iter().for_each(|(number, data)| reader.option(*number, data));
    reader.head
}

#[test]
fn numbers_are_read_as_c_reads_them() {
    let read = |text| integer(text);
    assert_eq!([read("12"), read(" -12\n"), read("+7")], [Some(12), Some(-12), Some(7)]);
    assert_eq!([read("0x1f"), read("-0x1F"), read("0")], [Some(31), Some(-31), Some(0)]);
    assert_eq!([read(""), read("0x"), read("12s"), read("x1f")], [None; 4]);
}

#[test]
fn dates_are_microseconds_and_offsets_nanoseconds_and_both_are_added() {
    assert_eq!(with(&[(id::DATE, b"0x10\0")]).time.offset, 16_000);
    assert_eq!(with(&[(id::OFFSET, b"-5\0")]).time.offset, -5);
    let both = with(&[(id::DATE, b"2\0"), (id::OFFSET, b"30\0"), (id::OFFSET, b"4\0")]);
    assert_eq!(both.time.offset, 2_034);
    assert_eq!(with(&[(id::DATE, b"yesterday\0")]).time.offset, 0);
    let far = with(&[(id::DATE, b"9223372036854775807\0"), (id::OFFSET, b"1\0")]);
    assert_eq!(far.time.offset, i64::MAX, "it ends at what a number can be");
}

#[test]
fn ticks_have_a_factor_and_a_shift() {
    let both = [3, 0, 0, 0, 21, 0, 0, 0, 9];
    assert_eq!(with(&[(id::TSC2NSEC, &both)]).time.tsc, Some((3, 21)));
    assert_eq!(with(&[(id::TSC2NSEC, &both[..7])]).time.tsc, None);
}

#[test]
fn the_clock_is_the_one_in_brackets_or_the_only_one() {
    let clock = |text: &[u8]| with(&[(id::TRACECLOCK, text)]).header.clock;
    assert_eq!(clock(b"local global [mono] boot\0"), "mono");
    assert_eq!(clock(b" x86-tsc\n\0"), "x86-tsc");
    assert_eq!(clock(b"local global boot\0"), "", "none of several is chosen");
    assert_eq!(clock(b"[]\0"), "");
    let kept = with(&[(id::TRACECLOCK, b"mono_raw\0"), (id::TRACECLOCK, b"no word\0")]);
    assert_eq!(kept.header.clock, "mono_raw");
}

#[test]
fn options_tell_of_the_machine_and_the_rest_is_passed_on() {
    let head = with(&[
        (id::CPUSTAT, b"CPU: 0\n\0"),
        (id::CPUSTAT, b"CPU: 1\n"),
        (id::UNAME, b"Linux a\0"),
        (id::CPUCOUNT, &[6, 0, 0, 0]),
        (id::CPUCOUNT, &[4, 0, 0, 0]),
        (id::CPUCOUNT, &[9, 0]),
        (id::VERSION, b"trace-cmd 3\0"),
        (id::COMPANION, br#"{"marks":["load"]}"#),
        (77, b"unknown"),
        (id::OFFSET, b"7\0"),
    ]);
    let header = &head.header;
    assert_eq!(header.cpustat, ["CPU: 0\n", "CPU: 1\n"]);
    assert_eq!((header.uname.as_deref(), header.cpus), (Some("Linux a"), 6));
    assert_eq!(header.companion.as_ref().unwrap().marks, ["load"]);
    assert_eq!(header.options, [(77, b"unknown".to_vec()), (id::OFFSET, b"7\0".to_vec())]);
    let many = with(&[(id::CPUCOUNT, &u32::MAX.to_le_bytes())]);
    assert_eq!(many.header.cpus, CPUS_MAX);
}

/// A guest's corrections: for each CPU times, offsets and scalings; then fraction bits.
fn shift(cpus: &[[&[u64]; 3]], fractions: &[u64]) -> Vec<Arc<[ShiftSample]>> {
    let mut data = [little(&[0x1234]), vec![0; 4]].concat();
    data.extend(u32::try_from(cpus.len()).unwrap().to_le_bytes());
    for columns in cpus {
        data.extend(u32::try_from(columns[0].len()).unwrap().to_le_bytes());
        columns.iter().for_each(|column| data.extend(little(column)));
    }
    data.extend(little(fractions));
    with(&[(id::TIME_SHIFT, &data)]).time.shift.unwrap()
}

#[test]
fn corrections_of_a_guest_are_samples_in_order_of_time() {
    let first: [&[u64]; 3] = [&[20, 10, 20], &[2, 1, 3], &[5, 6, 7]];
    let second: [&[u64]; 3] = [&[30], &[-9_i64 as u64], &[8]];
    let told = |samples: &[ShiftSample]| -> Vec<(i64, i64, i64, i64)> {
        samples.iter().map(|s| (s.time, s.offset, s.scaling, s.fraction)).collect()
    };
    let shift_of = |fractions| shift(&[first, second], fractions);
    let all = shift_of(&[11, 12, 13, 14]);
    // Of two samples at one time the first counts.
    assert_eq!(told(&all[0]), [(10, 1, 6, 12), (20, 2, 5, 11)]);
    assert_eq!(told(&all[1]), [(30, -9, 8, 14)]);
    // Older files have no fraction bits.
    let plain = shift_of(&[]);
    assert_eq!(told(&plain[0]), [(10, 1, 6, 0), (20, 2, 5, 0)]);
    assert!(with(&[(id::TIME_SHIFT, &[0; 15])]).time.shift.is_none(), "it is cut");
}

#[test]
fn names_of_tasks_are_lines_of_a_number_and_a_name() {
    let text = b"1 init\n12 a b\nx y\n13\n\n14 c";
    let data = [little(&[text.len() as u64]), text.to_vec()].concat();
    let input = Input::memory(Path::new("x"), data);
    let mut reader = Reader::new(&input, Header::default());
    reader.cmdlines(&mut Cursor::new(&input, Encoding::default(), 0)).unwrap();
    let expected = [(1, "init"), (12, "a b"), (14, "c")];
    let expected = expected.map(|(pid, name)| (Pid(pid), names::comm(name.as_bytes())));
    assert_eq!(reader.head.header.cmdlines, expected);
}

/// What a buffer of version 7 says: its name, its clock, and each CPU's number, offset and size.
fn buffer(name: &str, clock: &str, cpus: &[(u32, u64, u64)]) -> (Result<(), Stop>, Head) {
    flagged_buffer(1, name, clock, cpus)
}

/// The same with the flags of the section of its pages, which begins at 4.
fn flagged_buffer(
    flags: u8,
    name: &str,
    clock: &str,
    cpus: &[(u32, u64, u64)],
) -> (Result<(), Stop>, Head) {
    let input = Input::memory(Path::new("x"), vec![0, 0, 0, 0, 3, 0, flags, 0]);
    let mut reader = Reader::new(&input, Header { cpus: 2, ..Header::default() });
    reader.head.header.clock = String::new();
    let mut data = [&little(&[4])[..], name.as_bytes(), b"\0", clock.as_bytes(), b"\0"].concat();
    data.extend([4096_u32, cpus.len() as u32].into_iter().flat_map(u32::to_le_bytes));
    for (cpu, offset, size) in cpus {
        data.extend(cpu.to_le_bytes());
        data.extend(little(&[*offset, *size]));
    }
    let read = reader.v7_buffer(&data, Packing::Zstd);
    (read, reader.head)
}

#[test]
fn a_buffer_names_the_pages_of_its_cpus() {
    let (read, head) = buffer("", "mono", &[(0, 100, 50), (1, 0, 0), (5, 150, 7)]);
    assert!(read.is_ok());
    let buffer = &head.buffers[0];
    assert_eq!((buffer.page_size, buffer.packing), (4096, Packing::Zstd));
    assert_eq!(buffer.cpus, [(Cpu(0), 100..150), (Cpu(5), 150..157)], "one is empty");
    assert_eq!(head.header.cpus, 6);
    assert_eq!((head.header.clock.as_str(), buffer.clock.as_deref()), ("mono", Some("mono")));
}

#[test]
fn the_clock_of_a_further_buffer_is_its_own() {
    let (_, head) = buffer("one", "boot", &[]);
    assert_eq!((head.header.clock.as_str(), head.header.cpus), ("", 2));
    assert_eq!(head.buffers[0].clock.as_deref(), Some("boot"));
    assert_eq!(buffer("one", "", &[]).1.buffers[0].clock, None);
}

#[test]
fn a_buffer_with_a_cpu_twice_or_beyond_all_numbers_is_refused() {
    let (read, head) = buffer("", "mono", &[(3, 100, 50), (3, 200, 50)]);
    assert!(read.unwrap_err().what.contains("CPU 3 is listed twice") && head.buffers.is_empty());
    assert!(buffer("", "", &[(3, 100, 50), (3, 0, 0)]).0.is_ok(), "one of them is empty");
    assert!(buffer("", "", &[(70_000, 0, 0)]).0.unwrap_err().what.contains("CPU 70000"));
}

#[test]
fn a_section_is_read_as_it_stands_or_unpacked_as_far_as_is_sane() {
    let packed = zstd::bulk::compress(b"content", 1).unwrap();
    let section = |flags: u16, content: &[u8]| {
        let head = [9_u16.to_le_bytes(), flags.to_le_bytes(), [0; 2], [0; 2]].concat();
        let size = content.len() as u64;
        let input =
            Input::memory(Path::new("x"), [head, little(&[size]), content.to_vec()].concat());
        let reader = Reader::new(&input, Header::default());
        reader.section(0, Packing::Zstd).map_err(|stop| stop.what)
    };
    assert_eq!(section(0, b"content"), Ok((9, b"content".to_vec())));
    let with_sizes = |size: u32| {
        let length = u32::try_from(packed.len()).unwrap();
        [&length.to_le_bytes()[..], &size.to_le_bytes(), &packed].concat()
    };
    assert_eq!(section(id::FLAG_COMPRESSED, &with_sizes(7)), Ok((9, b"content".to_vec())));
    let huge = section(id::FLAG_COMPRESSED, &with_sizes(u32::MAX)).unwrap_err();
    assert!(
        huge.starts_with("a section of 4294967295 bytes, unpacked: more than the 160 MiB"),
        "{huge}"
    );
}

#[test]
fn a_section_that_is_named_twice_is_read_once() {
    let names = [little(&[9]), b"1 a\n12 b\n".to_vec()].concat();
    let head = [id::CMDLINES.to_le_bytes(), [0; 2], [0; 2], [0; 2]].concat();
    let section = [head, little(&[names.len() as u64]), names].concat();
    let input = Input::memory(Path::new("x"), section);
    let mut reader = Reader::new(&input, Header::default());
    for _ in 0..3 {
        reader.v7_part(id::CMDLINES, 0, Packing::None);
    }
    assert_eq!(reader.head.header.cmdlines.len(), 2);
    let twice = "x: cannot read the names of tasks: the file names it a second time (at offset 0)";
    let told: Vec<&str> = reader.head.warnings.iter().map(|w| w.what.as_str()).collect();
    assert_eq!(told, [twice; 2]);
}

#[test]
fn a_name_of_a_pid_that_no_kernel_gives_out_is_left_out() {
    let text = b"-1 a\n4194304 b\n4194303 c\n";
    let data = [little(&[text.len() as u64]), text.to_vec()].concat();
    let input = Input::memory(Path::new("x"), data);
    let mut reader = Reader::new(&input, Header::default());
    reader.cmdlines(&mut Cursor::new(&input, Encoding::default(), 0)).unwrap();
    assert_eq!(reader.head.header.cmdlines, [(Pid(4_194_303), names::comm(b"c"))]);
}

#[test]
fn pages_are_packed_if_their_section_says_so() {
    let packing = |flags| flagged_buffer(flags, "", "", &[]).1.buffers[0].packing;
    assert_eq!([packing(1), packing(3)], [Packing::Zstd; 2]);
    assert_eq!([packing(0), packing(2)], [Packing::None; 2]);
}

/// What a list of options says that begins at 1000, and where the next list is.
fn listed(options: &[(u16, &[u8])]) -> (Option<u64>, Head) {
    let mut data = Vec::new();
    for (number, content) in options {
        data.extend(number.to_le_bytes());
        data.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        data.extend(*content);
    }
    let input = Input::memory(Path::new("x"), Vec::new());
    let mut reader = Reader::new(&input, Header::default());
    (reader.v7_options(data, Packing::None, 1_000), reader.head)
}

#[test]
fn a_list_of_options_says_where_the_next_one_and_the_text_of_a_tracer_are() {
    let (next, head) = listed(&[(id::BUFFER_TEXT, &little(&[500])), (id::DONE, &little(&[7_000]))]);
    // The text stands behind the head of its section.
    assert_eq!((next, head.text), (Some(7_000), Some(516)));
    assert_eq!(listed(&[(id::DONE, &[])]).0, Some(0), "it is the last");
    let (next, head) = listed(&[(id::UNAME, b"Linux a")]);
    assert_eq!((next, head.header.uname.as_deref()), (None, Some("Linux a")));
    let what = &head.warnings[0].what;
    // Behind the head of its section, and behind an option of 6 and 7 bytes.
    let expected = "x: cannot read a list of options: the file ends here (at offset 1029)";
    assert_eq!(what, expected, "{what}");
}

#[test]
fn parts_that_cannot_be_read_are_named() {
    for (number, part) in [
        (id::HEADER_INFO, "the layout of pages"),
        (id::FTRACE_EVENTS, "the formats of ftrace's events"),
        (id::EVENT_FORMATS, "the formats of tracepoints"),
        (id::PRINTK, "the formats of trace_printk"),
        (id::CMDLINES, "the names of tasks"),
    ] {
        let (_, head) = listed(&[(number, &little(&[9])), (id::DONE, &[])]);
        let what = &head.warnings[0].what;
        assert!(what.contains(&format!("cannot read {part}: ")), "{what}");
    }
    let (_, head) = listed(&[(id::KALLSYMS, &little(&[9])), (id::DONE, &[])]);
    assert!(head.warnings.is_empty(), "nobody asked for symbols");
    let (_, head) = listed(&[(id::BUFFER, &[]), (id::DONE, &[])]);
    assert!(head.warnings[0].what.contains("cannot read a buffer's table of CPUs"));
}

/// What a head says after a part of it was read from its section.
fn part(number: u16, content: &[u8]) -> Header {
    let head = [number.to_le_bytes(), [0; 2], [0; 2], [0; 2]].concat();
    let size = content.len() as u64;
    let input = Input::memory(Path::new("x"), [head, little(&[size]), content.to_vec()].concat());
    let mut reader = Reader::new(&input, Header::default());
    reader.v7_part(number, 0, Packing::None);
    assert!(reader.head.warnings.is_empty(), "{:?}", reader.head.warnings);
    reader.head.header
}

#[test]
fn each_part_is_read_from_its_section() {
    let text = |text: &str| [&little(&[text.len() as u64])[..], text.as_bytes()].concat();
    let one = 1_u32.to_le_bytes();
    let ftrace = part(id::FTRACE_EVENTS, &[&one[..], &text("name: x")].concat());
    assert_eq!(ftrace.ftrace_formats, ["name: x"]);
    let formats = [&one[..], b"sched\0", &one, &text("name: y")].concat();
    let formats = part(id::EVENT_FORMATS, &formats).formats;
    assert_eq!(formats, [("sched".to_owned(), "name: y".to_owned())]);
    assert_eq!(part(id::PRINTK, &[3, 0, 0, 0, b'a', b'b', b'c']).printk, b"abc");
    let tasks = part(id::CMDLINES, &text("7 sh\n")).cmdlines;
    assert_eq!(tasks, [(Pid(7), names::comm(b"sh"))]);
    let page = "\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
    let info = [&b"header_page\0"[..], &text(page), b"header_event\0", &text("event")].concat();
    let info = part(id::HEADER_INFO, &info);
    assert_eq!((info.encoding.long, info.header_event.as_str()), (4, "event"));
    assert_eq!(info.header_page, page);
}
