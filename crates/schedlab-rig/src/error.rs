//! Why the rig could not do what it was asked, with what it was doing.

use std::error::Error;

/// Why the rig could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// What an executor, a file or a machine is not as it should be.
    #[error("{0}")]
    Wrong(String),
    /// What the rig was doing when something else failed.
    #[error("{doing}")]
    While {
        /// What it was doing, or where.
        doing: String,
        /// The error that caused the failure.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The kernel's events could not be stored.
    #[error(transparent)]
    Record(#[from] schedlab_record::RecordError),
    /// What was recorded could not be read.
    #[error(transparent)]
    Trace(#[from] schedlab_trace::TraceError),
}

impl RigError {
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong(what.into())
    }

    /// The error and its causes, in one sentence.
    pub fn sentence(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

/// Says what was being done when something failed, or was not there.
pub(crate) trait While<T> {
    fn while_doing(self, doing: impl Into<String>) -> Result<T, RigError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> While<T> for Result<T, E> {
    fn while_doing(self, doing: impl Into<String>) -> Result<T, RigError> {
        self.map_err(|error| RigError::While { doing: doing.into(), source: error.into() })
    }
}

impl<T> While<T> for Option<T> {
    fn while_doing(self, doing: impl Into<String>) -> Result<T, RigError> {
        self.ok_or_else(|| RigError::Wrong(doing.into()))
    }
}
