//! What a pure crate may name, and how it is found in the tokens of a source.

use crate::tokens::{Kind, PATH, Token, group};
use std::path::{Component, Path, PathBuf};

/// The standard library's own crates.
const STANDARD: [&str; 3] = ["std", "core", "alloc"];

/// Modules of the standard library that only compute.
const WHOLE: [&str; 22] = [
    "array", "borrow", "boxed", "cell", "char", "cmp", "convert", "error", "f32", "f64", "fmt",
    "iter", "marker", "mem", "num", "ops", "option", "rc", "slice", "str", "string", "vec",
];

/// Modules of which a part only computes: that part, and the names that no path may have behind the module's.
const PARTS: [(&str, &[&str], &[&str]); 6] = [
    (
        "collections",
        &["BTreeMap", "BTreeSet", "BinaryHeap", "VecDeque", "btree_map", "btree_set"],
        &["HashMap", "HashSet", "hash_map", "hash_set"],
    ),
    ("hash", &["Hash", "Hasher"], &["BuildHasherDefault", "DefaultHasher", "RandomState"]),
    (
        "io",
        &[
            "BufRead",
            "BufReader",
            "BufWriter",
            "Cursor",
            "Error",
            "ErrorKind",
            "Read",
            "Result",
            "Seek",
            "Write",
        ],
        &[
            "IsTerminal",
            "PipeReader",
            "PipeWriter",
            "Stderr",
            "Stdin",
            "Stdout",
            "pipe",
            "stderr",
            "stdin",
            "stdout",
        ],
    ),
    ("path", &["Path", "PathBuf"], &[]),
    (
        "sync",
        &[
            "Arc",
            "LazyLock",
            "Mutex",
            "MutexGuard",
            "OnceLock",
            "PoisonError",
            "RwLock",
            "Weak",
            "atomic",
        ],
        &["Barrier", "Condvar", "mpmc", "mpsc"],
    ),
    ("time", &["Duration"], &["Instant", "SystemTime", "UNIX_EPOCH"]),
];

/// Questions about a path that go to the file system.
const OF_FILES: [&str; 10] = [
    "canonicalize",
    "exists",
    "is_dir",
    "is_file",
    "is_symlink",
    "metadata",
    "read_dir",
    "read_link",
    "symlink_metadata",
    "try_exists",
];

/// Ways out of other crates, by the last two names of a path: `schedlab-jobs` has the threads and the clocks of its
/// pool, tiny-skia reads and writes pictures.
const OF_OTHERS: [(&str, &[&str]); 8] = [
    ("schedlab_jobs", &["adaptors", "deque", "fault", "pool", "sync", "token", "*"]),
    ("proof", &["calibrate"]),
    ("Clock", &["start"]),
    ("Burner", &["calibrate", "calibrate_at"]),
    ("Pixmap", &["load_png", "save_png"]),
    ("PixmapRef", &["save_png"]),
    ("Path", &OF_FILES),
    ("PathBuf", &OF_FILES),
];

/// Macros that print, read the environment of a build, or leave Rust.
const MACROS: [&str; 10] = [
    "asm",
    "dbg",
    "eprint",
    "eprintln",
    "global_asm",
    "include",
    "naked_asm",
    "option_env",
    "print",
    "println",
];

/// What an attribute may not say: source from elsewhere, other libraries, lints that are lifted.
const ATTRIBUTES: [&str; 4] =
    ["disallowed_methods", "disallowed_types", "disallowed_macros", "link"];

type Found = Vec<(usize, String)>;

/// A name that a `use` declaration brings in.
struct Import {
    path: Vec<String>,
    alias: Option<String>,
}

