//! Budgets over the windows of a stream: asked again and again, with groups that come while it runs.

use super::{Limited, Throttled, Throttling, ThrottlingAnswer, queues_stopped};
use crate::question::Question as _;
use crate::state::State;
use crate::task::TaskId;
use schedlab_model::{Span, TraceInfo};

impl ThrottlingAnswer {
    /// What of it lies in a window: spans that reach into it, and the times of groups there.
    #[must_use]
    pub fn within(mut self, window: Span) -> Self {
        self.spans.retain(|one| one.span.end > window.start && one.span.start < window.end);
        let clipped = |one: &Throttled| {
            let span = one.span;
            let span = Span::new(span.start.max(window.start), span.end.min(window.end));
            Throttled { span, ..*one }
        };
        let clipped: Vec<Throttled> = self.spans.iter().map(clipped).collect();
        for (group, time) in &mut self.groups {
            *time = queues_stopped(*group, &clipped);
        }
        self
    }
}

impl Throttling {
    /// The answer for the window that ends now, which the next one continues.
    pub(crate) fn until(&mut self, state: &State) -> ThrottlingAnswer {
        let window = state.window();
        let answer = self.clone().answer(state);
        self.spans.clear();
        answer.within(window)
    }

    /// Takes over groups and limits that became known. A group whose limit changed begins anew.
    pub(crate) fn learn(&mut self, info: &TraceInfo) {
        let mut fresh = Self::new(info);
        let is_same = |a: &Limited, b: &Limited| {
            (a.group, a.quota_ns, a.period, a.burst_ns)
                == (b.group, b.quota_ns, b.period, b.burst_ns)
        };
        let places = |all: &[Limited]| all.iter().map(|one| one.group).collect::<Vec<_>>();
        if places(&fresh.limited) == places(&self.limited) {
            fresh.votes = std::mem::take(&mut self.votes);
        }
        for limited in std::mem::take(&mut self.limited) {
            if let Some(one) = fresh.limited.iter_mut().find(|one| is_same(one, &limited)) {
                *one = limited;
            }
        }
        fresh.expired = std::mem::take(&mut self.expired);
        fresh.spans = std::mem::take(&mut self.spans);
        fresh.followed = self.followed;
        fresh.moves.retain(|(at, _)| *at > self.followed);
        fresh.membership.keep_families(&mut self.membership);
        *self = fresh;
    }

    /// Tasks have new numbers. Those without one are gone.
    pub(crate) fn renumber(&mut self, numbers: &[TaskId]) {
        for one in &mut self.limited {
            let out = std::mem::take(&mut one.out).into_iter();
            let new = out.map(|(task, out)| (numbers[task.index()], out));
            one.out = new.filter(|(task, _)| task.is_some()).collect();
        }
        for one in &mut self.spans {
            one.task = numbers[one.task.index()];
        }
        self.membership.renumber(numbers);
    }
}
