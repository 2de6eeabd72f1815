//! Reports: one HTML file without outside references, that opens from a mail, prints, and is read in
//! light and dark.
//!
//! [`Report`] is a document of sections, paragraphs, tables, pictures and warnings; [`of_runs`] writes
//! the usual one from stored runs. Everything is a function of its input: the same runs give the same
//! bytes. A report never holds the only copy of a number.
//!
//! ```
//! use schedlab_experiment::report::{Report, Table};
//! let mut report = Report::new("Two runs");
//! let mut table = Table::new(["run", "time"]);
//! table.row(["a".into(), "1.2 s".into()]);
//! report.section("Times").paragraph("Less is better.").table(table);
//! assert!(report.html().contains("1.2 s"));
//! ```

pub mod answer;
mod answers;
pub mod claims;
mod facts;
mod html;
mod labels;
mod runs;
pub mod scale;
mod table;
mod themed_scene;
mod trace;
mod trace_scenes;

pub use answers::{Picture, Shown, answers, text_map, winners};
pub(crate) use html::Html;
pub use labels::short as short_labels;
pub use runs::of_runs;
pub use schedlab_model::{readable, significant};
pub use table::Table;
pub use themed_scene::ThemedScene;
pub use trace::{ShowError, TracePictures, trace_section};
pub use trace_scenes::trace_scenes;

use schedlab_draw::Weight;
use schedlab_model::{MachineFacts, Warning};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("report/style.css");

/// A report as one HTML document.
#[derive(Clone, Debug, Default)]
pub struct Report {
    title: String,
    lead: String,
    sections: Vec<Section>,
}

/// A part of a document, with a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    title: String,
    parts: Vec<Part>,
    /// Set close, so that it fits on the first screen.
    is_first: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Paragraph(String),
    Table(Table),
    Picture {
        svg: String,
        caption: String,
    },
    /// Pictures beside each other.
    Row(Vec<Picture>),
    Warnings(Vec<Warning>),
    Folded {
        summary: String,
        text: String,
    },
    FoldedTable {
        summary: String,
        table: Table,
    },
    /// A document of its own in a frame.
    Page {
        summary: String,
        html: String,
    },
}

impl Report {
    /// A report without sections.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// The sentence under the title.
    pub fn lead(&mut self, lead: impl Into<String>) -> &mut Self {
        self.lead = lead.into();
        self
    }

    /// Begins a section; what it returns takes the content.
    pub fn section(&mut self, title: impl Into<String>) -> &mut Section {
        self.sections.push(Section::new(title));
        self.sections.last_mut().expect("it was just put there")
    }

    /// Appends a section that was made elsewhere.
    pub fn add(&mut self, section: Section) -> &mut Self {
        self.sections.push(section);
        self
    }

    /// Appends the sections of another document.
    pub fn append(&mut self, other: Self) -> &mut Self {
        self.sections.extend(other.sections);
        self
    }

    /// The section with the machine on which all this was measured.
    pub fn machine(&mut self, facts: &MachineFacts) -> &mut Self {
        self.sections.push(facts::section(facts));
        self
    }

    /// The document as one HTML file.
    #[must_use]
    pub fn html(&self) -> String {
        let mut html = Html::default();
        html.markup("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.markup("<meta name=\"color-scheme\" content=\"light dark\">\n");
        // Nothing may be loaded from anywhere, even if a task's name looks like markup.
        html.markup("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ");
        html.markup("style-src 'unsafe-inline'; img-src data:; font-src data:");
        if self.sections.iter().flat_map(|s| &s.parts).any(|p| matches!(p, Part::Page { .. })) {
            // A frame inherits this policy: it lets the script of our page run, and no other.
            html.markup("; script-src ").markup(&page_script());
        }
        html.markup("\">\n");
        html.element("title", &self.title);
        html.markup("<style>\n").markup(STYLE);
        if self
            .sections
            .iter()
            .flat_map(|s| &s.parts)
            .any(|p| matches!(p, Part::Picture { .. } | Part::Row(_)))
        {
            html.markup(&schedlab_draw::font_css([Weight::Regular, Weight::Bold]));
        }
        html.markup("</style>\n</head>\n<body>\n<header>\n");
        html.element("h1", &self.title);
        if !self.lead.is_empty() {
            html.element("p", &self.lead);
        }
        html.markup("</header>\n<main>\n");
        let mut pictures = 0;
        for section in &self.sections {
            section.write(&mut html, &mut pictures);
        }
        html.markup("</main>\n</body>\n</html>\n");
        html.into_string()
    }
}

