//! Executors under the rig: our pool, a serial pass, plain threads with a channel, and (features) rayon
//! and tokio. Those that know no dependencies get them by counting predecessors.

mod channel;
mod countdown;
mod device;
mod feed;
mod lumiera;
mod ours;
mod pace;
mod posting;
#[cfg(feature = "rayon")]
mod rayon;
mod serial;
#[cfg(feature = "tokio")]
mod tokio;

pub use self::channel::ChannelThreads;
pub use self::lumiera::Lumiera;
pub use self::ours::{PoolExecutor, SleepLog};
pub use self::posting::{Function, POSTING, Post, posting};
#[cfg(feature = "rayon")]
pub use self::rayon::RayonScope;
pub use self::serial::Serial;
#[cfg(feature = "tokio")]
pub use self::tokio::TokioTasks;
