//! Growing a graph level by level, by rules that draw from the hashes of the nodes themselves.

use super::draw::Draw;
use super::{Graph, Hashing, Node, Rule};

/// What a graph grows by. Without any rule the result is one chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// How many nodes, at least 1.
    pub nodes: u32,
    /// Limits the width of a level, and the predecessors and successors of a node; at least 1.
    pub fan: u32,
    /// The seed, which start nodes hash.
    pub seed: u64,
    /// New start nodes beside a node's successors.
    pub seeding: Rule,
    /// Further successors of a node.
    pub expansion: Rule,
    /// How many of the nodes that follow join into the same successor.
    pub reduction: Rule,
    /// Not 0: the node ends its branch.
    pub pruning: Rule,
    /// How heavy a node is.
    pub weight: Rule,
    /// How hashes are folded and drawn from.
    pub hashing: Hashing,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            nodes: 256,
            fan: 16,
            seed: 0,
            seeding: Rule::OFF,
            expansion: Rule::OFF,
            reduction: Rule::OFF,
            pruning: Rule::OFF,
            weight: Rule::OFF,
            hashing: Hashing::default(),
        }
    }
}

impl Rules {
    /// Grows the graph. The same rules give the same graph.
    pub fn build(&self) -> Graph {
        let mut growth = Growth::new(self);
        let mut level = Vec::new();
        growth.add_seed(&mut level);
        while growth.room() {
            level = growth.next_level(&level);
        }
        for &node in &level {
            growth.evaluate(node);
        }
        growth.finish()
    }
}

struct Growth {
    rules: Rules,
    level: Vec<u32>,
    weight: Vec<u32>,
    hash: Vec<u64>,
    start: Vec<u64>,
    predecessors: Vec<Vec<Node>>,
    successors: Vec<u32>,
    depth: u32,
    seeding: Draw,
    expansion: Draw,
    reduction: Draw,
    pruning: Draw,
    weighing: Draw,
}

impl Growth {
    fn new(rules: &Rules) -> Self {
        let rules = Rules { nodes: rules.nodes.max(1), fan: rules.fan.max(1), ..*rules };
        let draw = |rule| Draw::new(rule, rules.fan, rules.hashing);
        Self {
            level: Vec::new(),
            weight: Vec::new(),
            hash: Vec::new(),
            start: Vec::new(),
            predecessors: Vec::new(),
            successors: Vec::new(),
            depth: 0,
            seeding: draw(rules.seeding),
            expansion: draw(rules.expansion),
            reduction: draw(rules.reduction),
            pruning: draw(rules.pruning),
            weighing: draw(rules.weight),
            rules,
        }
    }

    fn room(&self) -> bool {
        (self.level.len() as u32) < self.rules.nodes
    }

    fn add(&mut self) -> Option<Node> {
        self.room().then(|| {
            self.start.push(0);
            self.level.push(self.depth);
            self.weight.push(0);
            self.hash.push(0);
            self.predecessors.push(Vec::new());
            self.successors.push(0);
            self.level.len() as Node - 1
        })
    }

    /// Adds a node to `next`, where the fan and the number of nodes allow.
    fn add_to(&mut self, next: &mut Vec<Node>) -> Option<Node> {
        let node = (next.len() < self.rules.fan as usize).then(|| self.add()).flatten()?;
        next.push(node);
        Some(node)
    }

    /// Adds a start node. It hashes the seed even when, for want of room, a node is linked to it later.
    fn add_seed(&mut self, next: &mut Vec<Node>) {
        if let Some(node) = self.add_to(next) {
            self.start[node as usize] = self.rules.hashing.start(self.rules.seed, node);
        }
    }

    fn link(&mut self, from: Node, to: Node) {
        self.predecessors[to as usize].push(from);
        self.successors[from as usize] += 1;
    }

    /// Computes hash and weight; true when the node ends its branch.
    fn evaluate(&mut self, node: Node) -> bool {
        let hashing = self.rules.hashing;
        let at = node as usize;
        let fan_in = self.predecessors[at].len();
        let of = |p: &Node| self.hash[*p as usize];
        let hash =
            self.predecessors[at].iter().map(of).fold(self.start[at], |h, p| hashing.fold(h, p));
        self.hash[at] = hash;
        self.weight[at] = self.weighing.draw(hash, fan_in);
        self.pruning.draw(hash, fan_in) != 0
    }

    fn next_level(&mut self, level: &[Node]) -> Vec<Node> {
        self.depth += 1;
        let mut next = Vec::new();
        let mut joining: Option<Node> = None;
        let mut joins_left = 0;
        for &node in level {
            if self.evaluate(node) {
                continue;
            }
            let hash = self.hash[node as usize];
            let fan_in = self.predecessors[node as usize].len();
            let seeds = self.seeding.draw(hash, fan_in);
            let branches = self.expansion.draw(hash, fan_in);
            for _ in 0..seeds {
                self.add_seed(&mut next);
            }
            for _ in 0..branches {
                if let Some(branch) = self.add_to(&mut next) {
                    self.link(node, branch);
                }
            }
            if joins_left == 0 {
                joining = self.add_to(&mut next);
                joins_left = self.reduction.draw(hash, fan_in);
            } else {
                joins_left -= 1;
            }
            match (joining, next.last().copied()) {
                (Some(carry), _) => self.link(node, carry),
                (None, Some(last)) if self.successors[node as usize] == 0 => self.link(node, last),
                _ => {}
            }
        }
        if next.is_empty() {
            self.add_seed(&mut next);
        }
        next
    }

    fn finish(self) -> Graph {
        let Rules { seed, hashing, .. } = self.rules;
        Graph::assemble(self.level, self.weight, self.start, &self.predecessors, seed, hashing)
    }
}
