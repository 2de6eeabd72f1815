//! One small file of each format, cut at every offset: no reader panics, tells more than the whole holds, or
//! keeps silent about what is missing.

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

/// Cuts `whole` at every offset. Where `said` holds, events that are missing are told. How many of the cut files
/// could be read.
fn at_every_offset(what: &str, whole: &[u8], said: bool) -> usize {
    let (all, _) = read(whole).unwrap();
    assert!(all > 3, "{what}: {all} events");
    let mut useful = 0;
    for length in 0..whole.len() {
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
fn a_trace_dat_cut_at_every_offset() {
    for (version, compression) in KINDS {
        let whole = small(&header(version, compression, 3));
        assert!(at_every_offset(&format!("{version:?}"), &whole, true) > 100);
    }
    for name in ["corpus/zlib.dat", "corpus/absolute.dat", "corpus/buffers.dat"] {
        assert!(at_every_offset(name, &corpus(name), true) > 100);
    }
}

#[test]
fn a_perf_data_cut_at_every_offset() {
    for name in ["little.data", "big.data"] {
        let whole = corpus(&format!("fuzz/corpus/perf/{name}"));
        let useful = at_every_offset(name, &whole, true);
        assert_eq!(useful, 0, "{name}: what its samples mean stands behind them");
    }
    // A pipe may end behind any record.
    assert!(at_every_offset("pipe", &piped(), false) > 100);
}

/// A text may end behind any line, and a Perfetto trace behind any packet: those say nothing.
#[test]
fn a_text_and_a_perfetto_trace_cut_at_every_offset() {
    for name in ["text/x.txt", "perfetto/x.pftrace"] {
        let whole = corpus(&format!("fuzz/corpus/{name}"));
        assert!(at_every_offset(name, &whole, false) > 1000);
    }
}
