//! What is called worse among kernels that differ in neutral code, by what real ones measured: the values in
//! examples/evidence/placebos.

use schedlab_model::Better;
use schedlab_stats::median;
use schedlab_vm::placebo::{PLACEBOS, band, worse_by};
use serde_json::Value;

/// The values of each kernel, one for each start.
fn kernels() -> Vec<Vec<f64>> {
    let text = include_str!("../../../../examples/evidence/placebos/compare.json");
    let document: Value = serde_json::from_str(text).unwrap();
    let values = |list: &Value| -> Vec<f64> {
        list.as_array().unwrap().iter().flat_map(Value::as_f64).collect()
    };
    let placebos =
        document["placebos"].as_array().unwrap().iter().map(|one| values(&one["values"]));
    // The patch of the second side changes the placement on several CPUs, and the guests have one.
    let sides = ["values_before", "values_after"].map(|side| values(&document[side]));
    sides.into_iter().chain(placebos).collect()
}

#[test]
fn at_most_one_of_twenty_real_placebo_pairs_is_called_worse() {
    let kernels = kernels();
    let count = kernels.len();
    assert!(count >= PLACEBOS + 2, "{count} kernels");
    // Neighbours, and those with one between them, in both directions as the list runs around.
    let pairs = (1..=2).flat_map(|step| (0..count).map(move |one| (one, (one + step) % count)));
    let mut worse = Vec::new();
    for (one, other) in pairs.take(20) {
        let others: Vec<Vec<f64>> = (0..count)
            .filter(|index| ![one, other].contains(index))
            .map(|index| kernels[index].clone())
            .collect();
        let middle = |index: usize| median(kernels[index].iter().copied()).unwrap();
        let by = worse_by(middle(one), middle(other), Better::Lower).unwrap();
        if by > band(&kernels[one], &others, |of| median(of.iter().copied())).unwrap() {
            worse.push((one, other, by));
        }
    }
    assert!(worse.len() <= 1, "{worse:?}");
}
