//! Pictures of what a scheduler did, on paper and on screen.
//!
//! Data passes one way: a builder ([`cores`], [`waiting`], the charts) turns answers about a trace, or plain
//! numbers, into a [`Scene`], which decides everything in integer units; [`svg`], [`pdf`] and [`png`]
//! spell it. Fonts travel in the library, so the same input gives the same bytes on every machine.
//!
//! ```
//! use schedlab_draw::{Anchor, PX, Scene, Style, Theme, at};
//! let theme = Theme::light();
//! let mut scene = Scene::new(200 * PX, 40 * PX, "hello", theme.ground);
//! scene.text(at(10 * PX, 25 * PX), Anchor::Start, Style::bold(14, theme.text), "hello");
//! assert!(schedlab_draw::svg(&scene).contains(">hello</text>"));
//! assert!(schedlab_draw::pdf(&scene).starts_with(b"%PDF"));
//! ```

mod assign;
mod axis;
mod cause;
pub mod chart;
pub mod choice;
mod colour;
pub mod cores;
mod event_filter;
pub mod flame;
mod font;
pub mod levels;
pub mod marks;
pub mod page;
mod pdf;
mod png;
pub mod power;
pub mod rows;
mod scene;
mod svg;
mod task_groups;
pub mod tasks;
pub mod waiting;
pub mod wakeup;

pub use axis::{WORDS, duration, number_of};
pub use colour::{Colour, PALETTE, Theme};
pub use event_filter::Chosen;
use font::shorten;
pub use font::{Glyph, Weight};
pub use pdf::pdf;
pub use png::{PngError, png};
pub use scene::{Anchor, Item, PX, Point, Rect, Scene, Step, Stroke, Style, Text, at, circle};
pub use svg::{SvgOptions, base64, font_css, svg, svg_with};
pub use task_groups::Belongs;
