//! The parsers that people run read what the drop-ins print: their rules are data (`parsers/rules.toml`),
//! the text is that of real runs in every mode that they are made for.
//!
//! A rule finds what it finds as often as it should, its values are numbers, and where the same run
//! wrote JSON, the numbers are those.

use regex_lite::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Deserialize)]
struct Rules {
    parser: Vec<Parser>,
}

#[derive(Deserialize)]
struct Parser {
    name: String,
    origin: String,
    tool: String,
    stream: String,
    /// Only the first rule that matches a line takes it.
    #[serde(default)]
    first: bool,
    /// Only the last block of each kind counts.
    #[serde(default)]
    last: bool,
    /// Nothing counts that is not followed by such a line.
    until: Option<String>,
    modes: Vec<String>,
    section: BTreeMap<String, String>,
    find: Vec<Find>,
}

#[derive(Deserialize)]
struct Find {
    #[serde(default)]
    r#in: String,
    line: String,
    group: Option<usize>,
    field: Option<usize>,
    each: String,
    is: Option<String>,
    value: Option<String>,
}

fn expression(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

impl Parser {
    /// What each rule finds in a text, in order.
    fn read(&self, text: &str) -> Vec<Vec<String>> {
        let sections: Vec<(&String, Regex)> =
            self.section.iter().map(|(name, line)| (name, expression(line))).collect();
        let rules: Vec<Regex> = self.find.iter().map(|find| expression(&find.line)).collect();
        let until = self.until.as_deref().map(expression);
        let (mut found, mut pending) =
            (vec![Vec::new(); rules.len()], vec![Vec::new(); rules.len()]);
        let mut section = String::new();
        for line in text.lines() {
            if let Some((name, _)) = sections.iter().find(|(_, begins)| begins.is_match(line)) {
                section.clone_from(name);
                if self.last {
                    let here = |at: &usize| self.find[*at].r#in == section;
                    (0..rules.len()).filter(here).for_each(|at| pending[at].clear());
                }
            }
            for (at, (find, rule)) in self.find.iter().zip(&rules).enumerate() {
                let Some(captures) =
                    rule.captures(line).filter(|_| find.r#in.is_empty() || find.r#in == section)
                else {
                    continue;
                };
                let value = match (find.group, find.field) {
                    (Some(group), _) => captures.get(group).map(|m| m.as_str()),
                    (None, field) => line.split_whitespace().nth(field.unwrap() - 1),
                };
                pending[at].push(value.unwrap_or_default().to_owned());
                if self.first {
                    break;
                }
            }
            if until.as_ref().is_none_or(|until| until.is_match(line)) {
                for (all, new) in found.iter_mut().zip(&mut pending) {
                    if self.last { all.clone_from(new) } else { all.append(new) }
                }
            }
        }
        found
    }
}

/// A run, with what is expected of it.
struct Case {
    mode: &'static str,
    words: Vec<String>,
    /// Reports before the last one, at most: a run that the machine kept waiting leaves some out.
    intervals: usize,
    /// What the options say.
    known: &'static [(&'static str, f64)],
}

fn case(
    mode: &'static str,
    line: &str,
    intervals: usize,
    known: &'static [(&'static str, f64)],
) -> Case {
    Case { mode, words: line.split_whitespace().map(str::to_owned).collect(), intervals, known }
}

/// What a run printed: stdout, stderr, both, and its JSON.
struct Told {
    stdout: String,
    stderr: String,
    json: serde_json::Value,
}

/// Runs all at the same time: nothing here hangs on how fast they are.
fn run(tool: &str, cases: &[Case], folder: &Path) -> Vec<Told> {
    let link = folder.join(tool);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_schedlab"), &link).unwrap();
    let file = |at: usize| folder.join(format!("{at}.json"));
    let start = |(at, case): (usize, &Case)| {
        let mut command = Command::new(&link);
        command.args(&case.words).stdout(Stdio::piped()).stderr(Stdio::piped());
        if tool == "schbench" {
            command.arg("--json").arg(file(at));
        }
        command.spawn().unwrap()
    };
    let children: Vec<_> = cases.iter().enumerate().map(start).collect();
    let ends = children.into_iter().enumerate().map(|(at, child)| {
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(0), "{:?}: {stderr}", cases[at].words);
        let json = std::fs::read_to_string(file(at)).ok();
        let json = json.and_then(|text| serde_json::from_str(&text).ok());
        Told { stdout, stderr, json: json.unwrap_or_default() }
    });
    ends.collect()
}

