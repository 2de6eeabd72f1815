//! The scene as PNG: pixels by tiny-skia, glyphs from the outlines of the bundled fonts.

use crate::colour::Colour;
use crate::scene::{Item, PX, Rect, Scene, Step, Stroke, Text};
use skrifa::GlyphId;
use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use tiny_skia::{FillRule, LineJoin, Mask, Paint, PathBuilder, Pixmap, StrokeDash, Transform};

/// The most pixels a picture may have: 256 MB of memory.
const PIXELS_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PngError {
    /// The picture is empty or would not fit into memory.
    #[error(
        "cannot draw a PNG of {width} x {height} pixels, over 64 million: draw SVG or PDF, or \
         fewer CPUs"
    )]
    Size {
        /// The width in pixels.
        width: u64,
        /// The height in pixels.
        height: u64,
    },
    #[error("the PNG could not be encoded: {0}")]
    Encode(String),
}

/// The scene as PNG with `scale` pixels for each CSS pixel (2 for paper and fine screens).
///
/// # Errors
/// When the picture has no pixels, or more than 64 million.
pub fn png(scene: &Scene, scale: u32) -> Result<Vec<u8>, PngError> {
    let pixels = |units: i32| {
        let natural = u64::try_from(units).unwrap_or(0) * u64::from(scale);
        (natural * u64::from(scene.magnified)).div_ceil(u64::from(PX.unsigned_abs()) * 1_000)
    };
    let width = pixels(scene.width);
    let height = pixels(scene.height);
    let wrong = PngError::Size { width, height };
    if width.saturating_mul(height) > PIXELS_MAX {
        return Err(wrong);
    }
    let side = |pixels: u64| u32::try_from(pixels).map_err(|_| wrong.clone());
    let mut pixmap = Pixmap::new(side(width)?, side(height)?).ok_or_else(|| wrong.clone())?;
    pixmap.fill(solid(scene.ground));
    let factor = scale as f32 / PX as f32 * scene.magnified as f32 / 1_000.0;
    Canvas { pixmap: &mut pixmap, transform: Transform::from_scale(factor, factor) }
        .items(&scene.items, None);
    pixmap.encode_png().map_err(|error| PngError::Encode(error.to_string()))
}

struct Canvas<'a> {
    pixmap: &'a mut Pixmap,
    transform: Transform,
}

