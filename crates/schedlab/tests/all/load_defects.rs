//! What is wrong in the original schbench is right here. Where that changes a number, `--compat upstream` (the
//! default under its name) gives the old one and `--compat none` the right one. What can be computed is tested
//! in virtual time (`schedlab-workload`); here are the defects that take a real run to see.

use crate::patience::eventually;
use std::process::{Command, Output, Stdio};

/// stderr and exit code of the drop-in.
fn schbench(line: &str) -> (String, Option<i32>) {
    crate::machine_lock::share();
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("schbench");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_schedlab"), &link).unwrap();
    let output: Output = Command::new(link).args(line.split_whitespace()).output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

/// The numbers of the lines that begin so.
fn numbers(text: &str, begin: &str) -> Vec<Vec<f64>> {
    let of = |line: &str| {
        let number = |c: char| c.is_ascii_digit() || c == '.';
        line.split(|c| !number(c)).filter_map(|word| word.parse().ok()).collect()
    };
    text.lines().filter(|line| line.starts_with(begin)).map(of).collect()
}

#[test]
fn a_new_start_that_divides_the_runtime_leaves_a_last_report() {
    // In a second without the CPU nothing is measured.
    eventually(|| {
        let (told, code) = schbench("-m 1 -t 1 -r 2 -z 1 -n 0");
        assert_eq!(code, Some(0), "{told}");
        let measured =
            ["Wakeup Latencies", "Request Latencies", "RPS percentiles"].iter().all(|begin| {
                let last = numbers(&told, begin).pop().unwrap_or_else(|| panic!("{begin}: {told}"));
                *last.last().unwrap() > 0.0
            });
        if measured && !told.contains("50.0th: 0 ") { Ok(()) } else { Err(told) }
    });
}

#[test]
fn a_short_run_warms_up_but_upstream_s_does_not() {
    let line = "-m 1 -t 1 -r 3 -w 1 -n 0 --compat none";
    let (ours, _) = schbench(line);
    assert!(ours.contains("warmup done, zeroing stats\n"), "{ours}");
    let (upstream, _) = schbench("-m 1 -t 1 -r 3 -w 1 -n 0");
    assert!(!upstream.contains("warmup done"), "{upstream}");
    // What the rate is taken over leaves the warm-up out; in one of two seconds a third is not lost. A second
    // that the machine took from us is not counted, so it may be fewer, and never more.
    for (line, most) in [(line, 2.0), ("-m 1 -t 1 -r 3 -w 1 -n 0", 4.0)] {
        eventually(|| {
            let (told, _) = schbench(line);
            let seconds = *numbers(&told, "RPS percentiles").pop().unwrap().last().unwrap();
            assert!(seconds <= most, "{told}");
            if seconds >= most { Ok(()) } else { Err(told) }
        });
    }
}

#[test]
fn there_is_no_rate_before_the_first_second_but_upstream_s() {
    let line = "-m 1 -t 1 -r 2 -n 0";
    let lowest = |told: &str| {
        let block = told.split("RPS percentiles").last().unwrap().to_owned();
        numbers(&block, "\t  min=").pop().unwrap()[0]
    };
    let (upstream, _) = schbench(line);
    assert_eq!(lowest(&upstream), 0.0, "{upstream}");
    // Nor is there one of nothing, but for a second without the CPU.
    eventually(|| {
        let (ours, _) = schbench(&format!("{line} --compat none"));
        if lowest(&ours) > 0.0 { Ok(()) } else { Err(ours) }
    });
}

#[test]
fn the_average_rate_is_over_the_time_that_passed_but_upstream_s_over_the_runtime_asked_for() {
    let of = |line: &str| {
        let (told, code) = schbench(line);
        assert_eq!(code, Some(0), "{told}");
        let rate = numbers(&told, "average rps: ").pop().unwrap()[0];
        let requests = *numbers(&told, "Request Latencies").pop().unwrap().last().unwrap();
        (rate, requests)
    };
    // What a task counts a moment after it was sampled may be missing, or be there alone. A machine
    // that stalls between the two looks makes that moment longer.
    eventually(|| {
        let (rate, requests) = of("-m 1 -t 1 -r 2 -n 0");
        let close = (2.0 * rate - requests).abs() <= 4.0;
        if close { Ok(()) } else { Err(format!("{rate} a second, {requests} requests")) }
    });
    // Ours: a run never ends before its time, and on a machine that stalls it takes longer.
    let (rate, requests) = of("-m 1 -t 1 -r 2 -n 0 --compat none");
    assert!((requests + 4.0) / rate >= 2.0, "{rate} a second, {requests} requests");
}

#[test]
fn an_overload_is_told_with_what_was_offered_and_dropped() {
    let told = eventually(|| {
        let (told, code) = schbench("-m 1 -t 1 -r 2 -n 1 -F 64 -R 100000 --compat none");
        assert_eq!(code, Some(0));
        let found = numbers(&told, "overload: ").pop();
        let Some([offered, done, dropped]) = found.as_deref() else { return Err(told) };
        assert!(offered > done && offered >= &(done + dropped), "{told}");
        if *dropped > 0.0 { Ok(told) } else { Err(told) }
    });
    // All 128 that wait are part of the latency, so the tail is far from what the work alone takes.
    let latency = |told: &str| {
        let block = told.split("Request Latencies").last().unwrap().to_owned();
        numbers(&block, "\t  50.0th").pop().unwrap()[1]
    };
    eventually(|| {
        let (upstream, _) = schbench("-m 1 -t 1 -r 2 -n 1 -F 64 -R 100000");
        let longer = latency(&told) > 10.0 * latency(&upstream);
        if longer { Ok(()) } else { Err(format!("{told}{upstream}")) }
    });
}

#[test]
fn the_rate_that_follows_the_machine_is_never_nothing() {
    crate::machine_lock::share();
    // Others keep the machine busier than is wanted all the time.
    let mut others = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["load", "cpu", "--tasks", "4", "--duration", "600s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (told, code) = schbench("-m 1 -t 1 -r 5 -n 1 -A 1");
    others.kill().unwrap();
    others.wait().unwrap();
    assert_eq!(code, Some(0));
    let goal = numbers(&told, "final rps goal was ").pop().unwrap();
    assert!(goal[0] >= 1.0, "{told}");
}

#[test]
fn the_last_sched_delay_is_what_the_kernel_counted() {
    // More workers than CPUs, so that they wait for one.
    eventually(|| {
        let (told, _) = schbench("-m 1 -t 16 -r 2 -s 0 -n 2 -F 64 --compat none");
        let delay = numbers(&told, "sched delay: ").pop().unwrap();
        if delay[1] > 0.0 { Ok(()) } else { Err(told) }
    });
    let (upstream, _) = schbench("-m 1 -t 16 -r 2 -s 0 -n 2 -F 64");
    assert!(upstream.ends_with("sched delay: message 0 (usec) worker 0 (usec)\n"), "{upstream}");
}

#[test]
fn an_option_that_the_original_ignores_is_heard() {
    // It says how large the matrices are only with --split.
    for name in ["cache_footprint", "cache-footprint"] {
        let (told, _) = schbench(&format!("-m 1 -t 1 -r 1 -n 0 --split 100 --{name} 96"));
        assert!(told.contains("100% private (96 KB per thread)"), "{told}");
        assert!(told.contains("matrix sizes: private=64, "), "{told}");
    }
}

#[test]
fn a_new_start_does_not_change_the_average_rate_or_add_a_second_of_none() {
    // Of three seconds, one each.
    eventually(|| {
        let (told, code) = schbench("-m 1 -t 1 -r 3 -i 1 -z 1 -n 0");
        assert_eq!(code, Some(0), "{told}");
        let seconds: Vec<f64> =
            numbers(&told, "RPS percentiles").iter().map(|line| *line.last().unwrap()).collect();
        let current: Vec<f64> =
            numbers(&told, "current rps: ").iter().map(|line| line[0]).collect();
        let average = numbers(&told, "average rps: ").pop().unwrap()[0];
        let mean = current.iter().sum::<f64>() / 3.0;
        // The first also has the moment before it. Others on the machine may take a second from us.
        let close = (average / mean - 1.0).abs() < 0.2;
        if seconds == [2.0, 1.0, 1.0, 1.0] && close { Ok(()) } else { Err(told) }
    });
}
