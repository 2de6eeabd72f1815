//! Values that may differ from CPU to CPU, as in `irq=10us/1ms` for all CPUs and `irq=0:10us/1ms+2-3:20us/1ms` for some.

use super::setting::Wrong;
use crate::Gap;
use crate::board::Frequency;
use schedlab_model::{CpuSet, Nanos};
use schedlab_stats::Random;
use std::cell::Cell;

/// The value of each CPU; `None`: the text gives it none.
///
/// # Errors
/// A part that is wrong, a CPU that does not exist or has two values.
pub(super) fn values<T: Copy>(
    field: &str,
    text: &str,
    cpus: usize,
    read: &dyn Fn(&str) -> Result<T, String>,
) -> Result<Vec<Option<T>>, Wrong> {
    let wrong = |why: &str| {
        Wrong::new(
            field,
            format!("machine 'sim': invalid {field}={}: {why}", text.escape_default()),
        )
    };
    let mut values = vec![None; cpus];
    for part in text.split('+') {
        let (of, value) = match part.split_once(':') {
            Some((of, value)) => (of.parse::<CpuSet>().map_err(|e| wrong(&e.to_string()))?, value),
            None => (CpuSet::first(cpus), part),
        };
        let value = read(value.trim()).map_err(|why| wrong(&why))?;
        for cpu in of.iter() {
            let Some(slot) = values.get_mut(cpu.index()) else {
                return Err(wrong(&format!("there is no CPU {cpu}: use 0 to {}", cpus - 1)));
            };
            if slot.replace(value).is_some() {
                return Err(wrong(&format!("CPU {cpu} has two values: give it one")));
            }
        }
    }
    Ok(values)
}

/// What takes a CPU: a length in each period, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Takes {
    length: u64,
    period: u64,
}

impl Takes {
    /// Reads `10us/1ms`: a length, then the period.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let form = "use LENGTH/PERIOD, as in 10us/1ms";
        let (length, period) = text.split_once('/').ok_or(form)?;
        let time = |text: &str| text.parse::<Nanos>().map_err(|error| format!("{error}; {form}"));
        let length = time(length)?.0;
        let period = time(period)?.0;
        if length >= period || length == 0 {
            return Err("use a length above 0 and below the period".to_owned());
        }
        Ok(Self { length, period })
    }

    /// The share of its CPU, in millionths.
    pub(super) fn share(self) -> u64 {
        let share = u128::from(self.length) * 1_000_000 / u128::from(self.period);
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// The gaps of all CPUs from `begin` on. Each source begins at a part of its period that `seed` decides.
pub(super) fn gaps(takes: &[Option<Takes>], seed: u64, is_steal: bool, begin: u64) -> Vec<Gap> {
    let stream = if is_steal { 0x7374_6561 } else { 0x6972_7100 };
    let mut dice = Random::new(seed ^ stream);
    let gap = |(cpu, takes): (usize, &Option<Takes>)| {
        let Takes { length, period } = (*takes)?;
        let part = u128::from(period) * dice.below(1_000_000) as u128 / 1_000_000;
        Some(Gap { cpu, period, length, first: begin + part as u64, is_steal })
    };
    takes.iter().enumerate().filter_map(gap).collect()
}

/// The limits of each CPU's frequency. CPUs that a part names share a policy; without names each has its own.
pub(super) fn frequencies(text: &str, cpus: usize) -> Result<Vec<Option<Frequency>>, Wrong> {
    const FORM: &str = "use LOWEST-HIGHEST, as in 600MHz-2GHz";
    let policy = Cell::new(0);
    let read = |text: &str| {
        let (least, most) = text.split_once('-').ok_or(FORM)?;
        policy.set(policy.get() + 1);
        match (khz(least), khz(most)) {
            (Some(least), Some(most)) if (1..=most).contains(&least) => {
                Ok(Frequency { policy: policy.get(), least, most })
            }
            _ => Err(FORM.to_owned()),
        }
    };
    let mut all = values("frequency", text, cpus, &read)?;
    if !text.contains(':') {
        (1..).zip(all.iter_mut().flatten()).for_each(|(number, of)| of.policy = number);
    }
    Ok(all)
}

/// Reads a frequency such as `2.4GHz`, up to 100 GHz, in kHz.
fn khz(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = [("kHz", 1.0), ("MHz", 1e3), ("GHz", 1e6)].iter().find(|(name, _)| *name == unit)?.1;
    let khz = (number.parse::<f64>().ok()? * unit).round();
    (1.0..=1e8).contains(&khz).then_some(khz as u64)
}

/// Reads bytes a second: `20GB`, `1.5GiB`, `800MB/s`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    const FORM: &str = "use bytes a second, as in 20GB";
    let text = text.trim_end_matches("/s");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit: u128 = match unit {
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(FORM.to_owned()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| match text.len() <= 9 {
        true => text.parse::<u128>().map_err(|_| FORM.to_owned()),
        false => Err(FORM.to_owned()),
    };
    let scale = 10_u128.pow(part.len().min(9) as u32);
    let part = if part.is_empty() { 0 } else { digits(part)? };
    let bytes = (digits(whole)? * scale + part) * unit / scale;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    if (1_000_000..=1_000_000_000_000_000).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("use 1MB to 1000000GB".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_for_all_cpus_or_for_some() {
        let read = |text: &str| text.parse::<u64>().map_err(|_| "use a number".to_owned());
        let of = |text: &str| values("n", text, 4, &read).map_err(|wrong| wrong.plain().to_owned());
        assert_eq!(of("7"), Ok(vec![Some(7); 4]));
        assert_eq!(of("0:1+2-3:5"), Ok(vec![Some(1), None, Some(5), Some(5)]));
        for (text, part) in [
            ("x", "invalid n=x: use a number"),
            ("0-9:1", "there is no CPU 4: use 0 to 3"),
            ("0-1:1+1:2", "CPU 1 has two values"),
            ("a:1", "invalid n=a:1: "),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn frequencies_belong_to_policies() {
        let of = |text: &str| frequencies(text, 3).map_err(|wrong| wrong.plain().to_owned());
        let one = |policy, least, most| Some(Frequency { policy, least, most });
        let own = [1, 2, 3].map(|policy| one(policy, 600_000, 2_000_000));
        assert_eq!(of("600MHz-2GHz").unwrap(), own);
        let shared = [one(1, 1, 2_400_000), None, one(1, 1, 2_400_000)];
        assert_eq!(of("0,2:1kHz-2.4GHz").unwrap(), shared);
        for text in ["2GHz", "2GHz-1GHz", "0GHz-1GHz", "1-2", "1GHz-1e9GHz", "1GHz-2Hz"] {
            assert!(of(text).unwrap_err().contains("use LOWEST-HIGHEST"), "{text}");
        }
    }

    #[test]
    fn lengths_and_bytes_are_read_exactly() {
        let takes = Takes::read("10us/1ms").unwrap();
        assert_eq!((takes.length, takes.period, takes.share()), (10_000, 1_000_000, 10_000));
        for text in ["10us", "1ms/1ms", "0/1ms", "x/1ms", "2ms/1ms"] {
            assert!(Takes::read(text).is_err(), "{text}");
        }
        assert_eq!(bytes("20GB"), Ok(20_000_000_000));
        assert_eq!(bytes("1.5GiB/s"), Ok(3 << 29));
        for text in ["20", "GB", "1.2.3GB", "0GB", "20kB", "-1GB", "99999999999GB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
