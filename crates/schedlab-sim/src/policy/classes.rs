//! The classes above fair tasks: SCHED_DEADLINE, then SCHED_FIFO and SCHED_RR, then a policy for the fair ones (Linux
//! 6.1.192 and 6.12.117, kernel/sched/core.c, rt.c, deadline.c, cpupri.c, cpudeadline.c).
//!
//! In 6.1 a CPU's real-time tasks share 950 ms of each second; then they wait for the next second, also where the CPU
//! idles. In 6.12 they may use all time, and the [`server`] of a CPU gives fair tasks 50 ms of each second. Files:
//! `budget` the reservation of a deadline task, `cpu_queues` the tasks of a CPU, `placement` which CPU a task goes to. Left out:
//! reclaiming of unused bandwidth (GRUB), priority inheritance, HRTICK: budgets are checked at the tick, as by default.

mod budget;
mod cpu_queues;
mod placement;
mod server;

use super::{Alarm, Arrival, Departure, Moves, Policy, Push, Wake};
use crate::policy_view::{Class, Reservation, Scene, TaskId};
use budget::Budget;
use cpu_queues::{Current, Lane, Who};

/// The tunables of real-time tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassKnobs {
    /// Whether real-time tasks are throttled (6.1), or a server helps fair ones (6.12).
    pub throttled: bool,
    /// `sched_rt_runtime_us`: what real-time tasks of a CPU may use of each period, in nanoseconds; as long as the
    /// period or longer: all.
    pub rt_runtime: u64,
    /// The period of real-time throttling in nanoseconds (`sched_rt_period_us`).
    pub rt_period: u64,
    /// What the fair server gives, and of which period.
    pub server: Reservation,
    /// Ticks of a turn of a `SCHED_RR` task (`RR_TIMESLICE`: 100 ms).
    pub turn: u32,
}

impl ClassKnobs {
    /// The defaults, with a tick of `tick` nanoseconds.
    #[must_use]
    pub fn of(throttled: bool, tick: u64) -> Self {
        const MS: u64 = 1_000_000;
        let server = Reservation { runtime: 50 * MS, deadline: 1_000 * MS, period: 1_000 * MS };
        let turn = u32::try_from(100 * MS / tick.max(1)).unwrap_or(u32::MAX).max(1);
        Self { throttled, rt_runtime: 950 * MS, rt_period: 1_000 * MS, server, turn }
    }
}

/// A task above the fair ones.
#[derive(Clone, Copy, Debug, Default)]
struct OfTask {
    /// Ticks until its turn ends.
    turn: u32,
    budget: Budget,
    /// Its budget is used up: it waits for the next period.
    throttled: bool,
    yielded: bool,
    queued: bool,
    /// When its next period begins, if it waits for that, and the turn in which the timer was set.
    timer: Option<(u64, u64)>,
    /// When what it has used is what it reserved, after it went to sleep: a timer that decides nothing here.
    zero_lag: Option<u64>,
    /// It was fair, or began, since it was above.
    fair: bool,
}

/// Deadline and real-time tasks above a policy for fair ones.
pub struct Classes {
    fair: Box<dyn Policy>,
    knobs: ClassKnobs,
    lanes: Vec<Lane>,
    tasks: Vec<OfTask>,
    alarms: Vec<Alarm>,
    /// When the period of real-time tasks ends, while it is counted.
    period_ends: Option<u64>,
    /// When the timer of the periods was to go off last, or is to.
    period_timer: u64,
    turns: u64,
    /// Where the last search for any CPU ended.
    distributed: usize,
}

/// Alarms of this policy; others are the fair policy's.
const OWN: u64 = 1 << 63;
const PERIOD: u64 = OWN;
const SERVER: u64 = OWN | 1 << 62;
const TASK: u64 = OWN | 1 << 61;
const ZERO_LAG: u64 = OWN | 1 << 60;

impl Classes {
    /// The classes above a fair policy, for `cpus` CPUs.
    #[must_use]
    pub fn new(cpus: usize, knobs: ClassKnobs, fair: Box<dyn Policy>) -> Self {
        let lanes = (0..cpus).map(|_| Lane::default()).collect();
        let tasks = Vec::new();
        let alarms = Vec::new();
        Self {
            fair,
            knobs,
            lanes,
            tasks,
            alarms,
            period_ends: None,
            period_timer: 0,
            turns: 0,
            distributed: 0,
        }
    }

