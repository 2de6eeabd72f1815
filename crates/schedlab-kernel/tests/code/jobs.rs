//! A pool whose workers the kernel's code schedules: its runs are proved here, and repeat.

use super::machine;
use schedlab_jobs::executor::{Executor, ExecutorError};
use schedlab_jobs::graph::{Node, Rules, Shape};
use schedlab_jobs::policy::{Criticality, Policy};
use schedlab_jobs::run::{Clock, Io, Run, Schedule, Span, Work};
use schedlab_kernel::PoolOfTree;
use schedlab_model::{Nanos, Phase, What};
use schedlab_sim::{Model, SimulatedPool};
use std::path::Path;
use std::sync::Arc;

/// Jobs of 100 µs, each third of which waits for a timer.
struct Mixed;

impl Work for Mixed {
    fn perform(&self, _: Node) {}

    fn expected_ns(&self, _: Node) -> u64 {
        100_000
    }

    fn kind(&self, node: Node) -> &'static str {
        if node.is_multiple_of(3) { "block" } else { "cpu" }
    }
}

const JOBS: u32 = 100;

/// A run whose jobs must start within a time after the base.
fn run(life_ns: Option<u64>) -> Run {
    let graph = Shape::Stencil.build(&Rules { nodes: JOBS, fan: 8, ..Rules::default() });
    let schedule = Schedule { life_ns, ..Schedule::default() };
    let criticality = (0..JOBS).map(|node| match node % 4 {
        0 => Criticality::Compulsory,
        _ => Criticality::Normal,
    });
    Run::new(graph, schedule, Box::new(Mixed), Clock::start())
        .with_criticality(criticality.collect())
}

fn pool(kernel: &str, is_lumiera: bool) -> PoolOfTree {
    let pool = PoolOfTree::new(&machine(kernel, "cpus=4").unwrap(), Policy::new(4), Nanos(1));
    if is_lumiera { pool.lumiera() } else { pool }
}

fn spans(pool: &mut dyn Executor) -> Vec<Span> {
    let run = Arc::new(run(None));
    let told = pool.run(&run).unwrap();
    assert!(told.management_ns.unwrap() > 0);
    assert_eq!(run.verify(), Ok(()), "the proof is made here");
    run.spans()
}

fn marks(path: &Path) -> usize {
    let mut source = schedlab_trace::open(path).unwrap();
    assert_eq!(source.info().marks, ["block job", "cpu job"]);
    let (mut batch, mut begun) = (Vec::new(), 0);
    while source.next(&mut batch).unwrap() {
        let begins = |what: &What| matches!(what, What::Mark { phase: Phase::Begin, .. });
        begun += batch.drain(..).filter(|event| begins(&event.what)).count();
    }
    begun
}

pub(super) fn pools_are_proved_and_repeat(kernel: &str) {
    for is_lumiera in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let ran = |name: &str| spans(&mut pool(kernel, is_lumiera).recording(path(name)));
        let first = ran("first.dat");
        assert_eq!(first.len(), JOBS as usize);
        assert_eq!(first, ran("second.dat"));
        let bytes = |name: &str| std::fs::read(path(name)).unwrap();
        assert!(bytes("first.dat") == bytes("second.dat"), "two traces of one run differ");
        assert_eq!(marks(&path("first.dat")), JOBS as usize);
        // The next run of a pool begins at another phase of the tick.
        let mut same = pool(kernel, is_lumiera);
        assert_eq!(first, spans(&mut same));
        spans(&mut same);
        // A model of the kernel ends the same graph at about the same time.
        let model = Model::of(&"sim:cpus=4,kernel=eevdf-6.12".parse().unwrap(), None).unwrap();
        let like = SimulatedPool::new(model, Policy::new(4), Nanos(1));
        let mut like = if is_lumiera { like.lumiera() } else { like };
        let end = |spans: &[Span]| spans.iter().map(|span| span.end).max().unwrap() as f64;
        super::near(end(&first) / end(&spans(&mut like)), 1.0, 0.1, "the end of the graph");
    }
}

pub(super) fn what_pools_drop_or_refuse_is_told(kernel: &str) {
    let late = Arc::new(run(Some(1_000_000)));
    pool(kernel, false).run(&late).unwrap();
    assert_eq!(late.verify(), Ok(()));
    let dropped = late.dropped().jobs();
    assert!((1..u64::from(JOBS)).contains(&dropped), "{dropped} jobs were dropped");
    let io = Some(Io { ns: 1_000, fails: false });
    let with_io = Arc::new(run(None).with_io(vec![io; JOBS as usize]));
    let refused = pool(kernel, false).run(&with_io);
    assert!(matches!(refused, Err(ExecutorError::NotOffered { .. })), "{refused:?}");
}
