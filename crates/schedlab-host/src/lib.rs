//! Real Linux as a machine: what it allows, what it is, recording its scheduler, slowing its CPUs.

pub mod doctor;
pub mod facts;
pub mod knobs;
pub mod record;
