//! The child's side: one process maps one image, performs one run, and tells it as frames.

use crate::request::{ChildRequest, JobsReply, KnobsReply, PoolRequest, Purpose};
use crate::scheduler;
use crate::symbols::Symbols;
use schedlab_jobs::elsewhere::Plain;
use schedlab_jobs::executor::{Executor as _, ExecutorError};
use schedlab_model::{Event, TraceInfo, Warning};
use schedlab_sim::{BOARD_WORDS, Board, Image, Model, Simulated, SimulatedPool};
use schedlab_sys::image::Image as Mapped;
use schedlab_sys::regular_file;
use schedlab_trace::EventWriter;
use schedlab_vm::frame::Frame;
use schedlab_workload::{Figure, Interval, Machine as _, MachineError, Outcome, Output, Stream};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Memory that the simulated machine may use; what it does not use costs nothing.
const ARENA: usize = 64 << 30;

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
    let (spec, trace) = match asked.purpose {
        Purpose::Run(spec, trace) => (spec, trace),
        Purpose::Jobs(run, pool) => {
            let reply = both.and_then(|(board, model)| jobs(*pool, model, board, *run));
            serde_json::to_writer(&mut out, &reply)?;
            return out.flush();
        }
        Purpose::Knobs => {
            let reply: KnobsReply =
                both.and_then(|(board, model)| Simulated::knobs_of(&model, board));
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

/// Runs a graph of jobs, and proves it: the log that travels has each job once.
fn jobs(asked: PoolRequest, model: Model, board: Board, run: Plain) -> Result<JobsReply, String> {
    let mut pool =
        SimulatedPool::new(model, asked.policy, asked.timer_slack).with_code(board, asked.runs);
    if asked.is_lumiera {
        pool = pool.lumiera();
    }
    if asked.trace.is_some() {
        pool = pool.recording();
    }
    let run = Arc::new(run.run());
    let told = pool.run(&run).map_err(|error| match error {
        ExecutorError::Unfinished { what, .. } => what,
        other => other.to_string(),
    })?;
    run.verify().map_err(|flaw| format!("the run failed its proof: {flaw}"))?;
    if let (Some(path), Some((info, events))) = (asked.trace, pool.take_recorded()) {
        EventWriter::write_all(&path, &info, &events)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(JobsReply { told, log: run.told_log() })
}

/// Maps an image into this process.
fn board(path: &Path, set: &[(String, u64)]) -> io::Result<Board> {
    let mut file = regular_file::read(path, regular_file::PROGRAM_MAX)?;
    scheduler::set(&mut file, set).map_err(io::Error::other)?;
    let symbols = Symbols::of(&file);
    #[expect(unsafe_code, reason = "this user built the image, and this process exists to run it")]
    // SAFETY: `sim build` links images that use their own memory, the board and the arena.
    let image = unsafe { Mapped::load(&file, BOARD_WORDS, ARENA) }?;
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
