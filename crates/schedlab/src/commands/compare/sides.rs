//! One load on several machines, or on one with other knobs: each side is measured in the same rounds.
//!
//! Where sides are kernels, in QEMU or by their own code in the simulator, kernels that differ from the first one in
//! neutral code are measured too, and the choices of the schedulers can be compared.

use super::choices::Choices;
use super::commands::{Measured, argv};
use super::difference::{Difference, Recorded};
use super::{Pair, Placebo, Set};
use crate::commands::load::workload_of;
use crate::commands::result_file::save;
use crate::commands::rounds::{Cell, measure};
use crate::commands::temporary_folder::Folder;
use crate::commands::vm::kernels::{Kernels, Sources};
use crate::commands::{UsageError, result_file};
use crate::machines;
use anyhow::Context as _;
use schedlab_experiment::analysis::centre_of;
use schedlab_experiment::{Hooks, Machines, StoredRun};
use schedlab_model::Setting;
use schedlab_sim::Costs;
use schedlab_vm::choices::{self as chosen, Starts};
use schedlab_vm::placebo::{PLACEBOS, band};
use schedlab_workload::{MachineName, RecordSpec, RunSpec, Stream, WorkloadSpec, workloads};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

/// Machines that are compared.
#[derive(clap::Args)]
pub(super) struct Sides {
    /// Measure the load after -- on this machine; knobs may follow, as in sim,knob:latency=6ms. Each
    /// further side is compared with the first (repeatable)
    #[arg(long = "side", value_name = "MACHINE", requires = "commands")]
    #[arg(conflicts_with_all = ["lists", "scans"])]
    sides: Vec<String>,
    /// Compare the choices of the schedulers too, even if no metric changed
    #[arg(long, requires = "sides")]
    choices: bool,
    /// Draw the first choice that shows what differs, into this .svg, .pdf or .png
    #[arg(long, value_name = "FILE", requires = "sides")]
    draw: Option<PathBuf>,
    #[command(flatten)]
    ground: result_file::ThemeOption,
    #[command(flatten)]
    sources: Sources,
}

/// A machine with its knobs.
#[derive(Clone, Debug, PartialEq)]
struct Side {
    /// As it was typed.
    text: String,
    machine: MachineName,
    settings: Vec<Setting>,
}

const KERNEL: &str = "kernel";
/// By how much the kernel's code takes longer in each placebo of a tree than in the one before. A path has 100 to 500
/// basic blocks, so this is a half to three blocks more.
const SLOWER_PERMILLE: u64 = 5;
/// Switches of a run that is recorded without being asked for: with wakeups and moves about 1 GiB in memory.
const RECORDED_MAX: f64 = 1e6;

impl Side {
    fn read(text: &str) -> Result<Self, UsageError> {
        let mut words = Vec::new();
        let mut settings = Vec::new();
        for word in text.split(',') {
            let Some(rest) = word.strip_prefix("knob:") else {
                words.push(word);
                continue;
            };
            let (knob, value) = rest.split_once('=').ok_or_else(|| {
                UsageError(format!("'{word}' in '{text}': write knob:NAME=VALUE"))
            })?;
            settings.push(Setting { knob: knob.to_owned(), value: value.to_owned() });
        }
        let machine = words.join(",").parse().map_err(UsageError)?;
        Ok(Self { text: text.to_owned(), machine, settings })
    }

    fn is_vm(&self) -> bool {
        self.machine.kind == machines::VM
    }

    fn is_tree(&self) -> bool {
        machines::is_tree(&self.machine)
    }

    /// The kernel of a virtual machine, or the tree whose code schedules, as it was typed.
    fn kernel(&self) -> Option<&String> {
        self.machine.settings.get(KERNEL).filter(|_| self.is_vm() || self.is_tree())
    }

    /// Whether another side differs from this one in nothing but the kernel and what is set in it.
    fn is_like(&self, other: &Self) -> bool {
        let machine = |side: &Self| {
            let mut settings = side.machine.settings.clone();
            settings.retain(|key, _| ![KERNEL, "scx", "scx-set"].contains(&key.as_str()));
            (side.machine.kind.clone(), settings)
        };
        machine(self) == machine(other)
    }

    fn with_kernel(&self, name: String) -> Self {
        let mut side = self.clone();
        side.machine.settings.insert(KERNEL.to_owned(), name);
        side
    }

