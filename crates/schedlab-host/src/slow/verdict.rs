//! What the figures say about each method, in the study's questions. Computed, never required: the
//! study's kernel is not this one.

use super::evaluate::{Figures, Results};
use serde::Serialize;

/// A question about a method and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The method's name.
    pub method: String,
    /// The question, in a few words.
    pub question: String,
    /// The answer, with its figures.
    pub answer: String,
}

/// Less than this off the ideal counts as right, as a part of it.
const RIGHT: f64 = 0.05;

/// Judges every method of the results.
#[must_use]
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut methods: Vec<&str> = results.results.iter().map(|f| f.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    let mut all = Vec::new();
    for method in methods.into_iter().filter(|method| *method != "none") {
        let of = |benchmark: &str, several: bool| -> Vec<&Figures> {
            let mine = results.results.iter().filter(|f| f.method == method);
            mine.filter(|f| f.benchmark == benchmark && (f.cpus > 1) == several).collect()
        };
        let mut say = |question: &str, answer: Option<String>| {
            if let Some(answer) = answer {
                let (method, question) = (method.to_owned(), question.to_owned());
                all.push(Verdict { method, question, answer });
            }
        };
        say("a computing loop is proportional", judge(&of("cpu", false)));
        say("computing and sleeping is right", judge(&of("sleep", false)));
        say("several processes are right", judge(&of("processes", false)));
        say("several threads are right", judge(&of("threads", false)));
        say("threads on several CPUs are right", judge(&of("threads", true)));
        say("processes on several CPUs are right", judge(&of("processes", true)));
        say("threads that meet at barriers are right", judge(&of("barrier", true)));
        say("memory stays as fast as it is", flat(&of("memory", false)));
        say("input and output stay as fast as they are", flat(&of("udp", false)));
        say("CPU time shows the slowing", cpu_time(&of("cpu", false)));
        say("the controller is cheap", controller(results, method));
    }
    all
}

/// How far off the ideal the worst point is.
fn judge(figures: &[&Figures]) -> Option<String> {
    let off = |f: &&&Figures| (f.reached().0 / f.ideal - 1.0).abs();
    let worst = figures.iter().max_by(|a, b| off(a).total_cmp(&off(b)))?;
    let (reached, interval) = worst.reached();
    let off = reached / worst.ideal - 1.0;
    let interval = interval
        .map(|(low, high)| format!(", 95% interval {:.1} to {:.1}%", low * 100.0, high * 100.0))
        .unwrap_or_default();
    let word = if off.abs() <= RIGHT { "yes" } else { "no" };
    Some(format!(
        "{word}: at worst {:.1}% instead of {:.1}% of full speed ({:+.1}%), at a speed of {:.0}%{interval}",
        reached * 100.0,
        worst.ideal * 100.0,
        off * 100.0,
        worst.speed * 100.0,
    ))
}

/// Whether the rate at the lowest speed is nearer to full speed than to the speed.
fn flat(figures: &[&Figures]) -> Option<String> {
    let lowest = figures.iter().min_by(|a, b| a.speed.total_cmp(&b.speed))?;
    let (reached, _) = lowest.reached();
    let word = match reached {
        r if r >= 1.0 - RIGHT => "yes",
        r if r > (1.0 + lowest.speed) / 2.0 => "partly",
        _ => "no",
    };
    Some(format!(
        "{word}: {:.1}% of full speed at a speed of {:.0}%",
        reached * 100.0,
        lowest.speed * 100.0
    ))
}

fn cpu_time(figures: &[&Figures]) -> Option<String> {
    let lowest = figures.iter().min_by(|a, b| a.speed.total_cmp(&b.speed))?;
    let ideal = 1.0 / lowest.speed;
    let word = if lowest.cpu_time > (1.0 + ideal) / 2.0 { "yes" } else { "no" };
    Some(format!(
        "{word}: {:.2} times the CPU time for the same work at a speed of {:.0}%; a slower clock would take {ideal:.2}",
        lowest.cpu_time,
        lowest.speed * 100.0
    ))
}

/// CPU time of the controller outside its burners, by the number of tasks that it looks after.
fn controller(results: &Results, method: &str) -> Option<String> {
    let of = |benchmark: &str| {
        let mine = results.results.iter().filter(|f| f.method == method);
        mine.filter(|f| f.benchmark == benchmark).map(|f| f.controller).max_by(f64::total_cmp)
    };
    let (few, many) = (of("cpu")?, of("processes").unwrap_or(0.0));
    let word = if few.max(many) < 0.005 { "yes" } else { "no" };
    Some(format!(
        "{word}: {:.2}% of a CPU for one process, {:.2}% for several",
        few * 100.0,
        many * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(benchmark: &str, cpus: usize, ideal: f64, relative: &[f64]) -> Figures {
        Figures {
            method: "stop".into(),
            benchmark: benchmark.into(),
            cpus,
            speed: 0.5,
            unit: String::new(),
            measured: relative.to_vec(),
            mean: 0.0,
            ci95: None,
            relative: relative.to_vec(),
            ideal,
            cpu_time: 1.0,
            controller: 0.001,
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let results = Results {
            results: vec![
                figures("cpu", 1, 0.5, &[0.50, 0.51, 0.49]),
                figures("processes", 1, 0.5, &[0.99, 1.0, 1.0]),
                figures("memory", 1, 1.0, &[0.5, 0.5]),
                figures("threads", 2, 0.5, &[0.26, 0.25, 0.25]),
            ],
            ..Results::default()
        };
        let all = verdicts(&results);
        let answer = |question: &str| {
            let found = all.iter().find(|verdict| verdict.question.contains(question));
            found.map(|verdict| verdict.answer.split(':').next().unwrap().to_owned())
        };
        assert_eq!(answer("computing loop").as_deref(), Some("yes"));
        assert_eq!(answer("several processes").as_deref(), Some("no"));
        assert_eq!(answer("memory").as_deref(), Some("no"));
        assert_eq!(answer("threads on several").as_deref(), Some("no"));
        assert_eq!(answer("CPU time").as_deref(), Some("no"));
        assert_eq!(answer("cheap").as_deref(), Some("yes"));
        assert_eq!(answer("barriers"), None, "what was not measured is not judged");
    }
}
