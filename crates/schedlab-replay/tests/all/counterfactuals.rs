//! Skill and coverage of predictions, from stored runs of Linux 6.1 and 6.12.

use schedlab_replay::calibration::{BANDS, Pair, held_out, quantile, skill};
use std::collections::BTreeSet;

const ROWS: &str = include_str!("../../../../examples/evidence/counterfactuals/pairs.csv");
/// These loads' pairs are published beside the others: one alone, since scheduler events alone do not tell its waits, and
/// those recorded with calls, since they ask whether calls help.
const APART: [&str; 3] = ["hackbench-alone", "hackbench-alone-calls", "hackbench-calls"];

fn pairs(ours: impl Fn(&str) -> bool) -> Vec<Pair> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        let number = |at: usize| words[at].parse().unwrap();
        let (recorded, replayed, changed, truth) = (number(4), number(5), number(6), number(7));
        let (load, figure) = (words[0].to_owned(), words[3].to_owned());
        Pair { load, figure, recorded, replayed, changed, truth }
    };
    ROWS.lines().skip(1).map(row).filter(|pair| ours(&pair.load)).collect()
}

fn of<'p>(pairs: &'p [Pair], figure: &str) -> Vec<&'p Pair> {
    pairs.iter().filter(|pair| pair.figure == figure).collect()
}

fn median(errors: impl Iterator<Item = f64>) -> f64 {
    100.0 * (schedlab_stats::median(errors.map(f64::abs)).unwrap().exp() - 1.0)
}

#[test]
fn predictions_are_better_than_no_change_and_bands_hold_held_out_pairs() {
    let all = pairs(|load| !APART.contains(&load));
    let loads: BTreeSet<&str> = all.iter().map(|pair| pair.load.as_str()).collect();
    assert_eq!(loads.len(), 4, "{loads:?}");
    for band in BANDS {
        let own = of(&all, band.figure);
        assert!(own.len() >= 30, "{}: {} pairs", band.figure, own.len());
        for load in loads.iter().copied().chain(APART) {
            let some = pairs(|one| one == load);
            let some = of(&some, band.figure);
            println!(
                "{} {load}: {} pairs, error {:.1} %, of no change {:.1} %, skill {:.2}",
                band.figure,
                some.len(),
                median(some.iter().map(|pair| pair.error())),
                median(some.iter().map(|pair| pair.error_of_no_change())),
                skill(&some)
            );
        }
        let (inside, count) = held_out(&own);
        let coverage = inside as f64 / count as f64;
        let (bound, skill) = (quantile(&own).unwrap(), skill(&own));
        let figure = band.figure;
        println!("{figure}: skill {skill:.3}, held out {inside} of {count}, quantile {bound:.3}");
        assert!(skill > 0.0, "{figure}: skill {skill}");
        assert!((0.80..=0.97).contains(&coverage), "{figure}: coverage {coverage}");
        assert!((band.quantile - bound).abs() < 0.001, "{figure}: the stored band is {band:?}");
        assert!((band.coverage - coverage).abs() < 0.001, "{figure}: the stored band is {band:?}");
    }
}