impl Section {
    /// A section of its own, for [`Report::add`].
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), parts: Vec::new(), is_first: false }
    }

    /// The section that answers: set close, so that it fits on the first screen.
    #[must_use]
    pub fn first(title: impl Into<String>) -> Self {
        Self { is_first: true, ..Self::new(title) }
    }

    /// A paragraph of plain text.
    pub fn paragraph(&mut self, text: impl Into<String>) -> &mut Self {
        self.parts.push(Part::Paragraph(text.into()));
        self
    }

    /// Adds a table to the section.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.parts.push(Part::Table(table));
        self
    }

    /// A picture as SVG of our own writer (`ThemedScene::svg`), with what it shows.
    pub fn picture(&mut self, svg: impl Into<String>, caption: impl Into<String>) -> &mut Self {
        self.parts.push(Part::Picture { svg: svg.into(), caption: caption.into() });
        self
    }

    /// Pictures beside each other, where the page is wide enough. None: nothing is shown.
    pub fn pictures(&mut self, pictures: Vec<Picture>) -> &mut Self {
        if !pictures.is_empty() {
            self.parts.push(Part::Row(pictures));
        }
        self
    }

    /// Warnings about the figures before it. None: nothing is shown.
    pub fn warnings(&mut self, warnings: &[Warning]) -> &mut Self {
        if !warnings.is_empty() {
            self.parts.push(Part::Warnings(warnings.to_vec()));
        }
        self
    }

    /// The warnings of runs behind a click: each text once. None: nothing is shown.
    pub(crate) fn folded_warnings(&mut self, runs: &[&crate::StoredRun]) -> &mut Self {
        let mut texts: Vec<String> =
            runs.iter().flat_map(|run| &run.warnings).map(ToString::to_string).collect();
        texts.sort();
        texts.dedup();
        if !texts.is_empty() {
            self.folded(format!("{} warnings", texts.len()), texts.join("\n"));
        }
        self
    }

    /// Text behind a click: a file, raw numbers.
    pub fn folded(&mut self, summary: impl Into<String>, text: impl Into<String>) -> &mut Self {
        self.parts.push(Part::Folded { summary: summary.into(), text: text.into() });
        self
    }

    /// A table behind a click.
    pub fn folded_table(&mut self, summary: impl Into<String>, table: Table) -> &mut Self {
        self.parts.push(Part::FoldedTable { summary: summary.into(), table });
        self
    }

    /// A page of `schedlab_draw::page` behind a click. It runs in a frame that can reach neither this
    /// document nor anything outside, and is unpacked only when it is opened.
    pub fn page(&mut self, summary: impl Into<String>, page: impl Into<String>) -> &mut Self {
        self.parts.push(Part::Page { summary: summary.into(), html: page.into() });
        self
    }

    fn write(&self, html: &mut Html, pictures: &mut usize) {
        html.markup(if self.is_first { "<section class=\"answer\">\n" } else { "<section>\n" });
        html.element("h2", &self.title);
        for part in &self.parts {
            part.write(html, pictures);
        }
        html.markup("</section>\n");
    }
}

