//! What queueing theory says of waiting, to stand beside what was measured.

/// The time that a fraction `q` of jobs waits at most, in units of the mean job length, when jobs arrive
/// at random (Poisson), have exponential lengths, and keep `workers` busy for a fraction `utilisation` of the
/// time: Erlang's C formula (1917). It holds for such jobs alone; with jobs of fixed length the mean wait is shorter. `None`
/// when the utilisation is not between 0 and 1.
pub fn waiting(workers: usize, utilisation: f64, q: f64) -> Option<f64> {
    if !(0.0..1.0).contains(&utilisation) || workers == 0 {
        return None;
    }
    let servers = workers as f64;
    let offered = utilisation * servers;
    // Erlang B by its recursion, which does not overflow; then C from B.
    let blocked = (1..=workers).fold(1.0, |b, k| offered * b / (k as f64 + offered * b));
    let waits = blocked / (1.0 - utilisation * (1.0 - blocked));
    let beyond = 1.0 - q;
    Some(if waits <= beyond { 0.0 } else { (waits / beyond).ln() / (servers - offered) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_agrees_with_the_exponential_of_m_m_1() {
        // P(wait > t) = rho exp(-(1 - rho) t).
        let t = waiting(1, 0.7, 0.99).unwrap();
        assert!((0.7 * (-0.3 * t).exp() - 0.01).abs() < 1e-12);
    }

    #[test]
    fn more_workers_wait_less_and_overload_has_no_bound() {
        // Erlang's table: 2 workers at 70 % make 57.6 % of the jobs wait.
        let t = waiting(2, 0.7, 0.5).unwrap();
        assert!(
            ((1.4 * 1.4 / 2.0 / 0.3) / (1.0 + 1.4 + 1.4 * 1.4 / 2.0 / 0.3) - 0.5 * (0.6 * t).exp())
                .abs()
                < 1e-12
        );
        assert!(waiting(8, 0.7, 0.99) < waiting(2, 0.7, 0.99));
        assert_eq!(waiting(2, 1.0, 0.99), None);
        assert_eq!(waiting(2, 0.01, 0.9), Some(0.0));
    }
}
