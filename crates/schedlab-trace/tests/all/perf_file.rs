//! A perf.data made here, byte by byte, since no public file has what it shows.

use crate::common::{Bodies, header};
use schedlab_trace::Encoding;
use schedlab_trace::dat::{Compression, Version, Writer};
use std::io::Write as _;

/// A perf.data made here, in either byte order: two CPUs dumped one after the other in two rounds, a
/// name, a loss, and samples of an event that is no tracepoint.
pub(crate) fn made(big_endian: bool) -> Vec<u8> {
    made_with(big_endian, &[])
}

/// The same with further bodies on CPU 1, at 70 ns and later.
pub(crate) fn made_with(big_endian: bool, further: &[Vec<u8>]) -> Vec<u8> {
    let encoding = Encoding { big_endian, long: 8 };
    let p = Put(encoding);
    let mut data = Vec::new();
    let bodies = Bodies(encoding);
    let sample = |id, time, cpu, body: &[u8]| p.sample(id, time, cpu, body);
    for (time, cpu) in [(10, 0), (30, 0), (20, 1), (40, 1)] {
        data.extend(sample(100, time, cpu, &bodies.switch(0, 0, 7 + time as i32)));
    }
    data.extend(p.record(68, &[]));
    let end = |time: u64, cpu: u32| {
        [p.u32(5), p.u32(5), p.u64(time), p.u32(cpu), p.u32(0), p.u64(100)].concat()
    };
    let name = [[p.u32(50), p.u32(50)].concat(), b"renamed\0".to_vec(), end(45, 1)].concat();
    data.extend(p.record(3, &name));
    data.extend(p.record(2, &[[p.u64(100), p.u64(77)].concat(), end(50, 0)].concat()));
    data.extend(sample(200, 46, 0, &[]));
    data.extend(sample(100, 60, 0, &bodies.migrate(0, 50, 0, 1)));
    data.extend(sample(100, 35, 1, &bodies.waking(0x10, 0, 50, 0)));
    for (time, body) in (70..).zip(further) {
        data.extend(sample(100, time, 1, body));
    }
    data.extend(p.record(68, &[]));
    file(encoding, &data)
}

/// A perf.data of many rounds: two tasks displace each other, `each` times on each of `cpus` CPUs in every one of them.
pub(crate) fn many_rounds(rounds: u64, each: u64, cpus: u32) -> Vec<u8> {
    let rounds = (0..rounds).flat_map(|at| round(at * each * 1_000, 1_000, each, cpus));
    file(Encoding::default(), &rounds.collect::<Vec<u8>>())
}

/// A perf.data of three rounds, with so many empty ones after the first and after the second.
pub(crate) fn with_empty_rounds(empty: u64) -> Vec<u8> {
    let nothing = || (0..empty).flat_map(|_| round(0, 0, 0, 1));
    let some = |start| round(start, 1_000, 20, 3).into_iter();
    let rounds = some(0).chain(nothing()).chain(some(20_000)).chain(nothing()).chain(some(40_000));
    file(Encoding::default(), &rounds.collect::<Vec<u8>>())
}

/// A perf.data of four rounds with one sample each, at 10, 20, 30 and 5 ns: the last one comes too late.
pub(crate) fn late() -> Vec<u8> {
    let rounds = [10, 20, 30, 5].into_iter().flat_map(|time| round(time, 0, 1, 1));
    file(Encoding::default(), &rounds.collect::<Vec<u8>>())
}

/// Many rounds, packed, `together` of them into each of the compressed records. A CPU's samples of a round have one time:
/// such as are nearly alike pack well, and a record has 64 KiB at most.
pub(crate) fn packed_rounds(rounds: u64, each: u64, cpus: u32, together: u64) -> Vec<u8> {
    let p = Put(Encoding::default());
    // One stream runs through all records.
    let mut packer = zstd::stream::write::Encoder::new(Vec::new(), 6).unwrap();
    packer.window_log(17).unwrap();
    let mut data = Vec::new();
    for at in 0..rounds {
        packer.write_all(&round(at * 1_000, 0, each, cpus)).unwrap();
        if (at + 1) % together == 0 || at + 1 == rounds {
            packer.flush().unwrap();
            data.extend(p.record(81, &std::mem::take(packer.get_mut())));
        }
    }
    file(Encoding::default(), &data)
}

