//! When jobs ran, as text or as JSON for Perfetto.

use schedlab_jobs::run::Span;
use std::fmt::Write;

/// One line for each job, when it ended: time in microseconds, worker, job.
pub(super) fn text(jobs: &[Span]) -> String {
    let mut ended: Vec<&Span> = jobs.iter().collect();
    ended.sort_by_key(|job| (job.end, job.worker, job.node));
    ended.into_iter().fold(String::new(), |mut text, job| {
        let at = us(job.end);
        let took_ns = job.end.saturating_sub(job.begin);
        let _ = writeln!(text, "{at:>16} w{} job {} took {took_ns} ns", job.worker, job.node);
        text
    })
}

/// The JSON of Perfetto (and Chrome): a thread for each worker, a slice for each job.
pub(super) fn perfetto(workers: usize, jobs: &[Span]) -> String {
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for worker in 0..workers {
        let _ = writeln!(
            text,
            "{{\"ph\":\"M\",\"pid\":1,\"tid\":{worker},\"name\":\"thread_name\",\"args\":{{\"name\":\"worker {worker}\"}}}},"
        );
    }
    for job in jobs {
        let begin = us(job.begin);
        let took = us(job.end.saturating_sub(job.begin));
        let _ = writeln!(
            text,
            "{{\"ph\":\"X\",\"dur\":{took},\"pid\":1,\"tid\":{},\"ts\":{begin},\"name\":\"job {}\"}},",
            job.worker, job.node
        );
    }
    text.push_str(
        "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"jobs\"}}\n]}\n",
    );
    text
}

/// Microseconds with three decimals, exactly.
fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
