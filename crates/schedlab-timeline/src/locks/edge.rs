//! What tracepoints tell of locks: the futex calls, and contention for the kernel's own locks.

use crate::question::OtherEvent;
use schedlab_model::OtherFormat;

/// Commands of futex(2), without their flags.
const WAITS: [u64; 2] = [0, 9];
/// Also those that requeue waiters, and the one that hands over (`FUTEX_UNLOCK_PI`).
const WAKES: [u64; 6] = [1, 3, 4, 5, 7, 10];
const LOCKS: [u64; 2] = [6, 13];
const COMMAND: u64 = 0x7f;
/// `FUTEX_PRIVATE_FLAG`, and its like for the calls with flags (`FUTEX2_PRIVATE`): the same bit.
const PRIVATE: u64 = 128;
/// In the word of a futex that names its holder: somebody waits (`FUTEX_WAITERS`), and the holder's number.
const WAITERS: u64 = 1 << 31;
const HOLDER: u64 = (1 << 30) - 1;
/// No task has a higher number (`PID_MAX_LIMIT`): a word of ones, as of a parked thread in Rust, names nobody.
const PID_MAX: u64 = 1 << 22;
/// What the word of a mutex holds while somebody waits for it, in glibc, Rust and Go (U. Drepper, Futexes Are Tricky).
const CONTENDED: u64 = 2;

/// A tracepoint that tells of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    Futex,
    /// `futex_wait`, the call with flags.
    Wait,
    /// `futex_wake`, the call with flags.
    Wake,
    /// `futex_waitv`, which waits for any word of a list.
    WaitList,
    /// `futex_requeue`, whose two words are a list.
    WakeList,
    Leaves,
    Contended,
    Passed,
}

/// What a task found in the word that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The call hands the lock over, and tells no value.
    Inherits,
    /// It names the holder.
    Holder(u64),
    /// That of a mutex which others wait for too.
    Contended,
    Other,
}

/// What happens to a task by such a tracepoint. The words of a list are not in the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Waits { address: u64, is_private: bool, word: Word },
    Wakes { address: u64, is_private: bool },
    WaitsForList,
    WakesList,
    Leaves,
    Contends { lock: u64 },
    Passes { lock: u64 },
}

impl Point {
    pub(super) fn of(format: &OtherFormat) -> Option<Self> {
        Some(match format.name.as_str() {
            "sys_enter_futex" => Self::Futex,
            "sys_enter_futex_wait" => Self::Wait,
            "sys_enter_futex_wake" => Self::Wake,
            "sys_enter_futex_waitv" => Self::WaitList,
            "sys_enter_futex_requeue" => Self::WakeList,
            "sys_exit_futex" | "sys_exit_futex_wait" | "sys_exit_futex_wake" => Self::Leaves,
            "contention_begin" => Self::Contended,
            "contention_end" => Self::Passed,
            _ => return None,
        })
    }

    /// What the event says; `None` if it says nothing about locks.
    pub(super) fn read(self, event: &OtherEvent<'_>) -> Option<Edge> {
        let lock = || event.number("lock_addr");
        match self {
            Self::Futex => {
                let address = event.number("uaddr")?;
                let op = event.number("op")?;
                let is_private = op & PRIVATE != 0;
                match op & COMMAND {
                    wait if WAITS.contains(&wait) => {
                        let word = word(event.number("val")?);
                        Some(Edge::Waits { address, is_private, word })
                    }
                    lock if LOCKS.contains(&lock) => {
                        Some(Edge::Waits { address, is_private, word: Word::Inherits })
                    }
                    wake if WAKES.contains(&wake) => Some(Edge::Wakes { address, is_private }),
                    _ => None,
                }
            }
            Self::Wait => {
                let is_private = event.number("flags")? & PRIVATE != 0;
                let word = word(event.number("val")?);
                Some(Edge::Waits { address: event.number("uaddr")?, is_private, word })
            }
            Self::Wake => {
                let is_private = event.number("flags")? & PRIVATE != 0;
                Some(Edge::Wakes { address: event.number("uaddr")?, is_private })
            }
            Self::WaitList => Some(Edge::WaitsForList),
            Self::WakeList => Some(Edge::WakesList),
            Self::Leaves => Some(Edge::Leaves),
            Self::Contended => Some(Edge::Contends { lock: lock()? }),
            Self::Passed => Some(Edge::Passes { lock: lock()? }),
        }
    }
}

