//! `schedlab vm compare`: two kernels, or two settings, beside what neutral code does.

use super::choices::Choices;
use super::study::{How, Study};
use super::told;
use crate::commands::{UsageError, result_file};
use crate::json;
use schedlab_draw::Theme;
use schedlab_model::{Better, Setting};
use schedlab_stats::median;
use schedlab_vm::placebo::{self, Judgement, PLACEBOS, Verdict};
use schedlab_vm::{Checkout, Kernel};
use schedlab_workload::metrics;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab vm compare`.
#[derive(clap::Args)]
pub(super) struct Compare {
    /// A kernel (docs/vm.md), linux-source-6.12, or with --tree a revision; knobs may follow, as in
    /// debian-6.1,knob:min_granularity=1ms
    before: String,
    /// The other side, in the same form
    after: String,
    #[command(flatten)]
    how: How,
    /// Compare the scheduler's choices too, even if the metric did not change
    #[arg(long)]
    choices: bool,
    /// Draw the first choice that shows what differs, into this .svg, .pdf or .png
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
    #[command(flatten)]
    ground: result_file::Ground,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A side: a kernel with its knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// As it was typed.
    pub(super) text: String,
    source: String,
    pub(super) settings: Vec<Setting>,
}

impl Side {
    pub(super) fn read(text: &str) -> Result<Self, UsageError> {
        let mut words = text.split(',');
        let source = words.next().unwrap_or_default().to_owned();
        let setting = |word: &str| {
            let wrong = || UsageError(format!("'{word}' in '{text}': write knob:NAME=VALUE"));
            let rest = word.strip_prefix("knob:").ok_or_else(wrong)?;
            let (knob, value) = rest.split_once('=').ok_or_else(wrong)?;
            Ok(Setting { knob: knob.to_owned(), value: value.to_owned() })
        };
        let settings = words.map(setting).collect::<Result<_, UsageError>>()?;
        Ok(Self { text: text.to_owned(), source, settings })
    }

    /// Whether it is built here, and so are placebos of it.
    fn is_built(&self, checkout: Option<&Checkout>) -> bool {
        checkout.is_some() || self.source.starts_with("linux-source-")
    }

    /// The name of its kernel, built where it must be.
    pub(super) fn kernel(
        &self,
        study: &Study,
        how: &How,
        checkout: Option<&Checkout>,
        placebo: u32,
    ) -> anyhow::Result<String> {
        match (checkout.zip(how.tree.as_deref()), self.is_built(checkout)) {
            (Some((checkout, tree)), _) => {
                let commit = checkout.commit(tree, &self.source).map_err(told)?;
                of_commit(study, how, checkout, &commit, placebo)
            }
            (None, true) => study.build(&self.source, placebo, None),
            (None, false) => {
                // What is wrong with it is reported before anything is measured.
                Kernel::find(&self.source).map_err(told)?;
                Ok(self.source.clone())
            }
        }
    }
}

/// The kernel of a commit. A commit does not change, so one that was built is not built again.
fn of_commit(
    study: &Study,
    how: &How,
    checkout: &Checkout,
    commit: &str,
    placebo: u32,
) -> anyhow::Result<String> {
    let name = name_of(how, commit, placebo);
    if Kernel::is_built(&name) {
        return Ok(name);
    }
    checkout.check_out(commit).map_err(told)?;
    study.build(&checkout.path().display().to_string(), placebo, Some(name))
}

/// The name of a commit's kernel.
pub(super) fn name_of(how: &How, commit: &str, placebo: u32) -> String {
    let short = commit.get(..12).unwrap_or(commit);
    format!("git-{short}-{}", how.shape.word(placebo))
}

/// `schedlab vm compare --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// The first side, as it was typed.
    before: String,
    /// The second side.
    after: String,
    /// The load.
    workload: String,
    /// The metric that decides.
    metric: String,
    /// Its values on the first side, one for each start.
    values_before: Vec<f64>,
    /// Its values on the second side.
    values_after: Vec<f64>,
    /// Kernels that differ from the first side in neutral code.
    placebos: Vec<Placebo>,
    /// The second median relative to the first: 0.03 is 3 % more.
    change: f64,
    /// The largest change between two kernels that differ in neutral code only.
    band: Option<f64>,
    /// `worse`, `better`, `changed`, `within_band` or `no_band`.
    verdict: String,
    /// The answer in a sentence.
    answer: String,
    /// The scheduler's choices, where they were compared.
    choices: Option<Choices>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/vm-compare/1";
}

