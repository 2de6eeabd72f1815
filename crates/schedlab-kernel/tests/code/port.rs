//! The port by hand beside the kernel's code: the same world, costs and random loads on one CPU.

use crate::{scenario, seeds};
use schedlab_kernel::OfTree;
use schedlab_sim::{Model, Simulated};
use schedlab_workload::{Machine as _, Observed};
use std::fmt::Write as _;

/// The kernel's code takes no time, and the kernel has no RCU thread.
pub(crate) const COSTS: &str = "code_1000 = 0\nrcu = 0\n";

/// The port of a kernel's tree.
pub(crate) fn port_of(kernel: &str) -> Option<&'static str> {
    match kernel {
        "linux-source-6.1" => Some("cfs-6.1"),
        "linux-source-6.12" => Some("eevdf-6.12"),
        _ => None,
    }
}

/// The largest error of a role's share of the CPU (0.01 is a percentage point), and whose it is. `None` if a side refuses
/// the load, or the port ends it at another time: a fair task ends it, which waits behind real-time tasks.
fn error(kernel: &str, port: &str, seed: u64) -> Option<(f64, String)> {
    let (_, load) = scenario(seed);
    let name = format!("sim:kernel={port},cpus=1").parse().unwrap();
    let model = Model::of(&name, Some(COSTS)).unwrap();
    let (mut of_port, mut of_kernel) = (Observed::default(), Observed::default());
    Simulated::new(model).run(&load, &mut of_port).ok()?;
    let name = format!("sim:kernel={kernel},cpus=1").parse().unwrap();
    OfTree::new(&name, Some(COSTS.to_owned())).unwrap().run(&load, &mut of_kernel).ok()?;
    if (of_port.figures["time_s"] / of_kernel.figures["time_s"] - 1.0).abs() > 0.05 {
        return None;
    }
    let times = of_kernel.of_roles.iter().filter(|((what, _), _)| what == "cpu_user_s");
    let errors = times.map(|(role, real)| {
        let ported = of_port.of_roles.get(role).copied().unwrap_or(0.0);
        (
            (ported - real).abs() / of_kernel.figures["time_s"],
            format!("{seed} {}: {ported}, not {real}", role.1),
        )
    });
    errors.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Shares of the CPU are what a user acts on; the order of switches within them differs.
pub(crate) fn the_port_shares_a_cpu(kernel: &str) {
    let Some(port) = port_of(kernel) else { return };
    let mut errors: Vec<_> = seeds().filter_map(|seed| error(kernel, port, seed)).collect();
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: usize| errors[errors.len() * share / 100].0;
    let mut text = String::new();
    for (error, who) in errors.iter().rev().take(5) {
        let _ = writeln!(text, "{error:.4} {who}");
    }
    let compared = errors.len();
    let found =
        format!("{compared} scenarios: {:.4}, {:.4}, {:.4}\n{text}", at(50), at(90), at(99));
    println!("{found}");
    assert!(compared > 20 && at(50) < 0.01 && at(90) < 0.05, "{found}");
}
