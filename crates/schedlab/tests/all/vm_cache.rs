//! Kernels and QEMU programs in a cache that somebody else can fill are not used: they would run as this user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

/// Nobody: a user without rights.
const NOBODY: u32 = 65_534;

/// What a machine with a planted kernel or QEMU says. The QEMU leaves a file if it is started.
fn told(cache: &Path, machine: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["load", "cpu", "--duration", "1ms", "--on", machine]);
    let output = command.env("XDG_CACHE_HOME", cache).current_dir(cache).output().unwrap();
    assert!(!output.status.success(), "{machine}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_cache_that_another_user_can_fill_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path();
    let (kernel, qemu) = ("schedlab/kernels/planted", "schedlab/qemu/debian/usr/bin");
    let image = cache.join(kernel).join("vmlinux");
    let program = cache.join(qemu).join("qemu-system-x86_64");
    for file in [&image, &program] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
    }
    fs::write(&image, "\x7fELF Linux version 6.1.0-planted (x)\0").unwrap();
    fs::write(&program, format!("#!/bin/sh\ntouch {}/ran\n", cache.display())).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let machines = [
        ("vm:kernel=planted,qemu=false".to_owned(), "schedlab/kernels"),
        (format!("vm:kernel={},qemu=debian", image.display()), "schedlab/qemu"),
    ];
    for (machine, folder) in &machines {
        let folder = cache.join(folder);
        for mode in [0o775, 0o757] {
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            let said = told(cache, machine);
            assert!(said.contains("others can write to it: run `chmod go-w"), "{machine}: {said}");
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        assert!(!cache.join("ran").exists(), "{machine}");
    }
    for (machine, _) in &machines {
        let said = told(cache, machine);
        assert!(!said.contains("cannot use the cache"), "{machine}: {said}");
    }
    assert!(cache.join("ran").exists(), "one's own is used");
    fs::remove_file(cache.join("ran")).unwrap();
    if chown(cache.join("schedlab"), Some(NOBODY), Some(NOBODY)).is_err() {
        missing!("root; no cache of another user is tried");
        return;
    }
    for (machine, _) in &machines {
        let said = told(cache, machine);
        assert!(said.contains("it belongs to another user (65534)"), "{machine}: {said}");
        assert!(!cache.join("ran").exists(), "{machine}");
    }
}
