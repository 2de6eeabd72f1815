//! One setting of a machine: taken out of a name, and what is wrong with it.

use schedlab_workload::MachineName;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) field: String,
    /// Why, in a sentence that may begin with the kind of machine.
    pub(super) why: String,
}

/// How sentences about settings of a name begin.
pub(super) const OF_NAME: &str = "machine 'sim': ";

impl Wrong {
    pub(super) fn new(field: &str, why: String) -> Self {
        Self { field: field.to_owned(), why }
    }

    /// Why, for a reader who knows which machine it is about.
    pub(super) fn plain(&self) -> &str {
        self.why.strip_prefix(OF_NAME).unwrap_or(&self.why)
    }
}

pub(super) fn take<T: FromStr>(name: &mut MachineName, key: &str) -> Result<Option<T>, Wrong>
where
    T::Err: std::fmt::Display,
{
    name.take(key).map_err(|why| Wrong::new(key, why))
}
