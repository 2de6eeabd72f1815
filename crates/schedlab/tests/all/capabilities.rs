//! A program whose file has capabilities (`setcap`), started by a second user: it opens no file that this user could not
//! open, runs nobody's code, and still records.
//!
//! The file has more than any advice gives it: what it must not do is tried with the capability that opens every file.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Who is neither root nor in a group that may do anything.
const USER: [&str; 3] = ["--reuid=65534", "--regid=65534", "--inh-caps=+dac_read_search"];
const ALL: &str = "cap_perfmon,cap_dac_read_search+ep";
const SECRET: &str = "correcthorse";
const TRACEFS: &str = "/sys/kernel/tracing";

/// A folder that everybody may write to, with copies of the program and a file that root alone may read.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// `None` where capabilities of files cannot be tried.
    fn new() -> Option<Self> {
        let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
        let there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
        let tools = there("setcap") && there("setpriv");
        if !root || !tools {
            missing!("root, setcap (Debian package libcap2-bin): a second user was not tried");
            assert!(tools || std::env::var_os("CI").is_none(), "libcap2-bin must be there in CI");
            return None;
        }
        let place = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        open_to(place.dir.path(), 0o777);
        std::fs::write(place.at("secret"), format!("{SECRET}\n")).expect("a file");
        open_to(&place.at("secret"), 0o600);
        // Whether capabilities of files are in force here (not so on a nosuid mount): `cat` reads what it should not.
        place.copy(Path::new("/bin/cat"), "cat", Some(ALL));
        if place.user("cat", &["secret"]).stdout != format!("{SECRET}\n").as_bytes() {
            missing!("capabilities of files on this mount: a second user was not tried");
            return None;
        }
        place.copy(Path::new(env!("CARGO_BIN_EXE_schedlab")), "plain", None);
        place.copy(Path::new(env!("CARGO_BIN_EXE_schedlab")), "capable", Some(ALL));
        Some(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn copy(&self, program: &Path, name: &str, capabilities: Option<&str>) {
        std::fs::copy(program, self.at(name)).expect("a copy");
        open_to(&self.at(name), 0o755);
        if let Some(capabilities) = capabilities {
            let set = Command::new("setcap").arg(capabilities).arg(self.at(name)).status();
            assert!(set.expect("setcap starts").success(), "{capabilities}");
        }
    }

    /// Has a second user start a program of the folder.
    fn user(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(USER).arg("--clear-groups").arg(self.at(program)).args(arguments);
        // Where the folder of journals is made.
        command.env("XDG_RUNTIME_DIR", self.dir.path());
        command.current_dir(self.dir.path()).stdin(Stdio::null()).output().expect("setpriv starts")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap_or_default()
    }
}

fn open_to(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("root may");
}

/// All that a command printed.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn a_file_of_roots_stays_unread_whatever_command_names_it() {
    let Some(place) = Place::new() else { return };
    let jobs = ["jobs", "run", "--shape", "chain", "--nodes", "2", "--events", "secret"];
    let load = ["load", "cpu", "--duration", "1ms", "--on", "sim:costs=secret"];
    // What each reader tells of the file: a line, bytes, or where the line ends.
    let all: [(&[&str], &str); 4] = [
        (&jobs, SECRET),
        (&load, SECRET),
        (&["trace", "info", "secret"], "63 6f 72 72 65 63 74"),
        (&["run", "secret"], "column 13"),
    ];
    for (command, part) in all {
        let mut root = Command::new(place.at("plain"));
        let root = said(&root.args(command).current_dir(place.dir.path()).output().unwrap());
        assert!(root.contains(part), "{command:?}: the file's reader sees it: {root}");
        let user = said(&place.user("capable", command));
        assert!(!user.contains(part), "{command:?}: {user}");
        assert!(user.contains("Permission denied"), "{command:?}: {user}");
    }
}

#[test]
fn the_code_of_a_library_does_not_run_in_a_program_with_capabilities() {
    let Some(place) = Place::new() else { return };
    if Command::new("g++").arg("--version").output().is_err() {
        return missing!("g++ (Debian package g++): no library was loaded");
    }
    let text = "#include <cstdio>\nextern \"C\" void schedlab_execute() {}\n\
         __attribute__((constructor)) static void run() { puts(\"it ran\"); }\n";
    std::fs::write(place.at("x.cpp"), text).unwrap();
    let mut build = Command::new("g++");
    build.args(["-shared", "-fPIC", "x.cpp", "-o", "x.so"]).current_dir(place.dir.path());
    assert!(build.status().unwrap().success());
    let run = ["jobs", "run", "--shape", "chain", "--nodes", "2", "--executor", "lib:./x.so"];
    let plain = said(&place.user("plain", &run));
    assert!(plain.contains("it ran"), "{plain}");
    let capable = place.user("capable", &run);
    assert_eq!(capable.status.code(), Some(1));
    let capable = said(&capable);
    assert!(!capable.contains("it ran") && capable.contains("setcap"), "{capable}");
}

