//! Made timelines, their sums by hand.

use super::*;
use crate::recording::delays;
use schedlab_timeline::notation;

/// Microseconds.
fn span(from: u64, to: u64) -> Span {
    Span::new(Nanos(from * 1000), Nanos(to * 1000))
}

fn sums(stalls: &Stalls) -> Vec<(Cause, u64)> {
    let of = |cause| (cause, stalls.sum(cause).0 / 1000);
    Cause::ALL.into_iter().map(of).filter(|&(_, us)| us > 0).collect()
}

fn conserved(stalls: &Stalls) {
    let all: u64 = Cause::ALL.into_iter().map(|cause| stalls.sum(cause).0).sum();
    assert_eq!(all, stalls.stretches.len() as u64 * stalls.window.duration().0);
}

#[test]
fn a_worker_that_an_antagonist_displaced_lost_to_run_delay() {
    // A and B are workers, Z an antagonist. A runs a job at 0..4 and 8..9, B at 0..2; then B sleeps.
    let trace = notation::parse(
        "0 | AAAAZZZZAA
           |     aaaa
         1 | BB........",
    )
    .unwrap();
    let delayed = delays(&mut trace.source(), &[1, 2], 0).unwrap();
    assert_eq!(delayed[0], [span(4, 8)]);
    let lanes = [
        Lane {
            jobs: vec![span(0, 3), span(8, 10)],
            delayed: delayed[0].clone(),
            ..Lane::default()
        },
        Lane { jobs: vec![span(0, 2)], delayed: delayed[1].clone(), asleep: vec![span(2, 10)] },
    ];
    // The second job was ready from 3 on; nothing else was to be done.
    let demand = Demand { ready: vec![span(3, 8)], blocked: Vec::new() };
    let stalls = Stalls::of(&lanes, &demand, span(0, 10));
    conserved(&stalls);
    let expected = [(Cause::Job, 7), (Cause::RunDelay, 4), (Cause::Awake, 1), (Cause::NoWork, 8)];
    assert_eq!(sums(&stalls), expected);
    let first = Stall { worker: 0, cause: Cause::RunDelay, span: span(4, 8) };
    assert_eq!(stalls.longest(1), [first]);
}

#[test]
fn every_cause_is_told_from_the_others() {
    let lanes = [
        // Looks for a job at 0..3, sleeps at 3..6, is displaced in a job at 8..9.
        Lane { jobs: vec![span(6, 10)], delayed: vec![span(8, 9)], asleep: vec![span(3, 6)] },
        // Sleeps all the while: at 0..6 one job is ready, which is the other's; then one waits for that.
        Lane { asleep: vec![span(0, 10)], ..Lane::default() },
    ];
    let demand = Demand { ready: vec![span(0, 6)], blocked: vec![span(6, 10)] };
    let stalls = Stalls::of(&lanes, &demand, span(0, 10));
    conserved(&stalls);
    let expected = [
        (Cause::Job, 3),
        (Cause::JobDelayed, 1),
        (Cause::Awake, 3),
        (Cause::Asleep, 3),
        (Cause::Dependency, 4),
        (Cause::NoWork, 6),
    ];
    assert_eq!(sums(&stalls), expected);
    // Two ready jobs: then the sleeper loses one as well.
    let twice = Demand { ready: vec![span(0, 6), span(0, 6)], blocked: Vec::new() };
    let stalls = Stalls::of(&lanes, &twice, span(0, 10));
    conserved(&stalls);
    assert_eq!(stalls.sum(Cause::Asleep), Nanos(9_000));
}
