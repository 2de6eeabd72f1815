//! Arguments of tracepoints beyond the scheduler's as text: `irq=42 name=ahci`, by the types in the file's
//! format texts, spelled as `trace-cmd report -R` spells them.
//!
//! Bodies are kept with their batch and formatted only for the events that a caller asks for. The
//! scheduler's own events are never formatted here.

use crate::chain_names::ChainNames;
use crate::encoding::Encoding;
use crate::format::{Field, Format, Place};
use crate::symbols::Symbols;
use schedlab_model::{Pid, Warning};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The field in which our own trace.dat holds what a text told.
const ARGUMENTS: &str = "arguments";
/// The system and the name of call stacks in the kernel.
pub(crate) const STACK: (&str, &str) = ("ftrace", "kernel_stack");
/// Functions of a stack that are reported.
const FRAMES_MAX: usize = 64;
/// The same, of the kernel and the program together.
const PROGRAM_FRAMES_MAX: usize = 512;
/// Elements of an array beyond which the rest is cut.
const ELEMENTS_MAX: usize = 64;

/// How to spell the records of each event id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spelling {
    encoding: Encoding,
    fields: BTreeMap<u16, Vec<Field>>,
    /// The id of stacks.
    stack: Option<u16>,
    symbols: Symbols,
    /// Names of what lies in the call chains of a perf.data, or in the stacks of our own recordings.
    chains: Option<Arc<ChainNames>>,
}

