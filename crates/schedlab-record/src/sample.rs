//! A sample in a perf ring, as the events of a recording are opened (`schedlab_sys::perf::record`).

use schedlab_model::Nanos;
use schedlab_sys::perf::record;

/// Readers of rings ask this often whether events have ended: that interrupts each CPU.
pub(crate) const BETWEEN_ASKING: Nanos = Nanos::from_secs(1);

/// A sample of a perf ring.
pub(crate) struct Sample<'a> {
    pub(crate) time: Nanos,
    /// Addresses of the call stack.
    pub(crate) chain: &'a [u8],
    pub(crate) raw: &'a [u8],
}

impl<'a> Sample<'a> {
    /// From a record's bytes behind its header.
    pub(crate) fn parse(body: &'a [u8], has_chain: bool) -> Option<Self> {
        let (time, mut rest) = body.split_first_chunk::<8>()?;
        let mut chain = &rest[..0];
        if has_chain {
            let (count, behind) = rest.split_first_chunk::<8>()?;
            let bytes = usize::try_from(u64::from_ne_bytes(*count)).ok()?.checked_mul(8)?;
            (chain, rest) = behind.split_at_checked(bytes)?;
        }
        let (size, raw) = rest.split_first_chunk::<4>()?;
        let raw = raw.get(..u32::from_ne_bytes(*size) as usize)?;
        Some(Self { time: Nanos(u64::from_ne_bytes(*time)), chain, raw })
    }
}

/// The kernel's record of a loss of unknown size.
pub(crate) fn lost() -> Vec<u8> {
    let header = [&record::LOST.to_ne_bytes()[..], &[0; 2], &24_u16.to_ne_bytes()].concat();
    [header, vec![0; 16]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_with_a_stack_is_taken_apart_and_a_cut_one_is_none() {
        let words = [5u64, 2, 0x100, 0x200].map(u64::to_ne_bytes).concat();
        let body = [words, 3u32.to_ne_bytes().to_vec(), b"abc\0".to_vec()].concat();
        let sample = Sample::parse(&body, true).expect("whole");
        assert_eq!((sample.time, sample.chain.len(), sample.raw), (Nanos(5), 16, &b"abc"[..]));
        for length in 0..body.len() - 1 {
            assert!(Sample::parse(&body[..length], true).is_none(), "{length}");
        }
        let none =
            [5u64.to_ne_bytes().to_vec(), 1u32.to_ne_bytes().to_vec(), b"a".to_vec()].concat();
        assert_eq!(Sample::parse(&none, false).expect("whole").raw, b"a");
    }
}
