//! One choice of two schedulers in the same situation: who ran, who waited, and whom each let run next.

use crate::colour::Theme;
use crate::scene::{Anchor, PX, Rect, Scene, Stroke, Style, at};

/// The situation, and what both sides chose in it. Tasks are named as in the load's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Where and when, in words.
    pub title: String,
    /// Why the scheduler was asked, in words.
    pub asked: String,
    /// The task that ran.
    pub current: String,
    /// The tasks that waited on that CPU.
    pub waiting: Vec<String>,
    /// Each side by name, with the tasks that it chose there, and how often.
    pub sides: Vec<(String, Vec<(String, usize)>)>,
}

const MARGIN: i32 = 16 * PX;
/// Where boxes begin: names of rows stand before it.
const LEFT: i32 = 210 * PX;
const BOX: (i32, i32) = (64 * PX, 26 * PX);
const GAP: i32 = 8 * PX;
const ROW: i32 = 44 * PX;
const HEAD: i32 = 66 * PX;
/// More boxes than this are reported by a number.
const MOST: usize = 12;

/// Draws it: a row with the situation, and one for each side, where the chosen task is filled.
#[must_use]
pub fn choice(choice: &Choice, theme: &Theme) -> Scene {
    let tasks: Vec<&str> =
        std::iter::once(&choice.current).chain(&choice.waiting).map(String::as_str).collect();
    let shown = shown(choice, &tasks);
    let more = tasks.len() - shown.len();
    let columns = i32::try_from(shown.len() + usize::from(more > 0)).unwrap_or(1);
    let title = Style::bold(14, theme.text);
    let boxes = LEFT + columns * (BOX.0 + GAP) + MARGIN;
    let line = Style::regular(12, theme.muted);
    let words = title.width(&choice.title).max(line.width(&choice.asked));
    let width = boxes.max(words + 2 * MARGIN);
    let rows = i32::try_from(choice.sides.len() + 1).unwrap_or(1);
    let height = HEAD + rows * ROW + MARGIN;
    let mut scene = Scene::new(width, height, &choice.title, theme.ground);
    scene.text(at(MARGIN, 26 * PX), Anchor::Start, title, &choice.title);
    scene.text(at(MARGIN, 46 * PX), Anchor::Start, line, &choice.asked);
    let situation = |task: &str| match task == choice.current {
        true => (theme.running, "runs".to_owned()),
        false => (theme.waiting, "waits".to_owned()),
    };
    row(&mut scene, theme, HEAD, "before the choice", &shown, &situation);
    for (index, (name, chosen)) in (1..).zip(&choice.sides) {
        let all: usize = chosen.iter().map(|(_, times)| times).sum();
        let mark = |task: &str| match chosen.iter().find(|(one, _)| one == task) {
            Some((_, times)) if all > 1 => (theme.running, format!("next {times} of {all}")),
            Some(_) => (theme.running, "next".to_owned()),
            None => (theme.panel, String::new()),
        };
        row(&mut scene, theme, HEAD + index * ROW, name, &shown, &mark);
    }
    if more > 0 {
        let x = LEFT + (columns - 1) * (BOX.0 + GAP);
        scene.text(at(x, HEAD + 17 * PX), Anchor::Start, line, &format!("and {more} more"));
    }
    scene
}

/// The tasks that get a box: those that a side chose always do.
fn shown<'c>(choice: &'c Choice, tasks: &[&'c str]) -> Vec<&'c str> {
    let is_chosen = |task: &str| {
        choice.sides.iter().any(|(_, chosen)| chosen.iter().any(|(one, _)| one == task))
    };
    let must = tasks.iter().skip(1).filter(|task| is_chosen(task)).count();
    let mut free = MOST.saturating_sub(must + 1);
    let mut shown = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let fits = index == 0 || is_chosen(task);
        if !fits && free == 0 {
            continue;
        }
        free -= usize::from(!fits);
        shown.push(*task);
    }
    shown
}

fn row(
    scene: &mut Scene,
    theme: &Theme,
    y: i32,
    name: &str,
    tasks: &[&str],
    mark: &dyn Fn(&str) -> (crate::Colour, String),
) {
    let label = Style::regular(12, theme.text);
    let name = crate::shorten(name, label.size, label.weight, LEFT - 2 * MARGIN);
    scene.text(at(MARGIN, y + 17 * PX), Anchor::Start, label, &name);
    for (index, task) in (0..).zip(tasks) {
        let x = LEFT + index * (BOX.0 + GAP);
        let (fill, word) = mark(task);
        let frame = Rect::new(x, y, BOX.0, BOX.1);
        scene.rect(fill, frame);
        let right = frame.right();
        let bottom = frame.bottom();
        let corners = [at(x, y), at(right, y), at(right, bottom), at(x, bottom), at(x, y)];
        scene.polyline(Stroke::solid(theme.axis, PX), &corners);
        let text = Style::bold(12, fill.ink());
        scene.text(at(x + BOX.0 / 2, y + 17 * PX), Anchor::Middle, text, task);
        let small = Style::regular(10, theme.muted);
        scene.text(at(x + BOX.0 / 2, bottom + 12 * PX), Anchor::Middle, small, &word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(waiting: usize) -> Choice {
        Choice {
            title: "A choice on CPU 0".to_owned(),
            asked: "task 0 woke task 1".to_owned(),
            current: "0".to_owned(),
            waiting: (1..=waiting).map(|task| task.to_string()).collect(),
            sides: vec![
                ("before".to_owned(), vec![("0".to_owned(), 1)]),
                ("after".to_owned(), vec![("0".to_owned(), 2), (waiting.to_string(), 5)]),
            ],
        }
    }

    #[test]
    fn each_side_shows_whom_it_chose() {
        let scene = choice(&example(2), &Theme::light());
        let texts: Vec<&str> = scene.texts().iter().map(|text| &*text.content).collect();
        let count = |word: &str| texts.iter().filter(|text| **text == word).count();
        assert_eq!((count("runs"), count("waits"), count("next")), (1, 2, 1), "{texts:?}");
        assert_eq!((count("next 2 of 7"), count("next 5 of 7")), (1, 1), "{texts:?}");
        assert!(texts.contains(&"before") && texts.contains(&"after"), "{texts:?}");
    }

    #[test]
    fn of_many_tasks_those_that_were_chosen_are_shown() {
        let scene = choice(&example(40), &Theme::light());
        let texts: Vec<&str> = scene.texts().iter().map(|text| &*text.content).collect();
        assert!(texts.contains(&"40") && texts.contains(&"and 29 more"), "{texts:?}");
        assert!(!texts.contains(&"30"), "{texts:?}");
    }
}
