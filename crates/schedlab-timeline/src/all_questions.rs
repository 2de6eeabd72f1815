//! All questions that have totals, in one list.
//!
//! A question says in its own file which totals it has ([`Totals`]); the last line of code here lists the questions.
//! `schedlab trace compare`, the metrics of recorded runs and the table in `docs/answers.md` read this list, so
//! a new question reaches all of them.

use crate::conservation::Conservation;
use crate::cpus::Cpus;
use crate::idle_departures::Departures;
use crate::latency::Latency;
use crate::locality::Locality;
use crate::migrations::Migrations;
use crate::question::Question;
use crate::task_filter::Chosen;
use crate::tasks::Tasks;
use crate::totals::{About, Total, Totals};
use crate::waiting::Waiting;
use schedlab_model::Known;

macro_rules! everything {
    ($($question:ident $index:tt),+) => {
        /// All questions that have totals, for one pass.
        pub type Everything = ($($question,)+);

        /// The description of each total, question by question. Names are unlike.
        #[must_use]
        pub fn totals() -> Vec<Total> {
            [$(<$question as Totals>::totals()),+].concat()
        }

        /// The question for all totals.
        #[must_use]
        pub fn everything(about: &About<'_>) -> Everything {
            ($(<$question as Totals>::question(about),)+)
        }

        /// The values of [`totals`], in the same order; `None` where the trace does not tell one.
        #[must_use]
        pub fn total_values(
            answer: &<Everything as Question>::Answer,
            chosen: &Chosen,
            known: &Known,
        ) -> Vec<Option<f64>> {
            let values = [$(<$question as Totals>::values(&answer.$index, chosen)),+].concat();
            let is_known = |total: &Total| total.need.is_none_or(|need| known.of(need).is_some());
            let told = totals().into_iter().zip(values);
            told.map(|(total, value)| value.filter(|_| is_known(&total))).collect()
        }
    };
}
everything!(Latency 0, Tasks 1, Cpus 2, Waiting 3, Conservation 4, Migrations 5, Locality 6,
    Departures 7);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ask, notation};
    use schedlab_model::{EventSource as _, Nanos, Unit};

    #[test]
    fn each_total_has_a_name_of_its_own_a_definition_and_a_value() {
        let totals = totals();
        for (at, total) in totals.iter().enumerate() {
            let Total { name, about, .. } = total;
            assert!(totals[..at].iter().all(|other| other.name != *name), "{name} is there twice");
            assert!(about.ends_with('.'), "{name}: {about}");
            let in_ns = total.unit == Unit::Nanoseconds;
            assert_eq!(in_ns, name.contains("_ns"), "{name}: the unit is in the name");
        }
        let trace = notation::parse("0 | AAAABB..\n  |   bb\n1 | C.......").expect("two CPUs");
        let mut source = trace.source();
        let info = source.info().clone();
        let about = About { info: &info, topology: None, chosen: Chosen::all(), min: Nanos::ZERO };
        let reply = ask(&mut source, everything(&about)).expect("from memory");
        let values = total_values(&reply.answer, &Chosen::all(), &reply.known);
        assert_eq!(values.len(), totals.len());
        let value = |name: &str| {
            let at = totals.iter().position(|total| total.name == name).expect("a total");
            values[at]
        };
        assert_eq!(value("run_delay_ns_max"), Some(2_000.0));
        assert_eq!(value("run_delay_sum_ns"), Some(2_000.0));
        assert_eq!(value("tasks"), Some(3.0));
        assert_eq!(value("overloaded_ns"), Some(2_000.0));
        assert_eq!(value("lost_cpu_time_ns"), Some(2_000.0));
        assert_eq!(value("wakeups_left_llc"), None, "no topology");
    }
}
