//! A sched_ext scheduler: its C is compiled as code of an image's kernel, and linked to a copy of the image.
//!
//! A file for BPF says by macros which of its variables are maps, and which one is its table of operations. Its text is
//! read once for these ([`Listed`]); then it is compiled with a table of them behind it.

use crate::build::Built;
use crate::linking::{self, WHOLE, WORDS};
use crate::overlay;
use crate::symbols::Symbols;
use schedlab_sys::regular_file;
use schedlab_vm::VmError;
use schedlab_vm::program::run;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of linked schedulers beside an image.
const LINKED: &str = "schedulers";

/// The settings of a machine's name.
pub(crate) const FILE: &str = "scx";
pub(crate) const SET: &str = "scx-set";

/// A map of a scheduler, and which members its declaration has.
#[derive(Debug, PartialEq, Eq)]
struct Map {
    name: String,
    members: BTreeSet<String>,
}

/// What the text of a scheduler declares.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    maps: Vec<Map>,
    ops: String,
}

/// How the macros of `bpf_helpers.h` tell of themselves.
const SECTION: &str = "schedlab_sec(";
const MEMBERS: [&str; 3] = ["schedlab_uint(", "schedlab_type(", "schedlab_array("];

impl Listed {
    /// Reads the preprocessed text of a scheduler.
    fn read(text: &str) -> Result<Self, String> {
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .fold(String::new(), |all, line| all + line + "\n");
        let mut maps = Vec::new();
        let mut ops = Vec::new();
        for (at, _) in text.match_indices(SECTION) {
            let section: String = text[at..]
                .chars()
                .take_while(|&c| c != ')')
                .filter(|&c| c != '"' && c != ' ')
                .collect();
            match section.strip_prefix(SECTION) {
                Some(".maps") => {
                    let name = last_word(&text[..at]);
                    let members = members(&text, at).ok_or_else(|| {
                        format!("the declaration of the map '{name}' is not understood")
                    })?;
                    maps.push(Map { name: name.to_owned(), members });
                }
                Some(".struct_ops.link" | ".struct_ops") => {
                    const TYPE: &str = "struct sched_ext_ops";
                    let from = text[at..].find(TYPE).map(|found| at + found + TYPE.len());
                    let name = from.map(|from| first_word(&text[from..])).unwrap_or_default();
                    ops.push(name.to_owned());
                }
                _ => {}
            }
        }
        match <[String; 1]>::try_from(ops) {
            Ok([ops]) if !ops.is_empty() => Ok(Self { maps, ops }),
            Ok(_) => Err("its struct sched_ext_ops has no name".to_owned()),
            Err(several) if several.is_empty() => Err("it has no struct sched_ext_ops".to_owned()),
            Err(several) => {
                Err(format!("it has several struct sched_ext_ops: {}", several.join(", ")))
            }
        }
    }

