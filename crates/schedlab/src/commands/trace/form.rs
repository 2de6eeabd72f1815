//! The form in which an answer is printed: text, JSON or CSV, all from the columns of its rows
//! ([`schedlab_model::table`]).

use super::input;
use crate::json::{self, Document};
use schedlab_model::Warning;
use schedlab_model::table::{Row, Rows};

/// How to print.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the rows as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print all columns, however long the lines become
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    wide: bool,
}

impl Form {
    /// Characters of a line of text.
    pub(crate) fn room(self) -> usize {
        if self.wide { usize::MAX } else { crate::output::room() }
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
        input::print_text(&if self.csv { rows.csv() } else { text() })?;
        input::print_notes(warnings);
        Ok(())
    }
}