    fn task(&mut self, task: TaskId) -> &mut OfTask {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, OfTask { fair: true, ..OfTask::default() });
        }
        &mut self.tasks[task.index()]
    }

    fn deadline_of(&self, who: Who, cpu: usize) -> u64 {
        match who {
            Who::Server => self.lanes[cpu].server.budget.deadline,
            Who::Task(task) => self.tasks[task.index()].budget.deadline,
        }
    }

    fn deadline_joins(&mut self, cpu: usize, who: Who) {
        self.turns += 1;
        let deadline = self.deadline_of(who, cpu);
        self.lanes[cpu].deadlines.insert((deadline, self.turns, who));
    }

    /// The server's state changed: it joins the queue or leaves it, and its alarm is set.
    fn sync_server(&mut self, cpu: usize) {
        let lane = &mut self.lanes[cpu];
        let there = lane.position(Who::Server);
        if let Some(key) =
            there.filter(|key| !lane.server.queued || key.0 != lane.server.budget.deadline)
        {
            lane.deadlines.remove(&key);
        }
        let missing = lane.server.queued && lane.position(Who::Server).is_none();
        if let Some(at) = lane.server.timer.filter(|&at| lane.alarm != Some(at)) {
            lane.alarm = Some(at);
            self.alarms.push(Alarm { at, cpu, what: SERVER });
        }
        if missing {
            self.deadline_joins(cpu, Who::Server);
        }
    }

    /// `update_curr` of each class: the task that runs has used its CPU until now.
    fn account(&mut self, scene: &Scene, cpu: usize) {
        let lane = &mut self.lanes[cpu];
        let now = scene.task_clock(cpu);
        let time = now.saturating_sub(std::mem::replace(&mut lane.since, now));
        match lane.current {
            Current::Idle => {
                if !self.knobs.throttled {
                    lane.server.pays_idle(time);
                }
            }
            // The server pays when the fair policy charges the task.
            Current::Fair => {}
            Current::RealTime(_) => self.uses_real_time(cpu, time, scene.now),
            Current::Deadline(task) => {
                if self.period_ends.is_some() || lane.rt_time < self.knobs.rt_runtime {
                    lane.rt_time += time;
                }
                self.uses_budget(scene, cpu, task, time);
            }
        }
    }

    /// `dl_server_update`: the server pays what fair tasks were charged.
    fn server_pays(&mut self, scene: &Scene, cpu: usize) {
        if self.knobs.throttled {
            return;
        }
        let time = self.fair.charged(cpu);
        if time > 0 {
            let lane = &mut self.lanes[cpu];
            lane.resched |= lane.server.pays(&self.knobs.server, scene.now, time);
            self.sync_server(cpu);
        }
    }

    /// Charges real-time tasks for time (`update_curr_rt`, `sched_rt_runtime_exceeded`).
    fn uses_real_time(&mut self, cpu: usize, time: u64, now: u64) {
        let knobs = &self.knobs;
        if !knobs.throttled || knobs.rt_runtime >= knobs.rt_period {
            return;
        }
        let lane = &mut self.lanes[cpu];
        lane.rt_time += time;
        if !lane.rt_throttled && lane.rt_time > knobs.rt_runtime {
            lane.rt_throttled = true;
            lane.resched = true;
            self.start_period(now);
        }
    }

    /// `do_start_rt_bandwidth`: where the timer was not set for a time, one period ends in the next nanosecond.
    fn start_period(&mut self, now: u64) {
        if self.period_ends.is_none() {
            self.period_timer = self.period_timer.max(now + 1);
            self.set_period();
        }
    }

    fn set_period(&mut self) {
        let knobs = &self.knobs;
        if knobs.throttled && knobs.rt_runtime < knobs.rt_period {
            let at = self.period_timer;
            self.period_ends = Some(at);
            self.alarms.push(Alarm { at, cpu: 0, what: PERIOD });
        }
    }

    /// Ends a period of real-time throttling (`do_sched_rt_period_timer`).
    fn ends_period(&mut self, scene: &Scene, kicks: &mut Vec<usize>) {
        self.period_ends = None;
        self.period_timer += self.knobs.rt_period;
        let mut goes_on = false;
        for cpu in 0..self.lanes.len() {
            if matches!(self.lanes[cpu].current, Current::RealTime(_)) {
                self.account(scene, cpu);
            }
            let lane = &mut self.lanes[cpu];
            lane.rt_time = lane.rt_time.saturating_sub(self.knobs.rt_runtime);
            if lane.rt_throttled && lane.rt_time < self.knobs.rt_runtime {
                lane.rt_throttled = false;
                let waits = lane.rt_priority().is_some() && !lane.current.is_above();
                kicks.extend(waits.then_some(cpu));
            }
            goes_on |= lane.rt_time > 0 || lane.rt_priority().is_some();
        }
        if goes_on {
            self.set_period();
        }
    }

    /// Charges a deadline task for time (`update_curr_dl`).
    fn uses_budget(&mut self, scene: &Scene, cpu: usize, task: TaskId, time: u64) {
        let of = &mut self.tasks[task.index()];
        of.budget.runtime -= time as i64;
        if of.throttled || (of.budget.runtime > 0 && !of.yielded) {
            return;
        }
        of.throttled = true;
        let lane = &mut self.lanes[cpu];
        if let Some(key) = lane.position(Who::Task(task)) {
            lane.deadlines.remove(&key);
        }
        if !self.waits_for_period(scene, cpu, task) {
            self.replenish(scene, task);
            self.deadline_joins(cpu, Who::Task(task));
        }
        let lane = &mut self.lanes[cpu];
        lane.resched |= lane.first_deadline() != Some(Who::Task(task));
    }

    /// `start_dl_timer`: whether the next period is still to come.
    fn waits_for_period(&mut self, scene: &Scene, cpu: usize, task: TaskId) -> bool {
        let Class::Deadline(of) = scene.task(task).class else { return false };
        let at = self.tasks[task.index()].budget.next_period(&of);
        if at < scene.now {
            return false;
        }
        if self.tasks[task.index()].timer.is_none_or(|timer| timer.0 != at) {
            self.turns += 1;
            self.tasks[task.index()].timer = Some((at, self.turns));
            self.alarms.push(Alarm { at, cpu, what: TASK | u64::from(task.0) });
        }
        true
    }

    /// Replenishes the budget of a deadline task (`replenish_dl_entity`).
    fn replenish(&mut self, scene: &Scene, task: TaskId) {
        let Class::Deadline(reserved) = scene.task(task).class else { return };
        let of = &mut self.tasks[task.index()];
        if std::mem::take(&mut of.yielded) {
            of.budget.runtime = of.budget.runtime.min(0);
        }
        of.budget.replenish(&reserved, scene.now);
        of.throttled = false;
    }

    /// `dl_task_timer`: the next period of a task begins.
    fn next_period(&mut self, scene: &Scene, task: TaskId, kicks: &mut Vec<usize>) {
        self.tasks[task.index()].timer = None;
        if !self.tasks[task.index()].throttled {
            return;
        }
        self.replenish(scene, task);
        if self.tasks[task.index()].queued {
            let cpu = scene.task(task).cpu;
            self.deadline_joins(cpu, Who::Task(task));
            kicks.extend(self.displaces(cpu, Who::Task(task)).then_some(cpu));
        }
    }

    /// Whether a deadline entity goes before what runs on a CPU.
    fn displaces(&self, cpu: usize, who: Who) -> bool {
        match self.lanes[cpu].current {
            Current::Deadline(task) => {
                self.deadline_of(who, cpu) < self.tasks[task.index()].budget.deadline
            }
            _ => true,
        }
    }

    /// Adds a deadline task to its queue (`enqueue_task_dl`).
    fn enqueue_deadline(
        &mut self,
        scene: &Scene,
        cpu: usize,
        task: TaskId,
        of: Reservation,
        arrival: Arrival,
    ) {
        self.task(task).queued = true;
        let here = &mut self.tasks[task.index()];
        here.zero_lag = None;
        if !here.throttled && here.budget.is_early(&of, scene.now) {
            here.budget.runtime = here.budget.runtime.min(0);
            let waits = self.waits_for_period(scene, cpu, task);
            self.tasks[task.index()].throttled = waits;
        }
        let here = &mut self.tasks[task.index()];
        if here.throttled {
            return;
        }
        if arrival != Arrival::Moved || here.budget.deadline < scene.now {
            here.budget.wakes(&of, scene.now, false);
        }
        self.deadline_joins(cpu, Who::Task(task));
    }

    /// `task_non_contending`: the timer of a task's zero-lag time is set, unless that has passed.
    fn stops_contending(&mut self, scene: &Scene, cpu: usize, task: TaskId, of: Reservation) {
        let now = scene.now;
        let here = &mut self.tasks[task.index()];
        let ahead = here.budget.runtime * of.period as i64 / (of.runtime as i64).max(1);
        let at = here.budget.deadline.saturating_add_signed(-ahead);
        if at >= now && here.zero_lag.is_none() {
            here.zero_lag = Some(at);
            self.alarms.push(Alarm { at, cpu, what: ZERO_LAG | u64::from(task.0) });
        }
    }

    /// A fair task more (or fewer) is on a CPU.
    fn count_fair(&mut self, scene: &Scene, cpu: usize, more: bool) {
        let lane = &mut self.lanes[cpu];
        lane.fair = if more { lane.fair + 1 } else { lane.fair.saturating_sub(1) };
        if self.look_for_fair(cpu) && more {
            if self.lanes[cpu].current == Current::Idle {
                self.account(scene, cpu);
            }
            self.lanes[cpu].resched |= self.starts_server(scene, cpu);
        }
    }

    /// Notes whether a CPU has fair tasks that may run. Whether they came since this was noted last, where there is a server.
    fn look_for_fair(&mut self, cpu: usize) -> bool {
        let lane = &mut self.lanes[cpu];
        let has_fair = lane.fair > 0 && !self.fair.is_held_up(cpu);
        let had_fair = std::mem::replace(&mut lane.has_fair, has_fair);
        has_fair && !had_fair && !self.knobs.throttled
    }

    /// Whether the CPU has to look because of it.
    fn starts_server(&mut self, scene: &Scene, cpu: usize) -> bool {
        let starts = self.lanes[cpu].server.start(&self.knobs.server, scene.now);
        self.sync_server(cpu);
        starts && self.displaces(cpu, Who::Server)
    }

    fn count_moves(&mut self, scene: &Scene, moves: &Moves) {
        for moved in &moves.done {
            self.server_pays(scene, moved.from);
            self.server_pays(scene, moved.to);
            self.count_fair(scene, moved.from, false);
            self.count_fair(scene, moved.to, true);
        }
    }

    /// The next task of the highest class that has one.
    fn choose(&mut self, scene: &Scene, cpu: usize) -> (Current, Option<TaskId>) {
        let lane = &self.lanes[cpu];
        let lane_has_others =
            lane.current.is_above() || lane.has_deadline_task() || lane.rt_priority().is_some();
        loop {
            match self.lanes[cpu].first_deadline() {
                Some(Who::Task(task)) => return (Current::Deadline(task), Some(task)),
                Some(Who::Server) => {
                    // Where all are fair the kernel does not ask the server (`__pick_next_task`).
                    let next = match lane_has_others {
                        true => self.fair.pick_anew(scene, cpu),
                        false => self.fair.pick(scene, cpu),
                    };
                    self.server_pays(scene, cpu);
                    if next.is_some() {
                        return (Current::Fair, next);
                    }
                    if !lane_has_others {
                        return (Current::Idle, None);
                    }
                    self.lanes[cpu].server.stop();
                    self.sync_server(cpu);
                }
                None => break,
            }
        }
        if let Some(task) = self.lanes[cpu].first_real_time() {
            return (Current::RealTime(task), Some(task));
        }
        let next = self.fair.pick(scene, cpu);
        self.server_pays(scene, cpu);
        match next {
            Some(task) => (Current::Fair, Some(task)),
            None => (Current::Idle, None),
        }
    }

    /// Whether a woken task displaces a real-time one (`check_preempt_curr_rt`).
    fn real_time_preempts(&mut self, scene: &Scene, cpu: usize, task: TaskId) -> bool {
        let priority = |task: TaskId| scene.task(task).class.priority();
        match self.lanes[cpu].current {
            Current::Deadline(_) => false,
            Current::Idle | Current::Fair => true,
            Current::RealTime(running) if priority(task) > priority(running) => true,
            Current::RealTime(running) if priority(task) == priority(running) => {
                let goes = self.lowest(scene, running, cpu).is_some();
                let swaps = goes && self.lowest(scene, task, cpu).is_none();
                if swaps {
                    self.lanes[cpu].requeue(priority(task), task, true);
                }
                swaps
            }
            Current::RealTime(_) => false,
        }
    }
}

