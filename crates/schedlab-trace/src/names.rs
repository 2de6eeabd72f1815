//! Names of tasks by pid, to notice when one changes.

use schedlab_model::{Comm, Pid};

/// The kernel's largest pid plus one (`PID_MAX_LIMIT` on 64-bit).
const PIDS_MAX: usize = 1 << 22;

/// The last name seen of each task, by pid. 16 bytes for each pid up to the largest seen: half a MiB
/// where pids have 15 bits, 64 MiB at most.
#[derive(Default)]
pub(crate) struct Names {
    names: Vec<u128>,
}

impl Names {
    /// Takes note of a name; whether it is another than the last one. The idle task has a different
    /// name on every CPU (`swapper/0`), and pids that no kernel gives out are noise: never.
    #[inline(always)]
    pub(crate) fn changed(&mut self, pid: Pid, comm: u128) -> bool {
        // A negative pid becomes a huge index.
        let index = pid.0.cast_unsigned() as usize;
        match self.names.get(index) {
            Some(known) if *known == comm => false,
            _ => pid.0 != 0 && self.replace(index, comm),
        }
    }

    #[cold]
    #[inline(never)]
    fn replace(&mut self, index: usize, comm: u128) -> bool {
        if index == 0 || index >= PIDS_MAX {
            return false;
        }
        let comm = clean(comm);
        if index >= self.names.len() {
            // Fresh from the system, zeros cost nothing until they are touched.
            let mut names = vec![0; (index + 1).next_power_of_two()];
            names[..self.names.len()].copy_from_slice(&self.names);
            self.names = names;
        }
        let known = std::mem::replace(&mut self.names[index], comm);
        known != comm && comm != 0
    }
}

/// A name as 16 bytes in one number, first byte lowest: what lies behind its NUL is cut off, since
/// kernels before 5.x leave old bytes there.
#[inline]
pub(crate) fn clean(raw: u128) -> u128 {
    const LOW: u128 = u128::from_ne_bytes([1; 16]);
    const HIGH: u128 = u128::from_ne_bytes([0x80; 16]);
    let comm = raw & (u128::MAX >> 8);
    let zeros = comm.wrapping_sub(LOW) & !comm & HIGH;
    // The lowest marked byte is the first NUL; the sixteenth byte is one at the latest.
    let bits = zeros.trailing_zeros() / 8 * 8;
    comm & ((1u128 << bits) - 1)
}

/// A text as a name, cut to 15 bytes.
pub(crate) fn comm(text: &[u8]) -> Comm {
    let mut comm = [0; 16];
    let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len()).min(15);
    comm[..length].copy_from_slice(&text[..length]);
    comm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_their_nul() {
        let raw = |text: &[u8; 16]| u128::from_le_bytes(*text);
        assert_eq!(clean(raw(b"sh\0old bytes....")), u128::from_le_bytes(comm(b"sh")));
        assert_eq!(clean(raw(b"0123456789abcdef")).to_le_bytes(), *b"0123456789abcde\0");
        assert_eq!(clean(raw(b"\0bcdefghijklmnop")), 0);
        assert_eq!(clean(raw(b"a\x01\0\x01\x80\xffghijklmnop")).to_le_bytes()[..3], *b"a\x01\0");
    }

    #[test]
    fn a_name_is_news_once() {
        let mut names = Names::default();
        let a = u128::from_le_bytes(comm(b"a"));
        assert!(names.changed(Pid(7), a));
        assert!(!names.changed(Pid(7), a));
        assert!(!names.changed(Pid(7), u128::from_le_bytes(*b"a\0old...........")));
        assert!(names.changed(Pid(7), u128::from_le_bytes(comm(b"b"))));
        assert!(!names.changed(Pid(0), a), "the idle task's name is no news");
        assert!(!names.changed(Pid(-1), a) && !names.changed(Pid(i32::MAX), a));
    }
}