impl Spelling {
    /// Reads the fields of all `formats` (system and text).
    pub(crate) fn new<'a>(
        encoding: Encoding,
        formats: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let formats: Vec<Format> =
            formats.filter_map(|(system, text)| Format::parse(system, text)).collect();
        let is_stack = |format: &&Format| (format.system.as_str(), format.name.as_str()) == STACK;
        let stack = formats.iter().find(is_stack).map(|format| format.id);
        let own = |fields: Vec<Field>| {
            fields.into_iter().filter(|field| !field.name.starts_with("common_")).collect()
        };
        let fields = formats.into_iter().map(|format| (format.id, own(format.fields))).collect();
        Self { encoding, fields, stack, symbols: Symbols::default(), chains: None }
    }

    /// The same, with names for the addresses of stacks: text of `/proc/kallsyms`.
    pub(crate) fn with_symbols(self, kallsyms: &[u8]) -> Self {
        Self { symbols: Symbols::parse(kallsyms), ..self }
    }

    /// The same, with names for the functions of call chains.
    pub(crate) fn with_chains(self, chains: Arc<ChainNames>) -> Self {
        Self { chains: Some(chains), ..self }
    }

    /// Why functions have no names so far; of files, when all was spelt.
    pub(crate) fn notes(&self, ended: bool) -> Vec<Warning> {
        self.chains.as_ref().map_or_else(Vec::new, |chains| chains.notes(ended))
    }

    /// A record's own fields; empty where it has none, or no format.
    pub(crate) fn text(&self, body: &[u8]) -> String {
        let id = body.first_chunk().map(|id| self.encoding.u16(*id));
        let fields = id.and_then(|id| self.fields.get(&id));
        if id.is_some() && id == self.stack {
            return self.stack_of(fields.map_or(&[], Vec::as_slice), body);
        }
        let mut text = String::new();
        for field in fields.into_iter().flatten() {
            if !text.is_empty() {
                text.push(' ');
            }
            // What came from a text stands in one field of ours, as the text had it.
            if field.name != ARGUMENTS {
                text.push_str(&field.name);
                text.push('=');
            }
            match self.content(field, body) {
                Some(bytes) => self.value(field, bytes, &mut text),
                // The record is shorter than its format says.
                None => text.push('?'),
            }
        }
        text
    }

    /// `stack=function<-caller<-...`. A stack is longer than the array in its format, and as long as its first field says.
    fn stack_of(&self, fields: &[Field], body: &[u8]) -> String {
        let field = |name: &str| fields.iter().find(|field| field.name == name);
        let Some(callers) = field("caller") else { return String::new() };
        let size = field("size").and_then(|size| body.get(size.offset as usize..)?.first_chunk());
        let count = size.map_or(FRAMES_MAX, |size| self.encoding.u32(*size) as usize);
        let long = usize::from(self.encoding.long);
        let addresses = body.get(callers.offset as usize..).unwrap_or_default();
        let mut text = String::from("stack=");
        if let (Some(chains), Some(process)) = (&self.chains, field("process")) {
            let process = self.content(process, body).and_then(|bytes| bytes.first_chunk());
            let process = process.map_or(0, |pid| self.encoding.u32(*pid).cast_signed());
            let time = field("time").and_then(|field| self.content(field, body)?.first_chunk());
            let time = time.map_or(0, |time| self.encoding.u64(*time));
            let words = addresses.as_chunks().0.iter().take(count);
            let words = words.map(|word| self.encoding.u64(*word));
            chains.spell(Pid(process), time, words, &mut text);
            return text;
        }
        let most = if self.chains.is_some() { PROGRAM_FRAMES_MAX } else { FRAMES_MAX };
        let mut is_return = false;
        for (index, bytes) in addresses.chunks_exact(long).take(count.min(most)).enumerate() {
            let address = match bytes.first_chunk::<8>() {
                Some(bytes) => self.encoding.u64(*bytes),
                None => bytes.first_chunk().map_or(0, |bytes| self.encoding.u32(*bytes).into()),
            };
            // Older kernels fill up with zeroes or ones.
            if address == 0 || bytes.iter().all(|byte| *byte == 0xff) {
                break;
            }
            text.push_str(if index > 0 { "<-" } else { "" });
            if let Some(chains) = self.chains.as_ref().filter(|_| address >> 63 == 0) {
                chains.spell_word(address, is_return, &mut text);
                is_return = true;
                continue;
            }
            match self.symbols.name(address) {
                Some(name) => text.push_str(name),
                None => {
                    let _ = write!(text, "{address:#x}");
                }
            }
        }
        text
    }

    /// A field's bytes, wherever in the record they lie.
    fn content<'a>(&self, field: &Field, body: &'a [u8]) -> Option<&'a [u8]> {
        let at = field.offset as usize;
        let size = field.size as usize;
        // A format declares the last array with size 0: it fills the rest of the record.
        let open = field.place == Place::Inline && size == 0;
        let place = if open { body.get(at..)? } else { body.get(at..at.checked_add(size)?)? };
        if field.place == Place::Inline {
            return Some(place);
        }
        let place = self.encoding.u32(*place.first_chunk()?);
        let behind = if field.place == Place::RelLoc { at + 4 } else { 0 };
        let start = (place & 0xffff) as usize + behind;
        body.get(start..start + (place >> 16) as usize)
    }

    fn value(&self, field: &Field, bytes: &[u8], text: &mut String) {
        // What lies elsewhere, or at the end, is of any length; its type does not count.
        let inline = field.place == Place::Inline && field.size > 0;
        let array = field.kind.ends_with(']') || !inline;
        let element = field.kind.split('[').next().unwrap_or_default().trim();
        if array && matches!(element.trim_start_matches("const "), "char") {
            return string(bytes, text);
        }
        if field.name == "function" && !self.symbols.is_empty() {
            let mut address = String::new();
            self.number(bytes, false, true, &mut address);
            let number = u64::from_str_radix(address.trim_start_matches("0x"), 16);
            let named = number.ok().and_then(|number| self.symbols.beginning_at(number));
            return text.push_str(named.unwrap_or(&address));
        }
        if !array && matches!(bytes.len(), 1 | 2 | 4 | 8) {
            return self.number(bytes, field.signed, element.ends_with('*'), text);
        }
        let size = self.element_size(field, element, bytes.len());
        text.push('[');
        for (index, bytes) in bytes.chunks(size.max(1)).enumerate().take(ELEMENTS_MAX) {
            let comma = if index > 0 { "," } else { "" };
            text.push_str(comma);
            self.number(bytes, field.signed, true, text);
        }
        let rest = if bytes.len() / size.max(1) > ELEMENTS_MAX { ",...]" } else { "]" };
        text.push_str(rest);
    }

    /// Bytes of an element of an array: by its length where the type tells it, else by the type's name.
    fn element_size(&self, field: &Field, element: &str, bytes: usize) -> usize {
        let count = field.kind.rsplit_once('[').and_then(|parts| parts.1.strip_suffix(']'));
        if let Some(count) = count.and_then(|count| count.parse::<usize>().ok())
            && let Some(size @ (1 | 2 | 4 | 8)) = bytes.checked_div(count)
        {
            return size;
        }
        match element.trim_start_matches("unsigned ").trim_start_matches("__") {
            "short" | "u16" | "s16" | "uint16_t" => 2,
            "int" | "u32" | "s32" | "uint32_t" | "unsigned" => 4,
            "long" => usize::from(self.encoding.long),
            "long long" | "u64" | "s64" | "uint64_t" => 8,
            name if name.ends_with('*') => usize::from(self.encoding.long),
            _ => 1,
        }
    }

    fn number(&self, bytes: &[u8], signed: bool, hex: bool, text: &mut String) {
        let mut wide = [0; 8];
        let size = bytes.len().min(8);
        if self.encoding.big_endian {
            wide[8 - size..].copy_from_slice(&bytes[..size]);
        } else {
            wide[..size].copy_from_slice(&bytes[..size]);
        }
        let value = self.encoding.u64(wide);
        let unused = 64 - 8 * u32::try_from(size.max(1)).unwrap_or(8);
        // Writing to a String cannot fail.
        let _ = match (hex, signed) {
            (true, _) => write!(text, "{value:#x}"),
            (false, true) => write!(text, "{}", (value << unused).cast_signed() >> unused),
            (false, false) => write!(text, "{value}"),
        };
    }
}

