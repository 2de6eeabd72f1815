//! Budgets of a node that come more or less often: what is in force meanwhile and afterwards.

use super::safety::{end, session};
use super::{PROGRAM, Path, eventually, has_rights, last_cpu, slow, until};
use std::io::Write;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const HOME: &str = "/sys/fs/cgroup/cpu";

/// A node's budget and period in microseconds, once it has a group below `parent`.
fn budget(parent: &Path, session: &Child) -> Option<(u64, u64)> {
    let group = parent.join(format!("schedlab-{}-all", session.id()));
    let number = |file| std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
    Some((number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?))
}

#[test]
fn a_node_that_fails_while_its_budgets_change_has_a_full_one_again() {
    if !has_rights() || !Path::new(HOME).join("cpu.cfs_quota_us").exists() {
        missing!("the CPU controller of version 1; no node fails in this test");
        return;
    }
    eventually(|| {
        let cpu = format!("{}=50%", last_cpu());
        let options = ["--no-measure", "--method", "quota", "--filler", "off", "--cpu"];
        let burns = [&cpu, "--", "sh", "-c", "while :; do :; done"];
        let (session, _lines) = session(&mut slow(&[&options[..], &burns].concat()));
        let kept = fails_in_a_change(&session);
        end(session);
        kept
    });
}

/// Lets the node of a session at 50 % fail while a first, smaller budget is in force.
fn fails_in_a_change(session: &Child) -> Result<(), String> {
    let file = |what: &str| format!("/run/schedlab/slow-{}.{what}", session.id());
    let pipe = || std::fs::OpenOptions::new().write(true).open(file("orders"));
    let mut orders = eventually(|| pipe().map_err(|e| format!("{}: {e}", file("orders"))));
    let now = || budget(Path::new(HOME), session).unwrap_or_default();
    let is_smaller = |(budget, period): (u64, u64)| budget < period / 2;
    let soon = |holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // Faster than a command that sends an order.
    let mut order = |id: u32, word: &str| {
        let line = format!("{{\"order\":{{\"{word}\":{{\"node\":\"all\"}}}},\"id\":{id}}}\n");
        orders.write_all(line.as_bytes()).unwrap();
        let done = format!("[{id},\"done\"]");
        let is_done = || std::fs::read_to_string(file("answers")).is_ok_and(|a| a.contains(&done));
        soon(&is_done);
        assert!(is_done(), "{word}");
    };
    soon(&|| is_smaller(now()));
    order(1, "fail");
    let (budget, period) = now();
    if !is_smaller((budget, period)) {
        return Err("the change was over before the node failed".to_owned());
    }
    order(2, "recover");
    soon(&|| now().1 != period || !is_smaller(now()));
    match now() {
        now if now.1 == period && !is_smaller(now) => Ok(()),
        now => {
            Err(format!("a budget of {budget} us in {period} us, and {now:?} after it recovered"))
        }
    }
}

#[test]
fn budgets_come_more_often_again_in_a_group_that_has_a_limit_too() {
    let home = Path::new(HOME);
    let parent = home.join(format!("slow-limit-{}", std::process::id()));
    if !has_rights() || std::fs::create_dir(&parent).is_err() {
        missing!("the CPU controller of version 1; no group has a limit in this test");
        return;
    }
    // A long budget in a short period would be more than this.
    std::fs::write(parent.join("cpu.cfs_quota_us"), "20000").unwrap();
    let (folder, cpu) = (tempfile::tempdir().unwrap(), last_cpu());
    let stop = folder.path().join("stop");
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec {PROGRAM} slow --share --no-measure --method quota --filler off \
         --cpu {cpu}=15% -- sh -c 'while [ ! -e {} ]; do :; done; while :; do sleep 0.03; done'",
        parent.display(),
        stop.display()
    );
    let (session, _lines) = session(Command::new("sh").args(["-c", &script]));
    let period = || Some(budget(&parent, &session)?.1);
    // A new group has the kernel's own period.
    until(|| period() == Some(10_000));
    // Other tests may take much of the CPU, or wake tasks there: then it is not the longest period.
    until(|| period().is_some_and(|us| us >= 20_000));
    std::fs::write(&stop, "").unwrap();
    until(|| period() == Some(10_000));
    end(session);
    until(|| std::fs::remove_dir(&parent).is_ok());
}