/// A placebo's values.
#[derive(Serialize, JsonSchema)]
struct Placebo {
    kernel: String,
    values: Vec<f64>,
}

/// Runs it.
pub(super) fn run(options: Compare) -> anyhow::Result<ExitCode> {
    let Compare { before, after, how, choices: always, draw, ground, json } = options;
    draw.as_deref().map(result_file::check_picture).transpose()?;
    let [before, after] = [Side::read(&before)?, Side::read(&after)?];
    let study = Study::new(&how)?;
    let checkout = how.tree.as_deref().map(Checkout::of).transpose().map_err(told)?;
    let checkout = checkout.as_ref();
    let kernels = [&before, &after].map(|side| side.kernel(&study, &how, checkout, 0));
    let [kernel_before, kernel_after] = kernels;
    let (kernel_before, kernel_after) = (kernel_before?, kernel_after?);
    if kernel_before == kernel_after && before.settings == after.settings {
        return Err(UsageError("both sides are the same kernel with the same knobs".into()).into());
    }
    let placebos = placebos(&study, &how, &before, checkout)?;
    let values_before = study.values(&kernel_before, &before.settings)?;
    let values_after = study.values(&kernel_after, &after.settings)?;
    let measured = placebos
        .into_iter()
        .map(|kernel| {
            let values = study.values(&kernel, &before.settings)?;
            Ok(Placebo { kernel, values })
        })
        .collect::<anyhow::Result<Vec<Placebo>>>()?;
    let band: Vec<Vec<f64>> = measured.iter().map(|one| one.values.clone()).collect();
    let better = metrics::metric(&how.metric).better;
    let Some(judged) = placebo::judge(&values_before, &values_after, &band, better) else {
        anyhow::bail!("{} is 0 on the first side: nothing can be relative to it", how.metric);
    };
    let outside = !matches!(judged.verdict, Verdict::WithinBand);
    let choices = (always || outside || draw.is_some())
        .then(|| {
            let chosen_before = study.choices(&kernel_before, &before.settings)?;
            let chosen_after = study.choices(&kernel_after, &after.settings)?;
            let of = |one: &Placebo| study.choices(&one.kernel, &before.settings);
            let placebos = measured.iter().map(of).collect::<anyhow::Result<Vec<_>>>()?;
            anyhow::Ok(Choices::of(&chosen_before, &chosen_after, &placebos))
        })
        .transpose()?;
    let answer = sentence(&before.text, &after.text, &how.metric, &judged, measured.len());
    let document = Document {
        before: before.text,
        after: after.text,
        workload: how.workload,
        metric: how.metric,
        values_before,
        values_after,
        placebos: measured,
        change: judged.change,
        band: judged.band,
        verdict: word(judged.verdict).to_owned(),
        answer,
        choices,
    };
    if let (Some(file), Some(choices)) = (&draw, &document.choices) {
        draw_first(file, choices, ([&document.before, &document.after], &ground.theme()))?;
    }
    if json {
        json::print(&document)?;
    } else {
        print(&document, better)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws the choice that is shown as a cause, where there is one.
fn draw_first(
    file: &Path,
    choices: &Choices,
    (sides, theme): ([&str; 2], &Theme),
) -> anyhow::Result<()> {
    match choices.scene(sides, theme) {
        Some(scene) => result_file::save_picture(file, &scene),
        None => {
            let why = "no choice is shown as a cause, so nothing is drawn";
            Ok(writeln!(crate::output::stderr(), "schedlab: {}: {why}", file.display())?)
        }
    }
}

/// The kernels that differ from a side in neutral code: those that were named, and those to build.
pub(super) fn placebos(
    study: &Study,
    how: &How,
    side: &Side,
    checkout: Option<&Checkout>,
) -> anyhow::Result<Vec<String>> {
    let own = if side.is_built(checkout) { PLACEBOS as u32 } else { 0 };
    let wanted = how.placebos.unwrap_or(own);
    if wanted > 0 && !side.is_built(checkout) {
        let why = format!(
            "option placebos: {} is not built here: name kernels with --placebo, or compare \
             linux-source-VERSION or revisions of a --tree",
            side.text
        );
        return Err(UsageError(why).into());
    }
    let built = (1..=wanted).map(|number| side.kernel(study, how, checkout, number));
    how.placebo.iter().cloned().map(Ok).chain(built).collect()
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Changed => "changed",
        Verdict::WithinBand => "within_band",
        Verdict::NoBand => "no_band",
    }
}

/// The answer.
fn sentence(
    before: &str,
    after: &str,
    metric: &str,
    judged: &Judgement,
    placebos: usize,
) -> String {
    let change = format!("{:+.1} %", judged.change * 100.0);
    let band = judged.band.map_or(0.0, |band| band * 100.0);
    let beside =
        format!("neutral code changes it by up to {band:.1} % ({placebos} placebo kernels)");
    let few = if placebos < PLACEBOS && placebos > 0 {
        format!("; {PLACEBOS} placebos make this firm")
    } else {
        String::new()
    };
    match judged.verdict {
        Verdict::NoBand => format!(
            "no verdict: {metric} of {after} is {change} from {before}, but no placebo kernel tells \
             how much neutral code changes it; give --placebo or --placebos"
        ),
        Verdict::WithinBand => format!(
            "no change shown: {metric} of {after} is {change} from {before}, and {beside}{few}"
        ),
        verdict => format!(
            "{after} is {}: {metric} is {change} from {before}, and {beside}{few}",
            word(verdict)
        ),
    }
}

fn print(document: &Document, better: Better) -> anyhow::Result<()> {
    let mut out = crate::output::stdout();
    writeln!(out, "{}", document.answer)?;
    let unit = metrics::metric(&document.metric).unit;
    let shown = |value: f64| schedlab_experiment::report::readable(value, unit);
    let line = |name: &str, values: &[f64]| {
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
        let median = median(values.iter().copied()).unwrap_or_default();
        let (median, low, high) = (shown(median), shown(low), shown(high));
        format!("  {name:<32} {median} ({low} to {high} in {} starts)", values.len())
    };
    let direction = match better {
        Better::Lower => ", less is better",
        Better::Higher => ", more is better",
        Better::Neither => "",
    };
    writeln!(out, "\n{} of {}{direction}:", document.metric, document.workload)?;
    writeln!(out, "{}", line(&document.before, &document.values_before))?;
    writeln!(out, "{}", line(&document.after, &document.values_after))?;
    for one in &document.placebos {
        writeln!(out, "{}", line(&one.kernel, &one.values))?;
    }
    let Some(choices) = &document.choices else { return Ok(()) };
    choices.print(&mut out, [&document.before, &document.after])?;
    Ok(())
}

/// Whether a folder holds a git repository, for a clear error.
pub(super) fn is_repository(tree: &Path) -> bool {
    tree.join(".git").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_kernel_with_knobs() {
        let side = Side::read("debian-6.1,knob:min_granularity=1ms").unwrap();
        assert_eq!(side.source, "debian-6.1");
        let expected = Setting { knob: "min_granularity".into(), value: "1ms".into() };
        assert_eq!(side.settings, [expected]);
        for wrong in ["debian-6.1,cpus=2", "debian-6.1,knob:x"] {
            let why = Side::read(wrong).unwrap_err().to_string();
            assert!(why.contains("write knob:NAME=VALUE"), "{why}");
        }
    }

    #[test]
    fn an_answer_names_the_band_and_how_firm_it_is() {
        let told = |change: f64, placebos: &[Vec<f64>]| {
            let judged = placebo::judge(&[1.0], &[1.0 + change], placebos, Better::Lower).unwrap();
            sentence("a", "b", "time_s", &judged, placebos.len())
        };
        let none = told(0.05, &[]);
        assert!(none.starts_with("no verdict: time_s of b is +5.0 % from a"), "{none}");
        let few = told(0.05, &[vec![1.01]]);
        assert_eq!(
            few,
            "b is worse: time_s is +5.0 % from a, and neutral code changes it by up to 1.0 % \
             (1 placebo kernels); 10 placebos make this firm"
        );
        let within = told(0.005, &vec![vec![1.01]; 10]);
        assert!(within.starts_with("no change shown: ") && !within.contains("firm"), "{within}");
    }
}
