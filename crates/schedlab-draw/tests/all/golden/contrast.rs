//! Whether each text of a picture can be read: its contrast to what is drawn behind it.

use schedlab_draw::{Colour, Item, Point, Rect, Scene, Step, Text, at};

/// The least contrast of a text (WCAG 2.2, criterion 1.4.3).
const LEAST: f64 = 4.5;
/// Places along a text at which its ground is looked up.
const PLACES: i32 = 12;

/// Each text of the picture has enough contrast to what was drawn below it, at all but the odd place: a
/// grid line may cross a letter.
pub(super) fn words_can_be_read(name: &str, scene: &Scene) {
    let mut below = vec![Layer { fill: scene.ground, shape: Shape::All }];
    look(name, &scene.items, &mut below);
}

/// Something filled that lies below a text.
struct Layer<'a> {
    fill: Colour,
    shape: Shape<'a>,
}

enum Shape<'a> {
    All,
    Boxes(&'a [Rect]),
    Area(&'a [Step]),
}

fn look<'a>(name: &str, items: &'a [Item], below: &mut Vec<Layer<'a>>) {
    for item in items {
        match item {
            Item::Rects { fill, rects } => {
                below.push(Layer { fill: *fill, shape: Shape::Boxes(rects) });
            }
            Item::Path { fill: Some(fill), steps, .. } => {
                below.push(Layer { fill: *fill, shape: Shape::Area(steps) });
            }
            Item::Text(text) => check(name, text, below),
            Item::Group { items, .. } => look(name, items, below),
            Item::Lines { .. } | Item::Path { .. } => {}
        }
    }
}

fn check(name: &str, text: &Text, below: &[Layer<'_>]) {
    let middle = text.size * 35 / 100;
    let place = |part: i32| {
        let along = text.width * (2 * part + 1) / (2 * PLACES);
        match text.upwards {
            true => at(text.origin.x - middle, text.origin.y - along),
            false => at(text.origin.x + along, text.origin.y - middle),
        }
    };
    let bad = (0..PLACES)
        .map(|part| ground(place(part), below))
        .filter(|ground| text.colour.contrast(*ground) < LEAST)
        .collect::<Vec<_>>();
    assert!(
        bad.len() <= 1,
        "{name}: '{}' in {:?} on {:?}: {:.2} : 1",
        text.content,
        text.colour,
        bad[0],
        text.colour.contrast(bad[0])
    );
}

/// The colour at a point: all layers over each other.
fn ground(point: Point, below: &[Layer<'_>]) -> Colour {
    let cover = |under: Colour, layer: &Layer<'_>| {
        let is_here = match layer.shape {
            Shape::All => true,
            Shape::Boxes(rects) => rects.iter().any(|rect| holds(rect, point)),
            Shape::Area(steps) => is_inside(steps, point),
        };
        let over = Colour { a: under.a, ..layer.fill };
        if is_here { under.mix(over, layer.fill.a) } else { under }
    };
    below.iter().fold(Colour::WHITE, cover)
}

fn holds(rect: &Rect, Point { x, y }: Point) -> bool {
    (rect.x..rect.right()).contains(&x) && (rect.y..rect.bottom()).contains(&y)
}

/// Whether a ray to the right crosses the outline an odd number of times; a curve counts as its chord.
fn is_inside(steps: &[Step], point: Point) -> bool {
    let (mut inside, mut first, mut last) = (false, at(0, 0), at(0, 0));
    for step in steps {
        let next = match *step {
            Step::Move(to) => {
                (first, last) = (to, to);
                continue;
            }
            Step::Line(to) | Step::Curve(.., to) => to,
            Step::Close => first,
        };
        let (a, b) = (last, next);
        if (a.y > point.y) != (b.y > point.y) {
            let part = f64::from(point.y - a.y) / f64::from(b.y - a.y);
            let x = f64::from(a.x) + part * f64::from(b.x - a.x);
            inside ^= x > f64::from(point.x);
        }
        last = next;
    }
    inside
}
