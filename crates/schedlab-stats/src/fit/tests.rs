//! Fits against published and independently computed figures.

use super::*;

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
