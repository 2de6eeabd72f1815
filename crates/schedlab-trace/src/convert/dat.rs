//! Towards trace.dat.

use super::Converted;
use crate::conversion_loss::{Unknown, arguments_left_out, cannot_hold};
use crate::dat::{
    Compression, Header, PageRun, Piece, RecordSource, Spool, Version, Writer, longest_body,
};
use crate::event_writer::EventWriter;
use crate::selection::{Choice, Part, Taken};
use schedlab_model::{Clock, EventSource, What};
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

/// Records as they are, of the part that is wanted.
pub(super) fn pass(
    source: &mut dyn RecordSource,
    to: &Path,
    version: Version,
    compression: Compression,
    part: &Part,
    hz: Option<NonZeroU64>,
) -> io::Result<Converted> {
    let mut header = source.header().clone();
    header.version = version;
    header.compression = compression;
    part.tell(&mut header);
    if let Some(hz) = hz {
        header.tell_ticks(hz);
    }
    let mut passed = once(source, to, &header, part)?;
    if !passed.fits() {
        // perf's ring takes records of up to 64 KiB; pages of the kernel's size hold less, larger ones
        // are read alike.
        header.page_size = page_for(passed.longest);
        header.header_page = String::new();
        passed = once(source, to, &header, part)?;
    }
    let warnings = source.warnings().to_vec();
    Ok(Converted { untouched: true, events: passed.events, warnings })
}

/// What was passed on, and whether all of it found room in a page.
struct Passed {
    room: usize,
    longest: usize,
    events: u64,
}

impl Passed {
    /// Takes a record in; whether it is to be written. Once one had no room, the rest is only measured.
    fn take(&mut self, body: &[u8]) -> bool {
        self.longest = self.longest.max(body.len());
        self.events += 1;
        self.fits()
    }

    fn fits(&self) -> bool {
        self.longest <= self.room
    }
}

/// The smallest page that holds a body of this length.
fn page_for(length: usize) -> u32 {
    // A page's and a record's head are 24 bytes.
    u32::try_from((length + 24).next_power_of_two()).unwrap_or(u32::MAX)
}

fn once(
    source: &mut dyn RecordSource,
    to: &Path,
    header: &Header,
    part: &Part,
) -> io::Result<Passed> {
    let room = longest_body(header.encoding, header.page_size as usize);
    let mut passed = Passed { room, longest: 0, events: 0 };
    let mut choice = Choice::new(part, source.header(), source.clock());
    if source.by_cpu() {
        by_cpu(source, to, header, &mut choice, &mut passed)?;
        return Ok(passed);
    }
    let mut spool = Spool::create(to, header.clone())?;
    source.each(&mut |buffer, cpu, piece| {
        match choice.take(buffer, cpu, piece) {
            Taken::Not => return Ok(()),
            Taken::AfterLoss(count) => spool.lost(cpu, count)?,
            Taken::Yes => {}
        }
        match piece {
            Piece::Record(time, body) if passed.take(body) => spool.record(cpu, time, body),
            Piece::Record(..) => Ok(()),
            Piece::Lost(count) => spool.lost(cpu, count),
        }
    })?;
    if passed.fits() {
        // Names that the source learnt on the way.
        spool.header().cmdlines.clone_from(&source.header().cmdlines);
        spool.finish()?;
    }
    Ok(passed)
}

/// Buffer by buffer and CPU by CPU, as the target wants them: a spool for each buffer would be waste.
fn by_cpu(
    source: &mut dyn RecordSource,
    to: &Path,
    header: &Header,
    choice: &mut Choice<'_>,
    passed: &mut Passed,
) -> io::Result<()> {
    let mut run = PageRun::new(Writer::create(to, header)?);
    source.each(&mut |buffer, cpu, piece| {
        let taken = choice.take(buffer, cpu, piece);
        if matches!(taken, Taken::Not) {
            return Ok(());
        }
        run.with(buffer, cpu, |lane| {
            if let Taken::AfterLoss(count) = taken {
                lane.lost(count)?;
            }
            match piece {
                Piece::Record(time, body) => {
                    passed.events += 1;
                    lane.record(time, body)
                }
                Piece::Lost(count) => lane.lost(count),
            }
        })
    })?;
    run.finish()?;
    Ok(())
}

/// Bytes of a text of arguments that are kept: a record must fit a page.
const ARGUMENTS_MAX: usize = 3000;

/// Events of the part that is wanted, spelt as records.
pub(super) fn encode(
    source: &mut dyn EventSource,
    to: &Path,
    version: Version,
    compression: Compression,
    part: &Part,
) -> io::Result<Converted> {
    let mut writer = EventWriter::create_as(to, source.info(), version, compression)?;
    let mut converted = Converted::default();
    let mut batch = Vec::new();
    let mut others = 0u64;
    let mut cut = 0u64;
    let mut unknown = Unknown::default();
    let mut renamed = 0u64;
    while source.next(&mut batch)? {
        writer.learn(source.info());
        for (index, event) in batch.iter().enumerate() {
            let what = event.what;
            if !part.holds(event) {
                writer.pass_over(&what);
                continue;
            }
            let text = source.arguments(index);
            others += u64::from(matches!(what, What::Other { .. }) && text.is_none());
            let text = text.unwrap_or_default();
            let kept = &text[..text.floor_char_boundary(ARGUMENTS_MAX)];
            cut += u64::from(kept.len() < text.len());
            unknown.see(&what);
            let names = matches!(what, What::Comm { .. } | What::Online { .. });
            converted.events += u64::from(!names && !matches!(what, What::Lost { .. }));
            renamed += u64::from(writer.event_with(event, kept)? && names);
        }
    }
    // Streams learn names and marks on the way.
    let info = source.info();
    let moved = writer.moved();
    writer.finish_as(info, part)?;
    converted.warnings = source.warnings().to_vec();
    converted.warnings.extend(arguments_left_out(others));
    if cut > 0 {
        let what = format!("{cut} events keep only {ARGUMENTS_MAX} bytes of their arguments");
        converted.warnings.push(cannot_hold(what, ""));
    }
    converted.warnings.extend(unknown.warnings());
    converted.warnings.extend(moved.map(|what| cannot_hold(what, "")));
    if renamed > 0 {
        let what = format!("{renamed} changes of name are written as events `task_rename`");
        converted.warnings.push(cannot_hold(what, ""));
    }
    if matches!(&info.clock, Clock::Nanoseconds(name) if name == "unknown") {
        let what = "that the clock is unknown: `local` stands there";
        converted.warnings.push(cannot_hold(what, ""));
    }
    Ok(converted)
}
