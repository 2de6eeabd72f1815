//! A program without a system, linked at a fixed address, mapped into this process and entered.
//!
//! The program and this process share a board of words. The program never calls us and never unwinds into us: it
//! changes to stacks of its own and comes back. It can change all memory of this process, so [`Image::load`]
//! is unsafe: use it in a process that does nothing else, for programs that this user built.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process has an image: its addresses are fixed and its memory is used up once.
static LOADED: AtomicBool = AtomicBool::new(false);

/// Where images may lie: their code addresses memory with 31 bits.
const LOWEST: u64 = 0x1000_0000;
const HIGHEST: u64 = 0x8000_0000;
const PAGE: u64 = 4_096;

/// A mapped program and the board that it shares with us.
#[derive(Debug)]
pub struct Image {
    entry: extern "C" fn(*mut u64),
    board: *mut u64,
    words: usize,
    arena: u64,
}

/// A part of the program's file that is mapped.
struct Segment<'f> {
    at: u64,
    bytes: u64,
    content: &'f [u8],
    runs: bool,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// A little-endian number of the file.
fn number(file: &[u8], at: usize, bytes: usize) -> io::Result<u64> {
    let found = file.get(at..at.saturating_add(bytes)).ok_or_else(|| wrong("it is truncated"))?;
    Ok(found.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
}

/// The segments and the entry of a static ELF program of this architecture (elf(5)).
fn segments(file: &[u8]) -> io::Result<(Vec<Segment<'_>>, u64)> {
    const LOAD: u64 = 1;
    const RUNS: u64 = 1;
    const X86_64: u64 = 62;
    let is_static = number(file, 16, 2)? == 2 && number(file, 18, 2)? == X86_64;
    if !file.starts_with(b"\x7fELF\x02\x01") || !is_static || !cfg!(target_arch = "x86_64") {
        return Err(wrong("it is no static program for x86-64"));
    }
    let entry = number(file, 24, 8)?;
    let table = usize::try_from(number(file, 32, 8)?).unwrap_or(usize::MAX);
    let size = usize::try_from(number(file, 54, 2)?).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for index in 0..usize::try_from(number(file, 56, 2)?).unwrap_or(0) {
        let head = table.saturating_add(index * size);
        if number(file, head, 4)? != LOAD {
            continue;
        }
        let [offset, at, stored, bytes] = [
            number(file, head + 8, 8)?,
            number(file, head + 16, 8)?,
            number(file, head + 32, 8)?,
            number(file, head + 40, 8)?,
        ];
        let inside = at >= LOWEST && bytes <= HIGHEST && at.saturating_add(bytes) <= HIGHEST;
        let content = usize::try_from(offset).ok().zip(usize::try_from(stored).ok());
        let content = content.and_then(|(from, count)| file.get(from..from.checked_add(count)?));
        let content = content.ok_or_else(|| wrong("it is truncated"))?;
        if !inside || stored > bytes {
            return Err(wrong("its segments lie where an image may not lie"));
        }
        let runs = number(file, head + 4, 4)? & RUNS != 0;
        all.push(Segment { at, bytes, content, runs });
    }
    if !all.iter().any(|one| one.runs && (one.at..one.at + one.bytes).contains(&entry)) {
        return Err(wrong("its entry does not lie in its code"));
    }
    Ok((all, entry))
}

impl Image {
    /// Maps a program, a board of `words` zeros, and `arena` bytes of memory that the program may use; pages of
    /// the arena cost nothing before they are used.
    ///
    /// # Safety
    /// At each [`Self::enter`] the program writes only to its segments, the board, the arena and stacks in these, and
    /// comes back as C's ABI wants it.
    ///
    /// # Errors
    /// When the file is no such program, its addresses are taken, or this process has an image already.
    pub unsafe fn load(file: &[u8], words: usize, arena: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
        let (segments, entry) = segments(file)?;
        if LOADED.swap(true, Ordering::SeqCst) {
            return Err(io::Error::other("this process has an image already"));
        }
        let both = ProtFlags::READ | ProtFlags::WRITE;
        for segment in &segments {
            let from = segment.at / PAGE * PAGE;
            let bytes = (segment.at + segment.bytes).next_multiple_of(PAGE) - from;
            let bytes = usize::try_from(bytes).map_err(|_| wrong("it is too large"))?;
            let fixed = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            let place = std::ptr::with_exposed_provenance_mut(from as usize);
            // SAFETY: nothing lies there (`FIXED_NOREPLACE`).
            let mapped = unsafe { mmap_anonymous(place, bytes, both, fixed) }?;
            if mapped != place {
                return Err(io::Error::other("this kernel does not map at a fixed address"));
            }
            // SAFETY: the segment lies in the new mapping.
            let to = unsafe { mapped.cast::<u8>().add((segment.at - from) as usize) };
            let content = segment.content;
            // SAFETY: the content is no longer than the segment, as was checked, and lies elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), to, content.len()) };
            if segment.runs {
                let runs = MprotectFlags::READ | MprotectFlags::EXEC;
                // SAFETY: the mapping is ours alone, and nobody has run or read it yet.
                unsafe { mprotect(mapped, bytes, runs) }?;
            }
        }
        let fresh = |bytes: usize, flags: MapFlags| {
            // SAFETY: a new mapping wherever there is room.
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, both, flags) }
        };
        let board = fresh(words * 8, MapFlags::PRIVATE)?.cast::<u64>();
        let arena = fresh(arena, MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        let entry: *const () = std::ptr::with_exposed_provenance(entry as usize);
        // SAFETY: the entry lies in mapped code of the program, whose ABI is C's, as the caller promises.
        let entry = unsafe { std::mem::transmute::<*const (), extern "C" fn(*mut u64)>(entry) };
        Ok(Self { entry, board, words, arena: arena.expose_provenance() as u64 })
    }

    /// Where the arena begins.
    #[must_use]
    pub fn arena(&self) -> u64 {
        self.arena
    }

    /// A word of the board.
    ///
    /// # Panics
    /// When the board does not have it.
    #[inline]
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        assert!(at < self.words, "the board has {} words", self.words);
        // SAFETY: the word is part of the board.
        let place = unsafe { self.board.add(at) };
        // SAFETY: nobody writes to it now.
        unsafe { place.read_volatile() }
    }

    /// Sets a word of the board.
    ///
    /// # Panics
    /// When the board does not have it.
    #[inline]
    pub fn set_word(&mut self, at: usize, value: u64) {
        assert!(at < self.words, "the board has {} words", self.words);
        // SAFETY: the word is part of the board.
        let place = unsafe { self.board.add(at) };
        // SAFETY: nobody else uses it now.
        unsafe { place.write_volatile(value) };
    }

    /// Enters the program, and returns when it comes back.
    #[inline]
    pub fn enter(&mut self) {
        (self.entry)(self.board);
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A program of one segment: it adds 2 to the first word of its board.
    fn program(at: u64) -> Vec<u8> {
        let code = [0x48, 0x83, 0x07, 0x02, 0xc3];
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        file.extend((at + 120).to_le_bytes());
        file.extend(64_u64.to_le_bytes());
        file.extend([0; 14]);
        file.extend([56, 0, 1, 0]);
        file.resize(64, 0);
        file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
        for word in [0, at, at, 125, 125, 4_096_u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(code);
        file
    }

    #[test]
    fn an_image_is_entered_and_changes_its_board() {
        // SAFETY: the program writes one word of its board and returns.
        let mut image = unsafe { Image::load(&program(0x4000_0000), 4, 1 << 20) }.unwrap();
        image.set_word(0, 40);
        image.enter();
        assert_eq!(image.word(0), 42);
        // SAFETY: as above.
        let again = unsafe { Image::load(&program(0x5000_0000), 4, 4_096) }.unwrap_err();
        assert!(again.to_string().contains("already"), "{again}");
    }

    #[test]
    fn files_that_are_no_image_are_refused() {
        // SAFETY: nothing is entered.
        let why = |file: &[u8]| unsafe { Image::load(file, 4, 4_096) }.unwrap_err().to_string();
        assert!(why(b"\x7fELF").contains("truncated"));
        assert!(why(&program(0x4000_0000)[..100]).contains("truncated"));
        assert!(why(&program(0x1000)).contains("may not lie"));
        assert!(why(&[0; 200]).contains("no static program"));
    }
}
