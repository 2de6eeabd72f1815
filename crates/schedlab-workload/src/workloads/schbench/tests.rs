//! What schbench makes of its options, and in `virtual_time` what its tasks do.

mod virtual_time;

use super::*;
use schedlab_model::{Cpu, Topology};

fn around() -> MachineProperties {
    let topology = Topology::flat(4);
    let allowed = (0..4).map(Cpu).collect();
    MachineProperties { topology, allowed, speed: 1, seed: 1 }
}

fn plan(line: &str) -> Plan {
    plan_within(line, &around())
}

fn plan_within(line: &str, around: &MachineProperties) -> Plan {
    let given = line.split_whitespace().map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, "true"));
        (name.to_owned(), value.to_owned())
    });
    crate::workloads::plan("schbench", &given.collect(), around).unwrap()
}

/// The CPUs of a role's tasks, together.
fn cpus(plan: &Plan, role: u16) -> CpuSet {
    let own = plan.tasks.iter().filter(|task| task.role == role);
    own.flat_map(|task| task.placement.cpus.iter().flat_map(CpuSet::iter).collect::<Vec<_>>())
        .collect()
}

#[test]
fn auto_keeps_workers_off_the_message_threads_cpus_but_upstream_does_not() {
    for option in ["message-cpus=auto", "worker-cpus=auto"] {
        let line = format!("message-threads=2 threads=3 {option}");
        let ours = plan(&line);
        assert_eq!(
            (cpus(&ours, 0).to_string(), cpus(&ours, 1).to_string()),
            ("0-1".into(), "2-3".into())
        );
        let upstream = plan(&format!("{line} compat=upstream"));
        assert_eq!(cpus(&upstream, 1).to_string(), "0-3");
    }
}

#[test]
fn message_threads_and_workers_come_to_cpus_that_are_there_where_numbers_are_missing() {
    let allowed: CpuSet = [1, 6, 9, 40].map(Cpu).into_iter().collect();
    let around = MachineProperties { allowed, ..around() };
    let of = |line: &str| {
        let plan = plan_within(line, &around);
        (cpus(&plan, 0).to_string(), cpus(&plan, 1).to_string())
    };
    let auto = of("message-threads=2 threads=3 message-cpus=auto");
    assert_eq!(auto, ("1,6".to_owned(), "9,40".to_owned()));
    let lists = of("message-threads=2 threads=3 message-cpus=40,6 worker-cpus=9,40");
    assert_eq!(lists, ("6,40".to_owned(), "9,40".to_owned()));
}

#[test]
fn a_comma_too_many_in_a_list_of_cpus_is_skipped() {
    for list in ["1,", ",1", "1,,", " 1 ,"] {
        let given = [("message-cpus".to_owned(), list.to_owned())].into_iter().collect();
        let plan = crate::workloads::plan("schbench", &given, &around()).unwrap();
        assert_eq!(cpus(&plan, 0).to_string(), "1", "{list}");
    }
    let given = [("message-cpus".to_owned(), ",".to_owned())].into_iter().collect();
    let error = crate::workloads::plan("schbench", &given, &around()).err().unwrap();
    assert!(error.to_string().contains("the list of CPUs is empty"), "{error}");
}

#[test]
fn a_split_divides_whole_kib() {
    // What the original prints: private and shared KB, then the sides of both.
    for (line, expected) in [
        ("split=30", [76, 179, 56, 87]),
        ("split=33 cache_footprint=100", [33, 67, 37, 53]),
        ("split=7 cache_footprint=1000", [70, 930, 54, 199]),
        ("split=1 cache_footprint=99", [0, 98, 0, 64]),
    ] {
        let plan = plan(line);
        let numbers: Vec<u64> = plan
            .notes
            .iter()
            .filter(|note| !note.starts_with("setting"))
            .flat_map(|note| note.split(|c: char| !c.is_ascii_digit()))
            .filter_map(|word| word.parse().ok())
            .collect();
        let [percent, own, _, rest, own_side, rest_side] = numbers[..] else {
            panic!("{:?}", plan.notes)
        };
        assert_eq!([own, rest, own_side, rest_side], expected, "{line} {percent}");
    }
}

#[test]
fn matrices_are_written_so_that_they_fill_their_footprint_but_upstream_s_are_not() {
    let block = |line: &str| plan(line).blocks[0];
    assert_eq!(block(""), Block::Matrices { side: 104, shared: false, unwritten: false });
    let upstream = Block::Matrices { side: 104, shared: false, unwritten: true };
    assert_eq!(block("compat=upstream"), upstream);
}

#[test]
fn long_times_do_not_overflow_and_a_warm_up_holds_in_every_mode() {
    let timing = |line: &str| plan(line).timing;
    assert_eq!(timing("runtime=4295").duration, Some(Nanos::from_secs(4_295)));
    assert_eq!(timing("zerotime=3000").zero, Nanos::from_secs(3_000));
    assert_eq!(timing("runtime=0").duration, None);
    for mode in ["runtime=10", "rps=10", "auto-rps=10", "pipe=64"] {
        let line = format!("{mode} warmuptime=3");
        assert_eq!(timing(&line).warm_up, Nanos::from_secs(3), "{mode}");
        assert_eq!(timing(&format!("{line} compat=upstream")).warm_up, Nanos::ZERO, "{mode}");
    }
    let long = timing("runtime=30 warmuptime=3 compat=upstream");
    assert_eq!(long.warm_up, Nanos::from_secs(3));
}

#[test]
fn upstream_counts_cpus_that_it_may_not_use() {
    let around = MachineProperties {
        topology: Topology::flat(4),
        allowed: [Cpu(1)].into_iter().collect(),
        speed: 1,
        seed: 1,
    };
    let workers = |compat: &str| {
        let given = [("compat".to_owned(), compat.to_owned())].into_iter().collect();
        crate::workloads::plan("schbench", &given, &around).unwrap().tasks.len() - 1
    };
    assert_eq!((workers("none"), workers("upstream")), (1, 4));
}
