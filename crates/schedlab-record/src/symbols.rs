//! Where a program's functions and static probes (USDT) lie in its file, by the ELF file and its debug file.

use super::programs;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SymbolFlags, SymbolKind,
};
use schedlab_sys::regular_file;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use xz4rust::{DICT_SIZE_PROFILE_9, XzDecoder, XzReader};

/// A file that is read as it is needed, or what was packed in one.
pub(crate) type Elf<'a> = object::File<'a, &'a ReadCache<Content>>;

/// Where an ELF file's bytes are.
#[derive(Debug)]
pub(crate) enum Content {
    File(Blocks),
    Memory(Cursor<Vec<u8>>),
}

/// A file that is read in blocks: names of functions are asked for one by one, and lie beside each other.
#[derive(Debug)]
pub(crate) struct Blocks {
    file: BufReader<File>,
    at: u64,
}

impl Content {
    /// Opens a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<ReadCache<Self>> {
        let file = BufReader::with_capacity(1 << 16, regular_file::open(path)?);
        Ok(ReadCache::new(Self::File(Blocks { file, at: 0 })))
    }
}

impl Read for Content {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(Blocks { file, at }) => {
                let read = file.read(into)?;
                *at += read as u64;
                Ok(read)
            }
            Self::Memory(bytes) => bytes.read(into),
        }
    }
}

impl Seek for Content {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let Blocks { file, at } = match self {
            Self::File(blocks) => blocks,
            Self::Memory(bytes) => return bytes.seek(to),
        };
        let step = match to {
            SeekFrom::Start(place) => place.checked_signed_diff(*at),
            SeekFrom::Current(_) | SeekFrom::End(_) => None,
        };
        *at = match step {
            // Within the block that was read, it stays.
            Some(step) => {
                file.seek_relative(step)?;
                at.wrapping_add_signed(step)
            }
            None => file.seek(to)?,
        };
        Ok(*at)
    }
}

/// What can be named in a file.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Goroutines move their stacks, and with it what a return probe wrote on them.
    pub(crate) is_go: bool,
    functions: Vec<Function>,
    probes: Vec<StaticProbe>,
    build_id: Option<String>,
    /// Whether names of functions that are not exported are missing.
    is_stripped: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Where its first instruction is in the file, in bytes.
    pub(crate) offset: u64,
    /// It chooses another function when the program starts.
    is_chooser: bool,
}

/// A static probe (`<sys/sdt.h>`): one place of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticProbe {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) offset: u64,
    /// Where the count of its users is in the file: the program skips the probe while that is 0.
    pub(crate) counter: Option<u64>,
    pub(crate) arguments: Vec<String>,
}

/// Places of one name at most: a probe is set at each.
const PLACES_MAX: usize = 32;

/// A loaded part of the file: its addresses begin at `address`, its bytes at `offset`.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
}

impl Segment {
    /// The address behind its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    /// By the place in the file, the address in memory.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let at = offset.checked_sub(self.offset).filter(|at| *at < self.bytes)?;
        self.address.checked_add(at)
    }
}

/// By the address in memory, where a byte is in the file.
pub(crate) fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    let within = |one: &&Segment| address.checked_sub(one.address).is_some_and(|at| at < one.bytes);
    segments.iter().find(within).map(|one| address - one.address + one.offset)
}

/// A loaded part of a file.
pub(crate) fn segment<'a>(of: &object::Segment<'a, '_, &'a ReadCache<Content>>) -> Segment {
    let (offset, bytes) = of.file_range();
    Segment { address: of.address(), offset, bytes }
}

