//! Tables: each column is declared once, and text, JSON, CSV, schemas and documents follow from that.
//!
//! A [`Row`] lists its [`Column`]s: name, a sentence of meaning, and how to get the cell from a row. The type that the
//! getter returns decides what the column holds. The row is the question's own struct.
//!
//! ```
//! use schedlab_model::table::{Column, Row, Rows};
//! use schedlab_model::{Nanos, columns};
//!
//! struct Load { name: String, busy: Nanos }
//!
//! impl Row for Load {
//!     const ABOUT: &'static str = "What a load took.";
//!     fn columns() -> Vec<Column<Self>> {
//!         columns! { row: Self;
//!             "name" ["name"] = row.name.clone(), "The load.";
//!             "busy_ns" ["busy", 1] = row.busy, "Time in which it ran.";
//!         }
//!     }
//! }
//!
//! let loads = [Load { name: "a,b".into(), busy: Nanos(2_512_345) }];
//! let rows = Rows::new(&loads, Nanos::ZERO);
//! assert_eq!(rows.csv(false), "name,busy_ns\n\"a,b\",2512345\n");
//! let mut text = rows.text(80, &[]);
//! text.all();
//! assert_eq!(text.print(0), "name     busy\na,b   2.51 ms\n");
//! ```

mod cell;
mod csv;
mod json;
mod schema;
mod text;

pub use crate::bound::Bound;
pub use cell::{At, Cell, Items, Kind, MeanTime, Measure, Share, Value};
pub use csv::Csv;
pub use text::{TextRows, TextTable};

use crate::{Known, Nanos, Need};
use std::borrow::Cow;

/// What is known of a column before its first row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Head {
    /// The name in JSON and CSV, with its unit; JSON nests at the dots of `wakeup.latency_ns_p99`.
    pub name: Cow<'static, str>,
    /// What it holds.
    pub kind: Kind,
    /// Whether a cell can be unknown.
    pub(crate) nullable: bool,
    /// What it means, a sentence.
    pub about: Cow<'static, str>,
    /// Its name in text, `GROUP: NAME` where neighbours have a group in common; empty if text has it with `--wide` only.
    pub(crate) title: Cow<'static, str>,
    /// A text that is too wide drops the columns with the highest rank first, and never those of rank 0.
    pub(crate) rank: u8,
    /// Whether each cell says if it is exact ([`Bound`]); JSON and CSV then have `NAME_bound` too.
    pub bounded: bool,
    /// Whether it is in JSON only, and only if it was asked for.
    pub on_request: bool,
    /// What a trace must hold for it; `None` if any trace does. Without that it is unknown or a bound ([`Rows::known`]).
    pub(crate) need: Option<Need>,
}

/// How to get the cell of a row, or those of many: that loop is compiled for each column.
trait Get<R> {
    fn cell<'r>(&self, row: &'r R) -> Cell<'r>;
    fn cells<'r>(&self, rows: &'r [R], into: &mut Vec<Cell<'r>>);
}

impl<R, F: for<'r> Fn(&'r R) -> Cell<'r>> Get<R> for F {
    fn cell<'r>(&self, row: &'r R) -> Cell<'r> {
        self(row)
    }

    fn cells<'r>(&self, rows: &'r [R], into: &mut Vec<Cell<'r>>) {
        into.extend(rows.iter().map(self));
    }
}

type Getter<R> = Box<dyn Get<R>>;

fn getter<R>(get: impl for<'r> Fn(&'r R) -> Cell<'r> + 'static) -> Getter<R> {
    Box::new(get)
}

/// What a row says.
type Says<R, T> = Box<dyn Fn(&R) -> T>;

/// A column: what it is, and how to get its cell from a row.
pub struct Column<R> {
    head: Head,
    get: Getter<R>,
    bound: Option<Says<R, Bound>>,
    /// Rows of which the cell tells a part alone, in any trace.
    at_least: Option<Says<R, bool>>,
    spelled: Option<Says<R, String>>,
    /// How much of the column a nanosecond is.
    each_ns: Option<Says<R, f64>>,
    /// By how much times may be off from which its cells follow, in nanoseconds.
    off_ns: f64,
    /// Whether the trace cannot tell any of its cells.
    blank: bool,
}

