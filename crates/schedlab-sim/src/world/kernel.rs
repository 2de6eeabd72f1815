//! A kernel's own scheduler as the one that decides: its image runs where a policy would be asked.
//!
//! The world performs operations and charges what they take; the image wakes, places, switches, ticks, balances and
//! keeps the timers of sleeps. Threads of the kernel run in no time. Whatever the image does is told by records, which
//! become events. At each switch the kernel's account of a task must equal the world's.
//!
//! A path in the image takes time by the basic blocks that it executes. It begins when the world enters the image, and
//! the CPU is ahead of the world until the world has come to the path's end: what reaches the CPU meanwhile waits, as
//! for interrupts that are off. A CPU that takes a task of which something was told at a later time waits for that time,
//! as for the lock of a runqueue. The path's time goes to the usage of the task that runs: up to the switch to the one
//! that leaves, then to the next one. Costs that describe the same way (wake, switch, tick, block, wait, sleep) are
//! charged as far as the path did not take as long, the way out of idle as well. What a wakeup or the way from a switch takes
//! longer is a part of the task's next calls: their costs were measured together.

use super::task::{Act, On, Phase, Resume, TaskState};
use super::wake::Waker;
use super::{Happening, Start, TaskUsage, World, account};
use crate::Costs;
use crate::board::{
    Attributes, BOOT, Board, Call, Happened, Preparation, Record, Switched, Wakes, Who, refused,
};
use crate::event_queue::{NEVER, Next};
use crate::policy_view::{Class, TaskId, id};
use schedlab_model::{Comm, Context, Left, Pid, Prio, What};
use schedlab_workload::{Done, Op};
use std::collections::BTreeMap;

/// Bits of a task's state (include/linux/sched.h of Linux 5.14 to 6.18).
const INTERRUPTIBLE: u32 = 1;
const UNINTERRUPTIBLE: u32 = 2;
const PARKED: u32 = 0x40;
const DEAD: u32 = 0x80;
const NO_LOAD: u32 = 0x400;

/// A way to a switch, of which a path of the kernel's code is a part.
#[derive(Clone, Copy)]
enum Way {
    /// From a call to the switch away.
    ToSleep,
    /// From an interrupt of an idle CPU to the switch to a task.
    OutOfIdle,
}

/// The image of a kernel while it runs.
pub(super) struct Code {
    board: Board,
    prepare: Preparation,
    /// Whether it has booted.
    is_up: bool,
    /// CPUs to which interrupts are on their way.
    sent: Vec<bool>,
    /// What interrupts of devices and the hypervisor took of each CPU since the kernel last knew.
    gaps: Vec<[u64; 2]>,
    threads: BTreeMap<Pid, Comm>,
    /// The latest time to which a CPU has come.
    latest: u64,
    /// What ways to a switch cost in all, and the shortest path of each.
    whole: Costs,
    shortest: [u64; 2],
}

impl World {
    /// From now on the scheduler of an image decides, whatever policy the world has.
    pub(crate) fn follow_code(&mut self, board: Board, prepare: Preparation) {
        let sent = vec![false; self.scene.cpus.len()];
        let gaps = vec![[0; 2]; sent.len()];
        let threads = BTreeMap::new();
        let whole = self.config.costs;
        let latest = 0;
        let shortest = [u64::MAX; 2];
        let is_up = false;
        let code = Code { board, prepare, is_up, sent, gaps, threads, latest, whole, shortest };
        self.code = Some(Box::new(code));
    }

    /// Whether an image decides instead of the policy.
    pub(super) fn has_code(&self) -> bool {
        self.code.is_some()
    }

    /// Whether the kernel changes frequencies.
    pub(super) fn has_frequencies(&self) -> bool {
        self.code.as_ref().is_some_and(|code| code.prepare.frequencies.iter().any(Option::is_some))
    }

    /// The highest frequency of a CPU in kHz, if the kernel changes it.
    pub(super) fn most_frequency(&self, cpu: usize) -> Option<u64> {
        let frequencies = &self.code.as_ref()?.prepare.frequencies;
        frequencies.get(cpu).copied().flatten().map(|of| of.most)
    }

