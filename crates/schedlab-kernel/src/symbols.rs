//! The functions of an image by their addresses, and the variables of a linked scheduler, from its symbol table
//! (elf(5)).

/// Names and addresses of functions, in order of addresses.
#[derive(Debug, Default)]
pub(crate) struct Symbols(Vec<(u64, String)>);

const TABLE: u64 = 2;
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
/// The words of a section's head that are used, and the bytes of a symbol.
const HEAD: usize = 64;
const SYMBOL: usize = 24;

impl Symbols {
    /// Of a file; none if it does not hold any.
    pub(crate) fn of(file: &[u8]) -> Self {
        Self(read(file).unwrap_or_default())
    }

    /// The variables of the scheduler that is linked to an image; none if there is no scheduler.
    pub(crate) fn variables(file: &[u8]) -> Vec<Variable> {
        read_variables(file).unwrap_or_default()
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

/// A variable of the scheduler that is linked to an image.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Where its bytes lie in the file, and how many there are.
    pub(crate) at: usize,
    pub(crate) bytes: usize,
}

fn read(file: &[u8]) -> Option<Vec<(u64, String)>> {
    let mut all = Vec::new();
    each(file, |kind, _, at, _, name| {
        if kind == FUNCTION {
            all.push((at, name.to_owned()));
        }
    })?;
    all.sort();
    Some(all)
}

/// The variables of the section `.scheduler`, by name.
fn read_variables(file: &[u8]) -> Option<Vec<Variable>> {
    const SECTION: &str = ".scheduler";
    let word = |at: usize| number(file, at, 8).and_then(|word| usize::try_from(word).ok());
    let heads = word(40)?;
    let head = |index: u64| heads.checked_add(usize::try_from(index).ok()? * HEAD);
    let names = word(head(number(file, 62, 2)?)? + 24)?;
    let is_section = |&index: &u64| {
        let name = head(index).and_then(|head| number(file, head, 4));
        let name = name.and_then(|name| text(file, names + usize::try_from(name).ok()?));
        name == Some(SECTION)
    };
    let section = (0..number(file, 60, 2)?).find(is_section)?;
    let [address, offset] = [16, 24].map(|at| head(section).and_then(|head| word(head + at)));
    let address = address?;
    let offset = offset?;
    let mut all = Vec::new();
    each(file, |kind, of, at, bytes, name| {
        if kind == OBJECT && of == section {
            let at = (at as usize).wrapping_sub(address).saturating_add(offset);
            all.push(Variable { name: name.to_owned(), at, bytes: bytes as usize });
        }
    })?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Some(all)
}

fn text(file: &[u8], at: usize) -> Option<&str> {
    std::str::from_utf8(file.get(at..)?.split(|&byte| byte == 0).next()?).ok()
}

/// Calls for each symbol with its kind, section, value, size and name.
fn each(file: &[u8], mut one: impl FnMut(u8, u64, u64, u64, &str)) -> Option<()> {
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
    for at in (from..from.checked_add(bytes)?).step_by(SYMBOL) {
        let name = text(file, names + usize::try_from(number(file, at, 4)?).ok()?)?;
        let kind = file.get(at + 4)? & 0xf;
        one(
            kind,
            number(file, at + 6, 2)?,
            number(file, at + 8, 8)?,
            number(file, at + 16, 8)?,
            name,
        );
    }
    Some(())
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