impl<R> std::fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.head.fmt(f)
    }
}

/// A column whose kind is that of what `get` returns.
pub fn column<R, T: Measure>(
    name: impl Into<Cow<'static, str>>,
    about: impl Into<Cow<'static, str>>,
    get: impl Fn(&R) -> T + 'static,
) -> Column<R> {
    Column::new(name.into(), about.into(), T::kind(), move |row| get(row).cell())
        .nullable(T::NULLABLE)
}

/// Columns, a line each: `"NAME" ["TITLE", RANK] @ NEED = getter => text, "Meaning.";` ([`Column::title`],
/// [`Column::rank`], [`Column::needs`], [`Column::spelled`]). Without a title a column is in text with `--wide` only.
#[macro_export]
macro_rules! columns {
    ($row:ident: $type:ty; $($name:literal $([$title:literal $(, $rank:literal)?])? $(@ $need:ident)? = $get:expr $(=> $text:expr)?, $about:literal;)*) => {
        vec![$(
            $crate::table::column($name, $about, |$row: &$type| $get)$(.title($title)$(.rank($rank))?)?$(.needs($crate::Need::$need))?$(.spelled(|$row: &$type| $text))?
        ),*]
    };
}

/// A column of texts that rows lend.
pub fn words<R>(
    name: impl Into<Cow<'static, str>>,
    about: impl Into<Cow<'static, str>>,
    get: impl for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + 'static,
) -> Column<R> {
    Column::new(name.into(), about.into(), Kind::Text, move |row| {
        get(row).map_or(Cell::Unknown, Cell::Text)
    })
    .nullable(true)
}