    /// The names of the kernel's threads.
    pub(super) fn threads(&self) -> BTreeMap<Pid, Comm> {
        self.code.as_ref().map_or_else(BTreeMap::new, |code| code.threads.clone())
    }

    /// The machine comes up, if a kernel's code decides, and becomes what the run asks for. All tasks that begin with
    /// the load are made, and sleep. A simulation that begins does this by itself; then no trace can name the kernel's
    /// threads.
    pub(crate) fn boot(&mut self) {
        let Some(mut code) = self.code.take_if(|code| !code.is_up) else { return };
        code.is_up = true;
        let begin = self.scene.now;
        self.scene.now = BOOT;
        let booted = code.board.bring_up(&self.scene.hardware, &code.prepare);
        let booted = booted.and_then(|()| code.board.threads());
        match booted {
            Ok(threads) => code.threads = threads.into_iter().collect(),
            Err(why) => self.broken = Some(why),
        }
        self.code = Some(code);
        for cpu in 0..self.scene.cpus.len() {
            self.plan(cpu, 0);
            let khz = self.code.as_ref().and_then(|code| code.board.frequency(cpu));
            khz.into_iter().for_each(|khz| self.set_frequency(cpu, khz));
        }
        let first = match self.starter {
            Some(starter) => vec![starter],
            None => self.spawn.clone(),
        };
        let record = std::mem::take(&mut self.config.record);
        self.lay_down(&first);
        while self.agenda.next_at() < begin && self.broken.is_none() {
            let at = self.agenda.next_at();
            self.scene.now = at;
            if let Some(Next::Other(happening)) = self.agenda.take_at(at) {
                self.happens(happening);
            }
        }
        if let Some(code) = &mut self.code {
            code.board.set_code_1000(self.config.costs.code_1000);
        }
        self.config.record = record;
        self.emitted = 0;
        self.scene.now = begin;
        self.scene.cpus.iter_mut().for_each(|cpu| cpu.idle_since = begin);
        self.bodies.iter_mut().for_each(|body| body.usage = TaskUsage::default());
    }

    /// Makes tasks that sleep, each on its CPU, before any time passes.
    fn lay_down(&mut self, tasks: &[TaskId]) {
        let cpus = self.scene.cpus.len();
        for &task in tasks {
            let cpu = self.scene.tasks[task.index()].cpu.min(cpus - 1);
            self.bodies[task.index()].stand = TaskState::Arriving;
            let of = self.attributes(task).on(cpu);
            self.fork_code(0, task, &of);
        }
        // The task that has booted the machine sleeps for ever.
        self.enter_code(0, &Call::Sleep);
        while self.broken.is_none() {
            if let Some(cpu) = (0..cpus).find(|&cpu| self.is_sent(cpu)) {
                let call = Call::Interrupt { clock: false, user: true, wakes: None, device: 0 };
                self.enter_code(cpu, &call);
                continue;
            }
            let running = |cpu: usize| Some((cpu, self.scene.cpus[cpu].running?));
            let Some((cpu, task)) = (0..cpus).find_map(running) else { break };
            let of = self.attributes(task).or_all(cpus);
            self.enter_code(cpu, &Call::Set { task: u64::from(task.0), of: &of });
            if self.scene.cpus[cpu].running == Some(task) {
                self.enter_code(cpu, &Call::Sleep);
            }
        }
    }

    pub(super) fn is_sent(&self, cpu: usize) -> bool {
        self.code.as_ref().is_some_and(|code| code.board.is_sent(cpu))
    }

    fn attributes(&self, task: TaskId) -> Attributes {
        let slack = self.config.costs.timer_slack;
        Attributes::of(self.scene.task(task), slack, self.scene.cpus.len())
    }

