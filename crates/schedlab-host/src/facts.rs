//! The machine, as every result names it: read from `/proc` and `/sys`, nothing guessed.

use schedlab_model::{
    CgroupFacts, CpuSet, Fact, Frequency, KernelFacts, Knob, LoadFacts, MachineFacts, Pid,
    Topology, Warning,
};
use schedlab_sys::cgroup::{self, Version};
use schedlab_sys::{sched, topology};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Configuration symbols that change how tasks are scheduled or how they are measured.
const CONFIG: [&str; 30] = [
    "CONFIG_HZ",
    "CONFIG_NO_HZ_IDLE",
    "CONFIG_NO_HZ_FULL",
    "CONFIG_HIGH_RES_TIMERS",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_LAZY",
    "CONFIG_PREEMPT_RT",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_SMP",
    "CONFIG_SCHED_SMT",
    "CONFIG_SCHED_MC",
    "CONFIG_SCHED_CLUSTER",
    "CONFIG_SCHED_CORE",
    "CONFIG_SCHED_CLASS_EXT",
    "CONFIG_SCHED_AUTOGROUP",
    "CONFIG_SCHED_DEBUG",
    "CONFIG_SCHEDSTATS",
    "CONFIG_FAIR_GROUP_SCHED",
    "CONFIG_CFS_BANDWIDTH",
    "CONFIG_RT_GROUP_SCHED",
    "CONFIG_UCLAMP_TASK",
    "CONFIG_UCLAMP_TASK_GROUP",
    "CONFIG_NUMA_BALANCING",
    "CONFIG_PSI",
    "CONFIG_VIRT_CPU_ACCOUNTING_GEN",
    "CONFIG_IRQ_TIME_ACCOUNTING",
    "CONFIG_PARAVIRT_TIME_ACCOUNTING",
    "CONFIG_FTRACE",
];

#[must_use]
pub fn facts() -> MachineFacts {
    let root = Path::new("/");
    let sys = Path::new("/sys");
    let online = topology::online(sys).unwrap_or_default();
    let allowed = sched::affinity(Pid(0)).unwrap_or_default();
    let load = load(root);
    let cgroup = control_group();
    let frequency = frequency(root);
    let warnings = doubts(&online, &allowed, &load, &cgroup, &frequency);
    let cpuinfo = file(root, "proc/cpuinfo");
    MachineFacts {
        schedlab: env!("CARGO_PKG_VERSION").into(),
        taken_at: now(),
        host: text(root, "proc/sys/kernel/hostname").unwrap_or_else(|_| "unknown".into()),
        model: Fact::from_result(cpuinfo.as_ref().map_err(Clone::clone).and_then(|t| model(t))),
        memory_bytes: Fact::from_result(memory(root)),
        hypervisor: Fact::from_result(cpuinfo.map(|text| hypervisor(root, &text))),
        kernel: kernel(root),
        online,
        allowed,
        topology: topology::read(sys).unwrap_or_else(|_| Topology::default()),
        smt: Fact::from_result(
            text(root, "sys/devices/system/cpu/smt/active").map(|active| active == "1"),
        ),
        frequency,
        cgroup,
        load,
        boot: Fact::from_result(text(root, "proc/sys/kernel/random/boot_id")),
        clocksource: Fact::from_result(text(
            root,
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
        )),
        knobs: knobs(),
        warnings,
    }
}

fn knobs() -> Vec<Knob> {
    let all = crate::knobs::Tree::here().map_or_else(|_| Vec::new(), |tree| tree.list());
    all.into_iter().filter(|knob| knob.value.is_some()).collect()
}

/// A value, or why not.
trait FromResult<T> {
    fn from_result(result: Result<T, String>) -> Self;
}

impl<T> FromResult<T> for Fact<T> {
    fn from_result(result: Result<T, String>) -> Self {
        result.map_or_else(Self::Unknown, Self::Known)
    }
}

