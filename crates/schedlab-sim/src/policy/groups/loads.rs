//! Load averages of groups' queues, by which a group's shares are divided and kept (Linux 6.1.192 and 6.12.117,
//! kernel/sched/fair.c: `update_load_avg` and what it calls).
//!
//! A queue's average is the sum over its members, those included that sleep. A change of a member reaches the entity of
//! its group when that is accounted next. Left out: the averages of the root's queue, which no weight depends on.

use super::super::pelt::Average;

/// A task, or a group's entity on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    average: Average,
    weight: u64,
    queued: bool,
    /// It has been in a queue: its average is accounted.
    known: bool,
    /// The queue whose average has this one in it.
    home: Option<usize>,
}

/// The queue of a group on a CPU, or of the root.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    average: Average,
    weight: u64,
    current: Option<usize>,
    /// By how much the runnable time of its members changed, until the group's entity is told (`prop_runnable_sum`).
    change: Option<i64>,
    /// Averages of tasks that ended (`removed`).
    ended: Option<Average>,
    /// Since when it is throttled, and for how long it was.
    held: Option<u64>,
    lost: u64,
}

impl Queue {
    /// `cfs_rq_clock_pelt`: it stands while the queue is throttled.
    fn clock(&self, now: u64) -> u64 {
        self.held.unwrap_or(now).saturating_sub(self.lost)
    }

    fn changes(&mut self, by: i64) {
        self.change = Some(self.change.unwrap_or(0) + by);
    }

    /// `update_cfs_rq_load_avg`
    fn age(&mut self, now: u64) {
        let average = &mut self.average;
        if let Some(ended) = self.ended.take() {
            let divider = average.divider();
            average.lose_load(ended.load, ended.load * divider);
            average.lose_util(ended.util, ended.util * divider);
            self.changes(-((ended.runnable * divider) as i64) >> 10);
        }
        let runs = self.current.is_some() && self.weight > 0;
        self.average.update(now, self.weight, 0, runs, 1);
    }
}

/// The averages of all queues and members. A group's entity has the number of its queue.
#[derive(Debug)]
pub(super) struct Loads {
    queues: Vec<Queue>,
    members: Vec<Member>,
    cpus: usize,
}

impl Loads {
    pub(super) fn new(groups: usize, cpus: usize) -> Self {
        let entity = Member { weight: 1_024, known: true, ..Member::default() };
        let members = vec![entity; groups * cpus];
        Self { queues: vec![Queue::default(); (groups + 1) * cpus], members, cpus }
    }

    /// The queue of a group, or of the root.
    pub(super) fn queue(&self, group: Option<usize>, cpu: usize) -> usize {
        group.map_or(self.queues.len() - self.cpus, |group| group * self.cpus) + cpu
    }

    /// The member that a task is.
    pub(super) fn task(&mut self, index: usize) -> usize {
        let member = self.queues.len() - self.cpus + index;
        if self.members.len() <= member {
            self.members.resize(member + 1, Member::default());
        }
        member
    }

    /// The load average of a queue, as it was last accounted.
    pub(super) fn load(&self, queue: usize) -> u64 {
        self.queues[queue].average.load
    }

    /// A queue has this weight from now on, and the member is in it or not.
    pub(super) fn counts(&mut self, queue: usize, weight: u64, member: usize, queued: bool) {
        self.queues[queue].weight = weight;
        self.members[member].queued = queued;
    }

    /// `update_load_avg`
    pub(super) fn update(&mut self, queue: usize, member: usize, now: u64) {
        let of = &mut self.queues[queue];
        let now = of.clock(now);
        let here = &mut self.members[member];
        if here.known {
            let queued = u64::from(here.queued);
            let runs = here.queued && of.current == Some(member);
            here.average.update(now, queued, queued, runs, here.weight);
        }
        of.age(now);
        if member < self.queues.len() - self.cpus {
            self.propagate(queue, member);
        }
    }

    /// `propagate_entity_load_avg`: what changed in a group's queue changes its entity, and so its parent's queue.
    fn propagate(&mut self, queue: usize, group: usize) {
        let Some(change) = self.queues[group].change.take() else { return };
        let below = self.queues[group];
        let above = &mut self.queues[queue];
        above.changes(change);
        let divider = above.average.divider();
        let Member { average, weight, .. } = &mut self.members[group];
        if average.util != below.average.util {
            let util = below.average.util;
            above.average.gain_util(average, util, util * divider);
            (average.util, average.util_sum) = (util, util * divider);
        }
        let ran = average.util_sum >> 10;
        let runnable = match change {
            0 => return,
            1.. => average.load_sum.saturating_add_signed(change).min(divider),
            _ => {
                let all = below.average.load_sum.checked_div(below.weight).unwrap_or(0);
                all.min(average.load_sum)
            }
        };
        let runnable = runnable.max(ran);
        let load = *weight * runnable / divider;
        if load != average.load {
            above.average.gain_load(average, *weight, load, runnable);
            (average.load, average.load_sum) = (load, runnable);
        }
    }

