//! Migrations: how many, how far, by what, and the chains in which one move causes the next.
//!
//! A move belongs to the chain of another when it takes a task away from a CPU on which the other's
//! task now runs, having come there by its own last move: it took the place. So a wakeup that puts a
//! task on a busy CPU and makes the balancer push the displaced one, and so on, is one chain.

use crate::change::{Change, Moved, Switch, When};
use crate::in_reply::{InReply, by_distance, named};
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::TaskId;
use crate::task_filter::Chosen;
use crate::totals::{About, Total, Totals};
use schedlab_model::Better::Neither;
use schedlab_model::table::{At, Column, Row};
use schedlab_model::{Cpu, Distance, Kind, Need, Topology, columns};
use std::cmp::Reverse;

/// The longest chain that is followed; it goes on as a new one then.
const LENGTH: usize = 32;

/// One move of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The move, with its time and CPUs.
    pub moved: Moved,
    /// Whom it displaced when it began to run there, if anybody.
    pub(crate) displaced: Option<TaskId>,
}

impl Hop {
    /// What happened, in a sentence with the names that tasks have in `state`.
    #[must_use]
    pub fn sentence(&self, state: &State) -> String {
        let moved = &self.moved;
        let name = |task| named(task, state);
        let how = match moved.when {
            _ if moved.for_affinity => "moved by its affinity, or at an exec".to_owned(),
            When::Waking if moved.by.is_some() => format!("woken by {}", name(moved.by)),
            When::Waking => format!("woken from CPU {}", moved.by_cpu),
            When::Fork => "placed at its fork".to_owned(),
            When::Waiting => format!("balanced by CPU {}", moved.by_cpu),
            When::Asleep => "moved in its sleep".to_owned(),
            When::Running => "moved while it ran".to_owned(),
        };
        let displaced = self.displaced.map(|task| format!(", displaced {}", name(task)));
        let displaced = displaced.unwrap_or_default();
        format!("{}: {} -> {}, {how}{displaced}", name(moved.task), moved.from, moved.to)
    }
}

/// A hop with the number of its chain, from 0: the longest.
pub type ChainedHop = (usize, Hop);

impl Row for InReply<'_, ChainedHop, MigrationsAnswer> {
    const ABOUT: &'static str = "A move of a task, in a chain of moves.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "chain" = row.0, "The chain, from 0: the longest.";
            "at_ns" = At(row.1.moved.at), "When it moved.";
            "pid" = row.pid(row.1.moved.task), "The task (thread).";
            "comm" = row.name(row.1.moved.task), "Its name at the end.";
            "from" = row.1.moved.from, "The CPU that it left.";
            "to" = row.1.moved.to, "The CPU to which it moved.";
            "by" = row.1.moved.cause(), "What moved it: `wakeup`, `fork`, `balance`, `asleep`, `running` or `affinity`.";
            "by_cpu" = row.1.moved.by_cpu, "The CPU that moved it.";
            "displaced_pid" = row.1.displaced.map(|task| row.pid(task)), "The task that had to give way.";
            "said" = row.1.sentence(&row.reply.state), "What happened, in a sentence.";
        }
    }
}

/// How often tasks were moved for one reason, and how far.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Moves {
    /// How often.
    pub count: u64,
    /// By the nearest level that both CPUs share; `None` without a topology.
    pub by_distance: Option<[u64; Distance::ALL.len()]>,
}

impl Row for Moves {
    const ABOUT: &'static str = "How often tasks were moved for one reason, and how far.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "count" ["times"] = row.count, "How often.";
        };
        columns.extend(by_distance("by_distance", None, |row: &Self| row.by_distance));
        columns.into_iter().map(|column| column.needs(Need::Episodes)).collect()
    }
}

