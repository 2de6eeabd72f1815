//! What each fuzz target does with its bytes. The seeded smoke tests of `schedlab-trace` do the same
//! on stable Rust, so that a body that no longer holds is found without a fuzzer.

use schedlab_trace::{Options, format::Format, open_bytes_with};
use std::path::Path;

/// Reads `bytes` as a trace, whatever it is, to its end.
///
/// No input may panic or loop for ever; events ascend in time.
pub(crate) fn read(bytes: &[u8]) {
    let options = Options { arguments: true, ..Options::default() };
    let opened = open_bytes_with(Path::new("fuzz"), bytes.to_vec(), &options);
    let Ok(mut source) = opened else { return };
    let mut batch = Vec::new();
    let mut last = schedlab_model::Nanos::ZERO;
    while source.next(&mut batch).expect("memory can be read") {
        assert!(!batch.is_empty(), "a batch that is not the last has events");
        for (index, event) in batch.iter().enumerate() {
            assert!(event.time >= last, "time goes back");
            last = event.time;
            assert!(source.arguments(index).is_none_or(|text| !text.contains('\n')));
        }
    }
}

/// Reads `bytes` as a trace with one thread and with three, by portions as small as they get.
///
/// Events and warnings are the same.
pub(crate) fn read_together(bytes: &[u8]) {
    let told = |threads, portion| {
        let options = Options { threads, portion, ..Options::default() };
        let mut source = open_bytes_with(Path::new("fuzz"), bytes.to_vec(), &options).ok()?;
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while source.next(&mut batch).expect("memory can be read") {
            all.append(&mut batch);
        }
        Some((all, source.warnings().to_vec()))
    };
    assert!(told(1, None) == told(3, Some(1)), "three threads tell another story than one");
}

/// Reads `bytes` with a format's magic before them.
pub(crate) fn read_after(magic: &[u8], bytes: &[u8]) {
    read(&[magic, bytes].concat());
}

/// Reads `bytes` as a perf.data of either byte order: eight of them give way to its magic.
pub(crate) fn read_perf(bytes: &[u8]) {
    let magic = if bytes.first() == Some(&b'2') { b"2ELIFREP" } else { b"PERFILE2" };
    read_after(magic, bytes.get(8..).unwrap_or_default());
}

/// Parses `bytes` as a format text.
pub(crate) fn format(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(format) = Format::parse("sched", &text) {
        assert!(!format.fields.iter().any(|field| field.name.contains('\n')));
    }
}
