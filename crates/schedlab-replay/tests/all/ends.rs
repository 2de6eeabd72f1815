//! What is inferred of tasks that compute to the end.

use schedlab_replay::{Infer, Options};
use schedlab_timeline::{ask, notation};

#[test]
fn a_task_that_computes_until_somebody_ends_it_has_a_fixed_demand_and_one_that_goes_on_has_none() {
    // A and B compute and are displaced; A is ended while it computes. C sleeps before the end.
    let text = "
        0 | AAAAABBBBBAAAAABBBBBBB
          |      aaaaa
          |           bbbbb
        1 | CCCCCC................
        at 15: A dies";
    let trace = notation::parse(text).expect("sound notation");
    let question = Infer::new(&trace.info, Options::default());
    let inferred = ask(&mut trace.source(), question).expect("in memory").answer;
    let told: Vec<(&str, bool, bool)> = inferred
        .accounts
        .iter()
        .map(|one| (one.comm.as_str(), one.is_endless, one.is_fixed))
        .collect();
    let mut told = told;
    told.sort_unstable();
    assert_eq!(told, [("A", false, true), ("B", true, false), ("C", false, false)]);
}
