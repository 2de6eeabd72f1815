//! `schedlab jobs posts`: every post starts, and its wait has its parts.

use serde_json::Value;
use std::process::Command;

#[test]
fn every_post_starts_and_its_wait_has_its_parts() {
    for workers in ["1", "2"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(["jobs", "posts", "--time", "500ms", "--workers", workers, "--json"]);
        let out = command.output().expect("the command was built");
        let said = String::from_utf8_lossy(&out.stderr);
        if out.stdout.is_empty() && said.contains("schedlab doctor") {
            missing!("recording: posts were not split: {said}");
            return;
        }
        let report: Value = serde_json::from_slice(&out.stdout).expect("JSON on stdout");
        assert_eq!(report["schema"], "schedlab/jobs-posts/1");
        // The exit code tells what the counts say.
        let counts = ["parked_beside_a_job", "unattributed"].map(|key| report[key].as_u64());
        assert_eq!(out.status.success(), counts == [Some(0); 2], "{report}");
        assert!(report["posts"].as_u64() > Some(0), "{report}");
        assert_eq!(report["parked_beside_a_job"], 0, "{report}");
        // The parts of the slowest post are those of the whole.
        for part in ["pool_ns", "kernel_ns", "machine_ns"] {
            assert!(report[part]["max"].as_u64() <= report["start_ns"]["max"].as_u64(), "{report}");
        }
    }
}
