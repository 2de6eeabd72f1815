//! Clocks of the hardware. Most machines that run tests have no driver for them, so a mount namespace shows files of
//! a driver that takes every order and changes nothing. What is measured before the command starts must find that.

use super::{has_rights, last_cpu, slow, stderr};
use std::process::{Command, Stdio};

const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

/// The command line, with a folder of files in place of the driver's.
fn beside(folder: &std::path::Path, command: &Command) -> Command {
    let mut beside = Command::new("unshare");
    let mount = format!("mount --bind \"$0\" {CPUFREQ} && exec \"$@\"");
    beside.args(["--mount", "sh", "-c", &mount]).arg(folder);
    beside.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    beside
}

#[test]
fn a_clock_that_does_not_obey_is_found_by_the_work_that_is_done() {
    if !has_rights() {
        return;
    }
    let (tree, cpu) = (tempfile::tempdir().unwrap(), last_cpu());
    if !beside(tree.path(), &Command::new("true")).status().is_ok_and(|status| status.success()) {
        missing!("{CPUFREQ} and a mount namespace; no clock is tried");
        return;
    }
    let policy = tree.path().join("policy0");
    std::fs::create_dir(&policy).unwrap();
    for (file, text) in [
        ("affected_cpus", cpu.as_str()),
        ("cpuinfo_min_freq", "200000"),
        ("cpuinfo_max_freq", "2000000"),
        ("scaling_available_frequencies", "2000000 1000000 200000"),
        ("scaling_available_governors", "performance userspace"),
        ("scaling_governor", "performance"),
        ("scaling_setspeed", "<unsupported>"),
    ] {
        std::fs::write(policy.join(file), format!("{text}\n")).unwrap();
    }
    let asked = format!("{cpu}=10%");
    let arguments = ["--method", "freq", "--cpu", &asked, "--", "true"];
    let output = beside(tree.path(), &slow(&arguments)).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("was set to 10%, but runs at "), "{said}");
    let read = |file: &str| std::fs::read_to_string(policy.join(file)).unwrap();
    assert_eq!(read("scaling_setspeed").trim(), "200000", "the order was given");
    assert_eq!(read("scaling_governor").trim(), "performance", "and undone");
}
