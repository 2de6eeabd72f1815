//! The tests of this crate, in one program: it is linked once.

#![expect(
    clippy::unwrap_used,
    reason = "tests stop at the first surprise, read files and start peers"
)]

mod calls;
mod counterfactuals;
mod ends;
mod objects;
mod on_sim;
mod script;
mod speed;
