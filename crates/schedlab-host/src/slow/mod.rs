//! CPUs at any speed.
//!
//! A *speed* is the fraction of full speed at which a CPU is made to work. No method but a change of
//! the clock makes instructions slower: all others take the CPU away for a part of the time, and differ
//! in who loses it and when. In the words of the literature:
//!
//! - **hogs** (CPU-Hogs): on every slowed CPU a real-time thread burns the rest of each short slot of
//!   time. All CPUs, and all processes that do the same, share one grid of slots on `CLOCK_MONOTONIC`,
//!   and burn at the same pseudo-random place of the slot ([`grid`]). Whatever runs on the CPU is slowed:
//!   threads that meet at barriers stay in step, and sleeping does not save up credit.
//! - **stop** (CPU-Lim): a process whose CPU time over its lifetime is above the speed is stopped, and
//!   let go on when it is below. A limit on each process, not a speed of a CPU.
//! - **weight** (Fracas): the tasks' control group against burners of the rest of the weight.
//! - **quota**: the budget of CPU time that a control group has in each period. Work that sleeps, or one
//!   thread among several CPUs, is not slowed by it.
//! - **freq** (CPU-Freq) and **gov** (CPU-Gov): the clock itself, at one of its levels or alternating
//!   between two neighbours. Memory and devices stay fast, as they would on a slower CPU.
//!
//! A request is checked as a whole before anything is changed; every change is journalled in the guard
//! first, so that it is undone when the controller dies. What was applied is measured, never believed.
