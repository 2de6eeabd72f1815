//! Ways out that were planted one by one, and what must stay allowed.

use super::{imports, module, ways_out};
use crate::tokens;
use std::path::Path;

fn found(text: &str) -> Vec<String> {
    let (program, _) = tokens::program(text);
    let all = ways_out(Path::new("crates/schedlab-stats/src/deep/file.rs"), &program);
    all.into_iter().map(|(line, what)| format!("{line}: {what}")).collect()
}

/// Each is one way to files, processes, clocks, threads, the environment, the terminal or the network.
const WAYS: [&str; 62] = [
    "fn f() { std::fs::read(\"x\"); }",
    "use std::fs; fn f() { fs::write(\"x\", \"y\"); }",
    "use std::fs as f;",
    "use std::fs::{self, File};",
    "use std::fs::*;",
    "use std::{fmt, fs::File};",
    "use ::std::fs::read_to_string;",
    "fn f() { ::std::fs::read_to_string(\"x\"); }",
    "use std as s; fn f() { s::fs::read(\"x\"); }",
    "use std::{self as s};",
    "use std::*;",
    "use core::{self as c};",
    "extern crate std as s;",
    "type File = std::fs::File;",
    "fn f() { <std::fs::File>::create(\"x\"); }",
    "fn f() { std::fs::OpenOptions::new(); }",
    "fn f() { let _: Option<std::fs::File> = None; }",
    "macro_rules! m { ($a:ident) => { std::$a::read(\"x\") } }",
    "fn f() {\n    use std::fs::read;\n}",
    "mod inner { pub use std::fs; }",
    "fn f(p: &std::path::Path) { p.exists(); }",
    "fn f(p: &std::path::Path) { p\n    .read_dir(); }",
    "use std::path::Path; fn f() { Path::new(\"x\").is_file(); }",
    "use std::path::Path; fn f(p: &Path) { [p].into_iter().map(Path::exists); }",
    "use std::path::Path as P;",
    "fn f(p: &P) { <P>::canonicalize(p); }",
    "fn f() { std::process::Command::new(\"sh\"); }",
    "use std::process::{Command, exit};",
    "fn f() { std::process::exit(1); }",
    "fn f() { std::time::SystemTime::now(); }",
    "use std::time::Instant;",
    "use std::time::{Duration, Instant as Moment};",
    "use std::time; fn f() { time::Instant::now(); }",
    "use std::time as t;",
    "use std::time::*;",
    "fn f() { super::time::Instant::now(); }",
    "fn f() { std::thread::sleep(x); }",
    "use std::thread::Builder;",
    "use std::sync::mpsc::channel;",
    "use std::sync::{Arc, Condvar};",
    "fn f() { std::env::var(\"HOME\"); }",
    "use std::env::args;",
    "const HOME: &str = env!(\"HOME\");",
    "const HOME: Option<&str> = option_env!(\"HOME\");",
    "fn f() { std::net::TcpStream::connect_timeout(a, b); }",
    "use std::net::ToSocketAddrs;",
    "use std::os::unix::fs::symlink;",
    "use std::io::stdin;",
    "use std::io; fn f() { io::stdout(); }",
    "use std::io as i;",
    "fn f() { println!(\"x\"); }",
    "use std::println as say;",
    "const X: &str = include_str!(\"../../../schedlab-sys/src/lib.rs\");",
    "const X: &str = include_str!(\"/etc/passwd\");",
    "const X: &str = include_str!(concat!(\"a\", \"b\"));",
    "include!(\"../x.rs\");",
    "#[path = \"/elsewhere.rs\"]\nmod x;",
    "#![allow(clippy::disallowed_methods)]",
    "unsafe extern \"C\" { fn time(t: *mut i64) -> i64; }",
    "use std::collections::HashMap;",
    "use schedlab_jobs::run::Clock; fn f() { Clock::start(); }",
    "use schedlab_jobs::pool::Pool;",
];

#[test]
fn every_way_out_that_was_planted_is_refused_on_its_line() {
    for way in WAYS {
        assert!(!found(way).is_empty(), "passes: {way}");
        let below = found(&format!("//! Text.\n\n{way}"));
        let line = |text: &String| text.split(':').next()?.parse::<usize>().ok();
        assert!(below.iter().all(|text| line(text).is_some_and(|line| line >= 3)), "{below:?}");
    }
}

