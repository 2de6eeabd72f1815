//! Circles of modules inside a crate: modules of one parent that need each other.
//!
//! A path in a file (`use crate::a::B`, `super::b::C`) is followed to the module that defines the name, through
//! re-exports. Then each module is a node together with all that is below it, and the modules of one parent must
//! have an order. A parent and its own children may need each other: they are one subject.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The names that lead to a module from the crate's root.
type Module = Vec<String>;

/// Each path in the code, with its line; the first name is `crate`, `super`, `self` or a child's.
type Uses = Vec<(usize, Vec<String>)>;

/// What stands in `use` declarations: the name that it gets here, and its path.
type Imports = BTreeMap<String, Vec<String>>;

struct Source {
    path: PathBuf,
    uses: Uses,
    imports: Imports,
}

/// Every circle of every crate, with a place for each step.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut crates: Vec<PathBuf> =
        std::fs::read_dir("crates").context("crates/")?.flatten().map(|e| e.path()).collect();
    crates.push("xtask".into());
    crates.sort();
    for folder in crates {
        let mut sources = BTreeMap::new();
        read(&folder.join("src"), &Module::new(), &mut sources)?;
        found.extend(circles(&folder.display().to_string(), &sources));
    }
    Ok(found)
}

fn read(folder: &Path, at: &Module, sources: &mut BTreeMap<Module, Source>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).context(format!("{}", folder.display()))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let below = |name: &str| at.iter().cloned().chain([name.to_owned()]).collect::<Module>();
        if path.is_dir() {
            read(&path, &below(&stem), sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && stem != "tests" {
            let text = std::fs::read_to_string(&path).context(format!("{}", path.display()))?;
            let module = match stem.as_str() {
                "lib" | "main" | "mod" => at.clone(),
                name => below(name),
            };
            let (uses, imports) = paths(&text);
            sources.insert(module, Source { path, uses, imports });
        }
    }
    Ok(())
}

/// The paths of a source, and what its `use` declarations bring in.
fn paths(text: &str) -> (Uses, Imports) {
    let mut uses = Vec::new();
    let mut imports = BTreeMap::new();
    let code: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let mut at = 0;
    while at < code.len() {
        let line = code[at].trim_start();
        let rest = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .find_map(|word| line.strip_prefix(word));
        if let Some(rest) = rest {
            let first = at;
            let mut tree = rest.to_owned();
            while !tree.contains(';') && at + 1 < code.len() {
                at += 1;
                tree.push_str(code[at]);
            }
            let tree = tree.split(';').next().unwrap_or_default().replace(char::is_whitespace, " ");
            for (name, path) in leaves(&tree) {
                uses.push((first + 1, path.clone()));
                imports.insert(name, path);
            }
        } else {
            uses.extend(inline(line).into_iter().map(|path| (at + 1, path)));
        }
        at += 1;
    }
    (uses, imports)
}

/// The leaves of `a::{b, c::{d as e}}`: the name of each, and its path.
fn leaves(tree: &str) -> Vec<(String, Vec<String>)> {
    let tree = tree.trim();
    if let Some((before, group)) = tree.split_once('{') {
        let before: Vec<String> = names(before);
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        let mut depth = 0;
        let parts = group.split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        let below = parts.filter(|part| !part.trim().is_empty()).flat_map(leaves);
        return below
            .map(|(name, path)| {
                let path: Vec<String> = path.into_iter().filter(|one| one != "self").collect();
                (name, before.iter().cloned().chain(path).collect())
            })
            .collect();
    }
    let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path = names(path);
    let last = path.last().cloned().unwrap_or_default();
    vec![(if name.is_empty() { last } else { name.trim().to_owned() }, path)]
}

fn names(path: &str) -> Vec<String> {
    path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Paths in code that begin with `crate::` or `super::`.
fn inline(line: &str) -> Vec<Vec<String>> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in line.match_indices(start) {
            let before = line[..at].chars().next_back();
            if before.is_some_and(|c| word(c) || c == ':' || c == '$' || c == '"') {
                continue;
            }
            let end = line[at..].find(|c: char| !word(c) && c != ':').unwrap_or(line.len() - at);
            found.push(names(&line[at..at + end]));
        }
    }
    found
}

/// The module that defines what `path` names in `from`.
fn resolve(
    sources: &BTreeMap<Module, Source>,
    from: &Module,
    path: &[String],
    depth: usize,
) -> Option<Module> {
    let mut at = from.clone();
    let mut rest = path;
    while let [first, others @ ..] = rest {
        match first.as_str() {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => break,
        }
        rest = others;
    }
    let is_relative = rest.len() == path.len();
    for (step, name) in rest.iter().enumerate() {
        at.push(name.clone());
        if sources.contains_key(&at) {
            continue;
        }
        at.pop();
        if is_relative && step == 0 {
            return None;
        }
        // A name of this module: its own, or one that it took from elsewhere.
        let import = sources.get(&at)?.imports.get(name);
        let Some(import) = import.filter(|_| depth > 0) else { return Some(at) };
        let taken = resolve(sources, &at, import, depth - 1);
        return taken.or(Some(at));
    }
    Some(at)
}