impl Canvas<'_> {
    fn items(&mut self, items: &[Item], mask: Option<&Mask>) {
        for item in items {
            match item {
                Item::Rects { fill, rects } => self.rects(*fill, rects, mask),
                Item::Lines { stroke, lines } => {
                    let mut path = PathBuilder::new();
                    for (from, to) in lines {
                        path.move_to(from.x as f32, from.y as f32);
                        path.line_to(to.x as f32, to.y as f32);
                    }
                    self.stroke(path, stroke, mask);
                }
                Item::Path { fill, stroke, steps } => {
                    if let (Some(fill), Some(path)) = (fill, outline(steps).finish()) {
                        let rule = FillRule::EvenOdd;
                        self.pixmap.fill_path(&path, &paint(*fill), rule, self.transform, mask);
                    }
                    if let Some(stroke) = stroke {
                        self.stroke(outline(steps), stroke, mask);
                    }
                }
                Item::Text(text) => self.text(text, mask),
                Item::Group { clip, items, .. } => match clip {
                    Some(clip) => self.clipped(*clip, items),
                    None => self.items(items, mask),
                },
            }
        }
    }

    /// Clips do not nest in our pictures: the inner one would win.
    fn clipped(&mut self, clip: Rect, items: &[Item]) {
        let Some(mut mask) = Mask::new(self.pixmap.width(), self.pixmap.height()) else { return };
        if let Some(rect) = rectangle(clip) {
            let path = PathBuilder::from_rect(rect);
            mask.fill_path(&path, FillRule::Winding, true, self.transform);
        }
        self.items(items, Some(&mask));
    }

    fn rects(&mut self, fill: Colour, rects: &[Rect], mask: Option<&Mask>) {
        let paint = paint(fill);
        for rect in rects.iter().filter_map(|&rect| rectangle(rect)) {
            self.pixmap.fill_rect(rect, &paint, self.transform, mask);
        }
    }

    fn stroke(&mut self, path: PathBuilder, stroke: &Stroke, mask: Option<&Mask>) {
        let Some(path) = path.finish() else { return };
        let dash =
            stroke.dash.and_then(|(dash, gap)| StrokeDash::new(vec![dash as f32, gap as f32], 0.0));
        let style = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_join: LineJoin::Round,
            dash,
            ..Default::default()
        };
        self.pixmap.stroke_path(&path, &paint(stroke.colour), &style, self.transform, mask);
    }

    fn text(&mut self, text: &Text, mask: Option<&Mask>) {
        let face = text.weight.face();
        let em = text.size as f32 / f32::from(face.metrics.units_per_em);
        let place = self.transform.pre_translate(text.origin.x as f32, text.origin.y as f32);
        let place = if text.upwards { place.pre_rotate(-90.0) } else { place };
        let paint = paint(text.colour);
        for glyph in &text.glyphs {
            let Some(outline) = face.outlines.get(GlyphId::from(glyph.id)) else { continue };
            let mut pen = Pen(PathBuilder::new());
            let whole = DrawSettings::unhinted(Size::unscaled(), LocationRef::default());
            outline.draw(whole, &mut pen).expect("the outlines of the bundled fonts are valid");
            // A space has none.
            if let Some(path) = pen.0.finish() {
                let place = place.pre_translate(glyph.x as f32, 0.0).pre_scale(em, -em);
                self.pixmap.fill_path(&path, &paint, FillRule::Winding, place, mask);
            }
        }
    }
}

fn rectangle(rect: Rect) -> Option<tiny_skia::Rect> {
    let Rect { x, y, w, h } = rect;
    tiny_skia::Rect::from_xywh(x as f32, y as f32, w as f32, h as f32)
        .filter(|rect| rect.width() > 0.0 && rect.height() > 0.0)
}

fn solid(colour: Colour) -> tiny_skia::Color {
    tiny_skia::Color::from_rgba8(colour.r, colour.g, colour.b, colour.a)
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(solid(colour));
    paint
}

fn outline(steps: &[Step]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for step in steps {
        match *step {
            Step::Move(p) => path.move_to(p.x as f32, p.y as f32),
            Step::Line(p) => path.line_to(p.x as f32, p.y as f32),
            Step::Curve(a, b, c) => path
                .cubic_to(a.x as f32, a.y as f32, b.x as f32, b.y as f32, c.x as f32, c.y as f32),
            Step::Close => path.close(),
        }
    }
    path
}

/// Takes a glyph's outline over from the font.
struct Pen(PathBuilder);

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }
    fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_of_whole_pixels_is_exactly_its_colour() {
        let mut scene = Scene::new(4 * PX, 2 * PX, "t", Colour::WHITE);
        scene.rect(Colour::hex(0x11_22_33), Rect::new(PX, 0, 2 * PX, PX));
        let bytes = png(&scene, 2).unwrap();
        let pixmap = Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((pixmap.width(), pixmap.height()), (8, 4));
        let dark = |x, y| pixmap.pixel(x, y).unwrap().red() == 0x11;
        assert!(dark(2, 0) && dark(5, 1) && !dark(1, 0) && !dark(6, 0) && !dark(2, 2));
    }

    #[test]
    fn a_picture_without_pixels_is_refused() {
        let empty = Scene::new(0, 100, "t", Colour::WHITE);
        assert_eq!(png(&empty, 1), Err(PngError::Size { width: 0, height: 1 }));
        let huge = Scene::new(i32::MAX, i32::MAX, "t", Colour::WHITE);
        assert!(matches!(png(&huge, 8), Err(PngError::Size { .. })));
    }
}
