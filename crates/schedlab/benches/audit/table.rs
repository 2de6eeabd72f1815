//! Samples, their lines in the file, and the table that they make.

use super::METHODS;
use std::fmt::Write as _;
use std::str::FromStr;

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// Rounds a second.
    pub(super) rate: f64,
    /// Rounds a second in the first second.
    first: f64,
    /// The part of the time that it computed: 1 if it does not say.
    computed: f64,
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not what a program prints");
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        let (rate, first, computed) = match numbers.map_err(|_| wrong())?[..] {
            [rate, first] => (rate, first, 1.0),
            [rate, first, computed] => (rate, first, computed),
            _ => return Err(wrong()),
        };
        match rate > 0.0 && first > 0.0 {
            true => Ok(Self { rate, first, computed }),
            false => Err(wrong()),
        }
    }
}

/// A run: a line of the file, with tabs between its fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) program: String,
    /// `full` for a run at full speed.
    pub(super) method: String,
    pub(super) speed: String,
    pub(super) round: usize,
    pub(super) group: usize,
    pub(super) work: Work,
    /// What a hypervisor took meanwhile from all CPUs together.
    pub(super) stolen_ms: f64,
}

impl Sample {
    pub(super) fn line(&self) -> String {
        let Self { program, method, speed, round, group, work, stolen_ms } = self;
        let Work { rate, first, computed } = work;
        format!(
            "{program}\t{method}\t{speed}\t{round}\t{group}\t{rate}\t{first}\t{computed}\t{stolen_ms:.1}"
        )
    }

    pub(super) fn is(&self, program: &str, method: &str, speed: &str) -> bool {
        self.program == program && self.method == method && self.speed == speed
    }

    pub(super) fn at(&self, round: usize, group: usize) -> bool {
        self.round == round && self.group == group
    }
}

impl FromStr for Sample {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{line}' is not a sample: remove the file, or name another by --store");
        let fields: Vec<&str> = line.split('\t').collect();
        let [program, method, speed, round, group, rate, first, computed, stolen] = fields[..]
        else {
            return Err(wrong());
        };
        Ok(Self {
            program: program.to_owned(),
            method: method.to_owned(),
            speed: speed.to_owned(),
            round: round.parse().map_err(|_| wrong())?,
            group: group.parse().map_err(|_| wrong())?,
            work: [rate, first, computed].join(" ").parse().map_err(|_| wrong())?,
            stolen_ms: stolen.parse().map_err(|_| wrong())?,
        })
    }
}

/// The pairs of a point, in points of full speed.
struct Row<'s> {
    sample: &'s Sample,
    /// What the work should be: the speed, or with sleep in between what is left of the time.
    ideal: f64,
    work: Vec<f64>,
    /// The same of the first second.
    first: Vec<f64>,
}

impl<'s> Row<'s> {
    fn of(sample: &'s Sample, samples: &'s [Sample]) -> Self {
        let speed = sample.speed.trim_end_matches('%').parse().unwrap_or(100.0) / 100.0;
        let (mut work, mut first, mut ideals) = (Vec::new(), Vec::new(), Vec::new());
        for slowed in samples {
            if !slowed.is(&sample.program, &sample.method, &sample.speed) {
                continue;
            }
            let full = samples.iter().find(|full| {
                full.is(&sample.program, "full", "100%") && full.at(slowed.round, slowed.group)
            });
            let Some(full) = full else { continue };
            work.push(slowed.work.rate / full.work.rate * 100.0);
            first.push(slowed.work.first / full.work.first * 100.0);
            // Only computing takes longer. Threads that wait for each other compute less while they wait, but at each
            // speed.
            let computed = if sample.program == "phases" { full.work.computed } else { 1.0 };
            ideals.push(100.0 / (1.0 - computed + computed / speed));
        }
        let ideal = median(&mut ideals);
        Self { sample, ideal, work, first }
    }

    /// How far off it is and may be, with the unit.
    fn judged(&self, got: f64) -> (f64, Option<f64>, &'static str) {
        let relative = (got / self.ideal - 1.0) * 100.0;
        match self.sample.program.as_str() {
            "barrier" => (relative, Some(4.0), " %"),
            "phases" => (relative, Some(5.0), " %"),
            _ => {
                let method = METHODS.iter().find(|method| method.name == self.sample.method);
                (got - self.ideal, method.and_then(|method| method.promise), "")
            }
        }
    }

    fn print(&mut self) -> String {
        let (pairs, work, first) =
            (self.work.len(), median(&mut self.work), median(&mut self.first));
        let (least, most) = (self.work[0], self.work[pairs - 1]);
        let (off, promise, unit) = self.judged(work);
        let (off_first, ..) = self.judged(first);
        let promise = promise.map_or("-".to_owned(), |promise| {
            let kept = if off.abs() <= promise { "" } else { ", missed" };
            format!("{promise}{unit}{kept}")
        });
        let Sample { program, method, speed, .. } = self.sample;
        let ideal = self.ideal;
        format!(
            "| {program} | {method} | {speed} | {ideal:.1} | {work:.1} | {least:.1} to {most:.1} | {off:+.1}{unit} | \
             {promise} | {off_first:+.1}{unit} | {pairs} |\n"
        )
    }
}

/// The table of all samples, in Markdown.
pub(super) fn print(samples: &[Sample]) -> String {
    let mut text = "| program | method | asked | ideal | work | least to most | off | promised | off in the first \
                    second | pairs |\n|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut told: Vec<(&str, &str, &str)> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.method != "full") {
        let point = (sample.program.as_str(), sample.method.as_str(), sample.speed.as_str());
        if !told.contains(&point) {
            told.push(point);
        }
    }
    told.sort_by_key(|(program, method, speed)| {
        let place = |names: &[&str], name: &str| names.iter().position(|known| *known == name);
        (
            place(&super::programs::NAMES, program),
            place(&METHODS.each_ref().map(|method| method.name), method),
            *speed,
        )
    });
    for (program, method, speed) in told {
        let sample = samples.iter().find(|sample| sample.is(program, method, speed));
        let row = sample.map(|sample| Row::of(sample, samples));
        if let Some(mut row) = row.filter(|row| !row.work.is_empty()) {
            text.push_str(&row.print());
        }
    }
    let stolen: f64 = samples.iter().map(|sample| sample.stolen_ms).sum();
    let _ = writeln!(
        text,
        "\n{} runs. A hypervisor took {:.2} s of CPU time meanwhile.",
        samples.len(),
        stolen / 1e3
    );
    text
}

/// Sorts them and returns the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}
