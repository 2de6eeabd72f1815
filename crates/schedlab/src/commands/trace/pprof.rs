//! Stacks in the format of pprof: a `Profile` of protocol buffers, packed by gzip
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>).
//!
//! Of the format this takes what names and sums need: strings, functions and locations without addresses, samples with a
//! count of nanoseconds.

use flate2::Compression;
use flate2::write::GzEncoder;
use schedlab_timeline::FoldedStack;
use schedlab_trace::protobuf::{bytes, number, varint};
use std::collections::BTreeMap;
use std::io::{self, Write as _};

/// Fields of `Profile`.
const SAMPLE_TYPE: u32 = 1;
const SAMPLE: u32 = 2;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRING_TABLE: u32 = 6;
const DURATION_NANOS: u32 = 10;

/// A profile `of` a kind of time in these stacks; the first frame of each, the command, is its outermost function. `duration_ns`: how long
/// was looked.
pub(super) fn profile(of: &str, stacks: &[FoldedStack], duration_ns: u64) -> io::Result<Vec<u8>> {
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    let mut in_order: Vec<&str> = Vec::new();
    let mut out = Vec::new();
    // The first string is empty, then come those of the type.
    let fixed = ["", of, "nanoseconds"];
    let mut kind = Vec::new();
    number(&mut kind, 1, 1);
    number(&mut kind, 2, 2);
    bytes(&mut out, SAMPLE_TYPE, &kind);
    for stack in stacks {
        let mut locations = Vec::new();
        // The innermost one comes first.
        for frame in stack.frames.iter().rev() {
            let next = names.len() as u64 + 1;
            let id = *names.entry(frame).or_insert(next);
            if id == next {
                in_order.push(frame);
            }
            varint(&mut locations, id);
        }
        let mut sample = Vec::new();
        let mut value = Vec::new();
        varint(&mut value, stack.time.0);
        bytes(&mut sample, 1, &locations);
        bytes(&mut sample, 2, &value);
        bytes(&mut out, SAMPLE, &sample);
    }
    for id in 1..=in_order.len() as u64 {
        let mut location = Vec::new();
        let mut line = Vec::new();
        let mut function = Vec::new();
        number(&mut line, 1, id);
        number(&mut location, 1, id);
        bytes(&mut location, 4, &line);
        bytes(&mut out, LOCATION, &location);
        number(&mut function, 1, id);
        number(&mut function, 2, id + fixed.len() as u64 - 1);
        bytes(&mut out, FUNCTION, &function);
    }
    for text in fixed.iter().chain(&in_order) {
        bytes(&mut out, STRING_TABLE, text.as_bytes());
    }
    number(&mut out, DURATION_NANOS, duration_ns);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&out)?;
    packed.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Nanos;
    use std::io::Read as _;

    #[test]
    fn a_profile_is_spelt_as_the_format_says() {
        let stack = |frames: &[&str], time| FoldedStack {
            frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            time: Nanos(time),
        };
        let stacks = [stack(&["c", "main"], 300), stack(&["c"], 5)];
        let packed = profile("off_cpu", &stacks, 1).unwrap();
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut plain).unwrap();
        let expected: Vec<u8> = [
            &[0x0a, 4, 0x08, 1, 0x10, 2][..],
            // The sample: locations 1 (main) and 2 (c), 300 ns.
            &[0x12, 8, 0x0a, 2, 1, 2, 0x12, 2, 0xac, 0x02],
            &[0x12, 6, 0x0a, 1, 2, 0x12, 1, 5],
            &[0x22, 6, 0x08, 1, 0x22, 2, 0x08, 1, 0x2a, 4, 0x08, 1, 0x10, 3],
            &[0x22, 6, 0x08, 2, 0x22, 2, 0x08, 2, 0x2a, 4, 0x08, 2, 0x10, 4],
            &[0x32, 0],
            b"\x32\x07off_cpu",
            b"\x32\x0bnanoseconds",
            b"\x32\x04main",
            b"\x32\x01c",
            &[0x50, 1],
        ]
        .concat();
        assert_eq!(plain, expected);
    }
}
