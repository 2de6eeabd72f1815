//! Knobs of kernel generations, on copies of their files.

use super::*;
use schedlab_sys::guard::Undo;
use std::io::Write as _;

/// A tree as one generation of kernels has it.
fn tree(release: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    };
    put("proc/sys/kernel/osrelease", release);
    for (path, text) in files {
        put(path, text);
    }
    let tree = Tree::at(root.path()).unwrap();
    (root, tree)
}

const OLD: &[(&str, &str)] = &[
    ("proc/sys/kernel/sched_latency_ns", "24000000"),
    ("proc/sys/kernel/sched_min_granularity_ns", "3000000"),
    ("proc/sys/kernel/sched_wakeup_granularity_ns", "4000000"),
    ("proc/sys/kernel/sched_migration_cost_ns", "500000"),
    ("sys/kernel/debug/sched_features", "GENTLE_FAIR_SLEEPERS NO_NEXT_BUDDY WAKEUP_PREEMPTION"),
];
const MIDDLE: &[(&str, &str)] = &[
    ("sys/kernel/debug/sched/latency_ns", "24000000"),
    ("sys/kernel/debug/sched/min_granularity_ns", "3000000"),
    ("sys/kernel/debug/sched/wakeup_granularity_ns", "4000000"),
    ("sys/kernel/debug/sched/tunable_scaling", "1"),
    ("sys/kernel/debug/sched/features", "GENTLE_FAIR_SLEEPERS NO_NEXT_BUDDY WAKEUP_PREEMPTION"),
    ("sys/kernel/debug/sched/preempt", "none (voluntary) full"),
];
const NEW: &[(&str, &str)] = &[
    ("sys/kernel/debug/sched/base_slice_ns", "2800000"),
    ("sys/kernel/debug/sched/features", "PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY"),
    ("proc/sys/kernel/sched_autogroup_enabled", "1"),
];

fn set(knob: &str, value: &str) -> Setting {
    Setting { knob: knob.into(), value: value.into() }
}

