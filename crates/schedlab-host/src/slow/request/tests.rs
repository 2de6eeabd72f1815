//! Requests that are refused, with why, and what is to be minded.

use super::*;
use crate::slow::{Assignment, Change, Step, speeds};
use schedlab_model::Pid;
use schedlab_sys::cgroup::Version;
use schedlab_workload::Link;
use std::io::Write as _;

#[test]
fn a_file_names_its_method_and_one_that_is_none_is_refused() {
    let text = |method: &str| {
        format!("method = \"{method}\"\n[[node]]\nname = \"a\"\ncpus = \"0\"\nspeed = 0.5")
    };
    let file = |method: &str| {
        let none = &|text: &str, _| Err(text.to_owned());
        schedlab_workload::nodes::parse(&text(method), none).unwrap()
    };
    let of = |method| Request::try_from(file(method));
    assert_eq!(of("hogs").unwrap().method, Some(Method::Hogs));
    assert_eq!(of("auto").unwrap().method, None);
    assert!(of("fracas").unwrap_err().to_string().contains("unknown method"));
}

fn node(name: &str, cpus: &str) -> Node {
    let all: Vec<Assignment> = cpus.split(' ').map(|text| text.parse().unwrap()).collect();
    Node {
        name: name.into(),
        speeds: speeds(&all).unwrap(),
        commands: vec![vec!["true".into()]],
        ..Node::default()
    }
}

fn plan(method: Option<Method>, nodes: Vec<Node>, support: &Support) -> Result<Plan, SlowError> {
    Request { method, nodes, ..Request::default() }.plan(support)
}

/// The reason of the refusal, and whether it is one of usage.
fn refused(method: Method, nodes: Vec<Node>, support: &Support) -> (bool, String) {
    match plan(Some(method), nodes, support) {
        Err(SlowError::Usage(why)) => (true, why),
        Err(error) => (false, error.to_string()),
        Ok(_) => panic!("this must be refused"),
    }
}

#[test]
fn cpus_that_are_missing_or_offline_are_refused() {
    let mut support = Support::fake(4);
    assert!(refused(Method::Hogs, vec![node("a", "9=50%")], &support).1.contains("unknown CPU 9"));
    support.online.remove(schedlab_model::Cpu(3));
    let (usage, why) = refused(Method::Hogs, vec![node("a", "2-3=50%")], &support);
    assert!(usage && why.contains("CPU 3 is offline"), "{why}");
    assert!(refused(Method::Hogs, vec![], &support).1.contains("missing CPU"));
}

#[test]
fn nodes_that_overlap_or_share_a_name_are_refused() {
    let support = Support::fake(4);
    let overlap = vec![node("a", "0-1=50%"), node("b", "1-2=30%")];
    assert!(refused(Method::Hogs, overlap, &support).1.contains("CPU 1 is in two nodes"));
    let twins = vec![node("a", "0=50%"), node("a", "1=30%")];
    assert!(refused(Method::Hogs, twins, &support).1.contains("two nodes have the name a"));
    assert!(refused(Method::Hogs, vec![node("a/b", "0=50%")], &support).1.contains("invalid name"));
}

#[test]
fn hogs_are_refused_below_a_tenth_and_without_rights() {
    let support = Support::fake(4);
    let (usage, why) = refused(Method::Hogs, vec![node("a", "0=9%")], &support);
    assert!(usage && why.contains("weight"), "{why}");
    assert!(plan(Some(Method::Hogs), vec![node("a", "0=10%")], &support).is_ok());
    let bare = Support { root: false, realtime: false, ..Support::fake(4) };
    for method in [Method::Hogs, Method::Weight, Method::Quota] {
        let (usage, why) = refused(method, vec![node("a", "0=50%")], &bare);
        assert!(!usage && why.contains("root"), "{method}: {why}");
    }
}

#[test]
fn a_scripted_speed_is_checked_like_the_first() {
    let change = Change::Speed("5%".parse().unwrap());
    let script = vec![Step { at: Nanos::from_secs(1), change }];
    let node = Node { script, ..node("a", "0=50%") };
    assert!(refused(Method::Hogs, vec![node], &Support::fake(2)).1.contains("5%"));
}

