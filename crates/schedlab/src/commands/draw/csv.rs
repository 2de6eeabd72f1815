//! A table from a CSV file (RFC 4180): what stands in it, and where, so that errors can say so.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// A table with names in its first line.
pub(crate) struct Table {
    path: PathBuf,
    names: Vec<String>,
    records: Vec<Record>,
}

/// A record and the line that it begins on.
struct Record {
    line: usize,
    fields: Vec<String>,
}

impl Table {
    /// Reads a file. Empty lines are passed over.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            schedlab_sys::regular_file::text(path).with_context(|| path.display().to_string())?;
        let mut records = records(text.strip_prefix('\u{feff}').unwrap_or(&text), path)?;
        if records.is_empty() {
            bail!("{}: line 1: missing names of the columns", path.display());
        }
        let names = records.remove(0).fields;
        for record in &records {
            let have = record.fields.len();
            let want = names.len();
            if have != want {
                let at = have.min(want) + 1;
                let path = path.display();
                bail!(
                    "{path}: line {}, column {at}: found {have} fields instead of {want}",
                    record.line
                );
            }
        }
        Ok(Self { path: path.to_owned(), names, records })
    }

    /// The place of a column, by its name.
    pub(crate) fn column(&self, name: &str) -> anyhow::Result<usize> {
        let found = self.names.iter().position(|other| other == name);
        found.ok_or_else(|| {
            let path = self.path.display();
            let all = self.names.join(", ");
            super::usage(format!("{path}: line 1: unknown column '{name}': use {all}"))
        })
    }

    /// Keeps the records whose column has this text.
    pub(crate) fn keep(&mut self, condition: &str) -> anyhow::Result<()> {
        let Some((name, wanted)) = condition.split_once('=') else {
            return Err(super::usage(format!("invalid condition '{condition}': use COLUMN=TEXT")));
        };
        let column = self.column(name)?;
        self.records.retain(|record| record.fields[column] == wanted);
        Ok(())
    }

    /// The texts of a column.
    pub(crate) fn texts(&self, name: &str) -> anyhow::Result<Vec<&str>> {
        let column = self.column(name)?;
        Ok(self.records.iter().map(|record| record.fields[column].as_str()).collect())
    }

    /// The numbers of a column.
    pub(crate) fn numbers(&self, name: &str) -> anyhow::Result<Vec<f64>> {
        let column = self.column(name)?;
        let number = |record: &Record| {
            let text = record.fields[column].trim();
            text.parse().ok().filter(|number: &f64| number.is_finite()).with_context(|| {
                let path = self.path.display();
                let line = record.line;
                format!(
                    "{path}: line {line}, column {} ({name}): invalid number '{text}'",
                    column + 1
                )
            })
        };
        self.records.iter().map(number).collect()
    }
}

/// Cuts a text into records. Quotes may hold commas, line ends, and quotes written twice.
fn records(text: &str, path: &Path) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut line = 1;
    let mut begun = 1;
    let mut quoted = None;
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, quoted) {
            ('"', Some(_)) if characters.next_if_eq(&'"').is_some() => field.push('"'),
            ('"', Some(_)) => quoted = None,
            ('"', None) if field.is_empty() => quoted = Some((line, fields.len() + 1)),
            (',', None) => fields.push(std::mem::take(&mut field)),
            ('\r', None) if characters.peek() == Some(&'\n') => {}
            ('\n', None) => {
                if !(fields.is_empty() && field.is_empty()) {
                    fields.push(std::mem::take(&mut field));
                    records.push(Record { line: begun, fields: std::mem::take(&mut fields) });
                }
                begun = line + 1;
            }
            (other, _) => field.push(other),
        }
        line += usize::from(character == '\n');
    }
    if let Some((line, column)) = quoted {
        bail!("{}: line {line}, column {column}: this quote never ends", path.display());
    }
    if !(fields.is_empty() && field.is_empty()) {
        fields.push(field);
        records.push(Record { line: begun, fields });
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_commas_line_ends_and_quotes() {
        let found = records("a,b\r\n\"1,\n\"\"2\",3\n\n4,5", Path::new("x.csv")).unwrap();
        let fields: Vec<_> = found.iter().map(|record| (record.line, &record.fields)).collect();
        assert_eq!(fields[1], (2, &vec!["1,\n\"2".to_owned(), "3".to_owned()]));
        assert_eq!(fields[2], (5, &vec!["4".to_owned(), "5".to_owned()]));
    }
}
