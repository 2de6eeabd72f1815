//! The tests of this crate, in one program: it is linked once. Under loom its models alone.

#[cfg(not(loom))]
mod agenda;
#[cfg(not(loom))]
mod binding;
#[cfg(not(loom))]
mod bundle;
#[cfg(not(loom))]
mod compulsory;
#[cfg(not(loom))]
mod executors;
#[cfg(not(loom))]
mod feasible;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod planning;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod published_graphs;
