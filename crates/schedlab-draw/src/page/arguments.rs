//! Arguments of tracepoints beyond the scheduler's (`irq=42 name=ahci`), which the page shows under the pointer.
//!
//! Changes of the timeline hold no arguments. They are noted while events pass on their way to the question,
//! and joined with the page's points afterwards. Memory: 24 bytes an event, and each text once; beyond the
//! limits below the page shows names alone.

use schedlab_model::{Cpu, Event, EventSource, Nanos, OtherFormat, TraceInfo, Warning, What};
use schedlab_timeline::Power;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

/// Letters of a text that are kept.
const LETTERS_MAX: usize = 160;
/// Bytes of all different texts before compression.
const BYTES_MAX: usize = 1 << 20;

/// A source whose tracepoints are listened to; it must have been opened to tell arguments.
pub struct Listening<'a> {
    source: &'a mut dyn EventSource,
    said: Said,
    /// By tracepoint, whether it is one of frequencies, idle states and interrupts of CPUs; `None` listens to these too.
    power: Option<Vec<bool>>,
}

#[derive(Clone, Debug, Default)]
pub struct Said {
    /// In the order of the source; the text's number, 0 where none is kept.
    pub(super) events: Vec<(Cpu, Nanos, u32)>,
    numbers: BTreeMap<String, u32>,
    /// By their numbers, less 1.
    pub(super) texts: Vec<String>,
    bytes: usize,
}

impl<'a> Listening<'a> {
    /// Listens to the first events of `source`, as many as a page shows.
    pub fn new(source: &'a mut dyn EventSource) -> Self {
        Self { source, said: Said::default(), power: None }
    }

    /// The arguments without those of tracepoints that [`super::PageData::with_power`] shows.
    #[must_use]
    pub fn without_power(self) -> Self {
        Self { power: Some(Vec::new()), ..self }
    }

    /// Whether what this tracepoint said is noted.
    fn hears(power: &mut Option<Vec<bool>>, others: &[OtherFormat], format: u16) -> bool {
        let Some(known) = power else { return true };
        let learnt = known.len().min(others.len());
        known.extend(others[learnt..].iter().map(|one| Power::knows(std::slice::from_ref(one))));
        !known.get(usize::from(format)).copied().unwrap_or(false)
    }

    /// The arguments of the events that passed so far, as text.
    #[must_use]
    pub fn said(self) -> Said {
        self.said
    }
}

impl Said {
    /// Whether the page shows more events: to spell the others' arguments would be for nothing.
    fn has_room(&self) -> bool {
        self.events.len() < super::POINTS_MAX
    }

    fn note(&mut self, event: &Event, text: &str) {
        let number = self.number(text);
        self.events.push((event.cpu, event.time, number));
    }

    /// The number of a text; 0 for one that is empty or has no room.
    fn number(&mut self, text: &str) -> u32 {
        let kept: String =
            text.chars().map(|c| if c == '\n' { ' ' } else { c }).take(LETTERS_MAX).collect();
        let cut = kept.len() < text.len();
        let kept = if cut { format!("{kept}…") } else { kept };
        if let Some(number) = self.numbers.get(&kept) {
            return *number;
        }
        if kept.is_empty() || self.bytes + kept.len() > BYTES_MAX {
            return 0;
        }
        self.bytes += kept.len();
        self.texts.push(kept.clone());
        let number = u32::try_from(self.texts.len()).unwrap_or(0);
        self.numbers.insert(kept, number);
        number
    }
}

