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
fn the_p_value_of_a_shift_agrees_with_scipy() {
    // scipy 1.17.1: mannwhitneyu(a, b, method='exact')
    close(RankShift::between(&sample(&A), &sample(&B)).p(), 0.082_251_082_251_082_26);
    // scipy 1.17.1: wilcoxon
    let differences = [1.2, -0.4, 2.3, 0.9, -1.1, 3.0, 0.7, 1.8];
    close(RankShift::within(&differences).unwrap().p(), 0.078_125);
}

#[test]
fn brunner_munzel_agrees_with_scipy() {
    close(brunner_munzel(&sample(&A), &sample(&B)).unwrap(), 0.032_673_969_264_512_84);
    close(brunner_munzel(&sample(&TIED_A), &sample(&TIED_B)).unwrap(), 0.096_748_087_930_875_75);
}

#[test]
fn three_runs_each_can_never_show_a_difference_at_five_percent() {
    let shift = RankShift::between(&sample(&[1.0, 2.0, 3.0]), &sample(&[10.0, 11.0, 12.0]));
    close(shift.p(), 0.1);
    close(shift.p_min(), 0.1);
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
