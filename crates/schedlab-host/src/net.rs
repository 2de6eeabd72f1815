//! Network namespaces with a link of chosen rate, delay and loss: the far end of a network on one
//! machine. Loads send through it so that the network and not the CPU is the bound, and virtual nodes
//! live behind one.
//!
//! A namespace is joined to ours by a veth pair whose two ends shape what they send: `tbf` for a rate
//! alone, `netem` where there is delay or loss. It is made by `ip` and `tc` of iproute2, which every
//! distribution has; each step is noted in the guard before it is made, so that nothing is left behind
//! even if a process dies.

use schedlab_model::Nanos;
use schedlab_sys::guard::{Guard, Undo};
use schedlab_workload::Link;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetError {
    #[error("missing program '{0}': install iproute2")]
    NoTool(&'static str),
    #[error("making a network namespace needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN): {0}")]
    NoRight(String),
    /// The kernel lacks the queueing discipline.
    #[error("this kernel lacks {0} (CONFIG_NET_SCH_{1}): {2}")]
    NoShaper(&'static str, &'static str, String),
    /// A step failed otherwise.
    #[error("{doing}: {why}")]
    Failed {
        /// The command that failed.
        doing: String,
        /// The text that the command printed.
        why: String,
    },
}

/// A namespace behind a link. It is undone by the guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name, as `ip netns` tells it.
    pub(crate) name: String,
    /// The address of this end of the link.
    pub here: Ipv4Addr,
    /// The address of the far end of the link.
    pub there: Ipv4Addr,
}

impl Namespace {
    /// Makes a namespace with a link of its own. Its addresses lie in 198.18.0.0/15, which is kept for
    /// benchmarks (RFC 2544).
    ///
    /// # Errors
    /// When a program or right is missing, or the kernel cannot shape so. What was made is undone when
    /// the guard finishes.
    pub(crate) fn make(link: &Link, guard: &mut Guard) -> Result<Self, NetError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let count = COUNT.fetch_add(1, Relaxed);
        // Names of devices have at most 15 bytes.
        let name = format!("sl{process:x}-{count}");
        let near = format!("{name}a");
        let far = format!("{name}b");
        let subnet = (process.wrapping_mul(61).wrapping_add(count) & 0x3fff) << 2;
        let address = |host: u32| Ipv4Addr::from(0xc612_0000 | subnet | host);
        let made = Self { name, here: address(1), there: address(2) };
        let note = |guard: &mut Guard, undo: Undo| {
            guard.before(undo).map(|_| ()).map_err(|error| NetError::Failed {
                doing: "noting how to undo it".to_owned(),
                why: error.to_string(),
            })
        };
        note(guard, Undo::RemoveNamespace { name: made.name.clone() })?;
        run("ip", &format!("netns add {}", made.name))?;
        note(guard, Undo::RemoveDevice { name: near.clone() })?;
        let inside = format!("-n {}", made.name);
        for step in [
            format!("link add {near} type veth peer name {far} netns {}", made.name),
            format!("addr add {}/30 dev {near}", made.here),
            format!("link set {near} up"),
            format!("{inside} addr add {}/30 dev {far}", made.there),
            format!("{inside} link set lo up"),
            format!("{inside} link set {far} up"),
        ] {
            run("ip", &step)?;
        }
        if let Some(shape) = shape(link) {
            run("tc", &format!("qdisc add dev {near} root {shape}"))?;
            run("tc", &format!("{inside} qdisc add dev {far} root {shape}"))?;
        }
        Ok(made)
    }

    /// Lets it reach other namespaces that were made here, through this machine. Only packets that come
    /// out of its own link are passed on, so nothing of the machine's own network changes.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn join_others(&self) -> Result<(), NetError> {
        run("ip", &format!("-n {} route add 198.18.0.0/15 via {}", self.name, self.here))?;
        let path = format!("/proc/sys/net/ipv4/conf/{}a/forwarding", self.name);
        schedlab_sys::kernel_file::write(&path, "1").map_err(|error| NetError::Failed {
            doing: format!("writing 1 to {path}"),
            why: error.to_string(),
        })
    }

    /// The file by which it is entered: see [`schedlab_sys::netns::inside`].
    #[must_use]
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }
}

/// Whether this machine can make such a link: made in a namespace that nobody sees and that is gone then.
///
/// # Errors
/// The program, or the part of the kernel, that is missing.
pub(crate) fn try_link(link: &Link) -> Result<(), NetError> {
    let tried = schedlab_sys::netns::apart(|| {
        let made = run("ip", "link add try-a type veth peer name try-b");
        Ok(made.and_then(|()| match shape(link) {
            Some(shape) => run("tc", &format!("qdisc add dev try-a root {shape}")),
            None => Ok(()),
        }))
    });
    // Without the right to try, making it says so.
    tried.unwrap_or(Ok(()))
}

/// The queueing discipline of a link, as `tc` takes it.
fn shape(link: &Link) -> Option<String> {
    if link.delay == Nanos::ZERO && link.loss_millionths == 0 {
        let rate = link.rate_bit_s?;
        // A bucket of 5 ms, but no less than ten frames.
        let burst = (rate / 8 / 200).max(1 << 14);
        let queue = match link.queue_bytes {
            0 => "latency 50ms".to_owned(),
            bytes => format!("limit {}", bytes.max(burst)),
        };
        return Some(format!("tbf rate {rate}bit burst {burst} {queue}"));
    }
    Some(netem(link))
}

/// A link with a delay or a loss.
pub(crate) fn netem(link: &Link) -> String {
    let mut text = String::from("netem limit 10000");
    if link.delay > Nanos::ZERO {
        let _ = write!(text, " delay {}us", link.delay.0.div_ceil(1_000));
    }
    if link.loss_millionths > 0 {
        let _ = write!(text, " loss {}%", f64::from(link.loss_millionths) / 10_000.0);
    }
    if let Some(rate) = link.rate_bit_s {
        let _ = write!(text, " rate {rate}bit");
    }
    text
}

/// Runs `ip` or `tc` of iproute2.
pub(crate) fn run(program: &'static str, arguments: &str) -> Result<(), NetError> {
    let doing = format!("{program} {arguments}");
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => NetError::NoTool(program),
            _ => NetError::Failed { doing: doing.clone(), why: error.to_string() },
        })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    Err(if has(&["Operation not permitted", "Permission denied"]) {
        NetError::NoRight(why)
    } else if has(&["qdisc kind is unknown", "No such file or directory"]) && program == "tc" {
        match arguments.contains("netem") {
            true => NetError::NoShaper("netem", "NETEM", why),
            false => NetError::NoShaper("tbf", "TBF", why),
        }
    } else {
        NetError::Failed { doing, why }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_shaped_by_the_discipline_that_can() {
        let rate = Link { rate_bit_s: Some(10_000_000), ..Link::default() };
        assert_eq!(shape(&rate).unwrap(), "tbf rate 10000000bit burst 16384 latency 50ms");
        let gigabit = Link { rate_bit_s: Some(1_000_000_000), ..Link::default() };
        assert!(shape(&gigabit).unwrap().contains("burst 625000"));
        let far = Link { delay: Nanos::from_millis(5), loss_millionths: 10_000, ..rate };
        assert_eq!(shape(&far).unwrap(), "netem limit 10000 delay 5000us loss 1% rate 10000000bit");
        let waiting = Link { queue_bytes: 1 << 20, ..rate };
        assert!(shape(&waiting).unwrap().ends_with("limit 1048576"));
        assert_eq!(shape(&Link::default()), None);
    }
}
