//! What the number in `prev_state` means in the kernel that wrote it.
//!
//! Bits and letters changed several times (3.4 knew `x` and `W`, 4.14 gained `I` and a new flag), so
//! they are read from the event's own `print fmt`: the list of `__print_flags` gives the letters, and
//! the expression before `? "+"` gives the flag of a task that was displaced while runnable.

use schedlab_model::{Left, kernel_version};

/// Meaning of `prev_state` in one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct States {
    /// What the lowest bit that is set means, by the number of that bit.
    lowest: [Left; 64],
    /// The bits that have letters.
    mask: u64,
    /// The bit of a displaced task; 0: any bit above the letters.
    preempted: u64,
    /// Whether they are the kernel's own, of which no tracepoint reports all bits.
    raw: bool,
    /// Whether bit 8 alone is the flag of a displaced task, though it has a letter.
    waking_is_flag: bool,
    /// The answers for small states, which nearly all are.
    small: [Left; SMALL],
}

/// States below this are looked up.
const SMALL: usize = 512;

impl States {
    /// Reads the meaning out of a `print fmt`; what it lacks is filled by the kernel's rule that a
    /// bit above all letters means displaced.
    pub(crate) fn parse(print: &str) -> Self {
        let lowest = [Left::Other; 64];
        let small = [Left::Other; SMALL];
        let raw = false;
        let waking_is_flag = false;
        let mut states = Self { lowest, mask: 0, preempted: 0, raw, waking_is_flag, small };
        let mut letters = Vec::new();
        if let Some(flags) = print.split_once("__print_flags(").map(|parts| parts.1) {
            // Each entry is `{ number, "letter" }`; the list ends where the call does.
            let flags = flags.split_once("})").map_or(flags, |parts| parts.0);
            for entry in flags.split('{').skip(1) {
                let Some((number, letter)) = entry.split_once(',') else { continue };
                let letter = letter.trim().trim_start_matches('"').chars().next();
                letters.extend(evaluate(number).zip(letter));
            }
        }
        if letters.is_empty() {
            // The letters of kernels since 4.14.
            letters = "SDTtXZPI".chars().enumerate().map(|(bit, c)| (1 << bit, c)).collect();
        }
        for (bits, letter) in letters {
            states.mask |= bits;
            if bits != 0 {
                states.lowest[bits.trailing_zeros() as usize] = meaning(letter);
            }
        }
        if let Some((before, _)) = print.split_once("? \"+\"") {
            let number = before.rsplit_once('&').map(|parts| parts.1);
            states.preempted = number.and_then(evaluate).unwrap_or(0);
        }
        states.small = std::array::from_fn(|state| states.reason(state as u64));
        states
    }

    /// What Perfetto's numbers mean: those of the kernel of this release; without one those of Linux 4.4, which is Perfetto's
    /// own rule. `all` are the bits of all states: bits that no tracepoint reports show that they are the kernel's own.
    /// With a sentence if it is not the release that decides.
    pub(crate) fn of_perfetto(release: Option<&str>, all: u64) -> (Self, Option<String>) {
        let version = release.and_then(kernel_version);
        let old = version.is_none_or(|version| version < (4, 14));
        let reported: u64 = match version {
            Some(version) if version >= (4, 14) => 0x1ff,
            Some(version) if version >= (4, 8) => 0x1fff,
            _ => 0xfff,
        };
        if all & !reported != 0 {
            // `TASK_INTERRUPTIBLE` and so on; 0x400 is `TASK_NOLOAD`, with which an uninterruptible sleep is idle.
            let letters = "SDTtXXPX";
            let raw = Self::letters(letters.chars().enumerate(), u64::MAX);
            let note = "its states hold bits that no tracepoint reports, so schedlab reads them as the \
                kernel's own: a displaced task is told as R, not R+";
            return (Self { raw: true, ..raw }, Some(note.to_owned()));
        }
        if !old {
            return (Self::parse(""), None);
        }
        let flag = if version.is_some_and(|version| version >= (4, 8)) { 1 << 12 } else { 1 << 11 };
        let mut states = Self::letters("SDTtXZxKWPNn".chars().enumerate(), flag);
        // No kernel switches away from a waking task: this is the flag of later ones, in a file that does not say its kernel.
        states.waking_is_flag = version.is_none();
        states.small = std::array::from_fn(|state| states.reason(state as u64));
        (states, None)
    }

