//! Budgets over the windows of a stream: asked again and again, with groups that come while it runs.

use super::{Limited, Throttled, Throttling, ThrottlingAnswer, queues_stopped};
use crate::question::Question as _;
use crate::state::State;
use crate::task::TaskId;
use schedlab_model::{Span, TraceInfo};
use std::collections::BTreeMap;

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

    /// Takes over groups and limits that became known, or have other numbers. A group whose limit changed begins anew.
    pub(crate) fn learn(&mut self, info: &TraceInfo) {
        let mut fresh = Self::new(info);
        if !fresh.names.starts_with(&self.names) {
            self.renumber_groups(&fresh.names);
        }
        let is_same = |a: &Limited, b: &Limited| {
            (a.group, a.quota_ns, a.period, a.burst_ns)
                == (b.group, b.quota_ns, b.period, b.burst_ns)
        };
        let places = |all: &[Limited]| all.iter().map(|one| one.group).collect::<Vec<_>>();
        if places(&fresh.limited) == places(&self.limited) {
            fresh.evidence = std::mem::take(&mut self.evidence);
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

    /// Groups have the numbers that their places here give. Those without one are gone.
    fn renumber_groups(&mut self, names: &[String]) {
        let places: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let new: Vec<Option<u32>> =
            self.names.iter().map(|name| places.get(name.as_str()).copied()).collect();
        let new = |group: u32| new.get(group as usize).copied().flatten();
        self.limited.retain_mut(|one| {
            let group = new(one.group);
            one.group = group.unwrap_or(one.group);
            group.is_some()
        });
        self.limited.sort_by_key(|one| one.group);
        self.evidence.clear();
        self.membership.renumber_groups(new);
    }

    /// Tasks have new numbers. Those without one are gone.
    pub(crate) fn renumber(&mut self, numbers: &[TaskId]) {
        for one in &mut self.limited {
            renumbered(&mut one.out, numbers);
            renumbered(&mut one.early, numbers);
        }
        for one in &mut self.spans {
            one.task = numbers[one.task.index()];
        }
        self.ended.1.clear();
        self.membership.renumber(numbers);
    }
}

fn renumbered<T>(all: &mut BTreeMap<TaskId, T>, numbers: &[TaskId]) {
    let old = std::mem::take(all).into_iter();
    let new = old.map(|(task, one)| (numbers[task.index()], one));
    *all = new.filter(|(task, _)| task.is_some()).collect();
}

#[cfg(test)]
mod tests {
    use super::super::{Early, Out};
    use super::*;
    use schedlab_model::{Clock, Cpu, Groups, Limit, Nanos};

    #[test]
    fn tasks_that_left_runnable_keep_their_state_under_new_numbers() {
        let mut info = TraceInfo::new("x", Clock::Monotonic);
        let (quota, period) = (Some(Nanos(20)), Nanos(100));
        let (at, burst) = (Nanos::ZERO, Nanos::ZERO);
        let limits = vec![Limit { at, group: 0, quota, period, burst, shares: 1024 }];
        info.groups = Some(Groups { names: vec!["/a".into()], limits, ..Groups::default() });
        let mut throttling = Throttling::new(&info);
        let early = |at| Early { cpu: Cpu(0), idle: Some(Nanos(at)), until: None };
        let out = |at| Out {
            from: Nanos(at),
            cpu: Cpu(0),
            certain: true,
            was_busy: false,
            was_woken: false,
        };
        let limited = &mut throttling.limited[0];
        limited.early = (1..4).map(|task| (TaskId(task), early(task.into()))).collect();
        limited.out = (1..4).map(|task| (TaskId(task), out(task.into()))).collect();
        // The tasks 1 and 3 are gone.
        throttling.renumber(&[TaskId(0), TaskId::NONE, TaskId(1), TaskId::NONE]);
        let limited = &throttling.limited[0];
        let early: Vec<_> = limited.early.iter().map(|(task, it)| (*task, it.idle)).collect();
        let out: Vec<_> = limited.out.iter().map(|(task, it)| (*task, it.from)).collect();
        assert_eq!(early, [(TaskId(1), Some(Nanos(2)))]);
        assert_eq!(out, [(TaskId(1), Nanos(2))]);
    }
}
