//! The data of one CPU in one buffer: where it stands, and its records as events when their turn comes.

use super::clock::Correction;
use super::pages::{Feed, Pages, Unpacker, Window};
use super::read_ahead::Crew;
use super::walk::{Body, Layout, Step, Visit, Walk, walk};
use crate::decode::Stamp;
use crate::input::Input;
use crate::merge::{Batch, ENDED, Lanes};
use crate::names::Names;
use crate::near::REACH;
use crate::plan::Decoder;
use schedlab_model::{Context, Cpu, Event, Nanos, Pid, What};
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

/// The data of one CPU in one buffer.
pub(super) struct Lane {
    pub(super) cpu: Cpu,
    /// Index of its buffer in the file.
    pub(super) buffer: usize,
    pub(super) layout: Layout,
    pub(super) data: Range<u64>,
    pub(super) correction: Correction,
    /// Index into [`Shared::decoders`].
    pub(super) decoder: usize,
    /// How often time went back.
    pub(super) raised: u64,
    /// Pages whose records made no sense: how many, and where the first.
    pub(super) damaged: (u64, u64),
    pub(super) pages: Pages,
    corrected: bool,
    walk: Walk,
    next: Next,
    /// The time of what is next, corrected.
    time: u64,
}

/// What is next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Record(Body),
    /// A loss, and how many events if known; 0 otherwise.
    Lost(u32),
    /// Nothing: the lane has ended, or has not begun.
    Nothing,
}

/// What all lanes need, also in several threads.
pub(super) struct Shared {
    pub(super) input: Input,
    /// The one that decodes, and the one that passes the scheduler's events on as others.
    pub(super) decoders: [Decoder; 2],
}

/// Who fetches and unpacks.
pub(super) enum Fetch {
    Here(Vec<Feed>, Box<Unpacker>),
    Ahead(Crew),
}

impl Fetch {
    fn fill(&mut self, input: &Input, lane: usize, window: &mut Window) -> io::Result<()> {
        match self {
            Self::Here(feeds, unpacker) => feeds[lane].fill(input, unpacker, window),
            Self::Ahead(crew) => crew.fill(lane, window),
        }
    }

    /// What was found wrong in each lane's data, once all was fetched.
    pub(super) fn troubles(&mut self) -> Vec<Option<(u64, String)>> {
        if let Self::Ahead(crew) = self {
            *self = Self::Here(crew.finish(), Box::default());
        }
        let Self::Here(feeds, _) = self else { return Vec::new() };
        feeds.iter_mut().map(|feed| feed.trouble.take()).collect()
    }
}

/// The lanes of a file.
pub(super) struct FileLanes {
    pub(super) shared: Arc<Shared>,
    pub(super) lanes: Vec<Lane>,
    pub(super) fetch: Fetch,
    pub(super) names: Names,
}

impl FileLanes {
    /// Whether pages must be unpacked.
    pub(super) fn is_packed(&self) -> bool {
        self.lanes.iter().any(|lane| lane.pages.is_packed())
    }

    /// Fetches the next page of a lane; `false` at its end.
    pub(super) fn turn(&mut self, lane: usize) -> io::Result<bool> {
        let pages = &mut self.lanes[lane].pages;
        if pages.turn() {
            return Ok(true);
        }
        self.fetch.fill(&self.shared.input, lane, &mut pages.window)?;
        pages.rewind();
        Ok(pages.turn())
    }

    /// Goes on to what is next in a lane, whatever it takes.
    #[inline(never)]
    fn go_on(&mut self, lane: usize) -> io::Result<u64> {
        loop {
            let here = &mut self.lanes[lane];
            match here.walk.next(here.pages.page()) {
                Step::Record(body) => {
                    here.next = Next::Record(body);
                    return Ok(here.settle());
                }
                Step::Broken(at) => return Ok(here.broken(at)),
                Step::End => {}
            }
            if !self.turn(lane)? {
                let here = &mut self.lanes[lane];
                here.next = Next::Nothing;
                here.time = ENDED;
                return Ok(ENDED);
            }
            let here = &mut self.lanes[lane];
            match Walk::begin(here.pages.page(), here.layout) {
                Err(at) => return Ok(here.broken(at)),
                Ok((walk, lost)) => {
                    here.walk = walk;
                    if let Some(count) = lost {
                        here.next = Next::Lost(count);
                        return Ok(here.settle());
                    }
                }
            }
        }
    }
}

impl Lanes for FileLanes {
    fn count(&self) -> usize {
        self.lanes.len()
    }

    fn next(&mut self, lane: usize) -> io::Result<u64> {
        self.go_on(lane)
    }

    #[inline]
    fn run(&mut self, lane: usize, until: u64, batch: &mut Batch<'_>) -> Option<u64> {
        let Self { shared, lanes, names, .. } = self;
        let here = &mut lanes[lane];
        match here.next {
            Next::Record(body) => {
                let decoder = &shared.decoders[here.decoder];
                if here.corrected {
                    here.corrected_records(body, until, decoder, names, batch)
                } else {
                    here.records::<false>(body, until, decoder, names, batch)
                }
            }
            Next::Lost(count) => {
                batch.put(here.lost(count));
                None
            }
            Next::Nothing => Some(ENDED),
        }
    }
}

impl Lane {
    pub(super) fn new(
        place: (usize, Cpu),
        layout: Layout,
        data: Range<u64>,
        correction: Correction,
        packed: bool,
    ) -> Self {
        Self {
            cpu: place.1,
            buffer: place.0,
            layout,
            data,
            corrected: !correction.is_identity(),
            correction,
            decoder: 0,
            raised: 0,
            damaged: (0, 0),
            pages: Pages::new(layout.page_size, packed),
            walk: Walk::default(),
            next: Next::Nothing,
            time: 0,
        }
    }

