//! Ratios of figures that were measured in turns.

/// The median of ratios, and the order statistics that hold it with 95 %.
pub(crate) fn ratios(of: &[f64], to: &[f64]) -> String {
    let mut ratios: Vec<f64> = of.iter().zip(to).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len() as f64;
    let off = (0.98 * count.sqrt()) as usize;
    let middle = ratios.len() / 2;
    let low = ratios[middle.saturating_sub(off)];
    let high = ratios[(middle + off).min(ratios.len() - 1)];
    format!("{:.2} [{low:.2}, {high:.2}]", ratios[middle])
}

/// The median of some values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
