//! The tests of this crate, in one program: it is linked once.

#[path = "../../../schedlab-draw/tests/all/browser.rs"]
mod browser;
mod calibration;
mod page_in_report;
mod schema;
