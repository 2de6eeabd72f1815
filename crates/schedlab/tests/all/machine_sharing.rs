//! What tests hold of the machine.

use crate::machine_lock::{FOLDER, all, file, holders, share, shared, take};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn the_machine_is_one_test_s_at_a_time() {
    share();
    take();
    let lock = file(FOLDER, "lock");
    assert!(lock.try_lock().is_err(), "another test program could take it");
    assert!(lock.try_lock_shared().is_err(), "another test program could share it");
    let own = format!("process {}, ", std::process::id());
    assert!(holders(&lock).starts_with(&own), "{}", holders(&lock));
    take();
    share();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
fn shares_are_held_together_and_a_test_that_waits_for_all_comes_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let shares = [shared(folder), shared(folder)];
    let (said, order) = channel();
    std::thread::scope(|scope| {
        let waits = said.clone();
        scope.spawn(move || {
            let _held = all(folder);
            waits.send("all").unwrap();
        });
        while file(folder, "gate").try_lock_shared().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        scope.spawn(move || {
            let _held = shared(folder);
            said.send("share").unwrap();
        });
        drop(shares);
    });
    assert_eq!(order.iter().collect::<Vec<_>>(), ["all", "share"]);
}
