//! Columns that grow row by row, and become Arrow arrays.

use crate::table::Table;
use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use schedlab_model::{Comm, Cpu, Nanos, Pid};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Rows of a part of a table: few parts, and none is copied as the table grows.
pub(crate) const PART: usize = 1 << 18;

/// Numbers that may be absent, with room for a part.
pub(crate) type Numbers<T> = PrimitiveBuilder<T>;

/// An empty column with room for `rows`.
pub(crate) fn numbers<T: arrow_array::types::ArrowPrimitiveType>(rows: usize) -> Numbers<T> {
    PrimitiveBuilder::with_capacity(rows)
}

/// A time as the tables have it: signed, so that differences are too.
#[inline]
pub(crate) fn time(at: Nanos) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// A CPU as the tables have it.
#[inline]
pub(crate) const fn cpu(cpu: Cpu) -> u16 {
    cpu.0
}

/// What a column is made of.
pub(crate) enum Column {
    /// The values themselves.
    Plain,
    /// Numbers of words: the words are known at the end.
    Words(Vec<String>),
}

/// A column with its name, and its unit where it has one.
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) unit: Option<&'static str>,
    pub(crate) column: Column,
}

/// A column of values.
pub(crate) fn plain(name: impl Into<String>) -> Head {
    Head { name: name.into(), unit: None, column: Column::Plain }
}

/// A column of nanoseconds.
pub(crate) fn nanos(name: &str) -> Head {
    Head { name: name.into(), unit: Some("ns"), column: Column::Plain }
}

/// A column of words.
pub(crate) fn words<W: Into<String>>(
    name: impl Into<String>,
    all: impl IntoIterator<Item = W>,
) -> Head {
    let all = all.into_iter().map(Into::into).collect();
    Head { name: name.into(), unit: None, column: Column::Words(all) }
}

/// Makes a table of its parts: each has an array for each head.
pub(crate) fn table(heads: Vec<Head>, parts: Vec<Vec<ArrayRef>>) -> Result<Table, ArrowError> {
    let words: Vec<Option<ArrayRef>> = heads
        .iter()
        .map(|head| match &head.column {
            Column::Plain => None,
            Column::Words(words) => {
                Some(Arc::new(StringArray::from_iter_values(words)) as ArrayRef)
            }
        })
        .collect();
    let parts: Vec<Vec<ArrayRef>> = parts
        .into_iter()
        .map(|part| {
            part.into_iter().zip(&words).map(|(array, words)| spelt(array, words)).collect()
        })
        .collect::<Result<_, _>>()?;
    let fields: Vec<Field> = heads
        .iter()
        .enumerate()
        .map(|(index, head)| {
            let kind = parts.first().map_or(DataType::Null, |part| part[index].data_type().clone());
            let field = Field::new(&head.name, kind, true);
            match head.unit {
                Some(unit) => {
                    field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())]))
                }
                None => field,
            }
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = parts
        .into_iter()
        .map(|part| RecordBatch::try_new(Arc::clone(&schema), part))
        .collect::<Result<_, _>>()?;
    Ok(Table::new(schema, batches))
}

/// Numbers of words become words, which all parts share.
fn spelt(array: ArrayRef, words: &Option<ArrayRef>) -> Result<ArrayRef, ArrowError> {
    let Some(words) = words else { return Ok(array) };
    let any = array.as_any();
    if let Some(keys) = any.downcast_ref::<arrow_array::Int8Array>() {
        let spelt = DictionaryArray::<Int8Type>::try_new(keys.clone(), Arc::clone(words))?;
        return Ok(Arc::new(spelt));
    }
    let keys = any.downcast_ref::<arrow_array::Int32Array>();
    let keys = keys.ok_or_else(|| ArrowError::SchemaError("words have numbers".into()))?;
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys.clone(), Arc::clone(words))?))
}

/// The kernel's largest pid plus one.
const PIDS_MAX: usize = 1 << 22;

/// Words that turn up on the way, by number.
#[derive(Default)]
pub(crate) struct Found(BTreeMap<String, i32>);

impl Found {
    /// The number of a word.
    pub(crate) fn number(&mut self, word: &str) -> i32 {
        if let Some(number) = self.0.get(word) {
            return *number;
        }
        let number = i32::try_from(self.0.len()).unwrap_or(i32::MAX);
        self.0.insert(word.to_owned(), number);
        number
    }

    /// All words by number.
    pub(crate) fn words(self) -> Vec<String> {
        let mut words: Vec<(i32, String)> =
            self.0.into_iter().map(|(word, number)| (number, word)).collect();
        words.sort_unstable();
        words.into_iter().map(|(_, word)| word).collect()
    }
}

/// Names of tasks as of an event, by number.
pub(crate) struct Comms {
    by_pid: Vec<i32>,
    numbers: BTreeMap<Comm, i32>,
    words: Found,
}

impl Comms {
    /// The number of the name of a task of which nobody told.
    const UNKNOWN: i32 = 1;

    /// Those that are known before the first event.
    pub(crate) fn new(known: &BTreeMap<Pid, Comm>) -> Self {
        let mut words = Found::default();
        let idle = words.number("<idle>");
        let unknown = words.number("<...>");
        debug_assert_eq!(unknown, Self::UNKNOWN);
        let mut comms = Self { by_pid: vec![idle], numbers: BTreeMap::new(), words };
        known.iter().for_each(|(pid, comm)| comms.put(*pid, comm));
        comms
    }

    /// From now on a task has this name.
    pub(crate) fn put(&mut self, pid: Pid, comm: &Comm) {
        let index = usize::try_from(pid.0).unwrap_or(0);
        if index == 0 || index >= PIDS_MAX {
            return;
        }
        if index >= self.by_pid.len() {
            self.by_pid.resize(index + 1, Self::UNKNOWN);
        }
        let words = &mut self.words;
        self.by_pid[index] = *self.numbers.entry(*comm).or_insert_with(|| {
            let length = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
            words.number(std::str::from_utf8(&comm[..length]).unwrap_or("<...>"))
        });
    }

    /// The number of a task's name.
    #[inline]
    pub(crate) fn of(&self, pid: Pid) -> i32 {
        let number = usize::try_from(pid.0).ok().and_then(|index| self.by_pid.get(index));
        number.copied().unwrap_or(Self::UNKNOWN)
    }

    /// All names by number.
    pub(crate) fn words(self) -> Vec<String> {
        self.words.words()
    }
}
