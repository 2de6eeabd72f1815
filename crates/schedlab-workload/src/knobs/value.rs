//! From what a person writes (`3ms`) to what the kernel takes (`3000000`).

use super::Tunable;
use schedlab_model::Nanos;

/// A switch of the scheduler, on or off, as the kernel takes it: `NAME` or `NO_NAME`.
///
/// # Errors
/// When the value is neither on nor off.
pub fn feature(name: &str, value: &str) -> Result<String, String> {
    match value {
        "true" | "1" | "on" => Ok(name.to_owned()),
        "false" | "0" | "off" => Ok(format!("NO_{name}")),
        other => Err(format!("invalid value '{other}': use on or off")),
    }
}

/// The value in the unit that the kernel expects, within the tunable's range.
///
/// # Errors
/// What is wrong, and what is right.
pub fn read(tunable: &Tunable, text: &str) -> Result<String, String> {
    let text = text.trim();
    let Some((min, max)) = tunable.range else {
        // A switch may be given as true or false; all else is the kernel's own word.
        return match (tunable.unit, text.parse::<Nanos>()) {
            ("us", Ok(time)) if text != "0" => Ok((time.0 / 1_000).to_string()),
            _ if text.is_empty() || text.contains(['\n', '\0']) => Err("it is empty".into()),
            _ => Ok(text.to_owned()),
        };
    };
    let unit = match tunable.unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        _ => 0,
    };
    let number = match (text, unit) {
        ("true" | "on", _) if max == 1.0 => 1.0,
        ("false" | "off", _) if max == 1.0 => 0.0,
        (_, 0) => {
            text.parse::<f64>().map_err(|_| format!("invalid number '{text}': use digits"))?
        }
        (_, unit) => match text.parse::<f64>() {
            Ok(number) => number,
            Err(_) => {
                let time = text.parse::<Nanos>().map_err(|e| e.to_string())?;
                if time.0 % unit != 0 {
                    return Err(format!(
                        "invalid value {text}: use a whole number of {}",
                        tunable.unit
                    ));
                }
                (time.0 / unit) as f64
            }
        },
    };
    // Zero gives a slice back to the kernel.
    let zero_is_default = tunable.name == "slice" && number == 0.0;
    if number.fract() != 0.0 {
        return Err(format!("invalid value {text}: use a whole number"));
    }
    if !(min..=max).contains(&number) && !zero_is_default {
        return Err(format!("{text} is outside of {}", limits(min, max, unit)));
    }
    Ok(format!("{number:.0}"))
}

/// The limits with units, as they may be written; `unit` is in nanoseconds, 0 for a plain number.
fn limits(min: f64, max: f64, unit: u64) -> String {
    let time = |value: f64| match value {
        value if value < 0.0 => value.to_string(),
        value => Nanos((value as u64).saturating_mul(unit)).to_string(),
    };
    match unit {
        0 => format!("{min} to {max}"),
        _ => format!("{} to {}", time(min), time(max)),
    }
}
