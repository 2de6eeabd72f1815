//! From a copied stack to its callers, by the tables that compilers leave for exceptions (`.eh_frame`), with the crate
//! `framehop`; where a file has none, by frame pointers.
//!
//! All files lie in one made-up address space, each once: how a frame is unwound depends on the place in its file, not on
//! where its process had the file. So files and rules are shared by all processes.

use super::symbols::{Content, Segment, segment};
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module,
    UnwindRegsNative, Unwinder as _, UnwinderNative,
};
use object::{CompressionFormat, Object as _, ObjectSection};
use schedlab_sys::perf::UserStack;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// Addresses of the made-up space that each file has; what lies higher in a file is not unwound.
const SPAN: u64 = 1 << 32;
/// Where the made-up space begins: programs have lower addresses.
const MADE_UP: u64 = 1 << 48;
/// Bytes of tables that are held, over all files.
const TABLES_MAX: u64 = 512 << 20;

/// The registers behind a frame.
#[derive(Clone, Copy)]
pub(crate) struct Frame(UnwindRegsNative);

/// The address of a frame, and where in a file it lies; `None` outside files.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) address: u64,
    /// Whether it is the innermost one; the others are where a function returns to.
    pub(crate) is_first: bool,
    pub(crate) place: Option<Place>,
}

/// An offset in the file of this number.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) file: usize,
    pub(crate) offset: u64,
}

/// The copy of a stack, from this address on.
#[derive(Clone, Copy)]
pub(crate) struct Stack<'c> {
    pub(crate) at: u64,
    pub(crate) bytes: &'c [u8],
}

/// What follows a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The address to which the function returns.
    Returns(u64),
    /// It is the outermost one.
    None,
    /// Nobody knows: the copy ends, or a table is missing.
    Unknown,
}

/// Tables of files.
pub(crate) struct Unwinder {
    inner: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// Of files that could be read.
    segments: BTreeMap<usize, Vec<Segment>>,
    room: u64,
}

impl Unwinder {
    pub(crate) fn new() -> Self {
        let inner = UnwinderNative::new();
        let cache = CacheNative::new();
        Self { inner, cache, segments: BTreeMap::new(), room: TABLES_MAX }
    }

    /// Reads the tables of the file with this number.
    pub(crate) fn add(&mut self, file: usize, path: &Path) -> Option<()> {
        let cache = Content::open(path).ok()?;
        let elf = object::File::parse(&cache).ok()?;
        let segments: Vec<Segment> = elf.segments().map(|of| segment(&of)).collect();
        let end = segments.iter().map(Segment::end).max()?.min(SPAN - 1);
        let mut section = |name: &str| {
            let section = elf.section_by_name(name)?;
            self.room = self.room.checked_sub(section.size())?;
            let data = unpacked(&section, &mut self.room)?;
            let start = section.address();
            Some((start..start.checked_add(data.len() as u64)?, data))
        };
        let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
        let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
        let debug_frame = section(".debug_frame").map(|(_, data)| data);
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            debug_frame,
            ..ExplicitModuleSectionInfo::default()
        };
        let base = base(file)?;
        let name = path.display().to_string();
        self.inner.add_module(Module::new(name, base..base + end, base, sections));
        self.segments.insert(file, segments);
        Some(())
    }

    /// The address of a place in the made-up space; `None` where its file has no tables.
    fn placed(&self, Place { file, offset }: Place) -> Option<u64> {
        let segments = self.segments.get(&file)?;
        let address = segments.iter().find_map(|of| of.address_of(offset))?;
        (address < SPAN).then(|| base(file)?.checked_add(address)).flatten()
    }

    /// The address at which a program went into the kernel, its stack pointer, and its registers.
    pub(crate) fn innermost(registers: &[u64; UserStack::REGISTERS]) -> (u64, u64, Frame) {
        #[cfg(target_arch = "x86_64")]
        let (address, stack, regs) = match *registers {
            [frame, stack, address] => {
                (address, stack, UnwindRegsNative::new(address, stack, frame))
            }
        };
        #[cfg(target_arch = "aarch64")]
        let (address, stack, regs) = match *registers {
            [frame, back, stack, address] => {
                let mask = framehop::aarch64::PtrAuthMask(MADE_UP - 1);
                let regs = UnwindRegsNative::new_with_ptr_auth_mask(mask, back, stack, frame);
                (address, stack, regs)
            }
        };
        (address, stack, Frame(regs))
    }

    /// What follows a frame of which nothing but its address is known.
    pub(crate) fn after(&mut self, at: At) -> Caller {
        let (_, _, mut frame) = Self::innermost(&[MADE_UP - 1; UserStack::REGISTERS]);
        match self.step(at, &mut frame, Stack { at: 0, bytes: &[] }) {
            Caller::None => Caller::None,
            // With registers that lead nowhere, what has a caller cannot tell it.
            Caller::Returns(_) | Caller::Unknown => Caller::Unknown,
        }
    }

    /// Goes from a frame to its caller.
    pub(crate) fn step(
        &mut self,
        At { address, is_first, place }: At,
        Frame(regs): &mut Frame,
        stack: Stack<'_>,
    ) -> Caller {
        let placed = place.and_then(|place| self.placed(place)).unwrap_or(address);
        let at = match is_first {
            true => FrameAddress::from_instruction_pointer(placed),
            false => match FrameAddress::from_return_address(placed) {
                Some(at) => at,
                None => return Caller::None,
            },
        };
        let mut read = |address: u64| {
            let from = usize::try_from(address.checked_sub(stack.at).ok_or(())?).map_err(drop)?;
            let word = stack.bytes.get(from..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            Ok(u64::from_ne_bytes(*word))
        };
        match self.inner.unwind_frame(at, regs, &mut self.cache, &mut read) {
            Ok(Some(address)) => Caller::Returns(without_signature(address)),
            Ok(None) => Caller::None,
            Err(_) => Caller::Unknown,
        }
    }
}