    /// Enters the image for a CPU, notes what happened there, and plans what follows. Returns what the call returned.
    pub(super) fn enter_code(&mut self, cpu: usize, call: &Call<'_>) -> i64 {
        if self.broken.is_some() {
            return 0;
        }
        let before = self.scene.cpus[cpu].running;
        let now = self.time_of(cpu);
        self.scene.now = now;
        if let Some(task) = before {
            self.pause(cpu, task);
        }
        let Some(code) = &mut self.code else { return 0 };
        code.sent[cpu] &= !matches!(call, Call::Interrupt { .. });
        // An interrupt of a device has come before, and ends now.
        let before_now = if let Call::Interrupt { device, .. } = call { *device } else { 0 };
        let result = match code.board.enter(now - before_now, cpu, call) {
            Ok(result) => result,
            Err(why) => {
                self.broken = Some(why);
                return 0;
            }
        };
        let mut records = code.board.records();
        records.iter_mut().for_each(|record| record.at = record.at.saturating_sub(before_now));
        let touched = code.board.touched();
        let resched = code.board.resched(cpu);
        let passed = code.board.passed().saturating_sub(before_now);
        let way = match call {
            Call::Sleep | Call::SleepUntil(_) => Some(Way::ToSleep),
            Call::Interrupt { .. } if before.is_none() => Some(Way::OutOfIdle),
            _ => None,
        };
        if let Some(task) = before.filter(|_| self.config.start == Start::InPlace) {
            let switches = |record: &&Record| matches!(record.what, Happened::Switch(_));
            let path = records.iter().find(switches).map_or(passed, |record| record.at);
            self.contains(task, call, path);
        }
        self.note_path(cpu, &records, passed, way);
        self.scene.cpus[cpu].resched = resched && self.scene.cpus[cpu].running.is_some();
        touched.into_iter().for_each(|touched| self.plan(touched, passed));
        // A task that an interrupt left alone goes on with its piece of work.
        if matches!(call, Call::Interrupt { .. })
            && let Some(task) = before
            && self.scene.cpus[cpu].running == before
            && self.acting != Some(cpu)
        {
            self.go(cpu, task);
        }
        result
    }

    /// A recorded burst contains the kernel's ways to its wakeups and off its CPU, and its interrupts. What a path took
    /// beyond the costs for which the demand was made less must not be added again.
    fn contains(&mut self, task: TaskId, call: &Call<'_>, path: u64) {
        let body = &mut self.bodies[task.index()];
        let is_call = matches!(body.act, Act::Op(Op::Send { .. } | Op::Receive { .. }));
        let block = self.code.as_ref().map_or(0, |code| code.whole.block);
        let counted = match call {
            Call::Wake { .. } => self.config.costs.wake,
            Call::Sleep | Call::SleepUntil(_) if is_call => block,
            // No recorded task asks for this.
            Call::Set { .. } => path,
            _ => 0,
        };
        body.prepaid += path.saturating_sub(counted);
    }

    /// Notes what happened on a CPU's path, each at its time, and brings the CPU to the path's end.
    fn note_path(&mut self, cpu: usize, records: &[Record], passed: u64, way: Option<Way>) {
        let mut began = self.scene.now;
        let mut from = began;
        let mut is_new = false;
        for record in records {
            let switch = match record.what {
                Happened::Switch(of) => Some(of),
                _ => None,
            };
            let mut at = began + record.at;
            let about = switch.map_or(record.who, |of| of.next);
            if let Who::Task(task) = about {
                let told = &mut self.bodies[task as usize].told;
                began += told.saturating_sub(at);
                at = at.max(*told);
                *told = at;
            }
            if switch.is_some() {
                self.spend(cpu, at - from);
                if !is_new && let Some(way) = way {
                    self.took(way, record.at);
                }
                if let Who::Task(task) = record.who {
                    let more = self.paid_twice(task as usize, way, record.at);
                    let body = &mut self.bodies[task as usize];
                    body.told = at;
                    body.prepaid += more;
                }
                (from, is_new) = (at, true);
            }
            self.scene.now = at;
            self.note(record);
        }
        let end = began + passed;
        self.scene.now = end;
        if let Some(code) = &mut self.code {
            code.latest = code.latest.max(end);
        }
        self.spend(cpu, end - from);
        self.pieces[cpu].began = end;
        if is_new && let Some(task) = self.scene.cpus[cpu].running {
            let covered = self.config.costs.switch.min(end - from);
            let body = &mut self.bodies[task.index()];
            body.prepaid += end - from - covered;
            let left = &mut body.left;
            *left = if *left == NEVER { NEVER } else { left.saturating_sub(covered) };
            self.go(cpu, task);
        }
    }