    fn cell(&self, workload: &WorkloadSpec, record: Option<RecordSpec>) -> Cell {
        let settings = self.settings.clone();
        let spec = RunSpec { seed: 1, settings, record, ..RunSpec::of(workload.clone()) };
        Cell { machine: self.machine.clone(), spec, hooks: Hooks::default() }
    }
}

/// A load, a command where it is none of ours.
fn load_of(words: &[String]) -> anyhow::Result<(String, WorkloadSpec)> {
    let line = words.join(" ");
    let first = line.split_whitespace().next().unwrap_or_default();
    match (workloads::find(first), words) {
        (Ok(_), _) => workload_of(&line),
        (Err(_), [one]) => Ok(("command".to_owned(), WorkloadSpec::Command { argv: argv(one) })),
        (Err(_), _) => Ok(("command".to_owned(), WorkloadSpec::Command { argv: words.to_vec() })),
    }
}

/// Sides that are measured.
pub(super) struct Study<'a> {
    asked: &'a Sides,
    machines: Machines<'static>,
    folder: Folder,
    workload: (String, WorkloadSpec),
    rounds: u32,
    sides: Vec<Side>,
    /// Kernels that differ from the first side's in neutral code, as machines.
    placebos: Vec<Side>,
    placebo_sets: Vec<Set>,
}

impl Sides {
    /// Builds what is to be built and checks what was typed; `None` where no sides were given.
    pub(super) fn study<'a>(
        &'a self,
        measured: &Measured,
        metrics: &[String],
    ) -> anyhow::Result<Option<Study<'a>>> {
        if self.sides.is_empty() {
            return Ok(None);
        }
        self.draw.as_deref().map(result_file::check_picture).transpose()?;
        let typed: Vec<Side> =
            self.sides.iter().map(|text| Side::read(text)).collect::<Result<_, _>>()?;
        if typed.len() < 2 {
            return Err(UsageError("--side: give two machines or more".to_owned()).into());
        }
        let are_kernels = typed.iter().all(Side::is_vm) || typed.iter().all(Side::is_tree);
        if !are_kernels && (self.choices || self.draw.is_some() || self.sources.wants_placebos()) {
            let what = "--choices, --draw and placebos compare kernels: give sides of the kind vm:kernel=NAME, \
                        or sim:kernel=TREE";
            return Err(UsageError(what.to_owned()).into());
        }
        let kernels = Kernels::of(&self.sources)?;
        let built = |side: &Side| match side.kernel().filter(|_| side.is_vm()) {
            Some(source) => Ok(side.with_kernel(kernels.kernel(source, 0)?)),
            None => Ok(side.clone()),
        };
        let sides: Vec<Side> = typed.iter().map(built).collect::<anyhow::Result<_>>()?;
        for (at, side) in sides.iter().enumerate() {
            let is_same = |other: &&Side| {
                (&other.machine, &other.settings) == (&side.machine, &side.settings)
            };
            if sides[..at].iter().find(is_same).is_some() {
                let what = format!("'{}' is a side that was given before", side.text);
                return Err(UsageError(what).into());
            }
        }
        // The same kernel with other knobs has the same code.
        let is_other = |side: &Side| side.kernel() != sides[0].kernel();
        let wanted = self.sources.wants_placebos() || sides.iter().any(is_other);
        let folder = Folder::of(measured.output.as_deref(), "compare")?;
        let placebos = match typed[0].kernel() {
            Some(source) if are_kernels && wanted && typed[0].is_vm() => {
                let names = kernels.placebos(source)?.into_iter();
                names.map(|name| sides[0].with_kernel(name)).collect()
            }
            Some(_) if are_kernels && wanted => {
                placebos_of_tree(&sides[0], &self.sources, &folder)?
            }
            _ => Vec::new(),
        };
        let mut study = Study {
            asked: self,
            machines: Machines::made_by(&machines::make),
            folder,
            workload: load_of(&measured.commands)?,
            rounds: measured.rounds(),
            sides,
            placebos,
            placebo_sets: Vec::new(),
        };
        study.check(metrics)?;
        Ok(Some(study))
    }
}

/// Whether each start gave the same on both sides.
fn are_alike(one: &Set, other: &Set) -> bool {
    let figures = |set: &Set| set.runs.iter().map(|run| run.figures.clone()).collect::<Vec<_>>();
    figures(one) == figures(other)
}

