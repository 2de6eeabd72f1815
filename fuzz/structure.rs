//! Files that repeat sections, point back and loop, made from a few choices.
//!
//! A fuzzer that flips bytes makes no file that unpacks to gigabytes, or that names one list six times. Here each
//! choice is a step of the format: how many sections, what each repeats, which one an entry names.

use schedlab_trace::{Options, open_records, open_with};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// The most memory for a file of no size, in bytes.
const LEAST: u64 = 256 << 20;

/// Writes the file that is made of `choices` to `path`, and reads it as events or as records.
///
/// The most memory that is resident meanwhile is below 256 MiB and four times the file. Returns the file's size and
/// that memory, in bytes; `None` where the kernel does not tell.
pub(crate) fn read(choices: &[u8], path: &Path) -> Option<(u64, u64)> {
    std::fs::write(path, made(choices)).expect("there is room for the file");
    measured(path, choices.first().copied().unwrap_or(0) / 6)
}

/// Reads a file with one thread or three, with arguments, or as records.
pub(crate) fn measured(path: &Path, how: u8) -> Option<(u64, u64)> {
    let size = path.metadata().ok()?.len();
    let before = begin()?;
    let (threads, arguments) = ([1, 3][usize::from(how & 1)], how & 2 != 0);
    if how & 12 == 12 {
        let mut sink = |_: usize, _: schedlab_model::Cpu, _: schedlab_trace::dat::Piece<'_>| Ok(());
        if let Ok(Some(mut source)) = open_records(path) {
            source.each(&mut sink).expect("the file can be read");
        }
    } else if let Ok(mut source) =
        open_with(path, &Options { threads, arguments, ..Options::default() })
    {
        let mut batch = Vec::new();
        while source.next(&mut batch).expect("the file can be read") {}
    }
    let took = status("VmHWM:")?.saturating_sub(before);
    assert!(took < LEAST + 4 * size, "{} MiB of memory for a file of {size} bytes", took >> 20);
    Some((size, took))
}

/// Forgets the most memory that was resident (proc(5)); how much is now. That of zstd is among it.
fn begin() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS:")
}

fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// Choices, one after the other; behind the last one the first alternative.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    /// A number below `count`.
    fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % count.max(1)
    }

    /// A size in bytes: small, or what a packed section may well be.
    fn size(&mut self) -> usize {
        [64, 4 << 10, 1 << 20, 12 << 20, 64 << 20][self.below(5)]
    }

    /// `piece` again and again, for a size.
    fn repeated(&mut self, piece: &[u8]) -> Vec<u8> {
        piece.repeat(self.size() / piece.len() + 1)
    }

    /// Pieces with a number in each.
    fn numbered(&mut self, piece: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        let size = self.size().min(8 << 20);
        let step = [1, 0, 257][self.below(3)];
        let (mut all, mut number) = (Vec::new(), 1u32);
        while all.len() < size {
            all.extend(piece(number));
            number = number.wrapping_add(step);
        }
        all
    }
}

/// A file of any format.
pub(crate) fn made(choices: &[u8]) -> Vec<u8> {
    let mut of = Choices(choices);
    match of.below(6) {
        0 | 1 => dat7(&mut of),
        2 => dat6(&mut of),
        3 => perf(&mut of),
        4 => perfetto(&mut of),
        _ => text(&mut of),
    }
}

fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [u64s(&[bytes.len() as u64]), bytes.to_vec()].concat()
}

fn short(bytes: &[u8]) -> Vec<u8> {
    [u32s(&[bytes.len() as u32]), bytes.to_vec()].concat()
}

/// The format of switches; the last field is repeated where a format is to be long.
fn switch(fields: usize) -> Vec<u8> {
    let mut text = String::from("name: sched_switch\nID: 1\nformat:\n");
    let named =
        [("char prev_comm[16]", 8, 16), ("pid_t prev_pid", 24, 4), ("int prev_prio", 28, 4)];
    let more =
        [("long prev_state", 32, 8), ("char next_comm[16]", 40, 16), ("pid_t next_pid", 56, 4)];
    for (name, offset, size) in named.into_iter().chain(more).chain([("int next_prio", 60, 4)]) {
        let _ = writeln!(text, "\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:1;");
    }
    text += &"\tfield:int a;\toffset:60;\tsize:4;\tsigned:1;\n".repeat(fields);
    (text + "\nprint fmt: \"%d\", REC->next_pid\n").into_bytes()
}

const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

