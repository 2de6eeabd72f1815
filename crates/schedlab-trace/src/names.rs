//! Names of tasks by pid, to notice when one changes.

use schedlab_model::{Comm, Pid};

/// The kernel's largest pid plus one (`PID_MAX_LIMIT` on 64-bit).
pub(crate) const PIDS_MAX: usize = 1 << 22;

/// Whether a kernel can give out this pid; the idle task's is one.
pub(crate) fn may_be(pid: Pid) -> bool {
    (pid.0.cast_unsigned() as usize) < PIDS_MAX
}

/// A number that was given out for a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) number: u32,
    pub(crate) pid: i32,
    pub(crate) comm: Comm,
}

/// Receives the names that records mention.
pub(crate) trait Called {
    /// Takes note of a name; whether it is to be an event of its own.
    fn called(&mut self, pid: Pid, comm: &Comm) -> bool;

    /// Where the general path looks names up. Each name that changes there is put as an event.
    fn general(&mut self) -> &mut Names;
}

impl Called for Names {
    #[inline(always)]
    fn called(&mut self, pid: Pid, comm: &Comm) -> bool {
        self.changed(pid, comm)
    }

    fn general(&mut self) -> &mut Names {
        self
    }
}

/// The last name seen of each task, by pid. 16 bytes for each pid up to the largest seen: half a MiB
/// where pids have 15 bits, 64 MiB at most.
#[derive(Default)]
pub(crate) struct Names {
    /// Every bit inverted: zeros are no name, not even the empty one, since a name ends in a NUL.
    names: Vec<u128>,
    /// Those that were replaced since all were forgotten, where they are to be forgotten.
    touched: Option<Vec<usize>>,
    /// Where records come with numbers for names: that of each task's last name; 0 when it came without.
    numbers: Vec<u32>,
    numbered: Vec<Comm>,
}

/// Makes a table by pid long enough to have `index`. Fresh from the system, the zeros of numbers, arrays and tuples
/// (not of structs) cost nothing until they are touched.
pub(crate) fn reach<T: Copy + Default>(table: &mut Vec<T>, index: usize) {
    let mut longer = vec![T::default(); (index + 1).next_power_of_two()];
    longer[..table.len()].copy_from_slice(table);
    *table = longer;
}

impl Names {
    /// Names of a stretch of a trace that is looked at apart from what comes before, and will be forgotten:
    /// each name that may be new, an empty name too. Of those, [`Names::changed`] of the whole trace's names
    /// tells which are: the same ones as if it had seen every name.
    pub(crate) fn apart() -> Self {
        Self { touched: Some(Vec::new()), ..Self::default() }
    }

    /// Takes note of a name; whether it is another than the last one. The idle task has a different
    /// name on every CPU (`swapper/0`), and pids that no kernel gives out are noise: never.
    #[inline(always)]
    pub(crate) fn changed(&mut self, pid: Pid, comm: &Comm) -> bool {
        // A negative pid becomes a huge index.
        let index = pid.0.cast_unsigned() as usize;
        match self.names.get(index) {
            Some(known) if *known == !u128::from_ne_bytes(*comm) => false,
            _ => pid.0 != 0 && self.replace(index, *comm),
        }
    }

    /// Forgets all names, if it is [`Names::apart`].
    pub(crate) fn forget(&mut self) {
        for index in self.touched.iter_mut().flat_map(|touched| touched.drain(..)) {
            self.names[index] = 0;
        }
    }

    #[cold]
    #[inline(never)]
    fn replace(&mut self, index: usize, comm: Comm) -> bool {
        if index == 0 || index >= PIDS_MAX {
            return false;
        }
        let comm = clean(comm);
        if index >= self.names.len() {
            reach(&mut self.names, index);
        }
        if let Some(number) = self.numbers.get_mut(index) {
            *number = 0;
        }
        let inverted = !u128::from_ne_bytes(comm);
        let known = std::mem::replace(&mut self.names[index], inverted);
        let told = match &mut self.touched {
            Some(touched) => {
                if known == 0 {
                    touched.push(index);
                }
                true
            }
            None => comm != [0; 16],
        };
        known != inverted && told
    }

    /// Takes note of numbers that were given out.
    pub(crate) fn tell(&mut self, news: &[News]) {
        for &News { number, pid, comm } in news {
            let number_at = number as usize;
            if number_at >= self.numbered.len() {
                self.numbered.resize(number_at + 1, [0; 16]);
            }
            self.numbered[number_at] = comm;
            // It may be what a name of the same task had before.
            match self.numbers.get_mut(pid.cast_unsigned() as usize) {
                Some(known) if *known == number => *known = 0,
                _ => {}
            }
        }
    }

