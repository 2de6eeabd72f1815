//! Starts the tasks of a plan as threads or processes, and waits for their end.

use super::arena::{Arena, TaskState};
use super::interpret::{End, Interpreter, Stage};
use super::memory;
use super::native::Native;
use super::start_gate::Gate;
use crate::marks::Marks;
use crate::net::Namespace;
use schedlab_model::{Nanos, Phase, Pid, Usage};
use schedlab_sys::channel;
use schedlab_sys::clock;
use schedlab_sys::sched::{self, Attributes};
use schedlab_sys::task::{self, Side};
use schedlab_sys::thread::Thread;
use schedlab_workload::Done;
use schedlab_workload::plan::{Block, Fork, Placement, Plan, Policy, Task, Transport};
use std::fs::File;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};

/// A stack holds the behaviour's and interpreter's frames and little else.
const STACK_BYTES: usize = 128 << 10;
/// Of a bigger started the longer file of each task is not read: it takes longer than the task itself.
const MIGRATIONS_UP_TO: usize = 512;

/// The steps before a task is ready, as they stand above the errno of a failure.
const STEPS: [&str; 6] = [
    "",
    "joining its control group",
    "binding to its CPUs",
    "its policy",
    "binding its memory to nodes",
    "its utilisation clamp (util_min, util_max; CONFIG_UCLAMP_TASK, Linux 5.3)",
];

/// What went wrong with a task, as a sentence.
pub(super) fn sentence(error: i32) -> String {
    let why = io::Error::from_raw_os_error(error & 0xffff);
    match STEPS.get((error >> 16) as usize) {
        Some(&"") | None => why.to_string(),
        Some(step) => format!("{step}: {why}"),
    }
}

/// The most files that are open at a time.
pub(super) fn files_needed(plan: &Plan) -> u64 {
    let channels = plan.channels.len() as u64;
    if !plan.processes {
        return 2 * channels;
    }
    // A group's channels are opened before its tasks are forked and closed after.
    let groups =
        plan.tasks.iter().map(|task| task.group).max().map_or(1, |last| u64::from(last) + 1);
    2 * channels.div_ceil(groups)
}

/// The policy of the task that starts and awaits the others.
pub(super) struct Leader {
    fifo: bool,
}

impl Leader {
    pub(super) const fn of(fifo: bool) -> Self {
        Self { fifo }
    }

    /// Whether it may become what it shall: tried before anything is started, and undone.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.fifo {
            let before = sched::get(Pid(0))?;
            sched::set(Pid(0), &sched::Policy::Fifo { priority: 1 }.into())?;
            sched::set(Pid(0), &before)?;
        }
        Ok(())
    }

    /// Becomes it; the tasks are there by now and stay as they are.
    pub(super) fn lead(&self) -> io::Result<()> {
        match self.fifo {
            true => sched::set(Pid(0), &sched::Policy::Fifo { priority: 1 }.into()),
            false => Ok(()),
        }
    }
}

/// What every task needs and none changes.
#[derive(Clone)]
struct Common {
    arena: Arc<Arena>,
    blocks: Arc<[Block]>,
    marks: Option<Arc<Marks>>,
    places: Arc<[Placement]>,
    gate: Arc<Gate>,
    forked: Arc<ForkedTasks>,
    migrations: bool,
    /// Whether more is reported of each task than upstream would.
    facts: bool,
}

/// Tasks that others start, and those that were started so.
#[derive(Default)]
struct ForkedTasks {
    /// For each of the plan's forks those that are not alive.
    idle: Vec<Mutex<Vec<IdleTask>>>,
    threads: Mutex<Vec<Thread>>,
}

struct IdleTask {
    index: usize,
    task: Task,
    ends: Vec<(u32, Option<End>)>,
}

