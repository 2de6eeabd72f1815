//! A load child as the parent sees it: started, followed to its end, and never left behind.

use crate::load::{self, GO, LoadRequest};
use crate::load_reports::LoadReports;
use crate::marks;
use crate::run_settings::RunSettings;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, process};
use schedlab_workload::{MachineError, Outcome, Output, Stream};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a load may take to end after it was asked to, before it is killed.
pub(crate) const GRACE: Nanos = Nanos::from_secs(8);

/// A load child. Dropping it ends it, so nothing of ours is left running, also after an error.
pub(crate) struct LoadChild(pub(crate) Child);

impl LoadChild {
    pub(crate) fn pid(&self) -> Pid {
        Pid(self.0.id().cast_signed())
    }

    /// Kills it if it lives, and waits for its end.
    pub(crate) fn kill(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl Drop for LoadChild {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a load child and asks it for its part.
pub(crate) fn spawn(
    program: &Path,
    request: &LoadRequest,
    marks: Option<&Path>,
    stderr: &Path,
    settings: &RunSettings,
) -> Result<(LoadChild, ChildStdin), MachineError> {
    let mut command = Command::new(program);
    command.arg(load::ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Plain: of a run whose folder is hidden until it is whole.
    let stderr = File::create(stderr)
        .map_err(|e| MachineError::io(format!("creating {}", stderr.display()), e))?;
    command.stderr(stderr).env_remove(marks::VARIABLE);
    if let Some(marks) = marks {
        command.env(marks::VARIABLE, marks);
    }
    settings.tell(&mut command);
    process::die_with_parent(&mut command);
    process::own_session(&mut command);
    let child = command.spawn();
    let mut child = child
        .map(LoadChild)
        .map_err(|e| MachineError::io(format!("starting {}", program.display()), e))?;
    // It waits for its spec, so none of its work runs outside of the group.
    settings
        .admit(child.0.id())
        .map_err(|e| MachineError::io("moving the load into its control group", e))?;
    let mut line = serde_json::to_string(request).expect("specs are plain values");
    line.push('\n');
    let mut stdin = child.0.stdin.take().expect("it was piped");
    // A child that is gone already is found by its exit code.
    let _ = stdin.write_all(line.as_bytes());
    Ok((child, stdin))
}

/// Where the marks of a load go that another process records; each load has a file of its own.
fn lent() -> Option<PathBuf> {
    static LOADS: AtomicU32 = AtomicU32::new(0);
    let recording = std::env::var_os(marks::VARIABLE)?;
    // A pid has 22 bits.
    let nth = LOADS.fetch_add(1, Ordering::Relaxed) << 22;
    Some(marks::of_process(Path::new(&recording), std::process::id() | nth))
}

/// A load child at work.
pub(crate) struct LoadProcess {
    child: LoadChild,
    /// Where it waits for the word to begin.
    stdin: Option<ChildStdin>,
    stderr: PathBuf,
    pub(crate) reports: LoadReports,
    /// The file for its marks that another process's recording reads.
    lent: Option<PathBuf>,
    /// Lines that have not ended yet.
    unread: Vec<u8>,
}

impl LoadProcess {
    /// Starts the load `name`, whose marks go to a file of the run's own recording or of one around this program.
    pub(crate) fn start(
        program: &Path,
        request: &LoadRequest,
        name: &str,
        marks: Option<&Path>,
        settings: &RunSettings,
        out: &mut dyn Output,
    ) -> Result<Self, MachineError> {
        let stderr = out.path(Stream::Stderr);
        let lent = marks.is_none().then(lent).flatten();
        let marks = marks.or(lent.as_deref());
        let (child, stdin) = spawn(program, request, marks, &stderr, settings)?;
        Ok(Self {
            child,
            stdin: request.part.waits().then_some(stdin),
            stderr,
            reports: LoadReports::new(name, None),
            lent,
            unread: Vec::new(),
        })
    }

    /// Hands on what the child tells until it ends; asks it to when the user does. `release` lets those begin that
    /// run at the same time.
    pub(crate) fn follow(
        &mut self,
        signals: Signals,
        mut release: impl FnMut(),
        out: &mut dyn Output,
    ) -> Result<Outcome, MachineError> {
        let mut pipe = self.child.0.stdout.take().expect("it was piped");
        let pid = self.child.pid();
        let mut asked: Option<Nanos> = None;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let fds = [pipe.as_fd(), signals.fd()];
            let patience =
                if asked.is_some() { Nanos::from_millis(100) } else { Nanos::from_secs(1) };
            // A signal stays readable: it is left out once it was heard.
            let watched = if asked.is_some() { &fds[..1] } else { &fds[..] };
            let ready = process::poll(watched, Some(patience))
                .map_err(|e| MachineError::io("waiting for the load", e))?;
            if asked.is_none() && (signals.caught().is_some() || out.stopped()) {
                let _ = process::kill(pid, 15);
                asked = Some(clock::monotonic());
            }
            if asked.is_some_and(|since| clock::monotonic() > since + GRACE) {
                let _ = process::kill(pid, 9);
            }
            if ready[0] {
                match pipe.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => {
                        self.unread.extend_from_slice(&buffer[..read]);
                        self.lines(out)?;
                        if self.reports.is_ready
                            && let Some(mut stdin) = self.stdin.take()
                        {
                            release();
                            let _ = stdin.write_all(GO);
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(MachineError::io("reading from the load", error)),
                }
            }
        }
        let status = self.child.0.wait().map_err(|e| MachineError::io("awaiting the load", e))?;
        self.outcome(process::exit_code(status))
    }

    fn outcome(&mut self, code: i32) -> Result<Outcome, MachineError> {
        let Some(ended) = self.reports.ended()? else {
            let said = std::fs::read_to_string(&self.stderr).unwrap_or_default();
            let said = said.lines().last().unwrap_or("it printed nothing");
            return Err(MachineError::Load(format!(
                "it ended too early, with code {code}: {said}"
            )));
        };
        match ended.failures.is_empty() || ended.interrupted {
            true => Ok(Outcome {
                exit_code: code,
                interrupted: ended.interrupted,
                censored: ended.censored,
            }),
            false => Err(MachineError::Load(ended.failures.join("; "))),
        }
    }

    fn lines(&mut self, out: &mut dyn Output) -> Result<(), MachineError> {
        while let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let had_names = self.reports.mark_names.is_some();
            self.reports.line(&line, out)?;
            if let (Some(lent), Some(names)) = (&self.lent, &self.reports.mark_names)
                && !had_names
            {
                // Plain: a private folder. Without names the recording passes over the marks.
                let _ = std::fs::write(marks::names(lent), names.join("\n"));
            }
        }
        Ok(())
    }
}