    /// The task on a CPU is in a path for a time.
    fn spend(&mut self, cpu: usize, time: u64) {
        if let Some(task) = self.scene.cpus[cpu].running {
            account(&mut self.bodies[task.index()], time);
        }
    }

    /// A path came to its switch after a time. From now on the costs of such a way are what even the shortest path does
    /// not take.
    fn took(&mut self, way: Way, time: u64) {
        let Some(code) = &mut self.code else { return };
        if time >= code.shortest[way as usize] {
            return;
        }
        code.shortest[way as usize] = time;
        let rest = |whole: u64| whole.saturating_sub(time);
        let costs = &mut self.config.costs;
        let whole = &code.whole;
        match way {
            Way::OutOfIdle => costs.idle_exit = rest(whole.idle_exit),
            Way::ToSleep => {
                costs.block = rest(whole.block);
                costs.wait = rest(whole.wait);
                costs.sleep = rest(whole.sleep);
            }
        }
    }

    /// What a task's call and its way to the switch contain both: the call was charged less by the shortest way only.
    fn paid_twice(&self, task: usize, way: Option<Way>, time: u64) -> u64 {
        let (Some(code), Some(Way::ToSleep)) = (&self.code, way) else { return 0 };
        if self.config.start == Start::InPlace {
            return 0;
        }
        let call = match self.bodies[task].act {
            Act::Op(Op::Sleep(_) | Op::SleepUntil(_)) => code.whole.sleep,
            Act::Op(Op::Wait(_) | Op::WaitUntil { .. }) => code.whole.wait,
            _ => code.whole.block,
        };
        time.min(call).saturating_sub(code.shortest[Way::ToSleep as usize])
    }

    /// The most that newidle balancing cost by the kernel's own account, in nanoseconds; `None` if no kernel's code decides.
    pub fn newidle_cost(&mut self) -> Option<u64> {
        let now = self.scene.now;
        let cost = self.code.as_mut()?.board.newidle_cost(now);
        cost.ok().and_then(|cost| u64::try_from(cost).ok())
    }

    /// Whether something comes to a CPU that is ahead; then it waits.
    pub(super) fn comes_early(&mut self, happening: Happening) -> bool {
        let cpu = match happening {
            Happening::Clock { cpu, .. } | Happening::Interrupt(cpu) | Happening::WayOut(cpu) => {
                cpu
            }
            _ => return false,
        };
        let at = self.time_of(cpu);
        let is_early = at > self.scene.now;
        if is_early {
            self.agenda.post(at, cpu, happening);
        }
        is_early
    }

    /// Plans when the clock of a CPU goes off, and when what was sent to it arrives, in a call that took so long.
    fn plan(&mut self, cpu: usize, passed: u64) {
        let now = self.scene.now;
        if let Some(at) = self.clock_of_code(cpu) {
            self.sets_timer(cpu, at);
            self.agenda.post(at.max(now), cpu, Happening::Clock { cpu, at, awake: false });
        }
        let Some(code) = &mut self.code else { return };
        if code.board.is_sent(cpu) && !std::mem::replace(&mut code.sent[cpu], true) {
            let sent_at = code.board.sent_at(cpu);
            let sleeps = self.scene.cpus[cpu].running.is_none() && !code.prepare.polls;
            let at = sent_at + self.owed.saturating_sub(passed) + self.way_to(cpu, sleeps);
            let began = now.saturating_sub(passed);
            self.agenda.post(at.max(began), cpu, Happening::Interrupt(cpu));
        }
    }

    /// When the clock of a CPU goes off in the kernel's code.
    pub(super) fn clock_of_code(&self, cpu: usize) -> Option<u64> {
        self.code.as_ref().and_then(|code| code.board.clock(cpu))
    }

