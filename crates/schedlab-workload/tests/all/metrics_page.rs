//! `docs/metrics.md` says what the registry says.

use std::path::Path;

#[test]
fn the_page_is_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = schedlab_workload::metrics::markdown();
    if std::env::var_os("SCHEDLAB_DOCS").is_some_and(|word| word == "write") {
        std::fs::write(&path, &page).expect("docs/ can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("docs/metrics.md is checked in");
    assert!(kept == page, "docs/metrics.md is out of date: write it anew with SCHEDLAB_DOCS=write");
}