impl Policy for Classes {
    fn select(&mut self, scene: &Scene, wake: &Wake) -> usize {
        match scene.task(wake.task).class {
            Class::Fifo(_) | Class::RoundRobin(_) => self.select_real_time(scene, wake),
            Class::Deadline(_) => self.select_deadline(scene, wake),
            _ => self.fair.select(scene, wake),
        }
    }

    fn fork(&mut self, scene: &Scene, cpu: usize, parent: Option<TaskId>, child: TaskId) {
        self.fair.fork(scene, cpu, parent, child);
        let turn = self.knobs.turn;
        *self.task(child) = OfTask { turn, fair: true, ..OfTask::default() };
    }

    fn leads(&mut self, scene: &Scene, cpu: usize, task: TaskId) {
        self.fair.leads(scene, cpu, task);
    }

    fn enqueue(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) {
        match scene.task(task).class {
            Class::Fifo(priority) | Class::RoundRobin(priority) => {
                let turn = self.knobs.turn;
                let of = self.task(task);
                if of.turn == 0 || of.fair {
                    of.turn = turn;
                }
                of.fair = false;
                self.lanes[cpu].joins(priority, task);
                self.start_period(scene.now);
            }
            Class::Deadline(reserved) => {
                self.task(task).fair = false;
                self.enqueue_deadline(scene, cpu, task, reserved, arrival);
            }
            _ => {
                // A task that was above the fair ones is placed as one that slept.
                let was_above = !std::mem::replace(&mut self.task(task).fair, true);
                let arrival = if was_above { Arrival::WokenElsewhere } else { arrival };
                self.fair.enqueue(scene, cpu, task, arrival);
                self.server_pays(scene, cpu);
                self.count_fair(scene, cpu, true);
            }
        }
    }

