//! Plans: jobs that are posted together, with what depends on what.

use crate::handle::{Completion, Handle};
use crate::job::{TaskRef, Valued};
use crate::request::Request;
use crate::spawner::{Refusal, Refused, Spawner};
use std::sync::Arc;

/// Jobs that are posted together. Jobs of a plan that is dropped instead are cancelled.
pub struct Plan<'env> {
    spawner: Spawner<'env>,
    jobs: Vec<TaskRef<'env>>,
    /// From, to: numbers within the plan.
    links: Vec<(usize, usize)>,
    /// Jobs outside the plan, and the number of the job that waits for them.
    after: Vec<(Vec<TaskRef<'env>>, usize)>,
}

impl<'env> Spawner<'env> {
    /// An empty plan for this pool.
    pub fn plan(&self) -> Plan<'env> {
        let spawner = self.clone();
        Plan { spawner, jobs: Vec::new(), links: Vec::new(), after: Vec::new() }
    }
}

impl<'env> Plan<'env> {
    /// Adds a job with what it asks for. It may come after jobs of this plan, or after jobs that were posted.
    pub fn add<T: Send + 'env>(
        &mut self,
        request: Request<'env>,
        function: impl FnOnce() -> T + Send + 'env,
    ) -> Handle<'env, T> {
        let job = self.spawner.job(&request, false, || Some(function()));
        self.keep(job, request)
    }

    /// Adds a job that may fail: it does so by returning `None`.
    pub fn add_fallible<T: Send + 'env>(
        &mut self,
        request: Request<'env>,
        function: impl FnOnce() -> Option<T> + Send + 'env,
    ) -> Handle<'env, T> {
        let job = self.spawner.job(&request, false, function);
        self.keep(job, request)
    }

    /// Adds a job that its completion ends, as [`Spawner::spawn_deferred`] does.
    pub fn add_deferred<T: Send + 'env>(
        &mut self,
        request: Request<'env>,
        function: impl FnOnce(Completion<'env, T>) + Send + 'env,
    ) -> Handle<'env, T> {
        let job = self.spawner.deferred(&request, false, function);
        self.keep(job, request)
    }

    fn keep<T>(
        &mut self,
        job: Arc<dyn Valued<'env, T> + 'env>,
        request: Request<'env>,
    ) -> Handle<'env, T> {
        if !request.after.is_empty() {
            self.after.push((request.after, self.jobs.len()));
        }
        self.jobs.push(Arc::clone(&job) as TaskRef<'env>);
        Handle::new(job, self.spawner.lease())
    }

    /// Job `to` starts after job `from` has ended well. Both are numbers in the order of adding, from 0.
    pub fn link(&mut self, from: usize, to: usize) {
        self.links.push((from, to));
    }

    /// Posts the plan: all of it or nothing.
    ///
    /// # Errors
    /// Why nothing was posted. The plan comes back.
    pub fn post(mut self) -> Result<(), Refused<Self>> {
        self.find_own();
        match self.admit() {
            Ok(order) => {
                self.launch(&order);
                Ok(())
            }
            Err(why) => Err(Refused { why, what: self }),
        }
    }

    /// Checks the links and takes places in the backlog: the jobs in an order that the links allow.
    fn admit(&self) -> Result<Vec<usize>, Refusal> {
        let order = self.order()?;
        let shared = self.spawner.shared();
        if shared.core.is_closed() {
            return Err(Refusal::Closed);
        }
        let at = crate::worker::worker_of(shared);
        if !shared.core.counters.reserve(self.jobs.len() as u64, at) {
            return Err(Refusal::Full);
        }
        Ok(order)
    }

    fn launch(&mut self, order: &[usize]) {
        let shared = Arc::clone(self.spawner.shared());
        let jobs = std::mem::take(&mut self.jobs);
        let mut dependents = vec![0u32; jobs.len()];
        let mut before = vec![0u32; jobs.len()];
        for &(from, to) in &self.links {
            dependents[from] += 1;
            before[to] += 1;
        }
        for (job, &count) in jobs.iter().zip(&dependents) {
            shared.core.prepare(job);
            if count > 0 {
                job.head().link(|links| links.dependents.reserve_exact(count as usize));
            }
        }
        for (job, &count) in jobs.iter().zip(&before) {
            if count > 0 {
                job.head().link(|links| links.before.reserve_exact(count as usize));
            }
        }
        for &(from, to) in &self.links {
            shared.core.link(&jobs[from], &jobs[to]);
        }
        // The last ones first: each job sees the effective deadlines of its dependents.
        for &number in order.iter().rev() {
            shared.core.pass_on_once(&jobs[number]);
        }
        for (after, number) in &self.after {
            shared.core.depend(&jobs[*number], after);
            shared.core.pass_on(&jobs[*number]);
        }
        // Each job kept a place for itself while it was not posted. The first ones give it up when their turn comes.
        let mut first = Vec::new();
        for (number, job) in jobs.into_iter().enumerate() {
            if before[number] == 0 {
                first.push(job);
            } else {
                shared.core.give_up_place(&job);
            }
        }
        shared.core.post_plan(first);
        if shared.core.is_closed() {
            shared.tell_drained();
        }
    }

    /// Makes links of what the jobs ask for within the plan.
    fn find_own(&mut self) {
        if self.after.is_empty() {
            return;
        }
        let key = |task: &TaskRef<'env>| Arc::as_ptr(task).cast::<()>().addr();
        let own: std::collections::HashMap<_, _> =
            self.jobs.iter().enumerate().map(|(number, job)| (key(job), number)).collect();
        for (after, to) in &mut self.after {
            after.retain(|task| match own.get(&key(task)) {
                Some(&from) => {
                    self.links.push((from, *to));
                    false
                }
                None => true,
            });
        }
        self.after.retain(|(after, _)| !after.is_empty());
    }

    /// The jobs in an order that the links allow.
    fn order(&self) -> Result<Vec<usize>, Refusal> {
        let jobs = self.jobs.len();
        let mut before = vec![0u32; jobs];
        let mut first_link = vec![0usize; jobs + 1];
        for &(from, to) in &self.links {
            if let Some(job) = [from, to].into_iter().find(|&job| job >= jobs) {
                return Err(Refusal::NoSuchJob(job));
            }
            before[to] += 1;
            first_link[from + 1] += 1;
        }
        for (after, to) in &self.after {
            if *to >= jobs {
                return Err(Refusal::NoSuchJob(*to));
            }
            if after.iter().any(|task| task.head().is_unposted()) {
                return Err(Refusal::NotPosted);
            }
        }
        for job in 0..jobs {
            first_link[job + 1] += first_link[job];
        }
        let mut next = first_link.clone();
        let mut to_of = vec![0usize; self.links.len()];
        for &(from, to) in &self.links {
            to_of[next[from]] = to;
            next[from] += 1;
        }
        let mut order: Vec<usize> = (0..jobs).filter(|&job| before[job] == 0).collect();
        let mut at = 0;
        while let Some(&job) = order.get(at) {
            at += 1;
            for &to in &to_of[first_link[job]..first_link[job + 1]] {
                before[to] -= 1;
                if before[to] == 0 {
                    order.push(to);
                }
            }
        }
        match (0..jobs).find(|&job| before[job] > 0) {
            Some(job) => Err(Refusal::Cycle(job)),
            None => Ok(order),
        }
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        for job in &self.jobs {
            self.spawner.shared().core.cancel_unposted(job);
        }
    }
}
