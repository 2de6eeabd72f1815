//! Runs elsewhere for real: through an sshd and a Slurm of the test's own, on this machine.

use super::{Processes, SIMULATED, figures, finished, has, must, run, schedlab, wait_for};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Ports that nobody uses, at this moment.
pub(crate) fn ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Hosts `a` and `b` behind two sshd, which end with it.
pub(crate) struct Hosts {
    pub(crate) processes: Processes,
    pub(crate) here: tempfile::TempDir,
    /// The command that reaches them.
    pub(crate) ssh: String,
}

impl Hosts {
    /// `None` if a program is missing, which it says.
    pub(crate) fn start(unchecked: &str) -> Option<Self> {
        if !has("ssh", unchecked) || !has("sshd", unchecked) {
            return None;
        }
        let here = tempfile::tempdir().unwrap();
        let mut processes = Processes::default();
        start_sshd(here.path(), &mut processes);
        let ssh = format!("ssh -F {}", here.path().join("ssh/config").display());
        Some(Self { processes, here, ssh })
    }

    /// Waits until nothing is left in the temporary folder of a host.
    pub(crate) fn wait_until_empty(&self, host: &str) {
        let tmp = self.here.path().join(format!("{host}.tmp"));
        let count = || std::fs::read_dir(&tmp).unwrap().count();
        wait_for("an empty folder", || (count() == 0).then_some(()));
    }
}

