//! What changes while a session runs: by its script, and by orders from outside.

use super::super::apply::NodeControl;
use super::super::control::{Answer, NodeStatus, Order, Status};
use super::super::{Change, SlowError, Speed, Support, journalled};
use super::Session;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_sys::guard::Undo;
use schedlab_sys::{clock, process};
use schedlab_workload::{Happening, Pair, link};

impl Session {
    /// Performs the steps of scripts that are due; returns when the next is.
    pub(super) fn script(&mut self, now: Nanos) -> Result<Nanos, SlowError> {
        let mut next = Nanos::MAX;
        for index in 0..self.nodes.len() {
            loop {
                let active = &self.nodes[index];
                let Some(step) = active.node.script.get(active.step).copied() else { break };
                let due = self.started + step.at;
                if due > now {
                    next = next.min(due);
                    break;
                }
                self.nodes[index].step += 1;
                let node = self.nodes[index].node.name.clone();
                self.happen(&Happening::Node(node, step.change))?;
            }
        }
        while let Some(event) = self.plan.request.cluster.events.get(self.happened).cloned() {
            let due = self.started + event.at;
            if due > now {
                return Ok(next.min(due));
            }
            self.happened += 1;
            self.happen(&event.what)?;
        }
        Ok(next)
    }

    fn happen(&mut self, what: &Happening) -> Result<(), SlowError> {
        match what {
            Happening::Node(node, change) => {
                let index = self.index(node).map_err(SlowError::Usage)?;
                self.change(index, *change)?;
            }
            Happening::Cut(pair) => self.links.cut(pair, &mut self.guard)?,
            Happening::Heal(pair) => self.links.heal(pair, &mut self.guard)?,
            Happening::Link(pair, link) => self.links.shape(pair, link)?,
        }
        self.journal.note(clock::monotonic(), self.started, &what.to_string());
        Ok(())
    }

    fn index(&self, node: &str) -> Result<usize, String> {
        let names = || {
            let names: Vec<&str> = self.nodes.iter().map(|n| n.node.name.as_str()).collect();
            names.join(", ")
        };
        let found = self.nodes.iter().position(|active| active.node.name == node);
        found.ok_or_else(|| format!("unknown node {node}: use {}", names()))
    }

    fn change(&mut self, index: usize, change: Change) -> Result<(), SlowError> {
        match change {
            Change::Speed(speed) => self.set(index, speed),
            Change::Fail => self.stand(index, true),
            Change::Recover => self.stand(index, false),
        }
    }

    pub(super) fn set(&mut self, index: usize, speed: Speed) -> Result<(), SlowError> {
        let active = &mut self.nodes[index];
        for (&cpu, now) in &mut active.node.speeds {
            active.held.set(cpu, speed, &mut self.guard)?;
            self.under.set(cpu, speed)?;
            // Only now: what is reported to be in force is in force.
            *now = speed;
        }
        active.found.begin(active.held.used(&active.processes(None)));
        active.shown.as_ref().map_or(Ok(()), |shown| shown.set(&active.node.speeds))
    }

    pub(super) fn stand(&mut self, index: usize, still: bool) -> Result<(), SlowError> {
        let active = &mut self.nodes[index];
        active.failed = still;
        if let NodeControl::Stop(limiter) = &mut active.held.hold
            && !still
        {
            limiter.thawed();
        }
        if active.held.zone.freeze(still, &mut self.guard)? {
            return Ok(());
        }
        for pid in active.processes(None) {
            let Some(started) = process::start_ticks(pid) else { continue };
            journalled(&mut self.guard, Undo::Continue { pid, started })?;
            let _ = process::kill(pid, if still { 19 } else { 18 });
        }
        Ok(())
    }

    pub(super) fn serve(&mut self) {
        for (id, order) in self.control.orders() {
            let answer = match order {
                Ok(order) => self.obey(&order),
                Err(why) => {
                    let what = format!("cannot read an order: {why}");
                    let remedy = "write a line such as {\"order\": {\"fail\": {\"node\": \"a\"}}}";
                    self.warnings.push(Warning::new("order-failed", what.clone(), remedy));
                    Answer::Error(what)
                }
            };
            if let Some(id) = id {
                self.control.answer(id, answer);
            }
        }
    }

