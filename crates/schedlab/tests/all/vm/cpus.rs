//! Guests of several CPUs with the clock of instructions, on a real Debian kernel. They need QEMU 10; where
//! the system has an older one, Debian's is fetched into the cache.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn schedlab(words: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab")).args(words).output().unwrap();
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The first line that a QEMU tells of itself, if it can be started.
fn version(qemu: &str) -> Option<String> {
    let output = Command::new(qemu).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

/// A QEMU that boots several CPUs: the system's, or one that is fetched. `None` where neither is to be had,
/// which is said with what is not checked then.
fn qemu(unchecked: &str) -> Option<String> {
    const SYSTEM: &str = "qemu-system-x86_64";
    let is_new = |version: &String| {
        let number = version.split_whitespace().nth(3).and_then(|word| word.split('.').next());
        number.and_then(|number| number.parse().ok()).is_some_and(|major: u32| major >= 10)
    };
    let own = std::env::var("SCHEDLAB_QEMU").unwrap_or_else(|_| SYSTEM.to_owned());
    let needed: &[&str] = match version(&own).as_ref().is_some_and(is_new) {
        true => &["debian-6.1"],
        false => &["debian-6.1", "qemu"],
    };
    for name in needed {
        if let Err(why) = schedlab(&["vm", "fetch", name]) {
            missing!("{}; not checked: {unchecked}", why.trim());
            return None;
        }
    }
    Some(if needed.len() > 1 { "debian".to_owned() } else { own })
}

#[test]
fn threads_caches_and_nodes_are_seen_by_the_scheduler_as_asked() {
    let Some(qemu) = qemu("that the scheduler's domains are those that were asked for") else {
        return;
    };
    let machine = format!("vm:kernel=debian-6.1,cpus=8,sockets=2,threads=2,nodes=2,qemu={qemu}");
    let words = ["load", "cpu", "--duration", "10ms", "--on", &machine, "--json"];
    // A guest whose domains differ from what was asked for is refused.
    let told = String::from_utf8(schedlab(&words).unwrap()).unwrap();
    let domains = "scheduler domains: CPUs 0-1: SMT 0-1, MC 0-3, NUMA 0-7 / \
                   CPUs 2-3: SMT 2-3, MC 0-3, NUMA 0-7 / CPUs 4-5: SMT 4-5, MC 4-7, NUMA 0-7 / \
                   CPUs 6-7: SMT 6-7, MC 4-7, NUMA 0-7";
    assert!(told.contains(domains), "{told}");
}

/// How long tasks ran on a CPU, in seconds of the guest, if each has 0.2 s of work and the guest has two CPUs.
fn busy_loops(tasks: u32, qemu: &str, folder: &Path) -> Vec<f64> {
    let (program, trace) = (folder.join("loops.json"), folder.join("trace.dat"));
    // Each stays on a CPU of its own: two that begin on one CPU share that CPU first.
    let task = |cpu| format!(r#""loop{cpu}": {{"loop": 1, "run": 200000, "cpus": [{cpu}]}}"#);
    let tasks: Vec<String> = (0..tasks).map(task).collect();
    std::fs::write(&program, format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(", "))).unwrap();
    let machine = format!("vm:kernel=debian-6.1,cpus=2,qemu={qemu}");
    let [program, trace] = [&program, &trace].map(|path| path.to_str().unwrap());
    schedlab(&["load", "rt-app", program, "--trace", trace, "--on", &machine]).unwrap();
    let found = schedlab(&["trace", "tasks", trace, "--json"]).unwrap();
    let found: Value = serde_json::from_slice(&found).unwrap();
    let tasks = found["tasks"].as_array().unwrap().iter();
    let loops = tasks.filter(|task| task["comm"].as_str().is_some_and(|c| c.starts_with("loop")));
    loops.map(|task| task["run_ns"].as_f64().unwrap() / 1e9).collect()
}

#[test]
fn two_loops_on_two_cpus_share_one_budget_of_instructions() {
    let Some(qemu) = qemu("what CPUs share") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = [1, 2].map(|tasks| busy_loops(tasks, &qemu, folder.path()));
    assert_eq!((one.len(), two.len()), (1, 2), "{one:?} {two:?}");
    // The second CPU adds nothing: the last loop ends when one CPU would have done the work of both. QEMU gives
    // turns that are long, so the other loop may have done more of its work early.
    let last = two[0].max(two[1]) / one[0];
    assert!((1.9..2.1).contains(&last), "{one:?} {two:?}");
    assert!(two.iter().all(|time| time / one[0] > 1.5), "{one:?} {two:?}");
    if std::env::var_os("SCHEDLAB_EVIDENCE").is_some_and(|wish| wish == "write") {
        let fetched = schedlab(&["vm", "fetch", "qemu"]);
        let version = match qemu.as_str() {
            "debian" => String::from_utf8(fetched.unwrap()).unwrap(),
            program => version(program).unwrap(),
        };
        let text = format!(
            "{}\nvm:kernel=debian-6.1,cpus=2,clock=instructions, work of 0.2 s in each loop\n\
             one loop on 2 CPUs: {:.4} s\ntwo loops on 2 CPUs: {:.4} s and {:.4} s\n",
            version.split(" /").next().unwrap().trim(),
            one[0],
            two[0],
            two[1]
        );
        let evidence = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evidence");
        let folder = evidence.join("two-loops");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("times.txt"), text).unwrap();
    }
}