#[test]
fn a_network_needs_root_and_commands_that_end_with_it() {
    let node = || Node { net: Some(Link::default()), ..node("a", "0=50%") };
    let bare = Support { root: false, realtime: false, ..Support::fake(2) };
    let (usage, why) = refused(Method::Stop, vec![node()], &bare);
    assert!(!usage && why.contains("needs root") && why.contains("leave out its net"), "{why}");
    assert!(plan(Some(Method::Stop), vec![node()], &Support::fake(2)).is_ok());
    let attached = Node { attach: vec![schedlab_sys::process::thread_id()], ..node() };
    assert!(refused(Method::Stop, vec![attached], &Support::fake(2)).1.contains("cannot move"));
    let kept = Request { keep: true, nodes: vec![node()], ..Request::default() };
    assert!(kept.plan(&Support::fake(2)).unwrap_err().to_string().contains("--keep"));
}

#[test]
fn a_real_time_process_is_warned_that_hogs_do_not_slow_it() {
    use schedlab_sys::sched::{Policy, set};
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Pid(child.id().cast_signed());
    let warned = || {
        let node = Node { attach: vec![pid], ..node("a", "0=50%") };
        let plan = plan(Some(Method::Hogs), vec![node], &Support::fake(2)).unwrap();
        plan.warnings.iter().any(|warning| warning.code == "realtime-task")
    };
    let fair = warned();
    let made = set(pid, &Policy::Fifo { priority: 5 }.into());
    let realtime = warned();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!fair);
    match made {
        Ok(()) => assert!(realtime),
        Err(error) => drop(writeln!(
            std::io::stderr(),
            "MISSING: real-time tasks ({error}): no warning is tested"
        )),
    }
}

#[test]
fn a_budget_is_refused_for_several_cpus_with_the_reason() {
    let (usage, why) = refused(Method::Quota, vec![node("a", "0-1=50%")], &Support::fake(4));
    assert!(usage && why.contains("one thread would run at full speed"), "{why}");
}

#[test]
fn gaps_are_filled_under_quota_unless_a_sibling_pays_for_it() {
    let fills = |method, filler, support: &Support| {
        let nodes = vec![node("a", "1=50%")];
        let request = Request { method: Some(method), nodes, filler, ..Request::default() };
        request.plan(support).map(|plan| plan.fills)
    };
    let support = Support::fake(4);
    assert!(fills(Method::Quota, None, &support).unwrap());
    assert!(!fills(Method::Quota, Some(false), &support).unwrap());
    assert!(!fills(Method::Stop, None, &support).unwrap());
    assert!(fills(Method::Stop, Some(true), &support).unwrap());
    assert!(!fills(Method::Hogs, None, &support).unwrap());
    let why = fills(Method::Hogs, Some(true), &support).unwrap_err().to_string();
    assert!(why.contains("no gaps"), "{why}");
    assert!(!fills(Method::Quota, None, &with_siblings()).unwrap());
    assert!(fills(Method::Quota, Some(true), &with_siblings()).unwrap());
}

/// CPUs 0 and 1 are one core, and 2 and 3.
fn with_siblings() -> Support {
    use schedlab_model::{Cpu, Place, Topology};
    let place =
        |cpu: u16| Place { cpu: Cpu(cpu), core: u32::from(cpu / 2), llc: 0, node: 0, socket: 0 };
    Support { topology: Topology::new((0..4).map(place).collect()), ..Support::fake(4) }
}

#[test]
fn a_sibling_of_another_speed_is_a_warning() {
    let warned = |method, cpus: &str, support: &Support| {
        let plan = plan(Some(method), vec![node("a", cpus)], support).unwrap();
        plan.warnings.into_iter().find(|warning| warning.code == "smt-sibling")
    };
    let support = with_siblings();
    let told = warned(Method::Hogs, "1=50%", &support).unwrap();
    assert!(told.what.contains("CPU 1 shares a core with CPU 0"), "{}", told.what);
    assert!(warned(Method::Hogs, "0=50% 1=40%", &support).is_some());
    assert_eq!(warned(Method::Hogs, "0=50% 1=50%", &support), None);
    assert_eq!(warned(Method::Hogs, "1=50%", &Support::fake(4)), None);
    let mut offline = with_siblings();
    offline.online.remove(schedlab_model::Cpu(0));
    assert_eq!(warned(Method::Hogs, "1=50%", &offline), None);
}

