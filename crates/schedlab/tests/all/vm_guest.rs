//! Runs on virtual machines: what is compared, what is refused, and what is left when they are stopped. The
//! guest is a script; `vm.rs` boots real kernels.

mod cache;

use crate::vm_fake::{Place, await_end, stderr, stdout, wait_for};
use schedlab_model::Pid;
use schedlab_sys::process;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

/// An experiment of this name on a machine; `more` are lines of the file.
fn experiment(place: &Place, name: &str, machine: &str, more: &str) -> String {
    let file = place.path(&format!("{name}.toml"));
    let text = format!(
        "name = '{name}'\ntitle = 'a'\nquestion = 'a?'\nmachine = '{machine}'\nrepeats = 4\n\
         retries = 0\n{more}\n[[workload]]\nlabel = 'a'\nname = 'hackbench'\n"
    );
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn run(place: &Place, name: &str, machine: &str, more: &str) -> Output {
    let file = experiment(place, name, machine, more);
    place.run(&["run", &file, "--output", place.path("out").to_str().unwrap()])
}

/// A place with the same kernel in two configurations, and the names of both.
fn kernels() -> (Place, [&'static str; 2]) {
    let place = Place::new();
    let tree = place.tree("linux");
    for hz in ["250", "1000"] {
        let built = place.run(&["vm", "build", tree.to_str().unwrap(), "--hz", hz]);
        assert!(built.status.success(), "{}", stderr(&built));
    }
    (place, ["linux-250hz-voluntary", "linux-1000hz-voluntary"])
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn kernels_are_compared_and_recorded_runs_with_others_are_not() {
    let (place, [one, two]) = kernels();
    let qemu = place.machine(1);
    for (name, kernel, more) in
        [("one", one, ""), ("two", two, ""), ("recorded", two, "record = true")]
    {
        let done = run(&place, name, &format!("vm:kernel={kernel},{qemu}"), more);
        assert!(done.status.success(), "{}", stderr(&done));
        // A grid is estimated before it starts, by its first run.
        assert!(stderr(&done).contains("the first run shows how long the others take"));
        assert!(stderr(&done).contains("schedlab: it took "), "{}", stderr(&done));
    }
    let [one, two, recorded] = ["one", "two", "recorded"].map(|name| place.path("out").join(name));
    let compare =
        |other: &Path| place.run(&["compare", one.to_str().unwrap(), other.to_str().unwrap()]);
    // Their configurations differ, and so do what the guests hold; their programs do not.
    let kernels = compare(&two);
    assert!(kernels.status.success(), "{}", stderr(&kernels));
    assert!(stdout(&kernels).contains("time_s"), "{}", stdout(&kernels));
    let mixed = compare(&recorded);
    assert_eq!(mixed.status.code(), Some(1));
    assert!(stderr(&mixed).contains("recording takes time"), "{}", stderr(&mixed));
}

#[test]
fn times_of_cpus_that_share_instructions_are_refused_everywhere() {
    const WHY: &str = "share one budget of instructions";
    let (place, [one, two]) = kernels();
    let qemu = place.machine(2);
    let machine = format!("vm:kernel={one},cpus=2,{qemu}");
    let measured = run(&place, "times", &machine, "measure = ['time_s']");
    assert!(!measured.status.success());
    assert!(stderr(&measured).contains(WHY), "{}", stderr(&measured));
    assert_eq!(names(&place.path("out")), [""; 0]);

    for name in ["a", "b"] {
        let done = run(&place, name, &machine, "measure = ['switches_involuntary']");
        assert!(done.status.success(), "{}", stderr(&done));
    }
    let [a, b] = ["a", "b"].map(|name| place.path("out").join(name));
    let sides = ["compare", a.to_str().unwrap(), b.to_str().unwrap()];
    let decisions = place.run(&sides);
    assert!(decisions.status.success(), "{}", stderr(&decisions));
    assert!(!stdout(&decisions).contains("time_s"), "{}", stdout(&decisions));
    let times = place.run(&[&sides[..], &["--metric", "time_s"]].concat());
    assert_eq!(times.status.code(), Some(2));
    assert!(stderr(&times).contains("no metric 'time_s' in both sets: "), "{}", stderr(&times));
    assert!(stderr(&times).contains(WHY), "{}", stderr(&times));

    let sides = [one, two].map(|kernel| format!("vm:kernel={kernel},cpus=2,{qemu}"));
    let sides = ["compare", "--side", &sides[0], "--side", &sides[1], "--metric", "time_s"];
    let compared = place.run(&[&sides[..], &["--", "hackbench"]].concat());
    assert_eq!(compared.status.code(), Some(2));
    assert!(stderr(&compared).contains(WHY), "{}", stderr(&compared));
}

#[test]
fn a_run_that_is_stopped_or_killed_leaves_nothing() {
    let (place, [kernel, _]) = kernels();
    let machine = format!("vm:kernel={kernel},{}", place.machine(1));
    let file = experiment(&place, "grid", &machine, "");
    let (out, scratch) = (place.path("out"), place.path("tmp"));
    fs::create_dir(&scratch).unwrap();
    let results = ["run", &file, "--output", out.to_str().unwrap()];
    let load = ["load", "hackbench", "--on", &machine];
    fs::write(place.path("bin/hang"), "").unwrap();
    for words in [&results[..], &load[..]] {
        for (signal, code) in [(2, Some(130)), (9, None)] {
            let mut command = place.command(words);
            command.env("TMPDIR", &scratch).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            let at = place.path("bin/pid");
            let text = wait_for(|| fs::read_to_string(&at).ok());
            fs::remove_file(at).unwrap();
            process::kill(Pid(child.id().cast_signed()), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), code, "{words:?}");
            await_end(Pid(text.parse().unwrap()));
            assert_eq!(names(&scratch), [""; 0], "{words:?}, signal {signal}");
        }
    }
    fs::remove_file(place.path("bin/hang")).unwrap();
    // The same command goes on, and what the killed one had begun goes.
    let done = place.run(&results);
    assert!(done.status.success(), "{}", stderr(&done));
    let runs = names(&out.join("grid/runs"));
    assert!(runs.len() == 4 && runs.iter().all(|name| !name.starts_with('.')), "{runs:?}");
}

#[test]
fn a_kernel_that_is_half_fetched_is_not_there() {
    let place = Place::new();
    place.program("apt-cache", "#!/bin/sh\necho linux-image-0.1.0-1-cloud-amd64 - a kernel\n");
    let slow = "#!/bin/sh\ntouch linux.deb\necho $$ > \"${0%/*}/new\"\nmv \"${0%/*}/new\" \
                \"${0%/*}/pid\"\nexec sleep 1000\n";
    place.program("apt-get", slow);
    for (signal, code, left) in [(2, Some(130), 0), (9, None, 1)] {
        let mut command = place.command(&["vm", "fetch", "debian-0.1"]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let at = place.path("bin/pid");
        let text = wait_for(|| fs::read_to_string(&at).ok());
        fs::remove_file(at).unwrap();
        process::kill(Pid(child.id().cast_signed()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        await_end(Pid(text.trim().parse().unwrap()));
        // What nobody could remove has no kernel's name, and goes with the next.
        assert_eq!(place.half().len(), left);
        assert_eq!(names(&place.path("cache/schedlab/kernels")).len(), left);
    }
    place.program("apt-get", "#!/bin/sh\necho 'E: no network' >&2\nexit 100\n");
    let failed = place.run(&["vm", "fetch", "debian-0.1"]);
    assert!(stderr(&failed).contains("no network"), "{}", stderr(&failed));
    assert_eq!(place.half(), [""; 0]);
}

#[test]
fn what_goes_wrong_in_a_guest_is_told_with_its_console() {
    let (place, [kernel, _]) = kernels();
    let machine = format!("vm:kernel={kernel},{}", place.machine(1));
    fs::write(place.path("bin/panic"), "").unwrap();
    let panics = place.run(&["load", "hackbench", "--on", &machine]);
    assert_eq!(panics.status.code(), Some(1));
    let told = stderr(&panics);
    assert!(told.contains("the guest's kernel gave up during the boot"), "{told}");
    assert!(told.contains("Kernel panic - not syncing: no working init"), "{told}");
    fs::remove_file(place.path("bin/panic")).unwrap();
    fs::write(place.path("bin/hang"), "").unwrap();
    let hangs = place.run(&["load", "hackbench", "--on", &format!("{machine},patience=1")]);
    assert!(stderr(&hangs).contains("the run did not end in time"), "{}", stderr(&hangs));
}

#[test]
fn a_guest_has_no_network_and_no_disk() {
    let (place, [kernel, _]) = kernels();
    let machine = format!("vm:kernel={kernel},{}", place.machine(1));
    let done = place.run(&["load", "hackbench", "--on", &machine]);
    assert!(done.status.success(), "{}", stderr(&done));
    let all = fs::read_to_string(place.path("bin/arguments")).unwrap();
    let started: Vec<&str> = all.lines().filter(|line| line.contains("-kernel")).collect();
    assert!(!started.is_empty() && started.iter().all(|line| line.contains("-nodefaults")));
    for line in started {
        for device in ["net", "nic", "drive", "blockdev", "hd", "cdrom", "virtfs", "fsdev", "usb"] {
            assert!(!line.split(' ').any(|word| word.starts_with(&format!("-{device}"))), "{line}");
        }
        let devices =
            line.split(' ').filter(|word| ["virtio", "e1000"].iter().any(|w| word.contains(w)));
        assert_eq!(devices.count(), 0, "{line}");
    }
}

#[test]
fn a_guest_fills_no_memory_and_no_disk() {
    let (place, [kernel, _]) = kernels();
    let machine = format!("vm:kernel={kernel},memory=256,{}", place.machine(1));
    let run = || place.run(&["load", "hackbench", "--on", &machine]);
    // 65/64 of its memory, and 256 MiB.
    let limit = (256u64 << 20) + (4 << 20) + (256 << 20);
    for (bytes, is_well) in [(limit, true), (limit + 1, false)] {
        fs::write(place.path("bin/flood"), bytes.to_string()).unwrap();
        let done = run();
        assert_eq!(done.status.success(), is_well, "{bytes}: {}", stderr(&done));
        let said = stderr(&done).contains("QEMU ended by itself");
        assert_eq!(said, !is_well, "{bytes}: {}", stderr(&done));
    }
    fs::remove_file(place.path("bin/flood")).unwrap();
    fs::write(place.path("bin/line"), "").unwrap();
    let long = run();
    assert_eq!(long.status.code(), Some(1));
    assert!(stderr(&long).contains("a line of more than 1 MiB from QEMU"), "{}", stderr(&long));
}

#[test]
fn a_scheduler_needs_a_guest_that_has_it() {
    let (place, [kernel, _]) = kernels();
    let machine = format!("vm:kernel={kernel},{}", place.machine(1));
    for (on, code, told) in [
        ("host", 2, "option ext: it needs a guest"),
        (&*machine, 1, "vm:ext=scx_simple: no scheduler was built with this kernel"),
    ] {
        let refused = place.run(&["load", "hackbench", "--ext", "scx_simple", "--on", on]);
        assert_eq!(refused.status.code(), Some(code), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(told), "{}", stderr(&refused));
    }
    // It is a part of what the guest holds, and so of a run's identity.
    let program = place.program("scx", "a program");
    let machine = format!("{machine},ext={}", program.display());
    let done = place.run(&["load", "hackbench", "--on", &machine, "--json"]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(stdout(&done).contains("; scheduler sha256 "), "{}", stdout(&done));
}

#[test]
fn several_cpus_need_a_qemu_that_boots_them() {
    let (place, [kernel, _]) = kernels();
    let old = place.program("old", "#!/bin/sh\necho QEMU emulator version 7.2.22\n");
    let machine = format!("vm:kernel={kernel},cpus=2,qemu={}", old.display());
    let refused = place.run(&["load", "hackbench", "--on", &machine]);
    assert!(stderr(&refused).contains("use QEMU 10 or later"), "{}", stderr(&refused));
}
