//! Names of functions as this machine knows them: its kernel's symbols, and those of its programs and libraries.
//!
//! A trace may come from elsewhere. Only the very kernel and the very files give names: by their build ids, or, where a
//! trace tells none, by release, device and inode.

use super::jit_names::JitNames;
use super::symbols::{
    self, Content, Elf, Segment, by_build_id, file_offset, has_build_id, hex, with_debug_file,
    without_parameters,
};
use object::{Object, ObjectSymbol, SymbolKind};
use schedlab_model::Pid;
use schedlab_trace::{Function, FunctionNames, KernelId, MappedFile, Names};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// The names that this machine knows.
#[must_use]
pub fn names_here() -> Names {
    names_here_and_in(Vec::new())
}

/// The same, also by the programs and debug files in these folders: below `.build-id`, by their names, or by their paths.
#[must_use]
pub fn names_here_and_in(folders: Vec<PathBuf>) -> Names {
    Names(Arc::new(Here { folders, ..Here::default() }))
}

#[derive(Debug, Default)]
struct Here {
    folders: Vec<PathBuf>,
    /// Code that compilers made while their programs ran.
    made: Mutex<JitNames>,
    /// The build id and the release of this kernel.
    kernel: OnceLock<(Option<String>, String)>,
}

/// The build id and the release of this kernel.
fn this_kernel() -> (Option<String>, String) {
    let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    (build_id_of(&notes).map(hex), release.trim().to_owned())
}

impl FunctionNames for Here {
    fn kernel(&self, kernel: &KernelId<'_>) -> Result<Vec<u8>, (String, String)> {
        let (here, release) = self.kernel.get_or_init(this_kernel);
        is_same(kernel, here.as_deref(), release)
            .map_err(|why| (why, "read the trace on the machine that recorded it".to_owned()))?;
        let kallsyms = std::fs::read("/proc/kallsyms");
        let kallsyms = kallsyms.map_err(|error| {
            (format!("/proc/kallsyms: {error}"), "run schedlab as root".to_owned())
        })?;
        // Where addresses are hidden, all of them are 0.
        let first = kallsyms.split(|byte| *byte == b' ').next().unwrap_or_default();
        if first.iter().all(|digit| *digit == b'0') {
            return Err((
                "this kernel hides its symbols".to_owned(),
                "set kernel.kptr_restrict to 0, or run schedlab as root".to_owned(),
            ));
        }
        Ok(kallsyms)
    }

    fn functions(&self, file: &MappedFile<'_>) -> Option<Vec<Function>> {
        let id = file.build_id.map(hex);
        let mut places = vec![file.path.to_owned()];
        places.extend(id.as_deref().and_then(kept_by_perf));
        let below = file.path.strip_prefix("/").unwrap_or(file.path);
        for folder in &self.folders {
            places.extend(id.as_deref().and_then(|id| by_build_id(folder, id, "")));
            places.extend(file.path.file_name().map(|name| folder.join(name)));
            places.push(folder.join(below));
        }
        let place = places.into_iter().find(|place| is_this(place, file, id.as_deref()))?;
        functions_of(&place, &self.folders)
    }

    fn made(
        &self,
        kernel: &KernelId<'_>,
        process: Pid,
        address: u64,
        recorded: Option<SystemTime>,
    ) -> Option<String> {
        // On another machine the number is another process.
        let (here, release) = self.kernel.get_or_init(this_kernel);
        is_same(kernel, here.as_deref(), release).ok()?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.name(process, address, recorded)
    }

    fn readable(&self, name: &str) -> String {
        without_parameters(name)
    }
}

/// Whether a trace is of this kernel; if not, why.
fn is_same(kernel: &KernelId<'_>, here: Option<&str>, release: &str) -> Result<(), String> {
    match (kernel.build_id.map(hex), here, kernel.release) {
        (Some(there), Some(here), _) if there == here => Ok(()),
        (Some(there), here, _) => {
            let here = here.unwrap_or("unknown");
            Err(format!(
                "the trace is of the kernel with build id {there}, and this one has {here}"
            ))
        }
        (None, _, Some(there)) if there == release => Ok(()),
        (None, _, Some(there)) => {
            Err(format!("the trace is of kernel {there}, and this one is {release}"))
        }
        (None, _, None) => Err("the trace does not tell its kernel".to_owned()),
    }
}

