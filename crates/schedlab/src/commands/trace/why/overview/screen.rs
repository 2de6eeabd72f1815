//! The answer in sentences: who waited, why, behind whom, and the one thing to change.

use super::super::super::input::{self, Input, Named};
use super::subject::{Denied, Subject};
use super::{SHARE_MIN, part, percent, users, went_to, wrapped};
use schedlab_model::{Conditions, Cpu, CpuSet, Groups, Limit, Nanos, Need, Prio, Trigger};
use schedlab_timeline::{CausesAnswer, Reply, TaskId, WaitCause, is_kernel_thread};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// If tasks waited for less than this part of all CPUs' time, and none for as long, nothing is wrong.
const CALM_SHARE: f64 = 0.005;
const CALM_WAIT: Nanos = Nanos(5_000_000);
/// Who ran for this share of what somebody waited for is named alone.
const MOSTLY: f64 = 0.9;

/// What the text needs to know.
pub(super) struct Screen<'a> {
    pub(super) reply: &'a Reply<CausesAnswer>,
    pub(super) groups: &'a Groups,
    pub(super) conditions: Option<&'a Conditions>,
    pub(super) input: &'a Input,
    pub(super) trigger: Option<Trigger>,
    /// Waits by the events alone.
    pub(super) denied: &'a Denied,
}

/// Tasks of one name in one group that ran instead, and for how long; who ran longest comes first.
struct Culprit {
    name: String,
    group: Option<u32>,
    tasks: Vec<TaskId>,
    time: Nanos,
}

