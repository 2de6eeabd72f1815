//! Configurations of kernels that we build: small, without modules and debugging information, and with
//! all that a guest of ours and its measuring need. Loads that send over UDP need `CONFIG_INET=y` too.

use std::fmt::Write as _;

/// What every kernel of ours has, as lines of a configuration; the rest is off.
const BASE: &str = "\
CONFIG_64BIT=y
CONFIG_EXPERT=y
CONFIG_BASE_FULL=y
CONFIG_UNWINDER_GUESS=y
CONFIG_SMP=y
CONFIG_NR_CPUS=64
CONFIG_SCHED_MC=y
CONFIG_SCHED_SMT=y
CONFIG_NUMA=y
CONFIG_HYPERVISOR_GUEST=y
CONFIG_PVH=y
CONFIG_ACPI=y
CONFIG_PCI=y
CONFIG_HPET_TIMER=y
CONFIG_X86_PM_TIMER=y
CONFIG_X86_IOPL_IOPERM=y
CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y
CONFIG_PRINTK=y
CONFIG_BUG=y
CONFIG_KALLSYMS=y
CONFIG_TTY=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_BINFMT_ELF=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_MULTIUSER=y
CONFIG_SYSVIPC=y
CONFIG_POSIX_TIMERS=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_SIGNALFD=y
CONFIG_TIMERFD=y
CONFIG_EVENTFD=y
CONFIG_MEMBARRIER=y
CONFIG_RSEQ=y
CONFIG_ADVISE_SYSCALLS=y
CONFIG_MEMFD_CREATE=y
CONFIG_SHMEM=y
CONFIG_TMPFS=y
CONFIG_FILE_LOCKING=y
CONFIG_PROC_FS=y
CONFIG_PROC_SYSCTL=y
CONFIG_SYSFS=y
CONFIG_DEVTMPFS=y
CONFIG_NET=y
CONFIG_UNIX=y
CONFIG_PERF_EVENTS=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_NO_HZ_IDLE=y
CONFIG_DEBUG_KERNEL=y
CONFIG_DEBUG_INFO_NONE=y
CONFIG_DEBUG_FS=y
CONFIG_SCHED_DEBUG=y
CONFIG_SCHEDSTATS=y
CONFIG_TASKSTATS=y
CONFIG_TASK_DELAY_ACCT=y
CONFIG_CGROUPS=y
CONFIG_CGROUP_SCHED=y
CONFIG_FAIR_GROUP_SCHED=y
CONFIG_CFS_BANDWIDTH=y
CONFIG_CPUSETS=y
CONFIG_SCHED_AUTOGROUP=y
CONFIG_FTRACE=y
CONFIG_ENABLE_DEFAULT_TRACERS=y
CONFIG_SCHED_CORE=y
CONFIG_CPU_FREQ=y
CONFIG_CPU_FREQ_GOV_SCHEDUTIL=y
CONFIG_UCLAMP_TASK=y
CONFIG_UCLAMP_TASK_GROUP=y
";

/// What sched_ext needs: types of the kernel's own code, which are made of debugging information. Programs that
/// print or copy text need `BPF_EVENTS`, and that needs a kind of probe.
const EXT: [&str; 7] = [
    "CONFIG_BPF_SYSCALL=y",
    "CONFIG_BPF_JIT=y",
    "CONFIG_UPROBE_EVENTS=y",
    "CONFIG_BPF_EVENTS=y",
    "CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y",
    "CONFIG_DEBUG_INFO_BTF=y",
    "CONFIG_SCHED_CLASS_EXT=y",
];
/// What excludes debugging information.
const WITHOUT: &str = "CONFIG_DEBUG_INFO_NONE=y";

/// What is chosen of a kernel's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Ticks a second: 100, 250, 300 or 1000.
    pub hz: u32,
    /// The preemption model: `none`, `voluntary`, `full`, `lazy`.
    pub preemption: String,
    /// Further symbols, as `CONFIG_X=y`; they win over all else.
    pub set: Vec<String>,
    /// Whether schedulers of BPF programs can be loaded (sched_ext).
    pub ext: bool,
    /// This many instructions that do nothing begin each function of the fair scheduler. 0: none. Such
    /// a kernel decides as the one without them; it shows how much neutral code changes a result.
    pub placebo: u32,
}

/// The most instructions of a placebo.
pub const PLACEBO_MAX: u32 = 64;

impl Default for Choice {
    fn default() -> Self {
        Self {
            hz: 250,
            preemption: "voluntary".to_owned(),
            set: Vec::new(),
            ext: false,
            placebo: 0,
        }
    }
}

