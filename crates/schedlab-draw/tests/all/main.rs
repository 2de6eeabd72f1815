//! The tests of this crate, in one program: it is linked once.

#![expect(
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, read files and start peers"
)]

mod browser;
mod charts;
mod extremes;
mod frequency;
mod golden;
mod page;
mod page_events;
mod page_view;
mod page_waits;
mod palette;
mod pictures;
mod tasks;
mod wakeup;
