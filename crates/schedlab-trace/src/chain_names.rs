//! Names for the call chains of a perf.data: which file lay at an address, and what its functions are called.
//!
//! The reader says what was mapped where and when, in the file's order; chains are spelt when somebody asks for their
//! text. Memory comes out of the file's budget: what it refuses has no name.

use crate::address_spaces::{AddressSpaces, SourceFile};
use crate::budget::Budget;
use crate::call_chain::{CONTEXTS, IN_KERNEL, IN_USER};
use crate::code::{CUT, Code, Word};
use crate::function_names::{Function, KERNEL, KernelId, MappedFile, Names};
use crate::symbols::Symbols;
use schedlab_model::{Pid, Warning};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Bytes that a mapping, a process or a file takes beside its name.
const ENTRY: u64 = 112;
/// Functions that begin before an address and may hold it: small ones lie inside large ones.
const HOLDING_MAX: usize = 8;

#[derive(Debug)]
struct MappedSource {
    source: SourceFile,
    /// `None`: nobody asked yet. Ascending.
    functions: Option<Vec<Function>>,
}

/// The kernel's own text.
#[derive(Debug, Default)]
struct Kernel {
    build_id: Option<Vec<u8>>,
    release: Option<String>,
    /// Where its text begins and ends, and the symbol at its beginning with its address there.
    text: Option<(u64, u64)>,
    reference: Option<(String, u64)>,
    /// `None`: nobody asked yet.
    symbols: Option<Symbols>,
    /// To be added to an address, for the one in `symbols`.
    moved: u64,
    /// Functions of each module.
    modules: BTreeMap<String, Symbols>,
}

#[derive(Debug, Default)]
struct Known {
    spaces: AddressSpaces,
    files: Vec<MappedSource>,
    numbers: BTreeMap<SourceFile, usize>,
    build_ids: BTreeMap<String, Vec<u8>>,
    kernel: Kernel,
    /// Functions that lie in no file, in the order of our own recording.
    listed: Vec<String>,
    is_own: bool,
    /// Names as in the source, by file and function.
    readable: BTreeMap<(usize, usize), Arc<str>>,
    /// Files without names that addresses lay in.
    unnamed: BTreeSet<usize>,
    notes: Vec<Warning>,
}

/// Names of what lies in the chains of one perf.data. Shared by who reads and who spells.
#[derive(Debug)]
pub(crate) struct ChainNames {
    budget: Arc<Budget>,
    names: Option<Names>,
    recorded: Option<SystemTime>,
    known: Mutex<Known>,
}

impl ChainNames {
    pub(crate) fn new(
        budget: &Arc<Budget>,
        names: Option<Names>,
        recorded: Option<SystemTime>,
    ) -> Self {
        Self { budget: Arc::clone(budget), names, recorded, known: Mutex::default() }
    }

