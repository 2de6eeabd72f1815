//! Load for jobs: what they do, how long, and when they arrive.

mod arrivals;
mod burner;
mod data;
mod length;
mod mix;
mod stream;

pub use arrivals::Arrivals;
pub(crate) use arrivals::{critical_path_bound, level_schedule};
pub use burner::{Burner, Kind, Load};
pub use length::Length;
pub use mix::Mix;
use schedlab_random::SplitMix64 as Random;
pub use stream::{IoLoad, Stream, Streams, Usual};
