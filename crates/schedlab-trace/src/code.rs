//! The functions of programs in the stacks of our own trace.dat.
//!
//! A record of the tracepoint `kernel_stack` holds addresses. Those of programs mean nothing without the mappings of
//! their processes, so the recorder writes a file and a place in it instead: the files are in the trace's private option.
//! Other programs print such a word as an address that they do not know.

use crate::address_spaces::SourceFile;
use serde::{Deserialize, Serialize};

/// The frame in place of callers that are not known.
pub(crate) const CUT: &str = "[cut]";

const FILE: u64 = 1 << 62;
const NAME: u64 = 1 << 61;
const UNKNOWN: u64 = 1 << 60;
/// Bits of a place in a file.
const PLACE_BITS: u32 = 40;
/// The bits of a number of a file.
const FILES_MAX: usize = 1 << 20;

/// Where the words of stacks lead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The files, by their numbers in words.
    pub files: Vec<SourceFile>,
    /// Functions that lie in no file (of a JIT compiler), by their numbers in words.
    #[serde(default)]
    pub names: Vec<String>,
    /// When the recording was over, in seconds since 1970: a file that changed since is another one.
    pub recorded: u64,
}

/// A word of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Word {
    /// An address in the kernel.
    Kernel(u64),
    /// A place in a file of [`Code::files`].
    File {
        /// Its index in [`Code::files`].
        file: usize,
        /// The place, in bytes.
        offset: u64,
    },
    /// A function of [`Code::names`].
    Name(usize),
    /// Callers are missing from here on.
    Cut,
    /// An address of the program, of which nothing is known.
    Address(u64),
}

impl Word {
    /// As it is written; what has no room is [`Self::Cut`].
    #[must_use]
    pub const fn encoded(self) -> u64 {
        match self {
            Self::Kernel(address) => address | 1 << 63,
            Self::File { file, offset } if file < FILES_MAX && offset < 1 << PLACE_BITS => {
                FILE | (file as u64) << PLACE_BITS | offset
            }
            Self::Name(name) if name < 1 << PLACE_BITS => NAME | name as u64,
            Self::Address(address) if address < UNKNOWN => address,
            Self::File { .. } | Self::Name(_) | Self::Cut | Self::Address(_) => UNKNOWN,
        }
    }

    /// As it is read.
    #[must_use]
    pub(crate) const fn of(word: u64) -> Self {
        let place = word & ((1 << PLACE_BITS) - 1);
        if word >> 63 == 1 {
            Self::Kernel(word)
        } else if word & FILE != 0 {
            Self::File { file: ((word & !FILE) >> PLACE_BITS) as usize, offset: place }
        } else if word & NAME != 0 {
            Self::Name(place as usize)
        } else if word >= UNKNOWN {
            Self::Cut
        } else {
            Self::Address(word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written_and_what_has_no_room_is_cut() {
        let words = [
            Word::Kernel(0xffff_ffff_8100_0010),
            Word::File { file: 0, offset: 0 },
            Word::File { file: FILES_MAX - 1, offset: (1 << PLACE_BITS) - 1 },
            Word::Name(0),
            Word::Name(70_000),
            Word::Cut,
            Word::Address(0x7fff_1234_5678),
        ];
        for word in words {
            assert_eq!(Word::of(word.encoded()), word);
        }
        for none in [
            Word::File { file: FILES_MAX, offset: 1 },
            Word::File { file: 1, offset: 1 << PLACE_BITS },
            Word::Address(UNKNOWN),
        ] {
            assert_eq!(Word::of(none.encoded()), Word::Cut);
        }
    }
}