/// The GNU build id among ELF notes.
fn build_id_of(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: usize = 3;
    while let Some((head, body)) = notes.split_first_chunk::<12>() {
        let word = |at: usize| {
            u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        let begin = word(0).next_multiple_of(4);
        let size = word(4);
        let content = body.get(begin..begin.checked_add(size)?)?;
        if word(8) == NT_GNU_BUILD_ID && body.starts_with(b"GNU\0") {
            return Some(content);
        }
        notes = body.get(begin + size.next_multiple_of(4)..)?;
    }
    None
}

/// Where `perf record` keeps a copy of a file.
fn kept_by_perf(build_id: &str) -> Option<PathBuf> {
    let (start, rest) = build_id.split_at_checked(2)?;
    let home = PathBuf::from(std::env::var_os("HOME")?);
    Some(home.join(".debug/.build-id").join(start).join(rest).join("elf"))
}

/// Whether the file at `place` is the one that was mapped.
pub(crate) fn is_this(place: &Path, file: &MappedFile<'_>, build_id: Option<&str>) -> bool {
    if build_id.is_some() {
        return has_build_id(place, build_id);
    }
    let (Some((major, minor, inode)), Some(recorded), Ok(meta)) =
        (file.inode, file.recorded, std::fs::metadata(place))
    else {
        return false;
    };
    let changed = u64::try_from(meta.ctime()).unwrap_or(0);
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(changed);
    // A file that was written anew may have the number of the old one.
    (numbers(meta.dev()), meta.ino()) == ((major, minor), inode) && inode > 0 && changed < recorded
}

/// The numbers of a device in a `dev_t`.
const fn numbers(device: u64) -> (u32, u32) {
    let major = device >> 8 & 0xfff | device >> 32 & !0xfff;
    let minor = device & 0xff | device >> 12 & !0xff;
    (major as u32, minor as u32)
}

/// The functions of a file and of its debug file, by their places in the file.
fn functions_of(path: &Path, folders: &[PathBuf]) -> Option<Vec<Function>> {
    let cache = Content::open(path).ok()?;
    let elf = object::File::parse(&cache).ok()?;
    let segments: Vec<Segment> = elf.segments().map(|of| symbols::segment(&of)).collect();
    let mut all = Vec::new();
    add(&elf, &segments, &mut all);
    with_debug_file(path, &elf, folders, |debug| add(debug, &segments, &mut all));
    all.sort_by(|a, b| a.offset.cmp(&b.offset).then_with(|| preference(a).cmp(&preference(b))));
    all.dedup_by_key(|of| of.offset);
    Some(all)
}

/// Of several names of one function, the least is the one that programs call it by.
fn preference(of: &Function) -> impl Ord + '_ {
    let underscores = of.name.bytes().take_while(|byte| *byte == b'_').count();
    (of.size == 0, underscores, of.name.len(), &of.name)
}

/// Functions of a file at most: a browser has a million.
const FUNCTIONS_MAX: usize = 4 << 20;

/// Adds the functions of a file's tables.
fn add(elf: &Elf<'_>, segments: &[Segment], into: &mut Vec<Function>) {
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if into.len() == FUNCTIONS_MAX {
            break;
        }
        let is_function = symbol.kind() == SymbolKind::Text && !symbol.is_undefined();
        let Some(Ok(name)) = is_function.then(|| symbol.name()) else { continue };
        // `.symtab` holds versions with the name.
        let name = name.split('@').next().unwrap_or(name);
        if let (Some(offset), false) = (file_offset(segments, symbol.address()), name.is_empty()) {
            into.push(Function { offset, size: symbol.size(), name: name.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_the_same_by_its_build_id_and_else_by_its_release() {
        let of = |build_id, release| KernelId { build_id, release };
        let same = |id: &KernelId<'_>| is_same(id, Some("0aff"), "6.1");
        assert_eq!(same(&of(Some(&[10, 255]), None)), Ok(()));
        assert_eq!(same(&of(None, Some("6.1"))), Ok(()));
        let other = same(&of(Some(&[10, 254]), Some("6.1"))).unwrap_err();
        assert!(other.contains("0afe") && other.contains("0aff"), "{other}");
        assert!(same(&of(None, Some("6.2"))).unwrap_err().contains("6.2"));
        assert!(same(&of(None, None)).is_err());
        assert!(is_same(&of(Some(&[1]), None), None, "").is_err());
    }

    #[test]
    fn the_build_id_is_the_note_of_gnu_among_others() {
        let note = |name: &[u8; 4], kind: u32, content: &[u8]| {
            let numbers = [4, content.len() as u32, kind].map(u32::to_ne_bytes).concat();
            [numbers, name.to_vec(), content.to_vec()].concat()
        };
        let notes = [note(b"Xen\0", 3, &[9; 4]), note(b"GNU\0", 3, &[1, 2, 3, 4])].concat();
        assert_eq!(build_id_of(&notes), Some(&[1, 2, 3, 4][..]));
        for end in 0..notes.len() {
            assert_eq!(build_id_of(&notes[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn functions_are_those_of_this_very_file() {
        let me = std::env::current_exe().unwrap();
        let meta = std::fs::metadata(&me).unwrap();
        let (major, minor) = numbers(meta.dev());
        let inode = Some((major, minor, meta.ino()));
        let recorded = Some(SystemTime::now() + Duration::from_secs(1));
        let file = MappedFile { path: &me, build_id: None, inode, recorded };
        let functions = Here::default().functions(&file).unwrap();
        assert!(functions.iter().any(|of| of.name == "main" && of.size > 0));
        assert!(functions.is_sorted_by_key(|of| of.offset));
        let old = MappedFile { recorded: Some(SystemTime::UNIX_EPOCH), ..file };
        assert!(Here::default().functions(&old).is_none(), "it was written after the recording");
        let other = MappedFile { build_id: Some(&[1; 20]), ..file };
        assert!(Here::default().functions(&other).is_none(), "its build id is another");
        let unknown = MappedFile { inode: None, ..file };
        assert!(
            Here::default().functions(&unknown).is_none(),
            "the trace does not tell which file it is"
        );
    }
}
