//! Texts by number: columns name few, and name each often.

use std::collections::HashMap;

/// Slots of the texts that were met last.
const SLOTS: usize = 1 << 10;

/// A text of up to 16 bytes as its first and last eight, which overlap, and its length.
type Short = (u64, u64, usize);

/// Texts that turn up on the way.
#[derive(Default)]
pub(crate) struct Words {
    numbers: HashMap<String, i32>,
    words: Vec<String>,
    /// The last short text of each slot with its number: to compare two numbers is quicker than a hash.
    last: Vec<(Short, i32)>,
}

impl Words {
    /// The number of a text.
    #[inline]
    pub(crate) fn number(&mut self, text: &str) -> i32 {
        let short = short(text.as_bytes());
        if let Some((known, number)) = self.last.get(slot(short))
            && *known == short
            && text.len() <= 16
        {
            return *number;
        }
        self.learn(text, short)
    }

    #[cold]
    fn learn(&mut self, text: &str, short: Short) -> i32 {
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => {
                let number = i32::try_from(self.words.len()).unwrap_or(i32::MAX);
                self.numbers.insert(text.to_owned(), number);
                self.words.push(text.to_owned());
                number
            }
        };
        if text.len() <= 16 {
            // No text is as long as those of the slots that are free.
            self.last.resize(SLOTS, ((0, 0, usize::MAX), 0));
            self.last[slot(short)] = (short, number);
        }
        number
    }

    /// All texts by number.
    pub(crate) fn into_words(self) -> Vec<String> {
        self.words
    }
}

#[inline]
fn short(text: &[u8]) -> Short {
    let length = text.len();
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last), length);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let number = |half: [u8; 4]| u64::from(u32::from_le_bytes(half));
        return (number(*first), number(*last), length);
    }
    let byte = |at| u64::from(text.get(at).copied().unwrap_or(0));
    (byte(0) | byte(1) << 8 | byte(2) << 16, 0, length)
}

#[inline]
fn slot((first, last, length): Short) -> usize {
    let mixed = first ^ last.rotate_left(29) ^ length as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}
