//! The guest's side: this program as init of a kernel that QEMU booted.
//!
//! It mounts what a machine has, tells what it offers, and stops the virtual machine. From that state
//! each run starts: init reads the run from fw_cfg, performs it on its own machine, tells the result
//! and stops the virtual machine again. It speaks through ports alone, so no driver of the guest's
//! kernel takes part.

use crate::Clock;
use crate::frame::{Domain, Frame, GuestRequest, Which};
use crate::scheduler::Scheduler;
use schedlab_model::{Cpu, CpuSet, Nanos, Warning};
use schedlab_sys::mount::mount;
use schedlab_sys::port::{Port, Ports};
use schedlab_workload::{Figure, Interval, Machine, MachineError, Output, Recorded, Stream};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// First argument of the program as a guest's init.
pub const ARGUMENT: &str = "__guest";

/// What `pvpanic` gets, which stops the virtual machine.
const STOP: u8 = 1;
/// What the watchdog gets: it stops the virtual machine after 2 s.
const WATCHDOG: u8 = 14;
/// How long the guest sleeps meanwhile: until after the machine was stopped, and some time after that.
const ASLEEP: std::time::Duration = std::time::Duration::from_millis(2_500);
/// The item that lists the others.
const LIST: u16 = 0x19;
/// The name of the item that holds the run.
pub(crate) const ITEM: &str = "opt/schedlab/run";

/// How init's last words begin.
pub(crate) const FAILED: &str = "schedlab: the guest failed";

/// File systems of a guest: kind and place. One that the kernel does not have is left out.
const MOUNTS: [(&str, &str); 9] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
];

/// How long the guest is left alone after its boot, so that what the kernel put off is done.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(500);

/// The life of a guest. `clock` is the second argument; `machine` makes the machine on which it performs the run, once all is mounted.
///
/// Returns only if something failed; the kernel then panics, which ends the virtual machine.
pub fn guest(
    clock: Option<&str>,
    machine: &mut dyn FnMut() -> io::Result<Box<dyn Machine>>,
) -> ExitCode {
    if std::process::id() != 1 {
        let _ = writeln!(io::stderr(), "schedlab: {ARGUMENT} is for the init of a virtual machine");
        return ExitCode::from(2);
    }
    if let Err(error) = live(clock == Some(Clock::Instructions.name()), machine) {
        let _ = writeln!(io::stderr(), "{FAILED}: {error}");
    }
    ExitCode::FAILURE
}

fn live(exact: bool, machine: &mut dyn FnMut() -> io::Result<Box<dyn Machine>>) -> io::Result<()> {
    for (kind, place) in MOUNTS {
        // Without one of them the machine offers less, and says so.
        let _ = mount(kind, Path::new(place));
    }
    let ports = Ports::open()?;
    let scheduler = Scheduler::start()?;
    let mut machine = machine()?;
    let ready = Frame::Ready {
        offers: Box::new(machine.offers().clone()),
        facts: Box::new(machine.facts()),
        domains: domains(),
    };
    let mut bytes = Vec::new();
    ready.write(&[], &mut bytes);
    std::thread::sleep(SETTLE);
    ports.write_all(Port::Console, &bytes);
    // A run begins here, in another QEMU.
    if exact {
        // A guest that stops itself stops before or after its clock jumps to the next timer: two
        // threads of QEMU race. A watchdog stops an idle guest from the thread that moves the clock.
        ports.write_u8(Port::Watchdog, WATCHDOG);
        std::thread::sleep(ASLEEP);
    } else {
        ports.write_u8(Port::Panic, STOP);
    }
    let asked: GuestRequest = serde_json::from_slice(&item(&ports)?)?;
    std::thread::sleep(asked.wait.as_duration());
    let mut told = Collected::default();
    let result = machine.run(&asked.spec, &mut told);
    if let Some(scheduler) = scheduler {
        told.0.push(Frame::Note(scheduler.stop()?));
    }
    ports.write_all(Port::Console, &told.finish(result, machine.as_ref()));
    ports.write_u8(Port::Panic, STOP);
    Err(io::Error::other("it went on after its run"))
}

/// The item [`ITEM`] of fw_cfg.
fn item(ports: &Ports) -> io::Result<Vec<u8>> {
    let read =
        |count: usize| -> Vec<u8> { (0..count).map(|_| ports.read_u8(Port::Data)).collect() };
    ports.write_u16(Port::Select, LIST);
    let count = read(4).iter().fold(0, |all, &byte| all << 8 | usize::from(byte));
    for _ in 0..count {
        // size, number, two unused bytes, name padded with zeros
        let numbers = read(8);
        let name = read(56);
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        if &name[..end] == ITEM.as_bytes() {
            let size = u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]);
            ports.write_u16(Port::Select, u16::from_be_bytes([numbers[4], numbers[5]]));
            // Padded with spaces, so that runs of other lengths take the same time to read.
            return Ok(read(size as usize));
        }
    }
    Err(io::Error::other(format!("fw_cfg has no item {ITEM}")))
}

/// What the machine tells, kept until the run is over.
#[derive(Default)]
struct Collected(Vec<Frame>);

fn place(stream: Stream) -> PathBuf {
    let name = match stream {
        Stream::Trace => "trace.dat",
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    };
    Path::new("/tmp").join(name)
}

impl Output for Collected {
    fn path(&mut self, stream: Stream) -> PathBuf {
        place(stream)
    }

    fn figure(&mut self, figure: Figure) -> io::Result<()> {
        self.0.push(Frame::Figure(figure));
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) {
        self.0.push(Frame::Interval(Box::new(interval.clone())));
    }

