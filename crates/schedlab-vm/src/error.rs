//! Why a virtual machine did not do what it was asked.

use schedlab_workload::MachineError;
use std::io;

/// An error of a virtual machine.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A setting of the machine is wrong.
    #[error("vm:{key}={value}: {why}")]
    Setting {
        /// The key of the setting.
        key: String,
        /// The value of the setting.
        value: String,
        /// What is wrong, and what is right.
        why: String,
    },
    /// A program or file that it needs is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The program or file that is missing.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// The operating system refused.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A folder of the cache is not to be trusted.
    #[error("cannot use the cache {path}: {why}")]
    Cache {
        /// The folder.
        path: String,
        /// Why not, and what to do.
        why: String,
    },
    /// Another process uses what this one needs.
    #[error("{0}")]
    Busy(String),
    /// The guest died, hung or said nonsense.
    #[error("{what}{}", tail(console))]
    Guest {
        /// What happened to the guest.
        what: String,
        /// The last lines of its console.
        console: Vec<String>,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

fn tail(console: &[String]) -> String {
    if console.is_empty() {
        return "; its console is empty".to_owned();
    }
    format!("; the last lines of its console:\n  {}", console.join("\n  "))
}

impl VmError {
    /// Whether it says something of the kernel: it does not build, does not boot, or ends a load. Other errors
    /// are of the machine, and another kernel would not help.
    #[must_use]
    pub fn is_of_the_kernel(&self) -> bool {
        match self {
            Self::Setting { .. } | Self::Guest { .. } => true,
            Self::Io { error, .. } => error.kind() != io::ErrorKind::StorageFull,
            Self::Missing { .. } | Self::Cache { .. } | Self::Busy(_) | Self::Interrupted => false,
        }
    }

    /// Adds to an I/O error what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }
}

impl From<VmError> for MachineError {
    fn from(error: VmError) -> Self {
        match error {
            VmError::Io { doing, error } => Self::Io { doing, error },
            other @ (VmError::Guest { .. } | VmError::Interrupted) => Self::Load(other.to_string()),
            other => {
                let machine = "vm".to_owned();
                let what = "start".to_owned();
                Self::NotOffered { machine, what, why: other.to_string() }
            }
        }
    }
}
