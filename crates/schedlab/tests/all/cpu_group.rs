//! A control group of a test's own, in the hierarchy that divides CPU time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Removed when it is dropped, once the tasks in it have ended; those that go on are moved out of it.
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    /// `None` without the right, or without that hierarchy.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let name = format!("schedlab-{name}-{}", std::process::id());
        ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].into_iter().find_map(|root| {
            let path = Path::new(root).join(&name);
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            let has_quota = ["cpu.cfs_quota_us", "cpu.max"].map(|file| group.0.join(file).exists());
            has_quota.contains(&true).then_some(group)
        })
    }

    /// Writes into the file that this version of control groups has of these.
    pub(crate) fn write(&self, files: [(&str, &str); 2]) {
        let (file, text) = files
            .into_iter()
            .find(|(file, _)| self.0.join(file).exists())
            .expect("one of the two versions has it");
        fs::write(self.0.join(file), text).expect("it may be written");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let above = self.0.parent().expect("it has one").join("cgroup.procs");
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
            for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write(&above, pid);
            }
        }
    }
}
