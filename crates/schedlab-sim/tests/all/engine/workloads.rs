//! Workloads of the catalogue in virtual time.

use super::{POLICIES, events, fifo, policy};
use schedlab_model::{Cpu, CpuSet, Place, Topology};
use schedlab_sim::{Config, Hardware, World};
use schedlab_workload::placement::MachineProperties;
use schedlab_workload::workloads;
use std::collections::BTreeMap;

fn planned(name: &str, options: &[(&str, &str)], cpus: u16) -> schedlab_workload::plan::Plan {
    let around = MachineProperties {
        topology: Topology::flat(cpus),
        allowed: CpuSet::first(cpus.into()),
        speed: 1_000,
        seed: 1,
    };
    let options: BTreeMap<String, String> =
        options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    workloads::plan(name, &options, &around).expect("the options are right")
}

fn of(name: &str, options: &[(&str, &str)], cpus: u16) -> World {
    let mut plan = planned(name, options, cpus);
    let (hardware, policy) = fifo(cpus);
    World::new(&mut plan, hardware, policy, Config::default())
}

/// FNV-1a over what events say, as text.
fn hash(events: &[schedlab_model::Event]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for event in events {
        for byte in format!("{event:?}").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[test]
fn each_workload_ends_and_counts_what_it_did() {
    let app = r#"{"global": {"duration": 1}, "tasks": {"a": {"instance": 2, "loop": 20, "run": 1000, "sleep": 2000}}}"#;
    for (name, options) in [
        ("hackbench", &[("groups", "2"), ("loops", "20"), ("fds", "5")][..]),
        ("hackbench", &[("pipe", "true"), ("groups", "2"), ("loops", "20"), ("fds", "5")]),
        ("hackbench", &[("datasize", "9000"), ("groups", "1"), ("loops", "10"), ("fds", "3")]),
        ("schbench", &[("runtime", "1s")]),
        ("pingpong", &[("via", "pipe"), ("duration", "100ms")]),
        ("pingpong", &[("via", "socket"), ("duration", "100ms")]),
        ("pingpong", &[("via", "eventfd"), ("duration", "100ms")]),
        ("pingpong", &[("via", "futex"), ("duration", "100ms")]),
        ("pingpong", &[("via", "inet"), ("rounds", "500")]),
        ("barrier", &[("duration", "100ms")]),
        ("cpu", &[("duration", "100ms")]),
        ("udp", &[("duration", "10ms")]),
        ("mixed", &[("duration", "100ms")]),
        ("processes", &[("duration", "100ms")]),
        ("threads", &[("duration", "100ms")]),
        ("stream", &[("duration", "100ms")]),
        ("spinlock", &[("duration", "100ms")]),
        ("spinlock", &[("duration", "100ms"), ("via", "mutex")]),
        ("app", &[("duration", "200ms")]),
        ("rt-app", &[("program", app)]),
    ] {
        let mut world = of(name, options, 4);
        let events = events(&mut world);
        assert!(!events.is_empty(), "{name}");
        let done: u64 = world.counters().iter().sum();
        assert!(
            done > 0 || name == "rt-app",
            "{name} {options:?}: counters {:?}",
            world.counters()
        );
        assert_eq!(world.emitted(), events.len() as u64);
    }
}

#[test]
fn every_message_arrives() {
    let mut world = of("hackbench", &[("groups", "3"), ("fds", "7"), ("loops", "30")], 2);
    events(&mut world);
    assert_eq!(world.counters().iter().sum::<u64>(), 3 * 7 * 7 * 30);
}

/// A change of a value is a change of the model: say in the commit why.
#[test]
fn the_events_of_a_small_load_are_known() {
    let known = [
        (279, 7_834_218_674_288_369_478),
        (1_087, 16_106_721_320_665_761_764),
        (285, 7_880_714_738_135_867_563),
        (303, 16_450_452_699_743_396_912),
    ];
    let seen = POLICIES.map(|name| {
        let options = [("groups", "1"), ("fds", "4"), ("loops", "25")];
        let mut plan = planned("hackbench", &options, 2);
        let hardware = Hardware::new(Topology::flat(2));
        let mut world = World::new(&mut plan, hardware, policy(name, 2), Config::default());
        let events = events(&mut world);
        (events.len(), hash(&events))
    });
    assert_eq!(seen[..4], known, "{POLICIES:?}");
    // Without tasks of other classes, the classes above change nothing.
    assert_eq!(seen[4..], known[1..3], "{POLICIES:?}");
}

#[test]
fn each_policy_runs_a_crowd_on_several_llcs() {
    let place = |cpu: u16| Place {
        cpu: Cpu(cpu),
        core: (cpu % 4).into(),
        llc: u32::from(cpu % 4) / 2,
        node: 0,
        socket: 0,
    };
    for name in POLICIES {
        let options = [("groups", "3"), ("fds", "5"), ("loops", "40")];
        let mut plan = planned("hackbench", &options, 8);
        let hardware = Hardware::new(Topology::new((0..8).map(place).collect()));
        let mut world = World::new(&mut plan, hardware, policy(name, 8), Config::default());
        let events = events(&mut world);
        assert_eq!(world.counters().iter().sum::<u64>(), 3 * 5 * 5 * 40, "{name}");
        let cpus: std::collections::BTreeSet<Cpu> = events.iter().map(|event| event.cpu).collect();
        assert_eq!(cpus.len(), 8, "{name} leaves CPUs idle");
    }
}