impl Screen<'_> {
    pub(super) fn text(&self, subject: Option<&Subject>) -> String {
        let looked_at = input::looked_at(self.reply);
        if self.reply.known.of(Need::WaitTime).is_none() {
            return "Who waited cannot be known of this trace.\n".to_owned();
        }
        let Some(subject) = subject else {
            let left_out = self.left_out().unwrap_or_default();
            return format!("Nobody waited for a CPU in {looked_at}.\n{left_out}");
        };
        if self.is_calm() {
            let all = self.reply.answer.total.sum().readable();
            let most = subject.parts.sum().readable();
            let longest = self.longest().readable();
            let said = format!(
                "Tasks hardly waited: {all} in sum, at most {longest} at once, in {looked_at}. Most of it: {} with {most}.",
                self.who(subject)
            );
            let left_out = self.left_out().unwrap_or_default();
            return format!("{}\n{}{left_out}", wrapped(&said), self.causes(subject));
        }
        let mut text = self.headline(subject);
        if let Some(trigger) = self.trigger.filter(|_| !subject.is_trigger) {
            let waited = (trigger.until - trigger.since).readable();
            text += &wrapped(&format!(
                "The wait of task {}, which ended the recording after {waited}, is not in this answer.",
                trigger.pid
            ));
        }
        let _ = writeln!(text, "\n{}", self.causes(subject));
        let _ = write!(text, "{}", self.advice(subject));
        let all = self.reply.answer.total.sum();
        let count = self.reply.answer.tasks.len();
        let shares: Vec<String> = self
            .reply
            .answer
            .total
            .ranked()
            .into_iter()
            .filter(|(_, time)| part(*time, all) >= SHARE_MIN)
            .map(|(cause, time)| format!("{} {}", cause.title(), percent(time, all)))
            .collect();
        let who = if count == 1 { "1 task".to_owned() } else { format!("All {count} tasks") };
        let summed =
            format!("{who} waited {} in {looked_at}: {}.", all.readable(), shares.join(", "));
        text + "\n" + &wrapped(&summed) + &self.stolen() + &self.left_out().unwrap_or_default()
    }

    /// Says whose waits the answer does not take for such.
    fn left_out(&self) -> Option<String> {
        let denied = self.reply.answer.open.iter().filter(|wait| self.denied.has(wait));
        let longest = denied.max_by_key(|wait| (wait.until - wait.since, Reverse(wait.task)))?;
        let who = Named::of(longest.task, &self.reply.state);
        let others = match self.denied.iter().count() {
            1 => String::new(),
            2 => " Another task is left out for the same reason.".to_owned(),
            more => format!(" {} other tasks are left out for the same reason.", more - 1),
        };
        Some(wrapped(&format!(
            "{who} waits for {} by the events, and is left out: it ran or sleeps by what the kernel says, which did not log \
             the switch.{others}",
            (longest.until - longest.since).readable()
        )))
    }

    /// How much of competition the hypervisor may have taken: no event tells when it did.
    fn stolen(&self) -> String {
        let parts = &self.reply.answer.total;
        let competition =
            WaitCause::ALL.into_iter().filter(|cause| *cause >= WaitCause::KernelThread);
        let competition = competition.fold(Nanos::ZERO, |sum, cause| sum + parts.of(cause));
        let stolen = self.groups.stolen().unwrap_or_default().min(competition);
        if part(stolen, competition) < SHARE_MIN {
            return String::new();
        }
        wrapped(&format!(
            "Of competition, up to {} was stolen by the hypervisor.",
            stolen.readable()
        ))
    }

    /// The longest wait of all.
    fn longest(&self) -> Nanos {
        let mut worst = self.reply.answer.worst.iter();
        let worst = worst.find(|wait| !self.denied.has(wait));
        worst.map_or(Nanos::ZERO, |wait| wait.until - wait.since)
    }

    /// Whether waiting is no reason to change anything.
    pub(super) fn is_calm(&self) -> bool {
        let cpus = self.reply.state.observed_cpus().count() as f64;
        let time = self.reply.observed.duration().0 as f64 * cpus;
        let rows = self.reply.answer.tasks.iter();
        let share =
            rows.map(|row| self.denied.rest(row).sum().0).sum::<u64>() as f64 / time.max(1.0);
        share < CALM_SHARE && self.longest() < CALM_WAIT
    }

    fn who(&self, subject: &Subject) -> String {
        let state = &self.reply.state;
        let mut who = match subject.tasks.as_slice() {
            [task] => Named::of(*task, state).to_string(),
            many => format!("{} ({} tasks)", state.name(many[0]), many.len()),
        };
        if let Some(group) =
            self.reply.answer.group_title(subject.group).filter(|name| *name != "/")
        {
            let _ = write!(who, " in {group}");
        }
        who
    }

    fn headline(&self, subject: &Subject) -> String {
        let who = self.who(subject);
        let all = subject.parts.sum();
        let trigger = if subject.is_trigger { ", which ended the recording" } else { "" };
        let waited = match &subject.wait {
            Some(wait) if wait.is_open => {
                let length = (wait.until - wait.since).readable();
                format!("still waits after at least {length}{trigger}")
            }
            Some(wait) => {
                format!("waited {} for a CPU{trigger}", (wait.until - wait.since).readable())
            }
            None => {
                let all = input::figure(&self.reply.known, Need::WaitTime, all.readable());
                format!("waited {all} for a CPU")
            }
        };
        let Some((cause, time)) = subject.parts.ranked().first().copied() else {
            return wrapped(&format!("{who} {waited}."));
        };
        let share = percent(time, all);
        let why = match cause {
            WaitCause::Throttled => match self.limit(subject) {
                Some((name, limit)) => {
                    format!(
                        "{share} of it because the CPU quota of {name} ({}) was used up",
                        size(limit)
                    )
                }
                None if self.is_real_time(subject) => {
                    format!(
                        "{share} of it because the kernel's limit for real-time tasks was reached"
                    )
                }
                None => format!("{share} of it because its own CPU budget was used up"),
            },
            WaitCause::HeldBack | WaitCause::Unknown
                if let Some((name, limit)) = self.limit(subject) =>
            {
                format!(
                    "and the CPU quota of {name} ({}) may be why: what shows that was not logged",
                    size(limit)
                )
            }
            WaitCause::HeldBack => {
                format!(
                    "{share} of it beside an idle CPU: something that this trace does not hold limits it"
                )
            }
            WaitCause::HandingOver => format!("{share} of it until an idle CPU switched to it"),
            WaitCause::Unknown => format!("of {share} the cause is not known"),
            WaitCause::Offline => format!("{share} of it while its CPU was out of use"),
            WaitCause::Interrupt => format!("{share} of it while its CPU handled interrupts"),
            WaitCause::Pinned => format!(
                "{share} of it while another CPU was free where it may not run, behind {}",
                self.behind(subject, cause)
            ),
            WaitCause::Misplaced => {
                format!(
                    "{share} of it while another CPU was free, behind {}",
                    self.behind(subject, cause)
                )
            }
            _ => format!("{share} of it behind {}", self.behind(subject, cause)),
        };
        wrapped(&format!("{who} {waited}, {why}."))
    }

    /// Who ran instead, most first; with a kind of competition, those of that kind.
    fn culprits(&self, subject: &Subject, cause: Option<WaitCause>) -> Vec<Culprit> {
        let told = self.reply.answer.tasks.iter().filter(|row| subject.tasks.contains(&row.task));
        let comms: Vec<_> = told.flat_map(|row| row.comms.iter().copied()).collect();
        let rows = self.reply.answer.blame.iter();
        let rows = rows.filter(|row| row.group == subject.group && comms.contains(&row.comm));
        // Those who changed their name while they waited have a row for each.
        let mut sums = BTreeMap::<TaskId, Nanos>::new();
        for row in rows.filter(|row| cause.is_none_or(|cause| self.is_of(row.by, cause, subject))) {
            *sums.entry(row.by).or_default() += row.time;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(task, time)| (Reverse(*time), *task));
        let mut all = BTreeMap::<_, Culprit>::new();
        for (task, time) in sums {
            let name = self.reply.state.name(task);
            let group = self.reply.answer.groups[task.index()];
            let one = all.entry((name.clone(), group)).or_insert_with(|| Culprit {
                name,
                group,
                tasks: Vec::new(),
                time: Nanos::ZERO,
            });
            one.tasks.push(task);
            one.time += time;
        }
        let mut all: Vec<Culprit> = all.into_values().collect();
        all.sort_by_key(|one| (Reverse(one.time), one.tasks[0]));
        all
    }

    /// `hog (17)`, or `rustc (3 tasks)`.
    fn named(&self, culprit: &Culprit) -> String {
        format!("{} ({})", culprit.name, self.count(culprit))
    }

    /// `17`, or `3 tasks`.
    fn count(&self, culprit: &Culprit) -> String {
        match culprit.tasks.as_slice() {
            [task] => self.reply.state.task(*task).pid.to_string(),
            many => format!("{} tasks", many.len()),
        }
    }

    /// Whether a task that ran counts for a kind of competition.
    fn is_of(&self, task: TaskId, cause: WaitCause, subject: &Subject) -> bool {
        let state = &self.reply.state;
        let is_kernel = is_kernel_thread(&state.name(task));
        let prio = state.task(task).prio;
        let is_fair = prio.is_fair() && !is_kernel;
        let is_own = self.reply.answer.groups[task.index()] == subject.group;
        match cause {
            WaitCause::KernelThread => is_kernel,
            WaitCause::Deadline => prio.is_deadline() && !is_kernel,
            WaitCause::RealTime => prio.is_real_time() && !is_kernel,
            WaitCause::OwnGroup => is_fair && is_own,
            WaitCause::OtherGroup => is_fair && !is_own,
            WaitCause::Fair => is_fair,
            _ => true,
        }
    }

    /// What some tasks are, if they come before fair tasks: `, a real-time task`.
    fn kind(&self, tasks: &[TaskId], subject: &Subject) -> &'static str {
        let is = |cause| tasks.iter().all(|task| self.is_of(*task, cause, subject));
        let kinds = [
            (WaitCause::KernelThread, ", a kernel thread", ", kernel threads"),
            (WaitCause::Deadline, ", a deadline task", ", deadline tasks"),
            (WaitCause::RealTime, ", a real-time task", ", real-time tasks"),
        ];
        let kind = kinds.into_iter().find(|(cause, ..)| is(*cause));
        kind.map_or("", |(_, one, more)| if tasks.len() == 1 { one } else { more })
    }

    /// `hog (17) of /other`, `irq/9 (17), a real-time task`, or `others, mostly rustc (3 tasks, 1.20 s)`; tasks of one name together.
    fn behind(&self, subject: &Subject, cause: WaitCause) -> String {
        let mut culprits = self.culprits(subject, Some(cause));
        if culprits.is_empty() {
            // Their priorities changed, or were not known while they ran.
            culprits = self.culprits(subject, None);
        }
        let Some(most) = culprits.first() else {
            return "nobody who was seen".to_owned();
        };
        let all = culprits.iter().fold(Nanos::ZERO, |sum, one| sum + one.time);
        let name = &most.name;
        let title = self.reply.answer.group_title(most.group).filter(|title| *title != "/");
        let title = title.filter(|_| most.group != subject.group);
        let of = title.map(|title| format!(" of {title}")).unwrap_or_default();
        let count = self.count(most);
        let kind = self.kind(&most.tasks, subject);
        if part(most.time, all) >= MOSTLY {
            return format!("{name} ({count}){of}{kind}");
        }
        let (others, kind) = match cause {
            WaitCause::KernelThread => ("kernel threads", ""),
            WaitCause::Deadline => ("deadline tasks", ""),
            WaitCause::RealTime => ("real-time tasks", ""),
            WaitCause::OwnGroup => ("others of its group", ""),
            WaitCause::OtherGroup => ("other groups", ""),
            _ => ("others", kind),
        };
        // While the subject waited for another cause, too, they ran longer than the share that is told before.
        let time = Some(most.time).filter(|time| *time <= subject.parts.of(cause));
        let time = time.map(|time| format!(", {}", time.readable())).unwrap_or_default();
        format!("{others}, mostly {name}{of} ({count}{time}){kind}")
    }

    fn is_real_time(&self, subject: &Subject) -> bool {
        self.reply.state.task(subject.tasks[0]).prio.is_real_time()
    }

    /// The nearest quota that holds for the subject: that of fair tasks alone.
    fn limit(&self, subject: &Subject) -> Option<(String, Limit)> {
        let is_fair = self.reply.state.task(subject.tasks[0]).prio.is_fair();
        let group = subject.group.filter(|_| is_fair)?;
        let limited = self.groups.quota(group)?;
        Some((self.groups.title(limited.group), *limited))
    }

    fn causes(&self, subject: &Subject) -> String {
        let all = subject.parts.sum();
        let mut text = String::new();
        for (cause, time) in subject.parts.ranked() {
            if part(time, all) < SHARE_MIN {
                continue;
            }
            let beside = match (cause, self.limit(subject)) {
                (WaitCause::Throttled, Some((name, limit))) => format!("{name}: {}", size(limit)),
                _ => String::new(),
            };
            let (title, time, share) = (cause.title(), time.readable(), percent(time, all));
            let line = format!("  {title:<30}{time:>9}{share:>6}  {beside}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let ran: Vec<String> = self
            .culprits(subject, None)
            .into_iter()
            .take(3)
            .map(|one| format!("{} {}", self.named(&one), one.time.readable()))
            .collect();
        if !ran.is_empty() {
            let _ = write!(
                text,
                "\n{}",
                wrapped(&format!("On its CPU meanwhile: {}.{}", ran.join(", "), self.interrupts()))
            );
        }
        let throttled = part(subject.parts.of(WaitCause::Throttled), all) >= SHARE_MIN;
        let limit = self.limit(subject).filter(|_| throttled);
        if let Some(said) = limit
            .and_then(|(name, limit)| went_to(&name, &users(limit.group, self.groups, self.reply)))
        {
            text += &wrapped(&said);
        }
        text + &self.offline()
    }

    /// CPUs that went out of use: the others have their work, too.
    fn offline(&self) -> String {
        let all = self.reply.state.cpus().iter().zip((0..).map(Cpu));
        let gone: CpuSet = all.filter(|(here, _)| here.offline).map(|(_, cpu)| cpu).collect();
        let Some(first) = gone.iter().next() else { return String::new() };
        wrapped(&format!(
            "CPU {gone} went offline, and the others have its work. To put it into use: \
             echo 1 > /sys/devices/system/cpu/cpu{first}/online."
        ))
    }

    /// More CPUs for a subject that other tasks delayed while one was free; `None` if none was.
    fn more_cpus(&self, subject: &Subject) -> Option<String> {
        let pinned = subject.parts.of(WaitCause::Pinned);
        (part(pinned, subject.parts.sum()) >= PINNED_MIN).then(|| {
            format!(
                "For {} of it another CPU was free, where it may not run: taskset -pc {} {}, or \
                 the cpuset of its control group.",
                pinned.readable(),
                self.all_cpus(),
                self.reply.state.task(subject.tasks[0]).pid
            )
        })
    }

    fn all_cpus(&self) -> CpuSet {
        self.reply.state.observed_cpus().map(|(cpu, _)| cpu).collect()
    }

    /// What gives the subject the rights of who runs instead; `None` if it has them.
    fn rights(&self, subject: &Subject, culprit: TaskId) -> Option<String> {
        let state = &self.reply.state;
        let scheduled = |task| self.conditions?.of(state.task(task).pid, state.now());
        let task = subject.tasks[0];
        let pid = state.task(subject.tasks[0]).pid;
        let is_idle = |task| scheduled(task).is_some_and(|one| one.policy == "idle");
        let who = Named::of(task, state);
        if is_idle(task) && !is_idle(culprit) {
            return Some(format!(
                "{who} has the policy SCHED_IDLE: it hardly runs while others want its CPU. For an equal share: \
                 chrt -o -p 0 {pid}."
            ));
        }
        let nice = |task: TaskId| state.task(task).prio.0 - Prio::NORMAL.0;
        let own = nice(task);
        let other = nice(culprit);
        (own > other).then(|| {
            let other_one = Named::of(culprit, state);
            format!(
                "{who} has nice {own}, {other_one} has {other}. For an equal share: renice -n {other} -p {pid}."
            )
        })
    }

    /// What helps if nobody has more rights and no CPU was free. `time`: how long the subject waited for its main cause.
    fn fewer(&self, subject: &Subject, most: &Culprit, time: Nanos, warm_up: &str) -> String {
        let is_own =
            most.group == subject.group && most.name == self.reply.state.name(subject.tasks[0]);
        if is_own {
            return "More of its own tasks want a CPU than there are CPUs for them: let fewer run at once, or \
                    allow them more CPUs."
                .to_owned();
        }
        if part(most.time, time) < CULPRIT_MIN {
            return "More tasks want a CPU than there are CPUs, and none of them alone makes a difference."
                .to_owned();
        }
        format!(
            "More tasks want a CPU than there are CPUs. To try it with fewer rights for {}: \
             `schedlab replay {} --set nice:{}=5{warm_up}`.",
            self.named(most),
            self.input.shown(),
            most.name
        )
    }

    /// Where the time of interrupts is.
    fn interrupts(&self) -> &'static str {
        match self.reply.answer.sees_interrupts {
            true => "",
            false => " Interrupts were not recorded: their time is in it.",
        }
    }

    /// The one thing to change.
    fn advice(&self, subject: &Subject) -> String {
        let file = self.input.shown();
        let state = &self.reply.state;
        let ranked = subject.parts.ranked();
        let Some(&(cause, time)) = ranked.first() else { return String::new() };
        let culprit = self.culprits(subject, Some(cause)).into_iter().next();
        // A replay takes the first 500 ms as its warm-up.
        let is_short = self.reply.observed.duration() < Nanos::from_millis(1_000);
        let warm_up = if is_short { " --warm-up 0s" } else { "" };
        let pid = state.task(subject.tasks[0]).pid;
        let said = match cause {
            WaitCause::Throttled => match self.limit(subject) {
                Some((name, limit)) => {
                    let quota = limit.quota.unwrap_or_default();
                    let window = self.reply.observed.duration().0.max(1) as f64;
                    let periods = window / limit.period.0.max(1) as f64;
                    let more = Nanos((time.0 as f64 / periods) as u64);
                    format!(
                        "Raise the quota of {name} by up to {} for each {} (cpu.max, in version 1 \
                         cpu.cfs_quota_us), or let its tasks do less: other tasks cost it nothing in \
                         this time.",
                        more.readable(),
                        limit.period.readable()
                    ) + if quota < Nanos::from_millis(5) {
                        " A quota below the 5 ms slice of a CPU makes waits longer."
                    } else {
                        ""
                    }
                }
                None if self.is_real_time(subject) => {
                    "Let it do less, give it a fair policy, or raise the limit: cpu.rt_runtime_us of its group \
                     (version 1), kernel.sched_rt_runtime_us, and since Linux 6.12 the share of fair tasks \
                     (/sys/kernel/debug/sched/fair_server)."
                        .to_owned()
                }
                None => "Raise the runtime of the deadline task (chrt --sched-runtime).".to_owned(),
            },
            WaitCause::HeldBack | WaitCause::Unknown if self.limit(subject).is_some() => {
                "If nr_throttled in cpu.stat of that group grows, it is the quota: raise it (cpu.max, in version 1 \
                 cpu.cfs_quota_us), or let its tasks do less."
                    .to_owned()
            }
            WaitCause::HeldBack => format!(
                "Look for a CPU quota of its control group or container (cpu.stat), real-time throttling, or core \
                 scheduling. `schedlab record` stores the limits of groups, and `schedlab why` then names them. \
                 pid {pid} is one of the tasks."
            ),
            WaitCause::HandingOver => format!(
                "Idle CPUs are slow to wake: `schedlab trace power {file}` shows their idle states."
            ),
            WaitCause::Unknown => "Record again: the notes say what is missing.".to_owned(),
            WaitCause::Interrupt => {
                "Move interrupts to other CPUs (/proc/irq/N/smp_affinity), or make them \
                                     fewer; /proc/interrupts counts them."
                    .to_owned()
            }
            WaitCause::Offline => {
                "Put the CPU into use: /sys/devices/system/cpu/cpuN/online.".to_owned()
            }
            WaitCause::Pinned => format!(
                "Let it use more CPUs: taskset -pc {} {pid}, or the cpuset of its control group.",
                self.all_cpus()
            ),
            WaitCause::Misplaced => format!(
                "The scheduler left it behind a busy CPU. `schedlab trace conservation {file}` lists the decisions."
            ),
            WaitCause::RealTime | WaitCause::Deadline => match culprit {
                Some(one) => format!(
                    "{} runs before all fair tasks. Give it a fair policy (chrt -o -p 0 {}), another CPU, or less to do.",
                    Named::of(one.tasks[0], state),
                    state.task(one.tasks[0]).pid
                ),
                None => String::new(),
            },
            WaitCause::KernelThread => match culprit {
                Some(one) => format!(
                    "A kernel thread ran instead. `schedlab trace why {file} --pid {}` shows what made it run.",
                    state.task(one.tasks[0]).pid
                ),
                None => String::new(),
            },
            WaitCause::OwnGroup | WaitCause::OtherGroup | WaitCause::Fair => match culprit {
                Some(one) if cause == WaitCause::OtherGroup => format!(
                    "Give its group more weight (cpu.weight, in version 1 cpu.shares), or move {} to other CPUs.",
                    self.named(&one)
                ),
                Some(one) => self
                    .rights(subject, one.tasks[0])
                    .or_else(|| self.more_cpus(subject))
                    .unwrap_or_else(|| self.fewer(subject, &one, time, warm_up)),
                None => String::new(),
            },
            _ => String::new(),
        };
        wrapped(&said)
    }
}

