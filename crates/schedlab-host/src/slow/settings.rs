//! Slowing as settings of a run (see [`SpeedSettings`]): by hogs where no method is named.

use super::{
    BackgroundSession, Method, Node, Request, Session, SlowError, Support, last, speed_of,
};
use schedlab_model::{CpuSet, Pid, Setting, Warning};
use schedlab_workload::SpeedSettings;
use schedlab_workload::knobs::SPEED;
use schedlab_workload::requested_speed::is_clock;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Whether such settings are possible here; returns what is to be minded.
///
/// # Errors
/// When they make no sense, or the method cannot be had here.
pub(crate) fn check(settings: &[Setting], support: &Support) -> Result<Vec<Warning>, SlowError> {
    Ok(request(settings)?.plan(support)?.warnings)
}

/// Whether a method, by its name, can slow a CPU of this machine.
///
/// # Errors
/// Why it cannot.
pub fn offered(method: &str, support: &Support) -> Result<(), SlowError> {
    let cpu = last(&support.allowed, 1);
    let setting =
        |knob: &str, value: &str| Setting { knob: knob.to_owned(), value: value.to_owned() };
    let wanted = [setting(&format!("{SPEED}{cpu}"), "50%"), setting(SpeedSettings::METHOD, method)];
    check(&wanted, support).map(|_| ())
}

/// Holds CPUs at the speeds of settings until what is returned is released or dropped; nothing where
/// there are none.
///
/// # Errors
/// When they make no sense, or the method cannot be had here.
pub(crate) fn hold(settings: &[Setting]) -> Result<Option<Slowed>, SlowError> {
    if settings.is_empty() {
        return Ok(None);
    }
    let support = Support::here();
    let session = Session::start(request(settings)?.plan(&support)?, &support, None)?;
    Slowed::keep(session).map(Some)
}

fn request(settings: &[Setting]) -> Result<Request, SlowError> {
    let SpeedSettings { speeds, method, measuring } =
        SpeedSettings::read(&settled(settings)?).map_err(SlowError::Usage)?;
    let method = method.map_or(Ok(Method::Hogs), |name| name.parse());
    let method = method.map_err(SlowError::Usage)?;
    let node =
        Node { name: "all".into(), speeds, bind: measuring, admits: true, ..Node::default() };
    Ok(Request {
        method: Some(method),
        nodes: vec![node],
        unmeasured: measuring,
        // A warning of the run, which then is repeated or told apart; a refusal would end the experiment.
        share: true,
        heavy: measuring,
        ..Request::default()
    })
}

/// The same with clocks in parts of full speed.
fn settled(settings: &[Setting]) -> Result<Vec<Setting>, SlowError> {
    let one = |setting: &Setting| {
        let Setting { knob, value } = setting;
        let Some(cpus) = knob.strip_prefix(SPEED).filter(|_| is_clock(value)) else {
            return Ok(setting.clone());
        };
        let usage = |why: String| SlowError::Usage(format!("{knob}: {why}"));
        let cpus: CpuSet =
            cpus.parse().map_err(|e: schedlab_model::CpuListError| usage(e.to_string()))?;
        let speed = speed_of(value, cpus.iter().next().unwrap_or_default()).map_err(usage)?;
        Ok(Setting { knob: knob.clone(), value: speed.to_string() })
    };
    settings.iter().map(one).collect()
}

/// A session that is kept up by a thread of its own while something else runs.
#[derive(Debug)]
pub(crate) struct Slowed {
    pub(crate) warnings: Vec<Warning>,
    groups: Vec<PathBuf>,
    admitted: Arc<AtomicI32>,
    cpus: Option<schedlab_model::CpuSet>,
    // Closing it ends the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<BackgroundSession>>,
}

impl Slowed {
    fn keep(mut session: Session) -> Result<Self, SlowError> {
        let io = |e| SlowError::io("keeping CPUs slow", e);
        let warnings = std::mem::take(&mut session.warnings);
        let groups = session.groups();
        let cpus = session.bound_to();
        let admitted = Arc::clone(&session.admitted);
        let (end, ended) = UnixStream::pair().map_err(io)?;
        let name = std::thread::Builder::new().name("schedlab-slow".into());
        let thread = name.spawn(move || session.keep_until(&ended)).map_err(io)?;
        Ok(Self { warnings, groups, admitted, cpus, end: Some(end), thread: Some(thread) })
    }

    /// Moves a process that has not begun its work to where it is slowed.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn admit(&self, process: u32) -> std::io::Result<()> {
        self.admitted.store(process.cast_signed(), Relaxed);
        for group in &self.groups {
            schedlab_sys::kernel_file::write(group.join("cgroup.procs"), process.to_string())?;
        }
        if let Some(cpus) = &self.cpus {
            schedlab_sys::sched::set_affinity(Pid(process.cast_signed()), cpus)?;
        }
        // The one that keeps it up sees the newcomer now and not at its next look.
        self.end.as_ref().map_or(Ok(()), |mut end| end.write_all(&[1]))
    }

    /// Ends the slowing and undoes every change to the machine. Returns what the keeping thread found.
    #[must_use]
    pub(crate) fn release(mut self) -> BackgroundSession {
        self.join()
    }

    fn join(&mut self) -> BackgroundSession {
        drop(self.end.take());
        let kept = self.thread.take().map(JoinHandle::join);
        match kept {
            None => BackgroundSession::default(),
            Some(Ok(kept)) => kept,
            Some(Err(_)) => BackgroundSession {
                failed: vec!["the controller died".into()],
                ..BackgroundSession::default()
            },
        }
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: &str = SpeedSettings::METHOD;
    const MEASURING: &str = SpeedSettings::MEASURING;

    fn setting(knob: &str, value: &str) -> Setting {
        Setting { knob: knob.into(), value: value.into() }
    }

    #[test]
    fn settings_become_a_request() {
        let wanted = request(&[setting("speed:0-1", "30%")]).unwrap();
        assert_eq!(wanted.nodes[0].speeds.len(), 2);
        assert!(!wanted.unmeasured && !wanted.nodes[0].bind);
        for (wrong, why) in [("130%", "full speed"), ("9999999MHz", "clock of CPU 0")] {
            let error = request(&[setting("speed:0", wrong)]).unwrap_err().to_string();
            assert!(error.contains(why) || error.contains("of CPU 0"), "{error}");
        }
    }

    #[test]
    fn a_method_can_be_named_and_is_checked_like_a_request() {
        let support = Support::fake(4);
        let of = |method: &str, cpus: &str| {
            let all = [setting(cpus, "50%"), setting(METHOD, method), setting(MEASURING, "true")];
            check(&all, &support)
        };
        assert!(of("quota", "speed:1").is_ok());
        assert!(of("quota", "speed:0-1").unwrap_err().to_string().contains("one thread"));
        assert!(of("warp", "speed:1").unwrap_err().to_string().contains("unknown method"));
        let odd = [setting("speed:1", "50%"), setting(MEASURING, "perhaps")];
        assert!(check(&odd, &support).unwrap_err().to_string().contains("true or false"));
        assert!(
            check(&[setting(METHOD, "hogs")], &support)
                .unwrap_err()
                .to_string()
                .contains("missing CPU")
        );
    }
}
