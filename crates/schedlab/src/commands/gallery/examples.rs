//! The experiment files that travel in the program.

use anyhow::Context as _;
use schedlab_experiment::Experiment;
use std::path::Path;

pub(super) struct Example {
    /// Its name, which is that of its file.
    pub(super) name: &'static str,
    /// Its experiment file.
    pub(super) text: &'static str,
}

/// Names an example and takes its file in.
macro_rules! example {
    ($name:literal) => {
        Example {
            name: $name,
            text: include_str!(concat!("../../../files/gallery/", $name, ".toml")),
        }
    };
}

/// All examples, source by source.
pub(super) const EXAMPLES: &[Example] = &[
    example!("jobs-peak"),
    example!("jobs-short"),
    example!("jobs-trace"),
    example!("jobs-burst"),
    example!("jobs-break"),
    example!("jobs-stationary"),
    example!("jobs-host"),
    example!("jobs-executors"),
    example!("jobs-executors-host"),
    example!("schbench-calibrate"),
    example!("schbench-load"),
    example!("schbench-pipe"),
    example!("schbench-preemption"),
    example!("schbench-wakeups"),
    example!("schbench-options"),
    example!("barrier"),
    example!("app"),
    example!("ua"),
    example!("emulation"),
    example!("emulation-plots"),
    example!("emulation-model"),
    example!("two-knobs"),
    example!("tuned-pair"),
    example!("tuned-lines"),
    example!("switch-kinds"),
    example!("base-slice"),
    example!("slice"),
];

impl Example {
    /// The file as an experiment.
    pub(super) fn experiment(&self) -> anyhow::Result<Experiment> {
        let path = format!("examples/gallery/{}.toml", self.name);
        Experiment::parse(self.text, Path::new(&path)).context("the gallery's own file")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_an_example_with_claims_and_a_short_version() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gallery");
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let mut files: Vec<String> = files
            .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
            .collect();
        files.sort();
        let mut names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
        for example in EXAMPLES {
            let experiment = example.experiment().unwrap();
            assert_eq!(experiment.name, example.name, "the file names it");
            assert!(!experiment.claims.is_empty(), "{}", example.name);
            assert!(experiment.short.is_some(), "{}", example.name);
            assert!(!experiment.question.is_empty(), "{}", example.name);
        }
    }

    #[test]
    fn each_example_has_a_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gallery");
        let pages: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .filter(|file| file.path().extension().is_some_and(|end| end == "md"))
            .map(|file| std::fs::read_to_string(file.path()).unwrap())
            .collect();
        for example in EXAMPLES {
            let command = format!("schedlab gallery run {}", example.name);
            let has = |page: &&String| page.lines().any(|line| line.trim().starts_with(&command));
            assert_eq!(pages.iter().filter(has).count(), 1, "{command} stands on one page");
        }
    }
}
