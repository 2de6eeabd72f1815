//! `docs/simulation-errors.md` and the published errors of parts are those of the model.

use schedlab_sim::validate::{Judged, judged, overall, page};
use schedlab_sim::{PUBLISHED_PARTS, PUBLISHED_PLACEMENTS};
use std::path::Path;

#[test]
fn published_errors_of_parts_are_those_of_the_model() {
    let all = judged().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulation-errors.md");
    let page = page();
    if std::env::var_os("SCHEDLAB_DOCS").is_some_and(|word| word == "write") {
        std::fs::write(&path, &page).unwrap();
    }
    let key = |one: &Judged| (one.kernel, one.of.part, one.of.is_held_back);
    let mut found = Vec::new();
    for one in &all {
        if found.contains(&key(one)) {
            continue;
        }
        found.push(key(one));
        let same = all.iter().filter(|other| key(other) == key(one));
        let errors: Vec<_> = same.flat_map(|one| one.errors.clone()).collect();
        let (model, constant) = overall(&errors);
        let told = PUBLISHED_PARTS
            .iter()
            .find(|told| (told.kernel, told.part, told.is_held_back) == key(one));
        let told = told.expect("each part is published");
        for (told, found) in [
            (told.model.0, model.median),
            (told.model.1, model.p90),
            (told.model.2, model.worst),
            (told.constant.0, constant.median),
            (told.constant.1, constant.p90),
        ] {
            let all = (key(one), model, constant);
            assert!((told - found * 100.0).abs() < 0.051, "{told}: {all:?}");
        }
    }
    assert_eq!(found.len(), PUBLISHED_PARTS.len());
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == page, "docs/simulation-errors.md is out of date: SCHEDLAB_DOCS=write");
}

/// `schedlab sim diff` measured the table.
#[test]
fn published_placements_are_those_of_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = std::fs::read_to_string(root.join("examples/evidence/placement/table.md")).unwrap();
    for told in PUBLISHED_PLACEMENTS {
        let kernel = told.kernel.split('-').nth(1).unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .filter(|line| line.starts_with(&format!("| {kernel} |")))
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        assert!(rows.len() > 5, "{table}");
        let range = |column: usize| {
            let number =
                |row: &Vec<&str>| row[column].trim_end_matches(" %").parse::<f64>().unwrap();
            let all: Vec<f64> = rows.iter().map(number).collect();
            (all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(0.0, f64::max))
        };
        assert_eq!((told.right, told.score), (range(7), range(8)), "{}", told.kernel);
    }
}