/// The layout of pages, the formats of ftrace, of tracepoints, the symbols, the texts of `trace_printk`, the names.
fn table(number: usize, of: &mut Choices<'_>) -> Vec<u8> {
    let fields = of.below(8) * 100;
    match number {
        0 => {
            let head = [&b"header_page\0"[..], &long(PAGE.as_bytes()), b"header_event\0"].concat();
            let text = of.repeated(b"# \xff\n");
            [head, long(&text)].concat()
        }
        1 => [u32s(&[u32::MAX]), of.repeated(&long(&switch(fields)[..90]))].concat(),
        2 => {
            let system = [&b"sched"[..], &vec![b'x'; of.below(2) * 4000], b"\0"].concat();
            let formats = [long(&switch(fields)), of.repeated(&u64s(&[0]))].concat();
            [u32s(&[u32::MAX]), system, u32s(&[u32::MAX]), formats].concat()
        }
        3 => short(&of.repeated(b"ffffffff81000000 t a\n")),
        4 => short(&of.repeated(b"0xffffffff81000000 : \"x\"\n")),
        _ => long(&match of.below(2) {
            0 => of.repeated(b"1 a\n"),
            _ => of.numbered(|pid| format!("{pid} n{}\n", pid % 10).into_bytes()),
        }),
    }
}

/// What the private option of our own holds.
fn companion(of: &mut Choices<'_>) -> Vec<u8> {
    let piece = [r#"[0],"#, r#"[1,2,"0-65535"],"#, r#""a","#][of.below(3)];
    let name = ["affinity", "marks", "processes", "groups"][of.below(4)];
    format!("{{\"{name}\":[{}0]}}", String::from_utf8_lossy(&of.repeated(piece.as_bytes())))
        .into_bytes()
}

/// A corrected clock: one list of samples for all CPUs.
fn shift(of: &mut Choices<'_>) -> Vec<u8> {
    let samples = of.size().min(1 << 20) / 24;
    [u64s(&[1]), u32s(&[0, 1, samples as u32]), vec![1; samples * 24]].concat()
}

/// A trace.dat of version 7: sections, then lists of options that name them, themselves and each other.
fn dat7(of: &mut Choices<'_>) -> Vec<u8> {
    let packing = ["zstd", "zlib", "none"][of.below(3)];
    let pack = |bytes: &[u8]| match packing {
        "zstd" => zstd::bulk::compress(bytes, 1).expect("memory can be packed"),
        _ => {
            let level = flate2::Compression::fast();
            let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), level);
            packer.write_all(bytes).and_then(|()| packer.finish()).expect("memory can be packed")
        }
    };
    let packed = |bytes: &[u8]| {
        let packed = pack(bytes);
        [u32s(&[packed.len() as u32, bytes.len() as u32]), packed].concat()
    };
    let section = |number: u16, bytes: &[u8]| {
        let flags = u16::from(packing != "none");
        let content = if flags == 1 { packed(bytes) } else { bytes.to_vec() };
        [&number.to_le_bytes()[..], &flags.to_le_bytes(), &[0; 4], &long(&content)].concat()
    };
    let mut file = b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0".to_vec();
    file.extend([packing.as_bytes(), b"\x001\0"].concat());
    let first_at = file.len();
    file.extend([0; 8]);
    let mut parts: Vec<(u16, u64)> = Vec::new();
    for _ in 0..=of.below(5) {
        let number = of.below(6);
        parts.push((16 + number as u16, file.len() as u64));
        let table = table(number, of);
        // What is not packed is as long as it says.
        let end = if packing == "none" { table.len().min(1 << 20) } else { table.len() };
        file.extend(section(16 + number as u16, &table[..end]));
    }
    let data_at = file.len() as u64;
    file.extend([&3u16.to_le_bytes()[..], &[1, 0, 0, 0, 0, 0], &[0; 8]].concat());
    let mut blobs = vec![(data_at, u64::MAX)];
    let mut chunks = BTreeMap::new();
    for _ in 0..=of.below(40) {
        let at = file.len() as u64;
        let size = of.size().min(16 << 20);
        let chunk = chunks.entry(size).or_insert_with(|| packed(&vec![0; size]));
        file.extend([u32s(&[2]), chunk.repeat(2)].concat());
        blobs.push((at, file.len() as u64 - at));
    }
    // So that making the file takes less memory than its reader may.
    let list_max = if packing == "none" { 1 << 20 } else { 64 << 20 };
    let option = |list: &mut Vec<u8>, number: u16, data: &[u8]| {
        list.extend([&number.to_le_bytes()[..], &short(data)].concat());
    };
    let mut lists = Vec::new();
    for _ in 0..=of.below(4) {
        let (at, mut list) = (file.len() as u64, Vec::new());
        for _ in 0..=of.below(12) {
            if list.len() > list_max {
                break;
            }
            match of.below(6) {
                0 => option(&mut list, 0x5cd1, &companion(of)),
                1 => option(&mut list, 12, &shift(of)),
                2 => option(&mut list, 77, &of.repeated(b"x")),
                3 => option(&mut list, 3, &buffer(data_at, &blobs, of)),
                _ => {
                    let (number, at) = parts[of.below(parts.len())];
                    (0..=of.below(9)).for_each(|_| option(&mut list, number, &u64s(&[at])));
                }
            }
        }
        // The next list is this one, one before it, or none.
        lists.push(at);
        let next = if of.below(2) == 0 { lists[of.below(lists.len())] } else { 0 };
        option(&mut list, 0, &u64s(&[next]));
        file.extend(section(0, &list));
    }
    let first = lists.last().copied().unwrap_or(0);
    file[first_at..first_at + 8].copy_from_slice(&first.to_le_bytes());
    file
}

