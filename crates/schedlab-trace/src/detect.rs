//! Detects the format of a trace from its first bytes.

use crate::error::TraceError;
use crate::{dat, perf, perfetto, text};
use std::path::Path;

/// How many bytes at the start of a file decide its format.
pub(crate) const SNIFFED: usize = 4096;

/// What a trace is by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Dat,
    Perf,
    Perfetto,
    /// A text, which may be a trace.
    Text,
}

/// The form of what starts with it. Of a text, more than [`SNIFFED`] bytes must hold an event.
pub(crate) fn form(path: &Path, start: &[u8]) -> Result<Form, TraceError> {
    if start.starts_with(dat::MAGIC) {
        return Ok(Form::Dat);
    }
    if start.starts_with(perf::MAGIC_LITTLE) || start.starts_with(perf::MAGIC_BIG) {
        return Ok(Form::Perf);
    }
    let first = &start[..start.len().min(SNIFFED)];
    if perfetto::looks_like(first) {
        return Ok(Form::Perfetto);
    }
    if !first.contains(&0) && (start.len() <= SNIFFED || text::has_event(start)) {
        return Ok(Form::Text);
    }
    Err(TraceError::unknown(path, &seen(first)))
}

/// Whether what starts with it is a trace, as far as it shows: a text must hold an event.
pub(crate) fn is_trace(start: &[u8]) -> bool {
    form(Path::new(""), start).is_ok_and(|form| form != Form::Text || text::has_event(start))
}

/// What a file begins with, in words.
pub(crate) fn seen(start: &[u8]) -> String {
    let known: [(&[u8], &str); 9] = [
        (b"\xff\xfe", "UTF-16 text: convert it with `iconv -f UTF-16 -t UTF-8`"),
        (b"\xfe\xff", "UTF-16 text: convert it with `iconv -f UTF-16 -t UTF-8`"),
        (b"\x7fELF", "an ELF program"),
        (b"\x1f\x8b", "gzip data: unpack it first"),
        (b"\x28\xb5\x2f\xfd", "zstd data: unpack it first"),
        (b"\xfd7zXZ", "xz data: unpack it first"),
        (b"PK\x03\x04", "a zip archive"),
        (b"PAR1", "a Parquet file"),
        (b"\x89PNG", "a picture"),
    ];
    if let Some((_, name)) = known.iter().find(|(magic, _)| start.starts_with(magic)) {
        return (*name).to_owned();
    }
    let text: String = start.iter().take(16).map(|byte| format!("{byte:02x} ")).collect();
    format!("it begins with {}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_known_by_how_it_begins() {
        let form = |start: &[u8]| form(Path::new("x"), start).ok();
        assert_eq!(form(b"\x17\x08\x44tracing6\0"), Some(Form::Dat));
        assert_eq!([form(b"PERFILE2"), form(b"2ELIFREP")], [Some(Form::Perf); 2]);
        assert_eq!(form(&[0x0a, 2, 0x08, 1]), Some(Form::Perfetto));
        assert_eq!(form(b"a text"), Some(Form::Text));
        assert_eq!(form(b"no\0text"), None);
    }

    #[test]
    fn a_long_text_must_hold_an_event() {
        let form = |text: String| form(Path::new("x"), text.as_bytes()).ok();
        let event = " a-1 [000] 1.5: irq: x\n";
        assert_eq!(form("x".repeat(SNIFFED)), Some(Form::Text));
        assert_eq!(form("x".repeat(SNIFFED + 1)), None);
        assert_eq!(form("x\n".repeat(SNIFFED) + event), Some(Form::Text));
    }

    #[test]
    fn what_is_no_trace_is_named_or_shown() {
        assert_eq!(seen(b"PK\x03\x04..."), "a zip archive");
        assert_eq!(seen(&[0x1f, 0x8b, 8]), "gzip data: unpack it first");
        assert_eq!(seen(&[0, 0xab]), "it begins with 00 ab");
        assert_eq!(seen(&[7; 99]), format!("it begins with {}", ["07"; 16].join(" ")));
    }
}
