//! Many comparisons at once: p-values corrected so that chance alone is not taken for a find.

/// Corrected by Holm ("A simple sequentially rejective multiple test procedure", Scandinavian Journal
/// of Statistics 1979): the chance of even one false find is at most the level. In the given order.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let n = p.len();
    let mut most = 0.0_f64;
    adjusted(p, |rank, p| {
        most = most.max(p * (n - rank) as f64).min(1.0);
        most
    })
}

/// Corrected by Benjamini and Hochberg ("Controlling the false discovery rate", Journal of the Royal
/// Statistical Society B 1995): of the finds, the expected share that is false is at most the level.
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let n = p.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut least = 1.0_f64;
    let mut out = vec![0.0; n];
    for (from_top, index) in order.into_iter().enumerate() {
        least = least.min(p[index] * n as f64 / (n - from_top) as f64);
        out[index] = least;
    }
    out
}

fn adjusted(p: &[f64], mut step: impl FnMut(usize, f64) -> f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut out = vec![0.0; p.len()];
    for (rank, index) in order.into_iter().enumerate() {
        out[index] = step(rank, p[index]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_agree_with_r() {
        // R 4: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") and "BH"
        let p = [0.01, 0.04, 0.03, 0.005];
        let close = |found: Vec<f64>, expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        };
        close(holm(&p), [0.03, 0.06, 0.06, 0.02]);
        close(benjamini_hochberg(&p), [0.02, 0.04, 0.04, 0.02]);
    }
}