/// Fewer rights for who ran for a smaller part of a wait do not change it.
const CULPRIT_MIN: f64 = 0.1;

/// From this part of a wait on it is worth to allow more CPUs: some kernels do not log that a CPU idled.
const PINNED_MIN: f64 = 0.02;

/// `20.0 ms of each 100 ms`.
fn size(limit: Limit) -> String {
    format!("{} of each {}", limit.quota.unwrap_or_default().readable(), limit.period.readable())
}

/// What the answer about a window of a stream says first; `None` if tasks hardly waited, but for waits that are
/// denied.
pub(crate) fn first_line(
    reply: &Reply<CausesAnswer>,
    groups: Option<&Groups>,
    denied: &Denied,
) -> Option<Headline> {
    let input = Input::part_of(std::path::Path::new("trace.dat"), None, None);
    let none = Groups::default();
    let groups = groups.unwrap_or(&none);
    let screen = Screen { reply, groups, conditions: None, input: &input, trigger: None, denied };
    let subject = Subject::of(reply, denied).filter(|_| !screen.is_calm())?;
    let said = screen.headline(&subject).trim_end().replace('\n', " ");
    Some(Headline { said, waited: Nanos(subject.parts.sum().0 / subject.tasks.len() as u64) })
}

/// What is said first.
pub(crate) struct Headline {
    /// A sentence.
    pub(crate) said: String,
    /// How long each of those waited whom it is about, on average.
    pub(crate) waited: Nanos,
}