    fn preempts(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) -> bool {
        let resched = std::mem::take(&mut self.lanes[cpu].resched);
        let preempts = match scene.task(task).class {
            Class::Fifo(_) | Class::RoundRobin(_) => self.real_time_preempts(scene, cpu, task),
            // Even where the task has to wait for its next period, the CPU looks (`wakeup_preempt`, `wakeup_preempt_dl`).
            Class::Deadline(_) => self.displaces(cpu, Who::Task(task)),
            _ => {
                self.lanes[cpu].current == Current::Fair
                    && self.fair.preempts(scene, cpu, task, arrival)
            }
        };
        self.server_pays(scene, cpu);
        resched || preempts || std::mem::take(&mut self.lanes[cpu].resched)
    }

    fn dequeue(&mut self, scene: &Scene, cpu: usize, task: TaskId, departure: Departure) {
        self.account(scene, cpu);
        match scene.task(task).class {
            Class::Fifo(priority) | Class::RoundRobin(priority) => {
                self.lanes[cpu].leaves(priority, task);
            }
            Class::Deadline(reserved) => {
                self.task(task).queued = false;
                if departure != Departure::Moves {
                    self.stops_contending(scene, cpu, task, reserved);
                }
                let lane = &mut self.lanes[cpu];
                if let Some(key) = lane.position(Who::Task(task)) {
                    lane.deadlines.remove(&key);
                }
            }
            _ => {
                self.fair.dequeue(scene, cpu, task, departure);
                self.server_pays(scene, cpu);
                self.count_fair(scene, cpu, false);
            }
        }
    }