    /// `init_entity_runnable_average`: a task is forked, with the weight that its parent has. One that gets a class or a
    /// weight of its own before it first wakes loses the load that it never had to the queue (`reweight_entity`).
    pub(super) fn forks(&mut self, queue: usize, member: usize, weight: u64, keeps: bool) {
        let here = &mut self.members[member];
        *here = Member { weight, ..Member::default() };
        match keeps {
            true => here.average.load = weight,
            false => self.queues[queue].average.lose_load(weight, 0),
        }
    }

    /// `post_init_entity_util_avg`: the use that a task of this weight is taken to make of the CPU when it first wakes.
    pub(super) fn begins(&mut self, queue: usize, member: usize, weight: u64, capacity: u64) {
        let average = &mut self.members[member].average;
        let of = &self.queues[queue].average;
        let most = capacity.saturating_sub(of.util) / 2;
        let util = match of.util {
            0 => most,
            util => (util * weight / (of.load + 1)).min(most),
        };
        (average.util, average.runnable) = (util, util);
    }

    pub(super) fn weighs(&mut self, member: usize, weight: u64) {
        self.members[member].weight = weight;
    }

    /// Whether a task's average is accounted.
    pub(super) fn is_known(&self, member: usize) -> bool {
        self.members[member].known
    }

    /// Whether a task's average is in that of this queue.
    pub(super) fn is_in(&self, queue: usize, member: usize) -> bool {
        self.members[member].home == Some(queue)
    }

    /// `attach_entity_load_avg`
    pub(super) fn joins(&mut self, queue: usize, member: usize) {
        self.leaves(member);
        let of = &mut self.queues[queue];
        let here = &mut self.members[member];
        here.average.align(&of.average, here.weight);
        of.average.load += here.average.load;
        of.average.load_sum += here.weight * here.average.load_sum;
        of.average.util += here.average.util;
        of.average.util_sum += here.average.util_sum;
        of.changes(here.average.load_sum as i64);
        here.known = true;
        here.home = Some(queue);
    }

    /// `detach_entity_load_avg`
    pub(super) fn leaves(&mut self, member: usize) {
        let here = &mut self.members[member];
        let Some(home) = here.home.take() else { return };
        let of = &mut self.queues[home];
        of.average.lose_load(here.average.load, here.weight * here.average.load_sum);
        of.average.lose_util(here.average.util, here.average.util_sum);
        of.changes(-(here.average.load_sum as i64));
    }

    /// `remove_entity_load_avg`: a task ended.
    pub(super) fn ends(&mut self, member: usize) {
        let here = &mut self.members[member];
        let Some(home) = here.home.take() else { return };
        let ended = self.queues[home].ended.get_or_insert_default();
        ended.load += here.average.load;
        ended.util += here.average.util;
        ended.runnable += here.average.runnable;
    }

    /// `reweight_entity`
    pub(super) fn reweighs(&mut self, queue: usize, member: usize, weight: u64) {
        let of = &mut self.queues[queue].average;
        let Member { average, weight: own, .. } = &mut self.members[member];
        of.lose_load(average.load, *own * average.load_sum);
        *own = weight;
        average.load = weight * average.load_sum / average.divider();
        of.load += average.load;
        of.load_sum += weight * average.load_sum;
    }

    /// `set_next_entity`
    pub(super) fn runs(&mut self, queue: usize, member: usize, now: u64) {
        self.update(queue, member, now);
        self.queues[queue].current = Some(member);
    }

    /// `put_prev_entity`
    pub(super) fn stops(&mut self, queue: usize, now: u64) {
        let Some(member) = self.queues[queue].current else { return };
        if self.members[member].queued {
            self.update(queue, member, now);
        }
        self.queues[queue].current = None;
    }

    pub(super) fn current(&self, queue: usize) -> Option<usize> {
        self.queues[queue].current
    }

    /// `tg_throttle_down`, `tg_unthrottle_up`: the clock of a queue stands or goes on.
    pub(super) fn holds(&mut self, queue: usize, held: bool, now: u64) {
        let of = &mut self.queues[queue];
        match (held, of.held) {
            (true, None) => of.held = Some(now),
            (false, Some(at)) => {
                of.lost += now - at;
                of.held = None;
            }
            _ => {}
        }
    }
}
