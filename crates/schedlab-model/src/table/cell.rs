//! What stands in a cell, and what a column holds.

use super::{Head, Row};
use crate::bound::Bound;
use crate::{Cpu, Nanos, Pid, Prio};
use std::borrow::Cow;

/// The part of a figure that nobody acts on.
const NEGLIGIBLE: f64 = 0.01;

/// The content of a cell. The column's [`Kind`] says what it means.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'r> {
    /// Not known, or it does not apply: `null` in JSON, empty in CSV, `-` in text.
    Unknown,
    /// A whole number. In a column of times it counts nanoseconds.
    Whole(u64),
    /// A whole number that may be negative.
    Signed(i64),
    /// A measured number; unknown if it is not finite.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// Words: names, causes, lists in one cell.
    Text(Cow<'r, str>),
    /// Several, or the cells of a row in [`Kind::Rows`].
    List(Vec<Cell<'r>>),
}

impl Cell<'_> {
    /// The same, without what it borrows.
    #[must_use]
    pub(crate) fn into_owned(self) -> Cell<'static> {
        match self {
            Self::Unknown => Cell::Unknown,
            Self::Whole(number) => Cell::Whole(number),
            Self::Signed(number) => Cell::Signed(number),
            Self::Real(number) => Cell::Real(number),
            Self::Flag(flag) => Cell::Flag(flag),
            Self::Text(text) => Cell::Text(text.into_owned().into()),
            Self::List(cells) => Cell::List(cells.into_iter().map(Cell::into_owned).collect()),
        }
    }
}

/// A cell with its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Value<'r> {
    /// What is printed, without its bound.
    pub cell: Cell<'r>,
    /// How exact it is.
    pub bound: Bound,
}

impl Value<'_> {
    /// Whether it is a bound, or may be more than 1 % of itself away.
    pub(super) fn is_touched(&self) -> bool {
        match (self.bound, &self.cell) {
            (_, Cell::Unknown) | (Bound::Exact, _) => false,
            (Bound::Within(apart), Cell::Whole(value)) => apart > *value as f64 * NEGLIGIBLE,
            (Bound::Within(apart), Cell::Real(value)) => apart > value.abs() * NEGLIGIBLE,
            _ => true,
        }
    }
}

/// What a column holds: how text spells it, and what its schema says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A length of time in nanoseconds. Text has three significant digits, the rest is exact.
    Duration,
    /// A mean of lengths of time in nanoseconds, which need not be whole. Text has three significant digits.
    MeanTime,
    /// A point in time on the trace's clock, in nanoseconds. JSON and CSV have the time since the trace began; text has
    /// all digits of the clock.
    Point,
    /// How many.
    Count,
    /// A logical CPU, as Linux numbers it.
    Cpu,
    /// A number that names something, or that may be negative: a task, a priority.
    Number,
    /// A part of one.
    Share,
    /// A measured number.
    Real,
    /// Yes or no.
    Flag,
    /// Names and words; aligned to the left.
    Text,
    /// Several of a kind, and whether some of them can be unknown.
    List(Box<Kind>, bool),
    /// Several rows with these columns.
    Rows(Vec<Head>),
}

/// What a getter of a column may return.
pub trait Measure {
    /// Whether it can be unknown.
    const NULLABLE: bool = false;
    /// What such a column holds.
    fn kind() -> Kind;
    /// Converts the value, whose unit the type says.
    fn cell(self) -> Cell<'static>;
}

/// A point in time on the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub Nanos);

/// A mean of lengths of time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanTime(pub f64);

/// A part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// Rows of another kind: a list of objects in JSON.
#[derive(Clone, Debug)]
pub struct Items<I>(pub Vec<I>);

impl<I: Row> Measure for Items<I> {
    fn kind() -> Kind {
        Kind::Rows(I::columns().into_iter().map(|column| column.head).collect())
    }
    fn cell(self) -> Cell<'static> {
        let columns = I::columns();
        let record = |item: &I| {
            let cells = columns.iter().map(|column| column.value(item).cell.into_owned());
            Cell::List(cells.collect())
        };
        Cell::List(self.0.iter().map(record).collect())
    }
}

macro_rules! measure {
    ($($type:ty: $kind:ident, $value:ident => $cell:expr;)+) => {$(
        impl Measure for $type {
            fn kind() -> Kind {
                Kind::$kind
            }
            fn cell(self) -> Cell<'static> {
                let $value = self;
                $cell
            }
        }
    )+};
}
measure! {
    Nanos: Duration, time => Cell::Whole(time.0);
    MeanTime: MeanTime, mean => Cell::Real(mean.0);
    At: Point, at => Cell::Whole(at.0.0);
    i32: Number, number => Cell::Signed(number.into());
    u64: Count, count => Cell::Whole(count);
    u32: Count, count => Cell::Whole(count.into());
    usize: Count, count => Cell::Whole(count as u64);
    Cpu: Cpu, cpu => Cell::Whole(cpu.0.into());
    Pid: Number, pid => Cell::Signed(pid.0.into());
    Prio: Number, prio => Cell::Signed(prio.0.into());
    Share: Share, share => Cell::Real(share.0);
    f64: Real, number => Cell::Real(number);
    bool: Flag, flag => Cell::Flag(flag);
    &'static str: Text, text => Cell::Text(text.into());
    String: Text, text => Cell::Text(text.into());
}

impl<T: Measure> Measure for Option<T> {
    const NULLABLE: bool = true;
    fn kind() -> Kind {
        T::kind()
    }
    fn cell(self) -> Cell<'static> {
        self.map_or(Cell::Unknown, T::cell)
    }
}

impl<T: Measure> Measure for Vec<T> {
    fn kind() -> Kind {
        Kind::List(Box::new(T::kind()), T::NULLABLE)
    }
    fn cell(self) -> Cell<'static> {
        Cell::List(self.into_iter().map(T::cell).collect())
    }
}