/// Hands over the debug file of one without a table of its own, or else the small one that is packed in it; `None` if
/// there is none. `folders` are looked into before those of the system.
pub(crate) fn with_debug_file<T>(
    path: &Path,
    elf: &Elf<'_>,
    folders: &[PathBuf],
    read: impl FnOnce(&Elf<'_>) -> T,
) -> Option<T> {
    if elf.symbol_table().is_some() {
        return None;
    }
    let build_id = elf.build_id().ok().flatten().map(hex);
    let cache = match debug_file(path, elf, build_id.as_deref(), folders) {
        Some(debug) => Content::open(&debug).ok()?,
        None => ReadCache::new(Content::Memory(Cursor::new(packed_symbols(elf)?))),
    };
    object::File::parse(&cache).ok().map(|debug| read(&debug))
}

/// Bytes of a packed debug file that are unpacked at most: those of a browser have 10 MiB.
const PACKED_MAX: u64 = 256 << 20;

/// The ELF file in `.gnu_debugdata`, with which Fedora ships its programs: the names of functions that are not exported.
fn packed_symbols(elf: &Elf<'_>) -> Option<Vec<u8>> {
    let section = elf.section_by_name(".gnu_debugdata")?;
    unpacked(section.data().ok()?.to_vec())
}

fn unpacked(packed: Vec<u8>) -> Option<Vec<u8>> {
    let decoder = XzDecoder::in_heap_with_alloc_dict_size(1 << 20, DICT_SIZE_PROFILE_9);
    let room = NonZeroUsize::new(1 << 16)?;
    let packed = Cursor::new(packed);
    let unpacking = XzReader::new_with_buffer_size_and_decoder(packed, room, decoder);
    let mut bytes = Vec::new();
    unpacking.take(PACKED_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Program {
    /// Reads a file's symbols, and those of its debug file if there is one.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or is no ELF file.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let cache = Content::open(path).map_err(|error| wrong(error.to_string()))?;
        let elf = object::File::parse(&cache)
            .map_err(|_| wrong("not an ELF program or library (a script?)".into()))?;
        let segments: Vec<Segment> = elf.segments().map(|of| segment(&of)).collect();
        let mut functions = BTreeMap::new();
        add(&elf, &segments, &mut functions);
        let build_id = elf.build_id().ok().flatten().map(hex);
        let has_table = elf.symbol_table().is_some();
        let has_debug_table = with_debug_file(path, &elf, &[], |debug| {
            add(debug, &segments, &mut functions);
            debug.symbol_table().is_some()
        });
        let functions = functions.into_iter().map(|((name, offset), is_chooser)| Function {
            name,
            offset,
            is_chooser,
        });
        Ok(Self {
            path: path.to_owned(),
            is_go: [".gopclntab", ".go.buildinfo"]
                .iter()
                .any(|name| elf.section_by_name(name).is_some()),
            functions: functions.collect(),
            probes: static_probes(&elf, &segments),
            build_id,
            is_stripped: !has_table && has_debug_table != Some(true),
        })
    }

    /// The places of a static probe; none if the file has none of this name.
    pub(crate) fn static_probe(&self, name: &str) -> Vec<&StaticProbe> {
        let (provider, name) =
            name.split_once(':').map_or((None, name), |(provider, name)| (Some(provider), name));
        // DTrace spells `__` as a dash.
        let name = name.replace('-', "__");
        let is_it = |probe: &&StaticProbe| {
            probe.name == name && provider.is_none_or(|it| it == probe.provider)
        };
        self.probes.iter().filter(is_it).collect()
    }

    /// Where a function begins in the file, once for each function of this name. C++ and Rust names may be written as in
    /// the source, with parameters or without.
    ///
    /// # Errors
    /// A sentence: there is none, or too many, and what can be done.
    pub(crate) fn function(&self, name: &str) -> Result<Vec<u64>, String> {
        let file = self.path.display();
        let exact: Vec<&Function> = self.functions.iter().filter(|it| it.name == name).collect();
        let by_source = || self.functions.iter().filter(|it| is_called(&it.name, name)).collect();
        let found: Vec<&Function> = if exact.is_empty() { by_source() } else { exact };
        if found.iter().any(|it| it.is_chooser) {
            return Err(format!(
                "{file}: '{name}' only chooses one of several functions when a program starts (an ifunc): name the chosen one"
            ));
        }
        let mut places: Vec<u64> = found.iter().map(|it| it.offset).collect();
        places.sort_unstable();
        places.dedup();
        match places.len() {
            0 => Err(self.missing(name)),
            1..=PLACES_MAX => Ok(places),
            many => Err(format!(
                "{file}: {many} functions are called '{name}': give its parameters too"
            )),
        }
    }

    /// Why a function is not found.
    fn missing(&self, name: &str) -> String {
        let file = self.path.display();
        let mut near: Vec<String> = self
            .functions
            .iter()
            .map(|it| shown(&it.name))
            .filter(|it| it.contains(name))
            .collect();
        near.sort_by_key(String::len);
        near.dedup();
        near.truncate(3);
        let near = match near.is_empty() {
            true => String::new(),
            false => format!("; it has {}", near.join(", ")),
        };
        if self.is_stripped {
            let how = programs::debug_package(&self.path, self.build_id.as_deref());
            let count = self.functions.len();
            return format!(
                "{file}: '{name}' is not among the {count} functions that it exports, and the names of its other functions \
                 were stripped: {how}{near}"
            );
        }
        format!(
            "{file} has no function '{name}' (it may be part of another one): `schedlab record --request-list {file} \
             PATTERN` lists what it has{near}"
        )
    }

    /// What can be named, one a line, static probes first; only names that hold `pattern`.
    pub(crate) fn list(&self, pattern: &str) -> Vec<String> {
        let mut all = Vec::new();
        for probe in &self.probes {
            let mut line = format!("{:<9}{}", "probe", probe.name);
            for (index, argument) in (1..).zip(&probe.arguments) {
                let usable = fetch(argument).map_or(" (not usable)", |_| "");
                let _ = write!(line, " $arg{index}{usable}");
            }
            if probe.name.contains(pattern) || probe.provider.contains(pattern) {
                all.push(line);
            }
        }
        let names = self.functions.iter().filter(|it| !it.is_chooser).map(|it| shown(&it.name));
        let names = names.filter(|name| name.contains(pattern));
        let mut functions: Vec<String> =
            names.map(|name| format!("{:<9}{name}", "function")).collect();
        for list in [&mut all, &mut functions] {
            list.sort();
            list.dedup();
        }
        all.extend(functions);
        all
    }

    /// What [`Self::list`] cannot list.
    pub(crate) fn unlisted(&self) -> Option<String> {
        self.is_stripped.then(|| {
            let how = programs::debug_package(&self.path, self.build_id.as_deref());
            format!(
                "{} is stripped: only what it exports is listed; for the rest, {how}",
                self.path.display()
            )
        })
    }
}

/// Adds the functions of a file, by name and place in the program's file.
fn add(elf: &Elf<'_>, segments: &[Segment], into: &mut BTreeMap<(String, u64), bool>) {
    /// `STT_GNU_IFUNC`.
    const CHOOSER: u8 = 10;
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        // `.symtab` holds versions with the name.
        let name = name.split('@').next().unwrap_or(name);
        let Some(offset) = file_offset(segments, symbol.address()) else { continue };
        let is_chooser = matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info.0 & 0xf == CHOOSER);
        if !name.is_empty() {
            into.insert((name.to_owned(), offset), is_chooser);
        }
    }
}