/// Placebos of a side by a tree's code: those that the user named, then the side itself where that code takes longer.
/// So does code with a line more that decides nothing.
fn placebos_of_tree(side: &Side, sources: &Sources, folder: &Folder) -> anyhow::Result<Vec<Side>> {
    let named =
        sources.named_placebos().map(|name| Side { text: name.clone(), ..side.with_kernel(name) });
    let mut placebos: Vec<Side> = named.collect();
    let costs = machines::costs_of(&side.machine).map_err(UsageError)?;
    let tree = side.kernel().map_or("", String::as_str);
    for number in 1..=sources.placebos(PLACEBOS as u32) {
        let permille = u64::from(number) * SLOWER_PERMILLE;
        let code_1000 = costs.code_1000 + costs.code_1000 * permille / 1_000;
        let file = folder.path().join(format!("placebo-{number}.costs.toml"));
        save(&file, Costs { code_1000, ..costs }.text())?;
        let text = format!("{tree}, code {}.{} % slower", permille / 10, permille % 10);
        let mut placebo = Side { text, ..side.clone() };
        placebo.machine.settings.insert("costs".to_owned(), file.display().to_string());
        placebos.push(placebo);
    }
    Ok(placebos)
}

impl Study<'_> {
    /// Asks each machine whether it can do the load and measure the metrics.
    fn check(&mut self, metrics: &[String]) -> anyhow::Result<()> {
        for side in self.sides.iter().chain(&self.placebos) {
            let machine = self.machines.get(&side.machine)?;
            machine.check(&side.cell(&self.workload.1, None).spec)?;
            for metric in metrics {
                let refused = |why| UsageError(format!("metric {metric}: {why}"));
                machine.measures(metric).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Measures all sides; a set of runs for each, and whether the user stopped it.
    pub(super) fn sets(&mut self, warmup: u32) -> anyhow::Result<(Vec<Set>, bool)> {
        // Placebos of a tree wait until it is known that the sides differ at all; others take their turns in the same rounds.
        let is_tree = self.sides[0].is_tree();
        let placebos = self.placebos.iter().filter(|_| !is_tree);
        let all: Vec<Side> = self.sides.iter().chain(placebos).cloned().collect();
        if warmup > 0 {
            let mut warm = self.cells(&all, None);
            // Copies would be the same again.
            warm.retain(|cell| {
                let machine = self.machines.get(&cell.machine);
                machine.is_ok_and(|machine| !machine.offers().repeatable)
            });
            if !warm.is_empty() {
                let scratch = Folder::of(None, "warmup")?;
                measure(&mut self.machines, &warm, &self.workload.0, 0..warmup, scratch.path())?;
            }
        }
        let (mut sets, mut stopped) = self.measured(&all)?;
        self.placebo_sets = sets.split_off(self.sides.len());
        if is_tree && !stopped && sets.iter().any(|set| !are_alike(&sets[0], set)) {
            let placebos = self.placebos.clone();
            (self.placebo_sets, stopped) = self.measured(&placebos)?;
        }
        for (set, side) in self.placebo_sets.iter_mut().zip(&self.placebos) {
            set.name = match side.is_vm() {
                true => side.kernel().cloned().unwrap_or_default(),
                false => side.text.clone(),
            };
        }
        Ok((sets, stopped))
    }

    fn cells(&self, sides: &[Side], record: Option<&RecordSpec>) -> Vec<Cell> {
        sides.iter().map(|side| side.cell(&self.workload.1, record.cloned())).collect()
    }

    /// A set of runs for each of some sides, and whether the user stopped it.
    fn measured(&mut self, sides: &[Side]) -> anyhow::Result<(Vec<Set>, bool)> {
        let cells = self.cells(sides, None);
        let label = self.workload.0.clone();
        let (runs, stopped) =
            measure(&mut self.machines, &cells, &label, 0..self.rounds, self.folder.path())?;
        let mut sets: Vec<Set> = Vec::new();
        for (side, runs) in sides.iter().zip(runs) {
            if runs.iter().all(|run| run.failure().is_some()) && !stopped {
                anyhow::bail!("the load fails on '{}': see `schedlab load --on`", side.text);
            }
            sets.push(Set { runs, ..Set::new(&side.text) });
        }
        Ok((sets, stopped))
    }

    /// Adds to the comparison with a side what neutral code does, and where both schedulers part.
    pub(super) fn complete(
        &mut self,
        at: usize,
        pair: &mut Pair,
        sets: [&Set; 2],
    ) -> anyhow::Result<()> {
        // Where each start gives the same on both sides, neutral code gives no reason to doubt it.
        let is_same = self.sides[0].is_tree() && are_alike(sets[0], sets[1]);
        if self.sides[at].kernel() != self.sides[0].kernel() && !is_same {
            self.beside_neutral_code(pair, sets[0]);
        }
        let [first, side] = [&self.sides[0], &self.sides[at]];
        if first.is_tree() && side.is_tree() && first.is_like(side) {
            pair.difference = self.difference(at, sets)?;
        }
        let asked = self.asked;
        let is_vm = self.sides[0].is_vm();
        let verdicts = || pair.comparisons.iter().flat_map(|of| &of.primary).map(|of| of.verdict);
        let is_changed = is_vm && !self.placebos.is_empty() && verdicts().any(|of| of.is_claim());
        if !asked.choices && asked.draw.is_none() && !is_changed {
            return Ok(());
        }
        let sides = [&self.sides[0], &self.sides[at]].into_iter().chain(&self.placebos);
        let sides: Vec<Side> = sides.cloned().collect();
        writeln!(crate::output::stderr(), "schedlab: recording {} kernels", sides.len())?;
        let mut starts = self.starts(&sides)?;
        let placebos = starts.split_off(2);
        let choices = Choices::of(&starts[0], &starts[1], &placebos);
        if let Some(file) = &asked.draw {
            match choices.scene([&pair.before, &pair.after], &asked.ground.theme()) {
                Some(scene) => result_file::save_picture(file, &scene)?,
                None => {
                    let why = "no choice is shown as a cause, so nothing is drawn";
                    writeln!(crate::output::stderr(), "schedlab: {}: {why}", file.display())?;
                }
            }
        }
        pair.choices = Some(choices);
        Ok(())
    }

    /// Widens each change by what neutral code does to its metric.
    fn beside_neutral_code(&self, pair: &mut Pair, first: &Set) {
        let values = |set: &Set, metric: &str| -> Vec<f64> {
            set.runs.iter().filter_map(|run| run.value(metric)).collect()
        };
        let placebos_of = |metric: &str| -> Vec<Vec<f64>> {
            self.placebo_sets.iter().map(|set| values(set, metric)).collect()
        };
        let count = self.placebo_sets.len();
        let mut of_metrics: Vec<BTreeMap<String, Vec<f64>>> = vec![BTreeMap::new(); count];
        for judged in pair.comparisons.iter_mut().flat_map(|comparison| &mut comparison.primary) {
            let metric = judged.whole.metric.name.clone();
            let placebos = placebos_of(&metric);
            match band(&values(first, &metric), &placebos, centre_of) {
                Some(band) => {
                    let few = if count < PLACEBOS {
                        format!("; {PLACEBOS} make this firm")
                    } else {
                        String::new()
                    };
                    let note = format!(
                        "neutral code changes it by up to {:.1} % ({count} placebo kernels{few}), which the \
                         interval includes",
                        band * 100.0
                    );
                    judged.widen(band, &note);
                }
                None if self.sides[0].kernel().is_some() => judged.widen(
                    0.0,
                    "on these builds: no placebo kernel tells how much neutral code changes it (--placebo, \
                     --placebos)",
                ),
                None => {}
            }
            for (of, values) in of_metrics.iter_mut().zip(placebos) {
                of.insert(metric.clone(), values);
            }
        }
        if !self.placebo_sets.is_empty() {
            let neutral =
                |metric: &str| band(&values(first, metric), &placebos_of(metric), centre_of);
            pair.comparisons.iter_mut().for_each(|comparison| comparison.look_beyond(neutral));
        }
        let names = self.placebo_sets.iter().map(|set| set.name.clone());
        let placebo = |(kernel, values)| Placebo { kernel, values };
        pair.placebos = names.zip(of_metrics).map(placebo).collect();
    }

    /// The first decision that two trees do not share: in the first start whose metrics differ, else in the first one.
    /// `None` where a run has too many decisions to be recorded beside a comparison.
    fn difference(
        &mut self,
        at: usize,
        [before, after]: [&Set; 2],
    ) -> anyhow::Result<Option<Difference>> {
        let mut pairs = before.runs.iter().zip(&after.runs);
        let start = pairs.position(|(one, other)| one.figures != other.figures).unwrap_or(0);
        let counts = ["switches_voluntary", "switches_involuntary"];
        let switches =
            |run: &StoredRun| counts.iter().filter_map(|name| run.value(name)).sum::<f64>();
        if before.runs.get(start).is_none_or(|run| switches(run) > RECORDED_MAX) {
            let why =
                "a run has more than 1,000,000 switches, so the first difference is not looked for";
            writeln!(crate::output::stderr(), "schedlab: {why}: use a shorter load")?;
            return Ok(None);
        }
        let both = [0, at].map(|side| self.sides[side].clone());
        let cells = self.cells(&both, Some(&RecordSpec::default()));
        let label = self.workload.0.clone();
        let block = start as u32;
        let (runs, stopped) =
            measure(&mut self.machines, &cells, &label, block..block + 1, self.folder.path())?;
        if stopped {
            return Err(schedlab_vm::VmError::Interrupted.into());
        }
        let [Some(one), Some(other)] = [0, 1].map(|side: usize| runs[side].first()) else {
            return Ok(None);
        };
        let read = |run: &StoredRun| {
            let trace = run.stream(Stream::Trace).context("a recorded run left no trace")?;
            Recorded::read(schedlab_trace::open(&trace)?.as_mut())
        };
        Ok(Some(Difference::of(block + 1, &read(one)?, &read(other)?)))
    }

    /// The choices of schedulers in recorded runs, one for each start.
    fn starts(&mut self, sides: &[Side]) -> anyhow::Result<Vec<Starts>> {
        let cells = self.cells(sides, Some(&RecordSpec::default()));
        let label = self.workload.0.clone();
        let (runs, stopped) =
            measure(&mut self.machines, &cells, &label, 0..self.rounds, self.folder.path())?;
        if stopped {
            return Err(schedlab_vm::VmError::Interrupted.into());
        }
        let of_run = |run: &StoredRun| {
            let trace = run.stream(Stream::Trace).context("a recorded run left no trace")?;
            let mut source = schedlab_trace::open(&trace)?;
            anyhow::Ok(chosen::read(source.as_mut())?)
        };
        runs.iter().map(|runs| runs.iter().map(of_run).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_machine_with_knobs() {
        let side = Side::read("vm:kernel=debian-6.1,knob:min_granularity=1ms,cpus=1").unwrap();
        assert_eq!(side.machine.to_string(), "vm:cpus=1,kernel=debian-6.1");
        assert_eq!(side.kernel().unwrap(), "debian-6.1");
        let expected = Setting { knob: "min_granularity".into(), value: "1ms".into() };
        assert_eq!(side.settings, [expected]);
        assert_eq!(Side::read("host,knob:slice=3ms").unwrap().machine, MachineName::default());
        assert_eq!(Side::read("sim:kernel=eevdf-6.12").unwrap().kernel(), None);
        let [one, other, large] = ["linux,cpus=2,scx=x", "linux-6,cpus=2", "linux,cpus=4"]
            .map(|rest| Side::read(&format!("sim:kernel={rest}")).unwrap());
        assert_eq!(one.kernel().unwrap(), "linux");
        assert!(one.is_tree() && one.is_like(&other) && !one.is_like(&large));
        let why = Side::read("vm,knob:x").unwrap_err().to_string();
        assert!(why.contains("write knob:NAME=VALUE"), "{why}");
        assert!(Side::read("debian-6.1").is_err(), "a kernel is no machine");
    }

    #[test]
    fn words_after_the_dashes_are_a_load_or_a_command() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            load_of(&words).unwrap()
        };
        assert_eq!(of(&["hackbench", "-g", "1"]), of(&["hackbench -g 1"]));
        assert_eq!(of(&["hackbench"]).0, "hackbench");
        let command = |words: &[&str]| match of(words).1 {
            WorkloadSpec::Command { argv } => argv,
            other => panic!("{other:?}"),
        };
        assert_eq!(command(&["./a", "b c"]), ["./a", "b c"]);
        assert_eq!(command(&["./a; true"]), ["sh", "-c", "./a; true"]);
    }
}
