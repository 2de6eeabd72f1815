//! The tests of this crate, in one program: it is linked once.

mod agenda;
mod binding;
mod bundle;
mod compulsory;
mod executors;
mod growth;
mod life;
mod loom;
mod planning;
mod pool;
mod published_graphs;
