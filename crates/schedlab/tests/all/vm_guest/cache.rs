//! What is fetched for virtual machines, and what killed commands leave. The package manager is a script.

use super::names;
use crate::vm_fake::{Place, stderr, stdout};
use schedlab_sys::lock::Lock;
use std::fs;
use std::process::{Command, Stdio};

/// More than any process's number on Linux (`PID_MAX_LIMIT`).
const NOBODY: u32 = 4_194_305;

#[test]
fn the_next_command_removes_what_killed_ones_left_and_nothing_else() {
    let place = Place::new();
    let cache = place.path("cache/schedlab");
    let own = std::process::id();
    let left = [
        format!("kernels/.making-debian-0.1-{NOBODY}"),
        format!("qemu/.making-debian-{NOBODY}"),
        "builds/linux-source-0.1/unpacking".to_owned(),
    ];
    let used = [
        format!("kernels/.making-debian-0.2-{own}"),
        format!("qemu/.making-debian-{own}"),
        "builds/linux-source-0.2/unpacking".to_owned(),
        "builds/linux-source-0.1/objects".to_owned(),
    ];
    for folder in left.iter().chain(&used) {
        fs::create_dir_all(cache.join(folder).join("usr")).unwrap();
    }
    // Who unpacks holds the lock of its source.
    let _lock = Lock::take(&cache.join("builds/linux-source-0.2/lock")).unwrap();
    let listed = place.run(&["vm", "kernels"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    for folder in &left {
        assert!(!cache.join(folder).exists(), "{folder} is left");
    }
    for folder in &used {
        assert!(cache.join(folder).join("usr").is_dir(), "{folder} is gone");
    }
    // The lock that the command took of the other source is gone too.
    assert_eq!(names(&cache.join("builds/linux-source-0.1")), ["objects"]);
}

/// Programs that give packages of QEMU: without options of their own in version `system`, with lists of
/// another suite in version 10.
fn packages(place: &Place, system: &str, program: &str) {
    let bin = place.path("bin");
    let bin = bin.display();
    let madison = format!(
        "#!/bin/sh\ncase \"$1\" in -o) version=1:10.0.2+ds-2;; *) version={system};; esac\n\
         for package; do :; done\necho \" $package | $version | http://example.org/debian\"\n"
    );
    place.program("apt-cache", &madison);
    let get = format!(
        "#!/bin/sh\necho \"$*\" >> {bin}/asked\ncase \"$*\" in\n\
         *indextargets*) echo http://example.org/debian Debian\n\
         echo http://example.org/security Debian-Security;;\n\
         *update) for option; do case $option in *sourcelist=*) cat ${{option#*=}} > {bin}/list;; \
         esac; done;;\n\
         *download*) touch x86.deb data.deb seabios.deb;;\nesac\n"
    );
    place.program("apt-get", &get);
    let unpack = format!(
        "#!/bin/sh\nmkdir -p $3/usr/bin\ncase $2 in */x86.deb)\n\
         cp {bin}/packed $3/usr/bin/qemu-system-x86_64;;\nesac\n"
    );
    place.program("dpkg", &unpack);
    place.program("packed", program);
}

#[test]
fn a_newer_qemu_is_fetched_once_and_boots_several_cpus() {
    let place = Place::new();
    let tree = place.tree("linux");
    let built = place.run(&["vm", "build", tree.to_str().unwrap()]);
    assert!(built.status.success(), "{}", stderr(&built));
    place.machine(2);
    let qemu = place.path("bin/qemu");
    packages(&place, "1:10.0.8+ds-0", &format!("#!/bin/sh\nexec {} \"$@\"\n", qemu.display()));
    let machine = "vm:kernel=linux-250hz-voluntary,cpus=2,qemu=debian";
    let run = place.run(&["load", "hackbench", "--on", machine]);
    assert!(run.status.success(), "{}", stderr(&run));
    let asked = fs::read_to_string(place.path("bin/asked")).unwrap();
    let wanted = ["qemu-system-x86", "qemu-system-data", "seabios"];
    let wanted = wanted.map(|package| format!("{package}=1:10.0.8+ds-0")).join(" ");
    assert_eq!(asked, format!("-q download {wanted}\n"));
    // It stays.
    place.program("apt-get", "#!/bin/sh\nexit 1\n");
    let fetched = place.run(&["vm", "fetch", "qemu"]);
    let path = place.path("cache/schedlab/qemu/debian/usr/bin/qemu-system-x86_64");
    let told = format!("QEMU emulator version 99 (a script) {}\n", path.display());
    assert_eq!(
        (stdout(&fetched), names(&place.path("cache/schedlab/qemu"))),
        (told, vec!["debian".to_owned()])
    );
}

#[test]
fn an_old_release_gets_qemu_from_its_backports_and_failures_leave_nothing() {
    let place = Place::new();
    let folder = place.path("cache/schedlab/qemu");
    let broken =
        "#!/bin/sh\necho 'error while loading shared libraries: libx.so.0' >&2\nexit 127\n";
    packages(&place, "1:7.2+dfsg-7", broken);
    let fetched = place.run(&["vm", "fetch", "qemu"]);
    assert_eq!(fetched.status.code(), Some(1));
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    match release.lines().any(|line| line == "ID=debian") {
        true => {
            let told = stderr(&fetched);
            assert!(told.contains("a library of QEMU is missing: apt-get install"), "{told}");
            assert!(told.contains("libx.so.0"), "{told}");
            let list = fs::read_to_string(place.path("bin/list")).unwrap();
            assert!(list.starts_with("deb http://example.org/debian "), "{list}");
            assert!(list.ends_with("-backports main\n") && list.lines().count() == 1, "{list}");
        }
        // Another distribution: nobody knows which of its suites has it.
        false => assert!(
            stderr(&fetched).contains("QEMU 10 or later is missing"),
            "{}",
            stderr(&fetched)
        ),
    }
    assert_eq!(names(&folder), [""; 0]);
    let wrong = place.run(&["vm", "fetch", "bochs"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("use debian-6.1 or qemu"), "{}", stderr(&wrong));
}

/// Programs that give the kernel `debian-0.1`; `unpack` is what the shell does to unpack it in `$3`.
fn kernel_package(place: &Place, unpack: &str) {
    place.program("apt-cache", "#!/bin/sh\necho linux-image-0.1.0-1-cloud-amd64 - a kernel\n");
    place.program("apt-get", "#!/bin/sh\nsleep 0.2\ntouch linux.deb\n");
    place.program("dpkg", &format!("#!/bin/sh\n{unpack}\n"));
}

/// Makes a folder with a kernel that only names its release.
const KERNEL: &str = "mkdir -p $3/boot && printf '\\177ELF Linux version 0.1.0-fake (x)' \
                      > $3/boot/vmlinuz-0.1";

#[test]
fn two_that_fetch_a_kernel_at_a_time_both_get_it() {
    let place = Place::new();
    kernel_package(&place, KERNEL);
    let fetch = || {
        let mut command = place.command(&["vm", "fetch", "debian-0.1"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for output in [fetch(), fetch()].map(|child| child.wait_with_output().unwrap()) {
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).starts_with("0.1.0-fake "), "{}", stdout(&output));
    }
    assert_eq!(names(&place.path("cache/schedlab/kernels")), ["debian-0.1"]);
}

#[test]
fn a_full_disk_is_named_and_leaves_no_kernel() {
    let place = Place::new();
    // What tar says last does not say why.
    let full = "mkdir -p $3/boot && head -c 9 /dev/zero > /dev/full; \
                echo 'tar: Exiting with failure status due to previous errors' >&2; exit 2";
    kernel_package(&place, full);
    let failed = place.run(&["vm", "fetch", "debian-0.1"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("No space left on device"), "{}", stderr(&failed));
    assert_eq!(names(&place.path("cache/schedlab/kernels")), [""; 0]);
    // So does the place of results: a file system of a few pages, where one may be mounted.
    let qemu = place.machine(1);
    let tree = place.tree("linux");
    let built = place.run(&["vm", "build", tree.to_str().unwrap()]);
    assert!(built.status.success(), "{}", stderr(&built));
    let machine = format!("vm:kernel=linux-250hz-voluntary,{qemu}");
    let file = super::experiment(&place, "full", &machine, "record = true");
    let out = place.path("out");
    fs::create_dir(&out).unwrap();
    let script = "mount -t tmpfs -o size=16k none \"$1\" && shift && exec \"$@\"";
    let inside = place.command(&["run", &file, "--output", out.to_str().unwrap()]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--user", "--map-root-user", "sh", "-c", script, "sh"]).arg(&out);
    command.arg(inside.get_program()).args(inside.get_args());
    let variables = inside.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let done = command.envs(variables).output().unwrap();
    let told = stderr(&done);
    if told.contains("unshare: ") || told.contains("mount: ") {
        missing!("{}; not checked: results on a full disk", told.trim());
        return;
    }
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.contains("No space left on device"), "{told}");
}
