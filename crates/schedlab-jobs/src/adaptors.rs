//! Executors under the rig: our pool, a serial pass, plain threads with a channel, and (features) rayon
//! and tokio. Those that know no dependencies get them by counting predecessors.

mod channel;
mod countdown;
mod device;
mod feed;
mod pace;
#[cfg(feature = "rayon")]
mod rayon;
mod schedlab_pool;
mod serial;
#[cfg(feature = "tokio")]
mod tokio;

pub use self::channel::ChannelThreads;
#[cfg(feature = "rayon")]
pub use self::rayon::RayonScope;
pub use self::schedlab_pool::Ours;
pub use self::serial::Serial;
#[cfg(feature = "tokio")]
pub use self::tokio::TokioTasks;
