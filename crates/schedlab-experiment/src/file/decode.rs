//! Walking a TOML document by hand, so that each mistake has a line, a key and what was expected.
//!
//! Derived decoders stop at the first mistake and name types of ours; a person who edits a file wants
//! all mistakes at once, in their own words, with the nearest right key.

use super::locations::{Mistake, Part, Places};
use schedlab_model::Nanos;
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Collects mistakes while tables are walked.
pub(crate) struct Decoder<'t> {
    text: &'t str,
    pub(crate) mistakes: Vec<Mistake>,
    /// Where the parts of runs are written.
    pub(crate) places: Places,
}

/// A value with its place.
pub(crate) struct Entry<'t> {
    pub(crate) key: String,
    pub(crate) place: Range<usize>,
    pub(crate) value: DeValue<'t>,
}

/// The keys of a table that were not taken yet.
pub(crate) struct Keys<'t> {
    path: String,
    /// Where the table begins.
    pub(crate) place: Range<usize>,
    entries: BTreeMap<String, (Range<usize>, Spanned<DeValue<'t>>)>,
}

impl<'t> Decoder<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, mistakes: Vec::new(), places: Places::default() }
    }

    /// The document's root table; what is no TOML is a mistake and gives an empty table.
    pub(crate) fn root(&mut self) -> Keys<'t> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let place = error.span().unwrap_or(0..0);
            self.mistake(&place, "", error.message().trim().replace('\n', ", "));
        }
        let place = table.span();
        Keys::new(String::new(), place, table.into_inner())
    }

    pub(crate) fn mistake(&mut self, place: &Range<usize>, key: &str, what: impl Into<String>) {
        let (line, column) = self.position(place);
        self.mistakes.push(Mistake { line, column, key: key.to_owned(), what: what.into() });
    }

    /// Line and column of a place, both from 1.
    fn position(&self, place: &Range<usize>) -> (usize, usize) {
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or("").chars().count() + 1;
        (before.bytes().filter(|b| *b == b'\n').count() + 1, column)
    }

    /// Remembers where a part of runs is written, with its value if that is one of an axis.
    pub(crate) fn written(&mut self, part: Part, value: &str, place: &Range<usize>, key: &str) {
        let position = self.position(place);
        self.places.put(part, value, position, key);
    }

    fn unexpected(&mut self, entry: &Entry<'_>, expected: &str) {
        let what = format!("expected {expected}, found {}", describe(&entry.value));
        self.mistake(&entry.place, &entry.key, what);
    }

    /// A text, number or flag, as text.
    pub(crate) fn scalar(&mut self, entry: &Entry<'_>) -> Option<String> {
        let text = scalar_text(&entry.value);
        if text.is_none() {
            self.unexpected(entry, "a text, a number or true/false");
        }
        text
    }

    pub(crate) fn text(&mut self, entry: &Entry<'_>, expected: &str) -> Option<String> {
        let text = entry.value.as_str().map(str::to_owned);
        if text.is_none() {
            self.unexpected(entry, expected);
        }
        text
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(&mut self, entry: &Entry<'_>, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        let text = self.text(entry, &expected)?;
        let found = words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let hint =
                nearest(&text, &names).map_or(String::new(), |n| format!("; did you mean '{n}'?"));
            self.mistake(
                &entry.place,
                &entry.key,
                format!("expected {expected}, found '{text}'{hint}"),
            );
        }
        found
    }

    /// A whole number within a range.
    pub(crate) fn whole(&mut self, entry: &Entry<'_>, range: Range<u64>) -> Option<u64> {
        let number =
            entry.value.as_integer().and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
        let number = number.filter(|n| range.contains(n));
        if number.is_none() {
            self.unexpected(
                entry,
                &format!("a whole number from {} to {}", range.start, range.end - 1),
            );
        }
        number
    }

    /// A number, whole or not, finite.
    pub(crate) fn number(&mut self, entry: &Entry<'_>, expected: &str) -> Option<f64> {
        let number = plain_number(&entry.value);
        if number.is_none() {
            self.unexpected(entry, expected);
        }
        number
    }

    /// A duration as text with its unit.
    pub(crate) fn duration(&mut self, entry: &Entry<'_>) -> Option<Nanos> {
        let text = self.text(entry, "a duration as text, such as \"1.5ms\"")?;
        match Nanos::from_str(&text) {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.mistake(&entry.place, &entry.key, error.to_string());
                None
            }
        }
    }

    /// Takes an entry that must be a table.
    pub(crate) fn table<'e>(&mut self, entry: Entry<'e>) -> Option<Keys<'e>> {
        match entry.value {
            DeValue::Table(table) => Some(Keys::new(entry.key, entry.place, table)),
            _ => {
                self.unexpected(&entry, "a table");
                None
            }
        }
    }

    /// The items of an array.
    pub(crate) fn items<'e>(&mut self, entry: Entry<'e>, expected: &str) -> Vec<Entry<'e>> {
        match entry.value {
            DeValue::Array(array) => array
                .into_iter()
                .map(|item| Entry {
                    key: entry.key.clone(),
                    place: item.span(),
                    value: item.into_inner(),
                })
                .collect(),
            _ => {
                self.unexpected(&entry, expected);
                Vec::new()
            }
        }
    }

    /// An array of texts.
    pub(crate) fn texts(&mut self, entry: Entry<'_>, expected: &str) -> Vec<String> {
        let items = self.items(entry, expected);
        items.iter().filter_map(|item| self.text(item, expected)).collect()
    }

    /// Each of `keys` that was not taken is a mistake; `known` are the right ones.
    pub(crate) fn finish(&mut self, keys: Keys<'_>, known: &[&str]) {
        for (name, (place, _)) in keys.entries {
            let what = match nearest(&name, known) {
                Some(near) => format!("unknown key; did you mean '{near}'?"),
                None => format!("unknown key: use {}", known.join(", ")),
            };
            self.mistake(&place, &join(&keys.path, &name), what);
        }
    }
}

