//! Several buffers of one trace that recorded the scheduler's events: one of them tells the story, or every switch
//! would happen twice.

use schedlab_model::Warning;

/// Says that the buffer `used` tells the story, and which others do not. The empty name is the top buffer's.
pub(crate) fn several<'a>(used: &str, others: impl Iterator<Item = &'a str>) -> Warning {
    let named = |name: &str| match name {
        "" => "the top buffer".to_owned(),
        name => format!("buffer '{name}'"),
    };
    let others: Vec<String> = others.map(named).collect();
    let what = format!(
        "scheduler events of {} are used; those of {} are only counted: the trace holds them in \
         several buffers",
        named(used),
        others.join(", ")
    );
    Warning::new("several-buffers", what, "")
}
