//! The commands on the pages of `docs/guide`, run in order. What they print is compared with the page by its structure.
//! `SCHEDLAB_GUIDE=write` puts what they print into the pages.

use crate::guide_page::{Block, alike, blocks};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let entries = std::fs::read_dir(folder).expect("the guide is there").flatten();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages.sort();
    pages
}

/// What a command prints on stdout. It runs in a shell, with the built program first on the path.
fn printed(command: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_schedlab")).parent().expect("it is in a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(program.to_path_buf()).chain(std::env::split_paths(&path));
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(folders).expect("folders of a path can be joined"))
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How many commands a page has that ran, and why others did not. Differences go into `wrong`.
fn check(page: &Path, wrong: &mut Vec<String>) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(page).expect("the page can be read");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut ran, mut left_out) = (0, Vec::new());
    let mut anew = String::new();
    for block in blocks(&text) {
        match block {
            Block::Text(lines) => anew.push_str(lines),
            Block::File { name, lines, all } => {
                std::fs::write(folder.path().join(name), lines).expect("a file can be written");
                anew.push_str(all);
            }
            Block::LeftOut { why, commands, all } => {
                left_out.extend(vec![why.to_owned(); commands]);
                anew.push_str(all);
            }
            Block::Session { opening, shown, steps } => {
                anew.push_str(opening);
                for step in steps {
                    let output = shown.of(&printed(step.command, folder.path()));
                    ran += 1;
                    if !alike(step.output, &output) {
                        let (name, command) = (page.display(), step.command);
                        wrong.push(format!(
                            "{name}: $ {command}\non the page:\n{}\nprinted:\n{output}",
                            step.output
                        ));
                    }
                    let _ = write!(anew, "$ {}\n{output}", step.command);
                }
                anew.push_str("```\n");
            }
        }
    }
    if std::env::var_os("SCHEDLAB_GUIDE").is_some_and(|how| how == "write") {
        std::fs::write(page, anew).expect("the page can be written");
        wrong.clear();
    }
    (ran, left_out)
}

#[test]
fn commands_of_the_guide_print_what_its_pages_show() {
    let (mut ran, mut left_out, mut wrong) = (0, Vec::new(), Vec::new());
    for page in pages() {
        let (more, others) = check(&page, &mut wrong);
        ran += more;
        left_out.extend(others);
    }
    left_out.sort();
    let count = |why: &String| left_out.iter().filter(|other| *other == why).count();
    let mut reasons: Vec<String> =
        left_out.iter().map(|why| format!("{why} {}", count(why))).collect();
    reasons.dedup();
    let left = left_out.len();
    let line = format!("the guide: {ran} commands ran; {left} did not: {}", reasons.join(", "));
    let _ = writeln!(std::io::stderr(), "{line}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(ran > 30, "only {ran} commands were found");
}
