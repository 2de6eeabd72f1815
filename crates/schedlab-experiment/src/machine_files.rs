//! The files that the name of a simulated machine names. Their texts are part of a run's identity.

use schedlab_model::Setting;
use schedlab_workload::MachineName;
use std::io::ErrorKind::{IsADirectory, NotFound};
use std::path::Path;

/// The texts of the files that a simulated machine's name names, each as a setting ([`MachineName::FILE`]).
///
/// A value without a file is the name of one of the program's own. Whoever makes the machine refuses it if it is not.
///
/// # Errors
/// A sentence that names the file which cannot be read.
pub fn machine_files(machine: &MachineName) -> Result<Vec<Setting>, String> {
    let mut texts = Vec::new();
    for key in MachineName::FILES {
        let Some(file) = machine.settings.get(key).filter(|_| machine.kind == "sim") else {
            continue;
        };
        match schedlab_sys::regular_file::text(Path::new(file)) {
            Ok(value) => {
                texts.push(Setting { knob: format!("{}{file}", MachineName::FILE), value });
            }
            Err(error) if matches!(error.kind(), NotFound | IsADirectory) => {}
            Err(error) => return Err(format!("cannot read {key}={file}: {error}")),
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_a_name_without_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        std::fs::write(&file, b"\xff\xfe").unwrap();
        let files = |text: &str| machine_files(&text.parse().unwrap());
        let why = files(&format!("sim:machine={}", file.display())).unwrap_err();
        assert!(why.starts_with(&format!("cannot read machine={}: ", file.display())), "{why}");
        assert_eq!(files(&format!("vm:machine={}", file.display())), Ok(Vec::new()));
        assert_eq!(files(&format!("sim:costs={}", folder.path().display())), Ok(Vec::new()));
        assert_eq!(files("sim:costs=no-such-file"), Ok(Vec::new()));
        std::fs::write(&file, "cpus = 2").unwrap();
        let texts = files(&format!("sim:machine={}", file.display())).unwrap();
        assert_eq!(texts[0].knob, format!("machine:{}", file.display()));
        assert_eq!(texts[0].value, "cpus = 2");
    }
}
