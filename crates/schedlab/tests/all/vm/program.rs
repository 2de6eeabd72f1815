//! A static schedlab as init: it brings no library into the guest.

use super::{grid, run_with};
use std::collections::BTreeMap;
use std::path::Path;

/// A program that asks for no loader is static.
fn has_loader(program: &Path) -> bool {
    let bytes = std::fs::read(program).unwrap();
    let number = |at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    // Elf64_Ehdr and Elf64_Phdr; a segment of type 3 (PT_INTERP) names the loader.
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|index| number(table + index * size, 4) == 3)
}

#[test]
fn a_static_program_is_init_and_its_runs_are_identical() {
    let Some(program) = std::env::var_os("SCHEDLAB_STATIC") else {
        missing!(
            "SCHEDLAB_STATIC, a schedlab for x86_64-unknown-linux-musl; not checked: a static \
             init (`cargo xtask release` builds one)"
        );
        return;
    };
    let program = Path::new(&program);
    assert!(!has_loader(program), "{} is linked dynamically", program.display());
    let text = grid("vm:kernel=debian-6.1", "'1ms', '15ms'", "'0.5ms'");
    let runs = || -> BTreeMap<String, String> {
        let folder = tempfile::tempdir().unwrap();
        run_with(program, &text, folder.path()).unwrap()
    };
    let (one, two) = (runs(), runs());
    assert_eq!(one.len(), 2);
    assert_eq!(one, two);
}
