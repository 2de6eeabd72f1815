//! The functions of an image by their addresses, from its symbol table (elf(5)).

/// Names and addresses of functions, in order of addresses.
#[derive(Debug, Default)]
pub(crate) struct Symbols(Vec<(u64, String)>);

const TABLE: u64 = 2;
const FUNCTION: u8 = 2;
/// The words of a section's head that are used, and the bytes of a symbol.
const HEAD: usize = 64;
const SYMBOL: usize = 24;

impl Symbols {
    /// Of a file; none if it does not hold any.
    pub(crate) fn of(file: &[u8]) -> Self {
        Self(read(file).unwrap_or_default())
    }

    /// The function that an address lies in, and how far.
    pub(crate) fn function(&self, address: u64) -> Option<String> {
        let after = self.0.partition_point(|(at, _)| *at <= address);
        let (at, name) = self.0.get(after.checked_sub(1)?)?;
        Some(format!("{name}+{:#x}", address - at))
    }
}

fn number(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let found = file.get(at..at.checked_add(bytes)?)?;
    Some(found.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
}

fn read(file: &[u8]) -> Option<Vec<(u64, String)>> {
    let word = |at: usize| number(file, at, 8).and_then(|word| usize::try_from(word).ok());
    let heads = word(40)?;
    let count = usize::try_from(number(file, 60, 2)?).ok()?;
    let head = |index: usize| heads.checked_add(index * HEAD);
    let is_table =
        |&index: &usize| head(index).and_then(|at| number(file, at + 4, 4)) == Some(TABLE);
    let table = head((0..count).find(is_table)?)?;
    let names = word(head(usize::try_from(number(file, table + 40, 4)?).ok()?)? + 24)?;
    let from = word(table + 24)?;
    let bytes = word(table + 32)?;
    let mut all = Vec::new();
    for at in (from..from.checked_add(bytes)?).step_by(SYMBOL) {
        if file.get(at + 4)? & 0xf != FUNCTION {
            continue;
        }
        let name = names + usize::try_from(number(file, at, 4)?).ok()?;
        let name = file.get(name..)?.split(|&byte| byte == 0).next()?;
        all.push((number(file, at + 8, 8)?, String::from_utf8_lossy(name).into_owned()));
    }
    all.sort();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_names_its_own_functions_and_garbage_names_none() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = Symbols::of(&own);
        assert!(symbols.0.len() > 1_000, "{}", symbols.0.len());
        let (at, name) = &symbols.0[symbols.0.len() / 2];
        assert!(symbols.function(*at).unwrap().ends_with("+0x0"), "{name}");
        for cut in [0, 10, 63, 64, 500] {
            assert!(Symbols::of(&own[..cut]).function(*at).is_none());
        }
    }
}
