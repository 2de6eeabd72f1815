//! sched_ext: the schedulers of the kernel's own tree schedule, and what goes wrong ends the run in the kernel's words.

use super::{SPIN, machine, near, run, scenario, spec, tasks, time, trace_of, with};
use schedlab_kernel::build::Built;
use schedlab_workload::{Machine as _, Observed, RunSpec};
use std::fmt::Write as _;

/// Whether an image has sched_ext. If not, the refusal is checked.
fn has_ext(kernel: &str) -> bool {
    let built = Built::find(kernel).unwrap();
    if built.code.has("sched_ext") {
        return true;
    }
    let why = machine(kernel, "cpus=1,scx=scx_simple").err().unwrap().to_string();
    assert!(why.contains("has no sched_ext (kernel/sched/ext.c)"), "{why}");
    false
}

/// The settings for one of the tree's schedulers, as its user half would make them.
fn scheduler(name: &str, cpus: u32) -> String {
    match name {
        "scx_central" => format!("cpus={cpus},scx=scx_central,scx-set=nr_cpu_ids:{cpus}"),
        _ => format!("cpus={cpus},scx={name}"),
    }
}

const ALL: [&str; 3] = ["scx_simple", "scx_qmap", "scx_central"];

fn hogs(count: u32) -> RunSpec {
    tasks(&format!("\"a\": {{\"instance\": {count}, {SPIN}}}"))
}

fn fails(kernel: &str, rest: &str, spec: &RunSpec) -> String {
    let ran = machine(kernel, rest).and_then(|mut one| one.run(spec, &mut Observed::default()));
    ran.unwrap_err().to_string()
}

pub(super) fn schedulers_of_the_tree_schedule(kernel: &str) {
    if !has_ext(kernel) {
        return;
    }
    for name in ALL {
        for cpus in [1, 2, 4, 8] {
            let rest = scheduler(name, cpus);
            let load = spec("hackbench", &[("groups", "1"), ("loops", "20")]);
            run(kernel, &rest, &load);
        }
        let told = run(kernel, &scheduler(name, 4), &hogs(8));
        near(time(&told, "a"), 8.0, 0.2, "eight tasks on four CPUs");
    }
    let switches =
        |rest: &str, spec: &RunSpec| run(kernel, rest, spec).figures["switches_involuntary"];
    // Slices end at the tick after 20 and 50 ms; the kernel's own end after 3 ms.
    near(switches("cpus=1,scx=scx_qmap", &hogs(2)), 2_000.0 / 24.0, 4.0, "SCX_SLICE_DFL");
    let long = "cpus=1,scx=scx_qmap,scx-set=slice_ns:50000000";
    near(switches(long, &hogs(2)), 2_000.0 / 52.0, 4.0, "slices of 50 ms");
    // scx_central preempts from its timer, on its first CPU.
    let central = scheduler("scx_central", 2);
    let usual = switches(&central, &hogs(4));
    let often = switches(&(central + "+slice_ns:4000000"), &hogs(4));
    assert!(often > 3.0 * usual, "{often} and {usual} switches");
}

pub(super) fn a_scheduler_decides_who_runs(kernel: &str) {
    if !has_ext(kernel) {
        return;
    }
    let both = |a: u32, b: u32| {
        tasks(&format!(
            "\"a\": {{\"instance\": {a}, {SPIN}}}, \"b\": {{\"instance\": {b}, \"priority\": 5, {SPIN}}}"
        ))
    };
    // By time of weight 100 and 33 (sched_weight_to_cgroup).
    let told = run(kernel, "cpus=1,scx=scx_simple", &both(4, 4));
    near(time(&told, "a") / 2.0, 100.0 / 133.0, 0.03, "nice 0 beside nice 5, by virtual time");
    let fifo = "cpus=1,scx=scx_simple,scx-set=fifo_sched:true";
    let told = run(kernel, fifo, &both(4, 4));
    near(time(&told, "a") / 2.0, 0.5, 0.03, "nice 0 beside nice 5, first in, first out");
    // Classes above it stay above it, and what may not leave its CPU stays there.
    let told = run(
        kernel,
        "cpus=2,scx=scx_simple",
        &tasks(&format!(
            "\"f\": {{\"cpus\": [0], \"policy\": \"SCHED_FIFO\", \"priority\": 10, \"loop\": -1, \"run\": 500, \"sleep\": 9500}}, \
             \"c\": {{\"cpus\": [1], \"instance\": 2, {SPIN}}}, \"g\": {{\"taskgroup\": \"/g\", {SPIN}}}"
        )),
    );
    near(time(&told, "f") / 2.0, 0.05, 0.01, "a FIFO task that sleeps");
    // scx_simple does not kick an idle CPU for a task that lost its own.
    let both = time(&told, "c") + time(&told, "g");
    assert!((2.5..3.95).contains(&both) && time(&told, "c") < 2.0, "{both}");
}