impl<'t> Keys<'t> {
    fn new(path: String, place: Range<usize>, table: DeTable<'t>) -> Self {
        let entries = table
            .into_iter()
            .map(|(key, value)| (key.get_ref().to_string(), (key.span(), value)))
            .collect();
        Self { path, place, entries }
    }

    /// Takes the value of a key, if it is there.
    pub(crate) fn take(&mut self, name: &str) -> Option<Entry<'t>> {
        let (_, value) = self.entries.remove(name)?;
        Some(Entry { key: join(&self.path, name), place: value.span(), value: value.into_inner() })
    }

    /// Takes all that is left, with the names of the keys.
    pub(crate) fn rest(&mut self) -> Vec<(String, Entry<'t>)> {
        let names: Vec<String> = self.entries.keys().cloned().collect();
        names.into_iter().filter_map(|name| self.take(&name).map(|entry| (name, entry))).collect()
    }

    /// The table's own name.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text \"{text}\""),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(flag) => format!("{flag}"),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "an array".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

fn scalar_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(n) if n.radix() == 10 => Some(n.as_str().to_owned()),
        DeValue::Integer(n) => {
            i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Float(n) => Some(n.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn plain_number(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Integer(n) if n.radix() == 10 => n.as_str(),
        DeValue::Float(n) => n.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|n: &f64| n.is_finite())
}

/// The known name that is nearest to what was written, if it is near enough to be meant.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = name.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|candidate| (distance(&lower, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(lower.len()) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edit distance with transpositions of neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swapped_pair_of_letters_is_one_step() {
        assert_eq!(distance("repaets", "repeats"), 1);
        assert_eq!(nearest("repaets", &["repeats", "record", "order"]), Some("repeats"));
        assert_eq!(nearest("time-limit", &["time_limit", "title"]), Some("time_limit"));
        assert_eq!(nearest("colour", &["repeats", "record"]), None);
    }

    #[test]
    fn each_changed_missing_or_further_letter_is_one_step() {
        let steps = [("abc", "abc"), ("abc", "abd"), ("abc", "ab"), ("ab", "abc"), ("", "abc")];
        assert_eq!(steps.map(|(a, b)| distance(a, b)), [0, 1, 1, 1, 3]);
        assert_eq!([distance("ca", "abc"), distance("abcd", "badc")], [3, 2]);
        // One for short words, one more for each three letters of the shorter one.
        assert_eq!(nearest("xy", &["ab"]), None);
        assert_eq!([nearest("ax", &["ab"]), nearest("AB", &["ab"])], [Some("ab"), Some("ab")]);
        assert_eq!(nearest("abxy", &["abcd"]), Some("abcd"));
        assert_eq!(nearest("axyz", &["abcd"]), None);
        assert_eq!(nearest("abd", &["abcxyz", "abc"]), Some("abc"), "the nearest of all");
    }

    /// The entry of the key `a` in this text.
    fn with<R>(
        text: &str,
        read: impl FnOnce(&mut Decoder<'_>, Entry<'_>) -> R,
    ) -> (R, Vec<String>) {
        let mut decoder = Decoder::new(text);
        let entry = decoder.root().take("a").expect("the text has it");
        let found = read(&mut decoder, entry);
        (found, decoder.mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn texts_numbers_and_flags_are_taken_as_text() {
        let scalar = |text: &str| with(text, |decoder, entry| decoder.scalar(&entry)).0;
        let texts = ["a = \"x\"", "a = 7", "a = 0x1f", "a = -1.50", "a = true"].map(scalar);
        assert_eq!(texts, ["x", "7", "31", "-1.50", "true"].map(|text| Some(text.to_owned())));
        let (none, mistakes) = with("a = [1]", |decoder, entry| decoder.scalar(&entry));
        let what = "line 1, column 5: a: expected a text, a number or true/false, found an array";
        assert_eq!((none, mistakes), (None, vec![what.to_owned()]));
    }

    #[test]
    fn numbers_are_finite_and_whole_ones_within_their_range() {
        let number = |text: &str| with(text, |decoder, entry| decoder.number(&entry, "one")).0;
        assert_eq!(
            [number("a = 7"), number("a = -0.5"), number("a = 1e3")],
            [Some(7.0), Some(-0.5), Some(1e3)]
        );
        assert_eq!([number("a = inf"), number("a = nan"), number("a = \"7\"")], [None; 3]);
        let whole = |text: &str| with(text, |decoder, entry| decoder.whole(&entry, 2..5)).0;
        let all = ["a = 1", "a = 2", "a = 4", "a = 5", "a = 0x3", "a = 3.0"].map(whole);
        assert_eq!(all, [None, Some(2), Some(4), None, Some(3), None]);
    }

    #[test]
    fn what_was_found_is_said_in_words() {
        let found = |value: &str| {
            let (_, mistakes) =
                with(&format!("a = {value}"), |decoder, entry| decoder.duration(&entry));
            mistakes[0].rsplit_once("found ").map(|(_, found)| found.to_owned()).unwrap_or_default()
        };
        let all = ["7", "1.5", "true", "1979-05-27", "[1]", "{ b = 1 }"].map(found);
        assert_eq!(
            all,
            ["the number 7", "the number 1.5", "true", "a date", "an array", "a table"]
        );
        let table = with("a = 7", |decoder, entry| decoder.table(entry).is_some());
        assert_eq!(
            table,
            (false, vec!["line 1, column 5: a: expected a table, found the number 7".to_owned()])
        );
        let texts = with("a = [\"x\", 7]", |decoder, entry| decoder.texts(entry, "words"));
        let what = "line 1, column 11: a: expected words, found the number 7";
        assert_eq!(texts, (vec!["x".to_owned()], vec![what.to_owned()]));
    }

    #[test]
    fn a_word_that_is_not_known_is_answered_by_the_nearest() {
        let words = [("grid", 1), ("random", 2)];
        let word = |text: &str| with(text, |decoder, entry| decoder.word(&entry, &words));
        assert_eq!(word("a = \"random\""), (Some(2), vec![]));
        let (none, mistakes) = word("a = \"radnom\"");
        assert_eq!(none, None);
        assert!(
            mistakes[0].ends_with("one of grid, random, found 'radnom'; did you mean 'random'?")
        );
        assert!(word("a = \"other\"").1[0].ends_with("found 'other'"));
    }

    #[test]
    fn places_are_counted_in_lines_and_letters() {
        let text = "b = \"ä\"\n\n'ü' = 1\na = [\"é\", 7]\n";
        let (_, mistakes) = with(text, |decoder, entry| decoder.texts(entry, "words"));
        assert!(mistakes[0].starts_with("line 4, column 11: a: "), "{mistakes:?}");
    }
}
