//! Interrupts of devices and the hypervisor take time from tasks, and the kernel's configuration says who is charged.

use super::{ends, near, run, scenario, seeds, tasks, time, with, with_options};

/// 1 s of work on a CPU of which a tenth is taken: when it ends, and what it used.
pub(super) fn gaps_are_charged_as_configured(kernel: &str) {
    let knowing = with_options(kernel);
    let load = tasks("\"hog\": {\"loop\": 1, \"run\": 1000000}");
    for taken in ["irq=100us/1ms", "steal=1ms/10ms", "irq=50us/1ms,steal=500us/10ms"] {
        for (kernel, used) in [(kernel, 1.111), (&knowing, 1.0)] {
            let told = run(kernel, &format!("cpus=1,{taken}"), &load);
            near(told.figures["time_s"], 1.111, 0.01, taken);
            near(time(&told, "hog"), used, 0.01, taken);
        }
    }
    // A quota of 20 ms of each 100 ms is one of what the kernel charges, and the world agrees.
    let limited = with(tasks("\"hog\": {\"loop\": -1, \"run\": 1000}"), &[("cgroup_max", "20ms")]);
    for taken in ["irq=500us/2ms", "steal=500us/2ms"] {
        for kernel in [kernel, &knowing] {
            let told = run(kernel, &format!("cpus=1,{taken}"), &limited);
            near(time(&told, "hog"), 0.4, 0.04, taken);
        }
    }
}

pub(super) fn random_scenarios_end_with_gaps(kernel: &str) {
    let knowing = with_options(kernel);
    for seed in seeds() {
        let (rest, load) = scenario(seed);
        let kernel = if seed % 2 == 0 { kernel } else { &knowing };
        // Real-time tasks that get less than 95 % of a CPU are not throttled, and a fair task ends the load.
        let gaps = ["irq=1us/100us,steal=100us/5ms", "irq=30us/1ms", "steal=400us/10ms"];
        ends(kernel, &format!("{rest},{}", gaps[seed as usize % 3]), seed, &load);
    }
}
