//! What a process answered: the jobs that ran, those that it dropped, or what it cannot do.

use super::line;
use crate::RigError;
use crate::error::While;
use schedlab_jobs::run::DropReason;
use serde_json::Value;
use std::io::{BufRead, Read as _};

/// Bytes of a line: one without an end would take all memory.
const LINE_MAX: usize = 1 << 20;
/// Characters of a wrong line that its error repeats.
const SHOWN: usize = 120;

pub(super) struct Ran {
    pub(super) job: u32,
    pub(super) worker: u32,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// What its work gave; none in events that were written by themselves.
    pub(super) value: Option<u64>,
    /// The thread id of its worker, where it is reported.
    pub(super) thread: Option<i32>,
}

/// A job that was dropped.
pub(super) struct Dropped {
    pub(super) job: u32,
    pub(super) why: DropReason,
    /// When that was decided.
    pub(super) at: u64,
}

/// What a process said.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) ran: Vec<Ran>,
    pub(super) gone: Vec<Dropped>,
    /// What it cannot do.
    pub(super) not_offered: Option<String>,
}

/// The lines of an executor, for a graph of so many jobs. If it was given that graph and a number of workers, each line
/// must keep to them.
pub(super) fn read_lines(
    mut lines: impl BufRead,
    jobs: u32,
    workers: Option<usize>,
) -> Result<Answer, RigError> {
    let given = workers.map(|workers| (jobs, workers));
    let mut all = Answer::default();
    let mut bytes = Vec::new();
    for number in 1.. {
        let at = format!("line {number}");
        let Some(line) = next_line(&mut lines, &mut bytes).while_doing(at.as_str())? else { break };
        if line.trim().is_empty() {
            continue;
        }
        let start: String = line.trim_end().chars().take(SHOWN).collect();
        let value: Value =
            serde_json::from_str(line).while_doing(format!("{at}: invalid JSON `{start}`"))?;
        if value.get("done").is_some() {
            break;
        }
        if let Some(what) = value.get("not_offered").and_then(Value::as_str) {
            all.not_offered = Some(what.to_owned());
            break;
        }
        // One more than there are jobs is somebody's repeat, which the check of all of them names.
        let answers = (all.ran.len() + all.gone.len()) as u64;
        if answers > u64::from(jobs) {
            return Err(RigError::Wrong(format!("{at}: more answers than jobs")));
        }
        if value.get("dropped").is_some() {
            all.gone.push(one_gone(value, given).while_doing(at)?);
            continue;
        }
        all.ran.push(one_line(value, given).while_doing(at)?);
    }
    Ok(all)
}

/// The next line, `None` at the end. `bytes` is room for it.
fn next_line<'b>(
    lines: &mut impl BufRead,
    bytes: &'b mut Vec<u8>,
) -> Result<Option<&'b str>, RigError> {
    bytes.clear();
    let limit = LINE_MAX as u64 + 1;
    if lines.by_ref().take(limit).read_until(b'\n', bytes)? == 0 {
        return Ok(None);
    }
    if bytes.len() > LINE_MAX {
        return Err(RigError::wrong("longer than 1 MiB"));
    }
    std::str::from_utf8(bytes).map(Some).while_doing("not UTF-8")
}

fn one_gone(line: Value, given: Option<(u32, usize)>) -> Result<Dropped, RigError> {
    let line: line::DroppedLine = serde_json::from_value(line).while_doing("it drops no job")?;
    let line::DroppedLine { job, dropped, at_ns: at } = line;
    match given {
        None => Err(RigError::wrong("events of a file tell of jobs that ran")),
        Some((jobs, _)) if job >= jobs => Err(no_job(job, jobs)),
        Some(_) => {
            let why = match dropped {
                line::Why::Missed => DropReason::Missed,
                line::Why::Abandoned => DropReason::Abandoned,
            };
            Ok(Dropped { job, why, at })
        }
    }
}

fn no_job(job: u32, jobs: u32) -> RigError {
    RigError::Wrong(format!("unknown job {job}: the graph has {jobs} jobs, from 0"))
}

fn one_line(line: Value, given: Option<(u32, usize)>) -> Result<Ran, RigError> {
    let line: line::Ran =
        serde_json::from_value(line).while_doing("missing number of the job (`job`)")?;
    let value = line.value.map(|text| {
        let value = u64::from_str_radix(&text, 16).ok();
        value.while_doing("invalid `value`: use a text of up to 16 hexadecimal digits")
    });
    let ran = Ran {
        job: line.job,
        worker: line.worker,
        begin: line.begin_ns,
        end: line.end_ns,
        value: value.transpose()?,
        thread: line.tid,
    };
    let Ran { job, worker, begin, end, value, .. } = &ran;
    let wrong = match given {
        _ if end < begin => format!("job {job} ends before it begins"),
        Some((jobs, _)) if *job >= jobs => return Err(no_job(*job, jobs)),
        Some((_, workers)) if *worker as usize >= workers => {
            format!("unknown worker {worker}: the run has {workers} workers, from 0")
        }
        Some(_) if value.is_none() => {
            "missing `value`: write the result of the job's work".to_owned()
        }
        _ => return Ok(ran),
    };
    Err(RigError::Wrong(wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(lines: &str) -> String {
        let read = read_lines(lines.as_bytes(), 2, Some(1));
        read.err().expect("it is wrong").sentence()
    }

    #[test]
    fn what_an_executor_writes_without_end_is_an_error() {
        let long = "a".repeat(LINE_MAX + 1);
        assert_eq!(error(&long), "line 1: longer than 1 MiB");
        assert_eq!(error(&format!("\n{long}\n{{}}")), "line 2: longer than 1 MiB");
        let shown = error(&format!("{}\n", &long[..LINE_MAX - 1]));
        assert!(shown.len() < 300 && shown.contains("invalid JSON `aaa"), "{shown}");
        let answer = r#"{"job":0,"worker":0,"begin_ns":1,"end_ns":2,"value":"0"}"#;
        let all = format!("{answer}\n").repeat(4);
        assert_eq!(error(&all), "line 4: more answers than jobs");
        let events = read_lines(all.as_bytes(), 2, None).err().expect("of a file too");
        assert_eq!(events.sentence(), "line 4: more answers than jobs");
    }
}