pub(super) fn two_runs_of_a_scheduler_are_equal(kernel: &str) {
    if !has_ext(kernel) {
        return;
    }
    let load = spec("hackbench", &[("groups", "1"), ("loops", "20")]);
    for name in ALL {
        let rest = scheduler(name, 8);
        let first = trace_of(kernel, &rest, &load);
        assert!(first.len() > 10_000, "{}", first.len());
        assert!(
            first == trace_of(kernel, &rest, &load),
            "two traces of one run under {name} differ"
        );
    }
}

pub(super) fn a_scheduler_that_errs_ends_the_run(kernel: &str) {
    if !has_ext(kernel) {
        return;
    }
    let load = spec("hackbench", &[("groups", "1"), ("loops", "2000")]);
    for (set, words) in [
        // It loses every hundredth task; the kernel's watchdog finds that after 5 s.
        ("stall_user_nth:100", ["disabled (runnable task stall)", "failed to run for"]),
        // It loses the thread that is the watchdog.
        ("stall_kernel_nth:1", ["disabled (runnable task stall)", "watchdog failed to check in"]),
        (
            "test_error_cnt:150",
            ["disabled (scx_bpf_error)", "sched_ext: qmap: test triggering error"],
        ),
    ] {
        let spinning = tasks_for(9, &format!("\"a\": {{\"instance\": 2, {SPIN}}}"));
        let load = if set.contains("kernel") { &spinning } else { &load };
        let why = fails(kernel, &format!("cpus=2,scx=scx_qmap,scx-set={set}"), load);
        assert!(why.contains("the sched_ext scheduler ended"), "{why}");
        for word in words {
            assert!(why.contains(word), "{set}: {why}");
        }
    }
    let why = fails(kernel, "cpus=2,scx=scx_central,scx-set=nr_cpu_ids:2+central_cpu:1", &load);
    assert!(why.contains("sched_ext: central: init from non-central CPU"), "{why}");
}

fn tasks_for(seconds: u32, tasks: &str) -> RunSpec {
    let program = format!("{{\"global\": {{\"duration\": {seconds}}}, \"tasks\": {{{tasks}}}}}");
    spec("rt-app", &[("program", &program)])
}

const HEAD: &str = "#include <scx/common.bpf.h>\n";
const OPS: &str = "SCX_OPS_DEFINE(own_ops, .enqueue = (void *)own_enqueue, .name = \"own\");\n";

