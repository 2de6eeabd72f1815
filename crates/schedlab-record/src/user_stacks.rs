//! The program's part of stacks: made when the recording ends, while most files that ran are still there.
//!
//! Each sample of a task that went to sleep holds the chain that the kernel found by frame pointers, or a copy of the
//! stack. Either becomes words that say which file and where ([`Word`]); `cpuN.chains` of the spool holds them in the
//! order of the samples. A return address outside of what its process could run ends a stack as cut.

use super::RecordError;
use super::copy::{self, Found};
use super::function_names::is_this;
use super::jit_names::JitNames;
use super::sample::Sample;
use super::spaces::{self, Spaces};
use super::spool::{self, Head};
use super::stacks::by_frame_pointers;
use super::symbols::hex;
use super::unwind::{At, Caller, Place, Stack, Unwinder};
use schedlab_model::{Cpu, Pid};
use schedlab_trace::{Code, MappedFile, SourceFile, Word};
use schedlab_workload::RecordedStacks;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Functions of a program in a stack at most; the kernel's own limit is 127.
const FRAMES_MAX: usize = 127;

/// Makes the chains of all samples; gives where their words lead, and how many stacks are whole.
pub(crate) fn make(
    dir: &Path,
    head: &Head,
    layout: copy::Layout,
    mut spaces: Spaces,
) -> Result<(Code, RecordedStacks), RecordError> {
    spaces.sort();
    let mut maker = Maker::new(&spaces);
    let mut told = RecordedStacks::default();
    for cpu in head.cpus.iter() {
        let path = spool::chains(dir, cpu);
        let mut out = BufWriter::new(spool::create(&path)?);
        let records = spool::records(dir, cpu);
        told.ring_bytes += std::fs::metadata(&records).map_or(0, |data| data.len());
        copy::read(&records, layout, &mut |found| {
            let Found::Stack(sample) = found else { return Ok(()) };
            let words = maker.chain(sample);
            match words.last() {
                Some(last) if *last == Word::Cut.encoded() => told.cut += 1,
                Some(_) => told.whole += 1,
                None => {}
            }
            out.write_all(&(words.len() as u64).to_ne_bytes())?;
            words.iter().try_for_each(|word| out.write_all(&word.to_ne_bytes()))
        })?;
        out.flush().map_err(RecordError::file(&path))?;
    }
    Ok((maker.code(), told))
}

/// The chains of a CPU's samples, in their order.
pub(crate) struct Chains(Option<BufReader<File>>);

impl Chains {
    pub(crate) fn open(dir: &Path, cpu: Cpu) -> Self {
        Self(File::open(spool::chains(dir, cpu)).ok().map(BufReader::new))
    }

    /// The words of the next sample; none where no chains were made.
    pub(crate) fn next(&mut self) -> io::Result<Vec<u64>> {
        let Some(file) = &mut self.0 else { return Ok(Vec::new()) };
        let mut word = || {
            let mut bytes = [0; 8];
            file.read_exact(&mut bytes)?;
            Ok(u64::from_ne_bytes(bytes))
        };
        let count = word()?.min(FRAMES_MAX as u64 + 1);
        (0..count).map(|_| word()).collect()
    }
}

struct Maker<'a> {
    spaces: &'a Spaces,
    unwinder: Unwinder,
    /// Files whose tables were looked for.
    loaded: BTreeSet<usize>,
    /// Files in words, by their numbers in `spaces`.
    numbers: BTreeMap<usize, usize>,
    files: Vec<SourceFile>,
    jit: JitNames,
    /// Numbers of functions that lie in no file.
    named: BTreeMap<String, usize>,
    names: Vec<String>,
}