fn word(value: u64) -> Word {
    let value = value & u64::from(u32::MAX);
    match value {
        CONTENDED => Word::Contended,
        _ if value & WAITERS != 0 && (1..=PID_MAX).contains(&(value & HOLDER)) => {
            Word::Holder(value & HOLDER)
        }
        _ => Word::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, Nanos, Pid};

    fn read(name: &str, arguments: &str) -> Option<Edge> {
        let format = OtherFormat { system: String::new(), name: name.to_owned() };
        let (at, cpu, by) = (Nanos(5), Cpu(0), Pid(7));
        Point::of(&format)?.read(&OtherEvent { at, cpu, by, format: 0, arguments })
    }

    #[test]
    fn calls_tell_who_waits_for_which_word_and_what_is_in_it() {
        let waits = |word, is_private| Some(Edge::Waits { address: 0x70, is_private, word });
        let wakes = |is_private| Some(Edge::Wakes { address: 0x70, is_private });
        for (arguments, expected) in [
            ("uaddr=0x70 op=128 val=2", waits(Word::Contended, true)),
            ("uaddr=0x70 op=0x189 val=2", waits(Word::Contended, true)),
            ("uaddr=0x70 op=0 val=0x8000002a", waits(Word::Holder(42), false)),
            ("uaddr=0x70 op=0 val=-2147483606", waits(Word::Holder(42), false)),
            ("uaddr=0x70 op=128 val=1", waits(Word::Other, true)),
            ("uaddr=0x70 op=128 val=0xffffffff", waits(Word::Other, true)),
            ("uaddr=0x70 op=0x86 val=0", waits(Word::Inherits, true)),
            ("uaddr=0x70 op=141 val=0", waits(Word::Inherits, true)),
            ("uaddr=0x70 op=129 val=1", wakes(true)),
            ("uaddr=0x70 op=135 val=0", wakes(true)),
            ("uaddr=0x70 op=10 val=1", wakes(false)),
            ("uaddr=0x70 op=2 val=1", None),
        ] {
            assert_eq!(read("sys_enter_futex", arguments), expected, "{arguments}");
        }
        let waited = read("sys_enter_futex_wait", "uaddr=0x70 val=2 mask=0xffffffff flags=0x82");
        assert_eq!(waited, waits(Word::Contended, true));
        assert_eq!(read("sys_enter_futex_wake", "uaddr=0x70 mask=1 nr=1 flags=2"), wakes(false));
        let waits = read("sys_enter_futex_waitv", "waiters=0x7f00 nr_futexes=2 flags=0");
        assert_eq!(waits, Some(Edge::WaitsForList));
        let wakes =
            read("sys_enter_futex_requeue", "waiters=0x7f00 flags=0 nr_wake=1 nr_requeue=9");
        assert_eq!(wakes, Some(Edge::WakesList));
        assert_eq!(read("sys_exit_futex", "ret=0"), Some(Edge::Leaves));
        let lock = 0xffff_8880_0000_0000;
        let begin = read("contention_begin", "lock_addr=0xffff888000000000 flags=0x20");
        assert_eq!(begin, Some(Edge::Contends { lock }));
        let end = read("contention_end", "lock_addr=0xffff888000000000 ret=0");
        assert_eq!(end, Some(Edge::Passes { lock }));
        assert_eq!(read("sys_enter_read", "fd=3"), None);
    }
}