    #[inline(never)]
    fn corrected_records(
        &mut self,
        body: Body,
        until: u64,
        decoder: &Decoder,
        names: &mut Names,
        batch: &mut Batch<'_>,
    ) -> Option<u64> {
        self.records::<true>(body, until, decoder, names, batch)
    }

    /// Decodes the record at hand and the ordinary ones that follow it up to `until`. The time of
    /// what is next then; `None` where the walk must find it.
    #[inline(always)]
    fn records<const CORRECTED: bool>(
        &mut self,
        mut body: Body,
        until: u64,
        decoder: &Decoder,
        names: &mut Names,
        batch: &mut Batch<'_>,
    ) -> Option<u64> {
        // The page and what the window holds behind it; where the page ends, the walk knows.
        let page = self.pages.rest(0);
        let (cpu, mut walk, mut time) = (self.cpu, self.walk, self.time);
        let mut bytes: Option<&[u8; REACH]> = page.get(body.at..).and_then(<[u8]>::first_chunk);
        loop {
            let stamp = Stamp { time, cpu };
            let near = match bytes {
                Some(bytes) => decoder.decode_near(stamp, bytes, body.length, names, batch),
                None => false,
            };
            if !near {
                let bytes = page.get(body.at..body.at + body.length).unwrap_or_default();
                decoder.decode_any(stamp, bytes, names, batch);
            }
            let Some((following, behind)) = walk.near(page) else {
                (self.walk, self.time) = (walk, time);
                return None;
            };
            (body, bytes) = (following, Some(behind));
            let raw = if CORRECTED { self.correction.time(walk.time) } else { walk.time };
            let raw = raw.min(ENDED - 1);
            if raw < time {
                self.raised += 1;
            } else {
                time = raw;
            }
            if time > until || batch.is_full() {
                (self.walk, self.time) = (walk, time);
                self.next = Next::Record(body);
                return Some(time);
            }
        }
    }

    /// Corrects the time of what is next; a time before its predecessor's is raised to it. Per-CPU
    /// clocks are monotonic but for rare steps.
    fn settle(&mut self) -> u64 {
        let raw = self.walk.time;
        let time = if self.corrected { self.correction.time(raw) } else { raw }.min(ENDED - 1);
        self.raised += u64::from(time < self.time);
        self.time = self.time.max(time);
        self.time
    }

    /// The rest of the page makes no sense: a loss.
    fn broken(&mut self, at: usize) -> u64 {
        // A page that the file's end cut is told as that.
        if self.pages.page().len() == self.layout.page_size {
            self.damage(at);
        }
        self.walk = Walk::default();
        self.next = Next::Lost(0);
        self.time
    }

    pub(super) fn damage(&mut self, at: usize) {
        let offset = self.pages.offset() + at as u64;
        let first = if self.damaged.0 == 0 { offset } else { self.damaged.1 };
        self.damaged = (self.damaged.0 + 1, first);
    }

    #[cold]
    fn lost(&self, count: u32) -> Event {
        let what = What::Lost { count: NonZeroU32::new(count) };
        let (time, by, context) = (Nanos(self.time), Pid::IDLE, Context::Task);
        Event { time, by, cpu: self.cpu, context, what }
    }

    /// Times of the first and of the last record; `None` when packed or unreadable.
    pub(super) fn ends(&self, feed: &Feed, input: &Input) -> Option<(Nanos, Nanos)> {
        if feed.is_packed() {
            return None;
        }
        let page_size = self.layout.page_size as u64;
        let end = self.data.end.min(input.len());
        let pages = end.checked_sub(self.data.start)?.div_ceil(page_size);
        let last_at = self.data.start + pages.checked_sub(1)? * page_size;
        let mut times = Times::default();
        self.page_at(input, self.data.start, &mut times)?;
        let first = times.first?;
        self.page_at(input, last_at, &mut times)?;
        let corrected = |time| Nanos(self.correction.time(time).min(ENDED - 1));
        Some((corrected(first), corrected(times.last?)))
    }

    /// Whether the first page holds records of the scheduler's.
    pub(super) fn has_sched(&self, feed: &Feed, shared: &Shared) -> bool {
        let mut search = Search { decoder: &shared.decoders[0], found: false };
        let mut feed = feed.again(self.data.clone());
        let mut pages = Pages::new(self.layout.page_size, feed.is_packed());
        let mut unpacker = Unpacker::default();
        if feed.start(&shared.input).is_ok()
            && feed.fill(&shared.input, &mut unpacker, &mut pages.window).is_ok()
            && pages.turn()
        {
            let _ = walk(pages.page(), self.layout, &mut search);
        }
        search.found
    }

    fn page_at(&self, input: &Input, at: u64, visit: &mut impl Visit) -> Option<()> {
        let mut page = vec![0; self.layout.page_size];
        let count = input.read_at(at, &mut page).ok()?;
        let _ = walk(&page[..count], self.layout, visit);
        Some(())
    }
}

/// Looks for a record of the scheduler's.
struct Search<'a> {
    decoder: &'a Decoder,
    found: bool,
}

impl Visit for Search<'_> {
    fn record(&mut self, _time: u64, body: &[u8]) {
        self.found |= self.decoder.is_sched(body);
    }

    fn lost(&mut self, _time: u64, _count: u32) {}
}

/// Notes the first and the last time.
#[derive(Default)]
struct Times {
    first: Option<u64>,
    last: Option<u64>,
}

impl Visit for Times {
    fn record(&mut self, time: u64, _body: &[u8]) {
        self.first.get_or_insert(time);
        self.last = Some(time);
    }

    fn lost(&mut self, _time: u64, _count: u32) {}
}
