//! Searches of small spaces whose best point is known.

use super::*;
use crate::Axis;

fn values(count: u32) -> Vec<f64> {
    (0..count).map(f64::from).collect()
}

/// Two axes of 24 levels with the best point at (16, 6), and one that does nothing.
fn space() -> Space {
    let axis = |name| Axis::ordered(name, &values(24), false);
    Space::new(vec![axis("a"), axis("b"), axis("dead")])
}

fn bowl(point: &[usize]) -> f64 {
    let part = |axis: usize, best: f64| ((point[axis] as f64 - best) / 23.0).powi(2);
    2.0 * part(0, 16.0) + part(1, 6.0)
}

fn searched(options: Options, noise: f64) -> Search {
    let mut random = Random::new(options.seed + 100);
    let mut search = Search::new(space(), options);
    while let Some(point) = search.ask() {
        let value = bowl(&point) + noise * random.normal();
        search.tell(point, Outcome::of(value));
    }
    search
}

#[test]
fn the_model_finds_the_bottom_of_a_bowl() {
    for seed in 0..3 {
        let search = searched(Options { budget: 40, seed, ..Options::default() }, 0.01);
        let best = search.advice().unwrap().point;
        assert!(bowl(&best) < 0.01, "seed {seed}: {best:?} is {}", bowl(&best));
        assert_eq!(search.trials().len(), 40);
    }
}

#[test]
fn the_same_answers_give_the_same_questions() {
    let first = searched(Options { budget: 20, ..Options::default() }, 0.01);
    let mut again = Search::new(space(), Options { budget: 20, ..Options::default() });
    for trial in first.trials() {
        assert_eq!(again.ask().as_ref(), Some(&trial.point));
        again.tell(trial.point.clone(), trial.outcome.clone());
    }
    assert_eq!(again.ask(), None);
}

#[test]
fn the_default_is_measured_three_times() {
    let default = Some(vec![3, 3, 3]);
    let search =
        searched(Options { budget: 24, default: default.clone(), ..Options::default() }, 0.01);
    let copies = search.trials().iter().filter(|t| Some(&t.point) == default.as_ref()).count();
    assert!(copies >= 3, "{copies}");
    assert_eq!(Some(&search.trials()[0].point), default.as_ref());
}

#[test]
fn a_setting_that_fails_is_left_alone() {
    let words =
        Space::new(vec![Axis::words("policy", 3), Axis::ordered("slice", &values(12), false)]);
    let mut search = Search::new(words, Options { budget: 40, ..Options::default() });
    let mut failures = 0;
    while let Some(point) = search.ask() {
        if point[0] == 1 {
            failures += 1;
            search.tell(point, None);
            continue;
        }
        let value = (point[1] as f64 - 4.0).abs() / 12.0 + point[0] as f64;
        search.tell(point, Outcome::of(value));
    }
    let advice = search.advice().unwrap();
    assert_eq!(advice.point[0], 0, "{advice:?}");
    assert!(advice.point[1].abs_diff(4) <= 1, "{advice:?}");
    // A third of the points that fill the space fail, and few later ones.
    assert!(failures <= 8, "{failures}");
}

#[test]
fn the_best_point_within_a_limit_is_found() {
    let mut search = Search::new(space(), Options { budget: 40, ..Options::default() });
    while let Some(point) = search.ask() {
        // Beyond 10 on the first axis the limit is missed.
        let beyond = vec![(point[0] as f64 - 10.0) / 23.0];
        search.tell(point.clone(), Outcome { goals: vec![bowl(&point)], beyond });
    }
    let advice = search.advice().unwrap();
    assert!(advice.keeps_limits && advice.point[0] <= 10, "{advice:?}");
    assert!(bowl(&advice.point) < bowl(&[9, 6, 0]) + 0.01, "{advice:?}");
}

#[test]
fn two_goals_have_a_front() {
    let one = Space::new(vec![Axis::ordered("a", &values(24), false)]);
    let mut search = Search::new(one, Options { budget: 24, ..Options::default() });
    while let Some(point) = search.ask() {
        let x = point[0] as f64;
        // Between 8 and 16 more of one goal is less of the other.
        let goals = vec![(x - 8.0).powi(2), (x - 16.0).powi(2)];
        search.tell(point, Outcome { goals, beyond: Vec::new() });
    }
    let front = search.front();
    assert!(front.len() >= 4, "{front:?}");
    assert!(front.iter().all(|advice| (7..=17).contains(&advice.point[0])), "{front:?}");
    assert!((10..=14).contains(&search.advice().unwrap().point[0]));
}

#[test]
fn several_points_at_once_are_unlike_each_other() {
    let mut search = Search::new(space(), Options { budget: 40, ..Options::default() });
    for _ in 0..10 {
        let point = search.ask().unwrap();
        let outcome = Outcome::of(bowl(&point));
        search.tell(point, outcome);
    }
    let several: BTreeSet<Point> = search.ask_several(4).into_iter().collect();
    assert!(several.len() >= 3, "{several:?}");
}

#[test]
fn grid_and_random_keep_to_the_budget() {
    for method in [Method::Grid, Method::Random] {
        let search = searched(Options { method, budget: 30, ..Options::default() }, 0.0);
        assert!((8..=30).contains(&search.trials().len()), "{method:?} {}", search.trials().len());
        let best = search.trials().iter().map(|t| bowl(&t.point)).fold(f64::INFINITY, f64::min);
        assert_eq!(bowl(&search.advice().unwrap().point), best);
    }
}
