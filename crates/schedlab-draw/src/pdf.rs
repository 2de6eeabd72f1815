//! The scene as PDF: one page, vectors, embedded subsets of the bundled fonts, text that can be
//! selected and searched.
//!
//! The page's content is written here as bytes (integers in the scene's units under one matrix),
//! which costs a quarter of what a general writer costs for 100,000 boxes; `pdf-writer` writes the
//! objects around it. A detour through SVG would cost minutes of compile time and half the drawing
//! time. There is no date and no random identifier in the file: same scene, same bytes.

use crate::colour::Colour;
use crate::font::Weight;
use crate::scene::{Item, PX, Point, Rect, Scene, Step, Stroke, Text};
use flate2::{Compression, write::ZlibEncoder};
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Ref, Str, TextStr};
use skrifa::{FontRef, Tag};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use subsetter::GlyphRemapper;

/// Points (1/72 inch) in a CSS pixel (1/96 inch).
const POINTS: f32 = 0.75;
/// The longest side that readers must accept (PDF 1.7, annex C.2), in points.
const SIDE_MAX: f32 = 14_400.0;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const INFO: Ref = Ref::new(5);
/// First of five objects for each weight.
const FONTS: [i32; 2] = [10, 20];
/// First of the opacities.
const OPACITIES: i32 = 100;

/// The scene as PDF. A picture larger than PDF allows (5 m) is scaled down to fit.
#[must_use]
pub fn pdf(scene: &Scene) -> Vec<u8> {
    let mut content = Content::default();
    let points = POINTS * scene.magnified as f32 / 1_000.0;
    let side = scene.width.max(scene.height) as f32 / PX as f32 * points;
    let scale = points / PX as f32 * (SIDE_MAX / side).min(1.0);
    let width = scene.width as f32 * scale;
    let height = scene.height as f32 * scale;
    content.op(format_args!("{scale:.6} 0 0 -{scale:.6} 0 {height:.3} cm\n"));
    content.rects(scene.ground, &[Rect::new(0, 0, scene.width, scene.height)]);
    content.items(&scene.items);

    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(PAGES);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    pdf.document_info(INFO).title(TextStr(&scene.title)).creator(TextStr("schedlab"));
    let opacities: Vec<u8> = content.opacities.iter().copied().collect();
    let mut page = pdf.page(PAGE);
    page.media_box(pdf_writer::Rect::new(0.0, 0.0, width, height)).parent(PAGES).contents(CONTENT);
    let mut resources = page.resources();
    let mut fonts = resources.fonts();
    for weight in content.fonts.keys() {
        fonts.pair(Name(font_name(*weight)), Ref::new(FONTS[*weight as usize]));
    }
    fonts.finish();
    let mut states = resources.ext_g_states();
    for &opacity in &opacities {
        states.pair(Name(state_name(opacity).as_bytes()), state_ref(opacity));
    }
    states.finish();
    resources.finish();
    page.finish();
    for &opacity in &opacities {
        let alpha = f32::from(opacity) / 255.0;
        pdf.ext_graphics(state_ref(opacity)).non_stroking_alpha(alpha).stroking_alpha(alpha);
    }
    for (weight, used) in &content.fonts {
        embed(&mut pdf, *weight, used);
    }
    pdf.stream(CONTENT, &deflate(&content.bytes)).filter(Filter::FlateDecode);
    pdf.finish()
}

/// The glyphs of a font that a picture uses.
#[derive(Default)]
struct Used {
    remapper: GlyphRemapper,
    /// Characters by glyph, for readers that copy or search.
    characters: BTreeMap<u16, char>,
}

/// The page's content while it is being written.
#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    fonts: BTreeMap<Weight, Used>,
    opacities: BTreeSet<u8>,
    fill: Option<Colour>,
    opacity: Option<u8>,
}

impl Content {
    fn op(&mut self, operation: std::fmt::Arguments<'_>) {
        self.bytes.write_fmt(operation).expect("a Vec takes all that is written to it");
    }