impl IdleTask {
    /// A copy that begins anew.
    fn begin_anew(&self) -> Task {
        Task {
            comm: self.task.comm.clone(),
            role: self.task.role,
            group: self.task.group,
            placement: self.task.placement.clone(),
            sends: self.task.sends.clone(),
            receives: self.task.receives.clone(),
            blocks: self.task.blocks.clone(),
            origin: self.task.origin,
            behaviour: self.task.behaviour.again().expect("what is forked can begin anew"),
        }
    }
}

struct TaskStage<'c> {
    common: &'c Common,
    thread: Pid,
}

impl Stage for TaskStage<'_> {
    fn mark(&self, at: Nanos, id: u32, phase: Phase, request: u32) {
        if let Some(marks) = &self.common.marks {
            marks.put(at, self.thread, id, phase, request);
        }
    }

    fn place(&self, place: u32) -> Result<(), i32> {
        settle(&self.common.places[place as usize])
    }

    fn fork(&self, fork: u32) -> Done {
        let locked = |list: &Mutex<Vec<IdleTask>>| list.lock().ok()?.pop();
        let Some(idle_task) = locked(&self.common.forked.idle[fork as usize]) else {
            return Done::Full;
        };
        // Counted before it exists. The task that forks has not ended, so the run cannot end in between.
        self.common.arena.expected().fetch_add(1, AcqRel);
        let common = self.common.clone();
        let life = move || {
            work(idle_task.index, idle_task.begin_anew(), idle_task.ends.clone(), &common, None);
            if let Ok(mut idle) = common.forked.idle[fork as usize].lock() {
                idle.push(idle_task);
            }
        };
        match Thread::spawn(STACK_BYTES, life) {
            Ok(thread) => {
                if let Ok(mut threads) = self.common.forked.threads.lock() {
                    threads.retain(|thread| !thread.has_ended());
                    threads.push(thread);
                }
                Done::Ok
            }
            Err(error) => {
                self.common.arena.expected().fetch_sub(1, AcqRel);
                Done::Failed(error.raw_os_error().unwrap_or(11))
            }
        }
    }
}

pub(super) struct StartedTasks {
    arena: Arc<Arena>,
    gate: Arc<Gate>,
    forked: Arc<ForkedTasks>,
    /// The processes that were started: the pid, and the index of the task.
    children: Vec<(Pid, usize)>,
    threads: Vec<Thread>,
    /// What went wrong with processes: the task and the exit code.
    pub(super) killed: Vec<(usize, i32)>,
}

impl StartedTasks {
    /// Starts all tasks. They become ready and wait for the word.
    pub(super) fn start(
        tasks: Vec<Task>,
        plan: &Plan,
        arena: &Arc<Arena>,
        marks: Option<Arc<Marks>>,
        network: Option<&Namespace>,
    ) -> io::Result<Self> {
        task::catch_nudges()?;
        let gate = Arc::new(Gate::new(plan)?);
        let idle = plan.forks.iter().map(|_| Mutex::default()).collect();
        let forked = Arc::new(ForkedTasks { idle, threads: Mutex::default() });
        let common = Common {
            arena: arena.clone(),
            blocks: plan.blocks.clone().into(),
            places: plan.places.clone().into(),
            marks,
            gate: gate.clone(),
            forked: forked.clone(),
            migrations: tasks.len() <= MIGRATIONS_UP_TO,
            facts: !plan.upstream,
        };
        let children = Vec::new();
        let threads = Vec::new();
        let killed = Vec::new();
        let mut started = Self { arena: arena.clone(), gate, forked, children, threads, killed };
        match plan.processes {
            true => started.fork(tasks, Channels::new(plan, network.cloned()), &common)?,
            false => {
                started.spawn(
                    tasks,
                    &plan.forks,
                    Channels::new(plan, network.cloned()),
                    &common,
                )?;
            }
        }
        Ok(started)
    }

