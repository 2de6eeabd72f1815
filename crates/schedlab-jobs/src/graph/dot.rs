//! Graphviz text of a graph, written and read.

use super::{Graph, GraphTextError, Hashing, Node, Place};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The graph in Graphviz's language: a rank per level, seeds as circles, the root as a double circle,
/// exits as rounded boxes; a label is the number, the lowest byte of the hash, and the weight. Nodes that were read with
/// a name keep it.
pub fn dot(graph: &Graph) -> String {
    let mut text = String::from("digraph jobs {\n  node [fontname=\"sans-serif\"];\n");
    for node in 0..graph.len() {
        let first = graph.predecessors(node).is_empty();
        let last = graph.successors(node).is_empty();
        let look = match (node, first, last) {
            (0, ..) => " shape=doublecircle",
            (_, true, _) => " shape=circle",
            (_, _, true) => " shape=box style=rounded",
            _ => "",
        };
        let byte = graph.expected(node) & 0xff;
        let weight = graph.weight(node);
        let level = graph.level(node);
        // A start node to which others were linked later.
        let seeded = if graph.place(node).seeded && !first { " seeded=true" } else { "" };
        let id = id(graph, node);
        let _ = writeln!(
            text,
            "  {id} [label=\"{node}: {byte:02X}.{weight}\" level={level}{seeded}{look}];"
        );
    }
    let mut from = 0;
    for level in 0..graph.levels() {
        let rank = if level == 0 { "min" } else { "same" };
        let _ = write!(text, "  {{ rank={rank};");
        while from < graph.len() && graph.level(from) == level {
            let _ = write!(text, " {};", id(graph, from));
            from += 1;
        }
        text.push_str(" }\n");
    }
    // In the order in which a node's predecessors are hashed, so that the hash survives.
    for to in 0..graph.len() {
        for from in graph.predecessors(to) {
            let _ = writeln!(text, "  {} -> {};", id(graph, *from), id(graph, to));
        }
    }
    text.push_str("}\n");
    text
}

/// What a node is called in the text.
fn id(graph: &Graph, node: Node) -> String {
    graph.name(node).map_or_else(
        || format!("n{node}"),
        |name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
    )
}

/// Reads a `digraph` of Graphviz's language: nodes with their names, by level and then in the order in which they are
/// named; edges and chains of edges. Nodes of a group with `rank=same` are on one level, as far as the edges let them. The
/// level of a node is its attribute `level` if all have one. Its weight is its attribute `weight`, or what a label
/// of the form that [`dot`] writes says (`12: 3F.2`; `12: 3F` is 0); otherwise 1. All else is passed over.
///
/// # Errors
/// The first place that is not understood, an undirected graph, or a cycle.
pub fn parse_dot(text: &str, seed: u64, hashing: Hashing) -> Result<Graph, GraphTextError> {
    let words = words(text)?;
    let wrong = |line, what: &str| GraphTextError::Line { line, what: what.to_owned() };
    let head = words.iter().position(|(_, word)| *word == Word::Sign('{'));
    let directed =
        |word: &Word| matches!(word, Word::Name(name) if name.to_lowercase() == "digraph");
    let head = head.filter(|&head| words[..head].iter().any(|(_, word)| directed(word)));
    let head =
        head.ok_or_else(|| wrong(1, "missing start of the graph: write `digraph NAME {`"))?;
    let mut read = Read::default();
    let mut at = head + 1;
    while let Some((line, word)) = words.get(at) {
        let next = words.get(at + 1).map(|(_, word)| word);
        match word {
            // `rank=same`, `node [...]`: settings, not nodes.
            Word::Name(key) if next == Some(&Word::Sign('=')) => {
                let same = |word: &Word| matches!(word, Word::Name(value) if value == "same");
                let value = words.get(at + 2).map(|(_, word)| word);
                if key == "rank" && value.is_some_and(same) {
                    read.rank();
                }
                at += 2;
            }
            Word::Name(name) if ["node", "edge", "graph", "subgraph"].contains(&name.as_str()) => {
                read.from = None;
                read.last = None;
            }
            // The name of a group.
            Word::Name(_) if next == Some(&Word::Sign('{')) => {}
            Word::Name(name) => read.node(name),
            Word::Arrow => match (read.last.take(), next) {
                (Some(from), Some(Word::Name(_))) => read.from = Some(from),
                _ => return Err(wrong(*line, "invalid edge: write `NODE -> NODE`")),
            },
            Word::Undirected => {
                return Err(wrong(
                    *line,
                    "invalid edge `--`: use `->`, since jobs need a direction",
                ));
            }
            Word::Sign('[') => {
                let close = words[at..].iter().position(|(_, word)| *word == Word::Sign(']'));
                let close = close.ok_or_else(|| wrong(*line, "missing `]` after `[`"))?;
                read.attributes(&words[at + 1..at + close]);
                at += close;
            }
            // Where at a node an edge ends is no matter.
            Word::Sign(':') => at += 1,
            Word::Sign(sign) => {
                (read.from, read.last) = (None, None);
                match sign {
                    '{' => read.groups.push(Group::default()),
                    '}' => read.close(),
                    _ => {}
                }
            }
        }
        at += 1;
    }
    if read.places.is_empty() {
        return Err(wrong(1, "missing name of a node before its attributes"));
    }
    read.graph(seed, hashing)
}

