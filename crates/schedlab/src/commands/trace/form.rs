//! The form in which an answer is printed: text, JSON or CSV, all from the columns of its rows
//! ([`schedlab_model::table`]).

use crate::json::{self, Document};
use schedlab_model::Warning;
use schedlab_model::table::{Row, Rows, TextRows};

/// Notes about what the bounds of the figures say too, each figure its own.
const TOLD_BY_BOUNDS: [&str; 4] =
    ["events-contradict", "no-contexts", "no-placements", "wakeups-missing"];

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
        if self.wide { usize::MAX } else { crate::output::room() }
    }

    /// Whether the text is printed.
    pub(super) const fn is_text(self) -> bool {
        !(self.json || self.csv)
    }

    /// The notes that belong beside the first `top` rows (0: all) of `shown`. Text leaves out what touches none of their
    /// figures by more than 1 %; CSV has figures that text does not show.
    pub(super) fn notes<R>(
        self,
        warnings: &[Warning],
        shown: TextRows<'_, R>,
        top: usize,
    ) -> Vec<Warning> {
        let all = self.csv || shown.is_touched(top);
        let stays = |warning: &&Warning| all || !TOLD_BY_BOUNDS.contains(&warning.code.as_str());
        warnings.iter().filter(stays).cloned().collect()
    }

    /// A text whose first line, the headline, has no more characters than there is room for.
    fn begun(self, text: &str) -> String {
        let (headline, rest) = text.split_once('\n').unwrap_or((text, ""));
        format!("{}\n{rest}", crate::output::wrapped("", "", headline, self.room()))
    }

    /// Prints an answer: all of it as JSON, its rows as CSV, or the text.
    pub(super) fn print<R: Row>(
        self,
        warnings: &[Warning],
        document: &impl Document,
        rows: &Rows<'_, R>,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.json {
            return json::print(document);
        }
        let text = match self.csv {
            true => rows.csv(self.raw),
            false if rows.is_blank() => "no figures: the trace does not tell them\n".to_owned(),
            false => self.begun(&text()),
        };
        print_text(&text)?;
        print_notes(warnings);
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
