//! Which kinds of choices differ between real kernels: Linux 6.12, ten placebos of it, and one planted line in its
//! wakeup preemption. The numbers are in examples/evidence/planted.

use schedlab_vm::choices::{self, Answers, Case, Class, Difference, Kind, OfKernel};
use schedlab_vm::placebo::PLACEBOS;
use serde_json::Value;

fn document() -> Value {
    let text = include_str!("../../../../examples/evidence/planted/mixed.json");
    serde_json::from_str(text).unwrap()
}

/// What each kernel answered: the first side, the planted one, and placebos.
fn kernels(document: &Value) -> (OfKernel, OfKernel, Vec<OfKernel>) {
    let classes = document["choices"]["classes"].as_array().unwrap();
    let answers = |share: &Value| {
        let number = |name: &str| usize::try_from(share[name].as_u64().unwrap()).unwrap();
        Answers { yes: number("yes"), all: number("all") }
    };
    let class = |(index, class): (usize, &Value)| {
        let kind = match class["kind"].as_str().unwrap() {
            "wakeup" => Kind::Wakeup,
            "slice" => Kind::Slice,
            _ => Kind::Next,
        };
        // What a case says does not matter here, only that it is one of its own.
        Class { kind, case: class["case"].is_string().then_some(Case::Waiting(index)) }
    };
    let of = |get: &dyn Fn(&Value) -> Answers| -> OfKernel {
        classes.iter().enumerate().map(|one| (class(one), get(one.1))).collect()
    };
    let count = classes[0]["placebos"].as_array().unwrap().len();
    let placebos = (0..count).map(|index| of(&|class| answers(&class["placebos"][index])));
    (
        of(&|class| answers(&class["before"])),
        of(&|class| answers(&class["after"])),
        placebos.collect(),
    )
}

#[test]
fn at_most_one_of_twenty_real_placebo_pairs_differs() {
    let (base, _, placebos) = kernels(&document());
    assert!(placebos.len() >= PLACEBOS, "{}", placebos.len());
    let all: Vec<OfKernel> = std::iter::once(base).chain(placebos).collect();
    // Neighbours, and those with one between them, in both directions as the list runs around.
    let count = all.len();
    let pairs = (1..=2).flat_map(|step| (0..count).map(move |one| (one, (one + step) % count)));
    let mut called = Vec::new();
    for (one, other) in pairs.take(20) {
        let rest = (0..count).filter(|index| ![one, other].contains(index));
        let rest: Vec<OfKernel> = rest.map(|index| all[index].clone()).collect();
        let found = choices::judge(&all[one], &all[other], &rest);
        called.extend(
            found.into_iter().filter(Difference::is_shown).map(|found| (one, other, found)),
        );
    }
    called.dedup_by_key(|(one, other, _)| (*one, *other));
    assert!(called.len() <= 1, "{called:?}");
}

#[test]
fn the_planted_line_is_shown_by_a_wakeup_that_preempts() {
    let document = document();
    let (base, planted, placebos) = kernels(&document);
    let mut found = choices::judge(&base, &planted, &placebos);
    found.retain(Difference::is_shown);
    found.sort_by(|a, b| b.distance.abs().total_cmp(&a.distance.abs()));
    assert_eq!((found[0].class.kind, found[0].is_more()), (Kind::Wakeup, true), "{found:?}");
    let first = &document["choices"]["first"];
    assert_eq!((&first["kind"], &first["side"]), (&"wakeup".into(), &"after".into()), "{first}");
    assert_ne!(first["chosen"], first["current"], "{first}");
}