    fn obey(&mut self, order: &Order) -> Answer {
        let what = match order {
            Order::Status => return Answer::Status(self.status()),
            Order::End => {
                // By the way of any other end: the exit code and what is reported are the same.
                let us = Pid(std::process::id().cast_signed());
                return match process::kill(us, 15) {
                    Ok(()) => Answer::Done,
                    Err(error) => Answer::Failed(error.to_string()),
                };
            }
            Order::Set { node, speed } => Happening::Node(node.clone(), Change::Speed(*speed)),
            Order::Fail { node } => Happening::Node(node.clone(), Change::Fail),
            Order::Recover { node } => Happening::Node(node.clone(), Change::Recover),
            Order::Cut { between: (a, b) } => Happening::Cut(Pair::new(a, b)),
            Order::Heal { between: (a, b) } => Happening::Heal(Pair::new(a, b)),
            Order::Link { between: (a, b), rate, delay, loss } => {
                match link::link(rate.as_deref(), delay.as_deref(), loss.as_deref()) {
                    Ok(link) => Happening::Link(Pair::new(a, b), link),
                    Err(why) => return Answer::Error(why),
                }
            }
        };
        let allowed = match &what {
            Happening::Node(node, change) => self
                .index(node)
                .and_then(|index| self.allows(index, *change).map_err(|error| error.to_string())),
            Happening::Cut(pair) | Happening::Heal(pair) => self.links.has(pair),
            Happening::Link(pair, link) => self.links.has(pair).and_then(|()| {
                crate::net::try_link(link).map_err(|why| format!("the link of {pair}: {why}"))
            }),
        };
        if let Err(why) = allowed {
            return Answer::Error(why);
        }
        match self.happen(&what) {
            Ok(()) => Answer::Done,
            Err(error) => {
                let whose = match &what {
                    Happening::Node(node, _) => format!("node {node}"),
                    Happening::Cut(pair) | Happening::Heal(pair) | Happening::Link(pair, _) => {
                        format!("the link of {pair}")
                    }
                };
                let what = format!("an order for {whose} failed: {error}");
                let remedy = "`schedlab slow status` shows the speeds in force";
                self.warnings.push(Warning::new("order-failed", what.clone(), remedy));
                Answer::Failed(what)
            }
        }
    }

    /// Whether a change is possible, by the same checks as at the start.
    fn allows(&self, index: usize, change: Change) -> Result<(), SlowError> {
        let Change::Speed(speed) = change else { return Ok(()) };
        let mut request = self.plan.request.clone();
        request.method = Some(self.plan.method);
        for active in &mut request.nodes {
            // The one that was attached may have ended meanwhile.
            active.attach.clear();
            active.attach_groups.clear();
            active.commands.push(vec!["-".into()]);
        }
        request.nodes[index].speeds.values_mut().for_each(|now| *now = speed);
        request.plan(&Support::here()).map(|_| ())
    }

    fn status(&self) -> Status {
        let nodes = self.nodes.iter().map(|active| NodeStatus {
            name: active.node.name.clone(),
            cpus: active.node.cpus(),
            speeds: active
                .node
                .speeds
                .iter()
                .map(|(cpu, speed)| (*cpu, speed.to_string()))
                .collect(),
            processes: active.processes(None),
            failed: active.failed,
            period: active.found.period.clone(),
            address: active.network.as_ref().map(|network| network.there.to_string()),
        });
        Status {
            pid: std::process::id(),
            method: self.plan.method.name().to_owned(),
            runs_ns: clock::monotonic() - self.started,
            controller_cpu_ns: clock::process_cpu(),
            nodes: nodes.collect(),
            cut: self.links.cuts().cloned().collect(),
            warnings: self.warnings.clone(),
        }
    }
}
