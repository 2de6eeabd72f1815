//! Words, texts and marks of Rust source, without comments and without what only tests compile.

/// What a source is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word(String),
    /// What a literal string says, its escapes as they are written.
    Text(String),
    /// `::`, or one character of any other mark, number or literal.
    Mark(char),
}

/// `::` as a mark.
pub(crate) const PATH: char = '∷';

/// A piece of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Its line, from 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }
}

/// The tokens of a source that are no test's, and the modules of their own files that are.
pub(crate) fn program(text: &str) -> (Vec<Token>, Vec<String>) {
    let all = tokens(text);
    let mut program = Vec::new();
    let mut modules = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let Some(mut end) = test_attribute(&all[at..]).map(|length| at + length) else {
            program.push(all[at].clone());
            at += 1;
            continue;
        };
        while all.get(end).is_some_and(|token| token.is('#')) {
            end += 1 + group(&all[end + 1..]);
        }
        let item = &all[end..end + item(&all[end..])];
        let name = item.iter().position(|token| token.is_word("mod"));
        if let [_, name, semicolon] = &item[name.unwrap_or(item.len())..]
            && semicolon.is(';')
        {
            modules.extend(name.word().map(str::to_owned));
        }
        at = end + item.len();
    }
    (program, modules)
}

/// How many tokens `#[cfg(test)]` takes, if that is next.
fn test_attribute(tokens: &[Token]) -> Option<usize> {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is = |(token, text): (&Token, &&str)| match &token.kind {
        Kind::Word(word) => word == text,
        Kind::Mark(mark) => text.chars().eq([*mark]),
        Kind::Text(_) => false,
    };
    let begins = tokens.len() >= ATTRIBUTE.len() && tokens.iter().zip(&ATTRIBUTE).all(is);
    begins.then_some(ATTRIBUTE.len())
}

/// How many tokens an item takes: to its `;` or the end of its braces.
fn item(tokens: &[Token]) -> usize {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::Mark(';') => return at + 1,
            Kind::Mark('{') => return at + group(&tokens[at..]),
            Kind::Mark('(' | '[') => at += group(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

/// How many tokens a group in brackets takes.
pub(crate) fn group(tokens: &[Token]) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Mark('(' | '[' | '{') => depth += 1,
            Kind::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Takes what comes before `end`, and `end` too.
    fn take_to(&mut self, end: &str) -> &'a str {
        let before = self.rest.find(end).unwrap_or(self.rest.len());
        let taken = self.take(before);
        self.take(end.len().min(self.rest.len()));
        taken
    }

    /// Takes a comment that may hold comments.
    fn take_comment(&mut self) {
        let mut depth = 0;
        while !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
            } else {
                self.take_one();
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn take_one(&mut self) -> char {
        let first = self.rest.chars().next().unwrap_or('\0');
        self.take(first.len_utf8().min(self.rest.len()));
        first
    }

    /// Takes what a string says, up to its closing quote; the opening one has been taken.
    fn take_string(&mut self) -> &'a str {
        let mut escaped = false;
        let ends = |(_, c): &(usize, char)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        };
        let end = self.rest.char_indices().find(ends).map_or(self.rest.len(), |(at, _)| at);
        let text = self.take(end);
        self.take(1.min(self.rest.len()));
        text
    }

    /// Takes a raw string with its hashes, if that is next.
    fn take_raw(&mut self) -> Option<&'a str> {
        let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
        let is_raw = self.rest[hashes..].starts_with('"');
        is_raw.then(|| {
            self.take(hashes + 1);
            self.take_to(&format!("\"{}", "#".repeat(hashes)))
        })
    }

    /// After a quote: takes a character's literal. A lifetime stays.
    fn take_char(&mut self) {
        let mut chars = self.rest.chars();
        match (chars.next(), chars.next()) {
            (Some('\\'), Some(escaped)) => {
                self.take(1 + escaped.len_utf8());
                self.take_to("'");
            }
            (Some(first), Some('\'')) => {
                self.take(first.len_utf8() + 1);
            }
            _ => {}
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut reader = Reader { rest: text, line: 1 };
    let mut tokens = Vec::new();
    while let Some(first) = reader.rest.chars().next() {
        let line = reader.line;
        let mut push = |kind| tokens.push(Token { line, kind });
        if reader.rest.starts_with("//") {
            reader.take_to("\n");
        } else if reader.rest.starts_with("/*") {
            reader.take_comment();
        } else if reader.rest.starts_with("::") {
            reader.take(2);
            push(Kind::Mark(PATH));
        } else if first.is_alphabetic() || first == '_' {
            let end = reader.rest.find(|c| !in_word(c)).unwrap_or(reader.rest.len());
            let word = reader.take(end);
            match word {
                "r" | "br" | "cr" => match reader.take_raw() {
                    Some(text) => push(Kind::Text(text.to_owned())),
                    // `r#name` is the name.
                    None if reader.rest.starts_with('#') => {
                        reader.take(1);
                    }
                    None => push(Kind::Word(word.to_owned())),
                },
                "b" | "c" if reader.rest.starts_with(['"', '\'']) => {}
                _ => push(Kind::Word(word.to_owned())),
            }
        } else if first.is_ascii_digit() {
            let end = reader.rest.find(|c| !in_word(c)).unwrap_or(reader.rest.len());
            reader.take(end);
            push(Kind::Mark('0'));
        } else {
            match reader.take_one() {
                '"' => push(Kind::Text(reader.take_string().to_owned())),
                '\'' => reader.take_char(),
                c if c.is_whitespace() => {}
                mark => push(Kind::Mark(mark)),
            }
        }
    }
    tokens
}
