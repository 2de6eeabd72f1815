//! Tests that measure or change this machine have it to themselves, whichever test program they are in; tests that load its
//! CPUs for long share it. What a test holds ends with the test.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// All tests that take the machine, one after the other, are done sooner.
const LIMIT: Duration = Duration::from_secs(1200);

/// What a test holds of the machine.
pub(crate) enum Held {
    Share { _lock: File },
    All { _lock: File },
}

thread_local! {
    /// Each test has a thread of its own, with which the lock ends.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// The test programs of a target have this folder in common.
pub(crate) const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

pub(crate) fn file(folder: &str, name: &str) -> File {
    File::create(format!("{folder}/machine.{name}")).expect("the folder of the target")
}

/// Waits for the machine, which is this test's until it ends. A share that the test holds ends first: two tests that wait
/// for each other's would wait for ever.
pub(crate) fn take() {
    HELD.with_borrow_mut(|held| {
        if !matches!(held, Some(Held::All { .. })) {
            *held = None;
            *held = Some(all(FOLDER));
        }
    });
}

/// Waits until no test has the machine to itself, or wants it, and shares it until this test ends.
pub(crate) fn share() {
    HELD.with_borrow_mut(|held| {
        held.get_or_insert_with(|| shared(FOLDER));
    });
}

pub(crate) fn all(folder: &str) -> Held {
    let gate = file(folder, "gate");
    let lock = file(folder, "lock");
    // No share begins while this one waits for those that are held.
    wait(folder, || gate.try_lock().is_ok());
    wait(folder, || lock.try_lock().is_ok());
    Held::All { _lock: lock }
}

pub(crate) fn shared(folder: &str) -> Held {
    let gate = file(folder, "gate");
    let lock = file(folder, "lock");
    wait(folder, || {
        let is_shared = gate.try_lock_shared().is_ok() && lock.try_lock_shared().is_ok();
        let _ = gate.unlock();
        is_shared
    });
    Held::Share { _lock: lock }
}

/// Shares the machine if a command with these words loads it.
pub(crate) fn share_for<'w>(words: impl IntoIterator<Item = &'w str>) {
    const LOADS: [&str; 4] = ["load", "record", "tour", "watch"];
    const ELSEWHERE: [&str; 3] = ["sim:", "tree:", "vm:"];
    let mut words = words.into_iter();
    let loads = words.next().is_some_and(|command| LOADS.contains(&command));
    if loads && !words.any(|word| ELSEWHERE.iter().any(|machine| word.contains(machine))) {
        share();
    }
}

fn wait(folder: &str, taken: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !taken() {
        assert!(Instant::now() < end, "the machine is taken: {}", holders(&file(folder, "lock")));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Who holds the lock of a file, as the kernel lists it.
pub(crate) fn holders(file: &File) -> String {
    let inode = format!(":{} ", file.metadata().expect("it is open").ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let of_file = locks.lines().filter(|line| line.contains(&inode));
    let named = of_file.map(|line| {
        let pid = line.split_whitespace().nth(4).unwrap_or("?");
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("process {pid}, {}", command.replace('\0', " "))
    });
    named.collect::<Vec<_>>().join("; ")
}
