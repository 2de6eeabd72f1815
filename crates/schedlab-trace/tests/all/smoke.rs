//! The bodies of the fuzz targets on seeded random input: what a stable toolchain can check.

use crate::bodies;
use schedlab_random::XorShiftStar;
use std::path::Path;

/// Seeded, so that a failure comes back with its seed.
struct Random(XorShiftStar);

impl Random {
    fn draw(&mut self) -> usize {
        (self.0.bits() >> 33) as usize
    }
}

/// `seed` with some bytes changed, a piece cut out or doubled.
fn mutated(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.draw() % 8 {
        let length = bytes.len().max(1);
        let at = random.draw() % length;
        match random.draw() % 4 {
            0 if at < bytes.len() => bytes[at] = random.draw() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << (random.draw() % 8),
            2 => bytes.truncate(at),
            _ => {
                let end = (at + random.draw() % 64).min(bytes.len());
                let piece = bytes.get(at..end).unwrap_or_default().to_vec();
                bytes.splice(at.min(bytes.len())..at.min(bytes.len()), piece);
            }
        }
    }
    bytes
}

#[test]
fn no_reader_panics_on_damaged_traces() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let seeds = ["corpus/zlib.dat", "corpus/lost.dat", "fuzz/corpus/text/x.txt"];
    let more = [
        "fuzz/corpus/perfetto/x.pftrace",
        "fuzz/corpus/perf/little.data",
        "fuzz/corpus/perf/big.data",
    ];
    let mut random = Random(XorShiftStar::new(0x5eed));
    for name in seeds.into_iter().chain(more) {
        let seed = std::fs::read(root.join(name)).unwrap();
        for _ in 0..150 {
            let bytes = mutated(&seed, &mut random);
            bodies::read(&bytes);
            if name.starts_with("fuzz/corpus/perf/") {
                bodies::read_perf(&bytes);
            }
        }
    }
}

#[test]
fn threads_tell_what_one_tells_of_damaged_traces() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut random = Random(XorShiftStar::new(0x7ead));
    for name in
        ["corpus/lost.dat", "corpus/zlib.dat", "corpus/buffers.dat", "corpus/big_endian.dat"]
    {
        let seed = std::fs::read(root.join(name)).unwrap();
        for _ in 0..1500 {
            bodies::read_together(&mutated(&seed, &mut random));
        }
    }
}

/// Found by the fuzzer: a round whose events are in disorder gave out times that went back.
#[test]
fn a_perf_data_in_disorder_still_ascends() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    bodies::read_perf(&std::fs::read(root.join("fuzz/corpus/perf/late.data")).unwrap());
}

#[test]
fn no_reader_panics_on_noise_behind_its_magic() {
    let mut random = Random(XorShiftStar::new(0xbad));
    for magic in
        [b"\x17\x08\x44tracing6\0\0\x08".as_slice(), b"PERFILE2", b"2ELIFREP", b"\x0a", b""]
    {
        for length in [0, 1, 7, 64, 300, 5000] {
            for _ in 0..20 {
                let noise: Vec<u8> = (0..length).map(|_| random.draw() as u8).collect();
                bodies::read_after(magic, &noise);
            }
        }
    }
}

#[test]
fn no_format_text_panics() {
    let mut random = Random(XorShiftStar::new(7));
    let text = schedlab_trace::mark::format_text(7, &["a".into()]);
    for _ in 0..2_000 {
        bodies::format(&mutated(text.as_bytes(), &mut random));
    }
}
