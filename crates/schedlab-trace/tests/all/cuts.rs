//! One small file of each format, cut at each third offset: no reader panics, tells more than the whole holds, or
//! keeps silent about what is missing. Kinds of a format begin at another of three, so that all are met.

use crate::common::{header, small};
use crate::dat::KINDS;
use crate::perf_file::piped;
use schedlab_trace::open_bytes;
use std::path::Path;

/// How many events `bytes` hold, and whether anything was said; `None` where they cannot be opened.
fn read(bytes: &[u8]) -> Option<(usize, bool)> {
    let mut source = open_bytes(Path::new("cut"), bytes.to_vec()).ok()?;
    let (mut batch, mut count) = (Vec::new(), 0);
    while source.next(&mut batch).unwrap() {
        count += batch.len();
    }
    Some((count, !source.warnings().is_empty()))
}

/// Cuts `whole` at each third offset from `first`. Where `said` holds, events that are missing are told. How many of the cut
/// files could be read.
fn at_offsets(what: &str, whole: &[u8], first: usize, said: bool) -> usize {
    let (all, _) = read(whole).unwrap();
    assert!(all > 3, "{what}: {all} events");
    let mut useful = 0;
    for length in (first..whole.len()).step_by(3) {
        let Some((count, warned)) = read(&whole[..length]) else { continue };
        useful += usize::from(count > 0);
        assert!(count <= all, "{what} cut at {length}: {count} events of {all}");
        assert!(
            !said || warned || count == all,
            "{what} cut at {length}: {count} of {all}, in silence"
        );
    }
    useful
}

fn corpus(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read(root.join(name)).unwrap()
}

#[test]
fn a_trace_dat_cut_at_offsets() {
    for (first, (version, compression)) in KINDS.into_iter().enumerate() {
        let whole = small(&header(version, compression, 3));
        assert!(at_offsets(&format!("{version:?}"), &whole, first % 3, true) > 30);
    }
    for (first, name) in
        ["corpus/zlib.dat", "corpus/absolute.dat", "corpus/buffers.dat"].into_iter().enumerate()
    {
        assert!(at_offsets(name, &corpus(name), first, true) > 30);
    }
}

#[test]
fn a_perf_data_cut_at_offsets() {
    for (first, name) in ["little.data", "big.data"].into_iter().enumerate() {
        let whole = corpus(&format!("fuzz/corpus/perf/{name}"));
        let useful = at_offsets(name, &whole, first, true);
        assert_eq!(useful, 0, "{name}: what its samples mean stands behind them");
    }
    // A pipe may end behind any record.
    assert!(at_offsets("pipe", &piped(), 2, false) > 30);
}

/// A text may end behind any line, and a Perfetto trace behind any packet: those say nothing.
#[test]
fn a_text_and_a_perfetto_trace_cut_at_offsets() {
    for (first, name) in ["text/x.txt", "perfetto/x.pftrace"].into_iter().enumerate() {
        let whole = corpus(&format!("fuzz/corpus/{name}"));
        assert!(at_offsets(name, &whole, first, false) > 300);
    }
}
