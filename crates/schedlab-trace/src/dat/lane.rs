//! The data of one CPU in one buffer: where it stands, and its records as events when their turn comes.

use super::clock::Correction;
use super::divide::Portion;
use super::pages::{Feed, Pages, Trouble, Unpacker, Window};
use super::read_ahead::ReadThreads;
use super::runs::Runs;
use super::shared::Shared;
use super::walk::{Body, Layout, Step, Visit, Walk, walk};
use crate::decode::Stamp;
use crate::fast_decode::Known;
use crate::input::Input;
use crate::merge::{Batch, ENDED, Lanes, Out};
use crate::names::{Called, Names};
use crate::plan::Decoder;
use schedlab_model::{Context, Cpu, Event, Nanos, Pid, What};
use std::collections::BTreeSet;
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
    /// Which of [`Shared::passing`] decodes it, if any.
    pub(super) passing: Option<usize>,
    /// How often time went back.
    pub(super) raised: u64,
    /// Pages whose records made no sense: how many, and where the first.
    pub(super) damaged: (u64, u64),
    pub(super) pages: Pages,
    corrected: bool,
    walk: Walk,
    /// The record that is next; [`NO_RECORD`] when it is a loss, or nothing.
    body: Body,
    /// The kind of the current record.
    known: Known,
    /// The loss that is next: how many events; 0 when nobody knows.
    lost: u32,
    /// The time of what is next, corrected.
    time: u64,
}

/// Lies beyond every window.
const NO_RECORD: Body = Body { at: usize::MAX, length: 0 };

/// Who fetches and unpacks.
pub(super) enum Fetch {
    Here(Vec<Feed>, Box<Unpacker>),
    Ahead(ReadThreads),
}

impl Fetch {
    fn fill(&mut self, input: &Input, lane: usize, window: &mut Window) -> io::Result<()> {
        match self {
            Self::Here(feeds, unpacker) => feeds[lane].fill(input, unpacker, window),
            Self::Ahead(threads) => threads.fill(lane, window),
        }
    }

    /// What was found wrong in each lane's data, once all was fetched.
    pub(super) fn troubles(&mut self) -> Vec<Option<Trouble>> {
        match self {
            Self::Here(feeds, _) => feeds.iter_mut().map(|feed| feed.trouble.take()).collect(),
            Self::Ahead(threads) => threads.finish(),
        }
    }
}

/// Where an event lies, when nothing is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where in the file its page lies; the data's end when there is no event.
    pub(super) page: u64,
    /// Where it lies itself; that of the page for a loss before it.
    pub(super) at: u64,
}

