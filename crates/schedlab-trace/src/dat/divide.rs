//! A trace divided by time into portions of about the same size, for threads that decode them apart.
//!
//! Where a portion begins in each lane is found by the times in the heads of pages, a few of which are
//! read. An estimate is enough: a decoded portion states where it began and where it ended, and portions
//! that do not join are decoded again (`parallel_reader`). So times that go back cost time and nothing else.

use super::clock::Correction;
use super::shared::Shared;
use super::walk::Layout;
use crate::merge::ENDED;
use std::ops::Range;
use std::sync::Arc;

/// All that happened within a stretch of time.
#[derive(Clone, Debug)]
pub(super) struct Portion {
    /// The how manieth it is.
    pub(super) index: usize,
    /// The first instant of the portion.
    pub(super) from: u64,
    /// The instant behind it; [`ENDED`] for the last one.
    pub(super) until: u64,
    /// When its events happen, as the heads of pages have it.
    pub(super) times: Range<u64>,
    /// Where in the file the page lies with which it begins, for each lane.
    pub(super) pages: Arc<[u64]>,
    /// Behind the page in which it seems to end.
    pub(super) ends: Arc<[u64]>,
}

/// Divides a trace, from its beginning to its end.
pub(super) struct Divider {
    shared: Arc<Shared>,
    lanes: Vec<Section>,
    pages: Arc<[u64]>,
    /// How many portions there were.
    count: usize,
    /// When the first page begins, and the last one.
    times: Range<u64>,
    /// The instant at which the next one begins.
    from: u64,
    /// How long it shall be.
    length: u64,
    /// Bytes of pages that a portion shall have.
    size: u64,
    ended: bool,
}

/// One CPU's pages in one buffer.
pub(super) struct Section {
    layout: Layout,
    start: u64,
    /// How many pages there are; the last may be cut.
    count: u64,
    correction: Correction,
    /// The last page that begins before the next portion does.
    page: u64,
    /// When the one behind it begins; [`ENDED`] when there is none.
    next: u64,
    /// How many pages the last portion had.
    stride: u64,
}

impl Section {
    /// `data`: where the pages lie in the file, none of them beyond its end.
    pub(super) fn new(layout: Layout, data: Range<u64>, correction: Correction) -> Self {
        let count = (data.end - data.start).div_ceil(layout.page_size as u64);
        Self { layout, start: data.start, count, correction, page: 0, next: ENDED, stride: 0 }
    }

    fn bytes(&self, pages: u64) -> u64 {
        pages * self.layout.page_size as u64
    }

    fn offset(&self, page: u64) -> u64 {
        self.start + self.bytes(page)
    }

    /// When a page begins; [`ENDED`] where there is none, or it cannot be read.
    fn time(&self, shared: &Shared, page: u64) -> u64 {
        let mut stamp = [0; 8];
        if page >= self.count {
            return ENDED;
        }
        match shared.input.read_at(self.offset(page), &mut stamp) {
            Ok(8) => self.correction.time(self.layout.encoding.u64(stamp)).min(ENDED - 1),
            _ => ENDED,
        }
    }

    /// The last page that begins before `until`, and when the one behind it does. Looks first where it would
    /// be if this portion had as many pages as the one before.
    fn find(&self, shared: &Shared, until: u64) -> (u64, u64) {
        if self.next >= until {
            return (self.page, self.next);
        }
        // Pages below `low` begin before `until`, those from `high` on do not.
        let mut low = self.page + 2;
        let mut high = self.count;
        let mut next = ENDED;
        let mut some_before = false;
        let mut some_behind = false;
        let mut probe = self.page + 1 + self.stride;
        let mut step = 1u64;
        while low < high {
            probe = probe.clamp(low, high - 1);
            let time = self.time(shared, probe);
            if time < until {
                (low, some_before) = (probe + 1, true);
            } else {
                (high, next, some_behind) = (probe, time, true);
            }
            // Away from the guess in longer and longer steps, until it lies between the last two.
            probe = match (some_before, some_behind) {
                (true, true) => low + (high - low) / 2,
                (true, false) => probe.saturating_add(step),
                _ => probe.saturating_sub(step),
            };
            step = step.saturating_mul(2);
        }
        (low - 1, next)
    }
}

impl Divider {
    /// `size`: the bytes of pages that a portion shall have.
    pub(super) fn new(shared: Arc<Shared>, mut lanes: Vec<Section>, size: u64) -> Self {
        let mut first = ENDED;
        let mut last = 0;
        let mut bytes = 0;
        for lane in &mut lanes {
            first = first.min(lane.time(&shared, 0));
            last = last.max(lane.time(&shared, lane.count - 1));
            bytes += lane.bytes(lane.count);
            lane.next = lane.time(&shared, 1);
        }
        let pages = lanes.iter().map(|lane| lane.start).collect();
        let length = share(last.saturating_sub(first), size, bytes);
        let times = first..last;
        Self { shared, lanes, pages, count: 0, times, from: 0, length, size, ended: false }
    }

    /// Whether there are no more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next portion; `None` behind the last one.
    pub(super) fn next(&mut self) -> Option<Portion> {
        if self.ended {
            return None;
        }
        // Each portion ends beyond a page at least.
        let soonest = self.lanes.iter().map(|lane| lane.next).min().unwrap_or(ENDED);
        let (until, found) = loop {
            let until = soonest.max(self.from).saturating_add(self.length);
            let found: Vec<_> =
                self.lanes.iter().map(|lane| lane.find(&self.shared, until)).collect();
            let lanes = self.lanes.iter().zip(&found);
            let bytes = lanes.map(|(lane, (page, _))| lane.bytes(page - lane.page)).sum::<u64>();
            let too_long = bytes > 2 * self.size && self.length > 1;
            // Not beyond eight times as long or short, even if the last one was.
            let bytes = bytes.clamp(self.size / 8, self.size.saturating_mul(8)).max(1);
            self.length = share(self.length, self.size, bytes);
            if !too_long {
                break (until, found);
            }
        };
        for (lane, (page, next)) in self.lanes.iter_mut().zip(found) {
            lane.stride = page - lane.page;
            (lane.page, lane.next) = (page, next);
        }
        self.ended = until >= ENDED - 1 || self.lanes.iter().all(|lane| lane.next == ENDED);
        let until = if self.ended { ENDED } else { until };
        // The last page goes on for a while.
        let last = self.times.end.saturating_add(self.length / 8);
        let times = self.from.max(self.times.start)..until.min(last);
        let ends = self.lanes.iter().map(|lane| lane.offset(lane.page + 1)).collect();
        let next = self.lanes.iter().map(|lane| lane.offset(lane.page)).collect();
        let pages = std::mem::replace(&mut self.pages, next);
        let portion = Portion { index: self.count, from: self.from, until, times, pages, ends };
        self.from = until;
        self.count += 1;
        Some(portion)
    }
}

/// The part of `whole` that `part` is of `all`; at least 1.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let share = u128::from(whole) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(u64::MAX).max(1)
}
