//! The form in which an answer is printed: text, JSON or CSV, all from the columns of its rows
//! ([`schedlab_model::table`]).

use crate::json::{self, Document};
use schedlab_model::Warning;
use schedlab_model::table::{Row, Rows};

/// Notes about what the bounds of the figures say too, each figure its own.
const TOLD_BY_BOUNDS: [&str; 4] =
    ["events-contradict", "no-contexts", "no-placements", "wakeups-missing"];

/// An answer as text.
pub(super) struct Text {
    pub(super) text: String,
    /// Whether a figure in it may be off by more than 1 %. Else the notes that bounds tell too are left out.
    pub(super) is_touched: bool,
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { text, is_touched: true }
    }
}

/// How to print.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the rows as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// In CSV, write names as they are, for programs: a spreadsheet may run them
    #[arg(long, requires = "csv")]
    raw: bool,
    /// Print all columns, however long the lines become
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    wide: bool,
}

impl Form {
    /// Characters of a line of text.
    pub(crate) fn room(self) -> usize {
        crate::output::room_if(self.wide)
    }

    /// Whether the text is printed.
    pub(super) const fn is_text(self) -> bool {
        !(self.json || self.csv)
    }

    /// A text whose first line, the headline, has no more characters than there is room for.
    fn begun(self, text: &str) -> String {
        let (headline, rest) = text.split_once('\n').unwrap_or((text, ""));
        format!("{}\n{rest}", crate::output::wrapped("", "", headline, self.room()))
    }

    /// Prints an answer: all of it as JSON, its rows as CSV, or the text. CSV has figures that text does not show, so it
    /// has all notes.
    pub(super) fn print<R: Row, T: Into<Text>>(
        self,
        warnings: &[Warning],
        document: &impl Document,
        rows: &Rows<'_, R>,
        text: impl FnOnce() -> T,
    ) -> anyhow::Result<()> {
        if self.json {
            return json::print(document);
        }
        let Text { text, is_touched } = match self.csv {
            true => rows.csv(self.raw).into(),
            false if rows.is_blank() => {
                "no figures: the trace does not tell them\n".to_owned().into()
            }
            false => {
                let Text { text, is_touched } = text().into();
                Text { text: self.begun(&text), is_touched }
            }
        };
        print_text(&text)?;
        let is_told = |warning: &&Warning| TOLD_BY_BOUNDS.contains(&warning.code.as_str());
        let notes = warnings.iter().filter(|warning| is_touched || !is_told(warning));
        notes.for_each(|warning| print_note(&warning.to_string()));
        Ok(())
    }
}

/// Prints a finished text.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut out = crate::output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Warnings go to stderr, beside the figures.
pub(crate) fn print_notes(warnings: &[Warning]) {
    warnings.iter().for_each(|warning| print_note(&warning.to_string()));
}

/// Warnings about one of several traces.
pub(crate) fn print_named_notes(name: &str, warnings: &[Warning]) {
    warnings.iter().for_each(|warning| print_note(&format!("{name}: {warning}")));
}

/// A note, wrapped where the line ends.
fn print_note(text: &str) {
    use std::io::Write as _;
    let lines = crate::output::wrapped("note: ", "      ", text, crate::output::room());
    let _ = writeln!(crate::output::stderr(), "{lines}");
}
