//! Settings as files that other tools apply: tmpfiles.d, and a shell script with its undo.

use super::{Home, Tree, find};
use schedlab_model::Setting;
use schedlab_workload::knobs;
use std::fmt::Write as _;

/// A setting as a file of the kernel's with its value, or why it is none.
enum Written {
    File(String, String),
    Not(String),
}

fn written(setting: &Setting, tree: &Tree) -> Written {
    let Setting { knob, value } = setting;
    let not = |why: &str| Written::Not(format!("# schedlab: {knob} = {value} ({why})"));
    let Some(entry) = find(knob) else { return not("not a file of the kernel's") };
    let path = match tree.home(entry) {
        Some(Home::Sysctl(file)) => format!("/proc/sys/kernel/{file}"),
        Some(Home::Debugfs(file)) => format!("/sys/kernel/debug/{file}"),
        Some(Home::Task(_) | Home::Cgroup(..)) => return not("of tasks, not of the machine"),
        None => return not("this kernel does not have the knob"),
    };
    if path.contains('*') {
        return not("a file for each CPU");
    }
    let kernels = knobs::read(entry.tunable(), value).unwrap_or_else(|_| value.clone());
    Written::File(path, kernels)
}

/// Settings as a file for /etc/tmpfiles.d, which systemd-tmpfiles applies at each boot (tmpfiles.d(5)).
#[must_use]
pub fn write_tmpfiles(settings: &[Setting], tree: &Tree) -> String {
    let mut text =
        String::from("# Scheduler settings found with schedlab; put this into /etc/tmpfiles.d/.\n");
    for setting in settings {
        match written(setting, tree) {
            Written::File(path, value) => {
                let _ = writeln!(text, "w {path} - - - - {value}");
            }
            Written::Not(comment) => {
                let _ = writeln!(text, "{comment}");
            }
        }
    }
    text
}

/// A shell script whose `apply` sets the settings and keeps what was before, and whose `undo` puts that
/// back.
#[must_use]
pub fn write_script(settings: &[Setting], tree: &Tree) -> String {
    let mut files = String::new();
    let mut comments = String::new();
    for setting in settings {
        match written(setting, tree) {
            Written::File(path, value) => {
                let _ = writeln!(files, "{path} {value}");
            }
            Written::Not(comment) => {
                let _ = writeln!(comments, "{comment}");
            }
        }
    }
    format!("{HEAD}{comments}settings() {{\n    cat <<'END'\n{files}END\n}}\n{REST}")
}

const HEAD: &str = "#!/bin/sh
# Scheduler settings found with schedlab.
#   apply   sets them, and keeps what was before beside this file
#   undo    puts that back
set -eu
kept=\"$0.before\"
";

const REST: &str = "case \"${1:-}\" in
apply)
    if [ -e \"$kept\" ]; then
        echo \"$0: $kept exists, so the settings are applied: undo first\" >&2
        exit 1
    fi
    settings | while read -r file value; do
        echo \"$file $(cat \"$file\")\"
    done >\"$kept.new\"
    mv \"$kept.new\" \"$kept\"
    settings | while read -r file value; do
        echo \"$value\" >\"$file\"
    done
    ;;
undo)
    while read -r file value; do
        echo \"$value\" >\"$file\"
    done <\"$kept\"
    rm \"$kept\"
    ;;
*)
    echo \"usage: $0 apply|undo\" >&2
    exit 2
    ;;
esac
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn setting(knob: &str, value: &str) -> Setting {
        Setting { knob: knob.into(), value: value.into() }
    }

    #[test]
    fn a_script_applies_and_undoes() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::of_kernel("6.1.0");
        let settings = [setting("wakeup_granularity", "8ms"), setting("slice", "3ms")];
        let text = write_script(&settings, &tree);
        assert!(text.contains("# schedlab: slice = 3ms ("), "{text}");
        let knob = folder.path().join("wakeup_granularity_ns");
        std::fs::write(&knob, "4000000\n").unwrap();
        let here = format!("{}/", folder.path().display());
        let script = folder.path().join("profile.sh");
        std::fs::write(&script, text.replace("/sys/kernel/debug/sched/", &here)).unwrap();
        let sh = |word: &str| Command::new("sh").arg(&script).arg(word).status().unwrap().success();
        assert!(sh("apply"));
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "8000000\n");
        assert!(!sh("apply"), "what was before is not overwritten");
        assert!(sh("undo"));
        assert_eq!(std::fs::read_to_string(&knob).unwrap(), "4000000\n");
        assert!(!sh("undo"));
    }

    #[test]
    fn tmpfiles_write_the_kernels_numbers() {
        let text =
            write_tmpfiles(&[setting("wakeup_granularity", "8ms")], &Tree::of_kernel("6.1.0"));
        let line = "w /sys/kernel/debug/sched/wakeup_granularity_ns - - - - 8000000\n";
        assert!(text.ends_with(line), "{text}");
    }
}