    fn interval_beside(&mut self, label: &str, interval: &Interval) {
        let interval = Box::new(interval.clone());
        self.0.push(Frame::Beside { label: label.to_owned(), interval });
    }

    fn recorded(&mut self, what: &Recorded) {
        self.0.push(Frame::Recorded(what.clone()));
    }

    fn note(&mut self, sentence: &str) {
        self.0.push(Frame::Note(sentence.to_owned()));
    }

    fn warning(&mut self, warning: Warning) {
        self.0.push(Frame::Warning(warning));
    }

    fn stopped(&self) -> bool {
        false
    }
}

impl Collected {
    /// The frames of the whole run, streams and end included.
    fn finish(
        self,
        result: Result<schedlab_workload::Outcome, MachineError>,
        machine: &dyn Machine,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.iter().for_each(|frame| frame.write(&[], &mut bytes));
        for which in Which::ALL {
            if let Ok(content) = fs::read(place(which.stream())) {
                Frame::Stream(which).write(&content, &mut bytes);
            }
        }
        Frame::After(machine.facts().load).write(&[], &mut bytes);
        let last = match result {
            Ok(outcome) => {
                let schedlab_workload::Outcome { exit_code, interrupted, censored } = outcome;
                Frame::Ended { exit_code, interrupted, censored }
            }
            Err(error) => Frame::Failed(error.into()),
        };
        last.write(&[], &mut bytes);
        bytes
    }
}

/// The scheduler domains of each CPU, smallest first.
fn domains() -> Vec<Vec<Domain>> {
    // Since 6.4 the kernel shows them only if asked to.
    let verbose = Path::new("/sys/kernel/debug/sched/verbose");
    let _ = schedlab_sys::kernel_file::write(verbose, "1");
    let roots = ["/sys/kernel/debug/sched/domains", "/proc/sys/kernel/sched_domain"];
    let root = roots.map(Path::new).into_iter().find(|root| root.is_dir());
    let spans = spans(&fs::read_to_string("/proc/schedstat").unwrap_or_default());
    let of_cpu = |(cpu, folder): (usize, PathBuf)| -> Vec<Domain> {
        let text = |path: PathBuf| fs::read_to_string(path).ok().map(|t| t.trim().to_owned());
        let domain = |index: usize| {
            let folder = folder.join(format!("domain{index}"));
            let flags = text(folder.join("flags")).unwrap_or_default();
            let cpus = spans.get(&(cpu, index)).cloned().unwrap_or_default();
            Some(Domain { name: text(folder.join("name"))?, flags, cpus })
        };
        (0..).map_while(domain).collect()
    };
    let all = root.map_or_else(Vec::new, |root| {
        (0..)
            .map(|cpu| (cpu, root.join(format!("cpu{cpu}"))))
            .take_while(|(_, f)| f.is_dir())
            .map(of_cpu)
            .collect()
    });
    let _ = schedlab_sys::kernel_file::write(verbose, "0");
    all
}

/// The CPUs of each domain, by CPU and index, from `/proc/schedstat` (Documentation/scheduler/
/// sched-stats.rst): `domain0 00000003 ...`, since version 17 with the domain's name before the mask.
fn spans(schedstat: &str) -> BTreeMap<(usize, usize), CpuSet> {
    let mut all = BTreeMap::new();
    let mut cpu = None;
    for line in schedstat.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let number = |prefix: &str| first.strip_prefix(prefix)?.parse::<usize>().ok();
        if let Some(found) = number("cpu") {
            cpu = Some(found);
        } else if let (Some(cpu), Some(index)) = (cpu, number("domain"))
            && let Some(cpus) = words.take(2).find_map(mask)
        {
            all.insert((cpu, index), cpus);
        }
    }
    all
}

/// A mask of CPUs in groups of 32 bits, the highest first: `00000000,0000000f`.
fn mask(text: &str) -> Option<CpuSet> {
    let mut cpus = Vec::new();
    for (group, word) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        let first = u16::try_from(group).ok()? * 32;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| Cpu(first + bit)));
    }
    Some(cpus.into_iter().collect())
}

/// How long a repeat waits before it begins: a fraction of `period` that is another one for each of the
/// first repeats, by the golden ratio; none for the first.
pub(crate) fn wait(repeat: u32, period: Nanos) -> Nanos {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    Nanos(((f64::from(repeat) * GOLDEN).fract() * period.0 as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn domains_span_the_cpus_that_schedstat_tells() {
        let text = "version 15\ntimestamp 4\ncpu0 0 0\ndomain0 00000000,0000000f 0 1\n\
                    domain1 00000001,000000ff 2\ncpu1 0\ndomain0 MC 00000003 1\n";
        let all = spans(text);
        let told: Vec<(usize, usize, String)> =
            all.into_iter().map(|((cpu, index), cpus)| (cpu, index, cpus.to_string())).collect();
        let expected = [(0, 0, "0-3"), (0, 1, "0-7,32"), (1, 0, "0-1")];
        assert_eq!(told, expected.map(|(cpu, index, cpus)| (cpu, index, cpus.to_owned())));
    }

    #[test]
    fn repeats_begin_at_phases_that_lie_apart() {
        let period = Nanos::from_millis(4);
        assert_eq!(wait(0, period), Nanos::ZERO);
        let waits: BTreeSet<Nanos> = (0..16).map(|repeat| wait(repeat, period)).collect();
        assert!(waits.iter().all(|&wait| wait < period));
        let apart = waits.iter().zip(waits.iter().skip(1)).map(|(a, b)| *b - *a).min().unwrap();
        assert!(apart > Nanos::from_micros(100), "{apart}");
    }
}
