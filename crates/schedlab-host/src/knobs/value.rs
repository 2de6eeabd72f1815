//! From what a person writes (`3ms`) to what the kernel takes (`3000000`).

use super::{Entry, KnobError};
use schedlab_model::Nanos;

/// A switch of the scheduler, on or off.
pub(super) fn feature(name: &str, value: &str) -> Result<String, KnobError> {
    match value {
        "true" | "1" | "on" => Ok(name.to_owned()),
        "false" | "0" | "off" => Ok(format!("NO_{name}")),
        other => {
            let why = format!("'{other}' is neither on nor off");
            Err(KnobError::Value { name: format!("feature:{name}"), why })
        }
    }
}

/// The value in the unit that the kernel expects, within the knob's range.
pub(super) fn in_kernel_units(entry: &Entry, text: &str) -> Result<String, KnobError> {
    let text = text.trim();
    let wrong = |why: String| KnobError::Value { name: entry.name.into(), why };
    let Some((min, max)) = entry.range else {
        // A switch may be given as true or false; all else is the kernel's own word.
        return match (entry.unit, text.parse::<Nanos>()) {
            ("us", Ok(time)) if text != "0" => Ok((time.0 / 1_000).to_string()),
            _ if text.is_empty() || text.contains(['\n', '\0']) => Err(wrong("it is empty".into())),
            _ => Ok(text.to_owned()),
        };
    };
    let unit = match entry.unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        _ => 0,
    };
    let number = match (text, unit) {
        ("true" | "on", _) if max == 1.0 => 1.0,
        ("false" | "off", _) if max == 1.0 => 0.0,
        (_, 0) => text.parse::<f64>().map_err(|_| wrong(format!("'{text}' is not a number")))?,
        (_, unit) => match text.parse::<f64>() {
            Ok(number) => number,
            Err(_) => {
                let time = text.parse::<Nanos>().map_err(|e| wrong(e.to_string()))?;
                if time.0 % unit != 0 {
                    return Err(wrong(format!("{text} is no whole number of {}", entry.unit)));
                }
                (time.0 / unit) as f64
            }
        },
    };
    // Zero gives a slice back to the kernel.
    let zero_is_default = entry.name == "slice" && number == 0.0;
    if number.fract() != 0.0 || !(min..=max).contains(&number) && !zero_is_default {
        let unit = if entry.unit.is_empty() { String::new() } else { format!(" {}", entry.unit) };
        return Err(wrong(format!("{text} is outside of {min} to {max}{unit}, whole numbers")));
    }
    Ok(format!("{number:.0}"))
}
