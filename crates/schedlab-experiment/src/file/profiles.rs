//! Files of machines that the speeds of an experiment name: `like:pi4.toml`, `800MHz@pi4.toml`. Their text goes into the
//! settings of runs. So a run is another one if the file says something else, and needs no file later.

use super::locations::Part;
use super::{Experiment, Mistake, Varies};
use schedlab_model::Setting;
use schedlab_workload::SpeedSettings;
use schedlab_workload::knobs::SPEED;
use schedlab_workload::requested_speed::profile;
use std::path::Path;

/// Reads the profiles, which lie beside the experiment's file.
pub(super) fn add(experiment: &mut Experiment, folder: &Path) -> Result<(), Mistake> {
    let on_axes = experiment.axes.iter().flat_map(|axis| match &axis.varies {
        Varies::Speed(cpus) => axis.values.iter().map(|v| (format!("{SPEED}{cpus}"), v)).collect(),
        _ => Vec::new(),
    });
    let always = experiment.settings.iter().map(|s| (s.knob.clone(), &s.value));
    let mut read: Vec<Setting> = Vec::new();
    for (knob, value) in always.chain(on_axes).filter(|(knob, _)| knob.starts_with(SPEED)) {
        let Some(file) = profile(value) else { continue };
        let name = format!("{}{file}", SpeedSettings::PROFILE);
        if read.iter().any(|setting| setting.knob == name) {
            continue;
        }
        let text = schedlab_sys::regular_file::text(&folder.join(file)).map_err(|error| {
            let what = format!(
                "{file}: {error}; `schedlab slow machine NAME > FILE` on that machine writes it"
            );
            experiment.places.mistake(&Part::Setting(knob), value, what)
        })?;
        read.push(Setting { knob: name, value: text });
    }
    experiment.settings.extend(read);
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test writes where nobody else does")]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_profile_is_a_part_of_each_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        let text = "repeats = 1\n[workload]\nname = \"hackbench\"\n[[axis]]\nspeed = \"0-1\"\n\
                    values = [\"like:old.toml\", \"800MHz@old.toml\", \"30%\"]\n";
        std::fs::write(&path, text).unwrap();
        let error = Experiment::read(&path).unwrap_err().to_string();
        assert!(error.contains("old.toml") && error.contains("slow machine NAME"), "{error}");
        assert!(error.contains("line 6"), "the line of the values: {error}");
        std::fs::write(dir.path().join("old.toml"), "machine = \"old\"").unwrap();
        let read = Experiment::read(&path).unwrap();
        let profile =
            Setting { knob: "speed:profile:old.toml".into(), value: "machine = \"old\"".into() };
        assert_eq!(read.settings, [profile]);
    }
}