/// A name as in the source.
fn shown(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    cpp(name, true).unwrap_or_else(|| name.to_owned())
}

fn cpp(name: &str, parameters: bool) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    let options = if parameters { options } else { options.no_params() };
    symbol.demangle_with_options(&options).ok()
}

/// Whether the source calls a function so. Most names are of C: those are told apart before anything is demangled.
fn is_called(mangled: &str, name: &str) -> bool {
    if !mangled.starts_with("_Z") && !mangled.starts_with("_R") {
        return false;
    }
    shown(mangled) == name || cpp(mangled, false).is_some_and(|it| it == name)
}

/// A name as in the source, without the parameters of C++.
pub(crate) fn without_parameters(name: &str) -> String {
    // The older names of Rust look like those of C++, with a hash as their last part.
    match rustc_demangle::try_demangle(name) {
        Ok(rust) => format!("{rust:#}"),
        Err(_) => cpp(name, false).unwrap_or_else(|| name.to_owned()),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Where a file with this build id may lie below a folder, under its own name or that of its debug file.
pub(crate) fn by_build_id(folder: &Path, id: &str, ending: &str) -> Option<PathBuf> {
    let (start, rest) = id.split_at_checked(2)?;
    Some(folder.join(".build-id").join(start).join(format!("{rest}{ending}")))
}

/// The debug file of a program: by its build id, else by its name or `.gnu_debuglink` (a file of the same build).
fn debug_file(
    path: &Path,
    elf: &Elf<'_>,
    build_id: Option<&str>,
    folders: &[PathBuf],
) -> Option<PathBuf> {
    let root = Path::new("/usr/lib/debug");
    if let (Some(id), Some(name)) = (build_id, path.file_name()) {
        let mut debug = name.to_owned();
        debug.push(".debug");
        let of = |folder: &PathBuf| {
            let by_id = by_build_id(folder, id, ".debug");
            by_id.into_iter().chain([folder.join(&debug), folder.join(name)])
        };
        let mut asked = folders.iter().flat_map(of);
        if let Some(found) = asked.find(|place| has_build_id(place, build_id)) {
            return Some(found);
        }
    }
    let by_id = build_id.and_then(|id| by_build_id(root, id, ".debug"));
    if let Some(found) = by_id.filter(|path| path.is_file()) {
        return Some(found);
    }
    let (name, _) = elf.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok().filter(|name| !name.contains('/'))?;
    let dir = path.parent()?;
    let below = dir.strip_prefix("/").unwrap_or(dir);
    let places = [dir.join(name), dir.join(".debug").join(name), root.join(below).join(name)];
    places.into_iter().find(|place| place != path && has_build_id(place, build_id))
}

pub(crate) fn has_build_id(path: &Path, wanted: Option<&str>) -> bool {
    let id = build_id_of_file(path).map(|id| hex(&id));
    id.is_some() && id.as_deref() == wanted
}

/// The build id of a file; `None` if it has none, or is no ELF file.
pub(crate) fn build_id_of_file(path: &Path) -> Option<Vec<u8>> {
    let cache = Content::open(path).ok()?;
    let elf = object::File::parse(&cache).ok()?;
    elf.build_id().ok().flatten().map(<[u8]>::to_vec)
}

/// The notes of `<sys/sdt.h>`: three addresses (the place, the base that a prelinker moves, the count of users), then
/// provider, name and arguments.
fn static_probes(elf: &Elf<'_>, segments: &[Segment]) -> Vec<StaticProbe> {
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Vec::new() };
    let Ok(mut rest) = section.data() else { return Vec::new() };
    let base = elf.section_by_name(".stapsdt.base").map(|section| section.address());
    let little = elf.is_little_endian();
    let word = if elf.is_64() { 8 } else { 4 };
    let mut all = Vec::new();
    while let Some((head, behind)) = rest.split_at_checked(12) {
        let size = |at: usize| number(&head[at..at + 4], little) as usize;
        let Some((_, behind)) = behind.split_at_checked(size(0).next_multiple_of(4)) else { break };
        let Some(body) = behind.get(..size(4)) else { break };
        rest = behind.get(size(4).next_multiple_of(4)..).unwrap_or_default();
        let Some((addresses, texts)) = body.split_at_checked(3 * word) else { continue };
        let address = |index: usize| number(&addresses[index * word..(index + 1) * word], little);
        let moved = base.map_or(0, |base| base.wrapping_sub(address(1)));
        let mut texts =
            texts.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        let (Some(provider), Some(name), Some(arguments)) =
            (texts.next(), texts.next(), texts.next())
        else {
            continue;
        };
        let Some(offset) = file_offset(segments, address(0).wrapping_add(moved)) else { continue };
        let counter = (address(2) != 0)
            .then(|| file_offset(segments, address(2).wrapping_add(moved)))
            .flatten();
        let arguments = split_arguments(&arguments);
        all.push(StaticProbe { provider, name, offset, counter, arguments });
    }
    all
}

fn number(bytes: &[u8], little: bool) -> u64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if little { bytes.iter().rev().fold(0, fold) } else { bytes.iter().fold(0, fold) }
}