    fn letters(letters: impl Iterator<Item = (usize, char)>, preempted: u64) -> Self {
        let mut states = Self::parse("");
        (states.mask, states.lowest) = (0, [Left::Other; 64]);
        for (bit, letter) in letters.filter(|(bit, _)| 1 << bit != preempted) {
            states.mask |= 1 << bit;
            states.lowest[bit] = meaning(letter);
        }
        states.preempted = preempted;
        states.raw = preempted == u64::MAX;
        states.small = std::array::from_fn(|state| states.reason(state as u64));
        states
    }

    /// How a task with this `prev_state` left its CPU.
    #[inline(always)]
    pub(crate) fn left(&self, state: u64) -> Left {
        let small = usize::try_from(state).ok().and_then(|state| self.small.get(state));
        small.copied().unwrap_or_else(|| self.reason(state))
    }

    #[inline(never)]
    fn reason(&self, state: u64) -> Left {
        if self.raw {
            return match state & self.mask {
                0 if state & 0x1000 != 0 => Left::Blocked,
                0 if state == 0 => Left::Displaced,
                2 if state & 0x400 != 0 => Left::IdleSleep,
                0 => Left::Other,
                bits => self.lowest[bits.trailing_zeros() as usize],
            };
        }
        if self.waking_is_flag && state == 0x100 {
            return Left::Preempted;
        }
        let above = !u64::MAX.checked_shr(self.mask.leading_zeros()).unwrap_or(0);
        let preempted = if self.preempted != 0 { self.preempted } else { above };
        match state {
            _ if state & preempted != 0 => Left::Preempted,
            _ if state & self.mask != 0 => {
                self.lowest[(state & self.mask).trailing_zeros() as usize]
            }
            0 => Left::Displaced,
            // Runnable when any bit above the letters is set, for any flag.
            _ if state & above != 0 => Left::Preempted,
            _ => Left::Other,
        }
    }
}

fn meaning(letter: char) -> Left {
    match letter {
        'S' => Left::Slept,
        'D' => Left::Blocked,
        'T' => Left::Stopped,
        't' => Left::Traced,
        'X' | 'Z' | 'x' => Left::Dead,
        // Kernels before 4.14 have a bit for it, beside the sleep that it marks.
        'N' => Left::IdleSleep,
        'P' => Left::Parked,
        'I' => Left::IdleSleep,
        _ => Left::Other,
    }
}

/// The letters that stand in texts (`S`, `R+`, `D|W`, `x`) as a state.
pub(crate) fn from_letters(text: &[u8]) -> Left {
    match text {
        [b'R', b'+', ..] => Left::Preempted,
        [b'R', ..] => Left::Displaced,
        // `S+`: some kernels set both bits; the flag wins, as in the binary form.
        [.., b'+'] => Left::Preempted,
        [letter, ..] => meaning(char::from(*letter)),
        [] => Left::Other,
    }
}

/// The value of a constant expression of numbers, `|`, `+`, `-`, `<<` and brackets; unmatched
/// brackets at the end are passed over, since the text was cut out of a larger one.
fn evaluate(text: &str) -> Option<u64> {
    let mut rest = text.trim().as_bytes();
    // Cut off brackets that were opened before this piece of text began.
    let mut depth = 0i32;
    let mut end = rest.len();
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => {
                end = index;
                break;
            }
            b')' => depth -= 1,
            _ => {}
        }
    }
    rest = &rest[..end];
    let value = sum(&mut rest, 0)?;
    rest.trim_ascii().is_empty().then_some(value)
}

/// How deep brackets may nest: the text is a file's, and recursion is ours.
const DEPTH_MAX: u32 = 64;

