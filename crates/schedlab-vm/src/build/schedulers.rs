//! The schedulers of BPF programs that come with a kernel's source (`tools/sched_ext`), as static programs.

use super::make::make_in;
use super::source_tree::SourceTree;
use crate::{VmError, cache};
use schedlab_model::Nanos;
use std::path::Path;

/// The folder of the source that holds them.
const TOOLS: &str = "tools/sched_ext";
/// They need nothing in the guest.
const STATIC: &str = "LDFLAGS=-static -lelf -lz -lpthread";
/// The oldest clang whose programs the kernel takes (tools/sched_ext/README.md).
const OLDEST: u32 = 16;
const NEWEST: u32 = 40;

/// Programs that building with sched_ext runs, with their packages.
pub(super) const NEEDED: [(&str, &str); 1] = [("pahole", "pahole")];

/// Builds them for the kernel that was just built, and puts them into a folder.
pub(super) fn build(workshop: &SourceTree, into: &Path, until: Nanos) -> Result<(), VmError> {
    let clang = clang()?;
    let at = workshop.tree().join(TOOLS);
    if !at.is_dir() {
        let why = "this source has no tools/sched_ext: use Linux 6.12 or later".to_owned();
        return Err(VmError::Setting { key: "ext".to_owned(), value: "true".to_owned(), why });
    }
    let objects = workshop.objects().join("sched_ext");
    std::fs::create_dir_all(&objects)
        .map_err(VmError::io(format!("making {}", objects.display())))?;
    let image = workshop.objects().join("vmlinux");
    let common = [
        format!("O={}", objects.display()),
        format!("VMLINUX_BTF={}", image.display()),
        format!("CLANG={clang}"),
    ];
    // The tool that makes programs of BPF objects is not linked statically: that needs more libraries.
    let bpftool = objects.join("build/sbin/bpftool").display().to_string();
    let [output, btf, clang] = &common;
    make_in(&at, &[&bpftool, output, btf, clang], until)?;
    make_in(&at, &[output, btf, clang, STATIC], until)?;
    let programs = cache::files(&objects.join("build/bin"), |name| name.starts_with("scx_"));
    std::fs::create_dir(into).map_err(VmError::io(format!("making {}", into.display())))?;
    for program in programs {
        let to = into.join(program.file_name().unwrap_or_default());
        // Plain: a new folder, renamed when it is whole.
        std::fs::copy(&program, &to).map_err(VmError::io(format!("keeping {}", to.display())))?;
    }
    Ok(())
}

/// The newest clang that is there: `clang-19`, else `clang`.
fn clang() -> Result<String, VmError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let mut names = (OLDEST..NEWEST).rev().map(|version| format!("clang-{version}"));
    let found = names.find(|name| is_there(name));
    found.or_else(|| is_there("clang").then(|| "clang".to_owned())).ok_or_else(|| {
        VmError::Missing {
            what: "clang".to_owned(),
            remedy: format!(
                "schedulers are built with clang {OLDEST} or later; apt-get install clang-19"
            ),
        }
    })
}