#[cfg(test)]
mod tests {
    use super::super::subject::{self, Denied, Subject, doubtful};
    use super::{Screen, first_line};
    use crate::commands::trace::input::Input;
    use schedlab_model::{Counted, Event, Groups, Member, Nanos, Pid, Prio, What};
    use schedlab_timeline::{Causes, CausesAnswer, Reply, ask, notation};

    const MS: u64 = 1_000_000;

    /// `A` and `B` take turns on CPU 0; `C` is woken on CPU 1, which idles.
    fn reply(c_came_to_run: u64) -> Reply<CausesAnswer> {
        let text =
            "tick 10ms\n0 | AABBAABBAABB\n  | bbaabbaabbaa\n1 | ............\n  |  ccccccccccc";
        let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let (from, to) = (Some(Nanos(0)), Nanos(120 * MS));
        let (pid, ran, waited) = (Pid(3), Nanos(MS), Nanos::ZERO);
        let counted = Counted { pid, from, to, ran, waited, arrivals: c_came_to_run };
        trace.info.counters = Some(vec![counted]);
        ask(&mut trace.source(), Causes::new(&trace.info, &[], 10)).unwrap()
    }

    fn text(reply: &Reply<CausesAnswer>) -> String {
        let (groups, input) = (Groups::default(), Input::part_of("x.dat".as_ref(), None, None));
        let denied = &doubtful(reply, &groups);
        let subject = Subject::of(reply, denied);
        let conditions = None;
        let screen =
            Screen { reply, groups: &groups, conditions, input: &input, trigger: None, denied };
        screen.text(subject.as_ref())
    }

