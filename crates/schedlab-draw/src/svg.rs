//! The scene as SVG: text that can be selected and searched, one path for all boxes of a colour.
//!
//! Coordinates are the scene's own integers; the view box scales them. Each text names the bundled
//! family with fallbacks and gets its length, so that it takes the same room in another font.
//! What texts say comes from traces: everything is escaped, and [`crate::font::printable`] has
//! already spelled out what is no plain character.

use crate::colour::Colour;
use crate::font::{FAMILY, Weight};
use crate::scene::{Item, PX, Point, Rect, Scene, Step, Stroke, Text};
use std::collections::BTreeSet;
use std::fmt::{self, Write};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SvgOptions {
    /// Whether the fonts that the picture uses travel in the file (43 KB each), so that it looks the
    /// same where they are not installed. Inside an HTML page one copy can serve all pictures.
    pub embed_fonts: bool,
    /// Put before the names of clips, so that several pictures can stand in one page. Letters and
    /// digits only; others are dropped.
    pub prefix: &'static str,
}

/// The scene as SVG, without fonts in the file.
#[must_use]
pub fn svg(scene: &Scene) -> String {
    svg_with(scene, SvgOptions::default())
}

#[must_use]
pub fn svg_with(scene: &Scene, options: SvgOptions) -> String {
    let mut spelling = Spelling { out: String::new(), clips: 0, prefix: options.prefix };
    spelling.document(scene, options).expect("a String takes all that is written to it");
    spelling.out
}

/// CSS that brings the bundled fonts to a page that shows pictures inline.
#[must_use]
pub fn font_css(weights: impl IntoIterator<Item = Weight>) -> String {
    let mut css = String::new();
    for weight in weights {
        let data = base64(weight.data());
        writeln!(
            css,
            "@font-face{{font-family:Inter;font-weight:{};src:url(data:font/otf;base64,{data})}}",
            weight.css()
        )
        .expect("a String takes all that is written to it");
    }
    css
}

struct Spelling {
    out: String,
    clips: usize,
    prefix: &'static str,
}

impl Spelling {
    fn document(&mut self, scene: &Scene, options: SvgOptions) -> fmt::Result {
        let Scene { width, height, magnified, .. } = *scene;
        let shown = |units: i32| Shown(units, magnified);
        writeln!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILY}\">",
            shown(width),
            shown(height)
        )?;
        writeln!(self.out, "<title>{}</title>", Escaped(&scene.title))?;
        if options.embed_fonts {
            let weights: BTreeSet<Weight> = scene.texts().iter().map(|text| text.weight).collect();
            writeln!(self.out, "<style>{}</style>", font_css(weights))?;
        }
        self.rects(scene.ground, &[Rect::new(0, 0, width, height)])?;
        self.items(&scene.items)?;
        self.out.push_str("</svg>\n");
        Ok(())
    }

    fn items(&mut self, items: &[Item]) -> fmt::Result {
        items.iter().try_for_each(|item| self.item(item))
    }

    fn item(&mut self, item: &Item) -> fmt::Result {
        match item {
            Item::Rects { fill, rects } => self.rects(*fill, rects),
            Item::Lines { stroke, lines } => {
                self.out.push_str("<path d=\"");
                for (from, to) in lines {
                    write!(self.out, "M{} {}L{} {}", from.x, from.y, to.x, to.y)?;
                }
                self.out.push_str("\" fill=\"none\"");
                self.stroke(stroke)?;
                self.out.push_str("/>\n");
                Ok(())
            }
            Item::Path { fill, stroke, steps } => self.path(*fill, stroke.as_ref(), steps),
            Item::Text(text) => self.text(text),
            Item::Group { label, clip, items } => self.group(label, *clip, items),
        }
    }

    fn rects(&mut self, fill: Colour, rects: &[Rect]) -> fmt::Result {
        self.out.push_str("<path d=\"");
        for Rect { x, y, w, h } in rects {
            write!(self.out, "M{x} {y}h{w}v{h}h-{w}z")?;
        }
        self.out.push('"');
        self.fill(fill)?;
        self.out.push_str("/>\n");
        Ok(())
    }

    fn path(
        &mut self,
        fill: Option<Colour>,
        stroke: Option<&Stroke>,
        steps: &[Step],
    ) -> fmt::Result {
        self.out.push_str("<path d=\"");
        for step in steps {
            match *step {
                Step::Move(Point { x, y }) => write!(self.out, "M{x} {y}")?,
                Step::Line(Point { x, y }) => write!(self.out, "L{x} {y}")?,
                Step::Curve(a, b, c) => {
                    write!(self.out, "C{} {} {} {} {} {}", a.x, a.y, b.x, b.y, c.x, c.y)?;
                }
                Step::Close => self.out.push('z'),
            }
        }
        self.out.push('"');
        match fill {
            Some(fill) => {
                self.fill(fill)?;
                self.out.push_str(" fill-rule=\"evenodd\"");
            }
            None => self.out.push_str(" fill=\"none\""),
        }
        if let Some(stroke) = stroke {
            self.stroke(stroke)?;
            self.out.push_str(" stroke-linejoin=\"round\"");
        }
        self.out.push_str("/>\n");
        Ok(())
    }

    fn text(&mut self, text: &Text) -> fmt::Result {
        let Point { x, y } = text.origin;
        write!(self.out, "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"", text.size)?;
        if text.weight != Weight::Regular {
            write!(self.out, " font-weight=\"{}\"", text.weight.css())?;
        }
        if text.upwards {
            write!(self.out, " transform=\"rotate(-90 {x} {y})\"")?;
        }
        // One glyph has no gaps to adjust.
        if text.glyphs.len() > 1 {
            write!(self.out, " textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", text.width)?;
        }
        self.fill(text.colour)?;
        writeln!(self.out, " xml:space=\"preserve\">{}</text>", Escaped(&text.content))
    }

    fn group(&mut self, label: &str, clip: Option<Rect>, items: &[Item]) -> fmt::Result {
        match clip {
            Some(Rect { x, y, w, h }) => {
                self.clips += 1;
                let prefix: String =
                    self.prefix.chars().filter(char::is_ascii_alphanumeric).collect();
                let id = format!("{prefix}clip{}", self.clips);
                writeln!(
                    self.out,
                    "<clipPath id=\"{id}\"><path d=\"M{x} {y}h{w}v{h}h-{w}z\"/></clipPath>\n\
                     <g clip-path=\"url(#{id})\">"
                )?;
            }
            None => self.out.push_str("<g>\n"),
        }
        if !label.is_empty() {
            writeln!(self.out, "<title>{}</title>", Escaped(label))?;
        }
        self.items(items)?;
        self.out.push_str("</g>\n");
        Ok(())
    }

    fn fill(&mut self, fill: Colour) -> fmt::Result {
        write!(self.out, " fill=\"{}\"", Hex(fill))?;
        if fill.a < 255 {
            write!(self.out, " fill-opacity=\"{}\"", Opacity(fill.a))?;
        }
        Ok(())
    }

    fn stroke(&mut self, stroke: &Stroke) -> fmt::Result {
        let Stroke { colour, width, dash } = stroke;
        write!(self.out, " stroke=\"{}\" stroke-width=\"{width}\"", Hex(*colour))?;
        if colour.a < 255 {
            write!(self.out, " stroke-opacity=\"{}\"", Opacity(colour.a))?;
        }
        if let Some((dash, gap)) = dash {
            write!(self.out, " stroke-dasharray=\"{dash} {gap}\"")?;
        }
        Ok(())
    }
}

