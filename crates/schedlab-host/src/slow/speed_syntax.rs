//! Speeds as users write them: `30%`, `1200MHz`, `like:pi4.toml`, `800MHz@pi4.toml`.

use super::{Likeness, Profile, SlowError, Speed, mhz};
use schedlab_model::Cpu;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// A speed as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A part of full speed.
    Part(Speed),
    /// A clock in MHz of this machine, or of the machine of a profile.
    Clock(f64, Option<PathBuf>),
    /// That of the machine of a profile.
    Like(PathBuf),
}

/// A speed in parts of full speed, and what was compared to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The speed as a part of full speed.
    pub speed: Speed,
    /// Sentences for the user; none where nothing was compared.
    pub said: Vec<String>,
}

/// Gives the text of a profile, or the error of reading it.
pub type ReadProfile<'r> = &'r dyn Fn(&Path) -> std::io::Result<String>;

impl FromStr for Asked {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("like:") {
            return match path {
                "" => Err("like: needs a profile: `schedlab slow machine NAME` writes one".into()),
                path => Ok(Self::Like(path.into())),
            };
        }
        let (clock, of) = match text.split_once('@') {
            Some((clock, path)) => (clock, Some(PathBuf::from(path))),
            None => (text, None),
        };
        let scaled = |unit: &str, scale: f64| {
            let number = clock.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?;
            (number.is_finite() && number > 0.0).then_some(number * scale)
        };
        match scaled("MHz", 1.0).or_else(|| scaled("GHz", 1e3)) {
            Some(clock) => Ok(Self::Clock(clock, of)),
            None if of.is_some() => {
                Err(format!("invalid clock of a machine '{text}': use the form 800MHz@pi4.toml"))
            }
            None => Ok(Self::Part(text.parse()?)),
        }
    }
}

impl Asked {
    /// The part of the full speed of a CPU that it is. Measures this machine where that is needed.
    ///
    /// # Errors
    /// [`SlowError::Usage`] for a profile that cannot be read or compared, for a clock that is not known, and for more
    /// than full speed.
    pub fn settle(&self, cpu: Cpu, read: ReadProfile<'_>) -> Result<Settled, SlowError> {
        let (part, what, mut said) = match self {
            Self::Part(speed) => return Ok(Settled { speed: *speed, said: Vec::new() }),
            Self::Clock(clock, None) => {
                let Some(full) = mhz(Path::new("/sys"), Path::new("/proc/cpuinfo"), cpu) else {
                    return Err(SlowError::Usage(format!(
                        "cannot read the clock of CPU {cpu}: use a part of full speed, as in 50%"
                    )));
                };
                let what = format!("{clock} MHz of the {full:.0} MHz of CPU {cpu}");
                (clock / full, what, Vec::new())
            }
            Self::Clock(clock, Some(path)) => {
                let (profile, likeness, said) = like(path, cpu, read)?;
                let Some(full) = profile.mhz else {
                    return Err(wrong(path, "missing clock (mhz)"));
                };
                let what = format!("{clock} MHz of the {full:.0} MHz of {}", profile.machine);
                (clock / full * likeness.speed, what, vec![said])
            }
            Self::Like(path) => {
                let (profile, likeness, said) = like(path, cpu, read)?;
                (likeness.speed, profile.machine, vec![said])
            }
        };
        let percent = part * 100.0;
        let millionths = (part * 1e6).round();
        let speed =
            (millionths <= 1e6).then(|| Speed::from_millionths(millionths as u32)).flatten();
        let Some(speed) = speed else {
            return Err(SlowError::Usage(format!(
                "{what} is {percent:.1} % of full speed here: use at most 100 %"
            )));
        };
        said.push(format!("{what} is {percent:.1} % of full speed here"));
        Ok(Settled { speed, said })
    }
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> SlowError {
    SlowError::Usage(format!("{}: {why}", path.display()))
}

/// A profile, what its machine is to this one, and that in a sentence.
fn like(
    path: &Path,
    cpu: Cpu,
    read: ReadProfile<'_>,
) -> Result<(Profile, Likeness, String), SlowError> {
    let text = read(path).map_err(|error| {
        wrong(
            path,
            format!("{error}; `schedlab slow machine NAME > FILE` on that machine writes it"),
        )
    })?;
    let profile: Profile = toml::from_str(&text).map_err(|error| wrong(path, error))?;
    profile.check().map_err(|why| wrong(path, why))?;
    let likeness = profile.beside(&here(cpu)?).map_err(|why| wrong(path, why))?;
    let percent = |part: f64| part * 100.0;
    let said = format!(
        "{} does {:.1} % of the work of CPU {cpu}: integers {:.1} %, branches {:.1} %, memory {:.1} %",
        profile.machine,
        percent(likeness.speed),
        percent(likeness.ratios.integer),
        percent(likeness.ratios.branches),
        percent(likeness.ratios.memory),
    );
    Ok((profile, likeness, said))
}

/// This machine. It is measured once for each CPU, so all runs of an experiment have the same speed.
fn here(cpu: Cpu) -> Result<Profile, SlowError> {
    static HERE: Mutex<BTreeMap<Cpu, Profile>> = Mutex::new(BTreeMap::new());
    let mut known = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(profile) = known.get(&cpu) {
        return Ok(profile.clone());
    }
    let profile = Profile::measure("here", cpu)?;
    known.insert(cpu, profile.clone());
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_by_their_form() {
        let read = |text: &str| text.parse::<Asked>();
        assert_eq!(read("30%").unwrap(), Asked::Part("30%".parse().unwrap()));
        assert_eq!(read("1200MHz").unwrap(), Asked::Clock(1_200.0, None));
        assert_eq!(read("1.2 GHz").unwrap(), Asked::Clock(1_200.0, None));
        let of = Some(PathBuf::from("pi.toml"));
        assert_eq!(read("800MHz@pi.toml").unwrap(), Asked::Clock(800.0, of));
        assert_eq!(read("like:pi.toml").unwrap(), Asked::Like("pi.toml".into()));
        for (text, why) in [
            ("like:", "needs a profile"),
            ("30%@pi.toml", "use the form 800MHz@pi4.toml"),
            ("0MHz", "invalid speed"),
            ("30", "did you mean 30%"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_machine_of_half_the_work_is_half_as_fast_here_each_time() {
        let cpu = schedlab_sys::sched::affinity(schedlab_model::Pid(0)).unwrap().iter().next();
        let cpu = cpu.unwrap();
        let mut half = here(cpu).unwrap();
        for rate in [&mut half.work.integer, &mut half.work.branches, &mut half.work.memory] {
            *rate /= 2.0;
        }
        half.mhz = Some(2_000.0);
        let read = |_: &Path| Ok(toml::to_string(&half).unwrap());
        let settled = |text: &str| text.parse::<Asked>().unwrap().settle(cpu, &read);
        assert_eq!(settled("like:old.toml").unwrap().speed, Speed::percent(50).unwrap());
        assert_eq!(settled("500MHz@old.toml").unwrap().speed.to_string(), "12.5%");
        assert!(settled("9GHz@old.toml").unwrap_err().to_string().contains("use at most 100 %"));
        let missing = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
        let error = Asked::Like("old.toml".into()).settle(cpu, &missing).unwrap_err().to_string();
        assert!(error.contains("old.toml") && error.contains("slow machine NAME"), "{error}");
    }
}
