//! Memory that forked processes share: zeroed words, never given back.

use std::io;
use std::sync::atomic::AtomicU64;

/// `count` words, zero at first, that this process and all that it forks from now on share. They
/// live as long as the process: whoever forks a load child ends soon after.
///
/// # Errors
/// When the system has no memory for them.
pub fn words(count: usize) -> io::Result<&'static [AtomicU64]> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let bytes = count.max(1).checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
    let base = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
    };
    // SAFETY: the mapping is page-aligned, `count` words long, zeroed (a valid AtomicU64), only
    // ever touched as atomics, and never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(base.cast::<AtomicU64>(), count) })
}

/// The low half of a word (on every byte order the half that a small value lies in), as a futex.
#[must_use]
pub fn low_half(word: &AtomicU64) -> &std::sync::atomic::AtomicU32 {
    let offset = usize::from(cfg!(target_endian = "big"));
    let base = std::ptr::from_ref(word).cast::<std::sync::atomic::AtomicU32>();
    // SAFETY: both halves lie inside the word.
    let half = unsafe { base.add(offset) };
    // SAFETY: the half is aligned, lives as long as the word, and is atomic as the word is. Callers
    // use a word either whole or by its half, so no access of mixed size races.
    unsafe { &*half }
}

/// The bytes of words, each on its own.
#[must_use]
pub fn bytes(words: &[AtomicU64]) -> &[std::sync::atomic::AtomicU8] {
    let base = words.as_ptr().cast::<std::sync::atomic::AtomicU8>();
    // SAFETY: the bytes lie inside the words, live as long, and are only touched as atomics. Callers
    // use memory either as words or as bytes, so no access of mixed size races.
    unsafe { std::slice::from_raw_parts(base, size_of_val(words)) }
}

/// Writes `value` over the first `count` bytes of words (all of them where there are fewer), as fast as
/// the C library's `memset` does: word by word in atomic stores takes twice as long.
///
/// Whoever else touches the words meanwhile finds any mixture of old and new bytes.
pub fn fill(words: &[AtomicU64], count: usize, value: u8) {
    let count = count.min(size_of_val(words));
    let base = words.as_ptr().cast_mut().cast::<libc::c_void>();
    // SAFETY: the bytes lie inside the words, which may change behind a shared reference, and any bytes
    // are valid words. The call goes to the C library, as a system call that reads into the words would
    // go to the kernel: an access that races with it sees bytes of either side.
    unsafe {
        libc::memset(base, libc::c_int::from(value), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_fill_writes_as_many_bytes_as_asked_for_and_none_beyond() {
        let words = words(3).unwrap();
        fill(words, 9, 2);
        let bytes: Vec<u8> = bytes(words).iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        assert_eq!(bytes[..9], [2; 9]);
        assert_eq!(bytes[9..], [0; 15]);
        fill(words, 1 << 20, 7);
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0x0707_0707_0707_0707));
    }

    #[test]
    fn words_are_zero_and_the_low_half_is_a_part_of_the_word() {
        let words = words(3).unwrap();
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        low_half(&words[1]).store(7, Ordering::Relaxed);
        assert_eq!(words[1].load(Ordering::Relaxed), 7);
    }
}
