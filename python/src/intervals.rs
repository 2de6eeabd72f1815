//! Who ran where, and who waited: the intervals of a trace as columns.

use crate::declared::Growing;
use crate::table::Table;
use arrow_schema::ArrowError;
use schedlab_timeline::Interval;

/// Takes intervals in, those that waited apart from those that ran.
pub(crate) struct Intervals {
    slices: Growing<Interval>,
    waits: Growing<Interval>,
    /// Why there are no more.
    failed: Result<(), ArrowError>,
}

impl Intervals {
    /// No interval yet. Columns that never apply are left out.
    pub(crate) fn new() -> Self {
        Self {
            slices: Growing::without(&["state", "why"], ""),
            waits: Growing::without(&["state", "left", "interrupts_ns"], ""),
            failed: Ok(()),
        }
    }

    /// Takes an interval.
    #[inline]
    pub(crate) fn put(&mut self, interval: Interval) {
        if self.failed.is_ok() {
            let table = if interval.is_wait() { &mut self.waits } else { &mut self.slices };
            self.failed = table.put(interval);
        }
    }

    /// The tables of who ran and of who waited.
    pub(crate) fn tables(self) -> Result<(Table, Table), ArrowError> {
        self.failed?;
        Ok((self.slices.table()?, self.waits.table()?))
    }
}