/// A buffer's table of CPUs, whose data lies in the same places.
fn buffer(section: u64, blobs: &[(u64, u64)], of: &mut Choices<'_>) -> Vec<u8> {
    let count = [1, 64, 4_000, 65_536][of.below(4)];
    let page = [4096, 1 << 16, 1 << 26][of.below(3)];
    let mut data = [u64s(&[section]), b"\0mono\0".to_vec(), u32s(&[page, count])].concat();
    for cpu in 0..count {
        let (at, size) = blobs[cpu as usize % blobs.len()];
        data.extend([u32s(&[cpu]), u64s(&[at, size])].concat());
    }
    data
}

/// A trace.dat of version 6, whose buffers are named again and again.
fn dat6(of: &mut Choices<'_>) -> Vec<u8> {
    let cut = |mut bytes: Vec<u8>| {
        bytes.truncate(1 << 20);
        bytes
    };
    let mut file = b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0".to_vec();
    file.extend(
        [&b"header_page\0"[..], &long(PAGE.as_bytes()), b"header_event\0", &[0; 8]].concat(),
    );
    let empty = of.size().min(1 << 20) as u32 / 8;
    file.extend([u32s(&[empty]), vec![0; empty as usize * 8]].concat());
    let system = [vec![b'x'; of.below(2) * 4000], b"\0".to_vec()].concat();
    file.extend([u32s(&[2]), b"sched\0".to_vec(), u32s(&[1]), long(&switch(0))].concat());
    file.extend([system, u32s(&[empty]), vec![0; empty as usize * 8]].concat());
    file.extend([u32s(&[0, 0]), long(&cut(of.repeated(b"1 a\n")))].concat());
    let cpus = [1, 64, 8_000][of.below(3)];
    file.extend([u32s(&[cpus]), b"options  \0".to_vec()].concat());
    let buffers = [1, 50, 5_000][of.below(3)];
    let option = |data: &[u8]| [&3u16.to_le_bytes()[..], &short(data)].concat();
    let at = (file.len() + buffers * option(&[0; 10]).len() + 2) as u64;
    // Each of them has the same table, or begins within it.
    let apart = [0, 10][of.below(2)];
    for index in 0..buffers {
        file.extend(option(&[u64s(&[at + index as u64 * apart]), b"b\0".to_vec()].concat()));
    }
    file.extend([0; 2]);
    file.extend(b"flyrecord\0".repeat(if apart == 0 { 1 } else { buffers }));
    let end = file.len() as u64 + 16 * u64::from(cpus);
    for _ in 0..cpus {
        file.extend(u64s(&[end, [64, 1 << 20, u64::MAX / 2][of.below(3)]]));
    }
    file.extend(vec![0; 64 << 10]);
    file
}

