//! One pass in one thread: the reference.

use crate::executor::{Executor, ExecutorError, ExecutorFigures, Offers, refuse_times};
use crate::run::Run;
use std::sync::Arc;

/// Runs the jobs one after the other on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Executor for Serial {
    fn name(&self) -> String {
        "serial".to_owned()
    }

    fn workers(&self) -> usize {
        1
    }

    fn offers(&self) -> Offers {
        Offers { dependencies: true, ..Offers::LOOKED_AT }
    }

    fn run(&mut self, run: &Arc<Run>) -> Result<ExecutorFigures, ExecutorError> {
        refuse_times(self, run)?;
        run.set_base(run.clock().now());
        for node in 0..run.graph().len() {
            run.perform_in_time(node, 0);
        }
        run.finish(ExecutorFigures::default())
    }
}
