//! The standard streams. All text that the command prints passes here, so that no name, path or label can act on
//! the terminal: control characters are escaped on the way (`schedlab_model::visible`). Lines and tabs stay.
//!
//! A test keeps others from the streams themselves.

use schedlab_model::visible_but;
use std::fmt;
use std::io::{self, IsTerminal as _, Write};

/// The standard output, for results.
pub(crate) fn stdout() -> Plain<io::Stdout> {
    Plain { to: io::stdout(), begun: Vec::new() }
}

/// The standard error, for progress and notes.
pub(crate) fn stderr() -> Plain<io::Stderr> {
    Plain { to: io::stderr(), begun: Vec::new() }
}

/// The standard output as a screen, for what draws cells: it takes no control character into a cell.
pub(crate) fn screen() -> io::Stdout {
    io::stdout()
}

/// Characters of a line where the standard output is no terminal.
const ROOM: usize = 100;

/// Characters of a line of the terminal that shows the standard output.
pub(crate) fn room() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(ROOM, |(width, _)| width.0.into())
}

/// The same, or no limit if all columns are to be printed.
pub(crate) fn room_if(wide: bool) -> usize {
    if wide { usize::MAX } else { room() }
}

/// How many characters a line of a command's tables has.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Width {
    /// Print all columns, however long the lines become
    #[arg(long)]
    wide: bool,
}

impl Width {
    /// Characters of a line.
    pub(crate) fn room(self) -> usize {
        room_if(self.wide)
    }
}

/// A text in lines of at most `room` characters, as far as its words allow: `first` begins it, `rest` each later line.
pub(crate) fn wrapped(first: &str, rest: &str, text: &str, room: usize) -> String {
    let mut lines = first.to_owned();
    let mut length = first.chars().count();
    for (place, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if place > 0 && length + 1 + width > room {
            lines.push('\n');
            lines += rest;
            length = rest.chars().count();
        } else if place > 0 {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += width;
    }
    lines
}

/// A table whose last column, by its head, is a text of any length: what does not fit goes on below, in that column.
pub(crate) fn folded_table(table: &str, last: &str, room: usize) -> String {
    let before = table.lines().find_map(|line| line.strip_suffix(last));
    match before.map(|before| before.chars().count()) {
        Some(indent) if indent < room => folded(table, indent, room),
        _ => table.to_owned(),
    }
}

/// A text whose lines have at most `room` characters. What does not fit goes on below, `indent` characters from the left.
/// Lines are broken between words or frames of a stack, and a word that is longer than a line where the line ends.
pub(crate) fn folded(text: &str, indent: usize, room: usize) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > room {
            // A number and its `%` stay together.
            let ends_word = |at: &usize| match rest[*at..] {
                [' ', next, ..] => next != '%',
                ['<', '-', ..] => true,
                _ => false,
            };
            let end = (indent + 1..=room).rev().find(ends_word).unwrap_or(room.max(indent + 1));
            let more = rest.split_off(end);
            lines.extend(rest);
            let more = more.into_iter().skip_while(|letter| *letter == ' ');
            rest = std::iter::repeat_n(' ', indent).chain(more).collect();
            lines.push('\n');
        }
        lines.extend(rest);
        lines.push('\n');
    }
    lines
}

/// Whether the standard error is a terminal.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// A stream on which control characters are escaped, except for line ends and tabs.
#[derive(Debug)]
pub(crate) struct Plain<W: Write> {
    to: W,
    /// The first bytes of a character whose last ones have not come yet.
    begun: Vec<u8>,
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let joined;
        let all = if self.begun.is_empty() {
            bytes
        } else {
            joined = [&self.begun[..], bytes].concat();
            &joined
        };
        let whole = whole_characters(all);
        let text = String::from_utf8_lossy(&all[..whole]);
        self.to.write_all(visible_but(&text, &['\n', '\t']).as_bytes())?;
        self.begun = all[whole..].to_vec();
        Ok(bytes.len())
    }

    /// Writes all of it at once, so that nothing of another thread comes between.
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.write_all(text.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The length of the longest beginning that does not end within a character.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        // No length: the bytes end within a character.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        // The end of what is damaged further in.
        Err(error) => {
            let after = error.valid_up_to() + error.error_len().unwrap_or(1);
            after + whole_characters(&bytes[after..])
        }
        Ok(text) => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&[u8]]) -> String {
        let mut plain = Plain { to: Vec::new(), begun: Vec::new() };
        parts.iter().for_each(|part| plain.write_all(part).unwrap());
        String::from_utf8(plain.to).unwrap()
    }

    #[test]
    fn control_characters_are_escaped_wherever_a_write_is_cut() {
        let bytes = "x\u{1b}[31m\té\u{9b}1m\u{202e}\n".as_bytes();
        for cut in 0..=bytes.len() {
            let shown = written(&[&bytes[..cut], &bytes[cut..]]);
            assert_eq!(shown, "x\\u001b[31m\té\\u009b1m\\u202e\n", "cut at {cut}");
        }
    }

    /// The Rust files under `folder`.
    fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let found = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
        found.collect()
    }

    #[test]
    fn nobody_else_takes_the_streams() {
        let all = files(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
        assert!(all.len() > 50, "{} files", all.len());
        for file in all.iter().filter(|file| !file.ends_with("src/output.rs")) {
            let text = std::fs::read_to_string(file).unwrap();
            for stream in ["io::stdout()", "io::stderr()"] {
                assert!(!text.contains(stream), "{}: use crate::output", file.display());
            }
        }
    }

    #[test]
    fn a_long_line_goes_on_below_its_last_column() {
        let table = "time  what\n1 ms  blocked in a<-bc<-def\n";
        let narrow = "time  what\n1 ms  blocked\n      in a<-bc\n      <-def\n";
        assert_eq!(folded_table(table, "what", 15), narrow);
        assert_eq!(folded_table(table, "what", 80), table);
        assert_eq!(folded_table(table, "what", usize::MAX), table);
        assert_eq!(folded_table(table, "where", 15), table);
        let table = "what  about\na     a text that needs two lines of the table\nb     short\n";
        let expected =
            "what  about\na     a text that needs two lines of\n      the table\nb     short\n";
        assert_eq!(folded_table(table, "about", 36), expected);
        assert_eq!(folded_table(table, "about", usize::MAX).lines().count(), 3);
        assert_eq!(folded("a abcdefgh i\n", 2, 6), "a abcd\n  efgh\n  i\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(written(&[b"a\x9b\xffb"]), "a\u{fffd}\u{fffd}b");
    }
}