    #[test]
    fn a_wait_that_the_kernel_denies_is_not_what_the_answer_is_about() {
        let text_of = |came_to_run| text(&reply(came_to_run));
        assert!(
            text_of(0).starts_with("C (3) still waits after at least 110 ms"),
            "{}",
            text_of(0)
        );
        let denied = text_of(2);
        assert!(denied.starts_with("A (1)") || denied.starts_with("B (2)"), "{denied}");
        assert!(
            denied.contains("C (3) waits for 110 ms by the events, and is left out"),
            "{denied}"
        );
    }

    #[test]
    fn those_whom_others_make_wait_come_before_those_that_stand_in_their_own_way() {
        let text_of = |rows: &str| {
            let mut trace = notation::parse(rows).unwrap_or_else(|error| panic!("{error}"));
            // Three tasks of one name.
            for pid in 1..=3 {
                let what = What::Comm { pid: Pid(pid), comm: *b"batch\0\0\0\0\0\0\0\0\0\0\0" };
                let first = trace.events[0];
                trace.events.push(Event { what, ..first });
            }
            trace.events.sort_by_key(|event| event.time);
            let causes = Causes::new(&trace.info, &[], 10);
            text(&ask(&mut trace.source(), causes).unwrap()).replace('\n', " ")
        };
        let said =
            text_of("tick 10ms\n0 | ABCABCABCD\n  | baabaabaaa\n  | ccbccbccbb\n  | dddddddddc");
        assert!(
            said.starts_with("D (4) waited 90.0 ms for a CPU, 100 % of it behind batch (3"),
            "{said}"
        );
        assert!(said.contains("On its CPU meanwhile: batch (3 tasks) 90.0 ms."), "{said}");
        assert!(said.contains("rights for batch (3 tasks)"), "{said}");
        let alone = text_of("tick 10ms\n0 | ABCABCABCABC\n  | baabaabaabaa\n  | ccbccbccbccb");
        assert!(alone.contains("More of its own tasks want a CPU"), "{alone}");
    }

