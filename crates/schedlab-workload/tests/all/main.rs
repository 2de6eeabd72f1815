//! The tests of this crate, in one program: it is linked once.

#![expect(
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, read files and start peers"
)]

mod metrics_page;