impl<'a> Maker<'a> {
    fn new(spaces: &'a Spaces) -> Self {
        Self {
            spaces,
            unwinder: Unwinder::new(),
            loaded: BTreeSet::new(),
            numbers: BTreeMap::new(),
            files: Vec::new(),
            jit: JitNames::default(),
            named: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    fn code(self) -> Code {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A file that was written in this second is not taken for another one.
        Code { files: self.files, names: self.names, recorded: now.as_secs() + 1 }
    }

    /// The words of a sample's stack; none if the task has no program.
    fn chain(&mut self, sample: &Sample<'_>) -> Vec<u64> {
        let mut words = Vec::new();
        match sample.user_copy() {
            Some(copy) => {
                let (mut address, stack_at, mut frame) = Unwinder::innermost(&copy.registers);
                let stack = Stack { at: stack_at, bytes: copy.stack };
                loop {
                    let is_first = words.is_empty();
                    let Some(place) = self.add(sample, address, &mut words) else { break };
                    let at = At { address, is_first, place };
                    let caller = self.unwinder.step(at, &mut frame, stack);
                    match caller {
                        Caller::Returns(next) => address = next,
                        Caller::None => break,
                        Caller::Unknown => {
                            words.push(Word::Cut.encoded());
                            break;
                        }
                    }
                }
            }
            None => {
                let mut last = None;
                for address in by_frame_pointers(sample.chain) {
                    let is_first = words.is_empty();
                    let Some(place) = self.add(sample, address, &mut words) else {
                        return words;
                    };
                    last = Some(At { address, is_first, place });
                }
                // The kernel does not say why it stopped: whether a function has a caller is in its table.
                let caller = last.map(|at| self.unwinder.after(at));
                if caller == Some(Caller::Unknown) {
                    words.push(Word::Cut.encoded());
                }
            }
        }
        words
    }

    /// Adds the word of an address; gives its file and the place, if it lies in one. `None`: the stack ends here.
    #[expect(clippy::option_option, reason = "what lies in no file goes on")]
    fn add(
        &mut self,
        sample: &Sample<'_>,
        address: u64,
        words: &mut Vec<u64>,
    ) -> Option<Option<Place>> {
        let found = self.spaces.find(sample.process, address, sample.time.0);
        let place = found.filter(|_| words.len() < FRAMES_MAX);
        let Some((file, offset)) = place else {
            // The innermost one is where the program is, known or not.
            let word = if words.is_empty() { Word::Address(address) } else { Word::Cut };
            words.push(word.encoded());
            return None;
        };
        let source = &self.spaces.files[file];
        if !spaces::is_file(source) {
            let is_return = u64::from(!words.is_empty());
            let call = address.saturating_sub(is_return);
            let word = match self.jit.name(sample.process, call, None) {
                Some(name) => Word::Name(self.number_of(name)),
                None => Word::Address(address),
            };
            words.push(word.encoded());
            return Some(None);
        }
        self.load(file, sample.process);
        let known = self.files.len();
        let number = *self.numbers.entry(file).or_insert(known);
        if number == known {
            self.files.push(source.clone());
        }
        words.push(Word::File { file: number, offset }.encoded());
        Some(Some(Place { file, offset }))
    }

    fn number_of(&mut self, name: String) -> usize {
        let next = self.names.len();
        let number = *self.named.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }

    /// Looks for the tables of a file, once.
    fn load(&mut self, file: usize, process: Pid) {
        if self.loaded.insert(file)
            && let Some(place) = place_of(&self.spaces.files[file], process)
        {
            // Without tables its callers are found by frame pointers.
            let _ = self.unwinder.add(file, &place);
        }
    }
}

/// Where the very file is that a process had mapped: at its path, below the root of its container, or behind the link to
/// its program, which also leads to a file that was deleted.
fn place_of(source: &SourceFile, process: Pid) -> Option<PathBuf> {
    let path = Path::new(&source.path);
    let below = path.strip_prefix("/").unwrap_or(path);
    let places = [
        path.to_owned(),
        Path::new(&format!("/proc/{process}/root")).join(below),
        PathBuf::from(format!("/proc/{process}/exe")),
    ];
    let build_id = source.build_id.as_deref();
    let recorded = Some(SystemTime::now());
    let file = MappedFile { path, build_id, inode: source.inode, recorded };
    let id = build_id.map(hex);
    places.into_iter().find(|place| is_this(place, &file, id.as_deref()))
}
