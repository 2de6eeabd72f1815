//! Speeds as settings of a run, as experiments sweep them.

use crate::knobs::SPEED;
use crate::requested_speed::is_clock;
use crate::speed::{Assignment, Speed, Speeds, speeds};
use schedlab_model::{Cpu, Nanos, NanosError, Setting};

/// What the settings of a run say about speeds: `speed:CPUS` the speed of CPUs, [`METHOD`] how they are
/// slowed, [`MEASURING`] that the run measures the slowing itself.
///
/// [`METHOD`]: SpeedSettings::METHOD
/// [`MEASURING`]: SpeedSettings::MEASURING
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeedSettings {
    pub speeds: Speeds,
    /// How CPUs are slowed, in the words of the machine; `None` for its usual way.
    pub method: Option<String>,
    /// Whether the run measures the slowing itself.
    pub measuring: bool,
}

/// A change of a CPU's speed while a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedChange {
    /// Since the load began.
    pub after: Nanos,
    pub cpu: Cpu,
    pub speed: Speed,
}

impl SpeedSettings {
    /// The setting that names how CPUs are slowed.
    pub const METHOD: &str = "speed:method";
    /// The setting of runs that measure the slowing itself, those at full speed included: `true` binds the
    /// load to the CPUs named, where it outweighs everything else that runs, and speeds are not measured before.
    pub const MEASURING: &str = "speed:measuring";

    /// Parts the settings of a run into those that are about speeds, and the others.
    #[must_use]
    pub fn part(settings: &[Setting]) -> (Vec<Setting>, Vec<Setting>) {
        settings.iter().cloned().partition(|setting| setting.knob.starts_with(SPEED))
    }

    /// Reads the settings that are about speeds; others are ignored.
    ///
    /// # Errors
    /// What is wrong with the first one that makes no sense.
    pub fn read(settings: &[Setting]) -> Result<Self, String> {
        let mut read = Self::default();
        let mut all = Vec::new();
        for Setting { knob, value } in settings {
            let Some(cpus) = knob.strip_prefix(SPEED) else { continue };
            match knob.as_str() {
                _ if is_clock(value) => {
                    return Err(format!(
                        "invalid speed {value}: only a real machine has a clock; use a part of \
                         full speed, as in 30%"
                    ));
                }
                Self::METHOD => read.method = Some(value.clone()),
                Self::MEASURING => {
                    let wrong = |_| format!("invalid {knob} '{value}': use true or false");
                    read.measuring = value.parse().map_err(wrong)?;
                }
                _ if value.contains('@') => {
                    return Err(format!(
                        "{knob}={value} changes the speed while the load runs: this machine keeps one speed for a run"
                    ));
                }
                _ => all.push(format!("{cpus}={value}").parse::<Assignment>()?),
            }
        }
        read.speeds = speeds(&all)?;
        Ok(read)
    }

    /// Reads the settings of a machine whose CPUs can change their speed: `100% 30%@2s 60%@5s` is full speed, then 30 %
    /// from 2 s after the load began. The first speed may be left out: full speed. Changes are in the order of time.
    ///
    /// # Errors
    /// What is wrong with the first one that makes no sense.
    pub fn read_over_time(settings: &[Setting]) -> Result<(Self, Vec<SpeedChange>), String> {
        let mut first = Vec::new();
        let mut changes = Vec::new();
        for Setting { knob, value } in settings {
            let changes_later = value.contains('@') && !is_clock(value);
            let Some(cpus) = knob.strip_prefix(SPEED).filter(|_| changes_later) else {
                first.push(Setting { knob: knob.clone(), value: value.clone() });
                continue;
            };
            let mut last = None;
            for (at, word) in value.split_whitespace().enumerate() {
                let Some((speed, after)) = word.split_once('@') else {
                    if at > 0 {
                        return Err(format!(
                            "'{word}' in {knob} has no time: write it as in 30%@2s"
                        ));
                    }
                    first.push(Setting { knob: knob.clone(), value: word.to_owned() });
                    continue;
                };
                let after: Nanos = after.parse().map_err(|e: NanosError| e.to_string())?;
                if last.replace(after).is_some_and(|last| last >= after) {
                    return Err(format!(
                        "invalid time '{word}' in {knob}: use a later time than the one before it"
                    ));
                }
                let Assignment { cpus, speed } = format!("{cpus}={speed}").parse()?;
                changes.extend(cpus.iter().map(|cpu| SpeedChange { after, cpu, speed }));
            }
        }
        changes.sort_by_key(|change| (change.after, change.cpu));
        Ok((Self::read(&first)?, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_may_change_while_a_load_runs() {
        let setting = |cpus: &str, value: &str| Setting {
            knob: format!("speed:{cpus}"),
            value: value.to_owned(),
        };
        let all =
            [setting("0-1", "50% 30%@2s 100%@5s"), setting("3", "20%@1s"), setting("4", "10%")];
        let (first, changes) = SpeedSettings::read_over_time(&all).unwrap();
        let millionths = |cpu| first.speeds.get(&Cpu(cpu)).map(|speed| speed.millionths());
        assert_eq!([0, 3, 4].map(millionths), [Some(500_000), None, Some(100_000)]);
        let told: Vec<(u64, u16, u32)> = changes
            .iter()
            .map(|change| (change.after.0 / 1_000_000_000, change.cpu.0, change.speed.millionths()))
            .collect();
        let expected = [
            (1, 3, 200_000),
            (2, 0, 300_000),
            (2, 1, 300_000),
            (5, 0, 1_000_000),
            (5, 1, 1_000_000),
        ];
        assert_eq!(told, expected);
        for (value, why) in [
            ("50%@2s 30%@1s", "use a later time"),
            ("50%@2s 30%", "no time"),
            ("0%@2s", "more than 0"),
            ("50%@soon", "soon"),
        ] {
            let error = SpeedSettings::read_over_time(&[setting("0", value)]).unwrap_err();
            assert!(error.contains(why), "{value}: {error}");
        }
        // Where speeds cannot change, it is refused.
        let error = SpeedSettings::read(&all).unwrap_err();
        assert!(error.contains("keeps one speed"), "{error}");
    }

    #[test]
    fn speeds_are_told_from_knobs_and_read() {
        let setting = |knob: &str, value: &str| Setting { knob: knob.into(), value: value.into() };
        let all = [setting("speed:0-1", "30%"), setting("base_slice", "1ms")];
        let (mine, others) = SpeedSettings::part(&all);
        assert_eq!(others, [setting("base_slice", "1ms")]);
        let read = SpeedSettings::read(&all).unwrap();
        assert_eq!((read.speeds.len(), read.method, read.measuring), (2, None, false));
        assert_eq!(SpeedSettings::read(&mine).unwrap().speeds, read.speeds);
        for (wrong, why) in [
            ([setting("speed:0", "130%"), setting("speed:1", "1")], "full speed"),
            ([setting("speed:0", "1"), setting("speed:0-1", "1")], "CPU 0"),
            ([setting("speed:x", "1"), setting("speed:1", "1")], "x"),
            ([setting("speed:0", "1"), setting("speed:measuring", "perhaps")], "true or false"),
            ([setting("speed:0", "800MHz"), setting("speed:1", "1")], "a real machine"),
            ([setting("speed:0", "like:a.toml"), setting("speed:1", "1")], "no longer read"),
        ] {
            let error = SpeedSettings::read(&wrong).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
