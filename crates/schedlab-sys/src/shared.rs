//! Words of memory: those that forked processes share, never given back, and those of one task.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// `count` words, zero at first, that this process and all that it forks from now on share. They
/// live as long as the process: a process that forks a load child ends soon after.
///
/// # Errors
/// When the system has no memory for them.
pub fn words(count: usize) -> io::Result<&'static [AtomicU64]> {
    let base = mapping(count.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?)?;
    // SAFETY: the mapping is page-aligned, `count` words long, zeroed (a valid AtomicU64), only
    // ever touched by this slice, and never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), count) })
}

/// The same as bytes: memory is either words or bytes, so no accesses of different sizes race.
///
/// # Errors
/// When the system has no memory for them.
pub fn bytes(count: usize) -> io::Result<&'static [AtomicU8]> {
    let base = mapping(count)?;
    // SAFETY: the mapping is `count` bytes long, zeroed (a valid AtomicU8), only ever touched by this slice, and never
    // unmapped.
    Ok(unsafe { std::slice::from_raw_parts(base.cast::<AtomicU8>(), count) })
}

/// A new mapping of at least this many bytes, shared with processes that are forked later.
fn mapping(bytes: usize) -> io::Result<*mut std::ffi::c_void> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
    Ok(unsafe { mmap_anonymous(std::ptr::null_mut(), bytes.max(1), protection, flags)? })
}

/// `count` words of the caller's own, zero at first. Nothing is written to them: where the allocator maps
/// them anew (the C library does from 128 KiB on), all pages that are only read are the kernel's one page
/// of zeroes, which costs a cache 4 KiB however many words there are.
#[must_use]
pub fn untouched(count: usize) -> Box<[AtomicU64]> {
    // SAFETY: zero is a valid AtomicU64.
    unsafe { Box::new_zeroed_slice(count).assume_init() }
}

/// Writes `value` over the first `count` bytes (all of them where there are fewer). Another thread that touches the bytes
/// meanwhile finds any mixture of old and new ones.
///
/// On x86-64 the C library's `memset` does it, as in the programs that a load stands for: atomic stores take twice as
/// long.
pub fn fill(bytes: &[AtomicU8], count: usize, value: u8) {
    let count = count.min(bytes.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the call writes `count` bytes of the slice, and no others. The compiler does not look into it, so to the
    // compiler it is `count` relaxed stores, which the loop below spells out. On this architecture they are: each store
    // of `memset` is of whole bytes.
    unsafe {
        std::arch::asm!(
            "call {memset}",
            memset = sym libc::memset,
            in("rdi") bytes.as_ptr(),
            in("esi") u32::from(value),
            in("rdx") count,
            clobber_abi("C"),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    bytes[..count].iter().for_each(|byte| byte.store(value, Relaxed));
}

/// Multiplies each word of `row` by the word of `column` that lies `stride` words further each time, and
/// stores the sum so far in `cell` after every step.
///
/// On x86-64 the loop is written out: eight instructions, as a C compiler makes of the loop in schbench
/// at `-O2`. What LLVM makes of it takes 0.7 instead of 0.86 ns a step on an AMD EPYC, so a request of
/// schbench would be lighter work than one of the original.
///
/// # Panics
/// When `column` is too short for `row`.
pub fn multiply_into(cell: &AtomicU64, row: &[AtomicU64], column: &[AtomicU64], stride: usize) {
    let Some(steps) = row.len().checked_sub(1) else { return cell.store(0, Relaxed) };
    let last = steps.checked_mul(stride).expect("a matrix fits in memory");
    assert!(last < column.len(), "{} words are too few for {} rows", column.len(), row.len());
    cell.store(0, Relaxed);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the loop reads each word of the row and as many words of the column as were checked above,
    // and writes the cell: aligned words that are atomic on this architecture.
    unsafe {
        std::arch::asm!(
            ".p2align 4",
            "2:",
            "mov {term}, [{factor}]",
            "imul {term}, [{other}]",
            "add {factor}, 8",
            "add {other}, {bytes}",
            "add {sum}, {term}",
            "mov [{cell}], {sum}",
            "cmp {factor}, {end}",
            "jne 2b",
            factor = inout(reg) row.as_ptr() => _,
            other = inout(reg) column.as_ptr() => _,
            bytes = in(reg) stride * 8,
            sum = inout(reg) 0_u64 => _,
            cell = in(reg) cell.as_ptr(),
            end = in(reg) row.as_ptr_range().end,
            term = out(reg) _,
            options(nostack)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for (factor, other) in row.iter().zip(column.iter().step_by(stride)) {
        let term = factor.load(Relaxed).wrapping_mul(other.load(Relaxed));
        cell.store(cell.load(Relaxed).wrapping_add(term), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_fill_writes_as_many_bytes_as_asked_for_and_none_beyond() {
        let bytes = bytes(24).unwrap();
        let read = || bytes.iter().map(|byte| byte.load(Relaxed)).collect::<Vec<u8>>();
        fill(bytes, 9, 2);
        assert_eq!(read(), [&[2; 9][..], &[0; 15]].concat());
        fill(&bytes[3..], 1 << 20, 7);
        assert_eq!(read(), [&[2; 3][..], &[7; 21]].concat());
        fill(&bytes[24..], 1, 1);
    }

    #[test]
    fn a_cell_of_a_product_is_the_sum_over_row_and_column() {
        let matrix: Vec<AtomicU64> = (1..=8).map(AtomicU64::new).collect();
        let cell = AtomicU64::new(9);
        multiply_into(&cell, &matrix[..3], &matrix[1..], 3);
        assert_eq!(cell.load(Ordering::Relaxed), 2 + 2 * 5 + 3 * 8);
        multiply_into(&cell, &[], &matrix, 3);
        assert_eq!(cell.load(Ordering::Relaxed), 0);
        let too_short = std::panic::catch_unwind(|| {
            multiply_into(&AtomicU64::new(0), &matrix[..3], &matrix[2..], 3);
        });
        assert!(too_short.is_err());
    }

    /// Bytes that a mapping has in memory, by the kernel's account.
    #[cfg(target_os = "linux")]
    fn resident(words: &[AtomicU64]) -> u64 {
        let wanted = words[words.len() / 2..].as_ptr().addr();
        let mut inside = false;
        for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = range.and_then(|(from, to)| {
                Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
            });
            if let Some((from, to)) = ends {
                inside = (from..to).contains(&wanted);
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| inside) {
                return size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
            }
        }
        panic!("no mapping holds {wanted:#x}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn words_that_are_only_read_take_no_memory() {
        let words = untouched(4 << 20);
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        // The kernel may join this mapping with a neighbour of another thread, whose pages count as well.
        let read = resident(&words);
        words.iter().step_by(512).for_each(|word| word.store(1, Ordering::Relaxed));
        let written = resident(&words);
        let taken = written.saturating_sub(read);
        assert!(taken > 31 << 20, "of 32 MiB, {taken} bytes became resident only by writing");
    }

    #[test]
    fn words_and_bytes_are_zero_and_no_memory_is_refused() {
        assert!(words(3).unwrap().iter().all(|word| word.load(Relaxed) == 0));
        assert!(bytes(3).unwrap().iter().all(|byte| byte.load(Relaxed) == 0));
        assert!(words(usize::MAX / 4).is_err());
    }
}
