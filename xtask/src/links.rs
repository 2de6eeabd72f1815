//! Links of documents lead to files and headings that exist, and the guide's contents list every page of `docs`.

use crate::prose;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

const CONTENTS: &str = "docs/SUMMARY.md";

/// Every link without a target, and every page of `docs` that the contents leave out.
pub(crate) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut listed = BTreeSet::from([PathBuf::from(CONTENTS)]);
    for path in prose::documents(files) {
        let text = std::fs::read_to_string(path).context(path.display().to_string())?;
        for (line, link) in links(&text) {
            let (target, heading) = link.split_once('#').unwrap_or((&link, ""));
            let file = if target.is_empty() { path.clone() } else { beside(path, target) };
            if path == Path::new(CONTENTS) {
                listed.insert(file.clone());
            }
            if !file.exists() {
                found.push(format!("{}:{line}: {link}: no such file", path.display()));
            } else if !heading.is_empty() && !has_heading(&file, heading)? {
                found.push(format!("{}:{line}: {link}: no such heading", path.display()));
            }
        }
    }
    let pages = prose::documents(files).filter(|path| path.starts_with("docs"));
    let left_out = pages.filter(|path| !listed.contains(*path));
    found.extend(left_out.map(|path| format!("{CONTENTS}: does not list {}", path.display())));
    Ok(found)
}

/// The links to other files, with the numbers of their lines. Code has none.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        fenced ^= line.starts_with("```");
        if fenced || line.starts_with("    ") {
            continue;
        }
        let ends = line.match_indices("](").map(|(at, _)| &line[at + 2..]);
        let targets = ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        let inside = targets.filter(|target| !target.contains("://"));
        found.extend(inside.map(|target| (index + 1, target.to_owned())));
    }
    found
}

/// The file that a relative link of `page` leads to.
fn beside(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

fn has_heading(file: &Path, heading: &str) -> Result<bool> {
    let text = std::fs::read_to_string(file).context(file.display().to_string())?;
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let mut names = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
    Ok(names.any(|name| name == heading))
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_other_hosts_have_no_links_of_ours() {
        let text =
            "see [a](a.md#x), [b](https://b)\n```\n[c](c.md)\n```\n    [d](d.md)\n![e](../e.png)\n";
        assert_eq!(links(text), [(1, "a.md#x".to_owned()), (6, "../e.png".to_owned())]);
    }

    #[test]
    fn a_link_is_relative_to_its_page() {
        assert_eq!(beside(Path::new("docs/guide/a.md"), "../b.md"), Path::new("docs/b.md"));
        assert_eq!(beside(Path::new("README.md"), "docs/b.md"), Path::new("docs/b.md"));
    }

    #[test]
    fn anchors_are_those_of_the_viewers() {
        assert_eq!(anchor("Why is this task late?"), "why-is-this-task-late");
        assert_eq!(anchor("`tasks`, cpus"), "tasks-cpus");
    }
}