impl Part {
    fn write(&self, html: &mut Html, pictures: &mut usize) {
        match self {
            Self::Paragraph(text) => {
                html.element("p", text);
            }
            Self::Table(table) => table.write(html),
            Self::Picture { svg, caption } => {
                *pictures += 1;
                figure(html, svg, caption, *pictures);
            }
            Self::Row(row) => {
                html.markup("<div class=\"row\">\n");
                for Picture { scenes, caption } in row {
                    *pictures += 1;
                    figure(html, &scenes.svg(), caption, *pictures);
                }
                html.markup("</div>\n");
            }
            Self::Warnings(warnings) => {
                html.markup("<ul class=\"warnings\">\n");
                for warning in warnings {
                    html.element("li", &warning.to_string());
                }
                html.markup("</ul>\n");
            }
            Self::Folded { summary, text } => {
                html.markup("<details>").element("summary", summary);
                html.element("pre", text).markup("</details>\n");
            }
            Self::FoldedTable { summary, table } => {
                html.markup("<details>").element("summary", summary);
                table.write(html);
                html.markup("</details>\n");
            }
            Self::Page { summary, html: page } => {
                html.markup("<details class=\"page\">").element("summary", summary);
                html.markup("<iframe loading=\"lazy\" sandbox=\"allow-scripts allow-downloads\" ");
                html.markup("title=\"").text(summary).markup("\" srcdoc=\"");
                html.text(page).markup("\"></iframe></details>\n");
            }
        }
    }
}

fn figure(html: &mut Html, svg: &str, caption: &str, number: usize) {
    // A picture is as wide as it was drawn, where the page is.
    let wide = svg.split_once("width=\"").and_then(|(_, rest)| rest.split_once('"'));
    let wide = wide.and_then(|(width, _)| width.parse::<u32>().ok()).unwrap_or(1000);
    html.markup(&format!("<figure style=\"flex:{wide} 1 0\">\n"));
    html.markup(&inlined(svg, number)).markup("\n");
    if !caption.is_empty() {
        html.element("figcaption", caption);
    }
    html.markup("</figure>\n");
}

/// The source expression that allows the page's script (Content Security Policy Level 3, section 6.7.2).
fn page_script() -> String {
    let hash = Sha256::digest(schedlab_draw::page::script());
    format!("'sha256-{}'", schedlab_draw::base64(&hash))
}