pub(super) fn what_a_scheduler_may_not_do_is_named(kernel: &str) {
    if !has_ext(kernel) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.bpf.c");
    let own = |body: &str, more: &str, ops: &str| {
        let enqueue = format!(
            "void BPF_STRUCT_OPS(own_enqueue, struct task_struct *p, u64 enq_flags) {{ {body} \
             scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags); }}\n"
        );
        std::fs::write(&file, format!("{HEAD}{more}{enqueue}{ops}")).unwrap();
        format!("cpus=2,scx={}", file.display())
    };
    let load = spec("hackbench", &[("groups", "1"), ("loops", "5")]);
    run(kernel, &own("", "", OPS), &load);
    let map = |kind: &str| {
        format!(
            "struct {{ __uint(type, {kind}); __uint(max_entries, 64); __type(key, u32); \
             __type(value, u64); }} held SEC(\".maps\");\n"
        )
    };
    let count = "u32 pid = p->pid; u64 one = 1, *n = bpf_map_lookup_elem(&held, &pid); \
         if (n) (*n)++; else bpf_map_update_elem(&held, &pid, &one, BPF_NOEXIST); \
         if (n && *n > 2) scx_bpf_error(\"%s came %llu times, %d\", p->comm, *n, -1);";
    let why = fails(kernel, &own(count, &map("BPF_MAP_TYPE_HASH"), OPS), &hogs(6));
    assert!(why.contains("sched_ext: own: a-") && why.contains(" came 3 times, -1"), "{why}");
    let several = OPS.replace("own_ops", "more_ops") + OPS;
    for (body, ops, part) in [
        ("bpf_send_signal(9);", OPS, "it uses bpf_send_signal, which is not simulated"),
        ("p->no_such_member = 1;", OPS, "no member named 'no_such_member'"),
        ("", "", "it has no struct sched_ext_ops"),
        ("", several.as_str(), "it has several struct sched_ext_ops: more_ops, own_ops"),
    ] {
        let why = machine(kernel, &own(body, "", ops)).err().unwrap().to_string();
        assert!(why.contains(part) && why.contains("own.bpf.c"), "{body}: {why}");
    }
    let why = fails(kernel, &own(count, &map("BPF_MAP_TYPE_LPM_TRIE"), OPS), &load);
    assert!(why.contains("map 'held' is of type 11") && why.contains("not simulated"), "{why}");
    let why = fails(kernel, &own("scx_bpf_kick_cpu(0, SCX_KICK_WAIT);", "", OPS), &load);
    assert!(why.contains("the scheduler uses SCX_KICK_WAIT, which is not simulated"), "{why}");
    let why = fails(kernel, &own("", "", &OPS.replace("\"own\"", "\"a b\"")), &load);
    assert!(why.contains("the kernel does not take the scheduler: error 22"), "{why}");
    for (rest, part) in [
        ("scx=scx_none", "the tree has no such scheduler"),
        ("scx=none/own.bpf.c", "none/own.bpf.c: No such file"),
        ("scx-set=slice_ns:1", "scx-set needs scx=FILE.bpf.c"),
        ("scx=scx_qmap,scx-set=slice", "use NAME:VALUE+NAME:VALUE"),
        ("scx=scx_qmap,scx-set=slice_ns:x", "use a number, true or false"),
        ("scx=scx_simple,scx-set=slice:1", "no variable 'slice': use fifo_sched, "),
        ("scx=scx_simple,scx-set=fifo_sched:256", "fifo_sched has 8 bits, and 256 does not fit"),
    ] {
        let why = machine(kernel, rest).err().unwrap().to_string();
        assert!(why.contains(part), "{rest}: {why}");
    }
}

pub(super) fn random_scenarios_end_under_schedulers(kernel: &str) {
    if !has_ext(kernel) {
        return;
    }
    for seed in 0..20 {
        let (rest, load) = scenario(seed);
        let mut rest = rest;
        let _ = write!(rest, ",scx={}", ["scx_simple", "scx_qmap"][seed as usize % 2]);
        let ran =
            machine(kernel, &rest).and_then(|mut one| one.run(&load, &mut Observed::default()));
        if let Err(why) = ran {
            let text = why.to_string();
            // Real-time tasks that take all of a CPU starve what scx_qmap keeps there.
            let is_known = ["the kernel does not take", "runnable task stall"];
            let is_known = is_known.iter().any(|part| text.contains(part));
            assert!(is_known, "{seed}, {rest}: {text}\n{load:?}");
        }
    }
    let load = with(spec("mixed", &[("duration", "300ms")]), &[("cgroup_max", "20ms")]);
    run(kernel, "cpus=2,scx=scx_simple", &load);
}
