//! User marks as records: a tracepoint format of our own, which trace-cmd prints as any other.
//!
//! A mark says that a phase of a workload, or a job, begins, ends, or happened. Its record has the
//! common head of a kernel record, so that it lies among the kernel's on the same CPU's rows.

use schedlab_model::{Phase, Pid};
use std::fmt::Write as _;

/// The system of the format, as the file lists it.
pub const SYSTEM: &str = "schedlab";
/// The name of the format.
pub const NAME: &str = "mark";

/// The format text of marks under the event id `id`, which no other format of the file may have.
///
/// The names are part of the text, so that a reader that knows nothing of us prints them; quotes,
/// backslashes and control characters in them are spelled `'` there.
#[must_use]
pub fn format_text(id: u16, names: &[String]) -> String {
    let clean = |c: char| if c.is_control() || matches!(c, '"' | '\\') { '\'' } else { c };
    let mut symbols = String::new();
    for (index, name) in names.iter().enumerate() {
        let name: String = name.chars().map(clean).collect();
        let _ = write!(symbols, ", {{ {index}, \"{name}\" }}");
    }
    if symbols.is_empty() {
        symbols.push_str(", { 0, \"mark\" }");
    }
    format!(
        "name: {NAME}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:unsigned int mark;\toffset:12;\tsize:4;\tsigned:0;\n\
         \tfield:unsigned int phase;\toffset:16;\tsize:4;\tsigned:0;\n\
         \tfield:unsigned int request;\toffset:20;\tsize:4;\tsigned:0;\n\n\
         print fmt: \"%s %s pid=%d request=%u\", \
         __print_symbolic(REC->phase, {{ 0, \"begin\" }}, {{ 1, \"end\" }}, {{ 2, \"point\" }}), \
         __print_symbolic(REC->mark{symbols}), REC->pid, REC->request\n"
    )
}

/// The names in a format text of [`format_text`], for files that tell them nowhere else.
pub(crate) fn names(format: &str) -> Vec<String> {
    let list = format.rsplit_once("REC->mark").map_or("", |parts| parts.1);
    let list = list.rsplit_once("REC->pid").map_or("", |parts| parts.0);
    let entries = list.split("{ ").skip(1);
    entries.filter_map(|entry| Some(entry.split('"').nth(1)?.to_owned())).collect()
}

/// The body of a mark's record (little-endian): `by` logged it, it concerns `pid`. `mark` is the number of
/// the mark's name; `request` is 0 if there is none.
#[must_use]
pub fn body(id: u16, by: Pid, pid: Pid, mark: u32, phase: Phase, request: u32) -> [u8; 24] {
    let phase: u32 = match phase {
        Phase::Begin => 0,
        Phase::End => 1,
        Phase::Point => 2,
    };
    let mut body = [0; 24];
    body[0..2].copy_from_slice(&id.to_le_bytes());
    body[4..8].copy_from_slice(&by.0.to_le_bytes());
    body[8..12].copy_from_slice(&pid.0.to_le_bytes());
    body[12..16].copy_from_slice(&mark.to_le_bytes());
    body[16..20].copy_from_slice(&phase.to_le_bytes());
    body[20..24].copy_from_slice(&request.to_le_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_out_of_the_format() {
        let marks = ["warm-up".to_owned(), "a, {b}".to_owned()];
        assert_eq!(names(&format_text(7, &marks)), marks);
        assert_eq!(names("print fmt: nonsense"), Vec::<String>::new());
    }
}