/// Up to the NUL, on one line.
fn string(bytes: &[u8], text: &mut String) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let content = String::from_utf8_lossy(&bytes[..end]);
    text.extend(content.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }));
}

/// Bodies of a batch's events, by their places in it, ascending.
#[derive(Debug, Default)]
pub(crate) struct EventBodies {
    places: Vec<(usize, usize)>,
    bytes: Vec<u8>,
}

/// Bytes of a body that are kept. What lies elsewhere in it begins within 64 KiB and is no longer.
const BODY_MAX: usize = 128 << 10;

impl EventBodies {
    pub(crate) fn keep(&mut self, index: usize, body: &[u8]) {
        self.places.push((index, self.bytes.len()));
        self.bytes.extend_from_slice(&body[..body.len().min(BODY_MAX)]);
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let found = self.places.binary_search_by_key(&index, |place| place.0).ok()?;
        let end = self.places.get(found + 1).map_or(self.bytes.len(), |place| place.1);
        self.bytes.get(self.places[found].1..end)
    }

    /// In bytes.
    pub(crate) const fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: x\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:u8 b;\toffset:12;\tsize:1;\tsigned:0;\n\
        \tfield:char c[3];\toffset:13;\tsize:3;\tsigned:0;\n\
        \tfield:void * d;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] e;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned short f[2];\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc int[] g;\toffset:32;\tsize:4;\tsigned:1;\n\
        \tfield:char h;\toffset:48;\tsize:0;\tsigned:1;\n\
        \nprint fmt: \"\"\n";

    fn spelt(encoding: Encoding, body: &[u8]) -> String {
        Spelling::new(encoding, [("s", FORMAT)].into_iter()).text(body)
    }

    #[test]
    fn fields_are_spelt_by_their_types_in_either_byte_order() {
        let mut little = vec![7, 0, 0, 0, 0, 0, 0, 0];
        little.extend((-5i32).to_le_bytes());
        little.extend([200, b'h', b'i', 0]);
        little.extend(0xdead_beefu64.to_le_bytes());
        little.extend((4u32 << 16 | 36).to_le_bytes());
        little.extend([1, 0, 2, 1]);
        little.extend((8u32 << 16 | 4).to_le_bytes());
        little.extend(b"a\nb\0");
        little.extend([9, 0, 0, 0, 255, 255, 0, 0]);
        little.extend(b"end\n\0");
        let encoding = Encoding { big_endian: false, long: 8 };
        let text = "a=-5 b=200 c=hi d=0xdeadbeef e=a b f=[0x1,0x102] g=[0x9,0xffff] h=end";
        assert_eq!(spelt(encoding, &little), text);

        let mut big = vec![0, 7, 0, 0, 0, 0, 0, 0];
        big.extend((-5i32).to_be_bytes());
        big.extend([200, b'h', b'i', 0]);
        big.extend(0xdead_beefu64.to_be_bytes());
        big.extend((4u32 << 16 | 36).to_be_bytes());
        big.extend([0, 1, 1, 2]);
        big.extend((8u32 << 16 | 4).to_be_bytes());
        big.extend(b"a\nb\0");
        big.extend([0, 0, 0, 9, 0, 0, 255, 255]);
        big.extend(b"end\n\0");
        assert_eq!(spelt(Encoding { big_endian: true, long: 8 }, &big), text);
    }

    #[test]
    fn a_record_that_is_cut_or_lies_has_no_value_and_never_panics() {
        let mut body = [0xff; 80];
        body[..2].copy_from_slice(&[7, 0]);
        for length in 0..body.len() {
            spelt(Encoding { big_endian: false, long: 8 }, &body[..length]);
        }
        assert!(spelt(Encoding { big_endian: false, long: 8 }, &body[..14]).contains("c=? d=?"));
        assert_eq!(spelt(Encoding { big_endian: false, long: 8 }, &[8, 0]), "");
    }

    #[test]
    fn a_stack_is_told_by_functions_as_long_as_it_says_and_by_addresses_where_nothing_is_known() {
        let format = "name: kernel_stack\nID: 4\nformat:\n\
            \tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n";
        let encoding = Encoding { big_endian: false, long: 8 };
        let spelling = Spelling::new(encoding, [("ftrace", format)].into_iter());
        let mut body = vec![4, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0];
        for frame in 1..=12u64 {
            body.extend((frame << 8).to_le_bytes());
        }
        let text = spelling.text(&body);
        assert_eq!(text.split("<-").count(), 10, "{text}");
        assert!(text.starts_with("stack=0x100<-0x200<-"), "{text}");
        let named = spelling.with_symbols(b"0000000000000100 T wait\n0000000000000200 t call\n");
        assert!(named.text(&body).starts_with("stack=wait<-call<-call<-"));
        body[24..32].fill(0xff);
        assert_eq!(named.text(&body), "stack=wait");
        for length in 0..body.len() {
            named.text(&body[..length]);
        }
    }

    #[test]
    fn bodies_are_found_by_their_places() {
        let mut bodies = EventBodies::default();
        bodies.keep(3, b"abc");
        bodies.keep(9, b"");
        bodies.keep(10, b"d");
        let get = |index| bodies.get(index);
        assert_eq!((get(3), get(9), get(10)), (Some(&b"abc"[..]), Some(&b""[..]), Some(&b"d"[..])));
        assert_eq!(get(4), None);
    }

    /// The text of a record of one field that begins at 8, with its declaration, size and sign.
    fn one(declaration: &str, size: u32, signed: u8, content: &[u8]) -> String {
        let text = format!(
            "name: x\nID: 7\nformat:\n\tfield:{declaration};\toffset:8;\tsize:{size};\tsigned:{signed};\n"
        );
        let body = [&[7, 0, 0, 0, 0, 0, 0, 0], content].concat();
        let encoding = Encoding { big_endian: false, long: 8 };
        let text = Spelling::new(encoding, [("s", text.as_str())].into_iter()).text(&body);
        text.strip_prefix("a=").unwrap_or(&text).to_owned()
    }

    #[test]
    fn numbers_are_spelt_by_size_and_sign() {
        let minus = [0xfe_u8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        for (size, unsigned) in
            [(1, "254"), (2, "65534"), (4, "4294967294"), (8, "18446744073709551614")]
        {
            assert_eq!(one("int a", size, 1, &minus), "-2");
            assert_eq!(one("int a", size, 0, &minus), unsigned);
        }
        assert_eq!(one("int a", 3, 0, &[1, 2, 3]), "[0x30201]", "of an odd size");
        assert_eq!(one("void * a", 8, 0, &minus), "0xfffffffffffffffe");
    }

    #[test]
    fn elements_of_an_array_have_the_size_of_their_type_or_of_their_share() {
        let content = [1, 0, 0, 0, 2, 0, 0, 0];
        let of = |declaration: &str, size| one(declaration, size, 0, &content);
        assert_eq!(of("u32 a[2]", 8), "[0x1,0x2]");
        assert_eq!(of("cpumask_t a[8]", 8), "[0x1,0x0,0x0,0x0,0x2,0x0,0x0,0x0]");
        assert_eq!(of("odd_t a[1]", 8), "[0x200000001]");
        // At the end of the record: of any length, by the names of types.
        assert_eq!(of("unsigned int a[]", 0), "[0x1,0x2]");
        assert_eq!(of("short a[]", 0), "[0x1,0x0,0x2,0x0]");
        for wide in ["long a[]", "u64 a[]", "unsigned long long a[]", "void * a[]"] {
            assert_eq!(of(wide, 0), "[0x200000001]", "{wide}");
        }
        assert_eq!(of("const char a[]", 0), " ", "a text");
        assert_eq!(of("__u8 a[]", 0), "[0x1,0x0,0x0,0x0,0x2,0x0,0x0,0x0]");
    }

    #[test]
    fn an_array_is_cut_after_its_first_elements() {
        let most = vec![1; ELEMENTS_MAX];
        let text = one("u8 a[]", 0, 0, &most);
        assert!(text.ends_with("0x1]") && text.matches(',').count() == ELEMENTS_MAX - 1);
        let text = one("u8 a[]", 0, 0, &[most, vec![1]].concat());
        assert!(text.ends_with("0x1,...]") && text.matches("0x1").count() == ELEMENTS_MAX);
    }

    #[test]
    fn stacks_of_32_bits_end_at_zeros_and_at_their_limit() {
        let format = "name: kernel_stack\nID: 4\nformat:\n\
            \tfield:unsigned long caller[8];\toffset:8;\tsize:32;\tsigned:0;\n";
        let spelling = |long| {
            Spelling::new(Encoding { big_endian: false, long }, [("ftrace", format)].into_iter())
        };
        let head = [4, 0, 0, 0, 0, 0, 0, 0];
        let frames = |frames: &[u32]| -> Vec<u8> {
            let frames = frames.iter().flat_map(|frame| frame.to_le_bytes());
            head.into_iter().chain(frames).collect()
        };
        assert_eq!(spelling(4).text(&frames(&[0x10, 0x20, 0, 0x30])), "stack=0x10<-0x20");
        let deep = spelling(4).text(&frames(&[7; FRAMES_MAX + 1]));
        assert_eq!(deep.matches("0x7").count(), FRAMES_MAX);
        // No field says how many: as many as there are.
        assert_eq!(spelling(8).text(&frames(&[1, 0, 2, 0])), "stack=0x1<-0x2");
    }

    #[test]
    fn what_a_text_told_has_no_name_before_it() {
        let told = |name: &str| {
            let content = [&[12, 0, 4, 0][..], b"i=1\0"].concat();
            one(&format!("__data_loc char[] {name}"), 4, 0, &content)
        };
        assert_eq!([told("arguments"), told("other")], ["i=1", "other=i=1"]);
    }

    #[test]
    fn kept_bodies_are_forgotten_with_their_batch() {
        let mut bodies = EventBodies::default();
        bodies.keep(0, b"abc");
        bodies.clear();
        assert_eq!(bodies.get(0), None);
        bodies.keep(1, b"d");
        assert_eq!(bodies.get(1), Some(&b"d"[..]));
    }
}