impl<R> Column<R> {
    fn new(
        name: Cow<'static, str>,
        about: Cow<'static, str>,
        kind: Kind,
        get: impl for<'r> Fn(&'r R) -> Cell<'r> + 'static,
    ) -> Self {
        let title = Cow::Borrowed("");
        let head = Head {
            name,
            kind,
            nullable: false,
            about,
            title,
            rank: 0,
            bounded: false,
            on_request: false,
            need: None,
        };
        let get = getter(get);
        Self {
            head,
            get,
            bound: None,
            at_least: None,
            spelled: None,
            each_ns: None,
            off_ns: 0.0,
            blank: false,
        }
    }

    fn nullable(mut self, nullable: bool) -> Self {
        self.head.nullable = nullable;
        self
    }

    /// The column is in the text table, under this title; where there is no room for it, it never is left out.
    #[must_use]
    pub fn title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.head.title = title.into();
        self
    }

    /// Where there is no room, columns of a higher rank are left out first.
    #[must_use]
    pub const fn rank(mut self, rank: u8) -> Self {
        self.head.rank = rank;
        self
    }

    /// Text has this instead of the cell.
    #[must_use]
    pub fn spelled(mut self, text: impl Fn(&R) -> String + 'static) -> Self {
        self.spelled = Some(Box::new(text));
        self
    }

    /// Each cell says whether it is exact.
    #[must_use]
    pub fn bounded(mut self, bound: impl Fn(&R) -> Bound + 'static) -> Self {
        self.head.bounded = true;
        self.bound = Some(Box::new(bound));
        self
    }

    /// Cells of rows for which this holds are at least so much, also if the trace tells all.
    #[must_use]
    pub fn at_least(mut self, holds: impl Fn(&R) -> bool + 'static) -> Self {
        self.at_least = Some(Box::new(holds));
        self
    }

    /// A cell that is no time, but follows from one: how much of it a nanosecond is. Where times may be off, the cell is as
    /// much; without this it is unknown then.
    #[must_use]
    pub fn each_ns(mut self, of: impl Fn(&R) -> f64 + 'static) -> Self {
        self.each_ns = Some(Box::new(of));
        self
    }

    /// Each cell says whether it is exact, if one of these rows has a cell that is not.
    fn marked<'r>(mut self, mut rows: impl Iterator<Item = &'r R>) -> Self
    where
        R: 'r,
    {
        let is_part = |holds: &Says<R, bool>| rows.any(holds);
        self.head.bounded |= !self.blank && self.at_least.as_ref().is_some_and(is_part);
        self
    }

    /// Only JSON has it, and only if it was asked for ([`Rows::with`]).
    #[must_use]
    pub const fn on_request(mut self) -> Self {
        self.head.on_request = true;
        self
    }

    /// Its cells are figures that need this of a trace.
    #[must_use]
    pub fn needs(mut self, need: Need) -> Self {
        self.head.need = Some(need);
        self.head.nullable = true;
        self
    }

    /// The column as this is known of the trace: its cells exact, a bound, or unknown.
    fn known(self, known: &Known) -> Self {
        let is_time = matches!(self.head.kind, Kind::Duration);
        let ticks = known.ticks && is_time;
        let kind = if ticks { Kind::Count } else { self.head.kind };
        let head = Head { kind, ..self.head };
        let Some(need) = head.need else { return Self { head, ..self } };
        let this = Self { head, ..self };
        match known.of(need) {
            Some(Bound::Within(ns)) if !is_time => this.off_by(ns),
            bound => this.exact_as(bound),
        }
    }

    /// Its cells exact, a bound, or unknown.
    fn exact_as(self, bound: Option<Bound>) -> Self {
        match bound {
            Some(Bound::Exact) => {
                let head = Head { bounded: false, ..self.head };
                Self { head, bound: None, ..self }
            }
            Some(_) if self.bound.is_some() => self,
            Some(bound) => self.bounded(move |_| bound),
            None => {
                let get = getter(|_| Cell::Unknown);
                Self { get, bound: None, spelled: None, blank: true, ..self }
            }
        }
    }

    /// Its cells as far away as times that are off by `ns` make them, and as they are anyway.
    fn off_by(mut self, ns: f64) -> Self {
        if self.each_ns.is_some() {
            self.off_ns = ns;
            self.head.bounded = true;
            return self;
        }
        // How many there are, and what they are called, is told by events and by no time.
        let is_measured = matches!(self.head.kind, Kind::Share | Kind::Real);
        self.exact_as(if is_measured { None } else { Some(Bound::Exact) })
    }

    /// The same column of a row that holds such a row.
    #[must_use]
    pub fn of<O>(self, inner: impl for<'r> Fn(&'r O) -> &'r R + Copy + 'static) -> Column<O>
    where
        R: 'static,
    {
        let Self { head, get, bound, at_least, spelled, each_ns, off_ns, blank } = self;
        Column {
            head,
            get: getter(move |row| get.cell(inner(row))),
            bound: bound.map(|bound| -> Says<O, Bound> { Box::new(move |row| bound(inner(row))) }),
            at_least: at_least.map(|it| -> Says<O, bool> { Box::new(move |row| it(inner(row))) }),
            spelled: spelled
                .map(|spelled| -> Says<O, String> { Box::new(move |row| spelled(inner(row))) }),
            each_ns: each_ns.map(|each| -> Says<O, f64> { Box::new(move |row| each(inner(row))) }),
            off_ns,
            blank,
        }
    }

    /// The same column as a part of a larger row: below this name, and in this group of the text where that has a name.
    #[must_use]
    pub fn below(mut self, name: &str, group: &str) -> Self {
        self.head.name = format!("{name}.{}", self.head.name).into();
        if !(self.head.title.is_empty() || group.is_empty()) {
            self.head.title = format!("{group}: {}", self.head.title).into();
        }
        self
    }

    /// What is known before the first row.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The cell of a row.
    #[must_use]
    pub fn value<'r>(&self, row: &'r R) -> Value<'r> {
        Value { cell: self.get.cell(row), bound: self.bound(row) }
    }

    /// How exact the cell of a row is.
    #[must_use]
    pub fn bound(&self, row: &R) -> Bound {
        let is_part = |holds: &Says<R, bool>| !self.blank && holds(row);
        let follows = self.each_ns.as_ref().map_or(0.0, |each| self.off_ns * each(row));
        match self.bound.as_ref().map_or(Bound::Exact, |bound| bound(row)) {
            Bound::Exact if self.at_least.as_ref().is_some_and(is_part) => Bound::AtLeast,
            Bound::Exact | Bound::Within(0.0) if follows == 0.0 => Bound::Exact,
            Bound::Exact => Bound::Within(follows),
            Bound::Within(apart) => Bound::Within(apart + follows),
            bound => bound,
        }
    }

    /// Adds the cells of these rows, which takes less time than one by one.
    pub fn cells<'r>(&self, rows: &'r [R], into: &mut Vec<Cell<'r>>) {
        self.get.cells(rows, into);
    }
}