    fn spawn(
        &mut self,
        tasks: Vec<Task>,
        forks: &[Fork],
        mut channels: Channels,
        common: &Common,
    ) -> io::Result<()> {
        channels.see(&tasks);
        for (index, task) in tasks.into_iter().enumerate() {
            let ends = channels.ends(&task)?;
            if let Some(fork) = forks.iter().position(|fork| fork.tasks.contains(&index)) {
                let mut idle = self.forked.idle[fork].lock().expect("nobody holds it yet");
                idle.push(IdleTask { index, task, ends });
                continue;
            }
            let common = common.clone();
            let life = move || work(index, task, ends, &common, None);
            self.threads.push(Thread::spawn(STACK_BYTES, life)?);
            channels.done(index);
        }
        Ok(())
    }

    fn fork(
        &mut self,
        tasks: Vec<Task>,
        mut channels: Channels,
        common: &Common,
    ) -> io::Result<()> {
        task::catch_children()?;
        channels.see(&tasks);
        for (index, task) in tasks.into_iter().enumerate() {
            let ends = channels.ends(&task)?;
            match task::fork()? {
                Side::Parent(pid) => {
                    self.children.push((pid, index));
                    drop(ends);
                    // What it holds would be freed page by page, each of them copied for that since
                    // the child has it too; this process ends with the run.
                    std::mem::forget(task);
                    channels.done(index);
                }
                Side::Child => {
                    let run = AssertUnwindSafe(|| work(index, task, ends, common, Some(channels)));
                    let clean = std::panic::catch_unwind(run).is_ok();
                    task::exit_now(if clean { 0 } else { 101 });
                }
            }
        }
        Ok(())
    }

    /// Lets the tasks that wait for the word begin, and those that come later not wait.
    pub(super) fn let_go(&self) {
        self.gate.open(&self.arena);
    }

    /// Reaps processes that have ended; tells of those that did not end by themselves.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        while let Some(reaped) = task::reap(false)? {
            let Some(at) = self.children.iter().position(|(pid, _)| *pid == reaped.pid) else {
                continue;
            };
            let (_, index) = self.children.swap_remove(at);
            if reaped.code != 0 || self.arena.stand(index) != TaskState::Ended {
                self.killed.push((index, reaped.code));
            }
        }
        Ok(())
    }

    /// Whether all processes have been reaped and all threads have ended.
    pub(super) fn is_gone(&self) -> bool {
        let forked = self.forked.threads.lock();
        self.children.is_empty()
            && self.threads.iter().all(Thread::has_ended)
            && forked.is_ok_and(|threads| threads.iter().all(Thread::has_ended))
    }

    /// Interrupts what tasks are blocked in, so that they see that they shall stop.
    pub(super) fn nudge(&self) {
        let this = Pid(std::process::id().cast_signed());
        for &(pid, _) in &self.children {
            task::nudge(pid, pid);
        }
        if self.children.is_empty() {
            for index in 0..self.arena.task_slots() {
                if self.arena.stand(index) == TaskState::Ready {
                    task::nudge(this, self.arena.thread(index));
                }
            }
        }
    }

    /// Kills processes that do not end. Threads die with this process.
    pub(super) fn kill(&self) {
        for &(pid, _) in &self.children {
            // One that has just ended is no failure.
            let _ = schedlab_sys::process::kill(pid, 9);
        }
    }

    /// Waits for the threads, which have ended as far as the arena says.
    pub(super) fn join(&mut self) {
        self.threads.drain(..).filter(Thread::has_ended).for_each(Thread::join);
    }
}

impl Drop for StartedTasks {
    /// After an error, too, no process is left behind.
    fn drop(&mut self) {
        self.kill();
        while !self.children.is_empty() {
            match task::reap(true) {
                Ok(Some(reaped)) => self.children.retain(|(pid, _)| *pid != reaped.pid),
                _ if self.children.iter().all(|(pid, _)| !task::exists(*pid)) => return,
                _ => {}
            }
        }
    }
}

/// Both ends of a channel.
type Pair = (Arc<File>, Arc<File>);