#[test]
fn a_guardian_with_capabilities_undoes_journals_of_its_own_folder_alone() {
    let Some(place) = Place::new() else { return };
    let journal = format!(
        "{{\"step\":{{\"id\":0,\"undo\":{{\"write\":{{\"path\":\"{}\",\"content\":\"undone\"}}}}}}}}\n",
        place.at("knob").display()
    );
    let tried = |program: &str, name: &str| {
        for file in ["knob", name] {
            std::fs::write(place.at(file), if file == "knob" { "set" } else { &journal }).unwrap();
            open_to(&place.at(file), 0o666);
        }
        let path = place.at(name);
        let output = place.user(program, &["__guard", path.to_str().unwrap()]);
        (place.read("knob"), said(&output))
    };
    assert_eq!(tried("plain", "1-1-0.journal").0, "undone");
    let (knob, why) = tried("capable", "1-1-0.journal");
    assert_eq!(knob, "set");
    assert!(why.contains("not in the folder of journals"), "{why}");
    assert!(place.at("schedlab").is_dir(), "it looked for its own folder");
    assert_eq!(tried("capable", "schedlab/1-1-0.journal").0, "undone");
    let outside = place.at("schedlab/../1-1-0.journal");
    std::fs::write(&outside, &journal).unwrap();
    let output = place.user("capable", &["__guard", outside.to_str().unwrap()]);
    assert!(said(&output).contains("not in the folder of journals"), "{}", said(&output));
}

#[test]
fn a_set_user_id_bit_is_refused() {
    let Some(place) = Place::new() else { return };
    for mode in [0o4755, 0o2755] {
        open_to(&place.at("plain"), mode);
        let output = place.user("plain", &["trace", "info", "secret"]);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("chmod ug-s") && !said.contains(SECRET), "{said}");
    }
}

#[test]
fn a_program_that_it_starts_has_no_capability() {
    let Some(place) = Place::new() else { return };
    std::fs::write(place.at("look.sh"), "grep Cap /proc/self/status >>seen\n").unwrap();
    std::fs::write(place.at("seen"), "").unwrap();
    open_to(&place.at("seen"), 0o666);
    let executor = "cmd:sh look.sh";
    let jobs = ["jobs", "run", "--shape", "chain", "--nodes", "2", "--executor", executor];
    let load = ["load", "command", "--", "sh", "look.sh"];
    for command in [&jobs[..], &load] {
        std::fs::write(place.at("seen"), "").unwrap();
        let output = place.user("capable", command);
        is_without(&place.read("seen"), &["CapInh", "CapPrm", "CapEff", "CapAmb"], &said(&output));
    }
}

/// That these lines of a `/proc/PID/status` are there and name no capability.
#[track_caller]
fn is_without(status: &str, sets: &[&str], said: &str) {
    for set in sets {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(set)).peekable();
        assert!(lines.peek().is_some(), "{set}: {status} {said}");
        lines.for_each(|set| assert_eq!(set, ":\t0000000000000000", "{status}"));
    }
}

/// Has a second user record in the group 64321, with a tracefs of that group or one of root's alone. The measured command
/// looks at its own capabilities, and at those of all threads that record. `None` where there is no tracefs.
fn recorded(place: &Place, program: &str, of_group: bool) -> Option<Output> {
    let group = if of_group { 64_321 } else { 0 };
    let line = format!(
        "test -e {TRACEFS}/events || mount -t tracefs tracefs {TRACEFS} || exit 77
         before=$(stat -c gid=%g,mode=%a {TRACEFS})
         trap \"mount -o remount,$before {TRACEFS}\" EXIT
         mount -o remount,gid={group},mode=0750 {TRACEFS} || exit 77
         setpriv {} --groups=64321 ./{program} record -o x.dat --json -- sh -c \
           'grep Cap /proc/self/status >own; cat /proc/$PPID/task/*/status >recorders'",
        USER.join(" ")
    );
    for file in ["own", "recorders", "x.dat"] {
        let _ = std::fs::remove_file(place.at(file));
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &line]).current_dir(place.dir.path()).stdin(Stdio::null());
    let output = command.output().expect("unshare starts");
    if output.status.code() == Some(77) {
        missing!("a tracefs whose group can be set: no second user recorded");
        return None;
    }
    Some(output)
}

