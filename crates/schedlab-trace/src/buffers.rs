//! Several buffers of one trace that recorded the same events of the scheduler: of each event one buffer's are used, or
//! every switch would happen twice.

use schedlab_model::Warning;

/// Says that events of the buffers `used` are used, and that `others` hold the same. The empty name is the top buffer's.
pub(crate) fn several<'a>(
    used: impl Iterator<Item = &'a str>,
    others: impl Iterator<Item = &'a str>,
) -> Warning {
    let named = |name: &str| match name {
        "" => "the top buffer".to_owned(),
        name => format!("buffer '{name}'"),
    };
    let what = format!(
        "scheduler events of {} are used; the same ones of {} are only counted: the trace holds them in \
         several buffers",
        used.map(named).collect::<Vec<_>>().join(", "),
        others.map(named).collect::<Vec<_>>().join(", ")
    );
    Warning::new("several-buffers", what, "")
}
