//! The bundled fonts: which characters they have, where glyphs stand, what their outlines are.
//!
//! Two weights of Inter (SIL Open Font License, `fonts/OFL.txt`), cut to Latin, Greek, punctuation,
//! arrows and a few signs by `fonts/subset.py`. Figures have equal widths. Nothing of the system's
//! fonts is ever looked at. What the fonts cannot show (control characters, bidirectional marks, other
//! scripts) is spelled out as `\u{..}`, so that a name from a trace cannot disturb what stands around it.

use skrifa::charmap::Charmap;
use skrifa::instance::{LocationRef, Size};
use skrifa::metrics::{GlyphMetrics, Metrics};
use skrifa::outline::OutlineGlyphCollection;
use skrifa::{FontRef, GlyphId, MetadataProvider};
use std::fmt::Write;
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glyph {
    /// Its index in the font.
    pub id: u16,
    /// Its origin along the baseline, in units from the start of the text.
    pub x: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// The weight of nearly all text.
    #[default]
    Regular,
    /// For titles and what must be seen first.
    Bold,
}

impl Weight {
    /// The font file: OpenType with CFF outlines.
    #[must_use]
    pub(crate) const fn data(self) -> &'static [u8] {
        match self {
            Self::Regular => include_bytes!("../fonts/Inter-Regular.otf"),
            Self::Bold => include_bytes!("../fonts/Inter-SemiBold.otf"),
        }
    }

    #[must_use]
    pub(crate) const fn css(self) -> u16 {
        match self {
            Self::Regular => 400,
            Self::Bold => 600,
        }
    }

    pub(crate) fn face(self) -> &'static Face {
        static FACES: [OnceLock<Face>; 2] = [OnceLock::new(), OnceLock::new()];
        FACES[self as usize].get_or_init(|| {
            let font = FontRef::new(self.data()).expect("the bundled fonts are read by a test");
            let location = LocationRef::default();
            Face {
                metrics: font.metrics(Size::unscaled(), location),
                outlines: font.outline_glyphs(),
                characters: font.charmap(),
                glyphs: font.glyph_metrics(Size::unscaled(), location),
            }
        })
    }
}

/// The tables of a font. All lengths are in font units.
pub(crate) struct Face {
    pub(crate) metrics: Metrics,
    pub(crate) outlines: OutlineGlyphCollection<'static>,
    characters: Charmap<'static>,
    glyphs: GlyphMetrics<'static>,
}

impl Face {
    /// The index of a character's glyph, if the font has one.
    fn glyph(&self, character: char) -> Option<u16> {
        u16::try_from(self.characters.map(character)?.to_u32()).ok()
    }

    /// How far a glyph moves the pen; a whole number.
    pub(crate) fn advance(&self, glyph: u16) -> f32 {
        self.glyphs.advance_width(GlyphId::from(glyph)).unwrap_or(0.0)
    }
}

/// The family that SVG names first, and what may stand in for it.
pub(crate) const FAMILY: &str = "Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/// The text, with every character that the fonts do not have spelled as `\u{..}`.
#[must_use]
pub(crate) fn printable(text: &str) -> String {
    let face = Weight::Regular.face();
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        // A soft hyphen has a glyph, and yet nobody sees it.
        let shows = |c| c != '\u{ad}' && face.glyph(c).is_some();
        if character.is_ascii_graphic() || character == ' ' || shows(character) {
            printable.push(character);
        } else {
            write!(printable, "\\u{{{:x}}}", u32::from(character)).expect("a String takes all");
        }
    }
    printable
}

/// The glyphs of a text, each at its place, and the text's length; all in units.
#[must_use]
pub(crate) fn lay(text: &str, size: i32, weight: Weight) -> (Vec<Glyph>, i32) {
    let face = weight.face();
    let em = i64::from(face.metrics.units_per_em);
    let mut pen = 0_i64; // in font units, so that roundings don't add up
    let to_units = |pen: i64| i32::try_from(pen * i64::from(size) / em).unwrap_or(i32::MAX);
    let glyphs = text
        .chars()
        .map(|character| {
            let id = face.glyph(character).unwrap_or(0);
            let glyph = Glyph { id, x: to_units(pen) };
            pen += face.advance(id) as i64;
            glyph
        })
        .collect();
    (glyphs, to_units(pen))
}