fn place(tree: &Tree, name: &str) -> Option<String> {
    let knob = tree.list().into_iter().find(|k| k.name == name)?;
    let root = tree.root.display().to_string();
    Some(knob.r#where.strip_prefix(&root).map_or(knob.r#where.clone(), str::to_owned))
}

#[test]
fn each_generation_of_kernels_keeps_a_knob_elsewhere() {
    let (_a, old) = tree("5.10.0-30-amd64", OLD);
    let (_b, middle) = tree("6.1.0-20-amd64", MIDDLE);
    let (_c, new) = tree("6.12.9", NEW);
    let name = "min_granularity";
    assert_eq!(place(&old, name).unwrap(), "/proc/sys/kernel/sched_min_granularity_ns");
    assert_eq!(place(&middle, name).unwrap(), "/sys/kernel/debug/sched/min_granularity_ns");
    assert_eq!(place(&new, name), None);
    assert_eq!(place(&old, "base_slice"), None);
    assert_eq!(place(&new, "base_slice").unwrap(), "/sys/kernel/debug/sched/base_slice_ns");
    assert_eq!(place(&old, "features").unwrap(), "/sys/kernel/debug/sched_features");
    assert_eq!(place(&new, "slice").unwrap(), "sched_setattr of the load");
    assert_eq!(place(&middle, "slice"), None, "6.1 has no slice per task");
}

#[test]
fn a_knob_of_another_generation_is_refused_with_its_successor() {
    let (_root, new) = tree("6.12.9", NEW);
    let error = new.resolve(&[set("wakeup_granularity", "4ms")]).unwrap_err().to_string();
    assert_eq!(
        error,
        "Linux 6.12.9 does not have the knob wakeup_granularity: EEVDF (since 6.6) replaced it; see base_slice and slice"
    );
    let error = new.resolve(&[set("base_slize", "4ms")]).unwrap_err().to_string();
    assert!(error.contains("did you mean base_slice?"), "{error}");
}

#[test]
fn values_take_units_and_keep_to_the_kernels_range() {
    let (root, old) = tree("5.10.0", OLD);
    let changes = old.resolve(&[set("min_granularity", "10ms")]).unwrap();
    assert!(changes.write().unwrap().is_empty());
    let path = root.path().join("proc/sys/kernel/sched_min_granularity_ns");
    assert_eq!(fs::read_to_string(path).unwrap(), "10000000");
    for (value, expected) in [
        ("50us", "outside of 100us to 1s"),
        ("2s", "outside of"),
        ("1.5", "whole number"),
        ("fast", "invalid duration"),
    ] {
        let error = old.resolve(&[set("min_granularity", value)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{value}: {error}");
    }
}

#[test]
fn debugfs_writes_are_followed_by_the_scaling_so_that_they_take_effect() {
    let (root, middle) = tree("6.1.0", MIDDLE);
    let changes = middle.resolve(&[set("latency", "60ms")]).unwrap();
    let scaling = root.path().join("sys/kernel/debug/sched/tunable_scaling");
    let latency = root.path().join("sys/kernel/debug/sched/latency_ns");
    // Undone in reverse: the latency first, the scaling, which recomputes, after it.
    assert_eq!(
        changes.undo().unwrap(),
        [
            Undo::Write { path: scaling.clone(), content: "1".into() },
            Undo::Write { path: latency, content: "24000000".into() },
        ]
    );
    changes.write().unwrap();
    // The trailing newline of the fake file is gone: it was written.
    assert_eq!(fs::read_to_string(scaling).unwrap(), "1");
}

#[test]
fn a_feature_and_a_choice_are_undone_by_their_own_word() {
    let (_root, middle) = tree("6.1.0", MIDDLE);
    let undo = |settings: &[Setting]| -> Vec<String> {
        let steps = middle.resolve(settings).unwrap().undo().unwrap();
        let content = |step: Undo| match step {
            Undo::Write { content, .. } => content,
            other => panic!("{other:?}"),
        };
        steps.into_iter().map(content).collect()
    };
    assert_eq!(undo(&[set("features", "NO_WAKEUP_PREEMPTION")]), ["WAKEUP_PREEMPTION"]);
    assert_eq!(undo(&[set("feature:NEXT_BUDDY", "on")]), ["NO_NEXT_BUDDY"]);
    assert_eq!(undo(&[set("preempt", "full")]), ["voluntary"]);
    let error = middle.resolve(&[set("features", "NO_SUCH")]).unwrap().undo().unwrap_err();
    assert!(error.to_string().contains("refuses NO_SUCH"), "{error}");
}

#[test]
fn a_tuned_profile_and_a_sysctl_file_are_read_as_settings() {
    let (_root, old) = tree("5.10.0", OLD);
    let text = "# throughput\n[main]\nsummary=x\n[sysctl]\nkernel.sched_min_granularity_ns = 10000000\n\
                vm.swappiness = 10\n[scheduler]\nsched_wakeup_granularity_ns = 15000000\nisolated_cores=1\n";
    let expected = [set("min_granularity", "10000000"), set("wakeup_granularity", "15000000")];
    let profile = read_profile(text, &old);
    assert_eq!(profile.settings, expected);
    assert_eq!(profile.others, ["vm.swappiness", "[scheduler] isolated_cores"]);
    // KeenTune writes the same with colons.
    let keentune = "[sysctl]\nkernel.sched_min_granularity_ns: 10000000\nvm.swappiness: 7\n\
                    kernel.sched_wakeup_granularity_ns: 15000000\n[my_cnf]\nthreads = 4\n";
    let profile = read_profile(keentune, &old);
    assert_eq!(profile.settings, expected);
    assert_eq!(profile.others, ["vm.swappiness", "[my_cnf] threads"]);
    let based = read_profile("[main]\ninclude=throughput-performance\n", &old);
    assert!(based.warnings[0].what.contains("throughput-performance are not read"));
    let sysctl = "-kernel/sched_migration_cost_ns=5000000\nkernel.sched_unheard_of=1\n";
    let profile = read_profile(sysctl, &old);
    assert_eq!(profile.settings, [set("migration_cost", "5000000")]);
    assert!(profile.warnings[0].what.contains("sched_unheard_of"), "{:?}", profile.warnings);
}

#[test]
fn on_eevdf_a_profile_maps_what_it_can_and_tells_the_rest() {
    let (_root, new) = tree("6.12.9", NEW);
    let text =
        "[scheduler]\nsched_min_granularity_ns=3000000\nsched_wakeup_granularity_ns=4000000\n";
    let profile = read_profile(text, &new);
    assert_eq!(profile.settings, [set("base_slice", "3000000")]);
    assert_eq!(profile.warnings.len(), 2);
}

#[test]
fn the_winner_is_written_as_files_of_others() {
    let (_root, old) = tree("5.10.0", OLD);
    let winner = [set("min_granularity", "10ms"), set("feature:NEXT_BUDDY", "on")];
    let sysctl = write_sysctl(&winner, &old);
    assert!(sysctl.contains("kernel.sched_min_granularity_ns = 10000000\n"), "{sysctl}");
    assert!(
        sysctl.contains("# schedlab: feature:NEXT_BUDDY = on (no sysctl on this kernel)\n"),
        "{sysctl}"
    );
    let tuned = write_tuned(&winner[..1], &old);
    assert!(tuned.contains("[scheduler]\nsched_min_granularity_ns = 10000000\n"), "{tuned}");
    assert_eq!(read_profile(&tuned, &old).settings, [set("min_granularity", "10000000")]);
    // What neither format has a word for is a comment to others, and not lost to us.
    let (_root, new) = tree("6.12.9", NEW);
    let winner = [set("slice", "1ms"), set("feature:NEXT_BUDDY", "on"), set("autogroup", "0")];
    for text in [write_sysctl(&winner, &new), write_tuned(&winner, &new)] {
        let mut back = read_profile(&text, &new).settings;
        back.sort_by_key(|s| winner.iter().position(|w| w.knob == s.knob));
        assert_eq!(back, winner, "{text}");
    }
}

const DOMAINS: &[(&str, &str)] = &[
    ("sys/kernel/debug/sched/verbose", "Y"),
    ("sys/kernel/debug/sched/domains/cpu0/domain0/busy_factor", "16"),
    ("sys/kernel/debug/sched/domains/cpu0/domain1/busy_factor", "32"),
    ("sys/kernel/debug/sched/domains/cpu10/domain0/busy_factor", "16"),
    ("sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000"),
    ("sys/kernel/debug/sched/fair_server/cpu0/period", "1000000000"),
    ("sys/kernel/debug/sched/fair_server/cpu1/runtime", "50000000"),
    ("sys/kernel/debug/sched/fair_server/cpu1/period", "1000000000"),
];

fn contents(steps: Vec<Undo>) -> Vec<String> {
    let content = |step: Undo| match step {
        Undo::Write { content, .. } => content,
        other => panic!("{other:?}"),
    };
    steps.into_iter().map(content).collect()
}

#[test]
fn a_knob_with_a_file_for_each_domain_is_written_to_all_and_each_gets_its_own_back() {
    let (root, new) = tree("6.12.9", DOMAINS);
    let knob = new.list().into_iter().find(|k| k.name == "domain_busy_factor").unwrap();
    assert_eq!((knob.value.as_deref(), knob.writable), (Some("16 32"), true));
    let changes = new.resolve(&[set("domain_busy_factor", "8")]).unwrap();
    assert_eq!(contents(changes.undo().unwrap()), ["16", "32", "16"]);
    changes.write().unwrap();
    for place in ["cpu0/domain0", "cpu0/domain1", "cpu10/domain0"] {
        let path = root.path().join("sys/kernel/debug/sched/domains").join(place);
        assert_eq!(fs::read_to_string(path.join("busy_factor")).unwrap(), "8", "{place}");
    }
    // Before 5.13 they are sysctls.
    let old = [("proc/sys/kernel/sched_domain/cpu0/domain0/imbalance_pct", "117")];
    let (_root, old) = tree("5.10.0", &old);
    assert_eq!(
        place(&old, "domain_imbalance_pct").unwrap(),
        "/proc/sys/kernel/sched_domain/cpu*/domain*/imbalance_pct"
    );
    assert!(old.resolve(&[set("domain_imbalance_pct", "125")]).is_ok());
}

#[test]
fn files_of_domains_that_are_switched_off_are_told_with_the_switch() {
    let (_root, new) = tree("6.1.0", &[("sys/kernel/debug/sched/verbose", "N")]);
    let error = new.resolve(&[set("domain_busy_factor", "8")]).unwrap_err().to_string();
    assert!(error.contains("`schedlab knobs set verbose=1` first"), "{error}");
}

#[test]
fn a_runtime_and_its_period_are_written_in_the_order_that_the_kernel_takes() {
    let (_root, new) = tree("6.12.9", DOMAINS);
    let order = |settings: &[Setting]| {
        let changes = new.resolve(settings).unwrap();
        contents(changes.undo().unwrap())
    };
    let runtime = "50000000";
    let period = "1000000000";
    // A runtime above the present period must come after the longer period, for any user's order.
    let up = [set("fair_server_runtime", "1500ms"), set("fair_server_period", "2s")];
    assert_eq!(order(&up), [period, period, runtime, runtime]);
    // A shorter period must come after the shorter runtime.
    let down = [set("fair_server_period", "10ms"), set("fair_server_runtime", "5ms")];
    assert_eq!(order(&down), [runtime, runtime, period, period]);
    let error = new.resolve(&[set("fair_server_period", "10us")]).unwrap_err().to_string();
    assert!(error.contains("outside of 100us to"), "{error}");
    let (_root, middle) = tree("6.1.0", MIDDLE);
    assert_eq!(place(&middle, "fair_server_runtime"), None, "it came with 6.12");
}

/// A tree with a control group as one of the two versions has it.
fn with_group(is_v2: bool) -> (tempfile::TempDir, Tree) {
    let (root, mut tree) = tree("6.12.9", &[("group/cgroup.procs", "")]);
    tree.group = Some((root.path().join("group"), is_v2));
    (root, tree)
}

#[test]
fn the_loads_group_gets_its_files_in_an_order_that_the_kernel_takes() {
    let settings = [
        set("cgroup_idle", "1"),
        set("cgroup_burst", "20ms"),
        set("cgroup_max", "50ms"),
        set("cgroup_weight", "300"),
    ];
    let written = |tree: &Tree| -> Vec<(String, String)> {
        tree.resolve(&settings).unwrap().group_files().to_vec()
    };
    let (_a, v2) = with_group(true);
    let all: Vec<String> = written(&v2).iter().map(|(f, v)| format!("{f}={v}")).collect();
    assert_eq!(all, ["cpu.max=50000", "cpu.weight=300", "cpu.max.burst=20000", "cpu.idle=1"]);
    let (_b, v1) = with_group(false);
    let all: Vec<String> = written(&v1).iter().map(|(f, v)| format!("{f}={v}")).collect();
    assert_eq!(
        all,
        ["cpu.cfs_quota_us=50000", "cpu.shares=300", "cpu.cfs_burst_us=20000", "cpu.idle=1"]
    );
    let error = v1.resolve(&[set("cgroup_uclamp_max", "50")]).unwrap_err().to_string();
    assert!(error.contains("only control groups of version 2 have it"), "{error}");
    let error = v2.resolve(&[set("cgroup_weight", "0")]).unwrap_err().to_string();
    assert!(error.contains("outside of 1 to 10000"), "{error}");
}

#[test]
fn clamps_policy_and_nice_are_of_tasks_on_every_kernel_that_has_them() {
    let (_a, old) = tree("5.2.0", OLD);
    assert_eq!((place(&old, "uclamp_min"), place(&old, "cgroup_idle")), (None, None));
    assert_eq!(place(&old, "nice").unwrap(), "setpriority of the load");
    let (_b, new) = tree("6.12.9", NEW);
    for (knob, wrong) in
        [("policy", "fifo:100"), ("policy", "fair"), ("nice", "20"), ("uclamp_max", "1025")]
    {
        assert!(new.resolve(&[set(knob, wrong)]).is_err(), "{knob}={wrong}");
    }
    let error = old.resolve(&[set("fair_server_runtime", "1ms")]).unwrap_err().to_string();
    assert!(error.contains("it came with 6.12"), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
fn a_slice_of_ones_own_is_taken_on_and_inherited() {
    let tree = Tree::here().unwrap();
    if tree.version < (6, 12) {
        drop(writeln!(
            std::io::stderr(),
            "MISSING: Linux {} has no slice per task; taking it on was not tested",
            tree.kernel
        ));
        return;
    }
    let changes = tree.resolve(&[set("slice", "5ms")]).unwrap();
    // In a thread of its own: attributes are of threads.
    let read_back = std::thread::spawn(move || {
        changes.task.take_on().unwrap();
        std::thread::spawn(|| change::current(TaskKnob::Slice)).join().unwrap()
    });
    assert_eq!(read_back.join().unwrap().as_deref(), Some("5000000"));
}

#[test]
fn a_knob_has_one_owner_at_a_time_and_a_feature_is_a_knob_of_its_own() {
    let (_root, new) = tree("6.12.9", NEW);
    let folder = tempfile::tempdir().unwrap();
    let locks = |settings: &[Setting]| new.resolve(settings).unwrap().lock_in(folder.path());
    let first = locks(&[set("base_slice", "4ms"), set("feature:RUN_TO_PARITY", "off")]).unwrap();
    assert_eq!(first.len(), 2);
    let (name, error) = locks(&[set("feature:RUN_TO_PARITY", "on")]).unwrap_err();
    assert_eq!(name, "feature:RUN_TO_PARITY");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    drop(locks(&[set("feature:NEXT_BUDDY", "on"), set("autogroup", "0")]).unwrap());
    drop(first);
    assert!(locks(&[set("base_slice", "5ms")]).is_ok());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a lock is left");
}

#[test]
fn a_value_that_somebody_else_changes_meanwhile_is_a_warning_and_is_put_back() {
    let (root, new) = tree("6.12.9", NEW);
    let folder = tempfile::tempdir().unwrap();
    let mut changes = new.resolve(&[set("base_slice", "4ms"), set("autogroup", "0")]).unwrap();
    let mut guard =
        schedlab_sys::guard::Guard::arm_with(folder.path(), Path::new("/bin/true")).unwrap();
    changes.make(&mut guard).unwrap();
    assert_eq!(changes.changed(), []);
    let file = root.path().join("sys/kernel/debug/sched/base_slice_ns");
    fs::write(&file, "48\n").unwrap();
    let [warning] = &changes.changed()[..] else { panic!("{:?}", changes.changed()) };
    assert_eq!(warning.code, "knob-changed");
    assert!(warning.what.contains("base_slice changed from 4000000 to 48"), "{warning}");
    assert!(guard.finish().is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), "2800000");
}

#[test]
fn the_group_above_hands_the_controller_on_for_as_long() {
    let (root, v2) = with_group(true);
    let folder = tempfile::tempdir().unwrap();
    let mut changes = v2.resolve(&[set("cgroup_max", "50ms")]).unwrap();
    let mut guard =
        schedlab_sys::guard::Guard::arm_with(folder.path(), Path::new("/bin/true")).unwrap();
    changes.make(&mut guard).unwrap();
    let control = || fs::read_to_string(root.path().join("group/cgroup.subtree_control")).unwrap();
    assert_eq!(control(), "+cpu");
    // The kernel's files go with their folder; ours do not.
    fs::remove_file(changes.task.group().unwrap().join("cpu.max")).unwrap();
    assert!(guard.finish().is_empty());
    assert_eq!(control(), "-cpu");
}

#[test]
fn each_tunable_has_places_and_each_place_is_of_one() {
    let places: Vec<&str> = KNOBS.iter().map(|entry| entry.name).collect();
    let tunables: Vec<&str> = knobs::TUNABLES.iter().map(|tunable| tunable.name).collect();
    assert_eq!(places, tunables);
}

#[test]
fn a_remedy_that_cannot_work_here_is_not_offered() {
    for (has_none, is_root, mounts, says) in [
        (false, false, false, "as root, run `mount"),
        (false, true, true, "as root, run `mount"),
        (false, true, false, "--cap-add SYS_ADMIN"),
        (true, true, true, "this kernel has no debugfs"),
    ] {
        let why = super::unmounted(has_none, is_root, mounts);
        assert!(why.contains(says), "{why}");
        assert!(!says.starts_with("--") || !why.contains("run `mount"), "{why}");
    }
}
