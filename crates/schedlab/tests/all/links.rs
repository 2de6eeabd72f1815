//! The program in a place of its own, with links of the other tools' names: its processes can be counted
//! while other tests run the program too.

use std::path::PathBuf;

pub(crate) struct Links(tempfile::TempDir);

impl Links {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = folder.path().join("schedlab");
        // A hard link: the kernel names it where it tells what a process executes.
        std::fs::hard_link(env!("CARGO_BIN_EXE_schedlab"), program).unwrap();
        for name in ["schbench", "hackbench"] {
            std::os::unix::fs::symlink("schedlab", folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    /// The program under one of its names.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The folders in /proc of the processes that execute it.
    pub(crate) fn processes(&self) -> Vec<PathBuf> {
        let own = self.path("schedlab").canonicalize().unwrap();
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        all.filter(|at| std::fs::read_link(at.join("exe")).is_ok_and(|exe| exe == own)).collect()
    }
}
