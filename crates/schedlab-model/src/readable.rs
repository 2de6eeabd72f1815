//! Numbers for people: three to four significant digits, with the unit of the metric.

use crate::Unit;

/// A value with its unit, for reading: `1.23 ms`, `45.6 %`, `12,345`.
#[must_use]
pub fn readable(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    match unit {
        Unit::Nanoseconds => seconds(value / 1e9),
        Unit::Seconds => seconds(value),
        Unit::Count => plain(value),
        Unit::PerSecond => format!("{}/s", plain(value)),
        Unit::Bytes => scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
        Unit::BytesPerSecond => scaled(value, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]),
        Unit::Fraction => format!("{} %", significant(value * 100.0)),
    }
}

/// The number of `30%` or `12.5 %`; `None` if it is none.
#[must_use]
pub fn percentage(text: &str) -> Option<f64> {
    let number: f64 = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    number.is_finite().then_some(number)
}

fn seconds(value: f64) -> String {
    // A value that rounds up to 1000 of a unit is 1 of the next.
    match value.abs() {
        0.0 => "0".into(),
        x if x < 0.999_5e-6 => {
            let ns = value * 1e9;
            // Whole nanoseconds are exact: seconds as a double are not.
            let whole = (ns - ns.round()).abs() < 1e-6;
            format!("{} ns", if whole { plain(ns.round()) } else { significant(ns) })
        }
        x if x < 0.999_5e-3 => format!("{} µs", significant(value * 1e6)),
        x if x < 0.999_5 => format!("{} ms", significant(value * 1e3)),
        _ => format!("{} s", significant(value)),
    }
}

fn scaled(value: f64, base: f64, names: &[&str]) -> String {
    let mut value = value;
    let mut names = names.iter();
    let mut name = names.next().copied().unwrap_or_default();
    for next in names {
        if value.abs() < base {
            break;
        }
        value /= base;
        name = next;
    }
    format!("{} {name}", significant(value))
}

/// Three significant digits below 1,000, whole numbers above.
#[must_use]
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 999.5 || magnitude == 0.0 {
        return grouped(value.round());
    }
    // The exponent after rounding: 999.9 thousandths are 1.00, not 1.000.
    let rounded: f64 = format!("{magnitude:.2e}").parse().unwrap_or(magnitude);
    let decimals = (2.0 - rounded.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{value:.decimals$}")
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value) } else { significant(value) }
}

/// A whole number with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_need_their_sign() {
        assert_eq!(percentage(" 12.5 %"), Some(12.5));
        assert_eq!(percentage("-3%"), Some(-3.0));
        for wrong in ["3", "%", "x%", "inf%"] {
            assert_eq!(percentage(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_read_well() {
        for (value, unit, text) in [
            (1_234_567.0, Unit::Nanoseconds, "1.23 ms"),
            (999_999.0, Unit::Nanoseconds, "1.00 ms"),
            (0.0, Unit::Nanoseconds, "0"),
            (850.0, Unit::Nanoseconds, "850 ns"),
            (5.0, Unit::Nanoseconds, "5 ns"),
            (0.5, Unit::Nanoseconds, "0.500 ns"),
            (999_499.0, Unit::Nanoseconds, "999 µs"),
            (-1_234.0, Unit::Nanoseconds, "-1.23 µs"),
            (12.345, Unit::Seconds, "12.3 s"),
            (1_234_567.0, Unit::Count, "1,234,567"),
            (0.0456, Unit::Fraction, "4.56 %"),
            (65_536.0, Unit::Bytes, "64.0 KiB"),
            (1234.6, Unit::PerSecond, "1,235/s"),
            (f64::NAN, Unit::Count, "-"),
        ] {
            assert_eq!(readable(value, unit), text);
        }
    }
}