/// A return address as it is in memory. AArch64 may sign it in the bits that no address of a program has; framehop strips
/// them by the mask of the registers, but not where a table is too complex for a rule.
const fn without_signature(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & (MADE_UP - 1) } else { address }
}

/// A section's bytes. Those of Go's `.debug_frame` are packed.
fn unpacked<'a>(section: &impl ObjectSection<'a>, room: &mut u64) -> Option<Vec<u8>> {
    let packed = section.compressed_data().ok()?;
    match packed.format {
        CompressionFormat::None => Some(packed.data.to_vec()),
        CompressionFormat::Zlib => {
            *room = room.checked_sub(packed.uncompressed_size)?;
            let mut data = Vec::new();
            let unpacking = flate2::read::ZlibDecoder::new(packed.data);
            unpacking.take(packed.uncompressed_size).read_to_end(&mut data).ok()?;
            Some(data)
        }
        _ => None,
    }
}

/// Where the file with this number begins.
fn base(file: usize) -> Option<u64> {
    (file as u64).checked_mul(SPAN)?.checked_add(MADE_UP)
}

#[cfg(test)]
mod tests {
    use super::super::symbols::Program;
    use super::*;

    /// The frame pointer and the stack pointer at their places, and a return address that the innermost frame may use.
    fn registers(frame: u64, stack: u64, back: u64) -> [u64; UserStack::REGISTERS] {
        #[cfg(target_arch = "x86_64")]
        let all = {
            let _ = back;
            [frame, stack, 0x10]
        };
        #[cfg(target_arch = "aarch64")]
        let all = [frame, back, stack, 0x10];
        all
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn frame_pointers_lead_to_callers_and_signed_addresses_lose_their_signature() {
        let at = 0x7fff_0000;
        let signed = if cfg!(target_arch = "aarch64") { 0x00b5 << 48 } else { 0 };
        let stack = bytes(&[7, 8, at + 32, signed | 0x5000, at + 48, 0x6000, 0, 0]);
        let (address, stack_at, mut frame) = Unwinder::innermost(&registers(at + 16, at, 0x4000));
        assert_eq!((address, stack_at), (0x10, at));
        let mut unwinder = Unwinder::new();
        let mut step = |address, is_first| {
            let at = At { address, is_first, place: None };
            unwinder.step(at, &mut frame, Stack { at: stack_at, bytes: &stack })
        };
        assert_eq!(step(address, true), Caller::Returns(0x5000));
        assert_eq!(step(0x5000, false), Caller::Returns(0x6000));
        assert_eq!(step(0x6000, false), Caller::None);
    }

    /// This test program has tables, which its compiler and its C library wrote.
    #[test]
    fn tables_tell_who_called_a_function_that_has_just_begun_and_which_one_is_the_outermost() {
        let path = std::env::current_exe().unwrap();
        let me = Program::open(&path).unwrap();
        let at = |name: &str| me.function(name).unwrap()[0];
        let mut unwinder = Unwinder::new();
        unwinder.add(3, &path).unwrap();
        let (address, stack_at, mut frame) = Unwinder::innermost(&registers(0, 0x9000, 0x4000));
        // The caller is in a register or on top of the stack; a frame pointer of 0 would end the stack.
        let stack = bytes(&[0x4000, 0, 0, 0]);
        let place = |offset| Some(Place { file: 3, offset });
        let main = At { address, is_first: true, place: place(at("main")) };
        let caller = unwinder.step(main, &mut frame, Stack { at: stack_at, bytes: &stack });
        assert_eq!(caller, Caller::Returns(0x4000));
        assert_eq!(unwinder.after(main), Caller::Unknown);
        let outermost = At { address, is_first: false, place: place(at("_start") + 8) };
        assert_eq!(unwinder.after(outermost), Caller::None);
    }
}