/// Arguments stand apart by spaces; on Arm, an address holds spaces between brackets.
fn split_arguments(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in text.split_ascii_whitespace() {
        match all.last_mut() {
            Some(last) if is_open => last.push_str(word),
            _ => all.push(word.to_owned()),
        }
        is_open = (is_open || word.contains('[')) && !word.contains(']');
    }
    all
}

/// How the kernel fetches an argument of a static probe (`SIZE@PLACE`): in a register, or in memory behind one.
pub(crate) fn fetch(argument: &str) -> Option<String> {
    let (size, place) = argument.split_once('@')?;
    let bytes: i32 = size.trim_end_matches('f').parse().ok().filter(|_| !size.ends_with('f'))?;
    let kind = if bytes < 0 { 's' } else { 'u' };
    let bits =
        bytes.unsigned_abs().checked_mul(8).filter(|bits| matches!(bits, 8 | 16 | 32 | 64))?;
    let signed = |text: &str| text.parse::<i64>().ok().map(|offset| format!("{offset:+}"));
    let source =
        if let Some(address) = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let (register, offset) = address.split_once(',').unwrap_or((address, "0"));
            format!("{}({})", signed(offset.trim())?, register_of(register.trim())?)
        } else if let Some((offset, register)) =
            place.strip_suffix(')').and_then(|rest| rest.split_once('('))
        {
            let offset = if offset.is_empty() { "0" } else { offset };
            format!("{}({})", signed(offset)?, register_of(register)?)
        } else {
            register_of(place)?
        };
    Some(format!("{source}:{kind}{bits}"))
}

