//! Comparing a picture with its golden one, and rules of layout that each of them keeps.

mod contrast;

use schedlab_draw::{PX, Rect, Scene, Text, pdf, png, svg};
use std::path::PathBuf;

/// What a text covers: capitals and figures, without the room between lines.
fn covers(text: &Text) -> Rect {
    let (origin, high) = (text.origin, text.size * 7 / 10);
    match text.upwards {
        true => Rect::new(origin.x - high, origin.y - text.width, high, text.width),
        false => Rect::new(origin.x, origin.y - high, text.width, high),
    }
}

/// Words stand inside of the picture, and none on another.
fn words_are_whole(name: &str, scene: &Scene) {
    let all: Vec<(Rect, &str)> =
        scene.texts().into_iter().map(|text| (covers(text), text.content.as_str())).collect();
    for (index, (here, words)) in all.iter().enumerate() {
        let inside = here.x >= 0
            && here.y >= 0
            && here.right() <= scene.width
            && here.bottom() <= scene.height;
        assert!(inside, "{name}: '{words}' leaves the picture: {here:?}");
        for (there, others) in &all[..index] {
            let apart = here.x + PX / 2 >= there.right()
                || there.x + PX / 2 >= here.right()
                || here.y >= there.bottom()
                || there.y >= here.bottom();
            assert!(apart, "{name}: '{words}' stands on '{others}'");
        }
    }
}

/// Words are inside of the picture, apart from each other, and have enough contrast.
pub(crate) fn reads_well(name: &str, scene: &Scene) {
    words_are_whole(name, scene);
    contrast::words_can_be_read(name, scene);
}

pub(crate) fn check(name: &str, scene: &Scene) {
    reads_well(name, scene);
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
