//! How a rule is typed: `0.4/2` (chance 0.4 of 1 to 2), `0.6/5/2` (2 to 5), `=1` (always 1), each with
//! `~55` (shuffled from 55 on) and `@start`, `@link` or `@join` (only there).

use schedlab_jobs::graph::{Rule, When};

/// Reads a rule.
pub(super) fn parse(text: &str) -> Result<Rule, String> {
    let (rest, place) =
        text.split_once('@').map_or((text, None), |(rest, place)| (rest, Some(place)));
    let (rest, shuffle) = rest.split_once('~').map_or((rest, None), |(rest, s)| (rest, Some(s)));
    let number = |part: &str| {
        part.parse::<u32>().map_err(|_| format!("invalid number '{part}': use a whole number"))
    };
    let mut rule = match rest.strip_prefix('=') {
        Some(fixed) => Rule::fixed(number(fixed)?),
        None => {
            let mut parts = rest.split('/');
            let chance = parts.next().unwrap_or_default();
            let chance: f64 = chance
                .parse()
                .map_err(|_| format!("invalid probability '{chance}': use 0 to 1"))?;
            if !(0.0..=1.0).contains(&chance) {
                return Err(format!("invalid probability {chance}: use 0 to 1"));
            }
            let mut rule = Rule::chance(chance);
            rule.max = parts.next().map(number).transpose()?;
            rule.min = parts.next().map(number).transpose()?.unwrap_or(0);
            if let Some(more) = parts.next() {
                return Err(format!("`/{more}` is too much: CHANCE/MAX/MIN"));
            }
            rule
        }
    };
    if let Some(shuffle) = shuffle {
        rule.shuffle = Some(
            shuffle
                .parse()
                .map_err(|_| format!("invalid counter '{shuffle}': use a whole number"))?,
        );
    }
    rule.when = match place {
        None => When::Always,
        Some("start") => When::AtStart,
        Some("link") => When::AtLink,
        Some("join") => When::AtJoin,
        Some(other) => return Err(format!("unknown place '@{other}': use @start, @link or @join")),
    };
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_documented() {
        assert_eq!(parse("0.4/2"), Ok(Rule::chance(0.4).max(2)));
        assert_eq!(parse("0.6/5/2~7"), Ok(Rule::chance(0.6).max(5).min(2).shuffle(7)));
        assert_eq!(parse("=1@join"), Ok(Rule::fixed(1).when(When::AtJoin)));
        for wrong in ["2", "x", "0.5/a", "0.5/1/2/3", "0.5@end", "=", "0.5~x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