    /// What is compiled: the file, its maps, and its table of operations.
    fn unit(&self, file: &Path) -> String {
        let mut text =
            format!("#include {:?}\n#include \"scheduler.h\"\n", file.display().to_string());
        text.push_str("static struct schedlab_map schedlab_maps[] = {\n");
        for Map { name, members } in &self.maps {
            let _ = write!(text, "\t{{ .of = &{name}, .name = \"{name}\"");
            let counts = |member: &str| format!("sizeof(*{name}.{member}) / sizeof(int)");
            for (member, field, value) in [
                ("type", "type", counts("type")),
                ("max_entries", "entries", counts("max_entries")),
                ("key_size", "key_bytes", counts("key_size")),
                ("key", "key_bytes", format!("sizeof(*{name}.key)")),
                ("value_size", "value_bytes", counts("value_size")),
                ("value", "value_bytes", format!("sizeof(*{name}.value)")),
                ("values", "inner", format!("(void **){name}.values")),
            ] {
                if members.contains(member) {
                    let _ = write!(text, ", .{field} = {value}");
                }
            }
            text.push_str(" },\n");
        }
        let _ =
            write!(text, "\t{{ }}\n}};\n#define SCHEDLAB_OPS {}\n#include \"end.h\"\n", self.ops);
        text
    }
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn last_word(text: &str) -> &str {
    let text = text.trim_end();
    &text[text.rfind(|c| !is_part(c)).map_or(0, |at| at + 1)..]
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

/// The members of the type of the variable whose section is said at `at`: of a type in braces before it, or of one with
/// a name.
fn members(text: &str, at: usize) -> Option<BTreeSet<String>> {
    // Other variables of the same declaration may come between.
    let mut before = text[..at].trim_end();
    loop {
        before = before[..before.len() - last_word(before).len()].trim_end();
        let Some(more) = before.strip_suffix(',') else { break };
        before = more.trim_end().strip_suffix(')')?;
        before = before[..before.rfind(SECTION)?].trim_end();
    }
    let end = if before.ends_with('}') {
        before.len()
    } else {
        let tag = last_word(before);
        let head = text.find(&format!("struct {tag} {{"))?;
        head + text[head..].find("\n}").or_else(|| text[head..].find('}'))? + 2
    };
    let body = &text[opening(&text[..end])?..end];
    let name = |&(from, head): &(usize, &str)| first_word(&body[from + head.len()..]).to_owned();
    Some(
        MEMBERS
            .iter()
            .flat_map(|head| body.match_indices(head))
            .map(|found| name(&found))
            .collect(),
    )
}

/// Where the brace opens that the last one of a text closes.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices().rev() {
        match c {
            '}' => depth += 1,
            '{' if depth == 1 => return Some(at),
            '{' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A scheduler that is linked to the image of a kernel.
pub(crate) struct Linked {
    /// The file that was named, without its ending.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) image: PathBuf,
}

/// Links a scheduler to the image of a kernel, once for each text. `named` is a file, or the name of one in
/// `tools/sched_ext` of the kernel's tree.
///
/// # Errors
/// A sentence: the kernel has no sched_ext, the file does not compile, or it uses what is not simulated.
pub(crate) fn link(built: &Built, named: &str) -> Result<Linked, String> {
    if !built.code.has("sched_ext") {
        let release = &built.code.release;
        return Err(format!("{named}: Linux {release} has no sched_ext (kernel/sched/ext.c)"));
    }
    let beside = built.image.parent().unwrap_or(Path::new("/")).to_owned();
    let compiler = Compiler::of(&beside)?;
    let is_plain = !named.contains(['/', '.']);
    let file = match is_plain {
        true => compiler.tools().join(format!("{named}.bpf.c")),
        false => PathBuf::from(named),
    };
    let wrong = |error: std::io::Error| {
        let what = if is_plain { ": the tree has no such scheduler" } else { "" };
        format!("{}: {error}{what}", file.display())
    };
    let file = fs::canonicalize(&file).map_err(wrong)?;
    let mut texts = Vec::new();
    read_with_included(&file, &mut texts).map_err(wrong)?;
    let digest = Sha256::digest(texts.concat());
    let key: String = digest.iter().take(8).fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    });
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    let text = texts.swap_remove(0);
    let image = beside.join(LINKED).join(&key);
    if image.is_file() {
        return Ok(Linked { name, text, image });
    }
    let work = beside.join(LINKED).join(format!("{key}.{}", std::process::id()));
    let linking = Linking { beside: &beside, work: &work, file: &file, compiler };
    let made = fs::create_dir_all(&work)
        .map_err(|error| error.to_string())
        .and_then(|()| linking.link())
        .and_then(|made| fs::rename(made, &image).map_err(|error| error.to_string()));
    let _ = fs::remove_dir_all(&work);
    made.map(|()| Linked { name, text, image }).map_err(|why| format!("{named}: {why}"))
}

/// The text of a file, and of those beside it that it includes.
fn read_with_included(file: &Path, texts: &mut Vec<String>) -> std::io::Result<()> {
    const DEEPEST: usize = 64;
    let text = regular_file::text(file)?;
    let beside = file.parent().unwrap_or(Path::new("/"));
    let named =
        |line: &str| Some(beside.join(line.trim().strip_prefix("#include \"")?.strip_suffix('"')?));
    let included: Vec<PathBuf> =
        text.lines().filter_map(named).filter(|path| path.is_file()).collect();
    texts.push(text);
    for path in included.iter().filter(|_| texts.len() < DEEPEST).cloned().collect::<Vec<_>>() {
        read_with_included(&path, texts)?;
    }
    Ok(())
}

/// One scheduler on its way to an image.
struct Linking<'a> {
    /// The folder of the kernel's image.
    beside: &'a Path,
    /// The folder of what is made.
    work: &'a Path,
    file: &'a Path,
    compiler: Compiler,
}