impl EventSource for Listening<'_> {
    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let more = self.source.next(batch)?;
        for (index, event) in batch.iter().enumerate().filter(|_| more) {
            if !self.said.has_room() {
                break;
            }
            if let What::Other { format } = event.what
                && Self::hears(&mut self.power, &self.source.info().others, format)
            {
                self.said.note(event, &self.source.arguments(index).unwrap_or_default());
            }
        }
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        self.source.warnings()
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        self.source.arguments(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_once_and_within_bounds() {
        let mut said = Said::default();
        assert_eq!([said.number("a=1"), said.number("b=2"), said.number("a=1")], [1, 2, 1]);
        assert_eq!(said.number(""), 0);
        let long = said.number(&"é".repeat(1_000));
        assert_eq!(said.texts[long as usize - 1].chars().count(), LETTERS_MAX + 1);
        assert_eq!(said.number("two\nlines"), 4, "a line in the list of the page");
        assert_eq!(said.texts[3], "two lines");
        for number in 0..100_000 {
            said.number(&format!("{number:0>100}"));
        }
        assert!(said.bytes <= BYTES_MAX && said.texts.len() < 12_000);
        assert_eq!(said.number(&"late".repeat(25)), 0);
    }

    #[test]
    fn a_text_may_fill_the_room_to_the_last_byte() {
        let mut said = Said { bytes: BYTES_MAX - 3, ..Said::default() };
        assert_eq!(said.number("four"), 0);
        assert_eq!(said.number("abc"), 1);
        assert_eq!(said.number("d"), 0);
        assert_eq!(said.number("abc"), 1, "it is known");
    }

    #[test]
    fn events_are_listened_to_as_many_as_a_page_shows() {
        let events = vec![(Cpu(0), Nanos(0), 0); super::super::POINTS_MAX - 1];
        let mut said = Said { events, ..Said::default() };
        assert!(said.has_room());
        said.events.push((Cpu(0), Nanos(0), 0));
        assert!(!said.has_room());
    }

    #[test]
    fn tracepoints_of_power_are_left_out_where_they_are_shown_as_intervals() {
        let other =
            |system: &str, name: &str| OtherFormat { system: system.into(), name: name.into() };
        let others = [other("power", "cpu_frequency"), other("block", "block_rq_issue")];
        assert!(Listening::hears(&mut None, &others, 0));
        let mut power = Some(Vec::new());
        assert!(!Listening::hears(&mut power, &others, 0));
        assert!(Listening::hears(&mut power, &others, 1));
        assert!(Listening::hears(&mut power, &others, 9), "one that is not known yet");
    }

    /// A source of one batch: two tracepoints, of which the first one said something.
    struct One {
        info: TraceInfo,
        warnings: Vec<Warning>,
        is_sent: bool,
    }

    impl EventSource for One {
        fn info(&self) -> &TraceInfo {
            &self.info
        }

        fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
            batch.clear();
            if self.is_sent {
                return Ok(false);
            }
            self.is_sent = true;
            let trace = schedlab_timeline::notation::parse("0 | AAAA").unwrap();
            let mut events = Vec::new();
            trace.source().next(&mut events).unwrap();
            let other = What::Other { format: 0 };
            batch.push(Event { time: Nanos(5), cpu: Cpu(3), what: other, ..events[0] });
            batch.push(Event { time: Nanos(6), what: other, ..events[0] });
            Ok(true)
        }

        fn warnings(&self) -> &[Warning] {
            &self.warnings
        }

        fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
            (index == 0).then_some(Cow::Borrowed("irq=42"))
        }
    }

    #[test]
    fn what_tracepoints_said_is_noted_while_events_pass() {
        let info = schedlab_timeline::notation::parse("0 | AAAA").unwrap().source().info().clone();
        let warnings = vec![Warning::new("cut", "it is cut", "")];
        let mut one = One { info, warnings: warnings.clone(), is_sent: false };
        let mut listening = Listening::new(&mut one);
        let mut batch = Vec::new();
        assert!(listening.next(&mut batch).unwrap());
        assert_eq!(batch.len(), 2);
        assert_eq!(listening.arguments(0).as_deref(), Some("irq=42"));
        assert_eq!(listening.arguments(1), None);
        assert!(!listening.next(&mut batch).unwrap());
        assert_eq!(listening.warnings(), warnings);
        assert_eq!(listening.info().format, listening.source.info().format);
        let said = listening.said();
        assert_eq!(said.events, [(Cpu(3), Nanos(5), 1), (Cpu(0), Nanos(6), 0)]);
        assert_eq!(said.texts, ["irq=42"]);
    }
}
