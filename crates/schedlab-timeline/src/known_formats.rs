//! What tracepoints beyond the scheduler's are to a question.

use schedlab_model::OtherFormat;

/// By the index that an event carries: what its tracepoint is, if it is anything. Sources learn tracepoints as they read, so
/// this grows with [`crate::State::others`].
#[derive(Clone, Debug)]
pub(crate) struct KnownFormats<T>(Vec<Option<T>>);

impl<T> Default for KnownFormats<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> KnownFormats<T> {
    /// What the tracepoint `format` is, after `of` was asked about those of `all` that are new.
    pub(crate) fn learn(
        &mut self,
        format: u16,
        all: &[OtherFormat],
        of: impl Fn(&OtherFormat) -> Option<T>,
    ) -> Option<T> {
        let learnt = self.0.len().min(all.len());
        self.0.extend(all[learnt..].iter().map(of));
        self.get(format)
    }

    /// The same of what was learnt before.
    pub(crate) fn get(&self, format: u16) -> Option<T> {
        self.0.get(usize::from(format)).copied().flatten()
    }
}