    /// The clock of a CPU goes off, unless it was set anew since.
    pub(super) fn clock_goes_off(&mut self, cpu: usize, at: u64, awake: bool) {
        if self.clock_of_code(cpu) != Some(at) {
            return;
        }
        let polls = self.code.as_ref().is_some_and(|code| code.prepare.polls);
        let idle = self.scene.cpus[cpu].running.is_none() && !polls;
        if idle && !awake && self.config.costs.idle_exit > 0 {
            let later = self.scene.now + self.config.costs.idle_exit;
            return self.agenda.post(later, cpu, Happening::Clock { cpu, at, awake: true });
        }
        self.take_interrupt(cpu, true, None, self.config.costs.tick);
    }

    /// Interrupts that were sent to a CPU were taken with another, or on its way to idle.
    pub(super) fn is_taken(&mut self, happening: Happening) {
        if let (Happening::Interrupt(cpu), Some(code)) = (happening, &mut self.code) {
            code.sent[cpu] = false;
        }
    }

    pub(super) fn sent_arrives(&mut self, cpu: usize) {
        self.take_interrupt(cpu, false, None, 0);
    }

    /// An interrupt of so much work. Its way out, on which the task may have to go, comes when the work is done; an idle
    /// CPU has its way out behind it.
    fn take_interrupt(&mut self, cpu: usize, clock: bool, wakes: Option<Wakes>, work: u64) {
        self.comes_back(cpu);
        self.enter_interrupt(cpu, clock, wakes, work, 0);
    }

    /// An interrupt of so much work, which began in the past if it is a device's.
    fn enter_interrupt(
        &mut self,
        cpu: usize,
        clock: bool,
        wakes: Option<Wakes>,
        work: u64,
        device: u64,
    ) {
        let before = self.scene.cpus[cpu].running;
        let is_user = before.is_some_and(|task| self.is_in_user_mode(task));
        let at_once = is_user && work == 0;
        let began = self.time_of(cpu);
        self.enter_code(cpu, &Call::Interrupt { clock, user: at_once, wakes, device });
        let work = work.saturating_sub(self.scene.now - began);
        if before.is_none() || self.scene.cpus[cpu].running != before {
            return;
        }
        self.interrupt(cpu, work);
        if is_user && self.scene.cpus[cpu].resched {
            self.agenda.post(self.scene.now + work, cpu, Happening::WayOut(cpu));
        }
    }

    fn is_in_user_mode(&self, task: TaskId) -> bool {
        let body = &self.bodies[task.index()];
        body.phase == Phase::Enter && body.act.is_user()
    }

    /// A gap began on a CPU, or became longer.
    pub(super) fn keep_gap_for_code(&mut self, cpu: usize, length: u64, is_steal: bool) {
        if let Some(code) = &mut self.code {
            code.gaps[cpu][usize::from(is_steal)] += length;
        }
    }

    /// The kernel learns what took a CPU, when that is over. Who enters the kernel for a CPU in a gap does it at the gap's end.
    pub(super) fn comes_back(&mut self, cpu: usize) {
        let Some(code) = &mut self.code else { return };
        let [irq, steal] = std::mem::take(&mut code.gaps[cpu]);
        if irq + steal == 0 {
            return;
        }
        code.board.add_stolen(cpu, steal);
        let charged = [(irq, code.prepare.accounts_irq), (steal, code.prepare.accounts_steal)];
        let charged = charged.iter().filter(|(_, is_known)| !is_known).map(|(time, _)| time).sum();
        self.scene.now = self.scene.now.max(self.scene.cpus[cpu].gap_until);
        self.respeed(cpu);
        self.spend(cpu, charged);
        if irq > 0 {
            self.enter_interrupt(cpu, false, None, 0, irq);
        }
    }

    /// The way out of an interrupt: the task gives way if it has to, and is not in the kernel by now.
    pub(super) fn way_out(&mut self, cpu: usize) {
        self.comes_back(cpu);
        if let Some(task) = self.scene.cpus[cpu].running
            && self.scene.cpus[cpu].resched
            && self.is_in_user_mode(task)
        {
            self.enter_code(cpu, &Call::Leave);
            self.goes_on(cpu, task);
        }
    }