    /// Integers, each followed by a space: the hot path of pictures with many boxes.
    fn numbers(&mut self, numbers: &[i32]) {
        for &number in numbers {
            let mut digits = [0_u8; 11];
            let mut at = digits.len();
            let mut rest = number.unsigned_abs();
            loop {
                at -= 1;
                digits[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
                rest /= 10;
                if rest == 0 {
                    break;
                }
            }
            if number < 0 {
                at -= 1;
                digits[at] = b'-';
            }
            self.bytes.extend_from_slice(&digits[at..]);
            self.bytes.push(b' ');
        }
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Rects { fill, rects } => self.rects(*fill, rects),
                Item::Lines { stroke, lines } => {
                    self.stroke_style(stroke);
                    for (from, to) in lines {
                        self.point(*from, b"m\n");
                        self.point(*to, b"l\n");
                    }
                    self.bytes.extend_from_slice(b"S\n");
                }
                Item::Path { fill, stroke, steps } => self.path(*fill, stroke.as_ref(), steps),
                Item::Text(text) => self.text(text),
                Item::Group { clip, items, .. } => self.group(*clip, items),
            }
        }
    }

    fn group(&mut self, clip: Option<Rect>, items: &[Item]) {
        let Some(Rect { x, y, w, h }) = clip else { return self.items(items) };
        self.bytes.extend_from_slice(b"q\n");
        self.numbers(&[x, y, w, h]);
        self.bytes.extend_from_slice(b"re W n\n");
        self.items(items);
        self.bytes.extend_from_slice(b"Q\n");
        // `Q` brought back what was set before `q`, which is not what was noted since.
        self.fill = None;
        self.opacity = None;
    }

    fn rects(&mut self, fill: Colour, rects: &[Rect]) {
        self.fill_style(fill);
        for Rect { x, y, w, h } in rects {
            self.numbers(&[*x, *y, *w, *h]);
            self.bytes.extend_from_slice(b"re\n");
        }
        self.bytes.extend_from_slice(b"f\n");
    }

    fn path(&mut self, fill: Option<Colour>, stroke: Option<&Stroke>, steps: &[Step]) {
        if let Some(fill) = fill {
            self.fill_style(fill);
            self.outline(steps);
            self.bytes.extend_from_slice(b"f*\n");
        }
        if let Some(stroke) = stroke {
            self.stroke_style(stroke);
            self.outline(steps);
            self.bytes.extend_from_slice(b"S\n");
        }
    }

    fn outline(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Move(to) => self.point(to, b"m\n"),
                Step::Line(to) => self.point(to, b"l\n"),
                Step::Curve(a, b, to) => {
                    self.numbers(&[a.x, a.y, b.x, b.y]);
                    self.point(to, b"c\n");
                }
                Step::Close => self.bytes.extend_from_slice(b"h\n"),
            }
        }
    }

    fn point(&mut self, point: Point, operator: &[u8]) {
        self.numbers(&[point.x, point.y]);
        self.bytes.extend_from_slice(operator);
    }

    fn text(&mut self, text: &Text) {
        self.fill_style(text.colour);
        let used = self.fonts.entry(text.weight).or_default();
        let mut codes = String::with_capacity(text.glyphs.len() * 4);
        for (glyph, character) in text.glyphs.iter().zip(text.content.chars()) {
            let id = used.remapper.remap(glyph.id);
            used.characters.entry(id).or_insert(character);
            for nibble in [id >> 12, id >> 8, id >> 4, id] {
                codes.push(char::from_digit(u32::from(nibble & 15), 16).expect("a nibble"));
            }
        }
        let Point { x, y } = text.origin;
        // The page's y axis points down here, and glyphs must not stand on their heads.
        let matrix = if text.upwards { "0 -1 -1 0" } else { "1 0 0 -1" };
        let name = std::str::from_utf8(font_name(text.weight)).expect("our own names");
        let size = text.size;
        self.op(format_args!("BT /{name} {size} Tf {matrix} {x} {y} Tm <{codes}> Tj ET\n"));
    }

    fn fill_style(&mut self, colour: Colour) {
        self.opacity(colour.a);
        if self.fill != Some(colour) {
            self.fill = Some(colour);
            let [r, g, b] = [colour.r, colour.g, colour.b].map(|part| f32::from(part) / 255.0);
            self.op(format_args!("{r:.3} {g:.3} {b:.3} rg\n"));
        }
    }

    fn stroke_style(&mut self, stroke: &Stroke) {
        let Stroke { colour, width, dash } = stroke;
        self.opacity(colour.a);
        let [r, g, b] = [colour.r, colour.g, colour.b].map(|part| f32::from(part) / 255.0);
        let (dash, gap) = dash.map_or((String::new(), 0), |(dash, gap)| (format!("{dash} "), gap));
        let gap = if gap > 0 { gap.to_string() } else { String::new() };
        self.op(format_args!("{r:.3} {g:.3} {b:.3} RG {width} w [{dash}{gap}] 0 d 1 j\n"));
    }

    fn opacity(&mut self, opacity: u8) {
        // A page begins opaque: a picture without transparency needs no states at all.
        let begins = self.opacities.is_empty() && opacity == 255;
        if self.opacity != Some(opacity) && !begins {
            self.opacities.insert(opacity);
            self.op(format_args!("/{} gs\n", state_name(opacity)));
            self.opacity = Some(opacity);
        }
    }
}