/// The question about migrations: how many, how far, and their chains.
#[derive(Clone, Debug)]
pub struct Migrations {
    topology: Option<Topology>,
    limit: usize,
    chosen: Chosen,
    counts: [[u64; Distance::ALL.len()]; MOVED_BY.len()],
    totals: [u64; MOVED_BY.len()],
    /// The chain that ends with each task's last move; empty when it did not move.
    chains: Vec<Chain>,
    longest: Vec<Vec<Hop>>,
    chained: u64,
    elsewhere: u64,
}

#[derive(Clone, Debug, Default)]
struct Chain {
    hops: Vec<Hop>,
    /// Another move has gone on from it, so it is part of a longer one.
    extended: bool,
}

/// What moves tasks, in the order of the answer's tables.
pub const MOVED_BY: [&str; 6] = ["wakeup", "fork", "balance", "asleep", "running", "affinity"];

impl Moved {
    /// What moved the task: one of [`MOVED_BY`].
    #[must_use]
    pub(crate) const fn cause(&self) -> &'static str {
        if self.for_affinity { "affinity" } else { self.when.name() }
    }
}

impl When {
    /// What moves a task then, for people and scripts.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Waking => "wakeup",
            Self::Fork => "fork",
            Self::Waiting => "balance",
            Self::Asleep => "asleep",
            Self::Running => "running",
        }
    }
}

/// What [`Migrations`] found in a trace.
#[derive(Clone, Debug)]
pub struct MigrationsAnswer {
    /// The numbers of migrations, in the order of [`MOVED_BY`].
    pub(crate) totals: [u64; MOVED_BY.len()],
    /// Migrations by [`MOVED_BY`] and distance ([`Distance::ALL`]); all zero without a topology.
    pub(crate) counts: [[u64; Distance::ALL.len()]; MOVED_BY.len()],
    /// Chains of at least two moves, longest first, then earliest; at most as many as asked for.
    pub(crate) chains: Vec<Vec<Hop>>,
    /// How many chains of at least two moves there were.
    pub chained: u64,
    /// If the trace has no migration events: how often a chosen task ran on another CPU than the
    /// last time. What moved it, and whom it displaced, is not known then.
    pub untold: u64,
    /// Whether there was a topology.
    pub has_topology: bool,
}

impl MigrationsAnswer {
    /// The hops of all chains, one after the other.
    #[must_use]
    pub fn hops(&self) -> Vec<ChainedHop> {
        let hops =
            self.chains.iter().enumerate().map(|(at, hops)| hops.iter().map(move |hop| (at, *hop)));
        hops.flatten().collect()
    }

    /// How often tasks were moved, by [`MOVED_BY`].
    #[must_use]
    pub fn moves(&self) -> [Moves; MOVED_BY.len()] {
        std::array::from_fn(|at| {
            let by_distance = self.has_topology.then_some(self.counts[at]);
            Moves { count: self.totals[at], by_distance }
        })
    }

    /// How many moves between CPUs there were in the window.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.totals.iter().sum()
    }
}

impl Migrations {
    /// The `limit` longest chains.
    #[must_use]
    pub fn new(topology: Option<Topology>, limit: usize) -> Self {
        Self {
            topology,
            limit,
            chosen: Chosen::all(),
            counts: Default::default(),
            totals: Default::default(),
            chains: Vec::new(),
            longest: Vec::new(),
            chained: 0,
            elsewhere: 0,
        }
    }

