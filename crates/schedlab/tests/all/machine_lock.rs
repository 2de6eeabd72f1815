//! One test at a time loads or changes the machine, whichever test program it is in.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// All tests that take the machine, one after the other, are done sooner.
const LIMIT: Duration = Duration::from_secs(1200);

thread_local! {
    /// Each test has a thread of its own, with which the lock ends.
    static HELD: RefCell<Option<File>> = const { RefCell::new(None) };
}

fn file() -> File {
    File::create(concat!(env!("CARGO_TARGET_TMPDIR"), "/machine.lock")).unwrap()
}

/// Waits for the machine, which is this test's until it ends.
pub(crate) fn take() {
    HELD.with_borrow_mut(|held| {
        if held.is_none() {
            let file = file();
            let end = Instant::now() + LIMIT;
            while file.try_lock().is_err() {
                assert!(Instant::now() < end, "the machine is taken: {}", holders(&file));
                std::thread::sleep(Duration::from_millis(20));
            }
            *held = Some(file);
        }
    });
}

/// Who holds the lock of a file, as the kernel lists it.
fn holders(file: &File) -> String {
    let inode = format!(":{} ", file.metadata().unwrap().ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let of_file = locks.lines().filter(|line| line.contains(&inode));
    let named = of_file.map(|line| {
        let pid = line.split_whitespace().nth(4).unwrap_or("?");
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("process {pid}, {}", command.replace('\0', " "))
    });
    named.collect::<Vec<_>>().join("; ")
}

#[test]
fn the_machine_is_one_test_s_at_a_time() {
    take();
    assert!(file().try_lock().is_err(), "another test program could take it");
    let own = format!("process {}, ", std::process::id());
    assert!(holders(&file()).starts_with(&own), "{}", holders(&file()));
    take();
}