/// Channels that are open in this process: from the first task that uses one to the last.
pub(super) struct Channels {
    transports: Vec<Transport>,
    device: Option<PathBuf>,
    /// The far end of datagrams; the loopback without it.
    network: Option<Namespace>,
    last_use: Vec<usize>,
    open: Vec<Option<Pair>>,
}

impl Channels {
    pub(super) fn new(plan: &Plan, network: Option<Namespace>) -> Self {
        Self {
            transports: plan.channels.iter().map(|channel| channel.transport).collect(),
            device: plan.device.clone(),
            network,
            open: plan.channels.iter().map(|_| None).collect(),
            last_use: vec![0; plan.channels.len()],
        }
    }

    /// Notes which task is the last to use each.
    pub(super) fn see(&mut self, tasks: &[Task]) {
        for (index, task) in tasks.iter().enumerate() {
            for &channel in task.sends.iter().chain(&task.receives) {
                self.last_use[channel as usize] = index;
            }
        }
    }

    /// The ends that a task uses, by ascending channel.
    pub(super) fn ends(&mut self, task: &Task) -> io::Result<Vec<(u32, Option<End>)>> {
        let mut ends = Vec::new();
        for &id in &task.receives {
            ends.push((id, Some(End::Read(self.open(id)?.0.clone()))));
        }
        for &id in &task.sends {
            ends.push((id, Some(End::Write(self.open(id)?.1.clone()))));
        }
        ends.sort_by_key(|(id, _)| *id);
        Ok(ends)
    }

    fn open(&mut self, id: u32) -> io::Result<&Pair> {
        let slot = &mut self.open[id as usize];
        if slot.is_none() {
            let transport = self.transports[id as usize];
            if let (Transport::Udp, Some(far)) = (transport, &self.network) {
                let (read, write) = schedlab_sys::netns::udp_into(&far.path(), far.there.into())?;
                let end = |socket: std::net::UdpSocket| {
                    Arc::new(File::from(std::os::fd::OwnedFd::from(socket)))
                };
                return Ok(slot.insert((end(read), end(write))));
            }
            if transport == Transport::Device {
                let file = Arc::new(device(self.device.as_deref())?);
                return Ok(slot.insert((file.clone(), file)));
            }
            let (read, write) = channel::open(match transport {
                Transport::Pipe => channel::Transport::Pipe,
                Transport::SocketPair => channel::Transport::SocketPair,
                Transport::Inet => channel::Transport::Inet,
                Transport::Udp => channel::Transport::Udp,
                Transport::EventFd => channel::Transport::EventFd,
                Transport::Device => unreachable!("opened above"),
            })?;
            *slot = Some((Arc::new(read.into()), Arc::new(write.into())));
        }
        Ok(slot.as_ref().expect("opened above"))
    }

    /// Task `index` has been started: what no later one uses is closed.
    fn done(&mut self, index: usize) {
        for (slot, &last) in self.open.iter_mut().zip(&self.last_use) {
            if last == index {
                *slot = None;
            }
        }
    }
}

/// The file that is written to: from its beginning, and made where it is not there.
fn device(path: Option<&Path>) -> io::Result<File> {
    let path = path.unwrap_or_else(|| Path::new("/dev/null"));
    let told = |error: io::Error| {
        io::Error::new(error.kind(), format!("io_device {}: {error}", path.display()))
    };
    File::options().write(true).create(true).truncate(false).open(path).map_err(told)
}