/// What was found wrong in a lane.
#[derive(Debug, Default)]
pub(super) struct Wrong {
    raised: u64,
    damaged: (u64, u64),
    trouble: Option<Trouble>,
}

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

    /// Other readers of the same lanes, to read portions of them; `None` where pages are packed.
    pub(super) fn twins(&self) -> Option<Self> {
        let Fetch::Here(feeds, _) = &self.fetch else { return None };
        let lanes: Vec<Lane> = self.lanes.iter().map(Lane::twin).collect();
        let feeds = feeds.iter().zip(&lanes).map(|(feed, lane)| feed.twin(lane.data.clone()));
        let fetch = Fetch::Here(feeds.collect(), Box::default());
        let shared = Arc::clone(&self.shared);
        (!self.is_packed()).then_some(Self { shared, lanes, fetch, names: Names::apart() })
    }

    /// Stands in each lane before its first event at or after `from`, as far as it lies behind the beginning
    /// of the page that is given. What is passed over counts as read by others.
    pub(super) fn seek(&mut self, from: u64, pages: impl Iterator<Item = u64>) -> io::Result<()> {
        for (index, page) in pages.enumerate() {
            self.seek_in(index, from, page)?;
        }
        Ok(())
    }

    /// The same in one lane.
    fn seek_in(&mut self, index: usize, from: u64, page: u64) -> io::Result<()> {
        let lane = &mut self.lanes[index];
        let wrong = (lane.raised, lane.damaged);
        lane.leave();
        if let Fetch::Here(feeds, _) = &mut self.fetch {
            feeds[index].seek(page..lane.data.end.max(page));
        }
        while self.go_on(index)? < from {}
        // At the beginning of all, nothing is passed over.
        if from > 0 {
            let lane = &mut self.lanes[index];
            (lane.raised, lane.damaged) = wrong;
        }
        Ok(())
    }

    /// Reads more at once, for lanes that are read one after the other ([`Self::run`]).
    pub(super) fn widen(&mut self, window: usize) {
        if let Fetch::Here(feeds, _) = &mut self.fetch {
            feeds.iter_mut().for_each(|feed| feed.widen(window));
        }
    }

    /// Hands `runs` the events of one lane in a portion: where they begin, and where those lie that are next. The
    /// window is lent to one lane after the other.
    pub(super) fn run(
        &mut self,
        index: usize,
        portion: &Portion,
        runs: &mut Runs,
    ) -> io::Result<(Place, Place)> {
        std::mem::swap(&mut runs.window, &mut self.lanes[index].pages.window);
        self.seek_in(index, portion.from, portion.pages[index])?;
        let here = &self.lanes[index];
        let start = here.place();
        let mut time = here.time;
        while time < portion.until {
            let here = &mut self.lanes[index];
            let decoder = self.shared.decoder_of(here.passing);
            let (names, out) = runs.parts();
            let next = here.put(decoder, names, out);
            runs.step();
            time = match next {
                Some(time) => time,
                None => self.go_on(index)?,
            };
        }
        let here = &mut self.lanes[index];
        let stop = here.place();
        std::mem::swap(&mut runs.window, &mut here.pages.window);
        Ok((start, stop))
    }

    /// Hardly anything behind these offsets in the file will be wanted in the lanes.
    pub(super) fn pause_at(&mut self, ends: &[u64]) {
        if let Fetch::Here(feeds, _) = &mut self.fetch {
            feeds.iter_mut().zip(ends).for_each(|(feed, end)| feed.pause_at(*end));
        }
    }

    /// Where the lanes stand.
    pub(super) fn places(&self) -> Vec<Place> {
        self.lanes.iter().map(Lane::place).collect()
    }

    /// What was found wrong since this was asked last, by lane.
    pub(super) fn wrongs(&mut self) -> Vec<(usize, Wrong)> {
        let troubles = self.fetch.troubles();
        let wrong = |(lane, trouble): (&mut Lane, _)| Wrong {
            raised: std::mem::take(&mut lane.raised),
            damaged: std::mem::take(&mut lane.damaged),
            trouble,
        };
        let all = self.lanes.iter_mut().zip(troubles).map(wrong).enumerate();
        let any =
            |wrong: &Wrong| wrong.raised > 0 || wrong.damaged.0 > 0 || wrong.trouble.is_some();
        all.filter(|(_, wrong)| any(wrong)).collect()
    }

    /// Takes note of what was found wrong by others, behind all that was found here.
    pub(super) fn note(&mut self, wrongs: Vec<(usize, Wrong)>) {
        for (index, wrong) in wrongs {
            let lane = &mut self.lanes[index];
            lane.raised += wrong.raised;
            let first = if lane.damaged.0 == 0 { wrong.damaged.1 } else { lane.damaged.1 };
            lane.damaged = (lane.damaged.0 + wrong.damaged.0, first);
            if let (Fetch::Here(feeds, _), Some(trouble)) = (&mut self.fetch, wrong.trouble) {
                feeds[index].trouble.get_or_insert(trouble);
            }
        }
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

    /// Goes on to what is next in a lane, reading as far as needed.
    #[inline(never)]
    fn go_on(&mut self, lane: usize) -> io::Result<u64> {
        loop {
            let here = &mut self.lanes[lane];
            match here.walk.next(&here.pages.window.bytes) {
                Step::Record(body) => {
                    let decoder = self.shared.decoder_of(here.passing);
                    here.found(body, decoder);
                    return Ok(here.settle());
                }
                Step::Broken(at) => return Ok(here.broken(at - here.pages.start())),
                Step::End => {}
            }
            if !self.turn(lane)? {
                let here = &mut self.lanes[lane];
                here.body = NO_RECORD;
                here.time = ENDED;
                return Ok(ENDED);
            }
            let here = &mut self.lanes[lane];
            match Walk::begin(here.pages.page(), here.layout) {
                Err(at) => return Ok(here.broken(at)),
                Ok((walk, lost)) => {
                    here.walk = walk.moved(here.pages.start());
                    if let Some(count) = lost {
                        (here.body, here.lost) = (NO_RECORD, count);
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

    fn time(&self, lane: usize) -> u64 {
        self.lanes[lane].time
    }

    #[inline(always)]
    fn put(&mut self, lane: usize, out: &mut impl Out) -> Option<u64> {
        let Self { shared, lanes, names, .. } = self;
        let here = &mut lanes[lane];
        let decoder = shared.decoder_of(here.passing);
        here.put(decoder, names, out)
    }
}

impl Lane {
    /// Another reader of the same data, at its beginning.
    fn twin(&self) -> Self {
        let correction = self.correction.clone();
        let lane = Self::new(
            self.buffer,
            self.cpu,
            self.layout,
            self.data.clone(),
            correction,
            self.pages.is_packed(),
        );
        Self { passing: self.passing, ..lane }
    }

    /// Where the event at hand lies.
    fn place(&self) -> Place {
        if self.time == ENDED {
            return Place { page: self.data.end, at: u64::MAX };
        }
        let page = self.pages.offset();
        let at = if self.body == NO_RECORD {
            page
        } else {
            self.pages.window.offset + self.body.at as u64
        };
        Place { page, at }
    }

    /// Forgets what it was at.
    fn leave(&mut self) {
        self.pages.leave();
        self.walk = Walk::default();
        (self.body, self.time, self.lost) = (NO_RECORD, 0, 0);
    }

    pub(super) fn new(
        buffer: usize,
        cpu: Cpu,
        layout: Layout,
        data: Range<u64>,
        correction: Correction,
        packed: bool,
    ) -> Self {
        Self {
            cpu,
            buffer,
            layout,
            data,
            corrected: !correction.is_identity(),
            correction,
            passing: None,
            raised: 0,
            damaged: (0, 0),
            pages: Pages::new(layout.page_size, packed),
            walk: Walk::default(),
            body: NO_RECORD,
            known: Known::default(),
            lost: 0,
            time: 0,
        }
    }

    /// Decodes the record at hand. The time of the ordinary one that follows; `None` where the walk must
    /// find what does.
    #[inline(always)]
    fn put(
        &mut self,
        decoder: &Decoder,
        names: &mut impl Called,
        out: &mut impl Out,
    ) -> Option<u64> {
        let Self { body, time, cpu, .. } = *self;
        let window = self.pages.window.bytes.as_slice();
        let stamp = Stamp { time, cpu };
        let near = match window.get(body.at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => decoder.decode_near(self.known, stamp, bytes, names, out),
            None => false,
        };
        if !near {
            out.aside(|batch| self.far(decoder, names.general(), batch));
        }
        let (body, id) = self.walk.near(self.pages.window.bytes.as_slice())?;
        (self.body, self.known) = (body, decoder.known(id, body.length));
        let time = self.walk.time;
        // An ordinary time; the next one of a clock that needs no correction never goes back.
        if self.corrected || time < self.time || time == ENDED {
            return Some(self.settle());
        }
        self.time = time;
        Some(time)
    }

    /// Takes note of the record that is next.
    fn found(&mut self, body: Body, decoder: &Decoder) {
        let bytes = self.pages.window.bytes.get(body.at..).unwrap_or_default();
        let id = bytes.first_chunk().map_or(0, |id| u16::from_le_bytes(*id));
        (self.body, self.known) = (body, decoder.known(id, body.length));
    }

    /// What the short way does not take: some records, and losses.
    #[cold]
    #[inline(never)]
    fn far(&self, decoder: &Decoder, names: &mut Names, batch: &mut Batch<'_>) {
        let Self { body: Body { at, length }, time, cpu, .. } = *self;
        if self.body == NO_RECORD {
            let time = Nanos(time);
            let by = Pid::IDLE;
            let context = Context::Task;
            let what = What::Lost { count: NonZeroU32::new(self.lost) };
            return batch.put(Event { time, by, cpu, context, what });
        }
        let bytes = self.pages.window.bytes.get(at..at + length).unwrap_or_default();
        decoder.decode_any(Stamp { time, cpu }, bytes, names, batch);
    }

    /// Corrects the time of what is next; a time before its predecessor's is raised to it. Per-CPU
    /// clocks are monotonic but for rare steps.
    #[inline(never)]
    fn settle(&mut self) -> u64 {
        let raw = self.walk.time;
        let time = if self.corrected { self.correction.time(raw) } else { raw }.min(ENDED - 1);
        self.raised += u64::from(time < self.time);
        self.time = self.time.max(time);
        self.time
    }

    /// The rest of the page makes no sense: a loss.
    fn broken(&mut self, at: usize) -> u64 {
        // A page that the file's end cut is reported as such.
        if self.pages.page().len() == self.layout.page_size {
            self.damage(at);
        }
        self.walk = Walk::default();
        (self.body, self.lost) = (NO_RECORD, 0);
        self.time
    }

    pub(super) fn damage(&mut self, at: usize) {
        let offset = self.pages.offset() + at as u64;
        let first = if self.damaged.0 == 0 { offset } else { self.damaged.1 };
        self.damaged = (self.damaged.0 + 1, first);
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

    /// The scheduler's events of which the first page holds records, as indices into those of the decoder.
    pub(super) fn sched(&self, feed: &Feed, shared: &Shared) -> BTreeSet<u16> {
        let mut search = Search { decoder: &shared.decoder, found: BTreeSet::new() };
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
        let there = usize::try_from(input.len().saturating_sub(at)).unwrap_or(usize::MAX);
        let mut page = vec![0; self.layout.page_size.min(there)];
        let count = input.read_at(at, &mut page).ok()?;
        let _ = walk(&page[..count], self.layout, visit);
        Some(())
    }
}

/// Looks for records of the scheduler's.
struct Search<'a> {
    decoder: &'a Decoder,
    found: BTreeSet<u16>,
}

impl Visit for Search<'_> {
    fn record(&mut self, _time: u64, body: &[u8]) {
        self.found.extend(self.decoder.sched(body));
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