fn file(root: &Path, name: &str) -> Result<String, String> {
    let path = root.join(name);
    let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The trimmed text of a file.
fn text(root: &Path, name: &str) -> Result<String, String> {
    file(root, name).map(|text| text.trim().to_owned())
}

/// The present time in UTC as RFC 3339, to the second.
#[must_use]
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    rfc3339(since.map_or(0, |since| since.as_secs()))
}

/// Days to a date by Howard Hinnant's `civil_from_days` ("chrono-Compatible Low-Level Date Algorithms").
fn rfc3339(unix: u64) -> String {
    let days = unix / 86_400;
    let second = unix % 86_400;
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let hour = second / 3_600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn model(cpuinfo: &str) -> Result<String, String> {
    let names = ["model name", "cpu model", "Processor", "uarch"];
    let value = |line: &str| {
        let (key, value) = line.split_once(':')?;
        names.contains(&key.trim()).then(|| value.trim().to_owned())
    };
    cpuinfo.lines().find_map(value).ok_or_else(|| "/proc/cpuinfo names none".into())
}

fn memory(root: &Path) -> Result<u64, String> {
    let text = file(root, "proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| "/proc/meminfo has no MemTotal".into())
}

/// The hypervisor's name where the firmware tells it, else whether there is one.
fn hypervisor(root: &Path, cpuinfo: &str) -> String {
    if let Ok(kind) = text(root, "sys/hypervisor/type") {
        return kind;
    }
    let flag = |line: &&str| line.starts_with("flags") && line.contains(" hypervisor");
    if !cpuinfo.lines().any(|line| flag(&line)) {
        return String::new();
    }
    let vendor = text(root, "sys/class/dmi/id/sys_vendor").unwrap_or_default();
    if vendor.is_empty() { "unnamed".into() } else { vendor }
}

fn kernel(root: &Path) -> KernelFacts {
    let name = |name: &str| text(root, &format!("proc/sys/kernel/{name}"));
    let release = name("osrelease").unwrap_or_default();
    let config = config(root, &release);
    let version = name("version").unwrap_or_default();
    // The directory is called `root` by the kernel: it is that of the root group's scheduler.
    let ops = ["sys/kernel/sched_ext", "root", "ops"].join("/");
    let sched_ext = match text(root, &ops) {
        Ok(ops) => Ok(ops),
        // Without a scheduler loaded there is no such file, without sched_ext no such directory.
        Err(_) if root.join("sys/kernel/sched_ext").exists() => Ok(String::new()),
        Err(_) => Err("this kernel has no sched_ext".into()),
    };
    KernelFacts {
        preemption: Fact::from_result(preemption(root, &version, config.as_ref().ok())),
        release,
        version,
        build_id: Fact::from_result(build_id(root)),
        architecture: std::env::consts::ARCH.into(),
        command_line: Fact::from_result(text(root, "proc/cmdline")),
        mitigations: Fact::from_result(mitigations(root)),
        config: Fact::from_result(config),
        sched_ext: Fact::from_result(sched_ext),
        sched_ext_state: Fact::from_result(sched_ext_state(root)),
    }
}

/// The state of sched_ext, and how often a scheduler was enabled: a scheduler that was thrown out and loaded again has
/// the same name.
fn sched_ext_state(root: &Path) -> Result<String, String> {
    let state = text(root, "sys/kernel/sched_ext/state")?;
    let enabled = text(root, "sys/kernel/sched_ext/enable_seq").unwrap_or_default();
    Ok(format!("{state} {enabled}").trim_end().to_owned())
}

/// The GNU build id among the kernel's ELF notes.
fn build_id(root: &Path) -> Result<String, String> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let path = root.join("sys/kernel/notes");
    let notes = std::fs::read(&path).map_err(|error| format!("/sys/kernel/notes: {error}"))?;
    let mut rest = &notes[..];
    while let Some((head, body)) = rest.split_first_chunk::<12>() {
        let word = |at: usize| {
            u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        let name = word(0);
        let text = word(4);
        let kind = word(8);
        let begin = name.next_multiple_of(4);
        let Some(id) = begin.checked_add(text).and_then(|end| body.get(begin..end)) else { break };
        if kind == NT_GNU_BUILD_ID as usize && body.starts_with(b"GNU\0") {
            return Ok(id.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        rest = body.get(begin + text.next_multiple_of(4)..).unwrap_or_default();
    }
    Err("/sys/kernel/notes holds no build id".into())
}

/// Which CPU vulnerabilities are mitigated: they cost time at each switch.
fn mitigations(root: &Path) -> Result<String, String> {
    let folder = root.join("sys/devices/system/cpu/vulnerabilities");
    let entries = std::fs::read_dir(&folder)
        .map_err(|error| format!("/sys/devices/system/cpu/vulnerabilities: {error}"))?;
    let mut open = Vec::new();
    let mut mitigated = 0;
    for path in entries.flatten().map(|entry| entry.path()) {
        let state = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        mitigated += u32::from(state.starts_with("Mitigation"));
        open.extend(name.filter(|_| state.starts_with("Vulnerable")));
    }
    open.sort();
    Ok(match (open.is_empty(), mitigated) {
        (true, 0) => "none needed".into(),
        (true, _) => "all".into(),
        (false, _) => format!("not {}", open.join(", ")),
    })
}

/// The preemption model in force. With PREEMPT_DYNAMIC it was chosen at boot, and debugfs tells; the
/// configuration only tells the default.
fn preemption(
    root: &Path,
    version: &str,
    config: Option<&BTreeMap<String, String>>,
) -> Result<String, String> {
    if let Ok(list) = text(root, "sys/kernel/debug/sched/preempt") {
        let chosen = list.split_once('(').and_then(|(_, rest)| Some(rest.split_once(')')?.0));
        if let Some(chosen) = chosen {
            return Ok(chosen.to_owned());
        }
    }
    let command_line = text(root, "proc/cmdline").unwrap_or_default();
    if let Some(chosen) = command_line.split(' ').find_map(|word| word.strip_prefix("preempt=")) {
        return Ok(chosen.to_owned());
    }
    let has = |symbol: &str| config.is_some_and(|c| c.get(symbol).is_some_and(|v| v == "y"));
    for (symbol, name) in [
        ("CONFIG_PREEMPT_RT", "full, real-time"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
        ("CONFIG_PREEMPT_NONE", "none"),
        ("CONFIG_PREEMPT", "full"),
    ] {
        if has(symbol) {
            return Ok(name.to_owned());
        }
    }
    let word = version.split(' ').find(|word| word.starts_with("PREEMPT"));
    word.map(str::to_lowercase)
        .ok_or_else(|| "neither debugfs nor the configuration shows it".into())
}

fn config(root: &Path, release: &str) -> Result<BTreeMap<String, String>, String> {
    let plain = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
    let text = plain.iter().find_map(|name| file(root, name).ok());
    let text = text.map_or_else(|| unpacked(&root.join("proc/config.gz")), Ok)?;
    let wanted = |line: &str| {
        let (key, value) = line.split_once('=')?;
        CONFIG.contains(&key).then(|| (key.to_owned(), value.to_owned()))
    };
    Ok(text.lines().filter_map(wanted).collect())
}

fn unpacked(path: &Path) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(fail)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text)
        .map_err(fail)?;
    Ok(text)
}

fn frequency(root: &Path) -> Frequency {
    let cpufreq = root.join("sys/devices/system/cpu/cpufreq");
    let policies: Vec<_> = std::fs::read_dir(&cpufreq)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("scaling_governor").exists())
        .collect();
    let distinct = |name: &str| {
        let mut all: Vec<String> = policies.iter().filter_map(|p| text(p, name).ok()).collect();
        all.sort_unstable();
        all.dedup();
        match all.is_empty() {
            true => Err("missing cpufreq driver".to_owned()),
            false => Ok(all),
        }
    };
    let turbo = match text(root, "sys/devices/system/cpu/intel_pstate/no_turbo") {
        Ok(off) => Ok(off == "0"),
        Err(_) => text(&cpufreq, "boost")
            .map(|on| on == "1")
            .map_err(|_| "neither intel_pstate nor a boost switch".to_owned()),
    };
    Frequency {
        governors: Fact::from_result(distinct("scaling_governor")),
        driver: Fact::from_result(distinct("scaling_driver").map(|all| all.join(", "))),
        turbo: Fact::from_result(turbo),
    }
}

fn control_group() -> CgroupFacts {
    let none = || "the CPU controller is not mounted".to_owned();
    let Some(cpu) = cgroup::of_cpu() else {
        return CgroupFacts {
            version: Fact::Unknown(none()),
            path: Fact::Unknown(none()),
            cpu_limit: Fact::Unknown(none()),
        };
    };
    let unified = std::fs::read_to_string("/proc/self/mountinfo")
        .is_ok_and(|mounts| mounts.contains(" - cgroup2 "));
    let version = match (cpu.version, unified) {
        (Version::V1, true) => "1, with 2 beside it",
        (Version::V1, false) => "1",
        (Version::V2, _) => "2",
    };
    CgroupFacts {
        version: Fact::Known(version.into()),
        path: Fact::Known(format!("/{}", cpu.path.display())),
        cpu_limit: Fact::from_result(limit(cpu.version, &cpu.groups())),
    }
}

/// The lowest limit of groups, in CPUs: a group has no more than each of those above it.
fn limit(version: Version, groups: &[PathBuf]) -> Result<Option<String>, String> {
    let mut lowest: Option<f64> = None;
    for group in groups {
        let own = match version {
            Version::V1 => limit_v1(group)?,
            // A group without the file has no limit of its own: the root, and where the controller is not handed down.
            Version::V2 => text(group, "cpu.max").ok().and_then(|max| limit_v2(&max)),
        };
        lowest = lowest.into_iter().chain(own).reduce(f64::min);
    }
    Ok(lowest.map(|cpus| format!("{cpus:.2}")))
}

fn limit_v1(group: &Path) -> Result<Option<f64>, String> {
    let Ok(quota) = text(group, "cpu.cfs_quota_us") else { return Ok(None) };
    let period = text(group, "cpu.cfs_period_us")?;
    Ok(if quota.starts_with('-') { None } else { cpus(&quota, &period) })
}

fn limit_v2(max: &str) -> Option<f64> {
    let (quota, period) = max.split_once(' ')?;
    if quota == "max" { None } else { cpus(quota, period) }
}

fn cpus(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.parse().ok()?;
    let period: f64 = period.trim().parse().ok()?;
    Some(quota / period)
}

fn load(root: &Path) -> LoadFacts {
    let mut load = LoadFacts::default();
    let averages = text(root, "proc/loadavg").unwrap_or_default();
    let mut words = averages.split(' ');
    for average in &mut load.average {
        *average = words.next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    }
    let runnable = words.next().and_then(|word| word.split_once('/')?.0.parse().ok());
    load.runnable = runnable.unwrap_or(0);
    let stat = file(root, "proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u64> =
        line.unwrap_or_default().split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    let tick_ns = schedlab_sys::clock::tick().0;
    let field = |index: usize| ticks.get(index).copied().unwrap_or(0) * tick_ns;
    // user nice system idle iowait irq softirq steal
    load.busy_ns = [0, 1, 2, 5, 6].map(field).iter().sum();
    load.steal_ns = field(7);
    load
}

fn doubts(
    online: &CpuSet,
    allowed: &CpuSet,
    load: &LoadFacts,
    cgroup: &CgroupFacts,
    frequency: &Frequency,
) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut doubt = |code: &str, what: String, remedy: &str| {
        all.push(Warning::new(code, what, remedy));
    };
    if load.average[0] > online.len() as f64 * 0.5 {
        let what = format!("the load average is {:.1} on {} CPUs", load.average[0], online.len());
        doubt("machine-busy", what, "measure on a quiet machine");
    }
    if allowed.len() < online.len() {
        let what = format!("this process may run only on CPUs {allowed} of {online}");
        doubt("cpus-restricted", what, "start from a shell that may use all CPUs");
    }
    if let Some(Some(limit)) = cgroup.cpu_limit.known() {
        let what = format!("this control group is limited to {limit} CPUs");
        doubt("cgroup-limited", what, "lift the limit, or measure outside the container");
    }
    if let Some(governors) = frequency.governors.known()
        && governors.iter().any(|governor| governor != "performance")
    {
        let what = format!("the frequency governor is {}", governors.join(", "));
        doubt("governor", what, "use `cpupower frequency-set -g performance` while measuring");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        for (unix, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(unix), date);
        }
    }

    #[test]
    fn limits_are_numbers_of_cpus() {
        assert_eq!(limit_v2("max 100000"), None);
        assert_eq!(limit_v2("150000 100000"), Some(1.5));
    }

    #[test]
    fn a_limit_of_a_group_above_holds_too() {
        let dir = tempfile::tempdir().unwrap();
        let write = |group: &str, file: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join(group)).unwrap();
            std::fs::write(dir.path().join(group).join(file), text).unwrap();
        };
        write("a/b/c", "cpu.weight", "100");
        write("a/b", "cpu.max", "max 100000\n");
        write("a", "cpu.max", "250000 100000\n");
        let groups = |version, path: &str| {
            let mount = dir.path().to_owned();
            let path = path.into();
            cgroup::Hierarchy { version, mount, path }.groups()
        };
        assert_eq!(limit(Version::V2, &groups(Version::V2, "a/b/c")).unwrap().unwrap(), "2.50");
        write("a", "cpu.max", "max 100000\n");
        assert_eq!(limit(Version::V2, &groups(Version::V2, "a/b/c")), Ok(None));
        for (group, quota) in [("d", "150000"), ("d/e", "-1"), ("d/e/f", "200000")] {
            write(group, "cpu.cfs_quota_us", quota);
            write(group, "cpu.cfs_period_us", "100000\n");
        }
        assert_eq!(limit(Version::V1, &groups(Version::V1, "d/e/f")).unwrap().unwrap(), "1.50");
    }

    #[test]
    fn the_preemption_in_force_wins_over_the_configured() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let configured = BTreeMap::from([("CONFIG_PREEMPT_NONE".into(), "y".into())]);
        let model = || preemption(root, "#1 SMP PREEMPT_DYNAMIC", Some(&configured)).unwrap();
        assert_eq!(model(), "none");
        std::fs::create_dir_all(root.join("sys/kernel/debug/sched")).unwrap();
        let file = root.join("sys/kernel/debug/sched/preempt");
        std::fs::write(file, "none voluntary (full) lazy\n").unwrap();
        assert_eq!(model(), "full");
    }

    #[test]
    fn the_build_id_is_the_note_of_gnu_among_others() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/kernel");
        std::fs::create_dir_all(&folder).unwrap();
        let note = |name: &[u8], text: &[u8], kind: u32| {
            let padded = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                bytes
            };
            let lengths = [name.len() as u32, text.len() as u32, kind];
            [lengths.map(u32::to_ne_bytes).concat(), padded(name), padded(text)].concat()
        };
        let other = note(b"Linux\0", &[9; 6], 3);
        let ours = note(b"GNU\0", &[0xab, 0x01, 0xff], 3);
        let whole = [other.clone(), ours].concat();
        std::fs::write(folder.join("notes"), &whole).unwrap();
        assert_eq!(build_id(dir.path()), Ok("ab01ff".into()));
        for end in 0..whole.len() - 1 {
            std::fs::write(folder.join("notes"), &whole[..end]).unwrap();
            assert!(build_id(dir.path()).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn mitigations_name_what_is_left_vulnerable() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/devices/system/cpu/vulnerabilities");
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(mitigations(dir.path()), Ok("none needed".into()));
        std::fs::write(folder.join("spectre_v2"), "Mitigation: Retpolines\n").unwrap();
        assert_eq!(mitigations(dir.path()), Ok("all".into()));
        std::fs::write(folder.join("mds"), "Vulnerable: No microcode\n").unwrap();
        assert_eq!(mitigations(dir.path()), Ok("not mds".into()));
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = facts();
        assert!(!facts.online.is_empty() && !facts.kernel.release.is_empty());
        assert_eq!(facts.topology.cpus(), facts.online);
        assert!(facts.load.busy_ns > 0);
    }
}
