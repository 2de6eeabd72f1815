//! The tunables of the simulated schedulers, by the names that knobs have on the host.

use crate::policy::{CfsKnobs, EevdfKnobs};
use schedlab_model::Knob;
use schedlab_workload::knobs::{self, FEATURES};

/// A scheduler with its tunables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tuned {
    Fifo {
        slice_ns: Option<u64>,
    },
    /// One queue for the machine.
    Global {
        slice_ns: u64,
    },
    /// A queue for each LLC.
    Llc {
        slice_ns: u64,
    },
    Cfs(CfsKnobs),
    Eevdf(EevdfKnobs),
}

const LATENCY: &str = "latency";
const MIN_GRANULARITY: &str = "min_granularity";
const IDLE_MIN_GRANULARITY: &str = "idle_min_granularity";
const WAKEUP_GRANULARITY: &str = "wakeup_granularity";
const BASE_SLICE: &str = "base_slice";

impl Tuned {
    fn time(&mut self, knob: &str) -> Option<&mut u64> {
        match (self, knob) {
            (Self::Cfs(knobs), LATENCY) => Some(&mut knobs.latency),
            (Self::Cfs(knobs), MIN_GRANULARITY) => Some(&mut knobs.min_granularity),
            (Self::Cfs(knobs), IDLE_MIN_GRANULARITY) => Some(&mut knobs.idle_min_granularity),
            (Self::Cfs(knobs), WAKEUP_GRANULARITY) => Some(&mut knobs.wakeup_granularity),
            (Self::Eevdf(knobs), BASE_SLICE) => Some(&mut knobs.base_slice),
            _ => None,
        }
    }

    fn feature(&mut self, name: &str) -> Option<&mut bool> {
        match self {
            Self::Fifo { .. } | Self::Global { .. } | Self::Llc { .. } => None,
            Self::Cfs(knobs) => match name {
                "GENTLE_FAIR_SLEEPERS" => Some(&mut knobs.gentle_fair_sleepers),
                "START_DEBIT" => Some(&mut knobs.start_debit),
                "NEXT_BUDDY" => Some(&mut knobs.next_buddy),
                "LAST_BUDDY" => Some(&mut knobs.last_buddy),
                "WAKEUP_PREEMPTION" => Some(&mut knobs.wakeup_preemption),
                _ => None,
            },
            Self::Eevdf(knobs) => match name {
                "PLACE_LAG" => Some(&mut knobs.place_lag),
                "PLACE_DEADLINE_INITIAL" => Some(&mut knobs.place_deadline_initial),
                "PLACE_REL_DEADLINE" => Some(&mut knobs.place_rel_deadline),
                "RUN_TO_PARITY" => Some(&mut knobs.run_to_parity),
                "PREEMPT_SHORT" => Some(&mut knobs.preempt_short),
                "DELAY_DEQUEUE" => Some(&mut knobs.delay_dequeue),
                "DELAY_ZERO" => Some(&mut knobs.delay_zero),
                "NEXT_BUDDY" => Some(&mut knobs.next_buddy),
                "PICK_BUDDY" => Some(&mut knobs.pick_buddy),
                "WAKEUP_PREEMPTION" => Some(&mut knobs.wakeup_preemption),
                _ => None,
            },
        }
    }

    /// Sets a knob. A time has a unit, or is in nanoseconds; features are set by their names, separated by spaces.
    ///
    /// # Errors
    /// A sentence: no such knob here, or a value that is wrong.
    pub(super) fn set(&mut self, knob: &str, value: &str) -> Result<(), String> {
        if knob == FEATURES {
            for word in value.split_whitespace() {
                let (name, on) =
                    word.strip_prefix("NO_").map_or((word, true), |name| (name, false));
                let feature = self.feature(name);
                *feature.ok_or_else(|| format!("unknown feature '{name}' of this model"))? = on;
            }
            return Ok(());
        }
        let known = self.knobs().iter().map(|knob| knob.name.clone()).collect::<Vec<_>>();
        let Some(field) = self.time(knob) else {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("unknown knob '{knob}' of this model: use {known}"));
        };
        let tunable = knobs::tunable(knob).expect("a model's knobs are those of kernels");
        let time = knobs::read(tunable, value)?;
        let time = time
            .parse()
            .map_err(|_| format!("invalid time '{value}': use a number and a unit, as in 3ms"))?;
        *field = time;
        if let Self::Cfs(knobs) = self
            && matches!(knob, LATENCY | MIN_GRANULARITY)
        {
            knobs.fit_period();
        }
        Ok(())
    }

    pub(super) fn knobs(&self) -> Vec<Knob> {
        let names: &[(&str, &str)] = match self {
            Self::Fifo { .. } | Self::Global { .. } | Self::Llc { .. } => &[],
            Self::Cfs(_) => &[
                (LATENCY, "CFS: period in which every task should run once"),
                (MIN_GRANULARITY, "CFS: least time that a task keeps its CPU"),
                (
                    IDLE_MIN_GRANULARITY,
                    "CFS: as min_granularity, for SCHED_IDLE tasks beside others",
                ),
                (
                    WAKEUP_GRANULARITY,
                    "CFS: lead that a waking task needs to displace the running one",
                ),
            ],
            Self::Eevdf(_) => &[(BASE_SLICE, "EEVDF: time a task asks for")],
        };
        let mut copy = *self;
        let mut knobs: Vec<Knob> = names
            .iter()
            .filter_map(|(name, meaning)| {
                let ns = *copy.time(name)?;
                Some(knob(name, Some(ns.to_string()), "ns", meaning))
            })
            .collect();
        if !names.is_empty() {
            let meaning = "switches of the scheduler; set one by its name, or NO_ and its name";
            knobs.push(knob(FEATURES, None, "", meaning));
        }
        knobs
    }
}

/// A knob of the simulated scheduler.
pub(super) fn knob(name: &str, value: Option<String>, unit: &str, meaning: &str) -> Knob {
    let limits = knobs::tunable(name).and_then(|tunable| tunable.range);
    Knob {
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
        min: limits.map(|(least, _)| least),
        max: limits.map(|(_, most)| most),
        meaning: meaning.to_owned(),
        r#where: "the simulated scheduler".to_owned(),
        writable: true,
        why_not: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_set_by_name_and_mistakes_are_told() {
        let mut tuned = Tuned::Cfs(CfsKnobs::of(8));
        tuned.set("latency", "12ms").unwrap();
        tuned.set("wakeup_granularity", "0").unwrap();
        tuned.set("features", "NO_LAST_BUDDY NEXT_BUDDY").unwrap();
        let Tuned::Cfs(knobs) = tuned else { panic!("it stays what it is") };
        assert_eq!((knobs.latency, knobs.wakeup_granularity), (12_000_000, 0));
        assert!(!knobs.last_buddy && knobs.next_buddy);
        for (knob, value, part) in [
            (
                "base_slice",
                "3ms",
                "unknown knob 'base_slice' of this model: use latency, min_granularity",
            ),
            ("latency", "1us", "outside of 100us to 1s"),
            ("latency", "soon", "soon"),
            ("features", "NO_NONE", "unknown feature 'NONE'"),
        ] {
            let error = tuned.set(knob, value).unwrap_err();
            assert!(error.contains(part), "{knob}: {error}");
        }
        assert!(Tuned::Fifo { slice_ns: None }.set("latency", "1ms").is_err());
        let knobs = tuned.knobs();
        assert_eq!(knobs[0].value.as_deref(), Some("12000000"));
    }
}