    /// Names for the words of our own recordings.
    pub(crate) fn of_code(budget: &Arc<Budget>, names: Option<Names>, code: &Code) -> Self {
        let recorded = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(code.recorded));
        let files = code.files.iter().cloned();
        let files = files.map(|source| MappedSource { source, functions: None }).collect();
        let known = Known { files, listed: code.names.clone(), is_own: true, ..Known::default() };
        Self { known: Mutex::new(known), ..Self::new(budget, names, recorded) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What a panic left behind is still a list of mappings.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the head says of the kernel and of files.
    pub(crate) fn tell_head(&self, build_ids: &[(bool, String, Vec<u8>)], release: Option<&str>) {
        let mut known = self.known();
        known.kernel.release = release.map(str::to_owned);
        for (in_kernel, path, id) in build_ids {
            if *in_kernel && path.starts_with('[') {
                known.kernel.build_id = Some(id.clone());
            } else if !known.build_ids.contains_key(path)
                && self.budget.take(ENTRY + path.len() as u64)
            {
                known.build_ids.insert(path.clone(), id.clone());
            }
        }
    }

    /// A process, or the kernel, mapped a part of a file.
    pub(crate) fn mapped(
        &self,
        pid: Pid,
        since: u64,
        range: (u64, u64),
        offset: u64,
        of: SourceFile,
    ) {
        let mut known = self.known();
        let known = &mut *known;
        if pid == KERNEL
            && let Some((_, symbol)) = of.path.split_once("[kernel.kallsyms]")
        {
            known.kernel.text = Some((range.0, range.0.saturating_add(range.1)));
            known.kernel.reference = Some((symbol.to_owned(), offset));
            known.kernel.build_id = of.build_id.or(known.kernel.build_id.take());
            return;
        }
        if !self.budget.take(ENTRY) {
            return;
        }
        let file = match known.numbers.get(&of) {
            Some(file) => *file,
            None if self.budget.take(2 * (ENTRY + of.path.len() as u64)) => {
                known.numbers.insert(of.clone(), known.files.len());
                known.files.push(MappedSource { source: of, functions: None });
                known.files.len() - 1
            }
            None => return,
        };
        known.spaces.mapped(pid, since, range.0, range.1, offset, file);
    }

    /// A process began, with the mappings of its parent, or ran another program, without any.
    pub(crate) fn began(&self, pid: Pid, at: u64, parent: Option<Pid>) {
        // Perf tells of those that were there before, without a time.
        if at > 0 && self.budget.take(ENTRY) {
            self.known().spaces.began(pid, at, parent);
        }
    }

    /// The names of a chain's functions, `<-` between them: the kernel's, then the process's.
    pub(crate) fn spell(
        &self,
        pid: Pid,
        time: u64,
        chain: impl Iterator<Item = u64>,
        text: &mut String,
    ) {
        let mut known = self.known();
        let mut context = None;
        let mut first = true;
        let mut is_return = false;
        for word in chain {
            if word >= CONTEXTS {
                context = Some(word);
                continue;
            }
            let in_kernel = match context {
                Some(IN_KERNEL) => true,
                Some(IN_USER) => false,
                // A guest's, or what is told later.
                Some(_) => continue,
                None => word >> 63 == 1,
            };
            text.push_str(if first { "" } else { "<-" });
            first = false;
            let named = match in_kernel {
                true => self.in_kernel(&mut known, word, time, text),
                false => self.in_process(&mut known, word, pid, time, is_return, text),
            };
            is_return |= !in_kernel;
            if named.is_none() {
                // Writing to a String cannot fail.
                let _ = write!(text, "{word:#x}");
            }
        }
    }

    /// The name of a word of our own recordings that lies in a program; the first one of a stack is no return address.
    pub(crate) fn spell_word(&self, word: u64, is_return: bool, text: &mut String) {
        let mut known = self.known();
        match Word::of(word) {
            Word::File { file, offset } => {
                if self.in_file(&mut known, file, offset, is_return, text).is_none() {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{offset:#x}");
                }
            }
            Word::Name(name) => push(known.listed.get(name).map_or("?", String::as_str), text),
            Word::Cut => text.push_str(CUT),
            Word::Kernel(address) | Word::Address(address) => {
                let _ = write!(text, "{address:#x}");
            }
        }
    }

    fn in_kernel(
        &self,
        known: &mut Known,
        address: u64,
        time: u64,
        text: &mut String,
    ) -> Option<()> {
        if known.kernel.symbols.is_none() {
            let symbols = self.kernel(known, None);
            known.kernel.symbols = Some(symbols);
        }
        let kernel = &known.kernel;
        let (start, end) = kernel.text?;
        if (start..end).contains(&address) {
            let name = kernel.symbols.as_ref()?.name(address.wrapping_add(kernel.moved))?;
            push(name, text);
            return Some(());
        }
        if kernel.symbols.as_ref()?.is_empty() {
            return None;
        }
        let (file, _) = known.spaces.find(KERNEL, address, time)?;
        let path = &known.files.get(file)?.source.path;
        let module = module_of(path)?;
        if !known.kernel.modules.contains_key(&module) {
            let symbols = self.kernel(known, Some(&module));
            known.kernel.modules.insert(module.clone(), symbols);
        }
        let name = known.kernel.modules.get(&module)?.name(address)?;
        push(name, text);
        Some(())
    }

    /// The kernel's functions, or a module's. Notes why there are none.
    fn kernel(&self, known: &mut Known, module: Option<&str>) -> Symbols {
        let Some(Names(names)) = &self.names else { return Symbols::default() };
        let Kernel { build_id, release, reference, .. } = &known.kernel;
        let id = KernelId { build_id: build_id.as_deref(), release: release.as_deref() };
        let unnamed = |why: &str, remedy: &str| {
            let what = format!("the kernel's functions in stacks are addresses: {why}");
            Warning::new("stacks-unnamed", what, remedy)
        };
        let mut kallsyms = match names.kernel(&id) {
            Ok(text) => text,
            Err((why, remedy)) => {
                known.notes.push(unnamed(&why, &remedy));
                return Symbols::default();
            }
        };
        if let Some(module) = module {
            let end = format!("[{module}]");
            let is_its = |line: &&[u8]| line.ends_with(end.as_bytes());
            let lines: Vec<&[u8]> = kallsyms.split(|byte| *byte == b'\n').filter(is_its).collect();
            kallsyms = lines.join(&b'\n');
        }
        // An entry beside its line.
        if !self.budget.take(2 * kallsyms.len() as u64) {
            return Symbols::default();
        }
        let symbols = Symbols::parse(&kallsyms);
        if module.is_some() {
            return symbols;
        }
        let there = reference.as_ref().and_then(|(name, there)| {
            let here = Symbols::beginning(&kallsyms, name)?;
            Some(here.wrapping_sub(*there))
        });
        match there {
            Some(moved) => {
                known.kernel.moved = moved;
                symbols
            }
            None => {
                let why = "the trace does not say where the kernel lay";
                known.notes.push(unnamed(why, "record as root, with kernel.kptr_restrict at 0"));
                Symbols::default()
            }
        }
    }

    fn in_process(
        &self,
        known: &mut Known,
        address: u64,
        pid: Pid,
        time: u64,
        is_return: bool,
        text: &mut String,
    ) -> Option<()> {
        let found = known.spaces.find(pid, address, time);
        let is_file = |(file, _): &(usize, u64)| {
            known.files.get(*file).is_some_and(|of| is_on_disk(&of.source.path))
        };
        if !found.as_ref().is_some_and(is_file)
            && let Some(Names(names)) = &self.names
        {
            let Kernel { build_id, release, .. } = &known.kernel;
            let kernel = KernelId { build_id: build_id.as_deref(), release: release.as_deref() };
            let call = address.saturating_sub(is_return.into());
            if let Some(name) = names.made(&kernel, pid, call, self.recorded) {
                push(&name, text);
                return Some(());
            }
        }
        let (file, offset) = found?;
        self.in_file(known, file, offset, is_return, text)
    }

    /// A return address may lie behind the function that called: the call is before it.
    fn in_file(
        &self,
        known: &mut Known,
        file: usize,
        offset: u64,
        is_return: bool,
        text: &mut String,
    ) -> Option<()> {
        if known.files.get(file)?.functions.is_none() {
            let functions = self.functions(known, file);
            known.files[file].functions = Some(functions);
        }
        let MappedSource { source, functions } = &known.files[file];
        let functions = functions.as_deref().unwrap_or_default();
        let Some(index) = holding(functions, offset.saturating_sub(is_return.into())) else {
            if functions.is_empty() && source.path.starts_with('/') {
                known.unnamed.insert(file);
            }
            push(short(&source.path), text);
            let _ = write!(text, "+{offset:#x}");
            return Some(());
        };
        if let Some(name) = known.readable.get(&(file, index)) {
            text.push_str(name);
            return Some(());
        }
        let mut spelt = String::new();
        let name = &functions[index].name;
        match &self.names {
            Some(Names(names)) => push(&names.readable(name), &mut spelt),
            None => push(name, &mut spelt),
        }
        text.push_str(&spelt);
        if self.budget.take(ENTRY + spelt.len() as u64) {
            known.readable.insert((file, index), spelt.into());
        }
        Some(())
    }

    fn functions(&self, known: &Known, file: usize) -> Vec<Function> {
        let (Some(Names(names)), Some(of)) = (&self.names, known.files.get(file)) else {
            return Vec::new();
        };
        let SourceFile { path, build_id, inode } = &of.source;
        if !path.starts_with('/') {
            return Vec::new();
        }
        let build_id = build_id.as_deref().or(known.build_ids.get(path).map(Vec::as_slice));
        let path = PathBuf::from(path);
        let recorded = self.recorded;
        let asked = MappedFile { path: &path, build_id, inode: *inode, recorded };
        let mut functions = names.functions(&asked).unwrap_or_default();
        let bytes = |of: &Function| (size_of::<Function>() + of.name.capacity()) as u64;
        if !self.budget.take(functions.iter().map(bytes).sum()) {
            return Vec::new();
        }
        functions.sort_unstable();
        functions
    }

    /// Why functions have no names, each reason once; of files, when all chains were spelt.
    pub(crate) fn notes(&self, ended: bool) -> Vec<Warning> {
        let mut known = self.known();
        let mut notes = std::mem::take(&mut known.notes);
        if !ended {
            return notes;
        }
        let unnamed = std::mem::take(&mut known.unnamed);
        let names: BTreeSet<&str> =
            unnamed.iter().map(|file| short(&known.files[*file].source.path)).collect();
        if self.names.is_some() && !names.is_empty() {
            let listed = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(5);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let what = format!(
                "functions of {listed}{more} are addresses: this machine does not have these files, or they have no symbols"
            );
            let remedy = match known.is_own {
                true => "install their debug symbols, or read the trace where it was recorded",
                false => {
                    "install their debug symbols; record with `perf record --buildid-all` to tell the files"
                }
            };
            notes.push(Warning::new("files-unnamed", what, remedy));
        }
        notes
    }
}

/// The function that holds a place of its file.
fn holding(functions: &[Function], offset: u64) -> Option<usize> {
    let behind = functions.partition_point(|of| of.offset <= offset);
    let holds = |index: &usize| offset - functions[*index].offset < functions[*index].size.max(1);
    (behind.saturating_sub(HOLDING_MAX)..behind).rev().find(holds)
}

/// Whether code at a path was compiled before the program ran: memory of a compiler has no file, or one without a name.
fn is_on_disk(path: &str) -> bool {
    path.starts_with('/')
        && !["//anon", "/memfd:", "/dev/zero", "/anon_hugepage"]
            .iter()
            .any(|of| path.starts_with(of))
}

/// The name of a file without its folders.
fn short(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.strip_suffix(" (deleted)").unwrap_or(name)
}

/// The module whose file this is, as `/proc/kallsyms` calls it.
fn module_of(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let name = name.split(".ko").next()?;
    (!name.is_empty()).then(|| name.replace('-', "_"))
}

/// Appends a name, without the characters that separate names in a stack.
fn push(name: &str, text: &mut String) {
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once("<-") {
        text.extend(before.chars().map(plain));
        text.push_str("< -");
        rest = behind;
    }
    text.extend(rest.chars().map(plain));
}

fn plain(c: char) -> char {
    if c.is_control() || c == ';' { ' ' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> ChainNames {
        ChainNames::new(&Budget::new(0), None, None)
    }

    fn map(names: &ChainNames, pid: i32, since: u64, start: u64, path: &str) {
        let source = SourceFile { path: path.into(), build_id: None, inode: None };
        names.mapped(Pid(pid), since, (start, 0x1000), 0, source);
    }

    fn at(names: &ChainNames, pid: i32, time: u64, address: u64) -> String {
        let mut text = String::new();
        names.spell(Pid(pid), time, [IN_USER, address].into_iter(), &mut text);
        text
    }

    #[test]
    fn an_address_belongs_to_what_was_mapped_there_at_the_time() {
        let names = names();
        map(&names, 7, 0, 0x1000, "/bin/old");
        map(&names, 7, 50, 0x1000, "/bin/new");
        map(&names, 7, 60, 0x1800, "/bin/above");
        assert_eq!(at(&names, 7, 49, 0x1010), "old+0x10");
        assert_eq!(at(&names, 7, 50, 0x1010), "new+0x10");
        assert_eq!(at(&names, 7, 59, 0x1900), "new+0x900");
        assert_eq!(at(&names, 7, 60, 0x1900), "above+0x100", "it lies on a part of the other");
        assert_eq!(at(&names, 7, 60, 0x2800), "0x2800");
        assert_eq!(at(&names, 8, 60, 0x1010), "0x1010", "another process");
    }

    #[test]
    fn a_process_begins_with_its_parents_mappings_and_a_program_without() {
        let names = names();
        map(&names, 7, 10, 0x1000, "/bin/sh");
        names.began(Pid(8), 20, Some(Pid(7)));
        map(&names, 7, 30, 0x1000, "/lib/late");
        names.began(Pid(8), 40, None);
        map(&names, 8, 41, 0x5000, "/bin/ls");
        assert_eq!(at(&names, 8, 35, 0x1004), "sh+0x4", "as it was when it began");
        assert_eq!(at(&names, 8, 45, 0x1004), "0x1004");
        assert_eq!(at(&names, 8, 45, 0x5004), "ls+0x4");
        // The number is given to another process.
        names.began(Pid(8), 60, Some(Pid(9)));
        assert_eq!(at(&names, 8, 61, 0x5004), "0x5004");
        names.began(Pid(9), 60, Some(Pid(9)));
        assert_eq!(at(&names, 9, 61, 0x5004), "0x5004", "a process is not its own parent");
    }

    #[test]
    fn what_the_budget_refuses_has_no_name() {
        let budget = Budget::new(0);
        let names = ChainNames::new(&budget, None, None);
        map(&names, 7, 0, 0x1000, "/bin/sh");
        assert!(budget.take(budget.left()));
        map(&names, 7, 0, 0x9000, "/bin/sh");
        map(&names, 7, 0, 0xa000, "/bin/ls");
        names.began(Pid(7), 10, None);
        assert_eq!(at(&names, 7, 20, 0x1004), "sh+0x4");
        assert_eq!(
            [0x9004, 0xa004].map(|address| at(&names, 7, 20, address)),
            ["0x9004", "0xa004"]
        );
    }

    /// Knows the functions that one process made.
    #[derive(Debug)]
    struct Made;

    impl crate::FunctionNames for Made {
        fn kernel(&self, _: &KernelId<'_>) -> Result<Vec<u8>, (String, String)> {
            Err((String::new(), String::new()))
        }

        fn functions(&self, _: &MappedFile<'_>) -> Option<Vec<Function>> {
            None
        }

        fn made(
            &self,
            _: &KernelId<'_>,
            process: Pid,
            address: u64,
            _: Option<SystemTime>,
        ) -> Option<String> {
            (process == Pid(7) && address & 0xfff == 4).then(|| "made while it ran".to_owned())
        }

        fn readable(&self, name: &str) -> String {
            name.to_owned()
        }
    }

    #[test]
    fn code_that_is_in_no_file_has_the_name_that_its_compiler_gave() {
        let names = ChainNames::new(&Budget::new(0), Some(Names(Arc::new(Made))), None);
        map(&names, 7, 0, 0x1000, "//anon");
        map(&names, 7, 0, 0x5000, "/bin/node");
        map(&names, 8, 0, 0x1000, "//anon");
        assert_eq!(at(&names, 7, 9, 0x1004), "made while it ran");
        assert_eq!(at(&names, 7, 9, 0x1005), "anon+0x5", "the compiler does not know it");
        assert_eq!(at(&names, 7, 9, 0x5004), "node+0x4", "it lies in a file");
        assert_eq!(at(&names, 7, 9, 0x9004), "made while it ran", "its mapping was not told");
        assert_eq!(at(&names, 8, 9, 0x1004), "anon+0x4", "another process");
    }

    #[test]
    fn a_module_is_called_as_the_kernel_calls_it() {
        let of = |path| module_of(path);
        assert_eq!(of("/lib/modules/6.1/kernel/nf-tables.ko.xz").as_deref(), Some("nf_tables"));
        assert_eq!(of("[kvm_intel]").as_deref(), Some("kvm_intel"));
        assert_eq!(of(""), None);
    }
}
