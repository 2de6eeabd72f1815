//! How large the workspace is: lines, public items, tests, words of documents, commands and options.
//!
//! A line is a comment if it begins with `//` or lies in `/* */`. What belongs to tests and benchmarks is counted
//! apart: folders `tests`, `benches` and `examples`, files `tests.rs`, items under `cfg(test)` or `cfg(doctest)`, and the
//! files of modules that are such items.

use crate::steps;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders with Rust that others build on or that builds the rest; `fuzz` and `examples` are input of tests.
const COUNTED: [&str; 3] = ["crates", "python", "xtask"];
/// Libraries whose public items have a limit together.
const LIMITED: [&str; 4] = ["model", "stats", "timeline", "trace"];

#[derive(Debug, Default, PartialEq, Eq)]
struct Size {
    rust: usize,
    /// Lines of code that are not tests.
    code: usize,
    /// Lines of comments outside tests.
    comments: usize,
    public: usize,
    tests: usize,
}

impl AddAssign<&Self> for Size {
    fn add_assign(&mut self, other: &Self) {
        self.rust += other.rust;
        self.code += other.code;
        self.comments += other.comments;
        self.public += other.public;
        self.tests += other.tests;
    }
}

/// Prints all counts. Commands are those of the debug build.
pub(crate) fn run(files: &[PathBuf]) -> Result<()> {
    let is_rust = |path: &&PathBuf| path.extension().is_some_and(|end| end == "rs");
    let is_counted = |path: &&PathBuf| COUNTED.iter().any(|counted| path.starts_with(counted));
    let mut packages: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for path in files.iter().filter(|path| path.exists()).filter(is_rust).filter(is_counted) {
        let text = fs::read_to_string(path).context(format!("{}", path.display()))?;
        let source = Source { path: path.clone(), text };
        packages.entry(package(path)).or_default().push(source);
    }
    let sized = |(name, sources): (String, Vec<Source>)| (name, size(&sources));
    let crates: BTreeMap<String, Size> = packages.into_iter().map(sized).collect();
    let mut table = format!(
        "{:<20}{:>9}{:>9}{:>10}{:>9}{:>8}\n",
        "", "rust", "code", "comments", "public", "tests"
    );
    let mut sum = Size::default();
    let mut limited = 0;
    for (name, size) in &crates {
        row(&mut table, name, size);
        sum += size;
        if LIMITED.iter().any(|noun| name.strip_prefix("schedlab-") == Some(noun)) {
            limited += size.public;
        }
    }
    row(&mut table, "all", &sum);
    let _ = writeln!(table, "\npublic items of {}: {limited}", LIMITED.join(", "));
    let _ = writeln!(table, "words of documents without the changelog: {}", words(files)?);
    let _ = write!(table, "{}", commands()?);
    steps::say(&table);
    Ok(())
}

fn row(table: &mut String, name: &str, size: &Size) {
    let Size { rust, code, comments, public, tests } = size;
    let _ = writeln!(table, "{name:<20}{rust:>9}{code:>9}{comments:>10}{public:>9}{tests:>8}");
}

/// A file of Rust.
struct Source {
    path: PathBuf,
    text: String,
}

/// The folder of `crates` in which a file lies, or the folder at the top.
fn package(path: &Path) -> String {
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    let folder = parts.next().unwrap_or_default();
    if folder == "crates" { parts.next().unwrap_or_default() } else { folder }.into_owned()
}

/// The size of one package.
fn size(sources: &[Source]) -> Size {
    let of_tests: BTreeSet<PathBuf> = sources.iter().flat_map(test_modules).collect();
    let is_test = |path: &Path| {
        path.ends_with("tests.rs")
            || path.iter().any(|part| part == "tests" || part == "benches" || part == "examples")
            || of_tests.contains(path)
            || path.ancestors().any(|folder| of_tests.contains(&folder.with_extension("rs")))
    };
    let declared = |start: &'static str| {
        let lines = sources.iter().flat_map(|source| source.text.lines());
        lines.filter_map(move |line| words_of(line.trim_start().strip_prefix(start)?).next())
    };
    let public: BTreeSet<&str> = declared("pub trait ").collect();
    let private = declared("pub(crate) trait ").filter(|name| !public.contains(name)).collect();
    let mut size = Size::default();
    for Source { path, text } in sources {
        size.rust += text.lines().count();
        size.tests += text.lines().filter(|line| line.trim() == "#[test]").count();
        if !is_test(path) {
            let lines = shipped(text);
            count_lines(&lines, &mut size);
            size.public += public_items(&lines, &private);
        }
    }
    size
}

fn count_lines(lines: &[&str], size: &mut Size) {
    let mut in_comment = false;
    for line in lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        in_comment |= line.starts_with("/*");
        match in_comment || line.starts_with("//") {
            true => size.comments += 1,
            false => size.code += 1,
        }
        in_comment &= !line.contains("*/");
    }
}

