//! Streams: jobs of one graph that differ in length, deadline, criticality and I/O, as those of a preview and of a final
//! render do.

use super::arrivals::duration;
use super::mix::percent;
use super::{Length, Random};
use crate::graph::{Graph, Node};
use crate::policy::{Criticality, Nanos, StreamId};
use crate::run::{Io, Run, Schedule};
use std::str::FromStr;

/// I/O that goes on after a job returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoLoad {
    /// How long it takes.
    pub(crate) ns: Nanos,
    /// The fraction that fails, between 0 and 1.
    pub(crate) fails: f64,
}

impl FromStr for IoLoad {
    type Err = String;

    /// `2ms`, or `2ms:1%`: one in a hundred fails.
    fn from_str(text: &str) -> Result<Self, String> {
        let (time, fails) = text.split_once(':').map_or((text, None), |(t, f)| (t, Some(f)));
        let ns = duration(time)?;
        if ns == 0 {
            return Err(format!("invalid I/O time '{text}': use more than 0"));
        }
        Ok(Self { ns, fails: fails.map_or(Ok(0.0), percent)? })
    }
}

/// A part of the jobs, and its own settings; `None` is the setting of the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    pub name: String,
    /// The stream's part of the jobs, between 0 and 1.
    pub(crate) share: f64,
    /// Time of a job of weight 1.
    pub(crate) time_ns: Option<Nanos>,
    /// The distribution of lengths; the load's if absent.
    pub(crate) length: Option<Length>,
    /// Latest start after the start time.
    pub life_ns: Option<Nanos>,
    /// The distribution of lives; the load's if absent.
    pub spread: Option<Length>,
    /// How much its jobs matter.
    pub criticality: Option<Criticality>,
    /// I/O of its jobs.
    pub(crate) io: Option<IoLoad>,
}

impl FromStr for Stream {
    type Err = String;

    /// Reads a stream such as `preview:share=30%,time=100us,life=5ms,criticality=optional,io=2ms:1%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text
            .split_once(':')
            .ok_or_else(|| format!("invalid stream '{text}': use NAME:share=30%,KEY=VALUE,..."))?;
        let usual = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(usual) {
            return Err(format!("invalid name '{name}': use letters, digits, '-' and '_'"));
        }
        let mut stream = Self {
            name: name.to_owned(),
            share: 0.0,
            time_ns: None,
            length: None,
            life_ns: None,
            spread: None,
            criticality: None,
            io: None,
        };
        for part in rest.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                format!("invalid setting '{part}' in stream {name}: use KEY=VALUE")
            })?;
            match key {
                "share" => stream.share = percent(value)?,
                "time" => stream.time_ns = Some(duration(value)?),
                "length" => stream.length = Some(value.parse()?),
                "life" => stream.life_ns = Some(duration(value)?),
                "life-spread" => stream.spread = Some(value.parse()?),
                "criticality" => stream.criticality = Some(value.parse()?),
                "io" => stream.io = Some(value.parse()?),
                _ => {
                    return Err(format!(
                        "unknown key '{key}' in stream {name}: use share, time, length, life, \
                         life-spread, criticality or io"
                    ));
                }
            }
        }
        if stream.share > 0.0 {
            Ok(stream)
        } else {
            Err(format!("stream {name} has no jobs: give it a share, such as share=30%"))
        }
    }
}

/// What all jobs have that no stream changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usual {
    /// Time of a job of weight 1.
    pub time_ns: Nanos,
    /// The distribution of lengths.
    pub length: Length,
    /// Latest start after the start time.
    pub life_ns: Option<Nanos>,
    /// The distribution of the factor on `life_ns`.
    pub spread: Length,
    /// I/O of all jobs.
    pub io: Option<IoLoad>,
}

/// Jobs by stream: functions of graph, seed and node, so every executor gets the same jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Streams {
    usual: Usual,
    all: Vec<Stream>,
    seed: u64,
}

impl Streams {
    /// The usual jobs, and streams whose shares add up to 1 at most.
    ///
    /// # Errors
    /// More than 100 %, or a name that comes twice.
    pub fn new(usual: Usual, all: Vec<Stream>, seed: u64) -> Result<Self, String> {
        let sum: f64 = all.iter().map(|stream| stream.share).sum();
        if sum > 1.0 + 1e-9 {
            return Err(format!(
                "the shares of the streams add up to {:.0}%: use at most 100%",
                100.0 * sum
            ));
        }
        for (at, stream) in all.iter().enumerate() {
            if all[..at].iter().any(|before| before.name == stream.name) {
                return Err(format!("two streams have the name {}: rename one", stream.name));
            }
        }
        Ok(Self { usual, all, seed })
    }

    fn random(&self, node: Node, purpose: u64) -> Random {
        let mut random = Random::new(self.seed.rotate_left(16) ^ (u64::from(node) << 20) ^ purpose);
        random.bits();
        random
    }

    /// The stream of a job. Stream 0 holds the jobs without a stream; the pool cannot switch it
    /// off.
    pub(crate) fn id(&self, node: Node) -> StreamId {
        if self.all.is_empty() {
            return StreamId(0);
        }
        let drawn = self.random(node, 0x7374_7265).unit();
        let mut below = 0.0;
        let at = self.all.iter().position(|stream| {
            below += stream.share;
            drawn < below
        });
        StreamId(at.map_or(0, |at| at as u16 + 1))
    }

