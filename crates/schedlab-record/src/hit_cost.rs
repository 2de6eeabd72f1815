//! What a hit of a probe costs the program that meets it, measured on a function of our own before recording.

use super::RecordError;
use super::request_probes::{HitCost, guarded};
use schedlab_sys::clock;
use schedlab_sys::guard::Guard;
use schedlab_sys::tracefs::Tracefs;
use std::hint::black_box;

/// Calls of each measurement: some milliseconds, also where a hit takes 20 µs (in a nested virtual machine).
const CALLS: u32 = 200;
/// Measurements, of which the fastest counts.
const ROUNDS: u32 = 5;

/// The function that is probed.
#[inline(never)]
extern "C" fn probed(number: u64) -> u64 {
    black_box(number).wrapping_mul(3)
}

/// Measures while `enable` turns an event (system and name) on, then off.
pub(crate) fn measure(
    tracefs: &Tracefs,
    guard: &mut Guard,
    mut enable: impl FnMut(&str, &str, bool) -> Result<(), RecordError>,
) -> Result<HitCost, RecordError> {
    let failed = |why: String| RecordError::Request { asked: "cost of a hit".into(), why };
    let address = probed as *const () as u64;
    let (path, offset) =
        in_file(address).ok_or_else(|| failed("the program's file is not mapped".into()))?;
    let group = format!("schedlab_cost_{}", std::process::id());
    let without = nanoseconds();
    let mut with = Vec::new();
    for (kind, name) in [('p', "entry"), ('r', "return")] {
        let text = format!("{kind}:{group}/{name} {path}:0x{offset:x}");
        guarded(tracefs, guard, &group, name, &text).map_err(failed)?;
        // The entry's goes on beside the return's: both have one breakpoint in common.
        enable(&group, name, true)?;
        with.push(nanoseconds());
    }
    for name in ["entry", "return"] {
        enable(&group, name, false)?;
    }
    let entry_ns = (with[0] - without).max(0.0);
    Ok(HitCost { entry_ns, return_ns: (with[1] - with[0]).max(0.0) })
}

/// CPU time of one call, at best.
fn nanoseconds() -> f64 {
    let round = |_| {
        let began = clock::thread_cpu();
        for number in 0..CALLS {
            black_box(probed(u64::from(number)));
        }
        (clock::thread_cpu() - began).0
    };
    (0..ROUNDS).map(round).min().unwrap_or(0) as f64 / f64::from(CALLS)
}

/// The file that is mapped at an address of ours, and where in it.
fn in_file(address: u64) -> Option<(String, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let start = number(start)?;
        let end = number(end)?;
        let offset = number(words.nth(1)?)?;
        let path = words.nth(2)?;
        // The link leads to the file even if a build replaced it.
        let path = if path.starts_with('/') { "/proc/self/exe" } else { return None };
        (start..end).contains(&address).then(|| (path.to_owned(), address - start + offset))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_ours_lies_in_our_file() {
        let (path, offset) = in_file(probed as *const () as u64).unwrap();
        let file = std::fs::read(path).unwrap();
        let there = &file[usize::try_from(offset).unwrap()..][..8];
        assert!(there.iter().any(|byte| *byte != 0));
        assert_eq!(in_file(8), None);
    }
}
