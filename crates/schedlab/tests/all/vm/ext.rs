//! A load under a scheduler of BPF programs, on a kernel that was built with it.

use std::process::Command;

const KERNEL: &str = "6.12-250hz-voluntary-ext";

/// What a load of one CPU told under this scheduler, or under the kernel's own.
fn load(scheduler: Option<&str>) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let words = ["load", "hackbench", "-g", "1", "-f", "4", "-l", "20", "--json", "--on"];
    command.args(words).arg(format!("vm:kernel={KERNEL}"));
    if let Some(name) = scheduler {
        command.args(["--ext", name]);
    }
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &told),
        false => Err(told),
    }
}

#[test]
fn a_scheduler_of_bpf_programs_is_on_from_before_a_load_to_its_end() {
    let kernels = Command::new(env!("CARGO_BIN_EXE_schedlab")).args(["vm", "kernels"]).output();
    if !String::from_utf8_lossy(&kernels.unwrap().stdout).contains(KERNEL) {
        missing!(
            "the kernel {KERNEL}; not checked: sched_ext (`schedlab vm build linux-source-6.12 \
             --ext` builds it in about 15 CPU minutes)"
        );
        return;
    }
    let own = load(None).unwrap();
    assert!(!own.contains("sched_ext: the scheduler"), "{own}");
    for (name, ops) in [("scx_simple", "simple"), ("scx_qmap", "qmap"), ("scx_flatcg", "flatcg")] {
        let told = load(Some(name)).unwrap();
        let start = format!("sched_ext: the scheduler {ops} was on until the end of the run");
        assert!(told.contains(&start), "{told}");
        assert!(!told.contains("switched to init 0 times"), "{told}");
    }
    // A program that is no scheduler does not come on, and what it printed is told.
    let wrong = load(Some("/bin/true")).unwrap_err();
    assert!(wrong.contains("the scheduler did not come on"), "{wrong}");
}