/// Whether what follows this line is compiled for tests only.
fn is_for_tests(line: &str) -> bool {
    let line = line.trim_start();
    ["#[cfg(test)]", "#[cfg(all(test,", "#[cfg(doctest)]"].iter().any(|cfg| line.starts_with(cfg))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The lines without items that are compiled for tests only. As rustfmt writes it, an item of several lines ends with a
/// bracket as far to the left as its first line.
fn shipped(text: &str) -> Vec<&str> {
    let mut shipped = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !is_for_tests(line) {
            shipped.push(line);
            continue;
        }
        let indent = indent_of(line);
        let ends = |line: &str| {
            let item = line.trim();
            let is_whole = !item.starts_with("#[") && item.ends_with([';', ',', '}']);
            indent_of(line) == indent && !item.is_empty() && is_whole
        };
        lines.find(|line| ends(line));
    }
    shipped
}

/// The files of modules that are compiled for tests only.
fn test_modules(source: &Source) -> Vec<PathBuf> {
    let stem = source.path.file_stem().unwrap_or_default();
    let parent = source.path.parent().unwrap_or(Path::new(""));
    let is_root = ["lib", "main", "mod"].iter().any(|root| stem == *root);
    let folder = if is_root { parent.to_owned() } else { parent.join(stem) };
    let lines: Vec<&str> = source.text.lines().collect();
    let marked = lines.iter().enumerate().filter(|(_, line)| is_for_tests(line));
    let module = |(at, _): (usize, &&str)| {
        let item = lines[at + 1..].iter().find(|line| !line.trim_start().starts_with("#["))?;
        let (_, name) = item.split_once("mod ")?;
        Some(folder.join(name.strip_suffix(';')?).with_extension("rs"))
    };
    marked.filter_map(module).collect()
}

/// Items that say `pub`, variants of public enums with their fields, items of public traits, and implementations of
/// traits that are written out. Re-exports, what a derive or a macro makes, and implementations for a type or of a trait
/// that the file itself keeps private do not count, nor do those of traits that are `private` to the package.
fn public_items(lines: &[&str], private: &BTreeSet<&str>) -> usize {
    let mut count = 0;
    let own = lines.iter().filter_map(|line| private_name(line));
    let private: BTreeSet<&str> = own.chain(private.iter().copied()).collect();
    // The indent of a public enum or trait that is open, and whether it is an enum.
    let mut open: Option<(usize, bool)> = None;
    for line in lines {
        let item = line.trim_start();
        let indent = indent_of(line);
        let says_pub = item.starts_with("pub ") && !item.starts_with("pub use ");
        let implements = item.starts_with("impl")
            && item.contains(" for ")
            && !words_of(item).any(|word| word.starts_with('$') || private.contains(word));
        let inside = open.is_some_and(|(at, is_enum)| match is_enum {
            true if indent == at + 4 => item.starts_with(char::is_uppercase),
            true => indent == at + 8 && item.starts_with(char::is_lowercase) && item.contains(':'),
            false => {
                indent == at + 4
                    && ["fn ", "type ", "const "].iter().any(|word| item.starts_with(word))
            }
        });
        count += usize::from(says_pub || implements || inside);
        if item == "}" && open.is_some_and(|(at, _)| at == indent) {
            open = None;
        }
        let opens = |word: &str| item.starts_with(word) && item.ends_with('{');
        if opens("pub enum ") || opens("pub trait ") {
            open = Some((indent, opens("pub enum ")));
        }
    }
    count
}

/// What a line declares for its own crate only: a structure, an enum or a trait.
fn private_name(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let item =
        item.strip_prefix("pub(").map_or(item, |rest| rest.split_once(") ").map_or("", |r| r.1));
    let kinds = ["struct ", "enum ", "trait "];
    let rest = kinds.iter().find_map(|kind| item.strip_prefix(kind))?;
    words_of(rest).next()
}

/// The names in a line of code.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    line.split(move |c| !is_name(c)).filter(|word| !word.is_empty())
}

fn words(files: &[PathBuf]) -> Result<usize> {
    let mut count = 0;
    for path in crate::prose::documents(files).filter(|path| !path.ends_with("CHANGELOG.md")) {
        let text = fs::read_to_string(path).context(format!("{}", path.display()))?;
        count += text.split_whitespace().count();
    }
    Ok(count)
}

