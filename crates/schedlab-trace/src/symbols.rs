//! Names of the kernel's functions by their addresses, from the text of `/proc/kallsyms`.

use std::collections::BTreeSet;

/// Functions, ascending by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    all: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads lines `ffffffff81000000 T name [module]`; what is no function is passed over. Where the kernel hides addresses
    /// they are all 0, and nothing is known.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        let mut all: Vec<(u64, String)> = lines.filter_map(function).collect();
        all.sort();
        all.dedup_by_key(|symbol| symbol.0);
        Self { all }
    }

    /// Whether no function is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The function that holds this address: the last one that begins at it or before. `None`
    /// before the first function.
    #[must_use]
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        Some(self.at(address)?.1.as_str())
    }

    /// The function that begins at this address.
    #[must_use]
    pub(crate) fn beginning_at(&self, address: u64) -> Option<&str> {
        let found = self.at(address).filter(|symbol| symbol.0 == address);
        found.map(|symbol| symbol.1.as_str())
    }

    /// Where the function with this name begins.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        self.all.iter().find(|symbol| symbol.1 == name).map(|symbol| symbol.0)
    }

    /// Where the symbol with this name begins, of any kind, in a text of `/proc/kallsyms`: several may begin at one address.
    pub(crate) fn beginning(text: &[u8], name: &str) -> Option<u64> {
        let address_of = |line: &[u8]| {
            let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            (words.nth(1)? == name).then_some(address)
        };
        text.split(|byte| *byte == b'\n').find_map(address_of)
    }

    fn at(&self, address: u64) -> Option<&(u64, String)> {
        let behind = self.all.partition_point(|symbol| symbol.0 <= address);
        self.all.get(behind.checked_sub(1)?)
    }

    /// The lines of these addresses' functions alone, as `/proc/kallsyms` has them.
    #[must_use]
    pub fn text_of(&self, addresses: &BTreeSet<u64>) -> Vec<u8> {
        let used: BTreeSet<&(u64, String)> =
            addresses.iter().filter_map(|address| self.at(*address)).collect();
        let line = |(at, name): &(u64, String)| format!("{at:016x} T {name}\n");
        used.into_iter().map(line).collect::<String>().into_bytes()
    }
}

fn function(line: &[u8]) -> Option<(u64, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let is_function = matches!(kind, "t" | "T" | "w" | "W") && address > 0;
    is_function.then(|| words.next().map(|name| (address, name.to_owned())))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"ffffffff81000100 t second\nffffffff81000000 T first\nffffffff81000180 D data\n\
        ffffffffc0000000 t in_module\t[module]\nnonsense\n0000000000000000 T hidden\n";

    #[test]
    fn an_address_lies_in_the_last_function_that_begins_before_it() {
        let symbols = Symbols::parse(TEXT);
        let name = |address| symbols.name(address);
        assert_eq!(name(0xffff_ffff_8100_0000), Some("first"));
        assert_eq!(name(0xffff_ffff_8100_01ff), Some("second"));
        assert_eq!(name(0xffff_ffff_c000_0010), Some("in_module"));
        assert_eq!(name(0xffff), None);
        assert!(Symbols::parse(b"0000000000000000 T hidden\n").is_empty());
    }

    #[test]
    fn only_the_lines_that_addresses_need_are_kept() {
        let used =
            BTreeSet::from([0xffff_ffff_8100_0105, 0xffff_ffff_8100_0107, 0xffff_ffff_c000_0000]);
        let text = Symbols::parse(TEXT).text_of(&used);
        assert_eq!(text, b"ffffffff81000100 T second\nffffffffc0000000 T in_module\n");
    }
}