#[test]
fn cap_perfmon_and_the_group_of_tracefs_suffice_to_record_and_are_in_force_for_calls_alone() {
    let Some(place) = Place::new() else { return };
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    if paranoid.is_ok_and(|text| text.trim() == "-1") {
        return missing!("kernel.perf_event_paranoid above -1: perf events take no capability");
    }
    place.copy(Path::new(env!("CARGO_BIN_EXE_schedlab")), "advised", Some("cap_perfmon+ep"));
    // The capability that is not advised is raised for tracefs all the same.
    for (program, of_group) in [("advised", true), ("capable", false)] {
        let Some(output) = recorded(&place, program, of_group) else { return };
        let said = said(&output);
        assert_eq!(output.status.code(), Some(0), "{program}: {said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["via"], "perf", "{program}");
        assert!(json["events"]["sched_switch"].as_u64() > Some(0), "{program}: {json}");
        is_without(&place.read("own"), &["CapInh", "CapPrm", "CapEff", "CapAmb"], &said);
        let recorders = place.read("recorders");
        assert!(recorders.matches("Name:").count() > 1, "{recorders}");
        is_without(&recorders, &["CapInh", "CapEff", "CapAmb"], &said);
    }
    for (program, of_group) in [("advised", false), ("plain", true)] {
        let Some(output) = recorded(&place, program, of_group) else { return };
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{program}: {said}");
        assert!(said.contains("setcap cap_perfmon+ep FILE"), "{program}: {said}");
        assert!(said.contains("mount -o remount,gid=tracing,mode=0750"), "{program}: {said}");
    }
}

#[test]
fn what_needs_no_root_works_for_a_user_without_rights() {
    let Some(place) = Place::new() else { return };
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/buffers.dat");
    std::fs::copy(corpus, place.at("x.dat")).unwrap();
    open_to(&place.at("x.dat"), 0o644);
    let experiment = "name = \"e\"\nmachine = \"sim:cpus=2\"\nrepeats = 2\n[workload]\n\
         name = \"pingpong\"\noptions = { duration = \"1ms\" }\n";
    std::fs::write(place.at("e.toml"), experiment).unwrap();
    open_to(&place.at("e.toml"), 0o644);
    for line in [
        "trace info x.dat",
        "trace latency x.dat",
        "draw cores x.dat -o x.svg",
        "view x.dat -o x.html",
        "run e.toml",
        "run report results/e",
        "compare results/e results/e",
        "jobs generate --nodes 20 -o g.json",
        "load cpu --duration 1ms",
    ] {
        let output = place.user("plain", &line.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", said(&output));
    }
}

#[test]
fn what_it_does_not_need_it_gives_up() {
    let Some(place) = Place::new() else { return };
    let all = "cap_perfmon,cap_ipc_lock,cap_dac_read_search,cap_sys_admin,cap_sys_nice+ep";
    place.copy(Path::new(env!("CARGO_BIN_EXE_schedlab")), "mighty", Some(all));
    std::fs::write(place.at("look.sh"), "cat /proc/$PPID/status >seen\n").unwrap();
    std::fs::write(place.at("seen"), "").unwrap();
    open_to(&place.at("seen"), 0o666);
    let jobs = ["jobs", "run", "--shape", "chain", "--nodes", "2", "--executor", "cmd:sh look.sh"];
    let said = said(&place.user("mighty", &jobs));
    let seen = place.read("seen");
    let set = |name: &str| {
        let line = seen.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap_or_else(|| panic!("{seen} {said}")).trim(), 16).unwrap()
    };
    // CAP_DAC_READ_SEARCH, CAP_IPC_LOCK and CAP_PERFMON, by their numbers.
    assert_eq!(set("CapPrm:"), 1 << 2 | 1 << 14 | 1 << 38, "{seen}");
    assert_eq!(set("CapEff:"), 0, "{seen}");
}

#[test]
fn the_advice_is_that_of_the_page_in_an_order_that_holds() {
    let Some(place) = Place::new() else { return };
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SECURITY.md");
    let page = std::fs::read_to_string(page).unwrap();
    let doctor = said(&place.user("plain", &["doctor"]));
    for step in ["setcap cap_perfmon+ep", "mount -o remount,gid=tracing,mode=0750"] {
        assert!(page.contains(step) && doctor.contains(step), "{step}: {doctor}");
    }
    let at = |step: &str| page.find(&format!("    {step}")).expect("a line of its own");
    assert!(at("chgrp") < at("chmod 0750") && at("chmod 0750") < at("setcap"));
    let capabilities = || {
        let output = Command::new("getcap").arg(place.at("capable")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(capabilities().contains("cap_perfmon"));
    let grouped = Command::new("chgrp").arg("64321").arg(place.at("capable")).status();
    assert!(grouped.unwrap().success());
    assert_eq!(capabilities(), "", "the page says that chgrp removes them");
}

#[test]
fn no_advice_names_a_capability_that_opens_files_or_holds_cpus() {
    let Some(place) = Place::new() else { return };
    let doctor = said(&place.user("plain", &["doctor"]));
    assert!(doctor.contains("setcap cap_perfmon+ep FILE"), "{doctor}");
    let record = said(&place.user("plain", &["record", "--", "true"]));
    for text in [doctor, record] {
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let named = words.iter().filter(|word| word.to_lowercase().starts_with("cap_"));
        let others: Vec<_> = named.filter(|word| word.to_lowercase() != "cap_perfmon").collect();
        assert!(others.is_empty(), "{others:?}: {text}");
    }
}