/// Records of perf in a compressed stream, and an area of ids that all events share.
fn perf(of: &mut Choices<'_>) -> Vec<u8> {
    let ids = vec![7; of.size().min(256 << 10)];
    let (events, entry) = ([1, 40, 2_000][of.below(3)], 80);
    let attrs_at = 104 + ids.len() as u64;
    // TID, TIME, CPU and RAW; other records end with the first three.
    let mut attr = [u32s(&[2, 64]), u64s(&[1, 1, 2 | 4 | 1 << 7 | 1 << 10, 0, 1 << 18])].concat();
    attr.resize(64, 0);
    attr.extend(u64s(&[104, ids.len() as u64]));
    let stream = records(&attr[..64], of);
    let packed = zstd::bulk::compress(&stream, 1).expect("memory can be packed");
    let mut data = Vec::new();
    for piece in packed.chunks(60_000) {
        let head = [u32s(&[83]), vec![0, 0], (16 + piece.len() as u16).to_le_bytes().to_vec()];
        data.extend([head.concat(), long(piece)].concat());
    }
    let tracing = [
        &b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0"[..],
        b"header_page\0",
        &long(PAGE.as_bytes()),
        b"header_event\0",
        &[0; 12],
        &[u32s(&[1]), b"sched\0".to_vec(), u32s(&[1]), long(&switch(0))].concat(),
    ];
    let groups = [1, 3_000, 60_000][of.below(3)];
    let set = short(b"0-65535\0");
    let topology = [u32s(&[groups]), set.repeat(groups as usize), u32s(&[0])].concat();
    let contents = [tracing.concat(), topology];
    let data_at = attrs_at + events * entry;
    let mut file = [b"PERFILE2".to_vec(), u64s(&[104, entry, attrs_at, events * entry])].concat();
    file.extend(u64s(&[data_at, data.len() as u64, 0, 0, 2 | 1 << 13, 0, 0, 0]));
    file.extend([ids, attr.repeat(events as usize), data].concat());
    let mut at = file.len() as u64 + 16 * contents.len() as u64;
    for content in &contents {
        file.extend(u64s(&[at, content.len() as u64]));
        at += content.len() as u64;
    }
    file.extend(contents.concat());
    file
}

/// Records of one kind after the other, each with a pid of its own or all with one.
fn records(attr: &[u8], of: &mut Choices<'_>) -> Vec<u8> {
    let record = |kind: u32, content: &[u8]| {
        let size = (8 + content.len() as u16).to_le_bytes();
        [&kind.to_le_bytes()[..], &[0, 0], &size, content].concat()
    };
    let mut stream = Vec::new();
    for _ in 0..=of.below(4) {
        let (kind, spread) = (of.below(7), [1, 1_000, 65_536][of.below(3)]);
        let time = of.below(2) as u64;
        stream.extend(of.numbered(|pid| {
            let cpu = pid % spread;
            let end = [u32s(&[pid, pid]), u64s(&[time * u64::from(pid)]), u32s(&[cpu, 0])].concat();
            let name = format!("{:\0<16}", format!("n{pid}"));
            match kind {
                0 | 1 => {
                    record(3, &[u32s(&[pid, pid]), name.as_bytes()[..16].to_vec(), end].concat())
                }
                2 => record(7, &[u32s(&[pid, 1, pid + 1, 1]), u64s(&[0]), end].concat()),
                3 => record(2, &[u64s(&[1, 1]), end].concat()),
                4 => record(64, &[attr.to_vec(), u64s(&[pid.into()])].concat()),
                5 => record(68, &[]),
                _ => {
                    let mut body = [&[1, 0, 0, 0][..], &pid.to_le_bytes()].concat();
                    body.extend([name.as_bytes()[..16].to_vec(), u32s(&[pid, 120, 0, 0])].concat());
                    body.extend([name.as_bytes()[..16].to_vec(), u32s(&[pid + 1, 120])].concat());
                    record(9, &[end, short(&body), vec![0; 4]].concat())
                }
            }
        }));
    }
    stream
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A Perfetto trace of few packets, with as much in each of them as it can hold.
fn perfetto(of: &mut Choices<'_>) -> Vec<u8> {
    let mut file = Vec::new();
    for cpu in 0..=of.below(6) as u8 {
        let bundle = |content: &[u8]| field(1, &[&[0x08, cpu][..], content].concat());
        let size = of.size().min(2 << 20);
        let content = match of.below(5) {
            // Columns of a byte for each switch.
            0 => bundle(&field(4, &field(1, &vec![1; size]))),
            1 => {
                let name = field(5, b"a");
                let table = name.repeat(size / name.len());
                bundle(&field(4, &[table, field(7, &vec![1; size])].concat()))
            }
            // One event, again and again; one bundle, again and again.
            2 => bundle(&field(2, &[0x08, 1, 0xa2, 0x01, 0]).repeat(size / 7)),
            3 => bundle(&field(2, &[0x08, 1, 0xa2, 0x01, 0])).repeat(size / 12),
            _ => {
                field(2, &of.numbered(|pid| field(2, &[&[0x08][..], &varint(pid.into())].concat())))
            }
        };
        file.extend(field(1, &content));
    }
    file
}

/// Lines with long names, and many of them.
fn text(of: &mut Choices<'_>) -> Vec<u8> {
    let name = "\u{1}n".repeat([1, 500, 100_000][of.below(3)]);
    let mut text = "# tracer: nop\n".to_owned();
    while text.len() < 2 << 20 {
        let number = text.len();
        let event = ["sched_waking: comm=a", "x", "mark: begin m"][of.below(3)];
        let _ =
            writeln!(text, " a-{number} [000] 1.{number:06}: {event}{name}{number}: pid={number}");
    }
    text.into_bytes()
}
