//! Ten traces with one planted fault each, among tasks that do their work: the page names fault and culprit before any
//! key, in its first screen and beside the wait itself. With `SCHEDLAB_PAGES=FOLDER` the pages are kept.

use crate::browser::Browser;
use schedlab_model::{Affinity, Cpu, Groups, Limit, Member, Nanos, Pid, What};
use schedlab_trace::{EventWriter, Options};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Who runs where from when on, as lines of ftrace. Times are microseconds; a task is `name-pid`, and one whose name
/// begins with a capital letter is a real-time task.
#[derive(Default)]
struct Script {
    lines: Vec<(u64, String)>,
    on: BTreeMap<usize, &'static str>,
}

const IDLE: &str = "swapper-0";
/// What runs first on each CPU.
const STOPPERS: [&str; 8] = [
    "migration/0-11",
    "migration/1-12",
    "migration/2-13",
    "migration/3-14",
    "migration/4-15",
    "migration/5-16",
    "migration/6-18",
    "migration/7-19",
];

impl Script {
    /// A machine whose CPUs idle.
    fn of(cpus: usize) -> Self {
        let mut script = Self::default();
        for (cpu, first) in STOPPERS.iter().enumerate().take(cpus) {
            script.run(cpu, 0, first, 'S');
            script.run(cpu, 10, IDLE, 'S');
        }
        script
    }

    fn line(&mut self, cpu: usize, at: u64, event: &str) {
        let on = self.on.get(&cpu).copied().unwrap_or(IDLE);
        let time = format!("{}.{:06}", 100 + at / 1_000_000, at % 1_000_000);
        self.lines.push((at, format!("{on:>20} [{cpu:03}] d..2. {time}: {event}\n")));
    }

    /// A task gets a CPU; the one that ran there leaves it like this.
    fn run(&mut self, cpu: usize, at: u64, next: &'static str, left: char) {
        let on = self.on.get(&cpu).copied().unwrap_or(IDLE);
        let [[prev, prev_pid, prev_prio], [next_name, next_pid, next_prio]] = [on, next].map(parts);
        let left = if on == IDLE { 'R' } else { left };
        let event = format!(
            "sched_switch: prev_comm={prev} prev_pid={prev_pid} prev_prio={prev_prio} prev_state={left} ==> \
             next_comm={next_name} next_pid={next_pid} next_prio={next_prio}"
        );
        self.line(cpu, at, &event);
        self.on.insert(cpu, next);
    }

    /// What runs on a CPU wakes a task there or on another one.
    fn wake(&mut self, by: usize, at: u64, task: &str, to: usize) {
        let [name, pid, prio] = parts(task);
        for (after, event) in [(0, "sched_waking"), (1, "sched_wakeup")] {
            let what = format!("{event}: comm={name} pid={pid} prio={prio} target_cpu={to:03}");
            self.line(by, at + after, &what);
        }
    }

    /// A task sleeps, and works for a while after each of its wakeups, on a CPU of its own.
    fn works(&mut self, cpu: usize, task: &'static str, [every, work, end]: [u64; 3]) {
        for at in (every..end).step_by(every as usize) {
            self.wake(cpu, at, task, cpu);
            self.run(cpu, at + 6, task, 'S');
            self.run(cpu, at + 6 + work, IDLE, 'S');
        }
    }

    fn text(mut self) -> String {
        self.lines.sort_by_key(|(at, _)| *at);
        let lines = self.lines.into_iter().map(|(_, line)| line);
        lines.fold("# tracer: nop\n#\n".to_owned(), |text, line| text + &line)
    }
}

/// Name, pid and priority.
fn parts(task: &str) -> [String; 3] {
    let (name, pid) = task.rsplit_once('-').expect("name-pid");
    let is_real_time = name.starts_with(char::is_uppercase);
    [name.to_owned(), pid.to_owned(), if is_real_time { "49" } else { "120" }.to_owned()]
}

