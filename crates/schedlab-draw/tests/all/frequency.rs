//! Rows that are coloured by the frequency of their CPUs.

use schedlab_draw::cores::Fill;
use schedlab_draw::rows::{Colouring, Rows, RowsAnswer, RowsOptions};
use schedlab_draw::{Chosen, Theme};
use schedlab_model::{
    Context, Cpu, Event, EventSource, Nanos, OtherFormat, Pid, Span, TraceInfo, Warning, What,
};
use schedlab_timeline::{ask, notation};
use std::borrow::Cow;
use std::io;

/// A trace with changes of frequency, which have arguments.
struct Source {
    info: TraceInfo,
    events: Vec<(Event, String)>,
    given: bool,
}

impl Source {
    fn new(text: &str, changes: &[(u64, u16, u64)]) -> Self {
        let trace = notation::parse(text).expect("sound notation");
        let mut info = trace.info.clone();
        // The notation keeps the first for events of its own.
        let format = |name: &str| OtherFormat { system: "power".into(), name: name.into() };
        info.others = vec![format("heartbeat"), format("cpu_frequency")];
        let mut events: Vec<_> = trace.events.iter().map(|event| (*event, String::new())).collect();
        for (ns, cpu, khz) in changes {
            let (time, context) = (Nanos(*ns), Context::HardIrq);
            let what = What::Other { format: 1 };
            let event = Event { time, by: Pid(-1), cpu: Cpu(0), context, what };
            events.push((event, format!("state={khz} cpu_id={cpu}")));
        }
        events.sort_by_key(|(event, _)| event.time);
        Self { info, events, given: false }
    }
}

impl EventSource for Source {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        if !std::mem::replace(&mut self.given, true) {
            batch.extend(self.events.iter().map(|(event, _)| *event));
        }
        Ok(!batch.is_empty())
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.events[index].1.as_str()))
    }
}

fn rows(text: &str, changes: &[(u64, u16, u64)], columns: u32) -> RowsAnswer {
    let options = RowsOptions {
        window: Span::new(Nanos(0), Nanos(10_000)),
        columns,
        colouring: Colouring::Frequency,
        target: None,
        cpus: None,
        topology: None,
        theme: Theme::light(),
    };
    // As `draw cores` reads: behind what marks choose by arguments. One of these doubles each change.
    let mark = "cpu_frequency:cpu_id=0".parse().expect("a mark");
    let mut source = Source::new(text, changes);
    ask(&mut Chosen::new(&mut source, vec![mark]), Rows::new(options)).expect("in memory").answer
}

#[test]
fn a_slice_is_divided_where_the_frequency_of_its_cpu_changes() {
    let text = "0 | AAAAAAAAAA\n1 | ..BBBB....";
    let changes = [
        (1_500, 0, 1_000_000),
        (4_000, 0, 3_000_000),
        (6_000, 0, 3_100_000),
        (3_000, 1, 3_000_000),
    ];
    let found = rows(text, &changes, 1_000);
    let told: Vec<(&str, u64)> =
        found.legend.iter().map(|entry| (entry.name.as_str(), entry.time.0)).collect();
    // A: 1.5 us before it is known, 2.5 us at 1 GHz, then two frequencies of one band. B: 1 us, then 3 us.
    let expected =
        [("unknown frequency", 2_500), ("3.0 to 3.2 GHz", 9_000), ("1.0 to 1.2 GHz", 2_500)];
    assert_eq!(told, expected);
    let theme = Theme::light();
    assert_eq!(found.legend[0].colour, theme.unknown);
    assert_eq!(found.legend[1].colour, theme.speed(10, 11), "the highest");
    assert_eq!(found.legend[2].colour, theme.speed(0, 11), "the lowest");
    let Fill::Pieces(pieces) = &found.rows[0].fill else { panic!("few slices stay boxes") };
    let spans: Vec<(u64, u64)> =
        pieces.iter().map(|piece| (piece.span.start.0, piece.span.end.0)).collect();
    assert_eq!(spans, [(0, 1_500), (1_500, 4_000), (4_000, 10_000)], "a band is one piece");
}

#[test]
fn without_a_change_of_frequency_nothing_is_known() {
    let found = rows("0 | ..AAAAAA..", &[], 3);
    let names: Vec<&str> = found.legend.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names.last(), Some(&"unknown frequency"), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("unknown")), "{names:?}");
}
