//! A mark: what must be shown, what was measured, and whether it is reached.

/// The middle of values, with the interval in which the median of what they are drawn from lies in 95 % of cases: by
/// order statistics (binomial, by its normal approximation; all of them where they are few).
#[derive(Clone, Copy)]
pub(super) struct Middle {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Middle {
    pub(super) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let away = (0.98 * (values.len() as f64).sqrt()).ceil() as usize;
        let (middle, last) = (values.len() / 2, values.len() - 1);
        let (low, high) = (middle.saturating_sub(away), (middle + away).min(last));
        Self { median: values[middle], low: values[low], high: values[high] }
    }
}

impl std::fmt::Display for Middle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.median, self.low, self.high)
    }
}

/// Prints a mark; the verdict goes by the median, and says when the interval reaches to the other side.
pub(super) fn mark(what: &str, found: Middle, bound: f64, below: bool) {
    let good = (found.median < bound) == below;
    let word = if below { "below" } else { "at least" };
    let verdict = if good { "reached" } else { "MISSED" };
    let within = found.low < bound && bound <= found.high;
    let doubt = if within { ", the interval has the bound in it" } else { "" };
    println!("mark {what}: {found}, {word} {bound}: {verdict}{doubt}");
}

/// The same by the upper end of the interval; without a bound, the figure alone.
pub(super) fn mark_upper(what: &str, found: Middle, bound: Option<f64>) {
    match bound {
        None => println!("{what}: {found}"),
        Some(bound) => {
            let verdict = if found.high <= bound { "reached" } else { "MISSED" };
            println!("mark {what}: {found}, upper end at most {bound}: {verdict}");
        }
    }
}