    /// Wakes a task whose body knows of it already.
    pub(super) fn wake_by_code(&mut self, task: TaskId, by: Waker) {
        let cuts = std::mem::take(&mut self.bodies[task.index()].is_timed);
        let wakes = Wakes { task: u64::from(task.0), cuts };
        if by.context == Context::Task {
            self.enter_code(by.cpu, &Call::Wake { wakes, sync: by.sync });
        } else {
            self.take_interrupt(by.cpu, false, Some(wakes), 0);
        }
    }

    /// `parent`'s CPU makes a task, which becomes runnable.
    pub(super) fn fork_by_code(&mut self, cpu: usize, child: TaskId) {
        let body = &mut self.bodies[child.index()];
        body.stand = TaskState::Arriving;
        body.since = self.scene.now;
        body.newborn = false;
        body.counted = 0;
        let is_plain = body.is_plain;
        let of = self.attributes(child);
        let of = if is_plain { of.of_fair() } else { of };
        self.fork_code(cpu, child, &of);
    }

    /// A new task asks for the class that it shall have. `false`: it lost its CPU for that.
    pub(super) fn asks_code_for_class(&mut self, cpu: usize, task: TaskId) -> bool {
        let of = self.attributes(task);
        let result = self.enter_code(cpu, &Call::Set { task: u64::from(task.0), of: &of });
        let stays = self.scene.cpus[cpu].running == Some(task);
        if stays && result < 0 && self.broken.is_none() {
            let who = self.name(task);
            self.broken =
                Some(refused(&format!("the kernel does not take {who} as it is"), result));
        }
        stays
    }

    fn fork_code(&mut self, cpu: usize, child: TaskId, of: &Attributes) {
        let group = self.scene.task(child).group.map_or(0, |group| group as u64 + 1);
        let name = self.comms.get(child.index()).cloned().unwrap_or_default();
        let call = Call::Fork { child: u64::from(child.0), group, name: &name, of };
        let result = self.enter_code(cpu, &call);
        if result < 0 && self.broken.is_none() {
            self.broken =
                Some(refused(&format!("the kernel does not take {name} as it is"), result));
        }
    }

    /// The running task exits, sleeps or reschedules, through the kernel's own code.
    pub(super) fn leave_by_code(&mut self, cpu: usize, task: TaskId, left: Left) {
        let body = &mut self.bodies[task.index()];
        let until = body.until.take();
        body.is_timed = left == Left::Slept && until.is_some();
        let call = match left {
            Left::Dead => Call::Exit,
            Left::Slept => until.map_or(Call::Sleep, Call::SleepUntil),
            _ => Call::Leave,
        };
        self.enter_code(cpu, &call);
        self.goes_on(cpu, task);
    }

    pub(super) fn yield_by_code(&mut self, cpu: usize, task: TaskId) {
        self.enter_code(cpu, &Call::Yield);
        self.goes_on(cpu, task);
    }

    /// A task gets the attributes that it has here; it may leave its CPU for that.
    pub(super) fn set_by_code(&mut self, cpu: usize, task: TaskId) {
        let cpus = self.scene.cpus.len();
        let of = self.attributes(task).or_all(cpus);
        let result = self.enter_code(cpu, &Call::Set { task: u64::from(task.0), of: &of });
        if self.scene.cpus[cpu].running == Some(task) && result < 0 {
            self.bodies[task.index()].done = Done::Failed((-result) as i32);
        }
        self.goes_on(cpu, task);
    }

    /// A task that the kernel left on its CPU does what is next.
    fn goes_on(&mut self, cpu: usize, task: TaskId) {
        if self.scene.cpus[cpu].running == Some(task) && self.acting != Some(cpu) {
            self.go(cpu, task);
        }
    }

