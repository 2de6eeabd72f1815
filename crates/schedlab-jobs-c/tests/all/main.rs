//! The tests of this crate, in one program: it is linked once.

mod cpp;
#[expect(dead_code, reason = "other test programs need the rest")]
#[path = "../../../schedlab/tests/all/machine_lock.rs"]
mod machine_lock;
