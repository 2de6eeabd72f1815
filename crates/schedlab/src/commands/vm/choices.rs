//! What two schedulers chose in the same situations: as numbers, as text and as a picture.

use schedlab_draw::choice::{self, Choice as Drawn};
use schedlab_draw::{Scene, Theme};
use schedlab_model::Nanos;
use schedlab_vm::choices::{self, Asked, Choice, Kind, Slot};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};

/// What both schedulers chose.
#[derive(Serialize, JsonSchema)]
pub(super) struct Choices {
    /// Choices in the first side's trace.
    before: usize,
    /// Choices in the second side's trace.
    after: usize,
    /// How many were equal before the first one that differs; none if all are equal.
    equal: Option<usize>,
    /// Choices of the second side that neither the first side nor a placebo ever made in the same
    /// situation.
    unlike: usize,
    /// The same of each placebo, beside the first side and the other placebos.
    unlike_of_placebos: Vec<usize>,
    /// The same by kind of choice.
    kinds: Vec<OfKind>,
    /// The first of them, if there are more than a placebo has, in total and of its kind.
    first: Option<First>,
}

/// Choices of one kind that no other kernel makes.
#[derive(Serialize, JsonSchema)]
struct OfKind {
    /// `wakeup`, `next` or `preemption`.
    kind: &'static str,
    /// Number of the second side's.
    unlike: usize,
    /// The largest number of a placebo's.
    most_of_a_placebo: Option<usize>,
}

impl OfKind {
    /// Whether the second side makes more of them than any placebo.
    fn is_more(&self) -> bool {
        self.unlike > self.most_of_a_placebo.unwrap_or_default()
    }
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Wakeup => "wakeup",
        Kind::Next => "next",
        Kind::Preemption => "preemption",
    }
}

/// One situation in which the sides chose differently.
#[derive(Serialize, JsonSchema)]
struct First {
    /// When, in nanoseconds on the clock of the second side's trace.
    at_ns: u64,
    cpu: u16,
    /// What was decided: `wakeup` (whether a woken task preempts), `next` (who follows a task that slept) or
    /// `preemption` (who follows a task that gave way to no wakeup).
    kind: &'static str,
    /// The task that ran, by its slot in the load's plan.
    current: String,
    /// The tasks that waited on that CPU.
    waiting: Vec<String>,
    /// Why the scheduler was asked.
    asked: String,
    /// What the first side and the placebos chose there.
    chose_before: Vec<String>,
    /// What the second side chose.
    chose_after: String,
}

impl Choices {
    pub(super) fn of(before: &[Choice], after: &[Choice], placebos: &[Vec<Choice>]) -> Self {
        let references: Vec<&[Choice]> =
            std::iter::once(before).chain(placebos.iter().map(Vec::as_slice)).collect();
        let unlike = choices::unlike(after, &references);
        let of_placebo = |index: usize| {
            let mut others = references.clone();
            let one = others.remove(index + 1);
            choices::unlike(one, &others).into_iter().map(|(choice, _)| choice.kind()).collect()
        };
        let of_placebos: Vec<Vec<Kind>> = (0..placebos.len()).map(of_placebo).collect();
        let of_kind = |kind: Kind| OfKind {
            kind: word(kind),
            unlike: unlike.iter().filter(|(choice, _)| choice.kind() == kind).count(),
            most_of_a_placebo: of_placebos
                .iter()
                .map(|kinds| kinds.iter().filter(|one| **one == kind).count())
                .max(),
        };
        let kinds: Vec<OfKind> = Kind::ALL.into_iter().map(of_kind).collect();
        let unlike_of_placebos: Vec<usize> = of_placebos.iter().map(Vec::len).collect();
        let most = unlike_of_placebos.iter().copied().max();
        let is_more = most.is_none_or(|most| unlike.len() > most);
        let counts = |choice: &Choice| {
            kinds.iter().any(|one| one.kind == word(choice.kind()) && one.is_more())
        };
        let first = unlike.iter().find(|(choice, _)| is_more && counts(choice));
        let first =
            first.map(|(choice, chosen)| First::of(choice, chosen.iter().cloned().collect()));
        Self {
            before: before.len(),
            after: after.len(),
            equal: choices::first_difference(before, after),
            unlike: unlike.len(),
            unlike_of_placebos,
            kinds,
            first,
        }
    }