/// What `use` declarations bring in and may not.
pub(super) fn imports(program: &[Token]) -> Found {
    let mut found = Found::new();
    for (from, to) in declarations(program) {
        let mut imports = Vec::new();
        leaves(&program[from + 1..to], &[], &mut imports);
        for Import { path, alias } in imports {
            let line = program[from].line;
            found.extend(outside(&path, true).map(|what| (line, what)));
            let last = path.last().map_or("", String::as_str);
            let watched = STANDARD.contains(&last) || PARTS.iter().any(|(name, ..)| *name == last);
            let watched = watched || OF_OTHERS.iter().any(|(name, _)| *name == last);
            if let Some(alias) = alias.filter(|_| watched) {
                found.push((line, format!("{} as {alias}: it keeps its name", path.join("::"))));
            }
        }
    }
    found
}

/// What paths outside of `use` declarations name and may not.
pub(super) fn paths(program: &[Token]) -> Found {
    let mut found = Found::new();
    let declared = declarations(program);
    let mut at = 0;
    while at < program.len() {
        if let Some((_, to)) = declared.iter().find(|(from, _)| *from == at) {
            at = *to;
            continue;
        }
        let Some(first) = program[at].word() else {
            at += 1;
            continue;
        };
        let line = program[at].line;
        let mut path = vec![first.to_owned()];
        at += 1;
        while let [path_mark, next, ..] = &program[at..]
            && path_mark.is(PATH)
            && let Some(name) = next.word()
        {
            path.push(name.to_owned());
            at += 2;
        }
        let goes_on = program.get(at).is_some_and(|token| token.is(PATH));
        if path.len() > 1 || goes_on {
            found.extend(outside(&path, false).map(|what| (line, what)));
        }
    }
    found
}

/// Macros, questions to the file system, attributes and foreign functions.
pub(super) fn marks(program: &[Token]) -> Found {
    let mut found = Found::new();
    for (index, token) in program.iter().enumerate() {
        let next = |mark| program.get(index + 1).is_some_and(|token| token.is(mark));
        let before = |mark| index > 0 && program[index - 1].is(mark);
        let mut refuse = |what: String| found.push((token.line, what));
        match token.word() {
            Some("extern") => refuse("extern: a pure crate calls nothing foreign".into()),
            Some(name) if next('!') && MACROS.contains(&name) => refuse(format!("{name}!")),
            Some(name @ ("save_png" | "load_png")) => refuse(format!("{name} reaches a file")),
            Some(name) if OF_FILES.contains(&name) => {
                let has_no_arguments =
                    next('(') && program.get(index + 2).is_some_and(|t| t.is(')'));
                let is_of_type = before(PATH) && index > 1 && program[index - 2].is('>');
                if (before('.') && has_no_arguments) || is_of_type {
                    refuse(format!("{name} asks the file system"));
                }
            }
            _ if token.is('#') => {
                let inner = usize::from(next('!'));
                let Some(rest) = program.get(index + 1 + inner..) else { continue };
                if rest.first().is_some_and(|token| token.is('[')) {
                    attribute(&rest[..group(rest)]).into_iter().for_each(refuse);
                }
            }
            _ => {}
        }
    }
    found
}

fn attribute(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    for pair in tokens.windows(2) {
        match pair[0].word() {
            Some("path") if pair[1].is('=') => {
                found.push("#[path]: a module lies where it is declared".to_owned());
            }
            Some(name) if ATTRIBUTES.contains(&name) => found.push(format!("#[{name}]")),
            _ => {}
        }
    }
    found
}

/// Files of other folders that a source takes in, and variables of a build other than the crate's own.
pub(super) fn inclusions(path: &Path, program: &[Token]) -> Found {
    let mut found = Found::new();
    for tokens in program.windows(4) {
        let [name, mark, bracket, text] = tokens else { continue };
        let name = name.word().filter(|_| mark.is('!') && !bracket.is('=')).unwrap_or_default();
        let text = match &text.kind {
            Kind::Text(text) => Some(text.as_str()),
            _ => None,
        };
        let line = mark.line;
        match name {
            "env" if !text.is_some_and(|text| text.starts_with("CARGO_PKG_")) => {
                found
                    .push((line, "env!: a pure crate does not look at the environment".to_owned()));
            }
            "include_str" | "include_bytes" if !text.is_some_and(|text| is_own(path, text)) => {
                found.push((line, format!("{name}!: a file outside of the crate")));
            }
            _ => {}
        }
    }
    found
}

