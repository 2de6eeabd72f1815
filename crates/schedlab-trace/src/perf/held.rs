//! The records that one CPU logged in a round and that were not handed out yet: where each lies, and
//! when it was logged. They are decoded in place when their turn in time has come.

use crate::decode::Stamp;
use crate::merge::{Batch, ENDED, Out};
use crate::names::Names;
use crate::plan::Decoder;
use schedlab_model::{Context, Cpu, Event, Nanos, Pid, What};

/// Records in the order in which they are handed out.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pieces: Vec<Piece>,
    /// Pieces that were handed out.
    at: usize,
    /// What is no record.
    asides: Vec<What>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    time: u64,
    /// Where the body begins; [`ASIDE`]: there is none.
    start: u32,
    /// How long it is; the number with which it begins stands in the upper half, so that what it is is known
    /// before its bytes are. Or which of the asides this is.
    what: u32,
}

/// No body begins here: nobody holds so many bytes.
const ASIDE: u32 = u32::MAX;

/// One thing that was held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    /// A record's body.
    Body(&'a [u8]),
    /// A loss or a change of name.
    Aside(What),
}

impl Held {
    /// Holds the record that the first `length` of these bytes are (a record of a perf.data has fewer than 64
    /// KiB), which begin at `start`, below 4 GiB.
    #[inline(always)]
    pub(crate) fn hold(&mut self, time: u64, start: usize, bytes: &[u8], length: usize) {
        let id = bytes.first_chunk().map_or(0, |id| u16::from_le_bytes(*id));
        let what = length.min(0xffff) | usize::from(id) << 16;
        self.pieces.push(Piece::new(time, start, what));
    }

    /// Holds what is no record: a loss or a change of name.
    pub(crate) fn hold_aside(&mut self, time: u64, what: What) {
        let index = self.asides.len();
        self.asides.push(what);
        self.pieces.push(Piece::new(time, ASIDE as usize, index));
    }

    /// What is left.
    #[inline(always)]
    fn rest(&mut self) -> &mut [Piece] {
        self.pieces.get_mut(self.at..).unwrap_or_default()
    }

    /// The time of what is next; `None` when nothing is left.
    #[inline]
    pub(crate) fn time(&self) -> Option<u64> {
        self.next().map(|piece| piece.time)
    }

    #[inline(always)]
    fn next(&self) -> Option<&Piece> {
        self.pieces.get(self.at)
    }

    /// What is next, and its time; `bytes` is what the records lie in.
    pub(crate) fn get<'a>(&self, bytes: &'a [u8]) -> Option<(u64, Found<'a>)> {
        let piece = *self.next()?;
        let Piece { time, start, what } = piece;
        let found = match start {
            ASIDE => Found::Aside(*self.asides.get(what as usize)?),
            _ => Found::Body(bytes.get(start as usize..)?.get(..piece.length())?),
        };
        Some((time, found))
    }

    /// Passes over what is next.
    pub(crate) fn pass(&mut self) {
        self.at += 1;
    }

    /// Raises the times before `time` to it; how many there were. In order before, in order after.
    pub(crate) fn raise(&mut self, time: u64) -> u64 {
        let rest = self.rest();
        let late = rest.partition_point(|piece| piece.time < time);
        rest[..late].iter_mut().for_each(|piece| piece.time = time);
        late as u64
    }

    /// Puts all that is left in order of time.
    pub(crate) fn sort(&mut self) {
        self.rest().sort_by_key(|piece| piece.time);
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.asides.clear();
        self.at = 0;
    }

    /// Decodes what is next. The time of what follows; `None` when nothing is left. `bytes` is what the
    /// records lie in.
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        bytes: &[u8],
        cpu: Cpu,
        decoder: &Decoder,
        names: &mut Names,
        out: &mut impl Out,
    ) -> Option<u64> {
        let piece = *self.next()?;
        let Piece { time, start, .. } = piece;
        self.at += 1;
        let stamp = Stamp { time, cpu };
        let near = match bytes.get(start as usize..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => {
                let known = decoder.known(piece.id(), piece.length());
                decoder.decode_near(known, stamp, bytes, names, out)
            }
            None => false,
        };
        if !near {
            out.aside(|batch| far(bytes, piece, &self.asides, stamp, decoder, names, batch));
        }
        self.time()
    }
}

impl Piece {
    /// The time of the ended is nobody's.
    #[inline(always)]
    fn new(time: u64, start: usize, what: usize) -> Self {
        Self { time: time.min(ENDED - 1), start: start as u32, what: what as u32 }
    }

    #[inline(always)]
    fn id(self) -> u16 {
        (self.what >> 16) as u16
    }

    #[inline(always)]
    fn length(self) -> usize {
        (self.what & 0xffff) as usize
    }
}

/// What the short way does not take.
#[cold]
#[inline(never)]
fn far(
    bytes: &[u8],
    piece: Piece,
    asides: &[What],
    stamp: Stamp,
    decoder: &Decoder,
    names: &mut Names,
    batch: &mut Batch<'_>,
) {
    if piece.start != ASIDE {
        let rest = bytes.get(piece.start as usize..);
        let body = rest.and_then(|rest| rest.get(..piece.length())).unwrap_or_default();
        return decoder.decode_any(stamp, body, names, batch);
    }
    let Some(&what) = asides.get(piece.what as usize) else { return };
    let (by, news) = match what {
        What::Comm { pid, comm } => (pid, names.changed(pid, &comm)),
        _ => (Pid::IDLE, true),
    };
    if news {
        let Stamp { time, cpu } = stamp;
        batch.put(Event { time: Nanos(time), by, cpu, context: Context::Task, what });
    }
}
