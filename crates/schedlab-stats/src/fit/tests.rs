//! Fits against published and independently computed figures.

use super::*;
use crate::Random;

fn points(xs: &[f64], ys: &[f64]) -> Vec<(f64, f64)> {
    xs.iter().copied().zip(ys.iter().copied()).collect()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found}, not {expected}");
}

const X: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
/// A slope of 2, and one point that is far off.
const Y: [f64; 8] = [2.1, 3.9, 6.2, 7.8, 10.1, 12.2, 13.8, 30.0];

#[test]
fn least_squares_agrees_with_scipy() {
    // scipy 1.17.1: linregress; sigma with n - 2 by numpy.
    let fit = least_squares(&points(&X, &Y)).unwrap();
    close(fit.line.slope, 3.155_952_380_952_381_3);
    close(fit.line.intercept, -3.439_285_714_285_716_7);
    close(fit.r, 0.885_466_435_337_619_5);
    close(fit.slope_error, 0.676_174_058_038_999_2);
    close(fit.intercept_error, 3.414_511_619_178_599);
    close(fit.sigma, 4.382_108_737_140_943);
    close(fit.residual_max, 8.191_666_666_666_666);
}

#[test]
fn robust_lines_are_not_pulled_by_one_bad_point() {
    // scipy 1.17.1: theilslopes gives the same slope; its intercept is defined otherwise (medians of x and y).
    let line = theil_sen(&points(&X, &Y)).unwrap();
    close(line.slope, 2.035);
    assert!((huber(&points(&X, &Y)).unwrap().slope - 2.0).abs() < 0.1);
}

#[test]
fn a_line_needs_points_that_differ_in_x() {
    assert_eq!(least_squares(&points(&[1.0; 3], &[1.0, 2.0, 3.0])), Err(SampleError::NoSpread));
    let two = least_squares(&points(&[1.0, 2.0], &[1.0, 2.0]));
    assert_eq!(two, Err(SampleError::TooFew { have: 2, need: 3 }));
}

#[test]
fn two_populations_get_two_lines_and_one_gets_one() {
    let mut random = Random::new(2);
    let mixed: Vec<(f64, f64)> = (0..90)
        .map(|i| {
            let x = f64::from(i);
            let line = if i % 3 == 0 { 40.0 + 1.5 * x } else { 5.0 + x };
            (x, line + random.normal())
        })
        .collect();
    let fit = two_lines(&mixed).unwrap();
    assert!(fit.evidence > 10.0, "{fit:?}");
    assert!((fit.lines[0].slope - 1.0).abs() < 0.05 && (fit.lines[0].intercept - 5.0).abs() < 1.5);
    assert!((fit.lines[1].slope - 1.5).abs() < 0.05 && (fit.lines[1].intercept - 40.0).abs() < 2.0);
    assert!((fit.shares[0] - 2.0 / 3.0).abs() < 0.02);
    let single: Vec<(f64, f64)> =
        (0..90).map(|i| (f64::from(i), 3.0 + f64::from(i) + random.normal())).collect();
    assert!(two_lines(&single).unwrap().evidence < 0.0);
}

#[test]
fn an_exact_line_is_one_population() {
    for (slope, socket) in [(0.1, 0.7), (1.0 / 3.0, 0.0), (1e6, 3.3), (1e-7, 1e-9)] {
        let exact: Vec<_> =
            (1..40).map(|x| (f64::from(x), f64::from(x) * slope + socket)).collect();
        let evidence = two_lines(&exact).unwrap().evidence;
        assert!(evidence < 0.0, "{slope} x + {socket}: {evidence}");
    }
}
