//! Verdicts on recorded and made-up runs: no difference invented, a real one found.

use super::*;
use crate::recorded_runs;
use schedlab_model::Unit;
use schedlab_stats::{Random, binomial_cdf};

fn time() -> Metric {
    Metric::new("time_s", Unit::Seconds, Better::Lower)
}

/// Draws runs, with replacement, from the recorded runs of one setting.
fn draw(random: &mut Random, pool: &[f64], runs: usize) -> Vec<f64> {
    (0..runs).map(|_| pool[random.below(pool.len())]).collect()
}

#[test]
fn the_same_against_itself_is_called_different_no_more_often_than_the_level_says() {
    let pool = recorded_runs::pool("time_s");
    assert_eq!(pool.len(), 100);
    let mut random = Random::new(1);
    let trials = 2_000;
    let called = (0..trials)
        .filter(|_| {
            let (a, b) = (draw(&mut random, &pool, 10), draw(&mut random, &pool, 10));
            compare_values(&time(), &a, &b).unwrap().verdict.is_claim()
        })
        .count() as u64;
    // Not more claims than the level allows with 99.9 %, and not so few that nothing is ever claimed.
    let above = 1.0 - binomial_cdf(called.saturating_sub(1), trials, LEVEL);
    assert!(above > 0.001, "{called} of {trials} are too many for {LEVEL}");
    assert!(called > 40, "{called} of {trials}: the level is not used");
}

#[test]
fn a_change_that_was_put_in_is_found_as_often_as_stated() {
    let mut random = Random::new(2);
    for runs in [40, 60] {
        let mut noise = |factor: f64| -> Vec<f64> {
            (0..runs).map(|_| factor * (0.05 * random.normal()).exp()).collect()
        };
        let mut stated: Vec<f64> = (0..400)
            .map(|_| compare_pairs(&time(), &noise(1.0), &noise(1.0)).unwrap().detectable.unwrap())
            .collect();
        stated.sort_by(f64::total_cmp);
        let change = stated[200];
        let trials = 1_000;
        let found = (0..trials)
            .filter(|_| {
                let row = compare_pairs(&time(), &noise(1.0), &noise(1.0 + change)).unwrap();
                row.verdict == Verdict::Worse
            })
            .count();
        assert!((740..=860).contains(&found), "{runs} runs, {change}: {found} of {trials}");
    }
}

#[test]
fn few_runs_state_no_power_and_no_number_beyond_ten_times_their_own() {
    let mut random = Random::new(2);
    for runs in [5, 8, 20, 39] {
        let mut noise =
            || -> Vec<f64> { (0..runs).map(|_| (0.3 * random.normal()).exp()).collect() };
        let row = compare_pairs(&time(), &noise(), &noise()).unwrap();
        assert_eq!(row.detectable, None, "{runs} pairs");
        assert_eq!(row.more_runs, None, "{runs} pairs: ten times as many would not settle it");
    }
}

#[test]
fn one_run_a_side_is_too_few() {
    let found = compare_values(&time(), &[1.0], &[9.0]).unwrap();
    assert_eq!((found.verdict, found.detectable), (Verdict::Undecided, None));
    assert_eq!(found.change.high, f64::INFINITY);
    assert!(found.note.contains("too few"), "{}", found.note);
}

#[test]
fn ten_times_slower_is_seen_with_three_runs() {
    let found = compare_values(&time(), &[1.0, 1.1, 1.2], &[9.0, 9.1, 9.2]).unwrap();
    assert_eq!(found.verdict, Verdict::Worse);
}

#[test]
fn the_direction_of_a_metric_decides_what_is_better() {
    let (low, high) = ([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4]);
    assert_eq!(compare_values(&time(), &low, &high).unwrap().verdict, Verdict::Worse);
    assert_eq!(compare_values(&time(), &high, &low).unwrap().verdict, Verdict::Better);
    let rate = Metric::new("rate", Unit::PerSecond, Better::Higher);
    assert_eq!(compare_values(&rate, &low, &high).unwrap().verdict, Verdict::Better);
}

#[test]
fn equivalent_means_that_the_interval_lies_within_the_margin() {
    let a = [1.00, 1.01, 0.99, 1.00, 1.01, 0.99];
    assert_eq!(compare_values(&time(), &a, &a).unwrap().verdict, Verdict::Equivalent);
    let vague = [0.93, 0.95, 1.0, 1.02, 1.05, 1.08];
    let found = compare_values(&time(), &vague, &vague).unwrap();
    assert_eq!(found.verdict, Verdict::Undecided);
    assert!(found.more_runs.unwrap() > 6, "{:?}", found.more_runs);
}

#[test]
fn before_and_after_agree_with_the_change() {
    // Means of some sides differ in sign from their medians: one centre for all.
    let (a, b) = ([0.2, 0.3, 0.31, 0.9, 0.29], [0.25, 0.26, 0.4, 0.9, 1.2]);
    let found = compare_values(&time(), &a, &b).unwrap();
    let ratio = found.after.centre.unwrap() / found.before.centre.unwrap() - 1.0;
    assert!((ratio - found.change.estimate).abs() < 1e-12);
}