/// The nodes between a pair of braces.
#[derive(Debug, Default)]
struct Group {
    nodes: Vec<u32>,
    same: bool,
}

#[derive(Debug, Default)]
struct Read {
    numbers: BTreeMap<String, u32>,
    /// Of an unknown level `u32::MAX`, which fits none.
    places: Vec<Place>,
    edges: Vec<(u32, u32)>,
    /// The last node of the statement, and the one before an arrow.
    last: Option<u32>,
    from: Option<u32>,
    /// The statement is one of edges.
    edge: bool,
    /// Those that are open.
    groups: Vec<Group>,
    /// Nodes that shall be on one level.
    ranks: Vec<Vec<u32>>,
}

impl Read {
    fn node(&mut self, name: &str) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.places.push(Place { level: u32::MAX, weight: 1, seeded: false });
        }
        let from = self.from.take();
        self.edge = from.is_some();
        self.edges.extend(from.map(|from| (from, number)));
        self.last = Some(number);
        if let Some(group) = self.groups.last_mut() {
            group.nodes.push(number);
        }
    }

    fn rank(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            group.same = true;
        }
    }

    fn close(&mut self) {
        if let Some(Group { nodes, same: true }) = self.groups.pop() {
            self.ranks.push(nodes);
        }
    }

    /// Levels from the edges, and from the ranks where they go together.
    fn levels(&self) -> Vec<u32> {
        let count = self.places.len();
        let mut levels = vec![0; count];
        // A level rises with each round, up to the number of nodes unless ranks and edges contradict each other.
        for _ in 0..=count {
            let before = levels.clone();
            for &(from, to) in &self.edges {
                levels[to as usize] = levels[to as usize].max(levels[from as usize] + 1);
            }
            for rank in &self.ranks {
                let most = rank.iter().map(|&node| levels[node as usize]).max().unwrap_or(0);
                rank.iter().for_each(|&node| levels[node as usize] = most);
            }
            if levels == before {
                return levels;
            }
        }
        vec![u32::MAX; count]
    }

    fn graph(mut self, seed: u64, hashing: Hashing) -> Result<Graph, GraphTextError> {
        let mut names = vec![String::new(); self.places.len()];
        for (name, number) in std::mem::take(&mut self.numbers) {
            names[number as usize] = name;
        }
        if self.places.iter().any(|place| place.level == u32::MAX) {
            let levels = self.levels();
            self.places.iter_mut().zip(levels).for_each(|(place, level)| place.level = level);
        }
        let mut order: Vec<u32> = (0..).take(names.len()).collect();
        order.sort_by_key(|&old| self.places[old as usize].level);
        let mut number = vec![0; names.len()];
        order.iter().zip(0..).for_each(|(&old, new)| number[old as usize] = new);
        let places: Vec<Place> = order.iter().map(|&old| self.places[old as usize]).collect();
        let new = |old: u32| number[old as usize];
        let edges: Vec<_> = self.edges.iter().map(|&(from, to)| (new(from), new(to))).collect();
        let graph = Graph::from_places(&places, &edges, seed, hashing)?;
        // What this program wrote itself has its numbers for names, and what was renumbered has none.
        let kept = places.iter().zip(0..).all(|(place, node)| graph.level(node) == place.level);
        let own = order.iter().zip(0..).all(|(&old, new)| names[old as usize] == format!("n{new}"));
        if own || !kept {
            return Ok(graph);
        }
        Ok(graph.with_names(order.iter().map(|&old| names[old as usize].clone()).collect()))
    }

    fn attributes(&mut self, words: &[(usize, Word)]) {
        // That of an edge is Graphviz's own.
        let Some(node) = self.last.filter(|_| !self.edge) else { return };
        for triple in words.windows(3) {
            let (Word::Name(key), Word::Sign('='), Word::Name(value)) =
                (&triple[0].1, &triple[1].1, &triple[2].1)
            else {
                continue;
            };
            let place = &mut self.places[node as usize];
            let number = |text: &str| text.parse::<u32>().ok();
            match key.as_str() {
                "level" => place.level = number(value).unwrap_or(u32::MAX),
                "weight" => place.weight = number(value).unwrap_or(place.weight),
                "seeded" => place.seeded = value == "true",
                "label" => {
                    place.weight = labelled(value).unwrap_or(place.weight);
                }
                _ => {}
            }
        }
    }
}

