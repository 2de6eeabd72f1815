//! Kernels that are built, compared and searched: with trees of a few lines for kernels, and a QEMU that
//! is a script. So all paths but the real compiler and the real machine are walked.

mod search;

use crate::vm_fake::{Place, await_end, stderr, stdout, wait_for};
use schedlab_model::Pid;
use schedlab_sys::process;
use std::fs;
use std::process::{Command, Stdio};

/// The image of a kernel that was built.
fn image(place: &Place, name: &str) -> Option<String> {
    let path = place.path("cache/schedlab/kernels").join(name).join("vmlinux");
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn the_same_source_gives_the_same_kernel_wherever_it_is_built() {
    let (one, two) = (Place::new(), Place::new());
    for (place, name) in [(&one, "linux"), (&two, "elsewhere/linux")] {
        let tree = place.tree(name);
        let built = place.run(&["vm", "build", tree.to_str().unwrap(), "--hz", "1000"]);
        assert!(built.status.success(), "{}", stderr(&built));
        let told = "linux-1000hz-voluntary: built; use it as vm:kernel=linux-1000hz-voluntary\n";
        assert_eq!(stdout(&built), told);
        assert_eq!(place.half(), [""; 0]);
    }
    let first = image(&one, "linux-1000hz-voluntary").unwrap();
    assert_eq!(Some(&first), image(&two, "linux-1000hz-voluntary").as_ref());
    let listed = stdout(&one.run(&["vm", "kernels", "--json"]));
    assert!(listed.contains("\"release\":\"6.1.0-fake\"") && listed.contains("\"hz\":\"1000\""));
    let tree = one.path("linux");
    let placebo = one.run(&["vm", "build", tree.to_str().unwrap(), "--placebo", "3"]);
    assert!(placebo.status.success(), "{}", stderr(&placebo));
    let placebo = image(&one, "linux-250hz-voluntary-placebo3").unwrap();
    assert!(placebo.contains("-fpatchable-function-entry=3"), "{placebo}");
}

#[test]
fn what_stops_a_build_is_named_and_leaves_no_half_kernel() {
    let place = Place::new();
    let tree = place.tree("linux");
    let words = ["vm", "build", tree.to_str().unwrap()];
    for (file, told) in [("broken", "sched.c:1: error: broken"), ("full", "No space left")] {
        fs::write(tree.join(file), "").unwrap();
        let failed = place.run(&words);
        assert_eq!(failed.status.code(), Some(1));
        assert!(stderr(&failed).contains(told), "{}", stderr(&failed));
        assert_eq!((image(&place, "linux-250hz-voluntary"), place.half()), (None, Vec::new()));
        fs::remove_file(tree.join(file)).unwrap();
    }
    let wrong = place.run(&["vm", "build", "no-such-source"]);
    assert!(stderr(&wrong).contains("name a tree with a Kconfig"), "{}", stderr(&wrong));
    let symbol = place.run(&[&words[..], &["--set", "CONFIG_A;B=y"]].concat());
    assert_eq!(symbol.status.code(), Some(2), "{}", stderr(&symbol));
    let mut nothing = place.command(&words);
    let bare = nothing.env("PATH", place.path("nothing")).output().unwrap();
    let told = stderr(&bare);
    assert!(told.contains("make, gcc, flex") && told.contains("apt-get install make"), "{told}");
}

/// Waits until the slow build runs; the process that it waits for.
fn slow(place: &Place) -> Pid {
    let builds = place.path("cache/schedlab/builds");
    wait_for(|| {
        let folders = fs::read_dir(&builds).into_iter().flatten().flatten();
        let mut pids = folders.flat_map(|f| fs::read_to_string(f.path().join("objects/pid")));
        pids.next().map(|text| Pid(text.trim().parse().unwrap()))
    })
}

#[test]
fn a_build_that_is_stopped_or_killed_leaves_no_process_and_no_half_kernel() {
    let place = Place::new();
    let tree = place.tree("linux");
    let words = ["vm", "build", tree.to_str().unwrap()];
    for (signal, code) in [(2, Some(130)), (9, None)] {
        fs::write(tree.join("slow"), "").unwrap();
        let mut build = place.command(&words).stderr(Stdio::null()).spawn().unwrap();
        let sleeps = slow(&place);
        process::kill(Pid(build.id().cast_signed()), signal).unwrap();
        assert_eq!(build.wait().unwrap().code(), code);
        await_end(sleeps);
        assert_eq!(image(&place, "linux-250hz-voluntary"), None);
        fs::remove_file(tree.join("slow")).unwrap();
        let objects = fs::read_dir(place.path("cache/schedlab/builds")).unwrap().next();
        fs::remove_file(objects.unwrap().unwrap().path().join("objects/pid")).unwrap();
    }
    // The next build removes what the killed one left.
    let built = place.run(&words);
    assert!(built.status.success(), "{}", stderr(&built));
    assert_eq!(place.half(), [""; 0]);
}

/// Programs that give the package `linux-source-0.1`, which holds a tree.
fn package(place: &Place) {
    let tree = place.tree("linux-source-0.1");
    let source = place.path("usr/src");
    fs::create_dir_all(&source).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(source.join("linux-source-0.1.tar.gz"));
    tar.arg("-C").arg(tree.parent().unwrap()).arg("linux-source-0.1");
    assert!(tar.status().unwrap().success());
    let found = "#!/bin/sh\necho linux-source-0.1 - a source\n";
    place.program("apt-cache", found);
    let archive = place.path("archive.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&archive).arg("-C").arg(place.path(".")).arg("usr");
    assert!(tar.status().unwrap().success());
    let archive = archive.display();
    place.program("apt-get", &format!("#!/bin/sh\ncp {archive} linux-source-0.1_1.deb\n"));
    place.program("dpkg", "#!/bin/sh\nmkdir \"$3\" && tar -xf \"$2\" -C \"$3\"\n");
}

#[test]
fn a_package_is_built_once_by_two_at_a_time() {
    let place = Place::new();
    package(&place);
    let words = ["vm", "build", "linux-source-0.1"];
    let start = || {
        let mut command = place.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (one, two) = (start(), start());
    let outputs = [one, two].map(|child| child.wait_with_output().unwrap());
    let mut told = outputs.iter().map(|output| {
        assert!(output.status.success(), "{}", stderr(output));
        stdout(output).split(&[':', ';']).nth(1).unwrap().trim().to_owned()
    });
    let mut told = [told.next().unwrap(), told.next().unwrap()];
    told.sort();
    assert_eq!(told, ["built", "in the cache already"]);
    assert_eq!(place.half(), [""; 0]);
}

#[test]
fn a_patch_is_in_one_kernel_only() {
    let there = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .any(|folder| folder.join("patch").is_file());
    if !there {
        missing!("patch; not checked: that a patch is taken out after a build");
        return;
    }
    let place = Place::new();
    package(&place);
    let patch = place.path("slower.patch");
    let text = "--- a/time\n+++ b/time\n@@ -1 +1 @@\n-1.0\n+2.0\n";
    fs::write(&patch, text).unwrap();
    let build = |words: &[&str]| {
        let built = place.run(&[&["vm", "build", "linux-source-0.1"], words].concat());
        assert!(built.status.success(), "{}", stderr(&built));
    };
    build(&["--patch", patch.to_str().unwrap(), "--name", "slower"]);
    build(&[]);
    assert!(image(&place, "slower").unwrap().contains("time=2.0"));
    assert!(image(&place, "0.1-250hz-voluntary").unwrap().contains("time=1.0"));
    // A build that was killed left its patch in the tree, or did not get to apply it.
    let folder = place.path("cache/schedlab/builds/linux-source-0.1");
    for (time, name) in [("2.0\n", "after-patch"), ("1.0\n", "before-patch"), ("7\n", "broken")] {
        fs::copy(&patch, folder.join("applied.patch")).unwrap();
        fs::write(folder.join("linux-source-0.1/time"), time).unwrap();
        build(&["--name", name]);
        assert!(image(&place, name).unwrap().contains("time=1.0"), "{name}");
    }
}

/// What builds schedulers in a tree of a few lines: each says how it is linked.
const SCHEDULERS: &str = "all:\n\t@mkdir -p $(O)/build/bin\n\
                          \t@echo \"$(LDFLAGS) by $(CLANG)\" > $(O)/build/bin/scx_fake\n\
                          %/bpftool:\n\t@test -z '$(LDFLAGS)'\n";

#[test]
fn schedulers_are_built_with_their_kernel_as_static_programs() {
    let place = Place::new();
    let tree = place.tree("linux");
    for program in ["pahole", "strip", "clang-39"] {
        place.program(program, "#!/bin/sh\nexit 0\n");
    }
    let words = ["vm", "build", tree.to_str().unwrap(), "--ext"];
    let old = place.run(&words);
    assert_eq!(old.status.code(), Some(2));
    assert!(stderr(&old).contains("use Linux 6.12 or later"), "{}", stderr(&old));
    assert_eq!(place.half(), [""; 0]);
    let tools = tree.join("tools/sched_ext");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("Makefile"), SCHEDULERS).unwrap();
    let built = place.run(&words);
    assert!(built.status.success(), "{}", stderr(&built));
    assert!(stdout(&built).starts_with("linux-250hz-voluntary-ext: built"), "{}", stdout(&built));
    let folder = place.path("cache/schedlab/kernels/linux-250hz-voluntary-ext");
    let config = fs::read_to_string(folder.join("config")).unwrap();
    assert!(config.contains("CONFIG_SCHED_CLASS_EXT=y"), "{config}");
    let program = fs::read_to_string(folder.join("ext/scx_fake")).unwrap();
    assert_eq!(program, "-static -lelf -lz -lpthread by clang-39\n");
    // It is found by its name, and others are not.
    let machine = format!("vm:kernel=linux-250hz-voluntary-ext,{}", place.machine(1));
    let load = |name: &str| place.run(&["load", "hackbench", "--on", &machine, "--ext", name]);
    assert!(load("scx_fake").status.success());
    let other = load("scx_other");
    assert!(stderr(&other).contains("use scx_fake, or the path"), "{}", stderr(&other));
}