#[test]
fn conditions_are_read() {
    let condition: FailIf = "time_s > +3%".parse().unwrap();
    assert_eq!(condition, FailIf { metric: "time_s".into(), above: true, change: 0.03 });
    assert!("time_s".parse::<FailIf>().is_err() && "time_s > 3".parse::<FailIf>().is_err());
}

#[test]
fn conditions_are_checked_against_the_whole_interval() {
    let base = [1.00, 1.01, 0.99, 1.00, 1.02, 0.98];
    let slow: Vec<f64> = base.iter().map(|v| v * 1.2).collect();
    let vague = [0.8, 0.9, 1.0, 1.1, 1.2, 1.3];
    let check = |condition: &str, a: &[f64], b: &[f64]| {
        let row = compare_values(&time(), a, b).unwrap();
        condition.parse::<FailIf>().unwrap().check_rows(&[&row])
    };
    assert_eq!(check("time_s > +3%", &base, &slow), Some(true));
    assert_eq!(check("time_s > +3%", &slow, &base), Some(false));
    assert_eq!(check("time_s > +3%", &vague, &vague), None);
    assert_eq!(check("time_s < -5%", &slow, &base), Some(true));
}

#[test]
fn a_condition_never_disagrees_with_the_verdict() {
    let (more, less): (FailIf, FailIf) =
        ("time_s > +0%".parse().unwrap(), "time_s < -0%".parse().unwrap());
    let mut random = Random::new(3);
    let mut claims = 0;
    for trial in 0..3_000_usize {
        let runs = [2, 3, 5, 8, 12][trial % 5];
        let shift = [0.0, 0.05, 0.3, -0.3][trial / 5 % 4];
        let mut noise = |shift: f64| -> Vec<f64> {
            (0..runs).map(|_| (shift + 0.1 * random.normal()).exp()).collect()
        };
        let (a, mut b) = (noise(0.0), noise(shift));
        if trial % 7 == 0 {
            b.clone_from(&a);
        }
        let compared = if trial % 2 == 0 { compare_values } else { compare_pairs };
        let Some(row) = compared(&time(), &a, &b) else { continue };
        let (up, down) = (more.check_rows(&[&row]), less.check_rows(&[&row]));
        match row.verdict {
            Verdict::Worse => assert_eq!((up, down), (Some(true), Some(false)), "{row:?}"),
            Verdict::Better => assert_eq!((up, down), (Some(false), Some(true)), "{row:?}"),
            _ => assert!(up != Some(true) && down != Some(true), "{row:?}"),
        }
        assert_eq!(row.p <= LEVEL, row.verdict.is_claim(), "p and interval invert: {row:?}");
        claims += u32::from(row.verdict.is_claim());
    }
    assert!(claims > 500, "{claims}");
}

#[test]
fn copies_are_no_sample_but_six_of_them_are_told_apart() {
    assert_eq!(compare_values(&time(), &[1.0; 5], &[2.0; 5]).unwrap().verdict, Verdict::Undecided);
    assert_eq!(compare_values(&time(), &[1.0; 6], &[2.0; 6]).unwrap().verdict, Verdict::Worse);
    assert_eq!(compare_values(&time(), &[1.0; 6], &[1.0; 6]).unwrap().verdict, Verdict::Equivalent);
    for after in [1.0, 2.0] {
        let row = compare_values(&time(), &[1.0; 6], &[after; 6]).unwrap();
        assert!(!row.change.low.is_finite() && !row.change.high.is_finite(), "{row:?}");
        assert_eq!(row.change.estimate, after - 1.0);
        assert!(row.note.starts_with("copies: "), "{}", row.note);
        let worse: FailIf = "time_s > +3%".parse().unwrap();
        assert_eq!(worse.check_rows(&[&row]), Some(after > 1.0), "git bisect needs an answer");
    }
}

#[test]
fn a_metric_that_is_nothing_before_has_a_change_that_can_be_read() {
    let (before, after) = ([0.0, 0.0, 0.0, 1.0, 0.0], [2.0, 3.0, 2.0, 4.0, 2.0]);
    let found = compare_values(&time(), &before, &after).unwrap();
    // Of the mean before, 0.2: some 2.4 more.
    assert!((10.0..14.0).contains(&found.change.estimate), "{:?}", found.change);
    assert!(compare_values(&time(), &[0.0; 5], &[0.0; 5]).is_none(), "nothing in both");
}

#[test]
fn what_is_never_negative_falls_by_everything_at_most() {
    let (before, after) = ([0.0, 4.0, 0.0, 8.0], [0.0, 300.0, 0.0, 0.0]);
    let count = Metric::new("switches_involuntary", Unit::Count, Better::Lower);
    let found = compare_values(&count, &before, &after).unwrap();
    assert_eq!((found.verdict, found.change.low), (Verdict::Undecided, -1.0));
    assert!(found.change.high > 25.0, "{:?}", found.change);
    // A drift may be below zero, and falls below it.
    let drift = Metric::new("drift_s", Unit::Seconds, Better::Lower);
    let found = compare_values(&drift, &[-1.0, 4.0, 0.0, 8.0], &after).unwrap();
    assert!(found.change.low < -1.0, "{:?}", found.change);
}
