//! Choices of two schedulers as text and as a picture.

use super::{Choices, Chosen, First, OfClass, Share};
use crate::commands::verdicts::side_heads;
use crate::output::folded;
use schedlab_draw::choice::{self, Choice as Drawn};
use schedlab_draw::{Scene, Theme};
use schedlab_model::table::TextTable;
use std::io::{self, Write};

/// What the answer yes means.
fn question(kind: &str) -> &'static str {
    match kind {
        "wakeup" => "a wakeup preempts",
        "slice" => "a task that ran for a while gives way",
        _ => "the task that waited longest is next",
    }
}

impl Share {
    fn percent(self) -> f64 {
        100.0 * self.yes as f64 / self.all.max(1) as f64
    }

    fn text(self) -> String {
        format!("{:.1} % of {}", self.percent(), self.all)
    }
}

impl OfClass {
    /// A row for two sides; classes within a kind are indented.
    fn row(&self) -> Vec<String> {
        let what = match &self.case {
            None => question(self.kind).to_owned(),
            Some(case) => format!("  if {case}"),
        };
        let enough =
            self.placebos.iter().filter(|share| share.all > 0).map(|share| share.percent());
        let (low, high) =
            enough.fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        let band = match low.is_finite() {
            true => format!("{low:.1} to {high:.1} %"),
            false => "-".to_owned(),
        };
        let verdict = match self.differs {
            true if self.p < 0.001 => "yes (p < 0.001)".to_owned(),
            true => format!("yes (p {:.3})", self.p),
            false => "no".to_owned(),
        };
        vec![what, self.before.text(), self.after.text(), band, verdict]
    }
}

impl Choices {
    /// Prints them for two sides by name, in lines of `room` characters.
    pub(in super::super) fn print(
        &self,
        out: &mut dyn Write,
        sides: [&str; 2],
        room: usize,
    ) -> io::Result<()> {
        match self.equal {
            None => writeln!(out, "\nAll choices of the scheduler in the first start are equal.")?,
            Some(equal) => {
                writeln!(out, "\nThe first {equal} choices of the scheduler are equal.")?;
            }
        }
        let [before, after] = side_heads(sides);
        let mut table = TextTable::plain([
            ("choice", true, 0),
            (before, false, 0),
            (after, false, 0),
            ("placebos", false, 1),
            ("differs", true, 0),
        ]);
        let is_shown = |one: &&OfClass| one.case.is_none() || one.differs;
        self.classes.iter().filter(is_shown).for_each(|one| table.row(one.row()));
        writeln!(
            out,
            "\nHow often the scheduler chose so in {} starts:\n{}",
            self.starts,
            table.text(0, room)
        )?;
        match (&self.first, self.classes.iter().any(|one| one.differs)) {
            (Some(first), _) => first.print(out, sides, room),
            (None, true) => writeln!(
                out,
                "Both kernels never chose differently so in the same situation, so no choice is shown as a cause."
            ),
            (None, false) if self.placebos() < 3 => writeln!(
                out,
                "Fewer than 3 placebos do not tell what neutral code changes, so no choice is shown as a cause."
            ),
            (None, false) => writeln!(
                out,
                "No kind of choice differs by more than neutral code makes likely, so none is shown as a cause."
            ),
        }
    }

    fn placebos(&self) -> usize {
        self.classes.first().map_or(0, |one| one.placebos.len())
    }

    /// The choice that is shown as a cause, as a picture.
    pub(in super::super) fn scene(&self, sides: [&str; 2], theme: &Theme) -> Option<Scene> {
        let first = self.first.as_ref()?;
        let [one, other] = first.sides(sides);
        let [before, after] = sides.map(str::to_owned);
        let list = |chosen: &[Chosen]| -> Vec<(String, usize)> {
            chosen.iter().map(|one| (one.task.clone(), one.times)).collect()
        };
        let drawn = Drawn {
            title: format!("First choice that {one} makes and {other} does not: {}", first.place()),
            asked: first.asked.clone(),
            current: first.current.clone(),
            waiting: first.waiting.clone(),
            sides: vec![
                (before, list(&first.chose_before)),
                (after, list(&first.chose_after)),
                (format!("{} placebos", self.placebos()), list(&first.chose_placebos)),
            ],
        };
        Some(choice::choice(&drawn, theme))
    }
}