    /// As [`Self::changed`], by the name's number: the name if it is news.
    #[inline(always)]
    pub(crate) fn changed_to(&mut self, pid: i32, number: u32) -> Option<Comm> {
        match self.numbers.get(pid.cast_unsigned() as usize) {
            Some(known) if *known == number => None,
            _ => self.learn(pid, number),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, pid: i32, number: u32) -> Option<Comm> {
        let comm = *self.numbered.get(number as usize).filter(|_| number != 0)?;
        let news = self.changed(Pid(pid), &comm);
        // The code that gives out numbers has looked at the pid.
        let index = pid.cast_unsigned() as usize;
        if index >= self.numbers.len() {
            reach(&mut self.numbers, index);
        }
        self.numbers[index] = number;
        news.then_some(comm)
    }
}

/// A name without what lies behind its NUL, where kernels before 5.x leave old bytes.
#[inline]
pub(crate) fn clean(raw: Comm) -> Comm {
    const LOW: u128 = u128::from_ne_bytes([1; 16]);
    const HIGH: u128 = u128::from_ne_bytes([0x80; 16]);
    // One number, first byte lowest.
    let comm = u128::from_le_bytes(raw) & (u128::MAX >> 8);
    let zeros = comm.wrapping_sub(LOW) & !comm & HIGH;
    // The lowest marked byte is the first NUL; the sixteenth byte is one at the latest.
    let bits = zeros.trailing_zeros() / 8 * 8;
    (comm & ((1u128 << bits) - 1)).to_le_bytes()
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
        assert_eq!(clean(*b"sh\0old bytes...."), comm(b"sh"));
        assert_eq!(clean(*b"0123456789abcdef"), *b"0123456789abcde\0");
        assert_eq!(clean(*b"\0bcdefghijklmnop"), [0; 16]);
        assert_eq!(clean(*b"a\x01\0\x01\x80\xffghijklmnop")[..3], *b"a\x01\0");
    }

    #[test]
    fn a_name_is_news_once() {
        let mut names = Names::default();
        let a = &comm(b"a");
        assert!(names.changed(Pid(7), a));
        assert!(!names.changed(Pid(7), a));
        assert!(!names.changed(Pid(7), b"a\0old..........."));
        assert!(names.changed(Pid(7), &comm(b"b")));
        assert!(!names.changed(Pid(0), a), "the idle task's name is no news");
        assert!(!names.changed(Pid(-1), a) && !names.changed(Pid(i32::MAX), a));
    }

    #[test]
    fn an_empty_name_is_no_news_but_what_follows_it_is() {
        let mut names = Names::default();
        let (a, none) = (&comm(b"a"), &[0; 16]);
        assert!(!names.changed(Pid(7), none) && names.changed(Pid(7), a));
        assert!(!names.changed(Pid(7), none) && names.changed(Pid(7), a));
    }

    #[test]
    fn what_stretches_take_for_news_holds_all_that_is() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 40) % below
        };
        let (mut all, mut rest, mut apart) = (Names::default(), Names::default(), Names::apart());
        let (mut news, mut dropped) = (0, 0);
        for _ in 0..2_000 {
            if draw(20) == 0 {
                apart.forget();
            }
            let pid = Pid(draw(5) as i32);
            let name = [comm(b""), comm(b"a"), comm(b"b"), *b"a\0old..........."][draw(4) as usize];
            let expected = all.changed(pid, &name);
            let told = apart.changed(pid, &name);
            let kept = told && rest.changed(pid, &clean(name));
            assert_eq!(kept, expected, "{pid} {name:?}");
            news += usize::from(kept);
            dropped += usize::from(told && !kept);
        }
        assert!(news > 500 && dropped > 100, "{news} and {dropped}");
    }

    #[test]
    fn a_number_for_a_name_is_news_once() {
        let mut names = Names::default();
        let news = |number, name: &[u8]| News { number, pid: 7, comm: comm(name) };
        names.tell(&[news(1, b"a"), news(3, b"b")]);
        assert_eq!(names.changed_to(7, 1), Some(comm(b"a")));
        assert_eq!(names.changed_to(7, 1), None);
        assert_eq!(names.changed_to(7, 3), Some(comm(b"b")));
        assert_eq!(names.changed_to(7, 0), None, "it came without one");
        assert_eq!(names.changed_to(7, 2), None, "nobody gave it out");
        // A name that came without its number is the last one.
        assert!(names.changed(Pid(7), &comm(b"a")));
        assert_eq!(names.changed_to(7, 3), Some(comm(b"b")));
        // The number is given out again.
        names.tell(&[news(3, b"c")]);
        assert_eq!(names.changed_to(7, 3), Some(comm(b"c")));
        assert_eq!(names.changed_to(8, 1), Some(comm(b"a")), "of another task");
    }

    #[test]
    fn pids_up_to_the_kernels_largest_have_names() {
        let mut names = Names::default();
        let largest = i32::try_from(PIDS_MAX - 1).unwrap();
        assert!(names.changed(Pid(largest), &comm(b"a")));
        assert!(!names.changed(Pid(largest + 1), &comm(b"a")));
    }

    #[test]
    fn a_text_is_cut_to_fifteen_bytes_and_at_its_nul() {
        assert_eq!(comm(b"0123456789abcdef"), *b"0123456789abcde\0");
        assert_eq!(comm(b"0123456789abcde"), *b"0123456789abcde\0");
        assert_eq!(comm(b"ab\0cd"), *b"ab\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_stretch_that_begins_anew_takes_each_name_for_news() {
        let (mut apart, a) = (Names::apart(), comm(b"a"));
        assert!(apart.changed(Pid(7), &a) && !apart.changed(Pid(7), &a));
        apart.forget();
        assert!(apart.changed(Pid(7), &a));
        let mut whole = Names::default();
        assert!(whole.changed(Pid(7), &a));
        whole.forget();
        assert!(!whole.changed(Pid(7), &a), "those of a whole trace stay");
    }
}