/// A picture inside HTML: without XML declaration, and with names of clips that no other picture of
/// the page has. Text in a picture is escaped, so the quotes make the replaced words markup for sure.
fn inlined(svg: &str, number: usize) -> String {
    let element = svg.find("<svg").and_then(|at| svg.get(at..)).unwrap_or("");
    let names = ["clip", "darkclip"];
    names.iter().fold(element.to_owned(), |element, name| {
        element
            .replace(&format!("id=\"{name}"), &format!("id=\"p{number}{name}"))
            .replace(&format!("\"url(#{name}"), &format!("\"url(#p{number}{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_refers_to_nothing_outside() {
        let mut report = Report::new("<b>title</b>");
        report
            .section("s")
            .picture("<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\"/>", "c");
        let html = report.html();
        assert!(!html.contains("src=") && !html.contains("href=") && !html.contains("@import"));
        assert!(!html.contains("<?xml") && !html.contains("<b>"));
        assert!(html.contains("\">\n<svg "));
    }

    #[test]
    fn pictures_of_one_page_do_not_share_names() {
        let svg = "<svg><clipPath id=\"clip0\"/><g clip-path=\"url(#clip0)\"/></svg>";
        let mut report = Report::new("t");
        report.section("s").picture(svg, "a").picture(svg, "b");
        let html = report.html();
        assert!(html.contains("id=\"p1clip0\"") && html.contains("id=\"p2clip0\""));
        assert!(html.contains("\"url(#p2clip0)\""));
    }

    #[test]
    fn each_part_of_a_section_is_written_where_it_was_added() {
        let mut report = Report::new("t");
        let section = report.section("s");
        let mut table = Table::new(["what", "time"]);
        table.row(["a".into(), "1 s".into()]);
        section.paragraph("before").table(table.clone()).picture("<svg width=\"640\"/>", "");
        section.warnings(&[Warning::new("code", "it is late", "wait")]).warnings(&[]);
        section.folded("file", "x < y").folded_table("numbers", table).pictures(Vec::new());
        let html = report.html();
        let expected = [
            "<h2>s</h2>",
            "<p>before</p>",
            "<th class=\"number\">time</th>",
            "<td class=\"number\">1 s</td>",
            "<figure style=\"flex:640 1 0\">\n<svg width=\"640\"/>\n</figure>",
            "<ul class=\"warnings\">\n<li>it is late: wait</li>\n</ul>",
            "<details><summary>file</summary>\n<pre>x &lt; y</pre>\n</details>",
            "<details><summary>numbers</summary>\n<div class=\"wide\">",
        ];
        let found: Vec<_> = expected.iter().map(|part| html.find(part)).collect();
        assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?}\n{html}");
        assert_eq!(html.matches("class=\"warnings\"").count(), 1, "no warnings, no list");
        assert!(!html.contains("<div class=\"row\">"), "no pictures, no row");
    }

    #[test]
    fn the_first_section_is_the_answer() {
        let mut report = Report::new("t");
        report.add(Section::first("Answer"));
        report.add(Section::new("Runs"));
        let html = report.html();
        assert_eq!(html.matches("<section class=\"answer\">").count(), 1);
        assert!(html.find("Answer") < html.find("Runs"));
    }

    #[test]
    fn fonts_travel_with_pictures_alone() {
        let has_fonts = |report: &Report| report.html().contains("@font-face");
        let mut report = Report::new("t");
        report.section("s").paragraph("p");
        assert!(!has_fonts(&report));
        report.section("s").picture("<svg/>", "c");
        assert!(has_fonts(&report));
        let draw =
            |theme: &schedlab_draw::Theme| schedlab_draw::Scene::new(64, 64, "t", theme.panel);
        let mut row = Report::new("t");
        row.section("s")
            .pictures(vec![Picture { scenes: ThemedScene::of(draw), caption: "beside".into() }]);
        assert!(has_fonts(&row));
        let html = row.html();
        assert!(html.contains("<div class=\"row\">\n<figure style=\"flex:"), "{html}");
        assert!(html.contains("<figcaption>beside</figcaption>"), "{html}");
    }

    #[test]
    fn the_policy_allows_the_script_of_a_page_where_there_is_one() {
        let mut report = Report::new("t");
        report.section("s").paragraph("p");
        assert!(!report.html().contains("script-src"));
        report.section("s").page("Move", "<p title=\"x\">");
        let html = report.html();
        assert!(html.contains(&format!("; script-src {}\">", page_script())), "{html}");
        assert!(html.contains("title=\"Move\" srcdoc=\"&lt;p title=&quot;x&quot;&gt;\""), "{html}");
        assert!(page_script().starts_with("'sha256-") && page_script().len() == 53);
    }

    #[test]
    fn a_document_has_a_lead_and_the_sections_of_others() {
        let mut other = Report::new("other");
        other.section("theirs");
        let mut report = Report::new("t");
        report.section("ours");
        assert!(!report.html().contains("<p>"));
        report.lead("In short.").append(other).machine(&crate::fake::facts(0));
        let html = report.html();
        assert!(html.contains("<h1>t</h1>\n<p>In short.</p>\n</header>"), "{html}");
        let heads = ["<h2>ours</h2>", "<h2>theirs</h2>", "<h2>The machine</h2>"];
        let found: Vec<_> = heads.iter().map(|head| html.find(head)).collect();
        assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?}");
    }

    #[test]
    fn a_picture_is_as_wide_as_it_was_drawn() {
        let figure = |svg: &str, caption: &str| {
            let mut html = Html::default();
            figure(&mut html, svg, caption, 3);
            html.into_string()
        };
        assert_eq!(
            figure("<?xml?><svg width=\"640\"/>", "c"),
            "<figure style=\"flex:640 1 0\">\n<svg width=\"640\"/>\n<figcaption>c</figcaption>\n</figure>\n"
        );
        let plain = figure("<svg/>", "");
        assert_eq!(plain, "<figure style=\"flex:1000 1 0\">\n<svg/>\n</figure>\n");
    }
}
