//! One episode of lost CPU time in a few lines.

use super::input;
use schedlab_model::CpuSet;
use schedlab_timeline::{ConservationAnswer, Episode, InReply};
use std::fmt::Write as _;

/// A few lines for people.
pub(super) fn to_text(episode: &InReply<'_, Episode, ConservationAnswer>) -> String {
    let state = &episode.reply.state;
    let origin = episode.reply.origin;
    let count = episode.tasks.len() + episode.more_tasks as usize;
    let (is, s) = if episode.idle.len() == 1 { ("was", "") } else { ("were", "s") };
    let mut text = format!(
        "{} of CPU time lost in {} at {}: {count} task{} waited {} on CPU {} while CPU{s} {} {is} free\n    ",
        episode.cost.readable(),
        (episode.end - episode.start).readable(),
        input::at(origin, episode.start),
        if count == 1 { "" } else { "s" },
        episode.waited.readable(),
        episode.overloaded,
        few(&episode.idle),
    );
    const NAMED: usize = 4;
    for (place, share) in episode.tasks.iter().take(NAMED).enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let task = input::Named::of(share.task, state);
        let _ = write!(text, "{comma}{task} waited {}", share.waited.readable());
    }
    if count > NAMED {
        let _ = write!(text, " and {} more", count - NAMED);
    }
    let because = &episode.because;
    let _ = write!(text, "\n    seen: {}\n", because.sentence(episode.overloaded, state));
    let _ = writeln!(text, "    inferred: {}", because.inferred());
    let place = because.instead.map(|cpu| format!("should have run on CPU {cpu}; "));
    let place = place.unwrap_or_default();
    let _ = writeln!(text, "    {place}ended when {}", episode.ended_when());
    text
}

/// A list of CPUs that stays readable where there are a thousand.
fn few(cpus: &CpuSet) -> String {
    const RANGES: usize = 8;
    let text = cpus.to_string();
    match text.match_indices(',').nth(RANGES - 1) {
        Some((end, _)) => format!("{} ... ({} in all)", &text[..end], cpus.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_a_thousand_cpus_is_told_by_its_first_and_their_number() {
        let cpus: CpuSet = "0-3,8,10,12,14,16,18,20".parse().expect("a list");
        assert_eq!(few(&cpus), "0-3,8,10,12,14,16,18,20");
        let cpus: CpuSet = "0-3,8,10,12,14,16,18,20,22,24-99".parse().expect("a list");
        assert_eq!(few(&cpus), "0-3,8,10,12,14,16,18,20 ... (88 in all)");
    }
}