impl Choice {
    /// What is wrong with it, in a sentence.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String, String)> {
        if ![100, 250, 300, 1000].contains(&self.hz) {
            return Err(("hz", self.hz.to_string(), "use 100, 250, 300 or 1000".to_owned()));
        }
        if self.model().is_none() {
            let why = "use none, voluntary, full or lazy".to_owned();
            return Err(("preempt", self.preemption.clone(), why));
        }
        if self.placebo > PLACEBO_MAX {
            let why = format!("use 0 to {PLACEBO_MAX}");
            return Err(("placebo", self.placebo.to_string(), why));
        }
        let is_setting = |text: &&String| {
            let name = text.split_once('=').map(|(name, _)| name).unwrap_or_default();
            let tail = name.strip_prefix("CONFIG_").unwrap_or_default();
            !tail.is_empty() && tail.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match self.set.iter().find(|text| !is_setting(text) || text.contains('\n')) {
            Some(wrong) => Err(("set", wrong.clone(), "write CONFIG_NAME=y".to_owned())),
            None => Ok(()),
        }
    }

    fn model(&self) -> Option<&'static str> {
        let models = [
            ("none", "CONFIG_PREEMPT_NONE=y"),
            ("voluntary", "CONFIG_PREEMPT_VOLUNTARY=y"),
            ("full", "CONFIG_PREEMPT=y"),
            ("lazy", "CONFIG_PREEMPT_LAZY=y"),
        ];
        models.into_iter().find(|(name, _)| *name == self.preemption).map(|(_, line)| line)
    }

    /// The lines that the configuration must have.
    pub(crate) fn lines(&self) -> Vec<String> {
        let name = |line: &str| line.split('=').next().unwrap_or_default().to_owned();
        let own: Vec<String> = self.set.iter().map(|line| name(line)).collect();
        let chosen =
            [format!("CONFIG_HZ_{}=y", self.hz), self.model().unwrap_or_default().to_owned()];
        let base = BASE.lines().filter(|line| !self.ext || *line != WITHOUT);
        let rest = base.chain(self.ext()).map(str::to_owned).chain(chosen);
        let rest = rest.filter(|line| !own.contains(&name(line)));
        rest.chain(self.set.iter().cloned()).collect()
    }

    /// What the configuration must have taken for sched_ext.
    pub(crate) fn ext(&self) -> impl Iterator<Item = &'static str> {
        EXT.into_iter().filter(|_| self.ext)
    }

    /// Arguments of make beside the configuration.
    pub(crate) fn flags(&self) -> Vec<String> {
        let nops = |count: u32| format!("CFLAGS_fair.o=-fpatchable-function-entry={count}");
        (self.placebo > 0).then(|| nops(self.placebo)).into_iter().collect()
    }

    /// The configuration as a part of the kernel's name: `1000hz-full-ext`, from letters, digits, `-` and `_`.
    #[must_use]
    pub fn word(&self) -> String {
        let mut word = format!("{}hz-{}", self.hz, self.preemption);
        for line in &self.set {
            let text = line.trim_start_matches("CONFIG_").to_lowercase().replace('=', "-");
            let fits = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
            word.push('-');
            word.extend(text.chars().map(fits));
        }
        if self.ext {
            word.push_str("-ext");
        }
        if self.placebo > 0 {
            let _ = write!(word, "-placebo{}", self.placebo);
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_wins_over_the_rest() {
        let choice = Choice {
            hz: 1000,
            preemption: "full".to_owned(),
            set: vec!["CONFIG_UCLAMP_TASK=n".to_owned()],
            ext: false,
            placebo: 3,
        };
        choice.check().unwrap();
        let lines = choice.lines();
        let has = |line: &str| lines.iter().any(|l| l == line);
        assert!(has("CONFIG_HZ_1000=y") && has("CONFIG_PREEMPT=y") && has("CONFIG_UCLAMP_TASK=n"));
        assert!(!has("CONFIG_UCLAMP_TASK=y") && has("CONFIG_SMP=y"));
        assert_eq!(choice.word(), "1000hz-full-uclamp_task-n-placebo3");
        assert_eq!(choice.flags(), ["CFLAGS_fair.o=-fpatchable-function-entry=3"]);
        assert!(Choice::default().flags().is_empty());
        let plain = Choice::default().lines();
        let ext = Choice { ext: true, ..Choice::default() };
        assert!(plain.iter().any(|line| line == WITHOUT));
        assert!(!ext.lines().iter().any(|line| line == WITHOUT));
        assert!(ext.ext().all(|line| ext.lines().iter().any(|l| l == line)));
        assert_eq!(ext.word(), "250hz-voluntary-ext");
        // Without them the kernel refuses each scheduler of tools/sched_ext.
        for needed in ["CONFIG_UPROBE_EVENTS=y", "CONFIG_BPF_EVENTS=y"] {
            assert!(ext.lines().iter().any(|line| line == needed), "{needed}");
        }
    }

    #[test]
    fn wrong_choices_are_named() {
        let base = Choice::default();
        for (choice, key) in [
            (Choice { hz: 123, ..base.clone() }, "hz"),
            (Choice { preemption: "some".to_owned(), ..base.clone() }, "preempt"),
            (Choice { placebo: PLACEBO_MAX + 1, ..base.clone() }, "placebo"),
            (Choice { set: vec!["UCLAMP".to_owned()], ..base.clone() }, "set"),
            (Choice { set: vec!["CONFIG_A;B=y".to_owned()], ..base }, "set"),
        ] {
            assert_eq!(choice.check().unwrap_err().0, key);
        }
    }
}