impl First {
    /// The situation and what was chosen in it, as text.
    fn print(&self, out: &mut dyn Write, sides: [&str; 2], room: usize) -> io::Result<()> {
        let [before, after] = sides;
        let waiting = match self.waiting.is_empty() {
            true => "nobody".to_owned(),
            false => self.waiting.join(", "),
        };
        let [one, other] = self.sides(sides);
        writeln!(
            out,
            "The first choice that {one} makes and {other} does not, on {}:",
            self.place()
        )?;
        writeln!(out, "  runs:    {}, for {}", self.current, self.ran)?;
        out.write_all(folded(&format!("  waits:   {waiting}"), 11, room).as_bytes())?;
        writeln!(out, "  asked:   {}", self.asked)?;
        let of_sides = [(before, &self.chose_before), (after, &self.chose_after)];
        for (name, chosen) in of_sides.into_iter().chain([("placebos", &self.chose_placebos)]) {
            let each = |one: &Chosen| format!("{} ({} times)", one.task, one.times);
            let chosen: Vec<String> = chosen.iter().map(each).collect();
            let next = match chosen.is_empty() {
                true => "never had this situation".to_owned(),
                false => format!("next: {}", chosen.join(", ")),
            };
            out.write_all(folded(&format!("  {name:<32} {next}"), 35, room).as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, Nanos};
    use schedlab_vm::choices::{Choice, Occasion, Ran, Situation, Starts};

    /// A kernel that preempts in `yes` of 60 wakeups.
    fn kernel(yes: usize) -> Starts {
        let one = |index: usize| {
            let asked = Occasion::Woken { task: "1".into(), by: Some("0".into()) };
            let waiting = ["1".to_owned()].into();
            let (cpu, ran) = (Cpu(0), Ran::default());
            let situation = Situation { cpu, current: "0".into(), ran, waiting, asked };
            let next = if index < yes { "1" } else { "0" };
            Choice { at: Nanos(5), situation, next: next.into(), longest: false }
        };
        vec![(0..60).map(one).collect()]
    }

    fn told(choices: &Choices) -> String {
        let mut told = Vec::new();
        choices.print(&mut told, ["6.1", "6.12"], usize::MAX).unwrap();
        String::from_utf8(told).unwrap()
    }

    #[test]
    fn what_only_one_side_chose_is_drawn_and_what_a_placebo_chose_too_is_not() {
        let placebos: Vec<Starts> = [0, 1, 0, 2, 1].map(kernel).into();
        let found = Choices::of(&kernel(0), &kernel(40), &placebos);
        let scene = found.scene(["6.1", "6.12"], &Theme::light()).unwrap();
        let texts: Vec<&str> = scene.texts().iter().map(|text| &*text.content).collect();
        assert!(
            texts.contains(&"task 0 woke task 1") && texts.contains(&"5 placebos"),
            "{texts:?}"
        );
        assert!(texts[0].contains("that 6.12 makes and 6.1 does not: CPU 0 at 5"), "{texts:?}");
        let text = told(&found);
        assert!(
            text.contains("  6.12                             next: 0 (20 times), 1 (40 times)"),
            "{text}"
        );
        assert!(text.contains("0.0 to 3.3 %  yes (p"), "{text}");
        let one_does_so: Vec<Starts> = [0, 1, 0, 41, 1].map(kernel).into();
        let placebo = Choices::of(&kernel(0), &kernel(40), &one_does_so);
        assert!(placebo.scene(["6.1", "6.12"], &Theme::light()).is_none());
        assert!(told(&placebo).contains("No kind of choice differs"), "{}", told(&placebo));
    }

    #[test]
    fn a_difference_without_a_common_situation_and_missing_placebos_are_told() {
        let placebos: Vec<Starts> = [5, 6, 4, 5, 6].map(kernel).into();
        let found = told(&Choices::of(&kernel(5), &kernel(50), &placebos));
        assert!(found.contains("never chose differently so in the same situation"), "{found}");
        let found = told(&Choices::of(&kernel(5), &kernel(50), &[]));
        assert!(found.contains("Fewer than 3 placebos"), "{found}");
    }
}
