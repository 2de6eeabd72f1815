//! What stands under a name before, during and after a file is written.

use super::*;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_device_stays_a_device_and_a_link_a_link() {
    let dir = tempfile::tempdir().unwrap();
    write_file(Path::new("/dev/null"), "x").unwrap();
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let (file, to_file) = (dir.path().join("a"), dir.path().join("to-a"));
    let (absent, to_absent) = (dir.path().join("b"), dir.path().join("to-b"));
    std::fs::write(&file, "old").unwrap();
    symlink("a", &to_file).unwrap();
    symlink("b", &to_absent).unwrap();
    for (link, end) in [(&to_file, &file), (&to_absent, &absent)] {
        write_file(link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(end).unwrap(), "new");
        assert!(std::fs::symlink_metadata(link).unwrap().is_symlink());
    }
    assert_eq!(names(dir.path()), 4, "nothing else is left");
}

#[test]
fn what_fails_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, "old").unwrap();
    let failed = replace(&file, |part| {
        std::fs::write(part, "half").unwrap();
        Err::<(), _>(TraceError::empty(part))
    });
    assert!(failed.is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(names(dir.path()), 1);
}

#[test]
fn the_old_file_is_there_until_the_new_one_is_whole_and_gives_it_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, "old").unwrap();
    for wanted in [0o600, 0o640, 0o755] {
        std::fs::set_permissions(&file, Permissions::from_mode(wanted)).unwrap();
        let mut new = NewFile::create(&file).unwrap();
        new.write_all(b"half").unwrap();
        assert_eq!(mode(new.path()), 0o600, "private until it is whole");
        let old = std::fs::read_to_string(&file).unwrap();
        new.write_all(b" and half").unwrap();
        new.keep().unwrap();
        assert_ne!(old, "half");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "half and half");
        assert_eq!(mode(&file), wanted);
    }
}

#[test]
fn a_first_file_has_the_mode_that_the_mask_gives() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, usual) = (dir.path().join("ours"), dir.path().join("usual"));
    write_file(&ours, "x").unwrap();
    File::create(&usual).unwrap();
    assert_eq!(mode(&ours), mode(&usual));
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    if geteuid().is_root() {
        write_file(&file, "new").unwrap();
        assert_eq!(mode(&file), 0o444, "root may");
        return;
    }
    assert_eq!(write_file(&file, "new").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
}

#[test]
fn a_folder_and_a_circle_of_links_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let told = |path: &Path| write_file(path, "x").unwrap_err().to_string();
    assert!(told(dir.path()).contains("name a file in it"));
    assert!(told(&dir.path().join("new/")).contains("name a file in it"));
    assert!(told(&dir.path().join("none/file")).contains("No such file"));
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    symlink(&two, &one).unwrap();
    symlink(&one, &two).unwrap();
    assert!(told(&one).contains("ymbolic links"));
    assert_eq!(names(dir.path()), 2);
}

#[test]
fn a_pipe_gets_the_whole_file_and_stays_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let from = pipe.clone();
    let reader = std::thread::Builder::new()
        .spawn(move || {
            let mut text = String::new();
            File::open(from).unwrap().read_to_string(&mut text).unwrap();
            text
        })
        .unwrap();
    write_file(&pipe, "whole").unwrap();
    assert_eq!(reader.join().unwrap(), "whole");
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn an_open_descriptor_keeps_what_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, "before ").unwrap();
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    write_file(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), "after").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before after");
}

#[test]
fn a_long_name_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("é".repeat(127));
    write_file(&file, "x").unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
}

#[test]
fn what_is_unfinished_has_no_name_or_can_be_removed_before_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a");
    let new = NewFile::create(&target).unwrap();
    let named = nameless_in(dir.path(), 0o600).is_none();
    assert_eq!(names(dir.path()), usize::from(named));
    new.keep().unwrap();
    assert_eq!(names(dir.path()), 1);
    let part = Part::of(&target, 0o600).unwrap().1;
    assert!(unfinished().contains(&part.0));
    let path = part.0.clone();
    drop(part);
    assert!(!unfinished().contains(&path) && !path.exists());
}

#[test]
fn a_file_system_without_nameless_files_gets_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("a");
    let (mut file, part) = Part::of(&target, 0o600).unwrap();
    file.write_all(b"x").unwrap();
    Named { part: Some(part), target: target.clone(), old: None }.finish(&file).unwrap();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "x");
    assert_eq!(names(dir.path()), 1);
}
