//! A page of the guide as blocks, and what it means that two outputs are alike.

/// A part of a page, in its order.
pub(crate) enum Block<'p> {
    /// Lines that nobody runs.
    Text(&'p str),
    /// The content of a file: a fence with `file=NAME`.
    File { name: &'p str, lines: &'p str, all: &'p str },
    /// Commands that the page marks as not run here: `console not-run=WHY`.
    LeftOut { why: &'p str, commands: usize, all: &'p str },
    /// Commands and what they print: `console`, with `head=N` or `tail=N` only the first or last N lines of each.
    Session { opening: &'p str, shown: Shown, steps: Vec<Step<'p>> },
}

/// How much of an output a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Its first lines.
    Head(usize),
    /// Its last lines.
    Tail(usize),
}

impl Shown {
    /// The part of an output that is shown, with `...` for the rest.
    pub(crate) fn of(self, output: &str) -> String {
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        let (Self::Head(most) | Self::Tail(most)) = self;
        let rest = lines.len().saturating_sub(most);
        let part = match self {
            _ if rest == 0 => lines,
            Self::Head(_) => [&lines[..most], &["..."]].concat(),
            Self::Tail(_) => [&["..."], &lines[rest..]].concat(),
        };
        part.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A command and the lines that the page shows below it.
pub(crate) struct Step<'p> {
    /// What stands after `$ `.
    pub(crate) command: &'p str,
    /// The lines up to the next command.
    pub(crate) output: &'p str,
}

/// The parts of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = find_fence(rest) {
        found.push(Block::Text(&rest[..at]));
        let inside = &rest[at..];
        let head = inside.find('\n').map_or(inside.len(), |end| end + 1);
        let body = inside[head..].find("```\n").expect("a fence is closed");
        let end = head + body + "```\n".len();
        found.push(block(&inside[..head], &inside[head..head + body], &inside[..end]));
        rest = &inside[end..];
    }
    found.push(Block::Text(rest));
    found
}

/// Where a line begins a fence.
fn find_fence(text: &str) -> Option<usize> {
    if text.starts_with("```") { Some(0) } else { text.find("\n```").map(|at| at + 1) }
}

fn block<'p>(opening: &'p str, body: &'p str, all: &'p str) -> Block<'p> {
    let mut words = opening.trim_start_matches('`').split_whitespace();
    let language = words.next().unwrap_or_default();
    let attributes: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
    let value = |key| attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    if let Some(name) = value("file") {
        return Block::File { name, lines: body, all };
    }
    if language != "console" {
        return Block::Text(all);
    }
    let steps = steps(body);
    if let Some(why) = value("not-run") {
        return Block::LeftOut { why, commands: steps.len(), all };
    }
    let count = |key| value(key).map(|lines| lines.parse().expect("a number of lines"));
    let shown = match count("tail") {
        Some(lines) => Shown::Tail(lines),
        None => Shown::Head(count("head").unwrap_or(usize::MAX)),
    };
    Block::Session { opening, shown, steps }
}

fn steps(body: &str) -> Vec<Step<'_>> {
    let starts: Vec<usize> = body
        .match_indices("$ ")
        .map(|(at, _)| at)
        .filter(|&at| at == 0 || body[..at].ends_with('\n'))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([body.len()]);
    let step = |(start, end): (&usize, usize)| {
        let (command, output) = body[start + 2..end].split_once('\n').unwrap_or_default();
        Step { command, output }
    };
    starts.iter().zip(ends).map(step).collect()
}

/// Whether two outputs have the same structure. Lines without a number have the same words. Lines with numbers have
/// as many of them, with words in the same places. So a row of a table may name another task.
pub(crate) fn alike(page: &str, printed: &str) -> bool {
    let lines = |text: &str| text.lines().map(structure).collect::<Vec<String>>();
    lines(page) == lines(printed)
}

/// A line with one space between words; if it has numbers, `#` for each number with its unit or for a value that
/// is missing, and `w` for the words between two of them.
fn structure(line: &str) -> String {
    const UNITS: [&str; 13] =
        ["ns", "us", "µs", "ms", "s", "min", "h", "%", "B", "KiB", "MiB", "GiB", "cycles"];
    let words: Vec<&str> = line.split_whitespace().collect();
    if !line.contains(|c: char| c.is_ascii_digit()) {
        return words.join(" ");
    }
    let mut kinds: Vec<&str> = Vec::new();
    for word in words {
        let is_value = word == "-" || word.contains(|c: char| c.is_ascii_digit());
        let bare = word.trim_matches(|c: char| c != '%' && !c.is_alphanumeric());
        let is_unit = UNITS.contains(&bare) && kinds.last() == Some(&"#");
        match (is_value, is_unit, kinds.last()) {
            (true, ..) => kinds.push("#"),
            (_, true, _) | (.., Some(&"w")) => {}
            _ => kinds.push("w"),
        }
    }
    kinds.join(" ")
}

#[test]
fn numbers_names_and_columns_do_not_matter_but_words_and_lines_do() {
    assert!(alike("CPU 3   1.5 ms  -20 %\n", "CPU 12 980us +3.1%\n"));
    assert!(alike("worker  1.5 ms  -\n", "messenger  980us  2\n"), "a row may name another task");
    assert!(!alike("a  1 ms\n", "a  1 ms  2 ms\n"), "a column more");
    assert!(!alike("no runs\n", "no results\n"), "other words");
    assert!(!alike("one\n", "one\ntwo\n"), "a line more");
}

#[test]
fn a_page_is_the_sum_of_its_blocks() {
    let page = "# A\n\n```toml file=x.toml\nname = \"x\"\n```\ntext\n```console head=1\n$ a\n1\n...\n$ b\n```\n\
                ```console not-run=root\n$ c\n$ d\n```\nend\n";
    let found = blocks(page);
    let mut sessions = 0;
    for block in &found {
        match block {
            Block::File { name, lines, .. } => {
                assert_eq!((*name, *lines), ("x.toml", "name = \"x\"\n"));
            }
            Block::LeftOut { why, commands, .. } => assert_eq!((*why, *commands), ("root", 2)),
            Block::Session { shown, steps, .. } => {
                sessions += 1;
                assert_eq!((*shown, steps.len()), (Shown::Head(1), 2));
                assert_eq!(shown.of("1\n2\n3\n"), "1\n...\n");
                assert_eq!(Shown::Tail(1).of("1\n2\n3\n"), "...\n3\n");
                assert_eq!((steps[0].command, steps[0].output), ("a", "1\n...\n"));
                assert_eq!((steps[1].command, steps[1].output), ("b", ""));
            }
            Block::Text(_) => {}
        }
    }
    assert_eq!(sessions, 1);
}