/// A register as the kernel calls it.
pub(crate) fn register_of(name: &str) -> Option<String> {
    let name = name.strip_prefix('%').unwrap_or(name);
    let kernel = if cfg!(target_arch = "x86_64") {
        x86(name)?
    } else {
        match name.split_at_checked(1) {
            _ if name == "sp" => "sp".to_owned(),
            Some(("x" | "w", number)) if number.parse::<u8>().is_ok_and(|n| n < 31) => {
                format!("x{number}")
            }
            _ => return None,
        }
    };
    Some(format!("%{kernel}"))
}

/// By any of a register's names, as `rdi`, `edi`, `di` and `dil`.
fn x86(name: &str) -> Option<String> {
    let numbered = |rest: &str| {
        let number = rest.trim_end_matches(['d', 'w', 'b']);
        number.parse::<u8>().ok().filter(|n| (8..16).contains(n)).map(|n| format!("r{n}"))
    };
    if let Some(found) = name.strip_prefix('r').and_then(numbered) {
        return Some(found);
    }
    let short = match name.len() {
        3 if name.starts_with(['r', 'e']) => &name[1..],
        3 => name.strip_suffix('l')?,
        _ => name,
    };
    let found = match short {
        "al" | "ax" => "ax",
        "bl" | "bx" => "bx",
        "cl" | "cx" => "cx",
        "dl" | "dx" => "dx",
        "si" | "di" | "bp" | "sp" => short,
        _ => return None,
    };
    Some(found.to_owned())
}

/// The register in which a function gets its argument, counted from 1.
pub(crate) fn argument_register(number: usize) -> Option<String> {
    let names: &[&str] = if cfg!(target_arch = "x86_64") {
        &["%di", "%si", "%dx", "%cx", "%r8", "%r9"]
    } else if cfg!(target_arch = "aarch64") {
        &["%x0", "%x1", "%x2", "%x3", "%x4", "%x5"]
    } else {
        &[]
    };
    names.get(number.checked_sub(1)?).map(|name| (*name).to_owned())
}

