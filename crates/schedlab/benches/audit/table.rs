//! Samples, their lines in the file, and the table that they make.

use super::METHODS;
use std::fmt::Write as _;
use std::str::FromStr;

/// Parts of a run that are timed.
pub(super) const PARTS: usize = 20;

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// The seconds that had passed at each twentieth of its rounds.
    times: [f64; PARTS],
    /// The part of the time that it had a CPU, by its own clock. (A compiler prints a 1.)
    computed: f64,
}

impl Work {
    /// How long it took.
    pub(super) const fn seconds(&self) -> f64 {
        self.times[PARTS - 1]
    }

    /// What this program, that did this at full speed, should do at a speed, as a part of it. Only computing takes
    /// longer. Threads that wait for each other compute less while they wait, but at each speed.
    pub(super) fn ideal(&self, program: &str, speed: f64) -> f64 {
        let sleeps = matches!(program, "phases" | "short");
        let computed = if sleeps { self.computed } else { 1.0 };
        1.0 / (1.0 - computed + computed / speed)
    }

    /// How fast it was, in points of another run of as many rounds.
    fn beside(&self, full: &Self) -> f64 {
        full.seconds() / self.seconds() * 100.0
    }

    /// The same of the first second, by the rounds that `speed` does in it; of the whole run if that is shorter.
    fn first_beside(&self, full: &Self, speed: f64) -> f64 {
        let part = speed / full.seconds() * PARTS as f64;
        let part = (part.round() as usize).clamp(1, PARTS) - 1;
        full.times[part] / self.times[part] * 100.0
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not what a program prints");
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        let numbers = numbers.map_err(|_| wrong())?;
        let (times, computed) = numbers.split_first_chunk::<PARTS>().ok_or_else(wrong)?;
        match (times[0] > 0.0 && times.is_sorted(), computed) {
            (true, &[computed]) => Ok(Self { times: *times, computed }),
            _ => Err(wrong()),
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
    /// Which piece it was a part of, and its group there.
    pub(super) group: String,
    pub(super) work: Work,
    /// What a hypervisor took meanwhile from all CPUs together.
    pub(super) stolen_ms: f64,
}

impl Sample {
    pub(super) fn line(&self) -> String {
        let Self { program, method, speed, round, group, work, stolen_ms } = self;
        let mut line = format!("{program}\t{method}\t{speed}\t{round}\t{group}\t{stolen_ms:.1}\t");
        for time in work.times {
            let _ = write!(line, "{time} ");
        }
        line + &work.computed.to_string()
    }

    pub(super) fn is(&self, program: &str, method: &str, speed: &str) -> bool {
        self.program == program && self.method == method && self.speed == speed
    }

    pub(super) fn at(&self, round: usize, group: &str) -> bool {
        self.round == round && self.group == group
    }
}

impl FromStr for Sample {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{line}' is not a sample: remove the file, or name another by --store");
        let fields: Vec<&str> = line.split('\t').collect();
        let [program, method, speed, round, group, stolen, work] = fields[..] else {
            return Err(wrong());
        };
        Ok(Self {
            program: program.to_owned(),
            method: method.to_owned(),
            speed: speed.to_owned(),
            round: round.parse().map_err(|_| wrong())?,
            group: group.to_owned(),
            work: work.parse().map_err(|_| wrong())?,
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
    /// The CPU time that it had, as a part of the time.
    had: Vec<f64>,
}

impl<'s> Row<'s> {
    fn of(sample: &'s Sample, samples: &'s [Sample]) -> Self {
        let speed = super::part(&sample.speed).unwrap_or(1.0);
        let (mut work, mut first, mut had, mut ideals) = (vec![], vec![], vec![], vec![]);
        for slowed in samples {
            if !slowed.is(&sample.program, &sample.method, &sample.speed) {
                continue;
            }
            let full = samples.iter().find(|full| {
                full.is(&sample.program, "full", "100%") && full.at(slowed.round, &slowed.group)
            });
            let Some(full) = full else { continue };
            let ideal = full.work.ideal(&sample.program, speed);
            work.push(slowed.work.beside(&full.work));
            first.push(slowed.work.first_beside(&full.work, ideal));
            had.push(slowed.work.computed * 100.0);
            ideals.push(ideal * 100.0);
        }
        let ideal = median(&mut ideals);
        Self { sample, ideal, work, first, had }
    }

    fn print(&mut self) -> String {
        let Sample { program, method, speed, .. } = self.sample;
        let (pairs, work, first) =
            (self.work.len(), median(&mut self.work), median(&mut self.first));
        let interval = interval(&self.work, 1);
        let (off, promise, unit) = judged(program, method, work, self.ideal);
        let (off_first, ..) = judged(program, method, first, self.ideal);
        let promise = verdict(off, promise, unit);
        let ideal = self.ideal;
        let had = match program.as_str() {
            "gcc" => "-".to_owned(),
            _ => format!("{:.1}", median(&mut self.had)),
        };
        format!(
            "| {program} | {method} | {speed} | {ideal:.1} | {work:.1} | {interval} | {off:+.1}{unit} | \
             {promise} | {off_first:+.1}{unit} | {had} | {pairs} |\n"
        )
    }
}

/// How far off a program is that did this part of the ideal one, and how far it may be, with the unit.
pub(super) fn judged(
    program: &str,
    method: &str,
    got: f64,
    ideal: f64,
) -> (f64, Option<f64>, &'static str) {
    let relative = (got / ideal - 1.0) * 100.0;
    match program {
        "barrier" => (relative, Some(4.0), " %"),
        "phases" | "short" => (relative, Some(5.0), " %"),
        _ => {
            let method = METHODS.iter().find(|known| known.name == method);
            (got - ideal, method.and_then(|method| method.promise), "")
        }
    }
}

/// What is promised, and whether it is kept.
pub(super) fn verdict(off: f64, promise: Option<f64>, unit: &str) -> String {
    promise.map_or("-".to_owned(), |promise| {
        let kept = if off.abs() <= promise { "" } else { ", missed" };
        format!("{promise}{unit}{kept}")
    })
}

/// The table of all samples, in Markdown.
pub(super) fn print(samples: &[Sample]) -> String {
    let mut text = "| program | method | asked | ideal | work | 95 % interval | off | promised | off in the first \
                    second | CPU time had | pairs |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
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

/// The 95 % interval of the median of sorted values, by their ranks (binomial, one half). Of 6 to 8 values it is from the
/// least to the most. If `each` values come from one measurement, they tell little more than one.
pub(super) fn interval(sorted: &[f64], each: usize) -> String {
    let count = sorted.len() / each;
    let (mut part, mut sum, mut rank) = (0.5f64.powi(count as i32), 0.0, 0);
    while sum + part <= 0.025 {
        sum += part;
        part *= (count - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    // Fewer than 6 have no such interval.
    let Some(low) = usize::checked_sub(rank, 1).map(|rank| rank * each) else {
        return "-".to_owned();
    };
    format!("{:.1} to {:.1}", sorted[low], sorted[sorted.len() - 1 - low])
}

/// Sorts them and returns the middle.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}
