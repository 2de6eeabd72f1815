//! `--beside '[LABEL:] WORKLOAD [OPTIONS]'`: what runs at the same time as the workload.
//!
//! It may stand more than once, as `--knob` may, so both are taken out of the words before the options are read, of
//! which the last one counts.

use super::{usage, words_of};
use schedlab_workload::{Beside, WorkloadSpec};

/// Splits `words` into what stands after each `--OPTION`, and the others. Those after `--` are a command's.
pub(super) fn part(option: &str, words: &[String]) -> Result<(Vec<String>, Vec<String>), String> {
    let mut lines = Vec::new();
    let mut others = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let typed = word.strip_prefix("--").and_then(|word| word.strip_prefix(option));
        if word == "--" {
            others.push(word.clone());
            others.extend(words.by_ref().cloned());
        } else if let Some(line) = typed.and_then(|rest| rest.strip_prefix('=')) {
            lines.push(line.to_owned());
        } else if typed == Some("") {
            let line = words.next();
            lines.push(line.ok_or(format!("option '--{option}' requires an argument"))?.clone());
        } else {
            others.push(word.clone());
        }
    }
    Ok((lines, others))
}

/// Reads a line. Without a label it is the name of the workload.
pub(super) fn read(line: &str) -> anyhow::Result<Beside> {
    let told = |why: &dyn std::fmt::Display| usage(format!("option beside: '{line}': {why}"));
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let label = match words.first().and_then(|first| first.strip_suffix(':')) {
        Some(label) => {
            let label = label.to_owned();
            words.remove(0);
            Some(label)
        }
        None => None,
    };
    let Some((name, rest)) = words.split_first() else {
        return Err(told(&"missing workload: use '[LABEL:] WORKLOAD [OPTIONS]'"));
    };
    let (_, options) = words_of(name, rest, &[]).map_err(|e| told(&format!("{e:#}")))?;
    let workload = WorkloadSpec::Builtin { name: name.clone(), options };
    Ok(Beside { label: label.unwrap_or_else(|| name.clone()), workload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_out_wherever_they_stand() {
        let words: Vec<String> =
            ["schbench", "--beside", "cpu --tasks 2", "-r", "5", "--beside=udp"]
                .map(str::to_owned)
                .to_vec();
        let (lines, others) = part("beside", &words).unwrap();
        assert_eq!(lines, ["cpu --tasks 2", "udp"]);
        assert_eq!(others, ["schbench", "-r", "5"]);
        assert!(part("beside", &["cpu".to_owned(), "--beside".to_owned()]).is_err());
        let theirs = ["command", "--", "x", "--knob", "a"].map(str::to_owned);
        assert_eq!(part("knob", &theirs).unwrap(), (Vec::new(), theirs.to_vec()));
    }

    #[test]
    fn a_line_has_a_label_or_takes_the_name_of_its_workload() {
        let one = read("noise: cpu --tasks 2 --nice 10").unwrap();
        assert_eq!(one.label, "noise");
        let WorkloadSpec::Builtin { name, options } = &one.workload else { unreachable!() };
        assert_eq!((name.as_str(), options["tasks"].as_str()), ("cpu", "2"));
        assert_eq!(read("cpu").unwrap().label, "cpu");
        for (line, part) in [
            ("", "missing workload"),
            ("x:", "missing workload"),
            ("frob", "frob"),
            ("cpu -Z", "'Z'"),
        ] {
            let error = format!("{:#}", read(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
