//! Speaking with QEMU: its machine protocol, one JSON object a line (docs/interop/qmp-spec of QEMU).

use crate::VmError;
use schedlab_model::Nanos;
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, process};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};

/// A connection over the standard streams of a QEMU.
#[derive(Debug)]
pub(crate) struct Qmp {
    to: ChildStdin,
    from: ChildStdout,
    unread: Vec<u8>,
    signals: Signals,
}

/// How long a wait may be before it is asked whether to stop.
const LOOK: Nanos = Nanos::from_millis(200);

/// Bytes of a line: QEMU writes a few hundred.
const LINE_MAX: usize = 1 << 20;

impl Qmp {
    /// Opens the dialogue with QEMU.
    pub(crate) fn open(
        to: ChildStdin,
        from: ChildStdout,
        signals: Signals,
        wait: &Wait<'_>,
    ) -> Result<Self, VmError> {
        let mut qmp = Self { to, from, unread: Vec::new(), signals };
        // The greeting comes by itself.
        qmp.next(wait)?;
        qmp.ask("qmp_capabilities", &json!({}), wait)?;
        Ok(qmp)
    }

    /// Performs a command and returns what it answers; events that come before are dropped.
    pub(crate) fn ask(
        &mut self,
        command: &str,
        arguments: &Value,
        wait: &Wait<'_>,
    ) -> Result<Value, VmError> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.to.write_all(line.as_bytes()).map_err(|_| ended())?;
        loop {
            let mut answer = self.next(wait)?;
            if let Some(error) = answer.get("error") {
                let what = format!("QEMU refused {command}: {error}");
                return Err(VmError::Guest { what, console: Vec::new() });
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// Waits for an event of one of these names, and returns which.
    pub(crate) fn await_event(
        &mut self,
        names: &[&'static str],
        wait: &Wait<'_>,
    ) -> Result<&'static str, VmError> {
        loop {
            let told = self.next(wait)?;
            let event = told.get("event").and_then(Value::as_str);
            if let Some(name) = names.iter().find(|name| Some(**name) == event) {
                return Ok(name);
            }
        }
    }

    fn next(&mut self, wait: &Wait<'_>) -> Result<Value, VmError> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|error| VmError::io("reading from QEMU")(io::Error::other(error)));
            }
            if self.signals.caught().is_some() || (wait.stopped)() {
                return Err(VmError::Interrupted);
            }
            if clock::monotonic() > wait.until {
                let what = format!(
                    "{} did not end in time: raise vm:patience=SECONDS if it needs longer",
                    wait.doing
                );
                return Err(VmError::Guest { what, console: Vec::new() });
            }
            let ready = process::poll(&[self.from.as_fd(), self.signals.fd()], Some(LOOK))
                .map_err(VmError::io("waiting for QEMU"))?;
            if ready[0] {
                let mut buffer = [0; 4096];
                match self.from.read(&mut buffer).map_err(VmError::io("reading from QEMU"))? {
                    0 => return Err(ended()),
                    _ if self.unread.len() > LINE_MAX => {
                        let what = io::Error::from(io::ErrorKind::InvalidData);
                        return Err(VmError::io("reading a line of more than 1 MiB from QEMU")(
                            what,
                        ));
                    }
                    read => self.unread.extend_from_slice(&buffer[..read]),
                }
            }
        }
    }
}

fn ended() -> VmError {
    VmError::Guest { what: "QEMU ended by itself".to_owned(), console: Vec::new() }
}

/// How long to wait, and for what.
pub(crate) struct Wait<'w> {
    /// What is being done: `the boot`, `the run`.
    pub(crate) doing: &'static str,
    /// When it is given up, on the monotonic clock.
    pub(crate) until: Nanos,
    /// Whether the user wants to stop.
    pub(crate) stopped: &'w dyn Fn() -> bool,
}