    /// A service that wants little: 5 % of the time it waits for three hogs of another group, which wait 20 times as long.
    #[test]
    fn a_small_service_behind_the_hogs_of_another_group_comes_first() {
        let columns = "ABCABCABCABCABCABCAD".repeat(2);
        let waits = |who: char| -> String {
            let of = |on: char| if on == who { ' ' } else { who.to_ascii_lowercase() };
            columns.chars().map(of).collect()
        };
        let service = format!("{}d {}d", " ".repeat(18), " ".repeat(18));
        let text = format!(
            "tick 10ms\n0 | {columns}\n  | {}\n  | {}\n  | {}\n  | {service}",
            waits('A'),
            waits('B'),
            waits('C')
        );
        let first_of = |groups: Option<Groups>| {
            let mut trace = notation::parse(&text).unwrap_or_else(|error| panic!("{error}"));
            for pid in 1..=3 {
                let what = What::Comm { pid: Pid(pid), comm: *b"batch\0\0\0\0\0\0\0\0\0\0\0" };
                let first = trace.events[0];
                trace.events.insert(0, Event { what, ..first });
            }
            trace.info.groups = groups;
            let reply = ask(&mut trace.source(), Causes::new(&trace.info, &[], 10)).unwrap();
            first_line(&reply, None, &Denied::default()).unwrap().said
        };
        let member = |(pid, group)| Member { pid: Pid(pid), at: Nanos::ZERO, group };
        let members = [(1, 0), (2, 0), (3, 0), (4, 1)].map(member).to_vec();
        let names = vec!["/batch".to_owned(), "/shop".to_owned()];
        let first = first_of(Some(Groups { names, members, ..Groups::default() }));
        assert!(first.starts_with("D (4) in /shop waited 20.0 ms for a CPU"), "{first}");
        let first = first_of(None);
        assert!(first.starts_with("batch (3 tasks)"), "{first}");
    }