/// Two sshd with keys of the test's own. The temporary folders of the hosts are `a.tmp` and `b.tmp`, and programs in
/// `a.bin` and `b.bin` are found there.
fn start_sshd(here: &Path, processes: &mut Processes) {
    let ssh = here.join("ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    for key in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(ssh.join(key))
            .status();
        assert!(made.unwrap().success());
    }
    // Root's sshd wants it, and its package makes it when the system starts.
    let _ = std::fs::create_dir_all("/run/sshd");
    let at = ssh.display();
    let mut config = String::new();
    for (name, port) in ["a", "b"].into_iter().zip(ports::<2>()) {
        let tmp = here.join(format!("{name}.tmp"));
        std::fs::create_dir_all(&tmp).unwrap();
        write(
            &ssh.join(format!("sshd-{name}")),
            &format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\n\
                 StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nSetEnv TMPDIR={} PATH={}:/usr/bin:/bin\n",
                tmp.display(),
                here.join(format!("{name}.bin")).display()
            ),
        );
        let host = format!(
            "Host {name}\nHostName 127.0.0.1\nPort {port}\nIdentityFile {at}/user\nIdentitiesOnly yes\n\
             StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        );
        config += &host;
        let sshd = format!("sshd-{name}");
        // sshd starts itself again by its path.
        let mut command = Command::new("/usr/sbin/sshd");
        processes.start(name, command.arg("-D").arg("-f").arg(ssh.join(sshd)));
        wait_for("sshd", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    }
    write(&ssh.join("config"), &config);
}

/// The children of a process.
pub(crate) fn children(of: u32) -> Vec<u32> {
    let text =
        std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn a_host_that_disappears_loses_nothing_and_hosts_are_left_clean() {
    let Some(mut hosts) = Hosts::start("runs through ssh") else { return };
    let here = hosts.here.path();
    write(&here.join("x.toml"), SIMULATED);
    let mut ask = vec!["cluster", "ssh", "--hosts", "a,b", "--ssh-command", &hosts.ssh, "x.toml"];
    let program = std::env::var("SCHEDLAB_STATIC").ok();
    match &program {
        Some(program) => ask.extend(["--binary", program]),
        None => missing!("SCHEDLAB_STATIC: runs through ssh use the ordinary program"),
    }
    let mut going =
        schedlab(here, &ask).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // As soon as b works, it is gone.
    let runs = |tmp: &str| -> bool {
        let inside = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        inside(here.join(tmp)).any(|entry| !finished(&entry.path().join("frozen")).is_empty())
    };
    let over = wait_for("a run on b", || {
        let over = going.try_wait().unwrap();
        (runs("b.tmp") || over.is_some()).then_some(over)
    });
    assert!(over.is_none(), "b did no run");
    let sessions = children(hosts.processes.0["b"].id());
    hosts.processes.end("b");
    for session in sessions {
        Command::new("kill").args(["-9", &session.to_string()]).status().unwrap();
    }
    let done = going.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("schedlab: b: "), "the loss is told: {said}");
    assert!(said.contains("96 of 96 runs are done"), "{said}");
    must(here, &["run", "x.toml", "--output", "plain"]);
    assert_eq!(figures(&here.join("results/x")), figures(&here.join("plain/x")));
    let doctor = here.join("results/x.frozen/hosts/a/doctor.json");
    assert!(std::fs::read_to_string(doctor).unwrap().contains("schedlab/doctor/1"));
    for host in ["a", "b"] {
        hosts.wait_until_empty(host);
    }
}

/// The program may hang on the host before any run begins. If this one is killed then, nothing stays there.
#[test]
fn killed_before_the_first_run_it_leaves_nothing_on_a_host() {
    let Some(mut hosts) = Hosts::start("runs through ssh") else { return };
    let here = hosts.here.path();
    write(&here.join("x.toml"), SIMULATED);
    let began = here.join("began");
    let hangs = "[ $1 = --version ] && exit 0\necho $$ >began.tmp; mv began.tmp";
    let hangs = format!("#!/bin/sh\n{hangs} {}\nexec sleep 100000\n", began.display());
    write(&here.join("hangs"), &hangs);
    let ask = ["cluster", "ssh", "--hosts", "a", "--ssh-command", &hosts.ssh, "--binary", "hangs"];
    hosts.processes.start("schedlab", schedlab(here, &ask).arg("x.toml"));
    let pid = wait_for("the program there", || std::fs::read_to_string(&began).ok());
    hosts.processes.end("schedlab");
    hosts.wait_until_empty("a");
    let program = Path::new("/proc").join(pid.trim());
    wait_for("the end of the program there", || (!program.exists()).then_some(()));
}

/// A Slurm on this machine: a controller and three nodes.
struct Slurm {
    processes: Processes,
    conf: PathBuf,
}

impl Slurm {
    fn start(here: &Path) -> Self {
        let rig = here.join("slurm");
        for part in ["state", "spool", "munge"] {
            std::fs::create_dir_all(rig.join(part)).unwrap();
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap().to_owned();
        let [control, one, two, three] = ports();
        let at = rig.display();
        let nodes: String = [("n1", one), ("n2", two), ("n3", three)]
            .map(|(name, port)| {
                format!(
                    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=50 State=UNKNOWN\n"
                )
            })
            .concat();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={control}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={at}/munge/socket\nStateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool/%n\nSlurmctldPidFile={at}/ctld.pid\nSlurmdPidFile={at}/%n.pid\n\
             SlurmctldLogFile={at}/ctld.log\nSlurmdLogFile={at}/%n.log\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             SchedulerParameters=sched_interval=1,bf_interval=1\nReturnToService=2\nKillWait=2\nMpiDefault=none\n\
             {nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        );
        let conf = rig.join("slurm.conf");
        write(&conf, &text);
        let key = rig.join("munge/key");
        write(&key, "a key that is of no use to anybody else");
        let private = Command::new("chmod").arg("600").arg(&key).status().unwrap();
        assert!(private.success());
        Command::new("chmod").arg("711").arg(rig.join("munge")).status().unwrap();
        let mut processes = Processes::default();
        let of = |name: &str| format!("{at}/munge/{name}");
        let mut munged = Command::new("munged");
        munged.args([
            "--foreground",
            "--force",
            "--key-file",
            &of("key"),
            "--socket",
            &of("socket"),
        ]);
        munged.args([
            "--pid-file",
            &of("pid"),
            "--log-file",
            &of("log"),
            "--seed-file",
            &of("seed"),
        ]);
        processes.start("munged", &mut munged);
        wait_for("munged", || rig.join("munge/socket").exists().then_some(()));
        let mut slurm = Self { processes, conf };
        slurm.start_controller();
        for node in ["n1", "n2", "n3"] {
            let mut slurmd = Command::new("slurmd");
            slurm.processes.start(node, slurmd.args(["-D", "-N", node, "-f"]).arg(&slurm.conf));
        }
        wait_for("three nodes", || {
            let told = slurm.ask("sinfo", &["--noheader", "--Node", "--format=%t"]);
            (told.lines().filter(|state| *state == "idle").count() == 3).then_some(())
        });
        slurm
    }

    fn start_controller(&mut self) {
        let mut controller = Command::new("slurmctld");
        self.processes.start("slurmctld", controller.arg("-D").arg("-f").arg(&self.conf));
    }

    /// What a command of Slurm's prints, whether it succeeds or not.
    fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let out =
            Command::new(program).args(arguments).env("SLURM_CONF", &self.conf).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.ask("scancel", &["--user=root"]);
    }
}

#[test]
fn a_requeued_job_a_drained_node_and_a_restarted_controller_count_every_run_once() {
    let unchecked = "runs as jobs of Slurm";
    if !["slurmctld", "slurmd", "munged", "sbatch"]
        .into_iter()
        .all(|program| has(program, unchecked))
    {
        return;
    }
    if std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0)
    {
        missing!("root: {unchecked}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut slurm = Slurm::start(here);
    write(&here.join("x.toml"), SIMULATED);
    let mut submit = schedlab(here, &["cluster", "slurm", "x.toml"]);
    let told = submit.env("SLURM_CONF", &slurm.conf).output().unwrap();
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let job = said.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_owned();
    let frozen = here.join("results/x.frozen");
    wait_for("a run", || (!finished(&frozen).is_empty()).then_some(()));
    let first = format!("{job}_1");
    slurm.ask("scontrol", &["requeue", &first]);
    slurm.ask("scontrol", &["update", "NodeName=n2", "State=DRAIN", "Reason=test"]);
    // As its init script stops it: killed, it would forget what it started last.
    let controller = slurm.processes.0.get_mut("slurmctld").unwrap();
    Command::new("kill").arg(controller.id().to_string()).status().unwrap();
    controller.wait().unwrap();
    slurm.processes.end("slurmctld");
    slurm.start_controller();
    // Slurm lets a requeued job wait for two minutes, unless it is asked not to.
    let results = here.join("results/x");
    wait_for("the report", || {
        slurm.ask("scontrol", &["update", &format!("JobId={first}"), "StartTime=now"]);
        results.join("report.html").exists().then_some(())
    });
    wait_for("the end of all jobs", || {
        slurm.ask("squeue", &["--noheader"]).trim().is_empty().then_some(())
    });
    let log = std::fs::read_to_string(frozen.join("slurm/1.log")).unwrap();
    assert!(log.contains("DUE TO JOB REQUEUE"), "{log}");
    let gathered = std::fs::read_to_string(frozen.join("slurm/gather.log")).unwrap();
    assert!(gathered.contains("96 of 96 runs are done"), "{gathered}");
    must(here, &["run", "x.toml", "--output", "plain"]);
    assert_eq!(figures(&results), figures(&here.join("plain/x")));
}

#[test]
fn a_refused_host_leaves_no_plan() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("x.toml"), SIMULATED);
    for hosts in ["a,-oProxyCommand=touch planted", "a,,b", "a,a"] {
        let refused = run(folder.path(), &["cluster", "ssh", "--hosts", hosts, "x.toml"]);
        assert_eq!(refused.status.code(), Some(2), "{hosts}");
    }
    let refused = run(folder.path(), &["cluster", "ssh", "x.toml"]);
    assert_eq!(refused.status.code(), Some(2), "no hosts");
    let odd = folder.path().join("a folder");
    write(&odd.join("x.toml"), SIMULATED);
    let refused = run(&odd, &["cluster", "slurm", "x.toml"]);
    assert_eq!(refused.status.code(), Some(2), "sbatch does not take the path");
    for place in [folder.path(), &odd] {
        let mut left: Vec<_> =
            std::fs::read_dir(place).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.retain(|name| *name != *"x.toml" && *name != *"a folder");
        assert!(left.is_empty(), "{left:?}");
    }
}