    fn of(&self, node: Node) -> Option<&Stream> {
        self.all.get(usize::from(self.id(node).0).checked_sub(1)?)
    }

    pub fn name(&self, id: StreamId) -> &str {
        let stream = usize::from(id.0).checked_sub(1).and_then(|at| self.all.get(at));
        stream.map_or("rest", |stream| &stream.name)
    }

    /// Whether there are none, so that all jobs are usual.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Planned length of every job.
    pub fn lengths(&self, graph: &Graph) -> Vec<Nanos> {
        let of = |node: Node| {
            let stream = self.of(node);
            let base = stream.and_then(|s| s.time_ns).unwrap_or(self.usual.time_ns);
            let length = stream.and_then(|s| s.length).unwrap_or(self.usual.length);
            let weighted = base as f64 * f64::from(graph.weight(node));
            (weighted * length.factor(self.seed, node)) as Nanos
        };
        (0..graph.len()).map(of).collect()
    }

    /// The schedule with these start times. A job without a life has no deadline.
    pub fn schedule(&self, graph: &Graph, starts: Vec<Nanos>) -> Schedule {
        let lives: Vec<Option<Nanos>> = (0..graph.len()).map(|node| self.life(node)).collect();
        if lives.iter().all(Option::is_none) {
            return Schedule { starts, ..Schedule::default() };
        }
        // Far beyond any run: as good as none.
        let lives = lives.into_iter().map(|life| life.unwrap_or(Nanos::MAX / 4)).collect();
        Schedule { starts, life_ns: self.usual.life_ns, lives }
    }

    fn life(&self, node: Node) -> Option<Nanos> {
        let stream = self.of(node);
        let life = stream.and_then(|s| s.life_ns).or(self.usual.life_ns)?;
        let spread = stream.and_then(|s| s.spread).unwrap_or(self.usual.spread);
        // Drawn apart from the length, so that short jobs have no short lives.
        Some((life as f64 * spread.factor(self.seed ^ 0x6c69_6665, node)) as Nanos)
    }

    /// How much a job matters, by its stream; `None` if the stream says nothing.
    pub fn criticality(&self, node: Node) -> Option<Criticality> {
        self.of(node)?.criticality
    }

    /// Puts streams and I/O into a run.
    #[must_use]
    pub fn apply(&self, run: Run) -> Run {
        let nodes = 0..run.graph().len();
        let io = nodes.clone().map(|node| self.io(node)).collect();
        run.with_streams(nodes.map(|node| self.id(node)).collect()).with_io(io)
    }

    fn io(&self, node: Node) -> Option<Io> {
        let io = self.of(node).and_then(|stream| stream.io).or(self.usual.io)?;
        let fails = self.random(node, 0x696f).unit() < io.fails;
        Some(Io { ns: io.ns, fails })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};

    #[test]
    fn streams_are_read_drawn_by_share_and_differ() {
        let preview: Stream =
            "preview:share=25%,time=100us,life=2ms,criticality=optional,io=1ms:50%"
                .parse()
                .unwrap();
        let usual = Usual { time_ns: 500_000, life_ns: None, ..Usual::default() };
        let streams = Streams::new(usual, vec![preview], 3).unwrap();
        let graph = Shape::Isolated.build(&Rules { nodes: 2_000, ..Rules::default() });
        let schedule = streams.schedule(&graph, Vec::new());
        let of_preview: Vec<Node> =
            (0..2_000).filter(|&node| streams.id(node) == StreamId(1)).collect();
        // Four standard deviations.
        assert!(of_preview.len().abs_diff(500) < 78, "{}", of_preview.len());
        let lengths = streams.lengths(&graph);
        for node in 0..2_000 {
            let preview = streams.id(node) == StreamId(1);
            assert_eq!(lengths[node as usize], if preview { 100_000 } else { 500_000 });
            assert_eq!(schedule.deadline(node) == 2_000_000, preview);
            assert_eq!(streams.criticality(node), preview.then_some(Criticality::Optional));
            assert_eq!(streams.io(node).is_some(), preview);
        }
        let failing = of_preview.iter().filter(|&&node| streams.io(node).unwrap().fails).count();
        assert!(failing > of_preview.len() / 3 && failing < 2 * of_preview.len() / 3);
        assert_eq!((streams.name(StreamId(0)), streams.name(StreamId(1))), ("rest", "preview"));
    }

    #[test]
    fn what_makes_no_stream_is_said() {
        let said = |text: &str| text.parse::<Stream>().unwrap_err();
        assert!(said("preview").contains("NAME:share=30%"));
        assert!(said("a:life=2ms").contains("has no jobs"));
        assert!(said("a:share=20%,tea=2").contains("use share"));
        assert!(said("a b:share=20%").contains("invalid name"));
        assert!(said("a:share=20%,io=0ns").contains("use more than 0"));
        let two = |a: &str, b: &str| {
            let all = vec![a.parse().unwrap(), b.parse().unwrap()];
            Streams::new(Usual::default(), all, 0).unwrap_err()
        };
        assert!(two("a:share=60%", "b:share=50%").contains("110%"));
        assert!(two("a:share=10%", "a:share=50%").contains("two streams have the name a"));
    }
}