/// Names of tasks that were there before, in records that unpack to so many bytes: each name has a pid of its own, or
/// all have one.
pub(crate) fn packed_names(bytes: usize, apart: bool) -> Vec<u8> {
    let p = Put(Encoding::default());
    let name = |pid: u32| {
        let end = [p.u32(5), p.u32(5), p.u64(0), p.u32(0), p.u32(0), p.u64(100)].concat();
        p.record(
            3,
            &[p.u32(pid), p.u32(pid), b"evil\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(), end].concat(),
        )
    };
    let mut some: Vec<u8> = (1..=5_000).flat_map(|pid| name(if apart { pid } else { 5 })).collect();
    let size = name(5).len();
    let mut packer = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    let mut left = bytes;
    for round in 0u32.. {
        if left == 0 {
            break;
        }
        for (index, record) in some.chunks_mut(size).enumerate().filter(|_| apart) {
            let pid = (round * 5_000 + index as u32).to_le_bytes();
            record[8..12].copy_from_slice(&pid);
            record[12..16].copy_from_slice(&pid);
        }
        let part = some.len().min(left);
        packer.write_all(&some[..part]).unwrap();
        left -= part;
    }
    let packed = packer.finish().unwrap();
    let mut data = Vec::new();
    for piece in packed.chunks(60_000) {
        // The newer kind says how much of it is data.
        data.extend(p.record(83, &[p.u64(piece.len() as u64), piece.to_vec()].concat()));
    }
    file(Encoding::default(), &data)
}

/// The records of a round from a time on, with so many nanoseconds between them.
fn round(start: u64, apart: u64, each: u64, cpus: u32) -> Vec<u8> {
    let encoding = Encoding::default();
    let (p, bodies) = (Put(encoding), Bodies(encoding));
    let mut data = Vec::new();
    for cpu in 0..cpus {
        for at in 0..each {
            let pair = (7 + 2 * cpu as i32, 8 + 2 * cpu as i32);
            let (prev, next) = if at % 2 == 0 { pair } else { (pair.1, pair.0) };
            let time = start + at * apart + u64::from(cpu);
            data.extend(p.sample(100, time, cpu, &bodies.switch(prev, 0, next)));
        }
    }
    data.extend(p.record(68, &[]));
    data
}

/// A perf.data as it comes through a pipe, whose head goes on inside its rounds: in the first, a sample comes before
/// the formats; in the second, an event whose samples have a call chain, and the kernel's name, come between samples.
pub(crate) fn piped() -> Vec<u8> {
    let encoding = Encoding::default();
    let (p, bodies) = (Put(encoding), Bodies(encoding));
    let tracepoint = |chain: u64, id: u64| {
        p.record(64, &[p.attr(2, BASE | 1 << 10 | chain), p.u64(id)].concat())
    };
    let switch = |id, time, next| p.sample(id, time, 0, &bodies.switch(0, 0, next));
    let mut file = [p.u64(MAGIC), p.u64(16)].concat();
    file.extend(tracepoint(0, 100));
    file.extend(switch(100, 10, 7));
    let tracing = tracing_data(encoding);
    file.extend(p.record(66, &p.u32(tracing.len() as u32)));
    file.extend(&tracing);
    file.resize(file.len() + tracing.len().next_multiple_of(8) - tracing.len(), 0);
    file.extend(switch(100, 20, 8));
    file.extend(p.record(68, &[]));
    file.extend(switch(100, 25, 5));
    file.extend(tracepoint(1 << 5, 300));
    file.extend(p.chained(300, 30, 0, &bodies.waking(0, 8, 9, 1)));
    file.extend(switch(100, 40, 9));
    let release = [p.u64(4), p.u32(8), b"6.18.1\0\0".to_vec()].concat();
    file.extend(p.record(80, &release));
    file.extend(p.chained(300, 50, 0, &bodies.waking(0, 9, 8, 0)));
    file.extend(p.record(68, &[]));
    file
}

const MAGIC: u64 = 0x3245_4c49_4652_4550;
/// IDENTIFIER, TID, TIME, CPU.
const BASE: u64 = 1 << 16 | 2 | 4 | 1 << 7;

/// The kernel's text in [`chains`], and where its first symbol lay.
const KERNEL_AT: u64 = 0xffff_ffff_8100_0000;

/// A perf.data whose switches have these call chains: the number that says how many words there are, and the words. Tasks
/// 5 and 6 leave in turn, to sleep. Process 5 has 4 KiB of /x/prog mapped at 0x1000, from 0x400 in the file on.
pub(crate) fn chains(big_endian: bool, chains: &[(u64, &[u64])]) -> Vec<u8> {
    let encoding = Encoding { big_endian, long: 8 };
    let (p, bodies) = (Put(encoding), Bodies(encoding));
    let end = [p.u32(5), p.u32(5), p.u64(0), p.u32(0), p.u32(0), p.u64(100)].concat();
    let place = |start: u64, offset: u64| [p.u64(start), p.u64(0x1000), p.u64(offset)].concat();
    let kernel = [p.u32(u32::MAX), p.u32(0), place(KERNEL_AT, KERNEL_AT)].concat();
    let kernel = [kernel, b"[kernel.kallsyms]_text\0\0".to_vec(), end.clone()].concat();
    let program = [p.u32(5), p.u32(5), place(0x1000, 0x400)].concat();
    let inode = [p.u32(8), p.u32(1), p.u64(77), p.u64(0), p.u32(5), p.u32(2)].concat();
    let program = [program, inode, b"/x/prog\0".to_vec(), end].concat();
    let mut data = [p.record(1, &kernel), p.record(10, &program)].concat();
    for (index, (count, words)) in chains.iter().enumerate() {
        let pair = if index % 2 == 0 { (5, 6) } else { (6, 5) };
        let body = bodies.switch(pair.0, 1, pair.1);
        let chain = words.iter().map(|word| p.u64(*word)).collect::<Vec<_>>().concat();
        let stamp = p.stamp(100, 10 + 10 * index as u64, 0);
        data.extend(p.record(9, &[stamp, p.u64(*count), chain, p.raw(&body)].concat()));
    }
    file_of(encoding, &data, 1 << 5)
}

/// The head of a perf.data, records behind it, and the formats. Samples of id 100 are tracepoints.
fn file(encoding: Encoding, data: &[u8]) -> Vec<u8> {
    file_of(encoding, data, 0)
}

/// The same, where samples of id 100 hold something more.
fn file_of(encoding: Encoding, data: &[u8], more: u64) -> Vec<u8> {
    let p = Put(encoding);
    let tracing = tracing_data(encoding);
    let entry = 112 + 16u64;
    let ids_at = 104;
    let attrs_at = ids_at + 16;
    let data_at = attrs_at + 2 * entry;
    let table_at = data_at + data.len() as u64;
    let mut file = [p.u64(MAGIC), p.u64(104), p.u64(entry)].concat();
    file.extend(
        [p.u64(attrs_at), p.u64(2 * entry), p.u64(data_at), p.u64(data.len() as u64)].concat(),
    );
    file.extend([p.u64(0), p.u64(0), p.u64(2), p.u64(0), p.u64(0), p.u64(0)].concat());
    file.extend([p.u64(100), p.u64(200)].concat());
    // One of the two has RAW.
    for (index, sample_type) in [BASE | 1 << 10 | more, BASE].into_iter().enumerate() {
        file.extend(p.attr(if index == 0 { 2 } else { 0 }, sample_type));
        file.extend([p.u64(ids_at + index as u64 * 8), p.u64(8)].concat());
    }
    file.extend(data);
    file.extend([p.u64(table_at + 16), p.u64(tracing.len() as u64)].concat());
    file.extend(tracing);
    file
}

/// Numbers in one byte order.
struct Put(Encoding);

impl Put {
    fn u32(&self, value: u32) -> Vec<u8> {
        if self.0.big_endian { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u64(&self, value: u64) -> Vec<u8> {
        if self.0.big_endian { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    /// What an event was asked to record.
    fn attr(&self, kind: u32, sample_type: u64) -> Vec<u8> {
        let mut attr = [self.u32(kind), self.u32(112)].concat();
        attr.extend([self.u64(7), self.u64(1), self.u64(sample_type), self.u64(0)].concat());
        // sample_id_all, and the clock: a bit field counts from the other end on big-endian machines.
        let flags = 1u64 << 18 | 1 << 25;
        attr.extend(self.u64(if self.0.big_endian { flags.reverse_bits() } else { flags }));
        attr.resize(92, 0);
        attr.extend(self.u32(1));
        attr.resize(112, 0);
        attr
    }

    fn sample(&self, id: u64, time: u64, cpu: u32, body: &[u8]) -> Vec<u8> {
        let raw = if id == 100 { self.raw(body) } else { Vec::new() };
        self.record(9, &[self.stamp(id, time, cpu), raw].concat())
    }

    /// A sample with a call chain of three before its body.
    fn chained(&self, id: u64, time: u64, cpu: u32, body: &[u8]) -> Vec<u8> {
        let chain = [3, 1, 2, 3].map(|number| self.u64(number)).concat();
        self.record(9, &[self.stamp(id, time, cpu), chain, self.raw(body)].concat())
    }

    fn stamp(&self, id: u64, time: u64, cpu: u32) -> Vec<u8> {
        [self.u64(id), self.u32(5), self.u32(5), self.u64(time), self.u32(cpu), self.u32(0)]
            .concat()
    }

    fn raw(&self, body: &[u8]) -> Vec<u8> {
        let length = (body.len() + 4).next_multiple_of(8) - 4;
        let mut raw = [self.u32(length as u32), body.to_vec()].concat();
        raw.resize(4 + length, 0xee);
        raw
    }

    fn record(&self, kind: u32, content: &[u8]) -> Vec<u8> {
        let size = u16::try_from(content.len() + 8).unwrap();
        let size = if self.0.big_endian { size.to_be_bytes() } else { size.to_le_bytes() };
        [self.u32(kind), vec![0, 0], size.to_vec(), content.to_vec()].concat()
    }
}

/// The miniature trace.dat that perf keeps: the head of ours up to the formats, under its version.
fn tracing_data(encoding: Encoding) -> Vec<u8> {
    let mut header = header(Version::V6, Compression::None, 2);
    header.encoding = encoding;
    let whole = Writer::new(std::io::Cursor::new(Vec::new()), &header).unwrap();
    let whole = whole.finish().unwrap().into_inner();
    [b"\x17\x08\x44tracing0.6\0".as_slice(), &whole[12..]].concat()
}