impl Linking<'_> {
    fn link(&self) -> Result<PathBuf, String> {
        let [unit, object, stubs, layout, image] =
            ["scheduler.c", "scheduler.o", "stubs.S", "image.lds", "image"]
                .map(|name| self.work.join(name));
        let mut whole = self.beside.join(WHOLE);
        let list = format!("#include {:?}\n", self.file.display().to_string());
        write(&unit, &list)?;
        let listed = Listed::read(&self.compile(&unit, &["-E", "-DSCHEDLAB_LIST"])?)?;
        write(&unit, &listed.unit(self.file))?;
        let to = object.display().to_string();
        self.compile(&unit, &["-c", "-o", &to])?;
        // Its names are its own. Its variables lie together, where settings find them.
        let mut change = Command::new("objcopy");
        change.args(["--keep-global-symbol=schedlab_scheduler"]).arg(&object);
        output_of(&mut change)?;
        let mut change = Command::new("objcopy");
        change.args(["--redefine-sym", "schedlab_nr_cpu_ids=nr_cpu_ids"]);
        change.args(["--rename-section", ".data=.scheduler.data"]);
        change.args(["--rename-section", ".rodata=.scheduler.rodata"]);
        change
            .args(["--rename-section", ".bss=.scheduler.bss,alloc,load,data,contents"])
            .arg(&object);
        output_of(&mut change)?;
        let known = names(&whole, &["--defined-only"])?;
        let asked = names(&object, &["-u"])?;
        let stood_in: BTreeSet<&str> =
            overlay::DATA.lines().chain(overlay::NOTHING.lines()).collect();
        let mut hidden = Vec::new();
        for (kind, name) in &asked {
            match known.iter().find(|(_, one)| one == name).map(|(kind, _)| kind.as_str()) {
                // ext.c declares some of its functions static before it defines them.
                Some("t") => hidden.push(format!("--globalize-symbol={name}")),
                None if kind == "U" && !stood_in.contains(name.as_str()) => {
                    return Err(format!("it uses {name}, which is not simulated"));
                }
                _ => {}
            }
        }
        if !hidden.is_empty() {
            let shown = self.work.join(WHOLE);
            output_of(Command::new("objcopy").args(hidden).arg(&whole).arg(&shown))?;
            whole = shown;
        }
        let missing = names(&whole, &["-u"])?.into_iter().map(|(_, name)| name);
        let more = asked
            .iter()
            .map(|(_, name)| name.clone())
            .filter(|name| stood_in.contains(name.as_str()));
        let missing: BTreeSet<String> =
            missing.chain(more).filter(|name| name != "schedlab_scheduler").collect();
        write(&stubs, &linking::stand_ins(missing.iter().map(String::as_str)))?;
        write(&layout, overlay::LAYOUT)?;
        linking::link_image(&[&whole, &object], &stubs, &layout, &image)
            .map_err(|error| error.to_string())?;
        Ok(image)
    }

    fn compile(&self, unit: &Path, how: &[&str]) -> Result<String, String> {
        let mut compiler = Command::new("gcc");
        compiler.current_dir(&self.compiler.objects).env("LC_ALL", "C").args(&self.compiler.words);
        compiler.arg("-I").arg(self.beside).args(how).arg(unit);
        output_of(&mut compiler)
    }
}

/// How units of an image's kernel were compiled.
struct Compiler {
    /// The folder of the kernel's objects.
    objects: PathBuf,
    words: Vec<String>,
}

impl Compiler {
    fn of(beside: &Path) -> Result<Self, String> {
        let text = regular_file::text(&beside.join(WORDS)).map_err(|error| error.to_string())?;
        let mut words = text.lines().map(str::to_owned);
        let objects = PathBuf::from(words.next().unwrap_or_default());
        if !objects.is_dir() {
            let objects = objects.display();
            return Err(format!("{objects} is gone: run `schedlab sim build` again"));
        }
        Ok(Self { objects, words: words.collect() })
    }

    /// The schedulers of the tree.
    fn tools(&self) -> PathBuf {
        self.objects.with_file_name("farm").join("tools/sched_ext")
    }
}

/// The names of an object with their kinds.
fn names(object: &Path, which: &[&str]) -> Result<Vec<(String, String)>, String> {
    let text = output_of(Command::new("nm").args(which).arg(object))?;
    let name = |line: &str| {
        let mut words = line.split_whitespace().rev();
        let name = words.next()?.to_owned();
        Some((words.next()?.to_owned(), name))
    };
    Ok(text.lines().filter_map(name).collect())
}

fn output_of(command: &mut Command) -> Result<String, String> {
    run(command, "compiling it").map_err(|error| match error {
        VmError::Io { error, .. } => error.to_string(),
        other => other.to_string(),
    })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    // Plain: in a folder of the cache that is ours alone.
    fs::write(path, text).map_err(|error| error.to_string())
}