/// Performs a task from its first operation to its end, on its own thread or in its own process.
fn work(
    index: usize,
    mut task: Task,
    ends: Vec<(u32, Option<End>)>,
    common: &Common,
    inherited: Option<Channels>,
) {
    // A process closes what it inherited and has no part in: only then does the end of the last
    // sender reach a reader. Upstream's keep it open, and nothing of the memory is touched: a task that
    // dies is seen by the conductor, who ends all.
    let process = inherited.is_some();
    match common.facts {
        true => drop(inherited),
        false => std::mem::forget(inherited),
    }
    let arena = &*common.arena;
    task::name_self(&task.comm);
    let thread = schedlab_sys::process::thread_id();
    if let Err(error) = settle(&task.placement) {
        arena.set_ended(index, clock::monotonic(), &Usage::default(), Some(error));
        leave(arena);
        return;
    }
    let stage = TaskStage { common, thread };
    let mut performer = match Native::of(&*task.behaviour, &ends) {
        Some(native) => {
            drop(ends);
            Performer::Native(native)
        }
        None => {
            let memory = memory::of_task(&common.blocks, &task.blocks, arena);
            Performer::Interpreter(Interpreter::new(arena, index, ends, memory, &stage))
        }
    };
    arena.set_ready(index, thread);
    arena.ready().fetch_add(1, AcqRel);
    let _ = schedlab_sys::futex::wake(arena.ready(), 1, arena.scope);
    common.gate.pass(arena);
    let error = match &mut performer {
        Performer::Native(native) => {
            native.run(arena, index, common.marks.is_some().then_some(&stage))
        }
        Performer::Interpreter(interpreter) => interpreter.run(&mut *task.behaviour),
    };
    let at = clock::monotonic();
    let usage = match common.facts {
        true => task::usage(common.migrations),
        false => Usage::default(),
    };
    // Closed before it counts as ended, so that readers of other tasks see it in time. Of a process
    // all is closed as it exits. Upstream's threads leave their channels open to the end of the run,
    // so closing them would be time that the original does not spend.
    match process || (!common.facts && error.is_none()) {
        true => std::mem::forget(performer),
        false => drop(performer),
    }
    arena.set_ended(index, at, &usage, error);
    leave(arena);
    if process {
        task::exit_now(0);
    }
}

enum Performer<'a> {
    Native(Native),
    Interpreter(Interpreter<'a>),
}

/// Counts the task as ended and tells who waits for that.
fn leave(arena: &Arena) {
    if arena.leave() {
        let _ = schedlab_sys::futex::wake(arena.ended(), 1, arena.scope);
    }
}