/// What a trace tells beside its events.
#[derive(Default)]
struct Beside {
    /// The CPU on which a task may run alone.
    pinned: &'static [(i32, u16)],
    /// The groups of tasks by their pids.
    groups: &'static [(&'static str, &'static [i32])],
    /// The quota of a group in each 100 ms.
    quota: Option<(&'static str, u64)>,
}

struct Planted {
    name: &'static str,
    script: fn() -> String,
    beside: Beside,
    /// What the first sentence must name: the fault, and who did it.
    says: &'static [&'static str],
    /// What stands beside the wait.
    label: &'static [&'static str],
}

const NOTHING: Beside = Beside { pinned: &[], groups: &[], quota: None };

const PLANTED: [Planted; 10] = [
    Planted {
        name: "real-time",
        script: || {
            let mut script = Script::of(2);
            script.run(1, 500, "encoder-61", 'S');
            for period in 0..6 {
                let at = 1_000 + period * 50_000;
                script.wake(0, at, "web-31", 0);
                script.run(0, at + 5, "web-31", 'S');
                script.wake(0, at + 2_000, "Audio-21", 0);
                script.run(0, at + 2_005, "Audio-21", 'R');
                script.run(0, at + 42_000, "web-31", 'S');
                script.run(0, at + 45_000, IDLE, 'S');
            }
            script.text()
        },
        beside: NOTHING,
        says: &["web (31)", "Audio (21), a real-time task"],
        label: &["web:31 waits 40.0 ms behind Audio:21 on CPU 0", "real-time tasks"],
    },
    Planted {
        name: "pinned",
        script: || {
            let mut script = Script::of(4);
            script.works(1, "logger-61", [7_000, 1_500, 300_000]);
            script.works(2, "ssh-62", [31_000, 4_000, 300_000]);
            script.works(3, "cron-63", [80_000, 2_000, 300_000]);
            script.run(0, 500, "indexer-51", 'S');
            for period in 0..9 {
                let at = 2_000 + period * 30_000;
                script.wake(0, at, "api-52", 0);
                script.run(0, at + 18_000, "api-52", 'R');
                script.run(0, at + 21_000, "indexer-51", 'S');
            }
            script.run(0, 300_000, IDLE, 'S');
            script.text()
        },
        beside: Beside { pinned: &[(52, 0), (51, 0)], ..NOTHING },
        says: &["api (52)", "it may not run", "indexer (51)"],
        label: &["api:52 waits 18.0 ms behind indexer:51 on CPU 0", "pinned"],
    },
    Planted {
        name: "misplaced",
        script: || {
            let mut script = Script::of(8);
            for (cpu, task) in [(2, "logger-61"), (3, "ssh-62"), (5, "cron-63"), (6, "disk-64")] {
                script.works(cpu, task, [5_000 + 3_000 * cpu as u64, 1_200, 200_000]);
            }
            for period in 0..8 {
                let at = 3_000 + period * 24_000;
                script.wake(0, at, "producer-71", 0);
                script.run(0, at + 5, "producer-71", 'S');
                script.wake(0, at + 1_000, "consumer-72", 0);
                script.run(0, at + 13_000, "consumer-72", 'S');
                script.run(0, at + 15_000, IDLE, 'S');
            }
            script.text()
        },
        beside: Beside { pinned: &[(71, 0)], ..NOTHING },
        says: &["consumer (72)", "while another CPU was free", "producer (71)"],
        label: &["consumer:72 waits 12.0 ms behind producer:71 on CPU 0", "misplaced"],
    },
    Planted {
        name: "throttled",
        script: || {
            let mut script = Script::of(2);
            script.works(1, "logger-61", [11_000, 3_000, 600_000]);
            for period in 0..6 {
                let at = 1_000 + period * 100_000;
                script.run(0, at, "shop-81", 'R');
                script.run(0, at + 30_000, IDLE, 'R');
            }
            script.run(0, 601_000, "shop-81", 'R');
            script.run(0, 602_000, IDLE, 'S');
            script.text()
        },
        beside: Beside {
            groups: &[("/", &[61, 11, 12]), ("/shop", &[81])],
            quota: Some(("/shop", 30)),
            ..NOTHING
        },
        says: &["shop (81)", "the CPU quota of /shop (30.0 ms of each 100 ms) was used up"],
        label: &["shop:81 waits 70.0 ms", "throttled"],
    },
    Planted {
        name: "held-back",
        script: || {
            let mut script = Script::of(2);
            script.works(1, "logger-61", [11_000, 3_000, 600_000]);
            for period in 0..6 {
                script.run(0, 1_000 + period * 100_000, "batch-83", 'R');
                script.run(0, 21_000 + period * 100_000, IDLE, 'R');
            }
            script.text()
        },
        beside: NOTHING,
        says: &["batch (83)", "beside an idle CPU", "does not hold limits it"],
        label: &["batch:83 waits", "held back"],
    },
    Planted {
        name: "other-group",
        script: || {
            let mut script = Script::of(1);
            script.run(0, 500, "rustc-42", 'S');
            for period in 0..20 {
                let at = 1_000 + period * 25_000;
                script.wake(0, at, "web-41", 0);
                script.run(0, at + 16_000, "web-41", 'R');
                script.run(0, at + 20_000, "rustc-42", 'S');
            }
            script.text()
        },
        beside: Beside {
            groups: &[("/", &[11, 12]), ("/shop", &[41]), ("/build", &[42])],
            ..NOTHING
        },
        says: &["web (41) in /shop", "rustc (42) of /build"],
        label: &["web:41 waits 16.0 ms behind rustc:42 on CPU 0", "other groups"],
    },
    Planted {
        name: "own-group",
        script: || {
            let mut script = Script::of(2);
            let workers = ["pool-91", "pool-92", "pool-93", "pool-94", "pool-95", "pool-96"];
            for (place, task) in workers.into_iter().enumerate() {
                script.wake(0, 100, task, place % 2);
            }
            for turn in 0..60_usize {
                for cpu in 0..2 {
                    let next = workers[2 * (turn % 3) + cpu];
                    script.run(cpu, 1_000 + 6_000 * turn as u64 + 100 * cpu as u64, next, 'R');
                }
            }
            script.text()
        },
        beside: Beside {
            groups: &[("/", &[11, 12]), ("/pool", &[91, 92, 93, 94, 95, 96])],
            ..NOTHING
        },
        says: &["pool (6 tasks) in /pool", "behind pool (6 tasks)"],
        label: &["waits 13.0 ms behind pool:9", "own group"],
    },
    Planted {
        name: "kernel-thread",
        script: || {
            let mut script = Script::of(2);
            script.run(1, 500, "encoder-61", 'S');
            for period in 0..6 {
                let at = 1_000 + period * 50_000;
                script.wake(0, at, "kworker/0:2-17", 0);
                script.run(0, at + 4, "kworker/0:2-17", 'S');
                script.wake(1, at + 3_000, "ssh-32", 0);
                script.run(0, at + 33_000, "ssh-32", 'S');
                script.run(0, at + 34_000, IDLE, 'S');
            }
            script.text()
        },
        beside: Beside { pinned: &[(32, 0)], ..NOTHING },
        says: &["ssh (32)", "kworker/0:2 (17)"],
        label: &["ssh:32 waits 30.0 ms behind kworker/0:2:17 on CPU 0"],
    },
    Planted {
        name: "interrupts",
        script: || {
            let mut script = Script::of(2);
            script.works(1, "logger-61", [3_000, 2_400, 200_000]);
            script.run(0, 500, "nginx-33", 'S');
            for period in 0..8 {
                let at = 2_000 + period * 24_000;
                script.wake(0, at, "video-34", 0);
                script.line(0, at + 100, "irq_handler_entry: irq=24 name=nvme0q1");
                script.line(0, at + 10_900, "irq_handler_exit: irq=24 ret=handled");
                script.run(0, at + 11_000, "video-34", 'R');
                script.run(0, at + 13_000, "nginx-33", 'S');
            }
            script.text()
        },
        beside: Beside { pinned: &[(33, 0), (34, 0)], ..NOTHING },
        says: &["video (34)", "while its CPU handled interrupts"],
        label: &["video:34 waits 11.0 ms behind irq=24 name=nvme0q1 on CPU 0", "interrupts"],
    },
    Planted {
        name: "starved",
        script: || {
            let mut script = Script::of(1);
            script.run(0, 500, "spinner-35", 'S');
            script.wake(0, 40_000, "backup-36", 0);
            for period in 0..40 {
                let at = 3_000 + period * 10_000;
                script.wake(0, at, "ui-37", 0);
                script.run(0, at + 1_000, "ui-37", 'R');
                script.run(0, at + 2_000, "spinner-35", 'S');
            }
            script.text()
        },
        beside: NOTHING,
        says: &["backup (36) still waits", "mostly spinner (35"],
        label: &["backup:36 waits ≥ 355 ms behind spinner:35 on CPU 0"],
    },
];

