//! What the figures say about each method, in the study's questions. Computed, never required: the
//! study's kernel is not this one.

use super::{Figures, Results};
use schemars::JsonSchema;
use serde::Serialize;

/// A question about a method and its answer.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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

/// An interval that is wider than this, as a part of the ideal, says nothing.
const WIDE: f64 = 0.3;

/// More than this between the task that did most and the one that did least is uneven, as a part of
/// their mean.
const UNEVEN: f64 = 0.25;

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
                let method = method.to_owned();
                let question = question.to_owned();
                all.push(Verdict { method, question, answer });
            }
        };
        say("a computing loop is proportional", judge(&of("cpu", false)));
        say("computing and sleeping is right", judge(&of("mixed", false)));
        say("several processes are right", judge(&of("processes", false)));
        say("several threads are right", judge(&of("threads", false)));
        say("threads on several CPUs are right", judge(&of("threads", true)));
        say("processes on several CPUs are right", judge(&of("processes", true)));
        say("threads that meet at barriers are right", judge(&of("barrier", true)));
        say("memory stays as fast as it is", flat(&of("stream", false)));
        say("input and output stay as fast as they are", flat(&of("udp", false)));
        say("CPU time shows the slowing", cpu_time(&of("cpu", false)));
        say("tasks fare alike", even(&of("threads", true), &of("threads", false)));
        say("the controller is cheap", controller(results, method));
    }
    all
}

/// How far off the ideal a point is, as a part of it.
fn off(figures: &Figures) -> f64 {
    figures.reached().0 / figures.ideal - 1.0
}

/// What the repeats of a point allow to say: right, wrong, or nothing as yet.
fn is_right(figures: &Figures) -> Option<bool> {
    let (low, high) = figures.reached().1?;
    let holds = low <= figures.ideal && figures.ideal <= high;
    match off(figures).abs() <= RIGHT {
        true => ((high - low) / figures.ideal <= WIDE).then_some(true),
        false => (!holds).then_some(false),
    }
}

/// How far off the ideal the worst point is, of those that are surely wrong where there are any.
fn judge(figures: &[&Figures]) -> Option<String> {
    let worst = |word: Option<bool>| {
        let those = figures.iter().filter(|f| is_right(f) == word);
        those.max_by(|a, b| off(a).abs().total_cmp(&off(b).abs()))
    };
    let (word, worst) = worst(Some(false))
        .map(|f| ("no", f))
        .or_else(|| worst(None).map(|f| ("unclear, for want of repeats", f)))
        .or_else(|| worst(Some(true)).map(|f| ("yes", f)))?;
    let (reached, interval) = worst.reached();
    let interval = interval
        .map(|(low, high)| format!(", 95% interval {:.1} to {:.1}%", low * 100.0, high * 100.0))
        .unwrap_or_default();
    Some(format!(
        "{word}: at worst {:.1}% instead of {:.1}% of full speed ({:+.1}%), at a speed of {:.0}%{interval}",
        reached * 100.0,
        worst.ideal * 100.0,
        off(worst) * 100.0,
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

/// How far apart the tasks of one run were, on average over the runs of the worst point.
fn even(several: &[&Figures], one: &[&Figures]) -> Option<String> {
    let all = several.iter().chain(one);
    let worst = all.max_by(|a, b| a.unfairness.total_cmp(&b.unfairness))?;
    let word = if worst.unfairness <= UNEVEN { "yes" } else { "no" };
    let cpus = if worst.cpus == 1 { "one CPU".to_owned() } else { format!("{} CPUs", worst.cpus) };
    Some(format!(
        "{word}: at worst the most and the least of threads on {cpus} were {:.0}% of the mean apart, at a speed of {:.0}%",
        worst.unfairness * 100.0,
        worst.speed * 100.0
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

/// CPU time of the controller outside its burners, by the number of tasks and CPUs that it looks after.
fn controller(results: &Results, method: &str) -> Option<String> {
    let of = |benchmark: &str, several: bool| {
        let mine = results.results.iter().filter(|f| f.method == method);
        mine.filter(|f| f.benchmark == benchmark && (f.cpus > 1) == several)
            .map(|f| f.controller)
            .max_by(f64::total_cmp)
    };
    let few = of("cpu", false)?;
    let more =
        [("several", of("processes", false)), ("several on several CPUs", of("processes", true))];
    let worst = more.iter().filter_map(|(_, part)| *part).fold(few, f64::max);
    let word = if worst < 0.005 { "yes" } else { "no" };
    let mut answer = format!("{word}: {:.2}% of a CPU for one process", few * 100.0);
    for (name, part) in more {
        answer.extend(part.map(|part| format!(", {:.2}% for {name}", part * 100.0)));
    }
    Some(answer)
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
            unfairness: 0.0,
            controller: 0.001,
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let results = Results {
            results: vec![
                figures("cpu", 1, 0.5, &[0.50, 0.51, 0.49]),
                figures("processes", 1, 0.5, &[0.99, 1.0, 1.0]),
                figures("stream", 1, 1.0, &[0.5, 0.5]),
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

    #[test]
    fn what_the_repeats_do_not_show_is_not_judged() {
        let told = |relative: &[f64]| is_right(&figures("cpu", 1, 0.5, relative));
        assert_eq!(told(&[0.50, 0.51, 0.49]), Some(true));
        assert_eq!(told(&[0.80, 0.81, 0.79]), Some(false));
        assert_eq!(told(&[0.80, 0.40, 0.60]), None, "the ideal lies in the interval");
        assert_eq!(told(&[0.70, 0.30, 0.50]), None, "right by chance");
        assert_eq!(told(&[0.8]), None, "one run has no interval");
        let (wrong, unclear) =
            (figures("cpu", 1, 0.5, &[0.6, 0.61, 0.6]), figures("cpu", 1, 0.5, &[1.2, 0.1, 0.9]));
        assert!(judge(&[&unclear, &wrong]).unwrap().starts_with("no: at worst 60.3%"));
        assert!(judge(&[&unclear]).unwrap().starts_with("unclear"));
    }
}
