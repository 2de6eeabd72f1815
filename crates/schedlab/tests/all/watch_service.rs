//! The service file of `examples/watch` under a systemd that runs as the first process of a guest.

use crate::guest::{BEGIN, END, Guest, TWO};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const SYSTEMD: &str = "/usr/lib/systemd/systemd";

/// What systemd runs beside the service: it asks and prints.
const CHECK: &str = r#"
export PATH=/bin
unit=schedlab-watch.service dir=/var/lib/schedlab
show() { systemctl show -p "$1" --value $unit; }
# wait_for WHAT COMMAND...
wait_for() {
	what=$1 tries=0; shift
	until "$@" 2> /dev/null; do
		tries=$((tries + 1)); [ $tries -lt 300 ] || { echo "not $what"; return; }; sleep 0.2
	done
	echo "$what"
}
serves() { (
	exec 3<> /dev/tcp/127.0.0.1/9464 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 || exit
	case $(cat <&3) in *'schedlab_run_delay_seconds_count{'*) ;; *) false ;; esac
) }
kept() { set -- $dir/watch-*.dat; [ -e $dir/watch-000013.dat ] && [ $# -le 10 ]; }
again() { [ "$(show NRestarts)" = 1 ] && [ "$(show MainPID)" != 0 ]; }
echo "@@ start"
wait_for serves serves
pid=$(show MainPID)
while read -r key value; do echo "$key $value"; done < /proc/$pid/status
echo "@@ write"
cd /proc/$pid/root
# Without its capabilities: what its file systems allow.
for path in / /etc /usr/local/bin /var/lib /home /root /run /dev /sys/fs/cgroup /sys/kernel/tracing /tmp /var/tmp \
	/dev/shm /run/schedlab /var/lib/schedlab /sys/kernel/tracing/instances; do
	said=$(mkdir .$path/probe 2>&1) && rmdir .$path/probe
	echo "$path: ${said##*: }"
done
for path in /etc/passwd /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/mm/ksm/run \
	/sys/devices/system/cpu/cpu1/online /sys/kernel/tracing/kprobe_events /sys/kernel/tracing/tracing_on \
	/sys/kernel/tracing/options/record-cmd; do
	said=$( (: >> .$path) 2>&1 )
	echo "$path: ${said##*: }"
done
cd /
echo "@@ disk"
for n in 01 02 03 04 05 06 07 08 09 10 11 12; do echo old > $dir/watch-0000$n.dat; done
hogs=
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
	taskset 2 sh -c 'while :; do :; done' & hogs="$hogs $!"
done
wait_for kept kept
kill $hogs
echo "newest:" $(ls -r $dir)
echo "@@ trace"
gzip -c $dir/watch-000013.dat | base64
echo "@@ kill"
ls /sys/kernel/tracing/instances
kill -9 $pid
wait_for again again
wait_for serves serves
ls /sys/kernel/tracing/instances
echo "@@ stop"
systemctl stop $unit
systemctl show -p ActiveState -p Result -p ExecMainStatus $unit
echo "kept:" $(ls $dir)
echo "left:" $(ls /sys/kernel/tracing/instances /run/schedlab) $(cat /sys/fs/cgroup/system.slice/$unit/cgroup.procs)
echo "@@ end"
"#;

/// Its own target, for the service and the check; what the service wants of the system is there at once.
fn units(guest: &Guest) {
    let unit = |name: &str, text: &str| guest.file(&format!("etc/systemd/system/{name}"), text);
    let service =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/watch/schedlab-watch.service");
    unit("schedlab-watch.service", &std::fs::read_to_string(service).unwrap());
    let check = "[Service]\nType=oneshot\nExecStart=/bin/bash /check.sh\nStandardOutput=tty\n\
                 StandardError=tty\nTTYPath=/dev/ttyS0\nTimeoutStartSec=infinity\n";
    unit("check.service", check);
    for target in ["sysinit", "basic", "shutdown"] {
        unit(&format!("{target}.target"), "[Unit]\n");
    }
    unit("default.target", "[Unit]\nWants=check.service schedlab-watch.service\n");
    guest.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    guest.file("etc/group", "root:x:0:\n");
    guest.file("etc/machine-id", "");
    guest.file("check.sh", &format!("{CHECK}{END}"));
    for below in ["var/tmp", "home", "root"] {
        guest.file(&format!("{below}/.keep"), "");
    }
}

/// A guest with systemd as its first process.
fn guest() -> Option<Guest> {
    let checks = "the service file under systemd";
    if !Path::new(SYSTEMD).exists() {
        missing!("{SYSTEMD}; not checked: {checks}");
        return None;
    }
    let guest = Guest::of("debian-6.1", checks)?;
    guest.program(Path::new(SYSTEMD), &SYSTEMD[1..]);
    // Newer ones start services through it.
    let executor = format!("{SYSTEMD}-executor");
    if Path::new(&executor).exists() {
        guest.program(Path::new(&executor), &executor[1..]);
    }
    guest.tool("systemctl")?;
    guest.program(Path::new(env!("CARGO_BIN_EXE_schedlab")), "usr/local/bin/schedlab");
    units(&guest);
    Some(guest)
}

#[test]
fn systemd_runs_the_service_with_its_rights_alone_and_restarts_it() {
    let Some(guest) = guest() else { return };
    let groups = "mount -t cgroup2 none /sys/fs/cgroup\n";
    let Some(text) = guest.boot(&format!("{BEGIN}{groups}exec {SYSTEMD}\n"), &TWO) else { return };
    let part = |name: &str| {
        let block = text.split(&format!("@@ {name}\n")).nth(1);
        let block = block.and_then(|block| block.split("@@ ").next());
        block.unwrap_or_else(|| panic!("no part '{name}' in {text}"))
    };
    let lines = |name: &str| part(name).lines().map(str::trim_end).collect::<BTreeSet<_>>();

    let start = lines("start");
    // CAP_DAC_READ_SEARCH, CAP_SYS_NICE, CAP_SYSLOG, CAP_PERFMON.
    let capabilities: u64 = [2, 23, 34, 38].map(|bit| 1 << bit).iter().sum();
    for word in ["serves", "NoNewPrivs: 1", "CapAmb: 0000000000000000", "CapInh: 0000000000000000"]
    {
        assert!(start.contains(word), "no '{word}' in {start:?}");
    }
    for set in ["Prm", "Eff", "Bnd"] {
        let word = format!("Cap{set}: {capabilities:016x}");
        assert!(start.contains(&*word), "no '{word}' in {start:?}");
    }

    let write = part("write").lines().filter_map(|line| line.trim_end().split_once(':'));
    let (may, not): (Vec<_>, Vec<_>) = write.partition(|(_, said)| said.trim().is_empty());
    let tracefs = "/sys/kernel/tracing";
    let own = [
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "/run/schedlab",
        "/var/lib/schedlab",
        &format!("{tracefs}/instances"),
        &format!("{tracefs}/tracing_on"),
        &format!("{tracefs}/options/record-cmd"),
    ];
    assert_eq!(may.iter().map(|(path, _)| *path).collect::<Vec<_>>(), own);
    assert_eq!(not.len(), 16, "{not:?}");
    assert!(not.iter().all(|(_, said)| *said == " Read-only file system"), "{not:?}");

    let disk = lines("disk");
    // A busy machine may keep two.
    let newest = part("disk").contains("watch-000013.dat watch-000012.dat ");
    assert!(disk.contains("kept") && newest, "{disk:?}");
    std::fs::write(guest.dir().join("x.dat"), guest.unpacked(part("trace"))).unwrap();
    let mut why = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let why = why.args(["why", "x.dat"]).current_dir(guest.dir()).output().unwrap();
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    let words: Vec<&str> = why.split_whitespace().collect();
    assert!(words.join(" ").contains("which ended the recording"), "{why}");

    let kill = lines("kill");
    assert!(kill.contains("again") && kill.contains("serves"), "{kill:?}");
    let instances =
        part("kill").matches("schedlab-").count() - part("kill").matches("schedlab-watch").count();
    assert_eq!(instances, 2, "one before, and one of the next: {kill:?}");

    let stop = lines("stop");
    for word in ["ActiveState=inactive", "Result=success", "ExecMainStatus=0"] {
        assert!(stop.contains(word), "no '{word}' in {stop:?}");
    }
    let kept = stop.iter().find_map(|line| line.strip_prefix("kept: ")).expect("a line");
    assert!(kept.split(' ').count() <= 10 && !kept.contains("spool"), "{kept}");
    assert!(
        part("stop").contains("left: /run/schedlab: /sys/kernel/tracing/instances:\n"),
        "{stop:?}"
    );
}