/// The register that holds Go's goroutine in its own functions (ABIInternal).
pub(crate) const GOROUTINE: &str = if cfg!(target_arch = "x86_64") { "%r14" } else { "%x28" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_and_nonsense_is_none() {
        // `printf ELF | xz`
        let packed = [
            0xfd, 0x37, 0x7a, 0x58, 0x5a, 0, 0, 4, 0xe6, 0xd6, 0xb4, 0x46, 2, 0, 0x21, 1, 0x16, 0,
            0, 0, 0x74, 0x2f, 0xe5, 0xa3, 1, 0, 2, 0x45, 0x4c, 0x46, 0, 0, 0xe4, 0xed, 0x94, 0x13,
            0xed, 0x0b, 0xfd, 0xe3, 0, 1, 0x1b, 3, 0x0b, 0x2f, 0xb9, 0x10, 0x1f, 0xb6, 0xf3, 0x7d,
            1, 0, 0, 0, 0, 4, 0x59, 0x5a,
        ];
        assert_eq!(unpacked(packed.to_vec()).as_deref(), Some(&b"ELF"[..]));
        for cut in 0..packed.len() {
            // What is whole before the cut may come out; nothing panics.
            let _ = unpacked(packed[..cut].to_vec());
        }
        assert_eq!(unpacked(b"no such thing".to_vec()), None);
    }

    #[test]
    fn older_names_of_rust_lose_their_hash_and_those_of_cpp_their_parameters() {
        assert_eq!(without_parameters("_ZN3std2io4read17h0123456789abcdefE"), "std::io::read");
        assert_eq!(without_parameters("_ZN3std2io4readEi"), "std::io::read");
        assert_eq!(without_parameters("read"), "read");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn arguments_of_static_probes_are_fetched_from_registers_and_memory() {
        for (argument, fetched) in [
            ("8@%rbx", Some("%bx:u64")),
            ("-4@%edi", Some("%di:s32")),
            ("1@%dil", Some("%di:u8")),
            ("4@%r14d", Some("%r14:u32")),
            ("2@12(%r12)", Some("+12(%r12):u16")),
            ("8@-144(%rbp)", Some("-144(%bp):u64")),
            ("4@(%rdi)", Some("+0(%di):u32")),
            ("-4@$3", None),
            ("-4@NBuffers(%rip)", None),
            ("8f@%xmm0", None),
            ("8@%xmm0", None),
            ("8@(%rax,%rbx,4)", None),
            ("", None),
        ] {
            assert_eq!(fetch(argument).as_deref(), fetched, "{argument}");
        }
        assert_eq!(register_of("%r9").as_deref(), Some("%r9"));
        assert_eq!(register_of("r16"), None);
    }

    #[test]
    fn arguments_stand_apart_by_spaces_outside_of_brackets() {
        assert_eq!(split_arguments("8@%rax 4@%esi"), ["8@%rax", "4@%esi"]);
        assert_eq!(split_arguments("8@[sp, 16] -4@x1"), ["8@[sp,16]", "-4@x1"]);
        assert!(split_arguments("").is_empty());
    }

    #[test]
    fn an_address_in_memory_is_another_one_in_the_file() {
        let of = |address, offset, bytes| Segment { address, offset, bytes };
        let segments = [of(0x1000, 0, 0x100), of(0x3dd0, 0x2dd0, 0x248)];
        assert_eq!(file_offset(&segments, 0x3dd8), Some(0x2dd8));
        assert_eq!(file_offset(&segments, 0x1100), None, "beyond what the file holds");
        assert_eq!(file_offset(&segments, 0x10), None);
    }

    #[test]
    fn names_may_be_written_as_in_the_source() {
        assert!(is_called("_ZN2ns4workEic", "ns::work"));
        assert!(is_called("_ZN2ns4workEic", "ns::work(int, char)"));
        assert!(is_called("_ZN3app4work17h0123456789abcdefE", "app::work"));
        assert!(!is_called("work", "wor") && !is_called("_ZN2ns4workEic", "work"));
    }

    /// This test program has functions of Rust in its own table, which the linker placed.
    #[test]
    fn functions_of_a_file_are_found_or_told_to_be_missing() {
        let me = Program::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(!me.is_go && !me.is_stripped);
        assert_eq!(me.function("main").unwrap().len(), 1);
        assert!(me.list("main").contains(&"function main".to_owned()));
        let said = me.function("no_such_function").unwrap_err();
        assert!(said.contains("has no function 'no_such_function'"), "{said}");
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(Program::open(&text).unwrap_err().contains("not an ELF program"));
    }
}