/// Writes the trace: what ftrace does not tell is in a trace.dat.
fn write(planted: &Planted, folder: &Path) -> std::path::PathBuf {
    let text = folder.join("x.txt");
    std::fs::write(&text, (planted.script)()).unwrap();
    let options = Options { arguments: true, ..Options::default() };
    let mut source = schedlab_trace::open_with(&text, &options).unwrap();
    let (mut events, mut arguments, mut batch) = (Vec::new(), Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            events.push(*event);
            if let What::Other { .. } = event.what {
                arguments.push(source.arguments(index).unwrap_or_default().into_owned());
            }
        }
    }
    let mut info = source.info().clone();
    let Beside { pinned, groups, quota } = planted.beside;
    let affinity = |(pid, cpu): &(i32, u16)| Affinity {
        pid: Pid(*pid),
        at: Nanos::ZERO,
        allowed: std::iter::once(Cpu(*cpu)).collect(),
    };
    info.affinity = Some(pinned.iter().map(affinity).collect());
    if let Some(all) = info.affinity.as_mut() {
        all.sort_by_key(|one| one.pid);
    }
    let mut of =
        Groups { names: groups.iter().map(|one| one.0.to_owned()).collect(), ..Groups::default() };
    for (group, (_, pids)) in (0..).zip(groups) {
        of.members.extend(pids.iter().map(|pid| Member { pid: Pid(*pid), at: Nanos::ZERO, group }));
        let ms = quota.filter(|(name, _)| *name == of.names[group as usize]).map(|one| one.1);
        of.limits.push(Limit {
            at: Nanos::ZERO,
            group,
            quota: ms.map(Nanos::from_millis),
            period: Nanos::from_millis(100),
            burst: Nanos::ZERO,
            shares: 1024,
        });
    }
    of.members.sort();
    info.groups = Some(of).filter(|_| !groups.is_empty());
    let path = folder.join(format!("{}.dat", planted.name));
    let mut writer = EventWriter::create(&path, &info).unwrap();
    writer.events_with(&events, &arguments).unwrap();
    writer.finish().unwrap();
    path
}