/// Units as pixels in thousandths of the natural size, with as few digits as it takes.
struct Shown(i32, u32);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = i64::from(self.0) * i64::from(self.1) / 1_000;
        let px = i64::from(PX);
        match units % px {
            0 => write!(f, "{}", units / px),
            rest => write!(f, "{}.{rest:02}", units / px),
        }
    }
}

struct Hex(Colour);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Colour { r, g, b, .. } = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}

/// An opacity of 0 ..= 254 as thousandths of one.
struct Opacity(u8);

impl fmt::Display for Opacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{:03}", (u32::from(self.0) * 1_000 + 127) / 255)
    }
}

/// A text that can stand in XML content and in quoted attributes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Base64 with padding (RFC 4648, section 4).
#[must_use]
pub fn base64(data: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(data.len().div_ceil(3) * 4);
    for chunk in data.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Anchor, Style, at};

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (data, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(data.as_bytes()), text);
        }
    }

    #[test]
    fn nothing_that_a_name_says_becomes_markup() {
        let mut scene = Scene::new(1000, 1000, "</title><script>x</script>", Colour::WHITE);
        let style = Style::regular(12, Colour::BLACK);
        scene.text(at(0, 0), Anchor::Start, style, "\"'><script>alert(1)</script>\u{202e}\0");
        scene.labelled("]]><b>", |scene| scene.rect(Colour::BLACK, Rect::new(0, 0, 1, 1)));
        let svg = svg(&scene);
        assert!(
            !svg.contains("<script") && !svg.contains("<b>") && !svg.contains("</title><"),
            "{svg}"
        );
        assert!(!svg.contains('\u{202e}') && !svg.contains('\0'));
        assert!(svg.contains("\\u{202e}\\u{0}"));
    }

    #[test]
    fn boxes_of_a_colour_are_one_path() {
        let mut scene = Scene::new(300, 150, "t", Colour::WHITE);
        let fill = Colour::hex(0x102030).fade(51);
        scene.rects(fill, vec![Rect::new(0, 0, 5, 6), Rect::new(7, 8, 9, 10)]);
        let svg = svg(&scene);
        let path = "<path d=\"M0 0h5v6h-5zM7 8h9v10h-9z\" fill=\"#102030\" fill-opacity=\".200\"/>";
        assert!(svg.contains(path), "{svg}");
        assert!(svg.contains("width=\"3\" height=\"1.50\""), "{svg}");
    }
}
