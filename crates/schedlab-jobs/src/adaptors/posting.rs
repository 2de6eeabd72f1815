//! Posting single jobs to each executor: what a storm of posters does.

use crate::policy::Posting;
use crate::pool::{Closures, Flow, Options};
use crate::run::Clock;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// A job that a poster posts.
pub type Function = Box<dyn FnOnce() + Send>;

/// Posts a job; false if the executor has no room for it.
pub type Post = Box<dyn Fn(Function) -> bool + Send + Sync>;

/// The executors that take single jobs.
pub const POSTING: [&str; 5] = ["schedlab", "lumiera", "rayon", "tokio", "channel"];

/// An executor with this many workers, to which jobs are posted; `None` for one that is not known here. What it runs
/// ends with the returned value.
///
/// # Errors
/// When the system gives no more threads.
pub fn posting(name: &str, workers: usize) -> io::Result<Option<Post>> {
    Ok(Some(match name {
        "schedlab" => {
            let pool = schedlab_pool::Pool::start(schedlab_pool::Options::new(workers))?;
            Box::new(move |job| pool.post(job).is_ok())
        }
        "lumiera" => {
            let options = Options::new(workers);
            let pool = crate::pool::Pool::start(Closures, options, Clock::start())?;
            Box::new(move |job| {
                let closure: crate::pool::Closure = Box::new(move |_| {
                    job();
                    Flow::Done
                });
                pool.handle().post(Posting::new(closure, 0)).is_ok()
            })
        }
        "channel" => channel(workers)?,
        #[cfg(feature = "rayon")]
        "rayon" => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(workers);
            let pool = pool.build().map_err(io::Error::other)?;
            Box::new(move |job| {
                pool.spawn(job);
                true
            })
        }
        #[cfg(feature = "tokio")]
        "tokio" => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build()?;
            Box::new(move |job| {
                runtime.spawn(async move { job() });
                true
            })
        }
        _ => return Ok(None),
    }))
}

/// Threads that share the receiving end of a channel.
fn channel(workers: usize) -> io::Result<Post> {
    let (sender, receiver) = mpsc::channel::<Function>();
    let receiver = Arc::new(Mutex::new(receiver));
    for number in 0..workers {
        let receiver = Arc::clone(&receiver);
        let work = move || loop {
            let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match job {
                Ok(job) => job(),
                Err(_) => return,
            }
        };
        std::thread::Builder::new().name(format!("channel {number}")).spawn(work)?;
    }
    Ok(Box::new(move |job| sender.send(job).is_ok()))
}