    #[test]
    fn who_waits_longest_for_nobody_comes_before_those_whom_others_make_wait() {
        let text =
            "tick 10ms\n0 | AABBAABBAABB\n  | bbaabbaabbaa\n1 | ...........D\n  |  dddddddddd";
        let trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let reply = ask(&mut trace.source(), Causes::new(&trace.info, &[], 10)).unwrap();
        let first = first_line(&reply, None, &Denied::default()).unwrap().said;
        assert!(first.starts_with("D (4) waited 100 ms for a CPU, 100 % of it beside"), "{first}");
    }

    #[test]
    fn a_culprit_that_comes_before_fair_tasks_is_called_by_what_it_is() {
        for (prio, comm, said) in [
            (49, b"audiod\0\0\0\0\0\0\0\0\0\0", "behind audiod (1), a real-time task."),
            (-1, b"audiod\0\0\0\0\0\0\0\0\0\0", "behind audiod (1), a deadline task."),
            (120, b"kworker/0:1\0\0\0\0\0", "behind kworker/0:1 (1), a kernel thread."),
            (120, b"audiod\0\0\0\0\0\0\0\0\0\0", "behind audiod (1)."),
        ] {
            let text = "tick 10ms\n0 | AAAAAAAAAAAB\n  |  bbbbbbbbbb";
            let mut trace = notation::parse(text).unwrap_or_else(|error| panic!("{error}"));
            for event in &mut trace.events {
                if let What::Switch { prev, prev_prio, next, next_prio, .. } = &mut event.what {
                    for (pid, its) in [(prev, prev_prio), (next, next_prio)] {
                        *its = if *pid == Pid(1) { Prio(prio) } else { *its };
                    }
                }
            }
            let first = trace.events[0];
            trace
                .events
                .insert(0, Event { what: What::Comm { pid: Pid(1), comm: *comm }, ..first });
            let reply = ask(&mut trace.source(), Causes::new(&trace.info, &[], 10)).unwrap();
            let first = first_line(&reply, None, &Denied::default()).unwrap().said;
            assert!(first.ends_with(said), "{prio}: {first}");
        }
    }

    #[test]
    fn a_window_asks_the_kernel_who_sleeps() {
        let reply = reply(0);
        let said = |asleep: &[i32]| {
            let is_asleep = |pid: Pid| asleep.contains(&pid.0);
            first_line(&reply, None, &subject::asleep(&reply, None, &is_asleep)).unwrap().said
        };
        assert!(said(&[]).starts_with("C (3) still waits"), "{}", said(&[]));
        assert!(!said(&[3]).contains("C (3)"), "{}", said(&[3]));
    }
}
