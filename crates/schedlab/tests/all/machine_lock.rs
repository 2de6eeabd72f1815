//! One test at a time loads or changes the machine, whichever test program it is in.

use std::cell::RefCell;
use std::fs::File;

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
            file.lock().unwrap();
            *held = Some(file);
        }
    });
}

#[test]
fn the_machine_is_one_test_s_at_a_time() {
    take();
    assert!(file().try_lock().is_err(), "another test program could take it");
    take();
}