/// The commands and options of the built program, by its man pages: one page for each command.
fn commands() -> Result<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let program = target.join("debug/schedlab");
    if !program.is_file() {
        return Ok(format!("MISSING: {}: commands were not counted", program.display()));
    }
    let pages = target.join("sizes");
    if pages.exists() {
        fs::remove_dir_all(&pages).context("target/sizes")?;
    }
    let mut command = Command::new(program);
    steps::run(command.args(["shell", "man", "--output"]).arg(&pages))?;
    let mut first = 0;
    let mut all = 0;
    let mut options = Vec::new();
    for entry in fs::read_dir(&pages).context("target/sizes")? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // The page of the whole repeats the others.
        if name != "schedlab" {
            all += 1;
            first += usize::from(name.matches('-').count() == 1);
            options.extend(long_options(&fs::read_to_string(&path)?));
        }
    }
    let places = options.len();
    options.sort();
    options.dedup();
    Ok(format!(
        "commands: {first}, with their subcommands {all}; options: {} names in {places} places",
        options.len()
    ))
}

/// The long options that a man page describes.
fn long_options(page: &str) -> Vec<String> {
    let described = page.lines().zip(page.lines().skip(1)).filter(|(before, _)| *before == ".TP");
    let names = described.filter_map(|(_, line)| {
        let (_, name) = line.split_once("\\-\\-")?;
        let end = name.find("\\f")?;
        Some(name[..end].replace('\\', ""))
    });
    names.filter(|name| name != "help" && name != "version").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_comments_and_blank_lines_are_no_code() {
        let body = "//! Doc.\n\n/* long\n */\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() {}\n}\n";
        let size_of = |path: &str| size(&[Source { path: path.into(), text: body.to_owned() }]);
        assert_eq!(
            size_of("crates/a/src/b.rs"),
            Size { rust: 11, code: 1, comments: 3, public: 0, tests: 1 }
        );
        for path in ["crates/a/tests/b.rs", "crates/a/examples/b.rs"] {
            assert_eq!(size_of(path).code, 0, "{path}");
        }
    }

    #[test]
    fn what_only_tests_include_is_no_code() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.to_owned() };
        let root = "#[cfg(all(test, loom))]\nmod loom;\n#[cfg(test)]\n#[expect(dead_code)]\npub(crate) mod fake;\n\
                    #[cfg(any(test, loom))]\nmod real;\n";
        let item = "struct A {\n    #[cfg(test)]\n    b: u8,\n    c: u8,\n}\n#[cfg(test)]\nimpl A {\n    fn b(\n        \
                    &self,\n    ) -> u8 {\n        1\n    }\n}\n#[cfg(doctest)]\npub struct Readme;\nfn d() {}\n";
        let all = [
            source("crates/a/src/lib.rs", root),
            source("crates/a/src/loom.rs", "fn a() {}\n"),
            source("crates/a/src/fake.rs", "mod part;\npub fn a() {}\n"),
            source("crates/a/src/fake/part.rs", "fn a() {}\n"),
            source("crates/a/src/real.rs", item),
        ];
        let Size { rust, code, public, .. } = size(&all);
        // Two lines of the root, and struct A with c and its end, and d.
        assert_eq!((rust, code, public), (7 + 1 + 2 + 1 + 16, 2 + 4, 0));
    }

    #[test]
    fn a_private_trait_of_another_file_makes_no_public_item() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.to_owned() };
        let all = [
            source("crates/a/src/b.rs", "pub(crate) trait Totals {}\npub(crate) trait Both {}\n"),
            source(
                "crates/a/src/c.rs",
                "pub trait Both {}\nimpl Totals for A {}\nimpl Both for A {}\n",
            ),
        ];
        assert_eq!(size(&all).public, 2);
    }

    #[test]
    fn what_others_can_name_is_public() {
        let text = "pub use a::B;\npub struct C {\n    pub d: u8,\n    e: u8,\n}\npub enum F {\n    G,\n    H {\n        \
                    i: u8,\n    },\n}\npub trait J {\n    fn k();\n}\nimpl J for C {\n    fn k() {}\n}\npub(crate) fn l() {}\n";
        // C, d, F, G, H, i, J, k, and J for C.
        assert_eq!(public_items(&text.lines().collect::<Vec<_>>(), &BTreeSet::new()), 9);
        let private = "pub struct A;\npub(crate) struct B<T>(T);\ntrait C {}\nimpl Drop for A {}\nimpl<T> Drop for \
                       B<T> {}\nimpl C for A {}\nimpl Eq for $name<'_> {}\n";
        // A, and Drop for A.
        assert_eq!(public_items(&private.lines().collect::<Vec<_>>(), &BTreeSet::new()), 2);
    }

    #[test]
    fn options_are_read_from_a_man_page() {
        let page = ".TP\n\\fB\\-O\\fR, \\fB\\-\\-option\\fR \\fI<KEY=VALUE>\\fR\nas \\-\\-other\n.TP\n\\fB\\-\\-call\\-cost\\fR\n\
                    .TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n";
        assert_eq!(long_options(page), ["option", "call-cost"]);
    }
}
