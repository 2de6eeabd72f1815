//! Plays 25 frames a second: decode, filter and encode, each frame with a deadline, beside a noisy load.

#![expect(clippy::print_stdout, reason = "an example says what it did")]

use schedlab_pool::{JobError, JobState, Options, Pool, Request, Spawner};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FRAMES: u32 = 25;

fn compute(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {}
}

/// Small jobs that post themselves for as long as the film plays.
fn make_noise(pool: &Spawner<'static>, playing: &Arc<AtomicBool>, noise: &Arc<AtomicU64>) {
    if playing.load(Relaxed) {
        compute(Duration::from_micros(200));
        noise.fetch_add(1, Relaxed);
        let own = pool.clone();
        let playing = Arc::clone(playing);
        let noise = Arc::clone(noise);
        pool.post(move || make_noise(&own, &playing, &noise)).expect("the backlog has room");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ms = Duration::from_millis;
    let pool = Pool::start(Options::new(2).name("film"))?;
    let playing = Arc::new(AtomicBool::new(true));
    let noise = Arc::new(AtomicU64::new(0));
    for _ in 0..2 {
        make_noise(&pool, &playing, &noise);
    }
    let begin = Instant::now() + ms(20);
    let mut film = Vec::new();
    for frame in 0..FRAMES {
        let start = begin + frame * ms(40);
        let stage = |expected| Request::new().start(start).expected(expected);
        let decode = pool.spawn_fallible(stage(ms(3)), move || {
            compute(ms(3));
            (frame != 7).then_some(())
        })?;
        let filter = pool.spawn_with(stage(ms(4)).after(&decode), move || compute(ms(4)))?;
        // The deadline of the last stage orders the ones before.
        let last = stage(ms(2)).deadline(start + ms(40)).after(&filter);
        film.push(pool.spawn_with(last, move || compute(ms(2)))?);
    }
    let ends: Vec<_> = film.into_iter().map(schedlab_pool::Handle::wait).collect();
    playing.store(false, Relaxed);
    pool.wait(Duration::MAX)?;
    let shown = ends.iter().filter(|end| end.is_ok()).count();
    let lost = ends
        .iter()
        .filter(|end| matches!(end, Err(JobError::NoValue(JobState::DependencyFailed))))
        .count();
    let counts = pool.stop(Duration::MAX).counts;
    let late = counts.late_starts + counts.ended_late;
    assert_eq!((shown, lost, counts.failed), (FRAMES as usize - 1, 1, 1));
    println!("{shown} frames shown, {lost} lost with a broken one, {late} ended late");
    Ok(())
}
