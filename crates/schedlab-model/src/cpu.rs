//! Logical CPUs and sets of them, as Linux numbers and lists them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A logical CPU by its Linux number (0 ..= 65,535; numbers can have holes).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct Cpu(pub u16);

impl Cpu {
    /// The number, for tables with an entry for each CPU.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of CPUs, kept as bits; printed and read as a Linux list (`0-3,8`).
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// A set that holds no CPU.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The CPUs `0 .. count`.
    #[must_use]
    pub fn first(count: usize) -> Self {
        (0..count).map(|i| Cpu(u16::try_from(i).unwrap_or(u16::MAX))).collect()
    }

    /// From a kernel mask: bit `i` of word `i / 64` is CPU `i`.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self { words: words.to_vec() };
        set.trim();
        set
    }

    /// The kernel mask: bit `i` of word `i / 64` is CPU `i`; no trailing zero words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a CPU to the set; a CPU that is in it already changes nothing.
    pub fn insert(&mut self, cpu: Cpu) {
        let word = cpu.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu.index() % 64);
    }

    /// Adds the CPUs `first ..= last`, by words: a file may name all CPUs thousands of times.
    fn insert_range(&mut self, first: u16, last: u16) {
        let from = usize::from(first) / 64;
        let to = usize::from(last) / 64;
        self.words.resize(self.words.len().max(to + 1), 0);
        for word in from..=to {
            let low = if word == from { u64::MAX << (first % 64) } else { u64::MAX };
            let high = if word == to { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            self.words[word] |= low & high;
        }
    }

    /// Takes a CPU out.
    pub fn remove(&mut self, cpu: Cpu) {
        if let Some(word) = self.words.get_mut(cpu.index() / 64) {
            *word &= !(1 << (cpu.index() % 64));
            self.trim();
        }
    }

    /// Whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: Cpu) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.index() % 64) & 1 == 1)
    }

    /// How many CPUs are in the set; counts bits, so it takes time with the highest CPU.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no CPU is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| {
                Cpu(u16::try_from(index * 64 + bit).expect("a CPU came in as a u16"))
            })
        })
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        let mut set = Self { words };
        set.trim();
        set
    }

    /// Whether some CPU is in both; allocates nothing.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<Cpu> for CpuSet {
    fn from_iter<I: IntoIterator<Item = Cpu>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| next.0 == last.0 + 1) {
                last = next;
            }
            match last == first {
                true => write!(f, "{separator}{first}")?,
                false => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Why a text is not a CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} '{part}' in CPU list '{list}': {remedy}")]
pub struct CpuListError {
    what: &'static str,
    part: String,
    list: String,
    remedy: &'static str,
}

impl CpuListError {
    /// A part is neither a number, a range, nor a strided range.
    fn part(part: &str, list: &str) -> Self {
        Self {
            what: "CPU or range",
            part: part.into(),
            list: list.into(),
            remedy: "use the form 0-3,8",
        }
    }

    fn backwards(part: &str, list: &str) -> Self {
        Self {
            what: "range",
            part: part.into(),
            list: list.into(),
            remedy: "put the lower CPU first",
        }
    }
}

/// Reads a Linux CPU list: `0-3,8`, and strides as in `0-31:2/4`. Empty text is the empty set.
impl FromStr for CpuSet {
    type Err = CpuListError;
    fn from_str(list: &str) -> Result<Self, CpuListError> {
        let mut set = Self::new();
        let list = list.trim();
        for part in list.split(',').filter(|_| !list.is_empty()) {
            let wrong = || CpuListError::part(part, list);
            let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
            let (range, stride) = part.split_once(':').unwrap_or((part, "1/1"));
            let (used, of) = stride.split_once('/').ok_or_else(wrong)?;
            let used = number(used)?;
            let of = number(of)?.max(1);
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first = number(first)?;
            let last = number(last)?;
            if last < first {
                return Err(CpuListError::backwards(part, list));
            }
            if used >= of {
                set.insert_range(first, last);
                continue;
            }
            for cpu in (first..=last).filter(|cpu| (cpu - first) % of < used) {
                set.insert(Cpu(cpu));
            }
        }
        Ok(set)
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuListError;
    fn try_from(list: String) -> Result<Self, CpuListError> {
        list.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_each_cpu_of_it_and_no_other() {
        for first in [0, 1, 63, 64, 65, 130] {
            for last in [first, first + 1, first + 62, first + 63, first + 64, first + 200] {
                let set: CpuSet = format!("{first}-{last}").parse().unwrap();
                assert_eq!(set, (first..=last).map(Cpu).collect(), "{first}-{last}");
            }
        }
        assert_eq!("0-65535".parse::<CpuSet>().unwrap().len(), 1 << 16);
    }

    #[test]
    fn lists_are_read_as_linux_prints_them() {
        for (list, cpus, printed) in [
            ("", vec![], ""),
            ("0", vec![0], "0"),
            ("0-3,8", vec![0, 1, 2, 3, 8], "0-3,8"),
            ("8,0-1,1", vec![0, 1, 8], "0-1,8"),
            ("0-7:2/4", vec![0, 1, 4, 5], "0-1,4-5"),
            ("63-65,1023", vec![63, 64, 65, 1023], "63-65,1023"),
        ] {
            let set: CpuSet = list.parse().unwrap();
            assert_eq!(set.iter().map(|cpu| cpu.0).collect::<Vec<_>>(), cpus, "{list}");
            assert_eq!(set.to_string(), printed);
            assert_eq!(set.len(), cpus.len());
        }
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_part() {
        for list in ["a", "1-", "-1", "1,,2", ",", "70000", "1-2-3", "0-3:x"] {
            let error = list.parse::<CpuSet>().unwrap_err().to_string();
            let end = format!(" in CPU list '{list}': use the form 0-3,8");
            assert!(
                error.starts_with("invalid CPU or range '") && error.ends_with(&end),
                "{error}"
            );
        }
        assert_eq!(
            "3-1".parse::<CpuSet>().unwrap_err().to_string(),
            "invalid range '3-1' in CPU list '3-1': put the lower CPU first"
        );
    }

    #[test]
    fn sets_are_equal_by_content() {
        let mut set: CpuSet = "0,100".parse().unwrap();
        set.remove(Cpu(100));
        assert_eq!(set, CpuSet::first(1));
        assert!(!set.intersects(&"1-200".parse().unwrap()));
        assert!(set.intersection(&"1-200".parse().unwrap()).is_empty());
    }
}
