//! How much memory the content of one opened file may take.
//!
//! A few bytes of a file can ask for gigabytes: compressed sections, lists that are named again and again, one
//! name for each of a million tasks. Each such demand has a limit of its own somewhere, but a file can make many.
//! So a reader takes what it is about to keep, unpack or list from the budget of its file. What the budget
//! refuses is left out, and a warning says so. Windows of events that pass by give back what they took.
//!
//! Not in it: the tables of names by pid, which the kernel's largest pid bounds ([`crate::names`]).

use schedlab_model::Warning;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes for the smallest file: an unpacked window of ten pages of 64 KiB for each of 256 CPUs, which no file that
/// was recorded needs less of for being small.
const LEAST: u64 = 160 << 20;
/// Further bytes for each byte of the file. With [`LEAST`], with the tables of names and what passes by, a reader
/// stays below 256 MiB and four times the file.
const FOR_EACH_BYTE: u64 = 3;

/// What a file may unpack to on the disk: a few bytes can stand for a disk full of zeroes. Texts of traces pack to a tenth.
const ON_DISK: u64 = 64 << 20;
const ON_DISK_PER_BYTE: u64 = 128;

/// What so many packed bytes may unpack to in a file without a name.
pub(crate) const fn on_disk(packed: u64) -> u64 {
    ON_DISK.saturating_add(ON_DISK_PER_BYTE.saturating_mul(packed))
}

/// What is left for one opened file. Shared by all that read it.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    left: AtomicU64,
    refused: AtomicBool,
}

impl Budget {
    /// That of a file of `length` bytes.
    pub(crate) fn new(length: u64) -> Arc<Self> {
        let limit = LEAST.saturating_add(length.saturating_mul(FOR_EACH_BYTE));
        Arc::new(Self { limit, left: AtomicU64::new(limit), refused: AtomicBool::new(false) })
    }

    /// Takes `bytes` for good. `false` if less is left: then nothing is taken, and [`Self::warning`] says so.
    #[must_use]
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if !taken {
            self.refused.store(true, Ordering::Relaxed);
        }
        taken
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// What a reader says where it could not go on without what was refused.
    pub(crate) fn refusal(&self) -> String {
        format!("more than the {} MiB of memory for a file of this size", self.limit >> 20)
    }

    /// What was left out at all, for the end of reading; told once.
    pub(crate) fn warning(&self, path: &Path) -> Option<Warning> {
        let refused = self.refused.swap(false, Ordering::Relaxed);
        refused.then(|| {
            let what = format!(
                "{}: names, lists or events are left out: they need {}",
                path.display(),
                self.refusal()
            );
            Warning::new("trace-too-large", what, "metrics are partial: record the trace again")
        })
    }
}

/// A part of a budget that is given back when its holder goes.
#[derive(Debug, Default)]
pub(crate) struct Share {
    budget: Option<Arc<Budget>>,
    bytes: u64,
}

impl Share {
    /// Makes it `bytes` long, if it is shorter. `false` if `budget` has less; then it stays as it is.
    #[must_use]
    pub(crate) fn grow(&mut self, budget: &Arc<Budget>, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            if !budget.take(more) {
                return false;
            }
            self.budget.get_or_insert_with(|| Arc::clone(budget));
            self.bytes += more;
        }
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.left.fetch_add(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_takes_nothing_and_is_told_once() {
        let budget = Budget::new(1 << 20);
        assert_eq!(budget.left(), LEAST + (3 << 20));
        assert!(budget.take(LEAST) && budget.warning(Path::new("x")).is_none());
        assert!(!budget.take(4 << 20));
        assert_eq!(budget.left(), 3 << 20);
        let told = budget.warning(Path::new("x")).unwrap();
        assert!(
            told.what.ends_with("need more than the 163 MiB of memory for a file of this size")
        );
        assert!(budget.warning(Path::new("x")).is_none());
    }

    #[test]
    fn a_share_grows_and_is_given_back() {
        let budget = Budget::new(0);
        let mut share = Share::default();
        assert!(share.grow(&budget, 100) && share.grow(&budget, 40) && share.grow(&budget, 150));
        assert_eq!(budget.left(), LEAST - 150);
        assert!(!share.grow(&budget, LEAST + 1));
        assert_eq!(budget.left(), LEAST - 150);
        drop(share);
        assert_eq!(budget.left(), LEAST);
    }
}