    fn note(&mut self, record: &Record) {
        let cpu = record.cpu;
        let context = record.context;
        let prio = Prio(record.prio as i16);
        let pid = match record.who {
            Who::Task(task) => self.pid(TaskId(task)),
            Who::Thread(pid) => pid,
            Who::Nobody => Pid::IDLE,
        };
        let task = match record.who {
            Who::Task(task) => Some(TaskId(task)),
            _ => None,
        };
        match record.what {
            Happened::Waking { cpu: last } => {
                if let Some(task) = task {
                    self.timer_has_ended(task);
                }
                self.emit(cpu, context, What::Waking { pid, prio, last_cpu: id(last) });
            }
            Happened::Wakeup { cpu: to, new } => {
                if let Some(task) = task {
                    self.scene.tasks[task.index()].cpu = to;
                    let body = &mut self.bodies[task.index()];
                    if body.stand == TaskState::Arriving {
                        body.stand = TaskState::Queued;
                    }
                }
                self.emit(cpu, context, What::Wakeup { pid, prio, cpu: id(to), new });
            }
            Happened::Migrate { from, to } => {
                if let Some(task) = task {
                    self.scene.tasks[task.index()].cpu = to;
                    self.bodies[task.index()].usage.migrations += 1;
                }
                self.emit(cpu, context, What::Migrate { pid, from: id(from), to: id(to) });
            }
            Happened::Frequency { cpu, khz } => {
                self.agenda.post(self.scene.now, cpu, Happening::Frequency { cpu, khz });
            }
            Happened::Switch(of) => {
                let (next_pid, next_task) = match of.next {
                    Who::Task(task) => (self.pid(TaskId(task)), Some(TaskId(task))),
                    Who::Thread(pid) => (pid, None),
                    Who::Nobody => (Pid::IDLE, None),
                };
                let left = left(of.state, of.preempted);
                let next_prio = Prio(of.next_prio as i16);
                let what =
                    What::Switch { prev: pid, prev_prio: prio, left, next: next_pid, next_prio };
                self.emit(cpu, context, what);
                if let Some(task) = task {
                    self.steps_down(task, left);
                    self.compare_accounts(task, of);
                }
                let was_idle = self.scene.cpus[cpu].running.is_none();
                self.scene.cpus[cpu].running = next_task;
                self.on_thread[cpu] = Some(next_pid).filter(|_| next_task.is_none());
                match next_task {
                    Some(task) => {
                        self.bodies[task.index()].on_since = of.since;
                        self.steps_up(cpu, task);
                    }
                    None => self.scene.cpus[cpu].idle_since = self.scene.now,
                }
                if was_idle != next_task.is_none() {
                    self.core_changes(cpu);
                }
                self.memory_changes(cpu, next_task);
            }
        }
    }

    /// A task that nobody here has woken: the time of its sleep has come.
    fn timer_has_ended(&mut self, task: TaskId) {
        if self.bodies[task.index()].stand != TaskState::Asleep {
            return;
        }
        if let Some(On::Word(word)) = self.bodies[task.index()].on {
            self.shared.words[word as usize].sleeping.retain(|sleeping| *sleeping != task);
        }
        self.bodies[task.index()].is_timed = false;
        self.comes_awake(task, Resume::With(Done::Ok));
    }

    /// The kernel charges a task what the world saw it run, to the nanosecond.
    fn compare_accounts(&mut self, task: TaskId, of: Switched) {
        let latest = self.code.as_ref().map_or(0, |code| code.latest).max(self.scene.now);
        let body = &mut self.bodies[task.index()];
        body.counted += of.until.saturating_sub(body.on_since);
        // A deadline task whose budget is used up runs until the interrupt's way out, and is not charged for that.
        if matches!(self.scene.tasks[task.index()].class, Class::Deadline(_)) {
            body.counted = of.ran;
        }
        let counted = body.counted;
        if (counted != of.ran || of.until > latest) && self.broken.is_none() {
            let who = self.name(task);
            self.broken = Some(format!(
                "the kernel's account of {who} is {} ns and the world's is {counted} ns, at {} ns",
                of.ran, self.scene.now
            ));
        }
    }
}

/// How a task left, from its state (`prev_state` of `sched_switch`).
fn left(state: u32, preempted: bool) -> Left {
    if preempted {
        return Left::Preempted;
    }
    match state {
        0 => Left::Displaced,
        _ if state & INTERRUPTIBLE != 0 => Left::Slept,
        _ if state & UNINTERRUPTIBLE != 0 && state & NO_LOAD != 0 => Left::IdleSleep,
        _ if state & UNINTERRUPTIBLE != 0 => Left::Blocked,
        _ if state & PARKED != 0 => Left::Parked,
        _ if state & DEAD != 0 => Left::Dead,
        _ => Left::Other,
    }
}