/// The longest beginning of `text` that fits into `room` units, with an ellipsis where it was cut;
/// empty when not even one character fits.
#[must_use]
pub(crate) fn shorten(text: &str, size: i32, weight: Weight, room: i32) -> String {
    let text = printable(text);
    if lay(&text, size, weight).1 <= room {
        return text;
    }
    // One unit less, since the sum of two rounded lengths can be one short.
    let room = room - lay("…", size, weight).1 - 1;
    let (glyphs, _) = lay(&text, size, weight);
    // A character fits when the next one starts inside of the room.
    let fits = glyphs.iter().skip(1).take_while(|glyph| glyph.x <= room).count();
    match fits {
        0 => String::new(),
        _ => text.chars().take(fits).chain(['…']).collect(),
    }
}

/// The name of a task for a box with `room`: whole, or as `app-c…:1001`, since the pid tells tasks of
/// one command apart. `None` where fewer than four characters of the command would stand.
#[must_use]
pub(crate) fn shorten_task(name: &str, size: i32, weight: Weight, room: i32) -> Option<String> {
    const LEAST: usize = 4;
    let name = printable(name);
    if lay(&name, size, weight).1 <= room {
        return Some(name);
    }
    let pid = name.rfind(':').filter(|&at| {
        let digits = &name[at + 1..];
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let (command, pid) = name.split_at(pid.unwrap_or(name.len()));
    let left = room - lay(pid, size, weight).1 - 1;
    let short = shorten(command, size, weight, left);
    (short.chars().count() > LEAST || short == command).then(|| short + pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_fonts_have_what_pictures_say() {
        for weight in [Weight::Regular, Weight::Bold] {
            let face = weight.face();
            for character in "azAZ09 .,:;()[]<>&\"'µ×–—…→←↑↓≤≥±σΣ²éßø".chars()
            {
                assert!(face.glyph(character).is_some(), "{character} in {weight:?}");
            }
            let width = |figure: char| lay(&figure.to_string(), 1000, weight).1;
            let apart = |figure: char| width(figure).abs_diff(width('0'));
            assert!(('0'..='9').all(|figure| apart(figure) <= 1), "{weight:?}");
        }
    }

    #[test]
    fn what_the_fonts_cannot_show_is_spelled_out() {
        assert_eq!(printable("a\u{202e}b\u{7}\u{5d0}"), "a\\u{202e}b\\u{7}\\u{5d0}");
        assert_eq!(printable("<b>&\"é"), "<b>&\"é");
    }

    #[test]
    fn a_shortened_name_keeps_the_pid_or_is_left_out() {
        let width = |text: &str| lay(text, 1100, Weight::Regular).1;
        let short = |name, room| shorten_task(name, 1100, Weight::Regular, room);
        let name = "app-producer:1001";
        assert_eq!(short(name, width(name)).as_deref(), Some(name));
        for room in 0..width(name) {
            let Some(text) = short(name, room) else { continue };
            assert!(width(&text) <= room, "{text}");
            assert!(text.starts_with("app-") && text.ends_with("…:1001"), "{text}");
        }
        assert_eq!(short(name, width("app…:1001")), None);
        let kworker = short("kworker/1:2", width("kworker/1:2") - 1).unwrap();
        assert!(kworker.starts_with("kwork") && kworker.ends_with("…:2"), "{kworker}");
        assert_eq!(short("sh:7", width("sh:7") - 1), None);
    }

    #[test]
    fn a_shortened_text_fits() {
        let full = lay("CompilerThread", 1200, Weight::Regular).1;
        for room in 0..full {
            let short = shorten("CompilerThread", 1200, Weight::Regular, room);
            assert!(short.is_empty() || lay(&short, 1200, Weight::Regular).1 <= room);
        }
        assert_eq!(shorten("CompilerThread", 1200, Weight::Regular, full), "CompilerThread");
    }
}