/// The first sentence if it is seen without a move, and the label beside the wait if it was drawn.
const SEEN: &str = "(() => {
    const p = window.schedlabPage, c = p.painter.context, texts = [], fill = c.fillText.bind(c);
    c.fillText = (text, x, y) => { texts.push(text); fill(text, x, y); };
    p.now();
    c.fillText = fill;
    const said = document.querySelector('#answer p'), box = said.getBoundingClientRect();
    const seen = box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
    return [seen ? said.textContent : '(not in the first screen)', texts.find((text) => text.includes(' waits ')) ?? ''];
})()";

#[test]
fn ten_planted_faults_are_named_with_their_culprits_before_any_key() {
    let Some(mut browser) = Browser::start("planted", (1400, 900)) else { return };
    let kept = std::env::var_os("SCHEDLAB_PAGES").map(std::path::PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = String::new();
    for planted in &PLANTED {
        let trace = write(planted, folder.path());
        let page = trace.with_extension("html");
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let made = command.arg("view").arg(&trace).arg("-o").arg(&page).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        browser.open_file(&page);
        let seen = browser.evaluate(SEEN);
        let [sentence, label] = [0, 1].map(|at| seen[at].as_str().unwrap_or_default());
        for (words, text) in [(planted.says, sentence), (planted.label, label)] {
            let lacks: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
            if !lacks.is_empty() {
                let _ = writeln!(wrong, "{}: {lacks:?} not in: {text}", planted.name);
            }
        }
        if let Some(kept) = &kept {
            std::fs::copy(&page, kept.join(page.file_name().unwrap())).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
