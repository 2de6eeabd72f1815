//! Tests of whole questions: a trace in, an answer out.

mod answers;
mod causes;
mod chaos;
mod check;
mod conservation;
mod conservation_scan;
mod fired;
mod locks;
mod moves;
mod mute_idle;
mod off_cpu;
mod on_cpu;
mod planted;
mod power;
mod requests;
mod stacks;
mod task_states;
mod why_late;
mod windows;
