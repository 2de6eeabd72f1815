//! Rank tests against published and independently computed figures.

use super::*;
use crate::Random;

fn sample(values: &[f64]) -> Sample {
    Sample::new(values.iter().copied()).unwrap()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-10, "{found} instead of {expected}");
}

const A: [f64; 5] = [1.1, 2.5, 3.2, 4.8, 2.9];
const B: [f64; 6] = [3.9, 5.1, 4.4, 6.0, 7.2, 2.8];
const TIED_A: [f64; 5] = [1.0, 2.0, 2.0, 3.0, 5.0];
const TIED_B: [f64; 6] = [2.0, 3.0, 4.0, 4.0, 6.0, 7.0];

#[test]
fn mann_whitney_agrees_with_scipy() {
    // scipy 1.17.1: mannwhitneyu(a, b, method='exact')
    close(mann_whitney(&sample(&A), &sample(&B)).p, 0.082_251_082_251_082_26);
    // With ties: counted out over all 462 choices with mid-ranks, by numpy.
    close(mann_whitney(&sample(&TIED_A), &sample(&TIED_B)).p, 0.125_541_125_541_125_54);
}

#[test]
fn many_tied_runs_agree_with_scipys_approximation() {
    // scipy 1.17.1: mannwhitneyu([v % 13 for v in 1..41], [v * 7 % 17 + 1 for v in 1..36], 'asymptotic')
    let a = Sample::new((1..41).map(|v| f64::from(v % 13))).unwrap();
    let b = Sample::new((1..36).map(|v| f64::from(v * 7 % 17 + 1))).unwrap();
    let test = mann_whitney(&a, &b);
    close(test.p, 0.007_098_695_811_705_22);
    assert!(!test.exact);
}

#[test]
fn brunner_munzel_agrees_with_scipy() {
    close(brunner_munzel(&sample(&A), &sample(&B)).unwrap().p, 0.032_673_969_264_512_84);
    close(brunner_munzel(&sample(&TIED_A), &sample(&TIED_B)).unwrap().p, 0.096_748_087_930_875_75);
}

#[test]
fn the_signed_rank_test_agrees_with_scipy() {
    let differences = [1.2, -0.4, 2.3, 0.9, -1.1, 3.0, 0.7, 1.8];
    close(signed_rank(&differences).unwrap().p, 0.078_125);
}

#[test]
fn three_runs_each_can_never_show_a_difference_at_five_percent() {
    let test = mann_whitney(&sample(&[1.0, 2.0, 3.0]), &sample(&[10.0, 11.0, 12.0]));
    close(test.p, 0.1);
    close(test.p_min, 0.1);
}

#[test]
fn cliffs_delta_counts_who_exceeds_whom() {
    close(cliffs_delta(&sample(&[1.0, 2.0]), &sample(&[3.0, 4.0])), 1.0);
    close(cliffs_delta(&sample(&A), &sample(&A)), 0.0);
    // 25 of 30 pairs rise, 5 fall: U = 5 above.
    close(cliffs_delta(&sample(&A), &sample(&B)), 20.0 / 30.0);
}

#[test]
fn the_shift_of_hodges_and_lehmann_has_the_published_ends() {
    // m = n = 4 at 95 %: only the outermost difference on each side (2 / 70 = 0.0286).
    let a = sample(&[1.0, 2.0, 3.0, 4.0]);
    let b = sample(&[11.0, 12.0, 13.0, 14.0]);
    let shift = RankShift::between(&a, &b).interval(0.95);
    assert_eq!((shift.low, shift.estimate, shift.high), (7.0, 10.0, 13.0));
    let few = RankShift::between(&sample(&[1.0, 2.0]), &sample(&[3.0, 4.0])).interval(0.95);
    assert_eq!((few.low, few.high), (f64::NEG_INFINITY, f64::INFINITY));
}

#[test]
fn the_intervals_of_shifts_hold_the_truth_as_often_as_they_say() {
    let mut random = Random::new(3);
    let mut unpaired = 0;
    let mut paired = 0;
    for _ in 0..1_000 {
        let a = Sample::new((0..8).map(|_| random.normal())).unwrap();
        let b = Sample::new((0..8).map(|_| random.normal() + 1.0)).unwrap();
        let shift = RankShift::between(&a, &b).interval(0.95);
        unpaired += u32::from(shift.low <= 1.0 && 1.0 <= shift.high);
        let differences: Vec<f64> = (0..8).map(|_| random.normal() + 1.0).collect();
        let shift = RankShift::within(&differences).unwrap().interval(0.95);
        paired += u32::from(shift.low <= 1.0 && 1.0 <= shift.high);
    }
    // At least 950 expected (the exact levels are a little higher), standard deviation 7.
    assert!(
        (930..=980).contains(&unpaired) && (930..=980).contains(&paired),
        "{unpaired} {paired}"
    );
}

#[test]
fn p_and_interval_of_a_shift_are_inversions() {
    let mut random = Random::new(5);
    for trial in 0..400 {
        let runs = [6, 12, 25, 60][trial % 4];
        // Quantised, so that ties and zeros are there.
        let mut draw = |shift: f64| -> Vec<f64> {
            (0..runs).map(|_| ((random.normal() + shift) * 4.0).round() / 4.0).collect()
        };
        let (a, b) = (draw(0.0), draw(0.5));
        let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
        for shift in
            [RankShift::within(&differences).unwrap(), RankShift::between(&sample(&a), &sample(&b))]
        {
            for level in [0.9, 0.95, 0.99] {
                let Shift { low, high, .. } = shift.interval(level);
                let excludes = low > 0.0 || high < 0.0;
                assert_eq!(excludes, shift.p() <= 1.0 - level + 1e-12, "{level}: {shift:?}");
            }
        }
    }
}

#[test]
fn fishers_test_agrees_with_whole_numbers() {
    // Counted out in whole numbers over all tables; the first is also SciPy's example of fisher_exact.
    close(fisher(8, 10, 1, 6), 0.034_965_034_965_034_96);
    close(fisher(4, 20, 0, 20), 0.106_029_106_029_106_03);
    close(fisher(0, 5, 0, 9), 1.0);
}
