//! Weights of nice values, and the fair schedulers' integer division by a weight.

pub(super) const NICE_0: u64 = 1_024;
/// The weight of a `SCHED_IDLE` task.
const IDLE: u64 = 3;

/// Weights of nice -20 to 19 (Linux 6.1 and 6.12, `sched_prio_to_weight`): a step is a tenth of the CPU.
const WEIGHTS: [u64; 40] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620,
    6_100, 4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024, 820, 655, 526, 423, 335, 272,
    215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a fair task.
pub(super) fn weight(nice: i32, idle: bool) -> u64 {
    if idle { IDLE } else { WEIGHTS[(nice.clamp(-20, 19) + 20) as usize] }
}

/// `time * part / whole`, as the kernel computes it: by a 32-bit inverse of `whole`, with the bits that do not fit
/// shifted out (Linux 6.1, `__calc_delta`).
pub(super) fn share(time: u64, part: u64, whole: u64) -> u64 {
    let inverse = u64::from(u32::MAX).checked_div(whole).unwrap_or(u32::MAX.into()).max(1);
    let product = u128::from(part) * u128::from(inverse);
    let excess = (128 - product.leading_zeros()).saturating_sub(32);
    let factor = product >> excess;
    u64::try_from((u128::from(time) * factor) >> (32 - excess.min(32))).unwrap_or(u64::MAX)
}

/// Time of a task in virtual time: slower for heavier tasks (`calc_delta_fair`).
pub(super) fn virtual_time(time: u64, weight: u64) -> u64 {
    if weight == NICE_0 { time } else { share(time, NICE_0, weight) }
}

/// The factor of the default tunables: 1 + log2 of the CPUs, of which 8 count at most (`get_update_sysctl_factor`).
pub(super) fn scaling(cpus: usize) -> u64 {
    1 + u64::from(cpus.clamp(1, 8).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_within_a_few_nanoseconds_of_the_exact_quotient() {
        for (time, part, whole) in [
            (24_000_000, 1_024, 4 * 1_024),
            (6_000_000, 15, 88_761 + 15),
            (3_000_000, 88_761, 90_000),
        ] {
            let exact = time * part / whole;
            assert!(
                share(time, part, whole).abs_diff(exact) <= exact / 10_000 + 2,
                "{time} {part}"
            );
        }
        assert_eq!(virtual_time(1_000, NICE_0), 1_000);
        // The inverse of 820 is rounded down, and so is the result.
        assert_eq!(virtual_time(1_000_000, 820), 1_248_780);
    }

    #[test]
    fn defaults_scale_with_the_cpus_up_to_eight() {
        assert_eq!([1, 2, 3, 4, 7, 8, 128].map(scaling), [1, 2, 2, 3, 3, 4, 4]);
        assert_eq!((weight(0, false), weight(-20, false), weight(19, false)), (1_024, 88_761, 15));
    }
}