/// The weight that a label of the form of [`dot`] says: `12: 3F.2`, or `12: 3F` for 0, as Lumiera writes it. A label of
/// others may end in a point and a number as well.
fn labelled(label: &str) -> Option<u32> {
    let (number, rest) = label.split_once(": ")?;
    let (byte, weight) = rest.split_once('.').unwrap_or((rest, "0"));
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    let ours = digits(number, 10) && byte.len() == 2 && digits(byte, 16) && digits(weight, 10);
    if ours { weight.parse().ok() } else { None }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// A name, a number, or what stood in quotes.
    Name(String),
    Arrow,
    Undirected,
    Sign(char),
}

/// The words of the language, each with its line; comments are left out.
fn words(text: &str) -> Result<Vec<(usize, Word)>, GraphTextError> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    let mut line = 1;
    let wrong = |line, what: &str| GraphTextError::Line { line, what: what.to_owned() };
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => line += 1,
            '#' => while letters.next_if(|&c| c != '\n').is_some() {},
            '/' if letters.next_if_eq(&'/').is_some() => {
                while letters.next_if(|&c| c != '\n').is_some() {}
            }
            '/' if letters.next_if_eq(&'*').is_some() => {
                let mut before = ' ';
                loop {
                    let Some(c) = letters.next() else {
                        return Err(wrong(line, "missing `*/` at the end of a comment"));
                    };
                    line += usize::from(c == '\n');
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            '"' => {
                let begin = line;
                let mut name = String::new();
                loop {
                    match letters.next() {
                        None => return Err(wrong(begin, "missing quote at the end of a name")),
                        Some('"') => break,
                        Some('\\') => name.extend(letters.next()),
                        Some(c) => {
                            line += usize::from(c == '\n');
                            name.push(c);
                        }
                    }
                }
                words.push((begin, Word::Name(name)));
            }
            '-' if letters.next_if_eq(&'>').is_some() => words.push((line, Word::Arrow)),
            '-' if letters.next_if_eq(&'-').is_some() => words.push((line, Word::Undirected)),
            '{' | '}' | '[' | ']' | ';' | ',' | '=' | ':' => words.push((line, Word::Sign(letter))),
            c if c.is_alphanumeric() || c == '_' || c == '.' || c == '-' => {
                let mut name = String::from(c);
                while let Some(c) =
                    letters.next_if(|&c| c.is_alphanumeric() || c == '_' || c == '.')
                {
                    name.push(c);
                }
                words.push((line, Word::Name(name)));
            }
            c if c.is_whitespace() => {}
            c => return Err(wrong(line, &format!("unexpected character `{c}`"))),
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};

    #[test]
    fn a_graph_in_the_spelling_of_its_author_keeps_its_weights() {
        // Topo-10 of the load tests of the Lumiera engine: labels leave out a weight of 0.
        let rules = Rules { nodes: 64, fan: 16, hashing: Hashing::Compat, ..Rules::default() };
        let text = dot(&Shape::LoadBursts.build(&rules)).replace(".0\"", "\"");
        let graph = parse_dot(&text, 0, Hashing::Compat).expect("a graph");
        assert_eq!(
            (graph.weight_sum(), graph.critical_path_by(|node| graph.weight(node).into())),
            (66, 31)
        );
        assert!(text.contains("label=\"4: 0A\""), "{text}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "no threads: plain data, for minutes")]
    fn every_shape_reads_back_with_its_hash() {
        for hashing in [Hashing::Mixed, Hashing::Compat] {
            for shape in Shape::ALL {
                let graph = shape.build(&Rules { nodes: 90, hashing, ..Rules::default() });
                let read = parse_dot(&dot(&graph), graph.seed(), hashing).unwrap();
                let of = |graph: &Graph| (graph.hash(), graph.levels(), graph.edges());
                assert_eq!(of(&read), of(&graph), "{shape}");
                assert_eq!(dot(&read), dot(&graph), "{shape}");
            }
        }
    }

    #[test]
    fn what_others_write_is_read() {
        let text = "\
                    strict digraph \"my graph\" {\n  rankdir=LR; node [shape=box, weight=9]\n  # a remark\n\
                    a [label=\"start\"];\n\
                    b [weight=3, color=red] /* so */ c\n  a -> b -> d [weight=7];\n\
                    subgraph cluster { rank=same; c; e }\n  \"a\":p -> c\n}\n";
        let graph = parse_dot(text, 0, Hashing::Mixed).unwrap();
        assert_eq!((graph.len(), graph.edges(), graph.levels()), (5, 3, 3));
        let weights: Vec<u32> = (0..5).map(|node| graph.weight(node)).collect();
        assert_eq!(weights.iter().sum::<u32>(), 7, "{weights:?}: b weighs 3, an edge nothing");
    }

    #[test]
    fn names_and_ranks_are_kept_and_a_version_is_no_weight() {
        let text = "digraph g {\n  load [label=\"v1.12\"]; \"parse \\\"it\\\"\" [label=\"3: 0F.4\"]; emit; lone;\n\
                    load -> \"parse \\\"it\\\"\" -> emit;\n  { rank=same; emit; lone }\n}\n";
        let graph = parse_dot(text, 0, Hashing::Mixed).unwrap();
        let all = |of: &dyn Fn(u32) -> String| (0..4).map(of).collect::<Vec<_>>();
        let seen = all(&|node| {
            format!("{} {} {}", graph.name(node).unwrap(), graph.level(node), graph.weight(node))
        });
        assert_eq!(seen, ["load 0 1", "parse \"it\" 1 4", "emit 2 1", "lone 2 1"]);
        let back = parse_dot(&dot(&graph), 0, Hashing::Mixed).unwrap();
        assert_eq!(back, graph);
    }

    #[test]
    fn ranks_that_contradict_the_edges_are_passed_over() {
        let text = "digraph g { a -> b -> c; { rank=same; a; c } }";
        let graph = parse_dot(text, 0, Hashing::Mixed).unwrap();
        assert_eq!((0..3).map(|node| graph.level(node)).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn what_is_no_graph_is_said_with_its_line() {
        let said = |text: &str| parse_dot(text, 0, Hashing::Mixed).unwrap_err().to_string();
        assert_eq!(
            said("digraph g {\n a -- b }"),
            "line 2: invalid edge `--`: use `->`, since jobs need a direction"
        );
        assert!(said("graph g { a }").contains("write `digraph NAME {`"));
        assert!(said("digraph g { a [x=1 }").contains("missing `]` after `[`"));
        assert!(said("digraph g { \"a }").contains("missing quote"));
        assert!(said("digraph g { a -> b; b -> a }").contains("cycle"));
        assert!(said("digraph g { }").contains("missing name of a node"));
        assert!(said("").contains("missing start of the graph"));
        assert!(said("digraph g { a -> { b c } }").contains("line 1: invalid edge"));
        assert!(said("digraph g { { a b } -> c }").contains("line 1: invalid edge"));
    }
}