/// Whether a file that a source names relative to itself lies in the source's crate.
fn is_own(source: &Path, named: &str) -> bool {
    let of_crate: PathBuf = source.components().take(2).collect();
    let mut file = source.parent().unwrap_or(source).to_path_buf();
    for component in Path::new(named).components() {
        match component {
            Component::ParentDir => {
                file.pop();
            }
            Component::Normal(name) => file.push(name),
            _ => return false,
        }
    }
    file.starts_with(of_crate)
}

/// Why a path may not be named; `None` where it may.
fn outside(path: &[String], is_import: bool) -> Option<String> {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let told = || names.join("::");
    for pair in names.windows(2) {
        let of_part = PARTS.iter().any(|(name, _, no)| *name == pair[0] && no.contains(&pair[1]));
        let of_other = OF_OTHERS.iter().any(|(name, no)| *name == pair[0] && no.contains(&pair[1]));
        if of_part || of_other {
            return Some(format!("{} leads out of a pure crate", told()));
        }
    }
    let [crate_name, rest @ ..] = names.as_slice() else { return None };
    if !STANDARD.contains(crate_name) {
        return None;
    }
    let is_pure = match rest {
        [] => false,
        [module, rest @ ..] => {
            let part = PARTS.iter().find(|(name, ..)| name == module);
            let in_part = part.is_some_and(|(_, yes, _)| match rest {
                [] => is_import,
                [name, ..] => yes.contains(name),
            });
            WHOLE.contains(module) || in_part
        }
    };
    (!is_pure)
        .then(|| format!("{} is not listed for pure crates (xtask/src/purity/rules.rs)", told()))
}

/// Where each `use` declaration begins, and its semicolon.
fn declarations(program: &[Token]) -> Vec<(usize, usize)> {
    let is_use = |index: usize| {
        // `impl Trait + use<'a>` declares nothing.
        program[index].is_word("use") && !program.get(index + 1).is_some_and(|next| next.is('<'))
    };
    let end = |from: usize| {
        let length = program[from..].iter().position(|token| token.is(';'));
        (from, length.map_or(program.len(), |length| from + length))
    };
    (0..program.len()).filter(|&index| is_use(index)).map(end).collect()
}

/// The leaves of `a::{b, c::{d as e}}`.
fn leaves(tree: &[Token], before: &[String], into: &mut Vec<Import>) {
    let mut path = before.to_vec();
    let mut alias = None;
    let mut tokens = tree.iter().enumerate();
    while let Some((index, token)) = tokens.next() {
        match &token.kind {
            Kind::Word(word) if word == "as" => {
                alias = tokens.next().and_then(|(_, token)| token.word().map(str::to_owned));
            }
            Kind::Word(word) if word == "self" && !path.is_empty() => {}
            Kind::Word(word) => path.push(word.clone()),
            Kind::Mark('*') => path.push("*".to_owned()),
            Kind::Mark('{') => {
                let inner = &tree[index + 1..index + group(&tree[index..]) - 1];
                for part in parts(inner) {
                    leaves(part, &path, into);
                }
                return;
            }
            _ => {}
        }
    }
    if path.len() > before.len() || !before.is_empty() {
        into.push(Import { path, alias });
    }
}

/// The parts of a group, between its own commas.
fn parts(group: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0i32;
    let all = group.split(|token| {
        depth += i32::from(token.is('{')) - i32::from(token.is('}'));
        token.is(',') && depth == 0
    });
    all.filter(|part| !part.is_empty()).collect()
}
