//! How objects become an image: what they lack comes from stand-ins; and what a build keeps, so that a scheduler can be
//! linked to the image later.

use crate::overlay;
use schedlab_vm::VmError;
use schedlab_vm::program::run;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What a build keeps beside an image, so that a scheduler can be linked to it: the kernel's units as one object, the
/// compiler's folder and words, and the types of ext.c.
pub(crate) const WHOLE: &str = "whole.o";
pub(crate) const WORDS: &str = "compiler";
pub(crate) const TYPES: &str = "ext_types.h";
/// The types that ext.c defines for itself, which programs for BPF have from the kernel's type information.
pub(crate) fn types(source: &str) -> String {
    let mut text = String::new();
    let mut in_type = false;
    let mut in_macro = false;
    for line in source.lines() {
        let word = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        let opens = matches!(word, Some("enum" | "struct" | "union"))
            && line.chars().all(|c| c.is_ascii_alphanumeric() || "_ \t{};".contains(c))
            && line.contains('{');
        let is_macro = in_macro || line.starts_with("#define SCX_");
        if in_type || opens || is_macro {
            let _ = writeln!(text, "{line}");
        }
        in_macro = is_macro && line.ends_with('\\');
        in_type = (in_type || opens) && !line.starts_with('}') && !(opens && line.ends_with("};"));
    }
    text
}

/// Makes an image of objects and of stand-ins for what they lack.
pub(crate) fn link_image(
    objects: &[&Path],
    stubs: &Path,
    layout: &Path,
    image: &Path,
) -> Result<(), VmError> {
    let mut assemble = Command::new("gcc");
    let object = stubs.with_extension("o");
    assemble.arg("-c").arg("-o").arg(&object).arg(stubs);
    run(&mut assemble, "assembling stand-ins")?;
    let mut link = Command::new("ld");
    link.args(["-static", "-nostdlib", "-z", "noexecstack", "--no-warn-rwx-segments", "-T"]);
    link.arg(layout).arg("-o").arg(image).args(objects).arg(&object);
    run(&mut link, "linking the image").map(|_| ())
}

fn listed(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

fn is_of_layout(name: &str) -> bool {
    [" = ", "="].iter().any(|sign| overlay::LAYOUT.contains(&format!("{name}{sign}")))
}

/// The layout for a tree. Up to Linux 5.18 the lowest of the scheduling classes comes first.
pub(crate) fn layout(missing: &BTreeSet<&str>) -> String {
    let [from, to] = ["*(__stop_sched_class)", "__sched_class_lowest"]
        .map(|word| overlay::LAYOUT.find(word).expect("the layout has the classes"));
    let mut classes: Vec<&str> = overlay::LAYOUT[from..to].split_whitespace().collect();
    if missing.contains("__begin_sched_classes") {
        classes.reverse();
    }
    [&overlay::LAYOUT[..from], &classes.join(" "), "\n\t\t", &overlay::LAYOUT[to..]].concat()
}

/// What a unit reads that nothing stands for, by the relocations of all units: the code of a stand-in would be taken
/// for its value.
pub(crate) fn unknown_memory(relocations: &str, missing: &BTreeSet<&str>) -> Option<String> {
    let data = listed(overlay::DATA);
    let nothing = listed(overlay::NOTHING);
    let mut unit = "";
    let mut in_code = false;
    for line in relocations.lines() {
        if let Some(file) = line.strip_prefix("File: ") {
            unit = file;
        } else if line.starts_with("Relocation section") {
            in_code = line.contains("text");
        } else if in_code && line.contains("R_X86_64_PC32") {
            let name = line.split_whitespace().nth(4).unwrap_or_default();
            let known = data.contains(name) || nothing.contains(name) || is_of_layout(name);
            if missing.contains(name) && !known {
                return Some(format!("{unit} reads '{name}', which is not simulated"));
            }
        }
    }
    None
}

/// Assembly for names that the image lacks: memory, functions that do nothing, and functions that end the run.
pub(crate) fn stand_ins<'n>(missing: impl Iterator<Item = &'n str>) -> String {
    let data = listed(overlay::DATA);
    let nothing = listed(overlay::NOTHING);
    let mut text = String::new();
    for name in missing.filter(|name| !is_of_layout(name)) {
        let _ = writeln!(text, ".globl {name}");
        let _ = match name {
            _ if data.contains(name) => writeln!(text, ".bss\n.balign 64\n{name}: .zero 16384"),
            _ if nothing.contains(name) => writeln!(text, ".text\n{name}: xor %eax, %eax\n\tret"),
            _ => writeln!(
                text,
                ".text\n{name}: mov $9f, %edi\n\tjmp schedlab_trap\n.section .rodata\n9: .asciz \"{name}\""
            ),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_image_lacks_is_memory_or_nothing_or_ends_the_run() {
        let text = stand_ins(["init_mm", "rcu_all_qs", "jiffies", "surprise"].into_iter());
        assert!(text.contains("init_mm: .zero"), "{text}");
        assert!(text.contains("rcu_all_qs: xor"), "{text}");
        assert!(text.contains("surprise: mov $9f"), "{text}");
        assert!(!text.contains("jiffies"), "{text}");
    }

    #[test]
    fn classes_lie_in_the_order_of_the_tree() {
        let at =
            |layout: &str, name: &str| layout.find(&format!("*(__{name}_sched_class)")).unwrap();
        let new = layout(&BTreeSet::from(["jiffies"]));
        assert!(at(&new, "stop") < at(&new, "ext") && at(&new, "ext") < at(&new, "idle"), "{new}");
        let old = layout(&BTreeSet::from(["__begin_sched_classes"]));
        assert!(at(&old, "stop") > at(&old, "ext") && at(&old, "ext") > at(&old, "idle"), "{old}");
    }

    #[test]
    fn memory_that_nothing_stands_for_is_named_with_its_unit() {
        let line = |kind, name| format!("0001  0002 {kind} 0000 {name} - 4\n");
        let text = format!(
            "File: kernel/cpu.o\nRelocation section '.rela.text' at offset 0x1 contains 4 entries:\n{}{}{}{}\n\
             Relocation section '.rela.data' at offset 0x1 contains 1 entries:\n{}\
             File: kernel/sched/built-in.a(core.o)\nRelocation section '.rela.init.text' at offset 0x1:\n{}",
            line("R_X86_64_PLT32", "surprise"),
            line("R_X86_64_PC32", "own"),
            line("R_X86_64_PC32", "jiffies"),
            line("R_X86_64_PC32", "init_mm"),
            line("R_X86_64_PC32", "surprise"),
            line("R_X86_64_PC32", "surprise"),
        );
        let missing = BTreeSet::from(["surprise", "jiffies", "init_mm"]);
        let why = unknown_memory(&text, &missing).unwrap();
        let expected = "kernel/sched/built-in.a(core.o) reads 'surprise', which is not simulated";
        assert_eq!(why, expected);
        assert_eq!(unknown_memory(&text, &BTreeSet::from(["jiffies"])), None);
    }

    #[test]
    fn types_are_taken_with_their_macros_and_functions_are_not() {
        let source = "#define SCX_X(a) \\\n\t(a)\n#define OTHER 1\nenum a {\n\tB,\n};\nstruct c {};\n\
            static int f(struct c *x)\n{\n\treturn 0;\n}\nstruct c *g(void)\n{\n}\nstruct d {\n\tint e;\n} f;\n";
        assert_eq!(
            types(source),
            "#define SCX_X(a) \\\n\t(a)\nenum a {\n\tB,\n};\nstruct c {};\nstruct d {\n\tint e;\n} f;\n"
        );
    }
}