/// `|` binds weakest, then `<<`, then `+` and `-`, as in C.
fn sum(rest: &mut &[u8], depth: u32) -> Option<u64> {
    let mut value = shift(rest, depth)?;
    while eat(rest, b"|") {
        value |= shift(rest, depth)?;
    }
    Some(value)
}

fn shift(rest: &mut &[u8], depth: u32) -> Option<u64> {
    let mut value = add(rest, depth)?;
    while eat(rest, b"<<") {
        value = value.checked_shl(u32::try_from(add(rest, depth)?).ok()?)?;
    }
    Some(value)
}

fn add(rest: &mut &[u8], depth: u32) -> Option<u64> {
    let mut value = atom(rest, depth)?;
    loop {
        if eat(rest, b"+") {
            value = value.wrapping_add(atom(rest, depth)?);
        } else if eat(rest, b"-") {
            value = value.wrapping_sub(atom(rest, depth)?);
        } else {
            return Some(value);
        }
    }
}

fn atom(rest: &mut &[u8], depth: u32) -> Option<u64> {
    if depth > DEPTH_MAX {
        return None;
    }
    if eat(rest, b"(") {
        let value = sum(rest, depth + 1)?;
        return eat(rest, b")").then_some(value);
    }
    *rest = rest.trim_ascii_start();
    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let (digits, after) = rest.split_at(length);
    *rest = after;
    let digits = std::str::from_utf8(digits).ok()?.trim_end_matches(['U', 'L', 'u', 'l']);
    match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn eat(rest: &mut &[u8], token: &[u8]) -> bool {
    *rest = rest.trim_ascii_start();
    let Some(after) = rest.strip_prefix(token) else { return false };
    *rest = after;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(mask: &str, letters: &str, flag: &str) -> String {
        format!(
            "\"...\", REC->prev_pid, REC->prev_state & ({mask}) ? __print_flags(REC->prev_state & \
             ({mask}), \"|\", {letters}) : \"R\", REC->prev_state & {flag} ? \"+\" : \"\", REC->next_comm"
        )
    }

    #[test]
    fn letters_and_flag_of_kernel_3_4() {
        let states =
            States::parse(&print("512-1", "{ 1, \"S\"} , { 2, \"D\" }, { 64, \"x\" }", "512"));
        assert_eq!(states.left(512), Left::Preempted);
        assert_eq!(states.left(0), Left::Displaced);
        assert_eq!(states.left(1), Left::Slept);
        assert_eq!(states.left(2 | 64), Left::Blocked);
        assert_eq!(states.left(64), Left::Dead);
        // A bit that has no letter, below the flag.
        assert_eq!(states.left(4), Left::Other);
    }

    #[test]
    fn the_flag_may_be_an_expression() {
        let mask = "((0x0 | 0x1 | 0x2 | 0x4) + 1) << 1) - 1";
        let states = States::parse(&print(
            mask,
            "{ 0x1, \"S\" }, { 0x2, \"D\" }, { 0x4, \"P\" }, { 0x8, \"I\" }",
            "(((0x00000000 | 0x00000001 | 0x2 | 0x4) + 1) << 1)",
        ));
        assert_eq!(states.left(0x10), Left::Preempted);
        assert_eq!(states.left(8), Left::IdleSleep);
        assert_eq!(states.left(4), Left::Parked);
    }

    #[test]
    fn without_a_print_fmt_bits_above_the_letters_mean_runnable() {
        let states = States::parse("");
        assert_eq!(states.left(0x100), Left::Preempted);
        assert_eq!(states.left(0x20), Left::Dead);
        assert_eq!(states.left(0), Left::Displaced);
    }

    #[test]
    fn expressions_follow_c_and_nonsense_has_no_value() {
        assert_eq!(evaluate("(1 | 2 + 4) << 1"), Some(14));
        assert_eq!(evaluate("0x10UL)"), Some(16));
        assert_eq!(evaluate("512-1"), Some(511));
        for text in ["", "(", "1 +", "x", "1 << 64", "1 1", &"(".repeat(10_000)] {
            assert_eq!(evaluate(text), None, "{text}");
        }
    }
}
