//! Speeds as settings of a run, as experiments sweep them.

use crate::knobs::SPEED;
use crate::speed::{Assignment, Speeds, speeds};
use schedlab_model::Setting;

/// What the settings of a run say about speeds: `speed:CPUS` the speed of CPUs, [`METHOD`] how they are
/// slowed, [`MEASURING`] that the run measures the slowing itself.
///
/// [`METHOD`]: SpeedSettings::METHOD
/// [`MEASURING`]: SpeedSettings::MEASURING
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeedSettings {
    /// The speed of each CPU that has one.
    pub speeds: Speeds,
    /// How CPUs are slowed, in the words of the machine; `None` for its usual way.
    pub method: Option<String>,
    /// Whether the run measures the slowing itself.
    pub measuring: bool,
}

impl SpeedSettings {
    /// The setting that names how CPUs are slowed.
    pub const METHOD: &str = "speed:method";
    /// The setting of runs that measure the slowing itself, those at full speed included: `true` binds the
    /// load to the CPUs named, where it outweighs whatever else runs, and speeds are not measured before.
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
                Self::METHOD => read.method = Some(value.clone()),
                Self::MEASURING => {
                    let wrong = |_| format!("{knob} is true or false, not '{value}'");
                    read.measuring = value.parse().map_err(wrong)?;
                }
                _ => all.push(format!("{cpus}={value}").parse::<Assignment>()?),
            }
        }
        read.speeds = speeds(&all)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let error = SpeedSettings::read(&wrong).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
