//! The question behind the picture `waiting`: time run and time waited in each column.

use crate::waiting::{Curve, Level};
use schedlab_model::{Nanos, Span};
use schedlab_timeline::{Change, Question, State};

/// The question: how many tasks ran and waited, as exact sums for each column.
pub struct Levels {
    window: Span,
    edges: Vec<u64>,
    levels: Vec<Level>,
    cursor: usize,
    since: u64,
    running: u32,
    waiting: u32,
}

impl Levels {
    /// Asks about so many equal parts of a window (on the trace's clock).
    #[must_use]
    pub fn new(window: Span, columns: u32) -> Self {
        let columns = u64::from(columns.max(1));
        let length = u128::from(window.duration().0);
        let edge = |column: u64| {
            let inside = length * u128::from(column) / u128::from(columns);
            window.start.0 + u64::try_from(inside).expect("inside of the window")
        };
        let edges: Vec<u64> = (0..=columns).map(edge).collect();
        let levels = vec![Level::default(); edges.len() - 1];
        let since = window.start.0;
        Self { window, edges, levels, cursor: 0, since, running: 0, waiting: 0 }
    }

    fn advance(&mut self, now: Nanos) {
        let now = now.min(self.window.end).0;
        while self.since < now {
            while self.edges[self.cursor + 1] <= self.since {
                self.cursor += 1;
            }
            let end = now.min(self.edges[self.cursor + 1]);
            let length = end - self.since;
            let level = &mut self.levels[self.cursor];
            level.running += Nanos(length.saturating_mul(self.running.into()));
            level.waiting += Nanos(length.saturating_mul(self.waiting.into()));
            level.waiting_max = level.waiting_max.max(self.waiting);
            self.since = end;
        }
    }
}

impl Question for Levels {
    type Answer = Curve;

    fn begin(&mut self, state: &State) {
        (self.running, self.waiting) = (state.running(), state.waiting());
    }

    fn see(&mut self, _: &Change, state: &State) {
        self.advance(state.now());
        (self.running, self.waiting) = (state.running(), state.waiting());
    }

    fn answer(mut self, state: &State) -> Curve {
        self.advance(state.window().end);
        let cpus = u32::try_from(state.observed_cpus().count()).unwrap_or(u32::MAX);
        Curve { name: String::new(), cpus, levels: self.levels }
    }
}