fn font_name(weight: Weight) -> &'static [u8] {
    match weight {
        Weight::Regular => b"F0",
        Weight::Bold => b"F1",
    }
}

fn state_name(opacity: u8) -> String {
    format!("G{opacity}")
}

fn state_ref(opacity: u8) -> Ref {
    Ref::new(OPACITIES + i32::from(opacity))
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("a Vec takes all that is written to it");
    encoder.finish().expect("a Vec takes all that is written to it")
}

/// Writes a font with the glyphs used: a composite font with identity codes, widths and a map back
/// to characters (PDF 1.7, section 9.7).
fn embed(pdf: &mut Pdf, weight: Weight, used: &Used) {
    let [font, cid, descriptor, file, unicode] =
        std::array::from_fn(|i| Ref::new(FONTS[weight as usize] + i32::try_from(i).expect("< 5")));
    let face = weight.face();
    let metrics = &face.metrics;
    let em = f32::from(metrics.units_per_em);
    let to_mille = |units: f32| units * 1_000.0 / em;
    // Six letters and a plus mark a subset; the letters may be any.
    let name = match weight {
        Weight::Regular => Name(b"SCHLAB+Inter-Regular"),
        Weight::Bold => Name(b"SCHLAC+Inter-SemiBold"),
    };
    let info = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };
    pdf.type0_font(font)
        .base_font(name)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(cid)
        .to_unicode(unicode);
    let mut cid_font = pdf.cid_font(cid);
    cid_font.subtype(CidFontType::Type0).base_font(name).system_info(info);
    cid_font.font_descriptor(descriptor).default_width(0.0);
    let widths = used.remapper.remapped_gids().map(|glyph| to_mille(face.advance(glyph)));
    cid_font.widths().consecutive(0, widths);
    cid_font.finish();
    let bounds = metrics.bounds.expect("the bundled fonts have bounds");
    pdf.font_descriptor(descriptor)
        .name(name)
        .flags(FontFlags::SYMBOLIC)
        .bbox(pdf_writer::Rect::new(
            to_mille(bounds.x_min),
            to_mille(bounds.y_min),
            to_mille(bounds.x_max),
            to_mille(bounds.y_max),
        ))
        .italic_angle(0.0)
        .ascent(to_mille(metrics.ascent))
        .descent(to_mille(metrics.descent))
        .cap_height(to_mille(metrics.cap_height.unwrap_or(0.0)))
        .stem_v(if weight == Weight::Bold { 120.0 } else { 80.0 })
        .font_file3(file);
    let subset = subsetter::subset(weight.data(), 0, &used.remapper)
        .expect("the bundled fonts are cut by a test");
    let font = FontRef::new(&subset).expect("the subset is a font");
    let outlines = font.table_data(Tag::new(b"CFF ")).expect("with CFF outlines");
    pdf.stream(file, &deflate(outlines.as_bytes()))
        .filter(Filter::FlateDecode)
        .pair(Name(b"Subtype"), Name(b"CIDFontType0C"));
    let mut map = UnicodeCmap::new(Name(b"Custom"), info);
    for (&glyph, &character) in &used.characters {
        map.pair(glyph, character);
    }
    pdf.stream(unicode, &deflate(map.finish().as_slice())).filter(Filter::FlateDecode);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Anchor, Style, at};

    fn scene() -> Scene {
        let mut scene = Scene::new(200 * PX, 100 * PX, "A title", Colour::WHITE);
        scene.rect(Colour::hex(0x11_22_33).fade(128), Rect::new(0, 0, 100 * PX, 50 * PX));
        let style = Style::regular(12, Colour::BLACK);
        scene.text(at(10 * PX, 20 * PX), Anchor::Start, style, "Wakeup µs → CPU 3");
        scene.text(
            at(10 * PX, 80 * PX),
            Anchor::Start,
            Style { weight: Weight::Bold, ..style },
            "b",
        );
        scene
    }

    #[test]
    fn same_scene_same_bytes() {
        assert_eq!(pdf(&scene()), pdf(&scene()));
        assert!(pdf(&scene()).starts_with(b"%PDF-1."));
    }

    #[test]
    fn fonts_travel_as_subsets() {
        let bytes = pdf(&scene());
        let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert!(
            has(b"/SCHLAB+Inter-Regular") && has(b"/SCHLAC+Inter-SemiBold") && has(b"/ToUnicode")
        );
        assert!(bytes.len() < 20_000, "{} bytes: the whole font came along", bytes.len());
    }

    #[test]
    fn numbers_are_written_in_full() {
        let mut content = Content::default();
        content.numbers(&[0, -1, 10, i32::MIN, i32::MAX]);
        assert_eq!(content.bytes, b"0 -1 10 -2147483648 2147483647 ");
    }
}