/// What can be a row: it declares its columns once, for text, JSON, CSV and the documentation.
pub trait Row: Sized {
    /// A sentence for the documentation: what one row stands for.
    const ABOUT: &'static str;
    /// The columns, in the order of JSON, CSV and text.
    fn columns() -> Vec<Column<Self>>;
}

/// Rows with their columns: an array of objects in JSON, lines in CSV, a table in text.
#[derive(Debug)]
pub struct Rows<'a, R> {
    rows: &'a [R],
    columns: Vec<Column<R>>,
    origin: Nanos,
}

impl<'a, R: Row> Rows<'a, R> {
    /// These rows; points in time are shown since `origin`.
    #[must_use]
    pub fn new(rows: &'a [R], origin: Nanos) -> Self {
        let columns = R::columns().into_iter().filter(|column| !column.head.on_request);
        Self { rows, columns: columns.collect(), origin }
    }

    /// With the columns that only come on request, if they were asked for.
    #[must_use]
    pub fn with(mut self, requested: bool) -> Self {
        if requested {
            self.columns = R::columns();
        }
        self
    }
}

impl<'a, R> Rows<'a, R> {
    /// With further columns, which are known only now.
    #[must_use]
    pub fn and(mut self, columns: impl IntoIterator<Item = Column<R>>) -> Self {
        self.columns.extend(columns);
        self
    }

    /// With a further column before the one with this name; last if there is none.
    #[must_use]
    pub fn before(mut self, name: &str, column: Column<R>) -> Self {
        let place = self.columns.iter().position(|one| one.head.name == name);
        self.columns.insert(place.unwrap_or(self.columns.len()), column);
        self
    }

    /// As this is known of the trace: cells whose figure the trace cannot tell are unknown, and others are bounds.
    #[must_use]
    pub fn known(mut self, known: &Known) -> Self {
        let rows = self.rows;
        let told = |column: Column<R>| column.known(known).marked(rows.iter());
        self.columns = self.columns.into_iter().map(told).collect();
        self
    }

    /// Cells of the column with this name, for which `off` gives a number, are at most that far away. A column that holds
    /// bounds already keeps these.
    #[must_use]
    pub fn off(mut self, name: &str, off: impl Fn(&R) -> Option<f64> + 'static) -> Self {
        let is_it = |column: &Column<R>| {
            column.head.name == name && !column.blank && column.bound.is_none()
        };
        let is_any = self.rows.iter().any(|row| off(row).is_some());
        if let Some(place) = self.columns.iter().position(is_it).filter(|_| is_any) {
            let column = self.columns.remove(place);
            let bounded = column.bounded(move |row| off(row).map_or(Bound::Exact, Bound::Within));
            self.columns.insert(place, bounded);
        }
        self
    }

    /// Whether the trace tells no figure of any row.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let mut figures = self.columns.iter().filter(|one| one.head.need.is_some()).peekable();
        figures.peek().is_some() && figures.all(|one| one.blank)
    }

    /// The rows themselves.
    #[must_use]
    pub const fn rows(&self) -> &'a [R] {
        self.rows
    }

    /// The columns, also those that were added at run time.
    #[must_use]
    pub fn columns(&self) -> &[Column<R>] {
        &self.columns
    }
}

/// One row with its columns: an object in JSON.
#[derive(Debug)]
pub struct One<'a, R> {
    row: &'a R,
    columns: Vec<Column<R>>,
    origin: Nanos,
}

impl<'a, R: Row> One<'a, R> {
    /// This row; points in time are shown since `origin`.
    #[must_use]
    pub fn new(row: &'a R, origin: Nanos, requested: bool) -> Self {
        let columns = R::columns().into_iter().filter(|one| requested || !one.head.on_request);
        Self { row, columns: columns.collect(), origin }
    }

    /// As [`Rows::known`].
    #[must_use]
    pub fn known(mut self, known: &Known) -> Self {
        let row = self.row;
        let told = |column: Column<R>| column.known(known).marked(std::iter::once(row));
        self.columns = self.columns.into_iter().map(told).collect();
        self
    }
}

#[cfg(test)]
mod tests;