#[test]
fn a_way_out_is_found_beside_what_looks_like_a_test_a_comment_or_a_text() {
    for before in [
        "#[cfg(test)]\nmod tests { fn f() { let _ = '{'; let _ = \"{\"; } }\n",
        "#[cfg(test)]\n#[expect(dead_code)]\nfn f(a: [u8; 2]) { /* { /* { */ */ }\n",
        "#[cfg(test)]\nuse a::b;\n",
        "#[cfg(any(test, unix))]\n",
        "// a comment's quote: \"\n",
        "const A: &str = r#\"a \" // \"#;\n",
        "const A: char = '\"'; const B: &[u8] = b\"\\\"\"; const C: u8 = b'\\'';\n",
        "fn f<'a>(a: &'a str) -> &'a str { a }\n",
    ] {
        let all = found(&format!("{before}fn out() {{ std::fs::read(\"x\"); }}\n"));
        assert_eq!(all.len(), 1, "{before}: {all:?}");
        assert!(all[0].contains("std::fs::read"), "{all:?}");
    }
}

#[test]
fn what_computes_is_allowed_and_so_is_all_that_tests_do() {
    for text in [
        "use std::io::{self, Write as _};\nfn f(w: &mut impl io::Write) -> io::Result<()> { w.flush() }",
        "use std::collections::{BTreeMap as Map, BTreeSet};",
        "use std::time::Duration; fn f() { std::time::Duration::from_nanos(1); }",
        "use crate::time::Nanos; use super::path::{Step, Way};",
        "pub use schedlab_model as model;",
        "fn f() { std::mem::take(&mut std::f64::consts::PI.to_string()); }",
        "use std::path::{Path, PathBuf}; fn f(p: &Path) -> PathBuf { p.join(\"x\") }",
        "fn f(core: u8) -> u8 { core }",
        "fn f(&self) { self.exists(axis, point); place.core(); }",
        "const V: &str = env!(\"CARGO_PKG_VERSION\");",
        "const X: &str = include_str!(\"../../data/x.toml\");",
        "use schedlab_jobs::run::{Clock, Run}; fn f() { Clock::still(); }",
        "// std::fs::read\n/* use std::env; */ const A: &str = \"std::process::Command::new\";",
        "/// [`std::fs::File`]\nfn f() {}",
        "#[cfg(test)]\nmod tests {\n    use std::fs;\n    fn f() { std::process::exit(1) }\n}",
        "fn f<'a>() -> impl Iterator + use<'a> { std::iter::empty() }",
    ] {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn modules_of_tests_are_known_by_their_declaration() {
    let text = "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\npub(crate) mod fake;\nmod b;\n";
    let (_, modules) = tokens::program(text);
    assert_eq!(modules, ["tests", "fake"]);
    assert_eq!(module(Path::new("src/lib.rs"), "tests"), Path::new("src/tests"));
    assert_eq!(module(Path::new("src/a/mod.rs"), "tests"), Path::new("src/a/tests"));
    assert_eq!(module(Path::new("src/a.rs"), "tests"), Path::new("src/a/tests"));
}

#[test]
fn a_manifest_imports_what_computes_under_its_own_name() {
    let of = |line: &str| imports(&format!("[package]\nname = \"x\"\n\n[dependencies]\n{line}\n"));
    let fine = [
        "serde.workspace = true",
        "schedlab-model.workspace = true",
        "toml = { workspace = true }",
    ];
    assert!(fine.iter().all(|line| of(line).is_empty()));
    for line in [
        "libc.workspace = true",
        "rustix = { workspace = true }",
        "schedlab-sys.workspace = true",
        "tempfile = \"3\"",
        "serde = { package = \"libc\", version = \"1\" }",
        "[dependencies.libc]",
        "[target.'cfg(unix)'.dependencies]",
        "[build-dependencies]",
    ] {
        assert_eq!(of(line).len(), 1, "{line}");
    }
    assert_eq!(imports("[package]\nbuild = \"make.rs\"\n").len(), 1);
    assert!(imports("[dev-dependencies]\ntempfile.workspace = true\n").is_empty());
}
