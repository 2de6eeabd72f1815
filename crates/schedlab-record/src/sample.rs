//! A sample in a perf ring, as the events of a recording are opened (`schedlab_sys::perf::record`).

use schedlab_model::{Nanos, Pid};
use schedlab_sys::perf::{UserStack, record};

/// Readers of rings ask this often whether events have ended: that interrupts each CPU.
pub(crate) const BETWEEN_ASKING: Nanos = Nanos::from_secs(1);

/// How the samples of a recording are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleLayout {
    /// Whether process and thread are in front, and records of mappings and processes among the samples.
    pub(crate) has_task: bool,
    pub(crate) has_chain: bool,
}

impl SampleLayout {
    /// Where the time is, behind the record's head.
    pub(crate) const fn time_at(self) -> usize {
        if self.has_task { 8 } else { 0 }
    }
}

/// A sample of a perf ring.
pub(crate) struct Sample<'a> {
    /// The process that ran.
    pub(crate) process: Pid,
    pub(crate) time: Nanos,
    /// Addresses of the call stack.
    pub(crate) chain: &'a [u8],
    pub(crate) raw: &'a [u8],
    /// Registers and a copy of the program's stack.
    behind: &'a [u8],
}

/// What is there of a program's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserCopy<'a> {
    pub(crate) registers: [u64; UserStack::REGISTERS],
    /// From the stack pointer on.
    pub(crate) stack: &'a [u8],
}

impl<'a> Sample<'a> {
    /// From a record's bytes behind its header.
    pub(crate) fn parse(mut body: &'a [u8], layout: SampleLayout) -> Option<Self> {
        let mut process = Pid(0);
        if layout.has_task {
            let (pid, behind) = body.split_first_chunk::<4>()?;
            (process, body) = (Pid(i32::from_ne_bytes(*pid)), behind.get(4..)?);
        }
        let (time, mut rest) = body.split_first_chunk::<8>()?;
        let mut chain = &rest[..0];
        if layout.has_chain {
            let (count, behind) = rest.split_first_chunk::<8>()?;
            let bytes = usize::try_from(u64::from_ne_bytes(*count)).ok()?.checked_mul(8)?;
            (chain, rest) = behind.split_at_checked(bytes)?;
        }
        let (size, raw) = rest.split_first_chunk::<4>()?;
        let (raw, behind) = raw.split_at_checked(u32::from_ne_bytes(*size) as usize)?;
        Some(Self { process, time: Nanos(u64::from_ne_bytes(*time)), chain, raw, behind })
    }

    /// The copied stack; `None` where the kernel copied none, or that of a program of 32 bits.
    pub(crate) fn user_copy(&self) -> Option<UserCopy<'a>> {
        const ABI_64: u64 = 2;
        let (abi, mut rest) = word(self.behind)?;
        if abi != ABI_64 {
            return None;
        }
        let mut registers = [0; UserStack::REGISTERS];
        for register in &mut registers {
            (*register, rest) = word(rest)?;
        }
        let (size, rest) = word(rest)?;
        let (stack, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        let (copied, _) = word(rest)?;
        Some(UserCopy { registers, stack: stack.get(..usize::try_from(copied).ok()?)? })
    }
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u64::from_ne_bytes(*word), rest))
}

/// The kernel's record of a loss of unknown size.
pub(crate) fn lost() -> Vec<u8> {
    let header = [&record::LOST.to_ne_bytes()[..], &[0; 2], &24_u16.to_ne_bytes()].concat();
    [header, vec![0; 16]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: SampleLayout = SampleLayout { has_task: false, has_chain: true };

    #[test]
    fn a_sample_with_a_stack_is_taken_apart_and_a_cut_one_is_none() {
        let words = [5u64, 2, 0x100, 0x200].map(u64::to_ne_bytes).concat();
        let body = [words, 3u32.to_ne_bytes().to_vec(), b"abc\0".to_vec()].concat();
        let sample = Sample::parse(&body, CHAIN).expect("whole");
        assert_eq!((sample.time, sample.chain.len(), sample.raw), (Nanos(5), 16, &b"abc"[..]));
        for length in 0..body.len() - 1 {
            assert!(Sample::parse(&body[..length], CHAIN).is_none(), "{length}");
        }
        let none =
            [5u64.to_ne_bytes().to_vec(), 1u32.to_ne_bytes().to_vec(), b"a".to_vec()].concat();
        assert_eq!(Sample::parse(&none, SampleLayout::default()).expect("whole").raw, b"a");
    }

    #[test]
    fn the_copy_of_a_programs_stack_is_as_long_as_the_kernel_copied() {
        let task = [7u32, 8].map(u32::to_ne_bytes).concat();
        let head = [5u64, 0].map(u64::to_ne_bytes).concat();
        let raw = [4u32.to_ne_bytes(), *b"abcd"].concat();
        let registers: Vec<u64> = (1..=UserStack::REGISTERS as u64).collect();
        let words = |abi: u64, copied: u64| {
            let copy = [16, 0x100, 0x200, copied];
            let all: Vec<u64> = std::iter::once(abi).chain(registers.clone()).chain(copy).collect();
            all.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<u8>>()
        };
        let layout = SampleLayout { has_task: true, has_chain: true };
        let of = |behind: &[u8]| [&task, &head, &raw, behind].concat();
        let body = of(&words(2, 8));
        let sample = Sample::parse(&body, layout).expect("whole");
        assert_eq!((sample.process, sample.time, sample.raw), (Pid(7), Nanos(5), &b"abcd"[..]));
        let copy = sample.user_copy().expect("whole");
        assert_eq!(
            (copy.registers.to_vec(), copy.stack),
            (registers.clone(), &[0, 1, 0, 0, 0, 0, 0, 0][..])
        );
        for (abi, copied) in [(1, 8), (0, 8), (2, 17)] {
            let body = of(&words(abi, copied));
            let sample = Sample::parse(&body, layout).expect("whole");
            assert_eq!(sample.user_copy(), None, "ABI {abi}, {copied} bytes");
        }
        for length in 0..body.len() {
            let copy = Sample::parse(&body[..length], layout).and_then(|sample| sample.user_copy());
            assert_eq!(copy, None, "{length}");
        }
    }
}
