//! `schedlab knobs` on this machine's own knobs: one owner at a time, and all as before afterwards.

use crate::patience::eventually;
use schedlab_model::Pid;
use std::process::{Command, Output, Stdio};

const KNOB: &str = "/proc/sys/kernel/sched_autogroup_enabled";

fn schedlab(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(words);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn now() -> String {
    std::fs::read_to_string(KNOB).unwrap_or_default().trim().to_owned()
}

#[test]
fn a_knob_is_one_run_s_at_a_time_and_a_foreign_change_is_told() {
    if std::fs::OpenOptions::new().write(true).open(KNOB).is_err() {
        return missing!("the right to set {KNOB}; that a knob has one owner was not tested");
    }
    crate::machine_lock::take();
    let before = now();
    let other = if before == "0" { "1" } else { "0" };
    let setting = format!("autogroup={other}");
    let first = schedlab(&["knobs", "run", &setting, "--", "sleep", "600"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually(|| if now() == other { Ok(()) } else { Err(now()) });
    for words in [
        &["knobs", "run", &format!("autogroup={before}"), "--", "true"][..],
        &["knobs", "set", &format!("autogroup={before}")],
        &["load", "command", "--", "true"],
    ] {
        let output = schedlab(words).output().unwrap();
        let of_knob = words[0] == "knobs";
        assert_eq!(output.status.success(), !of_knob, "{words:?}: {}", said(&output));
        let by = format!("knob autogroup is in use by process {} (", first.id());
        assert_eq!(said(&output).contains(&by), of_knob, "{}", said(&output));
    }
    assert_eq!(now(), other);
    // Who knows nothing of locks.
    std::fs::write(KNOB, &before).unwrap();
    schedlab_sys::process::kill(Pid(first.id().cast_signed()), 15).unwrap();
    let output = first.wait_with_output().unwrap();
    let expected = format!("knob autogroup changed from {other} to {before} during the run");
    assert!(said(&output).contains(&expected), "{}", said(&output));
    assert_eq!(now(), before);
    // The next one may.
    let output = schedlab(&["knobs", "run", &setting, "--", "cat", KNOB]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), other, "{}", said(&output));
    assert_eq!(now(), before);
    // A profile stays until it is undone.
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("profile.sysctl.conf");
    std::fs::write(&profile, format!("kernel.sched_autogroup_enabled = {other}\n")).unwrap();
    let output = schedlab(&["knobs", "apply", profile.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let applied = now();
    let output = schedlab(&["knobs", "restore"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((applied, now()), (other.to_owned(), before));
}

#[test]
fn a_knob_of_a_slowed_session_holds_until_its_end() {
    if std::fs::OpenOptions::new().write(true).open(KNOB).is_err() {
        return missing!("the right to set {KNOB}; `slow --knob` was not tested");
    }
    crate::machine_lock::take();
    let before = now();
    let other = if before == "0" { "1" } else { "0" };
    let slow = |knob: &str| {
        let words = ["slow", "--no-measure", "--share", "--method", "stop", "--knob", knob, "50%"];
        schedlab(&[&words[..], &["--", "cat", KNOB]].concat()).output().unwrap()
    };
    let output = slow(&format!("autogroup={other}"));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), other, "{}", said(&output));
    assert_eq!(now(), before);
    for (knob, why) in [("slice=3ms", "belong to tasks"), ("autogroup", "use NAME=VALUE")] {
        let refused = slow(knob);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(why), "{}", said(&refused));
    }
}

#[test]
fn knobs_of_another_machine_are_those_that_it_has() {
    let listed = |on: &str| {
        let output = schedlab(&["knobs", "list", "--json", "--on", on]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let knobs = told["knobs"].as_array().unwrap().clone();
        let base = |knob: &&serde_json::Value| knob["name"] == "base_slice";
        knobs.iter().find(base).map(|knob| knob["value"].clone())
    };
    // 0.7 ms (1 + ilog2(CPUs)), at most of 8 CPUs (get_update_sysctl_factor).
    assert_eq!(listed("sim:kernel=eevdf-6.12,cpus=1").unwrap(), "700000");
    assert_eq!(listed("sim:kernel=eevdf-6.12,cpus=64").unwrap(), "2800000");
    assert_eq!(listed("sim:kernel=cfs-6.1,cpus=1"), None);
    let output = schedlab(&["knobs", "list", "--on", "sim:kernel=no-such-tree"]).output().unwrap();
    assert!(said(&output).contains("sim build no-such-tree"), "{}", said(&output));
}
