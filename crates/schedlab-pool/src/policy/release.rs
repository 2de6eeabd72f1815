//! The edges of plans and of jobs that ended: followed at most [`EDGES`] at a time, so that other jobs come in between.

use super::core::Core;
use crate::job::{Item, Release, Stage, TaskRef};
use crate::queues::{Lane, Queues};
use std::sync::atomic::Ordering::SeqCst;

/// Edges that are followed before the worker looks for jobs again.
const EDGES: usize = 256;

impl<'env, Q: Queues<Item<'env>>> Core<'env, Q> {
    /// Follows the edges of a job that ended.
    pub(super) fn release_all(
        &self,
        dependents: Vec<TaskRef<'env>>,
        well: bool,
        local: Option<&Q::Local>,
        at: Option<usize>,
    ) {
        if !dependents.is_empty() {
            let parts = vec![(dependents.into_iter(), well)];
            self.release(Release { parts }, local, at);
        }
    }

    /// Follows some edges; what is left goes to the end of the injector.
    pub(super) fn release(
        &self,
        mut release: Release<'env>,
        local: Option<&Q::Local>,
        at: Option<usize>,
    ) {
        let mut ready = 0;
        let mut left = EDGES;
        while let Some((tasks, well)) = release.parts.last_mut() {
            if left == 0 {
                break;
            }
            let well = *well;
            let Some(task) = tasks.next() else {
                release.parts.pop();
                continue;
            };
            left -= 1;
            let head = task.head();
            if well {
                if head.pending.fetch_sub(1, SeqCst) == 1 {
                    ready += usize::from(self.enqueue(task, local, at));
                }
            } else if head.claim([Stage::Waiting; 2], Stage::Dependency) {
                task.discard();
                let further = self.finish(&task, Stage::Dependency, at);
                release.parts.push((further.into_iter(), false));
            }
        }
        if !release.parts.is_empty() {
            self.queues.post(Lane::Plain, Item::Release(Box::new(release)));
        }
        // The worker itself runs one of them.
        if ready > 1 || left == 0 {
            self.announce();
        }
    }
}