#[test]
fn methods_that_slow_processes_need_some() {
    let empty = Node { commands: vec![], ..node("a", "0=50%") };
    let (usage, why) = refused(Method::Stop, vec![empty], &Support::fake(4));
    assert!(usage && why.contains("give a command"), "{why}");
    let unequal = vec![node("a", "0=50% 1=30%")];
    assert!(refused(Method::Weight, unequal, &Support::fake(4)).1.contains("one speed"));
}

#[test]
fn clocks_are_checked_by_domain() {
    let tree = crate::slow::frequency::tests::tree();
    let support =
        Support { domains: crate::slow::frequency::domains(tree.path()), ..Support::fake(4) };
    assert!(refused(Method::Gov, vec![node("a", "0=50%")], &support).1.contains("share one clock"));
    assert!(refused(Method::Gov, vec![node("a", "3=50%")], &support).1.contains("cannot set"));
    assert!(refused(Method::Freq, vec![node("a", "0-1=25%")], &support).1.contains("gov"));
    assert!(plan(Some(Method::Gov), vec![node("a", "0-1=25%")], &support).is_ok());
    let (usage, why) = refused(Method::Freq, vec![node("a", "0-1=50%")], &Support::fake(2));
    assert!(!usage && why.contains("cpufreq"), "{why}");
}

#[test]
fn deadline_burners_are_for_cpus_that_can_be_cut_off() {
    let one = || vec![node("a", "0=50%")];
    let support = Support::fake(2);
    assert!(plan(Some(Method::Deadline), one(), &support).is_ok());
    let (usage, why) = refused(Method::Deadline, vec![node("a", "0-1=50%")], &support);
    assert!(usage && why.contains("a node for each CPU"), "{why}");
    let (usage, why) = refused(Method::Deadline, vec![node("a", "0=9%")], &support);
    assert!(usage && why.contains("weight-pinned"), "{why}");
    let none = Support { cpuset_group: None, ..Support::fake(2) };
    assert!(refused(Method::Deadline, one(), &none).1.contains("cpuset controller"));
    let old = Some("this kernel lacks SCHED_DEADLINE".to_owned());
    let old = Support { deadline_obstacle: old, ..Support::fake(2) };
    assert!(refused(Method::Deadline, one(), &old).1.contains("lacks SCHED_DEADLINE"));
    // Version 2 takes the CPU away from everybody else, so one must stay.
    let mut unified = Support::fake(2);
    unified.cpuset_group.as_mut().unwrap().version = Version::V2;
    let all = || vec![node("a", "0=50%"), node("b", "1=50%")];
    assert!(refused(Method::Deadline, all(), &unified).1.contains("one CPU must stay outside"));
    assert!(plan(Some(Method::Deadline), one(), &unified).is_ok());
    assert!(plan(Some(Method::Deadline), all(), &support).is_ok());
}

#[test]
fn clamps_are_refused_with_what_hinders_them() {
    let why = Some("the governor is performance".to_owned());
    let support = Support { clamp_obstacle: why, ..Support::fake(2) };
    let (usage, why) = refused(Method::Uclamp, vec![node("a", "0=50%")], &support);
    assert!(!usage && why.contains("governor is performance"), "{why}");
    let plan = plan(Some(Method::Uclamp), vec![node("a", "0-1=50%")], &Support::fake(2));
    assert!(plan.unwrap().warnings.iter().any(|warning| warning.what.contains("not a limit")));
}

#[test]
fn known_faults_stand_beside_the_method() {
    let plan =
        plan(Some(Method::WeightPerCpu), vec![node("a", "0-1=50%")], &Support::fake(2)).unwrap();
    assert!(plan.warnings.iter().any(|warning| warning.what.contains("33.3%")));
}
