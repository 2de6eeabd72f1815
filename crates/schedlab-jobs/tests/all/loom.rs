//! Every interleaving of posters and workers at the token:
//! `RUSTFLAGS="--cfg loom" cargo test -p schedlab-jobs --release --test all loom::`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;
use schedlab_jobs::bundle::{Bundle, BundleStep, LINGER_NS, Share};
use schedlab_jobs::graph::{Rules, Shape};
use schedlab_jobs::token::{Feed, Full, Token};

#[derive(Default)]
struct Sum(Vec<u32>);

impl Feed<u32> for Sum {
    fn feed(&mut self, messages: &mut Vec<u32>) {
        self.0.append(messages);
    }
}

fn fed(token: &Token<Sum, u32>) -> Vec<u32> {
    // Not through `attempt`, which would feed first and so hide a message that was left lying.
    let mut all = token.insist_without_feeding(|sum| sum.0.clone());
    all.sort_unstable();
    all
}

#[test]
fn no_message_is_left_lying_between_two_posters_and_a_worker() {
    // Three threads have too many interleavings for all of them; those with three preemptions hold
    // every known kind of lost message.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let token = Arc::new(Token::new(Sum::default(), 8));
        let poster = |message| {
            let token = Arc::clone(&token);
            thread::spawn(move || token.leave(message, |_| ()).is_ok())
        };
        let (first, second) = (poster(1), poster(2));
        let _ = token.attempt(|sum| sum.0.len(), |_| ());
        assert!(first.join().unwrap() && second.join().unwrap());
        assert_eq!(fed(&token), [1, 2]);
    });
}

#[test]
fn no_message_is_left_lying_between_a_poster_and_a_worker() {
    loom::model(|| {
        let token = Arc::new(Token::new(Sum::default(), 8));
        let poster = Arc::clone(&token);
        let poster = thread::spawn(move || poster.leave(1, |_| ()).is_ok());
        let _ = token.attempt(|sum| sum.0.len(), |_| ());
        assert!(poster.join().unwrap());
        assert_eq!(fed(&token), [1]);
    });
}

#[test]
fn work_under_the_token_is_exclusive() {
    loom::model(|| {
        let token = Arc::new(Token::new(Sum::default(), 8));
        let other = Arc::clone(&token);
        let worker = thread::spawn(move || {
            other.attempt(
                |sum| {
                    let before = sum.0.len();
                    thread::yield_now();
                    sum.0.push(7);
                    assert_eq!(sum.0.len(), before + 1);
                },
                |_| (),
            )
        });
        token.insist(|sum| sum.0.push(8), |_| ());
        let had = worker.join().unwrap().is_some();
        assert_eq!(fed(&token).len(), 1 + usize::from(had));
    });
}

#[test]
fn a_full_entrance_gives_the_message_back() {
    loom::model(|| {
        let token = Arc::new(Token::new(Sum::default(), 0));
        assert_eq!(token.leave(3, |_| ()), Err(Full(3)));
    });
}

/// Works on shares as long as some are posted; each look at the clock takes a whole linger.
fn shares(bundle: &Bundle, worker: usize, posted: &AtomicUsize, ran: &[AtomicUsize]) {
    let less = |posted: usize| posted.checked_sub(1);
    while posted.fetch_update(SeqCst, SeqCst, less).is_ok() {
        let time = std::cell::Cell::new(0);
        let now = || time.replace(time.get() + LINGER_NS);
        let ask = |asked| match asked {
            BundleStep::Run(node) => {
                assert!(node == 0 || ran[0].load(SeqCst) == 1, "its predecessor has ended");
                assert!(node < 3 || ran[1].load(SeqCst) + ran[2].load(SeqCst) == 2);
                ran[node as usize].fetch_add(1, SeqCst);
            }
            BundleStep::Help => {
                posted.fetch_add(1, SeqCst);
            }
        };
        if bundle.work(worker, now, ask) == Share::Again {
            posted.fetch_add(1, SeqCst);
        }
    }
}

#[test]
fn every_job_of_a_bundle_runs_once_after_its_predecessors_and_none_is_left_behind() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        // One, then two, then one.
        let graph = Shape::Divide.build(&Rules { nodes: 4, fan: 2, ..Rules::default() });
        let bundle = Arc::new(Bundle::new(std::sync::Arc::new(graph), 2));
        let posted = Arc::new(AtomicUsize::new(2));
        let ran: Arc<Vec<AtomicUsize>> = Arc::new((0..4).map(|_| AtomicUsize::new(0)).collect());
        let (other, theirs, log) = (bundle.clone(), posted.clone(), ran.clone());
        let worker = thread::spawn(move || shares(&other, 1, &theirs, &log));
        shares(&bundle, 0, &posted, &ran);
        worker.join().unwrap();
        // One may have been posted after the other thread had looked for the last time.
        shares(&bundle, 0, &posted, &ran);
        assert!(ran.iter().all(|ran| ran.load(SeqCst) == 1));
        assert!(bundle.is_done());
    });
}
