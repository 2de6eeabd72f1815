//! Comparing a picture with its golden one.

use schedlab_draw::{Scene, pdf, png, svg};
use std::path::PathBuf;

pub(crate) fn check(name: &str, scene: &Scene) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.svg"));
    let drawn = svg(scene);
    assert!(pdf(scene).starts_with(b"%PDF"), "{name} has no PDF");
    let picture = png(scene, 1).expect("small enough");
    if std::env::var("SCHEDLAB_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::create_dir_all(path.parent().expect("in a directory")).expect("writable");
        std::fs::write(&path, &drawn).expect("writable");
        let look = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("golden");
        std::fs::create_dir_all(&look).expect("writable");
        std::fs::write(look.join(format!("{name}.png")), picture).expect("writable");
        std::fs::write(look.join(format!("{name}.pdf")), pdf(scene)).expect("writable");
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let line = golden.lines().zip(drawn.lines()).position(|(a, b)| a != b);
    assert!(
        golden == drawn,
        "{name} differs from {} at line {:?}; look at it with SCHEDLAB_GOLDEN=write",
        path.display(),
        line.map(|line| line + 1)
    );
}