    /// Moves of these tasks only, and chains that move at least one of them, whole.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    fn chain(&mut self, task: TaskId) -> &mut Chain {
        if task.index() >= self.chains.len() {
            self.chains.resize_with(task.index() + 1, Chain::default);
        }
        &mut self.chains[task.index()]
    }

    fn moved(&mut self, moved: &Moved, state: &State) {
        if self.chosen.has(moved.task) {
            self.count(moved);
        }
        let mut hops = match self.taker(moved.from, state).filter(|taker| *taker != moved.task) {
            Some(taker) => {
                let chain = self.chain(taker);
                chain.extended = true;
                let mut hops = chain.hops.clone();
                if let Some(last) = hops.last_mut() {
                    last.displaced.get_or_insert(moved.task);
                }
                hops
            }
            None => Vec::new(),
        };
        hops.push(Hop { moved: *moved, displaced: None });
        let old = std::mem::replace(self.chain(moved.task), Chain { hops, extended: false });
        self.finish(old);
    }

    fn count(&mut self, moved: &Moved) {
        let by = MOVED_BY.iter().position(|by| *by == moved.cause()).unwrap_or(0);
        self.totals[by] += 1;
        let distance =
            self.topology.as_ref().and_then(|topology| topology.distance(moved.from, moved.to));
        if let Some(distance) = distance {
            self.counts[by][distance as usize] += 1;
        }
    }

    /// The task that runs on `cpu` and came there by its last move.
    fn taker(&mut self, cpu: Cpu, state: &State) -> Option<TaskId> {
        let Occupant::Task(task) = state.cpu(cpu)?.occupant else { return None };
        let chain = self.chain(task);
        let last = chain.hops.last()?;
        (last.moved.to == cpu && chain.hops.len() < LENGTH).then_some(task)
    }

    fn finish(&mut self, chain: Chain) {
        let concerned = || chain.hops.iter().any(|hop| self.chosen.has(hop.moved.task));
        if chain.extended || chain.hops.len() < 2 || !concerned() {
            return;
        }
        self.chained += 1;
        let key = |hops: &[Hop]| (Reverse(hops.len()), hops[0].moved.at);
        let at = self.longest.partition_point(|other| key(other) <= key(&chain.hops));
        if at < self.limit {
            self.longest.insert(at, chain.hops);
            self.longest.truncate(self.limit);
        }
    }
}

impl Question for Migrations {
    type Answer = MigrationsAnswer;

    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Switch(Switch {
            cpu, is: Occupant::Task(task), last_cpu: Some(last), ..
        }) = *change
            && last != cpu
            && self.chosen.has(task)
        {
            self.elsewhere += 1;
        }
        match change {
            Change::Moved(moved) => self.moved(moved, state),
            Change::Switch(Switch { cpu, prev, left: Some(left), is, .. })
                if left.is_runnable() && prev.is_some() =>
            {
                let Occupant::Task(task) = *is else { return };
                let prev = *prev;
                if let Some(hop) = self.chain(task).hops.last_mut()
                    && hop.moved.to == *cpu
                {
                    hop.displaced.get_or_insert(prev);
                }
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> MigrationsAnswer {
        for chain in std::mem::take(&mut self.chains) {
            self.finish(chain);
        }
        MigrationsAnswer {
            totals: self.totals,
            counts: self.counts,
            chains: self.longest,
            chained: self.chained,
            untold: if state.seen().contains(Kind::Migrate) { 0 } else { self.elsewhere },
            has_topology: self.topology.is_some(),
        }
    }
}

impl Totals for Migrations {
    fn totals() -> Vec<Total> {
        let mut totals = vec![Total::count(
            "migrations",
            Neither,
            "Moves of tasks to another CPU. If the trace holds no migrations: starts on another \
             CPU.",
        )
        .needs(Need::Migrations)];
        totals.extend(MOVED_BY.into_iter().map(|by| {
            let name = format!("migrations_{by}");
            let about = "Moves with the cause that the name tells.";
            Total::count(&name, Neither, about).needs(Need::Episodes)
        }));
        let about = "Chains of at least two moves, in which each task displaces the next.";
        totals.push(Total::count("migration_chains", Neither, about).needs(Need::Episodes));
        totals
    }

    fn question(about: &About<'_>) -> Self {
        Self::new(about.topology.clone(), 0).about(about.chosen.clone())
    }

    fn values(answer: &MigrationsAnswer, _: &Chosen) -> Vec<Option<f64>> {
        // Where the trace tells no moves, only their number is known.
        let told = answer.untold == 0;
        let counts = answer.totals.into_iter().chain([answer.chained]);
        let counts = counts.map(|count| told.then_some(count as f64));
        let all = answer.total().max(answer.untold);
        std::iter::once(Some(all as f64)).chain(counts).collect()
    }
}
