//! The child's side: one process maps one image, performs one run, and tells it as frames.

use crate::pool::Crew;
use crate::scheduler;
use crate::symbols::Symbols;
use schedlab_jobs::run::Plain;
use schedlab_model::{Event, Setting, Topology, TraceInfo, Warning};
use schedlab_sim::{BOARD_WORDS, Board, Image, Model, OfCode, Simulated};
use schedlab_sys::image::Image as Mapped;
use schedlab_sys::regular_file;
use schedlab_trace::EventWriter;
use schedlab_vm::frame::Frame;
use schedlab_workload::{
    Figure, Interval, Machine as _, MachineError, Outcome, Output, RunSpec, Stream,
};
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// First argument of the program as the process of a run.
pub const ARGUMENT: &str = "__kernel";

/// Memory that the simulated machine may use; what it does not use costs nothing.
const ARENA: usize = 64 << 30;

/// What a child is asked, as JSON on its standard input.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChildRequest {
    pub(crate) tree: Tree,
    pub(crate) wish: Wish,
}

/// The machine of a child.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// The image; with a scheduler linked to it, if one was asked for.
    pub(crate) image: PathBuf,
    /// Variables of that scheduler.
    pub(crate) set: Vec<(String, u64)>,
    /// The machine's name, and how users know it.
    pub(crate) machine: String,
    pub(crate) written: String,
    /// The text of the file of costs.
    pub(crate) costs: Option<String>,
    pub(crate) code: OfCode,
    /// Its CPUs, if the name does not describe them.
    pub(crate) topology: Option<Topology>,
    /// Knobs that each run has.
    pub(crate) knobs: Vec<Setting>,
}

impl Tree {
    pub(crate) fn model(&self) -> Result<Model, String> {
        let name = self.machine.parse()?;
        let mut model = Model::of_code(&name, self.costs.as_deref(), self.code.clone())?;
        if let Some(topology) = &self.topology {
            let from: Vec<usize> = (0..topology.places().len()).collect();
            model.arrange(topology.clone(), &from);
        }
        self.knobs.iter().try_for_each(|one| model.set(&one.knob, &one.value))?;
        model.name.clone_from(&self.written);
        Ok(model)
    }
}

/// What is wanted of a child.
#[derive(Serialize, Deserialize)]
pub(crate) enum Wish {
    /// The kernel's knobs.
    Knobs,
    /// A run, whose trace goes to this path.
    Run(Box<RunSpec>, PathBuf),
    /// A graph of jobs for a pool.
    Jobs(Box<Plain>, Box<Crew>),
}

/// What a child tells of the machine when no run is asked for.
#[derive(Serialize, Deserialize)]
pub(crate) enum KnobsReply {
    Knobs(Vec<(String, String)>),
    Wrong(String),
}

struct Entered {
    image: Mapped,
    symbols: Symbols,
}

impl Image for Entered {
    fn arena(&self) -> (u64, u64) {
        (self.image.arena(), ARENA as u64)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.image.word(at)
    }

    #[inline]
    fn set_word(&mut self, at: usize, value: u64) {
        self.image.set_word(at, value);
    }

    #[inline]
    fn enter(&mut self) {
        self.image.enter();
    }

    fn function(&self, address: u64) -> Option<String> {
        self.symbols.function(address)
    }
}

/// The life of a child: it reads what is asked from standard input, and tells on standard output.
#[must_use]
pub fn child() -> ExitCode {
    match live() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ =
                writeln!(io::stderr(), "schedlab: the simulated kernel's process failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn live() -> io::Result<()> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let asked: ChildRequest = serde_json::from_slice(&text)?;
    let board = board(&asked.tree.image, &asked.tree.set).map_err(|error| error.to_string());
    let both = board.and_then(|board| Ok((board, asked.tree.model()?)));
    let mut out = io::stdout().lock();
    let (spec, trace) = match asked.wish {
        Wish::Run(spec, trace) => (spec, trace),
        Wish::Jobs(run, crew) => {
            let reply = both.and_then(|(board, model)| crew.run(model, board, *run));
            serde_json::to_writer(&mut out, &reply)?;
            return out.flush();
        }
        Wish::Knobs => {
            let knobs = both.and_then(|(board, model)| Simulated::knobs_of(&model, board));
            let reply = knobs.map_or_else(KnobsReply::Wrong, KnobsReply::Knobs);
            serde_json::to_writer(&mut out, &reply)?;
            return out.flush();
        }
    };
    let mut told = Frames { out, trace, writer: None };
    let ran = match both {
        Ok((board, model)) => Simulated::with_code(model, board).run(&spec, &mut told),
        Err(why) => Err(MachineError::Load(why)),
    };
    told.finish(ran)
}

/// Maps an image into this process.
fn board(path: &Path, set: &[(String, u64)]) -> io::Result<Board> {
    let mut file = regular_file::read(path, regular_file::PROGRAM_MAX)?;
    scheduler::set(&mut file, set).map_err(io::Error::other)?;
    let symbols = Symbols::of(&file);
    let image = Mapped::load(&file, BOARD_WORDS, ARENA)?;
    Ok(Board::new(Box::new(Entered { image, symbols })))
}

/// Tells what a run tells as frames, and writes its trace.
struct Frames<'o> {
    out: io::StdoutLock<'o>,
    trace: PathBuf,
    writer: Option<EventWriter>,
}

impl Frames<'_> {
    fn tell(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.write(&[], &mut bytes);
        self.out.write_all(&bytes)
    }

    fn finish(mut self, ran: Result<Outcome, MachineError>) -> io::Result<()> {
        let written = self.writer.take().map_or(Ok(()), EventWriter::finish);
        let written = written.map_err(|error| MachineError::io("storing the trace", error));
        let last = match ran.and_then(|outcome| written.map(|()| outcome)) {
            Ok(Outcome { exit_code, interrupted, censored }) => {
                Frame::Ended { exit_code, interrupted, censored }
            }
            Err(error) => Frame::Failed(error.into()),
        };
        self.tell(&last)?;
        self.out.flush()
    }
}

impl Output for Frames<'_> {
    fn path(&mut self, _: Stream) -> PathBuf {
        self.trace.clone()
    }

    fn figure(&mut self, figure: Figure) -> io::Result<()> {
        self.tell(&Frame::Figure(figure))
    }

    fn interval(&mut self, interval: &Interval) {
        // If nobody listens any more, the last frame says so.
        let _ = self.tell(&Frame::Interval(Box::new(interval.clone())));
    }

    fn trace(&mut self, info: &TraceInfo) -> io::Result<()> {
        self.writer = Some(EventWriter::create(&self.trace, info)?);
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.events(events))
    }

    fn events_with(&mut self, events: &[Event], arguments: &[String]) -> io::Result<()> {
        let writer = self.writer.as_mut();
        writer.map_or(Ok(()), |writer| writer.events_with(events, arguments))
    }

    fn note(&mut self, sentence: &str) {
        let _ = self.tell(&Frame::Note(sentence.to_owned()));
    }

    fn warning(&mut self, warning: Warning) {
        let _ = self.tell(&Frame::Warning(warning));
    }

    fn stopped(&self) -> bool {
        false
    }
}
