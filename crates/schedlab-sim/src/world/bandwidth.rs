//! Memory whose bandwidth CPUs share: the CPUs of a node, or of a last-level cache, that fill, walk or stream at the
//! same time get equal parts of its limit at most.
//!
//! Parts are computed again whenever a CPU begins or ends such an operation. A CPU that needs less than its part leaves
//! the rest unused; caches are not modelled, so each byte of these operations counts.

use super::World;
use super::task::{Act, Phase};
use crate::policy_view::FULL_SPEED;
use crate::{Costs, policy_view::TaskId};
use schedlab_workload::Op;

/// Bandwidth that CPUs share.
pub(super) struct Bandwidth {
    /// Bytes a second of each domain.
    limit: u64,
    domain: Vec<usize>,
    /// Bytes a second that each CPU would move alone at full speed; 0: it moves none.
    rates: Vec<u64>,
    /// CPUs of each domain that move bytes.
    users: Vec<u64>,
}

impl Bandwidth {
    /// The speed of a CPU that alone would have `speed`, in millionths.
    pub(super) fn limited(&self, cpu: usize, speed: u64) -> u64 {
        let rate = self.rates[cpu];
        let users = self.users[self.domain[cpu]];
        if rate == 0 {
            return speed;
        }
        let most = u128::from(self.limit / users.max(1)) * u128::from(FULL_SPEED);
        let most = u64::try_from(most / u128::from(rate)).unwrap_or(u64::MAX);
        speed.min(most.max(1))
    }
}

/// Bytes a second that an operation moves at full speed; 0: it is none on memory, or costs nothing.
fn rate(costs: &Costs, act: Act) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let (bytes, time) = match act {
        Act::Op(Op::Fill { .. } | Op::Walk { .. } | Op::Allocate { .. }) => {
            (1_024, costs.memory_kib)
        }
        // An array of 8-byte elements takes half as long as a sweep over two of them.
        Act::Op(Op::Stream { .. }) => (16_000, costs.stream_1000),
        _ => return 0,
    };
    (bytes * SECOND).checked_div(time).unwrap_or(0)
}

impl World {
    /// CPUs share bandwidth of memory: `limit` bytes a second in each domain, where `domain` has each CPU's. Call it
    /// before the load begins.
    pub fn share_bandwidth(&mut self, limit: u64, domain: Vec<usize>) {
        let domains = domain.iter().max().map_or(0, |last| last + 1);
        let rates = vec![0; domain.len()];
        let users = vec![0; domains];
        self.extras.bandwidth = Some(Bandwidth { limit, domain, rates, users });
    }

    /// What runs on a CPU began or ended an operation, or another task runs there.
    pub(super) fn memory_changes(&mut self, cpu: usize, task: Option<TaskId>) {
        let Some(bandwidth) = &mut self.extras.bandwidth else { return };
        let of = task.map(|task| &self.bodies[task.index()]);
        let rate = match of {
            Some(body) if body.phase == Phase::Enter => rate(&self.config.costs, body.act),
            _ => 0,
        };
        let before = std::mem::replace(&mut bandwidth.rates[cpu], rate);
        if before == rate {
            return;
        }
        let domain = bandwidth.domain[cpu];
        let users = &mut bandwidth.users[domain];
        *users = *users + u64::from(rate > 0) - u64::from(before > 0);
        let members =
            |of: &Bandwidth, at: usize| of.domain[at] == domain && (at == cpu || of.rates[at] > 0);
        for at in 0..self.speeds.len() {
            if self.extras.bandwidth.as_ref().is_some_and(|of| members(of, at)) {
                self.respeed(at);
            }
        }
    }
}