/// All parsers of a tool over all its runs; how many values were read.
fn all_parsers_read(tool: &str, cases: &[Case]) -> usize {
    let rules: Rules = toml::from_str(include_str!("parsers/rules.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let told = run(tool, cases, folder.path());
    let mut read = 0;
    for parser in rules.parser.iter().filter(|parser| parser.tool == tool) {
        assert!(!parser.origin.is_empty(), "{}", parser.name);
        for mode in &parser.modes {
            assert!(
                cases.iter().any(|case| case.mode == mode),
                "{}: no run is {mode}",
                parser.name
            );
        }
        for (case, told) in cases.iter().zip(&told) {
            if parser.modes.iter().any(|mode| mode == case.mode) {
                read += parser_reads(parser, case, told);
            }
        }
    }
    read
}

/// Reports of schbench: the blocks of wakeup latencies that a run printed.
fn reports(told: &Told) -> usize {
    let begins = |line: &&str| line.starts_with("Wakeup Latencies percentiles");
    [&told.stdout, &told.stderr].iter().map(|text| text.lines().filter(begins).count()).sum()
}

fn parser_reads(parser: &Parser, case: &Case, told: &Told) -> usize {
    let reports = reports(told);
    assert!(reports <= case.intervals + 1, "{:?}: {reports} reports", case.words);
    assert!(reports > 0 || parser.tool != "schbench", "{:?}: no report", case.words);
    let text = match parser.stream.as_str() {
        "stdout" => told.stdout.clone(),
        "stderr" => told.stderr.clone(),
        _ => format!("{}{}", told.stdout, told.stderr),
    };
    let found = parser.read(&text);
    for (find, values) in parser.find.iter().zip(&found) {
        let what = format!(
            "{}, {:?}, {} {}: {values:?} in\n{text}",
            parser.name, case.words, find.r#in, find.line
        );
        let absent = case.mode == "pipe" && !find.r#in.is_empty() && find.r#in != "wakeup";
        let expected = match find.each.as_str() {
            _ if absent => 0,
            "report" => reports,
            "interval" => reports - 1,
            "last" | "once" => 1,
            other => unreachable!("{other}"),
        };
        assert_eq!(values.len(), expected, "{what}");
        let numbers: Vec<f64> =
            values.iter().map(|value| value.trim().parse().unwrap_or(f64::NAN)).collect();
        assert!(numbers.iter().all(|number| number.is_finite()), "{what}");
        if let (Some(key), Some(&last)) = (&find.is, numbers.last()) {
            assert_eq!(told.json["int"][key.as_str()].as_f64(), Some(last), "{what}");
        }
        if let Some(value) = &find.value {
            let known = case.known.iter().find(|(name, _)| name == value);
            assert!(known.is_none_or(|(_, known)| numbers == [*known]), "{what}");
        }
    }
    found.iter().map(Vec::len).sum()
}

#[test]
fn parsers_of_schbench_read_every_mode() {
    let short = "-m 1 -t 2 -r 3 -i 1 -n 1 -F 16 -s 10";
    let cases: Vec<Case> = [
        ("normal", ""),
        ("normal", "-L"),
        ("normal", "-C"),
        ("normal", "-M auto"),
        ("normal", "-L -n 0 -s 0 --compat none"),
        ("normal", "-z 1 -p 0"),
        ("normal", "--processes"),
        ("rate", "-R 100"),
        ("rate", "-R 100 --compat none"),
        ("rate", "-R 50 --arrivals poisson"),
        ("auto", "-A 30"),
        ("pipe", "-p 4096"),
        ("split", "--split 50"),
    ]
    .iter()
    .map(|(mode, more)| {
        case(mode, &format!("{short} {more}"), if *mode == "pipe" { 0 } else { 3 }, &[])
    })
    // As avocado calls it.
    .chain([case("rate", "-m 1 -t 1 -p 0 -r 2 -i 2 -F 256 -n 5 -R 100 -w 0", 1, &[])])
    .collect();
    let read = all_parsers_read("schbench", &cases);
    // With the last reports alone, if the machine left no time for others.
    assert!(read > 250, "only {read} values were read");
}

#[test]
fn parsers_of_hackbench_read_every_mode() {
    const TWO: &[(&str, f64)] = &[("groups", 2.0), ("tasks", 12.0), ("loops", 5.0)];
    const OLD: &[(&str, f64)] = &[("groups", 1.0), ("tasks", 40.0), ("loops", 5.0)];
    let mut cases: Vec<Case> = [
        ("process", "-g 2 -f 3 -l 5"),
        ("process", "-g 2 -f 3 -l 5 --compat none"),
        ("thread", "-T -g 2 -f 3 -l 5"),
        ("pipe", "-p -g 2 -f 3 -l 5"),
        ("pipe", "-T -p -g 2 -f 3 -l 5 --compat none"),
        ("inet", "-i -g 2 -f 3 -l 5"),
    ]
    .iter()
    .map(|(mode, line)| case(mode, line, 0, TWO))
    .chain([
        case("old", "1 process 5", 0, OLD),
        case("perf", "--format perf -g 1 -l 5", 0, &[]),
        case("perf", "--format perf -T --pipe -g 1 -l 5", 0, &[]),
    ])
    .collect();
    // As Linaro calls it: all options in one word, of which getopt sees one.
    let word = vec!["-g 1 -l 5 -s 100".to_owned()];
    cases.push(Case { mode: "linaro", words: word, intervals: 0, known: &[] });
    let read = all_parsers_read("hackbench", &cases);
    assert!(read > 40, "only {read} values were read");
}

#[test]
fn a_text_of_another_shape_is_not_read() {
    let rules: Rules = toml::from_str(include_str!("parsers/rules.toml")).unwrap();
    // The form of before 2023, which today's parsers do not know.
    let old = "Latency percentiles (usec)\n\t50.0th: 22\n\t*99.0th: 1090\n\tmin=0, max=27264\n";
    for parser in rules.parser.iter().filter(|parser| parser.tool == "schbench") {
        assert!(parser.read(old).iter().all(Vec::is_empty), "{}", parser.name);
    }
}