/// Puts the calling thread where and how it shall run; the step and errno that failed.
pub(super) fn settle(placement: &Placement) -> Result<(), i32> {
    let failed = |step: i32| {
        move |error: io::Error| (step << 16) | (error.raw_os_error().unwrap_or(5) & 0xffff)
    };
    if let Some(group) = &placement.cgroup {
        super::group::join(Path::new(group)).map_err(failed(1))?;
    }
    if let Some(cpus) = &placement.cpus {
        sched::set_affinity(Pid(0), cpus).map_err(failed(2))?;
    }
    if let Some(nodes) = &placement.memory {
        schedlab_sys::memory::bind(nodes).map_err(failed(4))?;
    }
    let stays = placement.policy.is_none() && placement.nice.is_none() && placement.slice.is_none();
    if stays && placement.clamp.is_none() {
        return Ok(());
    }
    let now = sched::get(Pid(0)).map_err(failed(3))?;
    let nice = placement.nice.unwrap_or(match now.policy {
        sched::Policy::Normal { nice } | sched::Policy::Batch { nice } => nice,
        _ => 0,
    });
    let policy = match placement.policy {
        None if stays => now.policy,
        None | Some(Policy::Normal) => sched::Policy::Normal { nice },
        Some(Policy::Batch) => sched::Policy::Batch { nice },
        Some(Policy::Idle) => sched::Policy::Idle,
        Some(Policy::Ext) => sched::Policy::Ext { nice },
        Some(Policy::Deadline { runtime, deadline, period }) => {
            sched::Policy::Deadline { runtime, deadline, period }
        }
        Some(Policy::Fifo(priority)) => sched::Policy::Fifo { priority },
        Some(Policy::RoundRobin(priority)) => sched::Policy::RoundRobin { priority },
    };
    let slice = placement.slice.unwrap_or(now.slice);
    let wanted = Attributes { policy, slice, reset_on_fork: false, clamp: placement.clamp };
    // EOPNOTSUPP and E2BIG: the policy would do without the clamp.
    let step = |error: &io::Error| match error.raw_os_error() {
        Some(95 | 7) if placement.clamp.is_some() => 5,
        _ => 3,
    };
    sched::set(Pid(0), &wanted).map_err(|error| failed(step(&error))(error))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, CpuSet};
    use std::io::Write as _;

    /// Settles a thread of its own; what it then is, by the kernel.
    fn settled(place: Placement) -> Result<(CpuSet, Attributes), String> {
        let life = move || {
            settle(&place).map_err(sentence)?;
            let told = |error: io::Error| error.to_string();
            Ok((sched::affinity(Pid(0)).map_err(told)?, sched::get(Pid(0)).map_err(told)?))
        };
        std::thread::spawn(life).join().unwrap()
    }

    #[test]
    fn a_task_is_where_and_how_its_placement_says_by_the_kernel_s_own_word() {
        let allowed = sched::affinity(Pid(0)).unwrap();
        let last: CpuSet = allowed.iter().last().into_iter().collect();
        let place = Placement { cpus: Some(last.clone()), nice: Some(7), ..Placement::default() };
        let (cpus, now) = settled(place).unwrap();
        assert_eq!((cpus, now.policy), (last, sched::Policy::Normal { nice: 7 }));
        let batch =
            Placement { policy: Some(Policy::Batch), nice: Some(3), ..Placement::default() };
        assert_eq!(settled(batch).unwrap().1.policy, sched::Policy::Batch { nice: 3 });
        let idle = Placement { policy: Some(Policy::Idle), ..Placement::default() };
        assert_eq!(settled(idle).unwrap().1.policy, sched::Policy::Idle);
        let nowhere = CpuSet::from_iter([Cpu(4_000)]);
        let place = Placement { cpus: Some(nowhere), ..Placement::default() };
        assert!(settled(place).unwrap_err().starts_with("binding to its CPUs: "));
    }

    #[test]
    fn a_slice_a_clamp_and_a_real_time_policy_are_taken_where_the_kernel_has_them() {
        let slice = Nanos::from_micros(1_500);
        let place = Placement { slice: Some(slice), ..Placement::default() };
        match settled(place).unwrap().1.slice {
            Nanos::ZERO => {
                drop(writeln!(
                    std::io::stderr(),
                    "MISSING: slices by task (Linux 6.12); not checked: that one is set"
                ));
            }
            now => assert_eq!(now, slice),
        }
        for policy in [Policy::Fifo(3), Policy::RoundRobin(4)] {
            let place = Placement { policy: Some(policy), clamp: None, ..Placement::default() };
            match settled(place) {
                Ok((_, now)) => assert!(
                    matches!(
                        now.policy,
                        sched::Policy::Fifo { priority: 3 }
                            | sched::Policy::RoundRobin { priority: 4 }
                    ),
                    "{now:?}"
                ),
                Err(why) => {
                    assert!(why.starts_with("its policy: "), "{why}");
                    drop(writeln!(
                        std::io::stderr(),
                        "MISSING: the right for {policy:?} ({why}); not checked: that it is set"
                    ));
                }
            }
        }
        let place = Placement { clamp: Some((100, 600)), ..Placement::default() };
        match (sched::takes_clamps(), settled(place)) {
            (Ok(()), now) => assert_eq!(now.unwrap().1.clamp, Some((100, 600))),
            (Err(why), now) => {
                assert!(now.unwrap_err().starts_with("its utilisation clamp (util_min"));
                drop(writeln!(
                    std::io::stderr(),
                    "MISSING: utilisation clamps ({why}); not checked: that one is set"
                ));
            }
        }
    }
}
