//! Numbers that stand for names of tasks in records that wait for their turn in time.
//!
//! A name is compared once, by its bytes, while they are in the cache. A waiting record carries the number;
//! [`Names`](crate::names::Names) decides whether the name is new when the record's turn comes.
//!
//! A number stands for one name of one task. It is used again two rounds after its task got another name:
//! no waiting record carries it then.

use crate::names::{News, PIDS_MAX, clean, reach};
use schedlab_model::Comm;

/// The last name met of each task and its number, by pid: 20 bytes for each pid up to the largest seen.
#[derive(Default)]
pub(crate) struct Numbers {
    known: Vec<(Comm, u32)>,
    /// Numbers given out so far; 0 is none.
    last: u32,
    /// Numbers that may be given out anew, that may be after this round, and after the next one.
    free: Vec<u32>,
    resting: Vec<u32>,
    left: Vec<u32>,
    news: Vec<News>,
}

impl Numbers {
    /// The number of a task's name; 0 where names are no news (the idle task, pids that no kernel gives out).
    #[inline(always)]
    pub(crate) fn of(&mut self, pid: i32, comm: &Comm) -> u32 {
        // A negative pid becomes a huge index.
        match self.known.get(pid.cast_unsigned() as usize) {
            Some((known, number)) if known == comm => *number,
            _ if pid == 0 => 0,
            _ => self.meet(pid, *comm),
        }
    }

    #[cold]
    #[inline(never)]
    fn meet(&mut self, pid: i32, comm: Comm) -> u32 {
        let index = pid.cast_unsigned() as usize;
        if index >= PIDS_MAX {
            return 0;
        }
        let comm = clean(comm);
        if index >= self.known.len() {
            reach(&mut self.known, index);
        }
        let known = &mut self.known[index];
        if known.0 == comm {
            return known.1;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        let before = std::mem::replace(known, (comm, number)).1;
        if before != 0 {
            self.left.push(before);
        }
        self.news.push(News { number, pid, comm });
        number
    }

    /// How many were given out in this round.
    pub(crate) fn fresh(&self) -> usize {
        self.news.len()
    }

    /// A round is over: what was given out in it.
    pub(crate) fn turn(&mut self, news: &mut Vec<News>) {
        news.clear();
        std::mem::swap(&mut self.news, news);
        self.free.append(&mut self.resting);
        std::mem::swap(&mut self.resting, &mut self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Names, comm};
    use schedlab_model::Pid;

    #[test]
    fn a_number_is_given_out_anew_when_nothing_carries_it_any_more() {
        let mut numbers = Numbers::default();
        let mut news = Vec::new();
        let mut rounds = |name: &[u8]| {
            let number = numbers.of(7, &comm(name));
            numbers.turn(&mut news);
            number
        };
        assert_eq!([rounds(b"a"), rounds(b"b"), rounds(b"c")], [1, 2, 3]);
        assert_eq!(
            [rounds(b"c"), rounds(b"d")],
            [3, 2],
            "1 and 2 have rested, the later goes first"
        );
    }

    #[test]
    fn numbers_tell_what_names_tell_in_any_order() {
        // Taken up in one order and handed out in another, over rounds that overlap as those of a perf.data do.
        let mut state = 5u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let (mut numbers, mut by_number, mut by_name) =
            (Numbers::default(), Names::default(), Names::default());
        let mut waiting: Vec<(u64, i32, u32, Comm)> = Vec::new();
        let (mut news, mut renamed) = (Vec::new(), 0);
        for round in 0..400 {
            for _ in 0..20 {
                let pid = [0, 1, 2, 3, -1, PIDS_MAX as i32][draw(6) as usize];
                let name = comm([&b"a"[..], b"b", b"c", b"", b"a\0x"][draw(5) as usize]);
                waiting.push((round * 10 + draw(20), pid, numbers.of(pid, &name), name));
            }
            numbers.turn(&mut news);
            by_number.tell(&news);
            waiting.sort_by_key(|(time, ..)| *time);
            let due = waiting.partition_point(|(time, ..)| *time <= round * 10 + 9);
            for (time, pid, number, name) in waiting.drain(..due) {
                let expected = by_name.changed(Pid(pid), &name);
                // Some come the long way, without a number.
                let told = match time % 5 {
                    0 => by_number.changed(Pid(pid), &name),
                    _ => by_number.changed_to(pid, number).is_some(),
                };
                assert_eq!(told, expected, "round {round}, pid {pid}");
                renamed += u32::from(told);
            }
        }
        assert!(renamed > 1000, "{renamed} changes of name");
        assert!(numbers.last < 100, "{} numbers for 3 tasks", numbers.last);
    }
}