    /// 6.1 charges the task that runs before it picks. 6.12 charges it when another is picked: one whose budget is used up
    /// stays if it is still the first.
    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        if self.knobs.throttled {
            self.account(scene, cpu);
        }
        let prev = self.lanes[cpu].current;
        let (current, next) = self.choose(scene, cpu);
        if current != prev {
            self.account(scene, cpu);
        }
        if prev == Current::Fair && current.is_above() {
            self.fair.put_back(scene, cpu);
            self.server_pays(scene, cpu);
        }
        self.look_for_fair(cpu);
        let lane = &mut self.lanes[cpu];
        lane.current = current;
        lane.resched = false;
        next
    }

    /// Handles the tick of a CPU (`task_tick_rt`, `task_tick_dl`, `task_tick_fair`).
    fn tick(&mut self, scene: &Scene, cpu: usize) -> bool {
        self.account(scene, cpu);
        match self.lanes[cpu].current {
            Current::RealTime(task) => {
                if let Class::RoundRobin(priority) = scene.task(task).class {
                    let full = self.knobs.turn;
                    let turn = &mut self.tasks[task.index()].turn;
                    *turn = turn.saturating_sub(1);
                    if *turn == 0 {
                        *turn = full;
                        let lane = &mut self.lanes[cpu];
                        lane.resched |= lane.requeue(priority, task, false);
                    }
                }
            }
            Current::Fair => {
                self.lanes[cpu].resched |= self.fair.tick(scene, cpu);
                self.server_pays(scene, cpu);
            }
            Current::Idle | Current::Deadline(_) => {}
        }
        std::mem::take(&mut self.lanes[cpu].resched)
    }

    fn yields(&mut self, scene: &Scene, cpu: usize) {
        match self.lanes[cpu].current {
            Current::RealTime(task) => {
                let priority = scene.task(task).class.priority();
                self.lanes[cpu].requeue(priority, task, false);
            }
            // `yield_task_dl`: it gives back what is left of its budget.
            Current::Deadline(task) => {
                self.tasks[task.index()].yielded = true;
                self.account(scene, cpu);
            }
            Current::Fair => self.fair.yields(scene, cpu),
            Current::Idle => {}
        }
    }

    fn pull(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        self.fair.pull(scene, cpu, moves);
        self.count_moves(scene, moves);
    }

    fn balance(&mut self, scene: &Scene, moves: &mut Moves) {
        self.fair.balance(scene, moves);
        self.count_moves(scene, moves);
    }

    fn push(&mut self, scene: &Scene, push: Push) -> Option<TaskId> {
        let task = self.fair.push(scene, push)?;
        if scene.cpus[push.from].running != Some(task) {
            self.count_fair(scene, push.from, false);
            self.count_fair(scene, push.to, true);
        }
        Some(task)
    }

    fn serves_all(&self) -> bool {
        let limited = self.knobs.rt_runtime < self.knobs.rt_period;
        self.fair.serves_all() && (limited || !self.knobs.throttled)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn take_alarm(&mut self) -> Option<Alarm> {
        self.alarms.pop().or_else(|| self.fair.take_alarm())
    }

    fn next_alarm(&self, scene: &Scene, cpu: usize) -> Option<u64> {
        let is_here = |at: &usize| scene.tasks.get(*at).is_some_and(|task| task.cpu == cpu);
        let tasks = (0..self.tasks.len()).filter(is_here);
        let of_tasks = tasks.map(|at| &self.tasks[at]);
        let of_tasks =
            of_tasks.flat_map(|of| of.timer.map(|timer| timer.0).into_iter().chain(of.zero_lag));
        let period = self.period_ends.filter(|_| cpu == 0);
        let own = of_tasks.chain(self.lanes[cpu].server.timer).chain(period);
        own.chain(self.fair.next_alarm(scene, cpu)).filter(|&at| at > scene.now).min()
    }

    fn alarm(&mut self, scene: &Scene, alarm: Alarm, kicks: &mut Vec<usize>) -> bool {
        if alarm.what & OWN == 0 {
            let counts = self.fair.alarm(scene, alarm, kicks);
            // `unthrottle_cfs_rq`
            for cpu in 0..self.lanes.len() {
                let looks = self.look_for_fair(cpu) && self.starts_server(scene, cpu);
                kicks.extend(looks.then_some(cpu));
            }
            return counts;
        }
        if alarm.what == PERIOD {
            let counts = self.period_ends == Some(alarm.at);
            if counts {
                self.ends_period(scene, kicks);
            }
            return counts;
        }
        if alarm.what & TASK == TASK {
            // One interrupt fires all timers of the CPU that are due, in the order in which they were set.
            let tasks = (0..self.tasks.len()).map(|at| TaskId(at as u32));
            let mut due: Vec<(u64, TaskId)> = tasks
                .filter(|task| scene.task(*task).cpu == alarm.cpu)
                .filter_map(|task| Some((self.tasks[task.index()].timer?, task)))
                .filter_map(|((at, turn), task)| (at == alarm.at).then_some((turn, task)))
                .collect();
            due.sort_unstable();
            due.iter().for_each(|&(_, task)| self.next_period(scene, task, kicks));
            return !due.is_empty();
        }
        if alarm.what & ZERO_LAG == ZERO_LAG {
            let of = self.task(TaskId(alarm.what as u32));
            return of.zero_lag.take_if(|at| *at == alarm.at).is_some();
        }
        let lane = &mut self.lanes[alarm.cpu];
        if lane.server.timer != Some(alarm.at) {
            return false;
        }
        lane.alarm = None;
        let acts = lane.server.fires(&self.knobs.server, scene.now);
        self.sync_server(alarm.cpu);
        kicks.extend((acts && self.displaces(alarm.cpu, Who::Server)).then_some(alarm.cpu));
        true
    }

    fn settle(&mut self, scene: &Scene, cpu: usize, moves: &mut Moves) {
        self.spread(scene, cpu, moves);
        self.fair.settle(scene, cpu, moves);
    }
}