    /// Prints them for two sides by name.
    pub(super) fn print(&self, out: &mut dyn Write, sides: [&str; 2]) -> io::Result<()> {
        match self.equal {
            None => writeln!(out, "\nAll {} choices of the scheduler are equal.", self.before)?,
            Some(equal) => {
                writeln!(out, "\nThe first {equal} choices of the scheduler are equal.")?;
            }
        }
        let most = self.unlike_of_placebos.iter().max();
        let beside = most.map_or("no placebo was compared".to_owned(), |most| {
            format!("a placebo makes up to {most} such choices")
        });
        writeln!(
            out,
            "{} makes {} choices that the other kernels never make in the same situation; {beside}.",
            sides[1], self.unlike
        )?;
        for one in &self.kinds {
            let most = one.most_of_a_placebo.unwrap_or_default();
            writeln!(out, "  {:<12} {}, of a placebo up to {most}", one.kind, one.unlike)?;
        }
        match &self.first {
            None => writeln!(out, "So no choice is shown as a cause."),
            Some(first) => first.print(out, sides),
        }
    }

    /// The choice that is shown as a cause, as a picture.
    pub(super) fn scene(&self, sides: [&str; 2]) -> Option<Scene> {
        let first = self.first.as_ref()?;
        let [before, after] = sides.map(str::to_owned);
        let drawn = Drawn {
            title: format!("First choice that only {after} makes: {}", first.place()),
            asked: first.asked.clone(),
            current: first.current.clone(),
            waiting: first.waiting.clone(),
            sides: vec![
                (before, first.chose_before.clone()),
                (after, vec![first.chose_after.clone()]),
            ],
        };
        Some(choice::choice(&drawn, &Theme::light()))
    }
}

impl First {
    fn of(choice: &Choice, chose_before: Vec<Slot>) -> Self {
        let situation = &choice.situation;
        let asked = match &situation.asked {
            Asked::Woken { task, by: Some(by) } => format!("task {by} woke task {task}"),
            Asked::Woken { task, by: None } => format!("task {task} was woken"),
            Asked::Left => format!("task {} slept", situation.current),
            Asked::Preempted => format!("task {} was preempted", situation.current),
        };
        Self {
            at_ns: choice.at.0,
            cpu: situation.cpu.0,
            kind: word(choice.kind()),
            current: situation.current.clone(),
            waiting: situation.waiting.iter().cloned().collect(),
            asked,
            chose_before,
            chose_after: choice.next.clone(),
        }
    }

    fn place(&self) -> String {
        format!("CPU {} at {} of its trace", self.cpu, Nanos(self.at_ns))
    }

    /// The situation and both choices, as text.
    fn print(&self, out: &mut dyn Write, [before, after]: [&str; 2]) -> io::Result<()> {
        let waiting = match self.waiting.is_empty() {
            true => "nobody".to_owned(),
            false => self.waiting.join(", "),
        };
        writeln!(out, "\nThe first one, on {}:", self.place())?;
        writeln!(out, "  runs:    {}", self.current)?;
        writeln!(out, "  waits:   {waiting}")?;
        writeln!(out, "  asked:   {}", self.asked)?;
        writeln!(out, "  {before:<32} runs {} next", self.chose_before.join(" or "))?;
        writeln!(out, "  {after:<32} runs {} next", self.chose_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Cpu;
    use schedlab_vm::choices::Situation;

    fn chosen(next: &str) -> Vec<Choice> {
        let asked = Asked::Woken { task: "1".into(), by: Some("0".into()) };
        let waiting = ["1".to_owned()].into();
        let situation = Situation { cpu: Cpu(0), current: "0".into(), waiting, asked };
        vec![Choice { at: Nanos(5), situation, next: next.into() }]
    }

    #[test]
    fn what_only_one_side_chose_is_drawn_and_what_a_placebo_chose_too_is_not() {
        let (stays, preempts) = (chosen("0"), chosen("1"));
        let found = Choices::of(&stays, &preempts, &[stays.clone(), stays.clone()]);
        let scene = found.scene(["6.1", "6.12"]).unwrap();
        let texts: Vec<&str> = scene.texts().iter().map(|text| &*text.content).collect();
        assert!(texts.contains(&"task 0 woke task 1"), "{texts:?}");
        assert!(texts[0].contains("only 6.12 makes: CPU 0 at 5"), "{texts:?}");
        let mut told = Vec::new();
        found.print(&mut told, ["6.1", "6.12"]).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("  6.12                             runs 1 next"), "{told}");
        let placebo = Choices::of(&stays, &preempts, &[preempts.clone(), stays.clone()]);
        assert!(placebo.scene(["6.1", "6.12"]).is_none());
    }
}