/// The settings of a scheduler in a machine's name: `NAME:VALUE+NAME:VALUE`.
///
/// # Errors
/// A sentence that names the part that is wrong.
pub(crate) fn settings(text: Option<&String>) -> Result<Vec<(String, u64)>, String> {
    let read = |part: &str| {
        let wrong = |why: &str| format!("invalid {SET}={}: {why}", part.escape_default());
        let (name, value) =
            part.split_once(':').ok_or_else(|| wrong("use NAME:VALUE+NAME:VALUE"))?;
        let hex = value.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16).ok());
        let number = match value {
            "true" => Some(1),
            "false" => Some(0),
            _ => hex.unwrap_or_else(|| {
                value.parse().ok().or_else(|| value.parse().ok().map(i64::cast_unsigned))
            }),
        };
        Ok((name.to_owned(), number.ok_or_else(|| wrong("use a number, true or false"))?))
    };
    text.into_iter().flat_map(|text| text.split('+')).map(read).collect()
}

/// Sets variables of the scheduler that is linked to an image, before it runs.
///
/// # Errors
/// A sentence: it has no such variable, or the value does not fit.
pub(crate) fn set(image: &mut [u8], settings: &[(String, u64)]) -> Result<(), String> {
    if settings.is_empty() {
        return Ok(());
    }
    let variables = Symbols::variables(image);
    for (name, value) in settings {
        let Some(of) = variables
            .iter()
            .find(|one| one.name == *name && one.bytes.is_power_of_two() && one.bytes <= 8)
        else {
            // Names with a dot are inside of functions; those of schedlab are its own.
            let is_setting = |name: &&str| {
                !name.contains('.') && !name.starts_with('_') && !name.starts_with("schedlab_")
            };
            let of_words =
                variables.iter().filter(|one| one.bytes <= 8).map(|one| one.name.as_str());
            let known: Vec<&str> = of_words.filter(is_setting).collect();
            return Err(format!(
                "{SET}: the scheduler has no variable '{name}': use {}",
                known.join(", ")
            ));
        };
        let bits = 8 * of.bytes as u32;
        let signed = value.cast_signed();
        let fits = bits == 64 || *value >> bits == 0 || signed >> (bits - 1) == -1;
        let to = image.get_mut(of.at..of.at + of.bytes);
        let (true, Some(to)) = (fits, to) else {
            return Err(format!("{SET}: {name} has {bits} bits, and {signed} does not fit"));
        };
        to.copy_from_slice(&value.to_le_bytes()[..of.bytes]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Result<Listed, String> {
        Listed::read(&format!("# 1 \"x.c\"\nstatic int f(void) {{ return 0; }}\n{text}"))
    }

    const OPS: &str =
        "schedlab_sec(\".struct_ops.link\") struct sched_ext_ops own_ops = { .name = \"own\" };";

    #[test]
    fn maps_are_read_from_declarations_of_every_form() {
        let text = format!(
            "struct q {{ schedlab_uint(type, X); schedlab_type(value, u32); }} a schedlab_sec(\".maps\"),\n  \
             b schedlab_sec(\".maps\");\n\
             struct {{ schedlab_uint(max_entries, 5); schedlab_array(values, struct q); }} \
             c schedlab_sec(\".maps\") = {{ .values = {{ [0] = &a }} }};\n\
             struct q d schedlab_sec(\".maps\");\n{OPS}"
        );
        let found = listed(&text).unwrap();
        let all: Vec<(&str, String)> = found
            .maps
            .iter()
            .map(|map| {
                (map.name.as_str(), map.members.iter().cloned().collect::<Vec<_>>().join(" "))
            })
            .collect();
        let of_q = "type value".to_owned();
        assert_eq!(
            all,
            [
                ("a", of_q.clone()),
                ("b", of_q.clone()),
                ("c", "max_entries values".to_owned()),
                ("d", of_q)
            ]
        );
        assert_eq!(found.ops, "own_ops");
        let unit = found.unit(Path::new("/x/y.bpf.c"));
        assert!(
            unit.contains(
                "{ .of = &c, .name = \"c\", .entries = sizeof(*c.max_entries) / sizeof(int), "
            ),
            "{unit}"
        );
        assert!(unit.ends_with("#define SCHEDLAB_OPS own_ops\n#include \"end.h\"\n"), "{unit}");
    }

    #[test]
    fn a_text_without_operations_or_with_a_strange_map_is_refused() {
        assert_eq!(listed("int x;").unwrap_err(), "it has no struct sched_ext_ops");
        let why = listed(&format!("struct none a schedlab_sec(\".maps\");\n{OPS}")).unwrap_err();
        assert_eq!(why, "the declaration of the map 'a' is not understood");
    }

    #[test]
    fn settings_are_numbers_of_any_sign_and_base() {
        let text = "a:5+b:-1+c:0x10+d:true".to_owned();
        let found = settings(Some(&text)).unwrap();
        let found: Vec<u64> = found.into_iter().map(|(_, value)| value).collect();
        assert_eq!(found, [5, u64::MAX, 16, 1]);
        assert_eq!(settings(None), Ok(Vec::new()));
    }
}