/// A step between two modules of one parent, with the place that takes it.
type Steps = BTreeMap<(String, String), String>;

fn circles(folder: &str, sources: &BTreeMap<Module, Source>) -> Vec<String> {
    const RE_EXPORTS_MAX: usize = 8;
    let mut parents: BTreeMap<Module, Steps> = BTreeMap::new();
    for (from, source) in sources {
        for (line, path) in &source.uses {
            let Some(to) = resolve(sources, from, path, RE_EXPORTS_MAX) else { continue };
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                let place = format!("{}:{line}", source.path.display());
                let steps = parents.entry(from[..shared].to_vec()).or_default();
                steps.entry((a.clone(), b.clone())).or_insert(place);
            }
        }
    }
    let name = |parent: &Module| parent.iter().map(|name| format!("::{name}")).collect::<String>();
    let all = parents.iter().flat_map(|(parent, steps)| {
        knots(steps).into_iter().map(move |knot| (format!("{folder}{}", name(parent)), knot, steps))
    });
    all.map(|(parent, knot, steps)| told(&parent, &knot, steps)).collect()
}

/// Sets of modules in which each needs each other, over some way.
fn knots(steps: &Steps) -> Vec<BTreeSet<String>> {
    let modules: BTreeSet<&String> = steps.keys().flat_map(|(a, b)| [a, b]).collect();
    let reached: BTreeMap<&String, BTreeSet<String>> =
        modules.iter().map(|from| (*from, reached(steps, from))).collect();
    let mut knots = BTreeSet::new();
    for (from, to) in &reached {
        let knot: BTreeSet<String> =
            to.iter().filter(|other| reached[other].contains(*from)).cloned().collect();
        if !knot.is_empty() {
            knots.insert(knot);
        }
    }
    knots.into_iter().collect()
}

/// All modules that one needs, over some way.
fn reached(steps: &Steps, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![from.to_owned()];
    while let Some(module) = ahead.pop() {
        for (_, next) in steps.keys().filter(|(a, _)| *a == module) {
            if reached.insert(next.clone()) {
                ahead.push(next.clone());
            }
        }
    }
    reached
}

/// A knot, with the shortest circle in it.
fn told(parent: &str, knot: &BTreeSet<String>, steps: &Steps) -> String {
    let circle = knot.iter().filter_map(|from| shortest(steps, from)).min_by_key(Vec::len);
    let circle = circle.unwrap_or_default();
    let places = circle.windows(2).map(|pair| {
        let step = (pair[0].clone(), pair[1].clone());
        format!("{} -> {} at {}", step.0, step.1, steps[&step])
    });
    let places: Vec<String> = places.collect();
    let knot: Vec<&str> = knot.iter().map(String::as_str).collect();
    format!("{parent}: a circle of modules ({}): {}", knot.join(" "), places.join("; "))
}

/// The shortest way from a module back to itself.
fn shortest(steps: &Steps, from: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last()?;
            for (_, next) in steps.keys().filter(|(a, _)| a == last) {
                let mut further = way.clone();
                further.push(next.clone());
                if next == from {
                    return Some(further);
                }
                if seen.insert(next.clone()) {
                    longer.push(further);
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files.iter().map(|(module, text)| {
            let (uses, imports) = paths(text);
            let path = format!("{module}.rs").into();
            (names(module), Source { path, uses, imports })
        });
        circles("x", &sources.collect())
    }

    #[test]
    fn modules_that_need_each_other_are_a_circle_with_its_places() {
        let circle = found(&[
            ("", "mod a;\nmod b;\nmod c;\n"),
            ("a", "use crate::b::{self, B};\n"),
            ("b", "fn f() { crate::c::d(); }\n"),
            ("c", "use super::a::A;\n"),
        ]);
        let text =
            "x: a circle of modules (a b c): a -> b at a.rs:1; b -> c at b.rs:1; c -> a at c.rs:1";
        assert_eq!(circle, [text]);
    }

    #[test]
    fn a_re_export_leads_to_the_module_that_defines_the_name() {
        let files =
            [("", "pub use a::A;\n"), ("a", "use crate::b::B;\n"), ("b", "use crate::A;\n")];
        assert_eq!(found(&files).len(), 1);
        let private =
            [("", "use b::C as A;\n"), ("a", "use crate::b::B;\n"), ("b", "use crate::A;\n")];
        assert_eq!(found(&private), Vec::<String>::new());
    }

    #[test]
    fn a_parent_and_its_child_are_one_subject_and_tests_do_not_count() {
        let files = [
            ("a", "use crate::b::B;\n"),
            ("a::c", "use super::A;\nuse super::d::D;\n"),
            ("a::d", "use super::A;\n"),
            ("b", "// use crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
