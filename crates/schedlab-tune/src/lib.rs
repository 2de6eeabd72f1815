//! Search for the best setting with few and expensive runs, whose results are noisy.
//!
//! A [`Search`] proposes points of a [`Space`] ([`Search::ask`]) and learns what was measured there
//! ([`Search::tell`]). It knows nothing about machines or workloads. What it proposes depends on its
//! options and on the measurements that it got, in this order, and on nothing else: a search that gets the same
//! again goes on in the same way.
//!
//! All values are "lower is better". Callers hand in logarithms where noise is relative.
//!
//! ```
//! use schedlab_tune::{Axis, Options, Outcome, Search, Space};
//! let space = Space::new(vec![Axis::ordered("slice", &[0.1, 1.0, 10.0, 100.0], true)]);
//! let mut search = Search::new(space, Options { budget: 12, ..Options::default() });
//! while let Some(point) = search.ask() {
//!     let measured = (point[0] as f64 - 2.0).powi(2);
//!     search.tell(point, Outcome::of(measured));
//! }
//! assert_eq!(search.advice().unwrap().point, [2]);
//! ```

mod design;
mod influence;
mod process;
mod region;
mod search;
mod space;

pub use influence::{Influence, influences};
pub use region::Region;
pub use search::{Advice, Method, Options, Outcome, Search, Trial};
pub use space::{Axis, Levels, Point, Space, When};
