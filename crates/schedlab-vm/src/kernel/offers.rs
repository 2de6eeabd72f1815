//! What a kernel offers to who tunes its scheduler, read from its configuration and version.

use super::Kernel;
use std::collections::BTreeMap;

/// What a kernel offers: name and value, in the order in which they are shown.
#[must_use]
pub fn offers(kernel: &Kernel) -> Vec<(&'static str, String)> {
    let mut all = vec![("scheduler", scheduler(&kernel.release).to_owned())];
    let Some(config) = &kernel.config else {
        all.push(("config", "not found beside the image".to_owned()));
        return all;
    };
    let set: BTreeMap<&str, &str> =
        config.lines().filter_map(|line| line.split_once('=')).collect();
    let is = |name: &str| set.get(name) == Some(&"y");
    let first = |names: &[(&str, &str)], none: &str| {
        names.iter().find(|(name, _)| is(name)).map_or(none, |(_, value)| *value).to_owned()
    };
    all.push(("hz", set.get("CONFIG_HZ").map_or("?", |hz| *hz).to_owned()));
    let models = [
        ("CONFIG_PREEMPT_RT", "rt"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT", "full"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
    ];
    let model = first(&models, "none");
    let dynamic = if is("CONFIG_PREEMPT_DYNAMIC") { ", set at boot" } else { "" };
    all.push(("preemption", model + dynamic));
    let features = [
        ("CONFIG_SMP", "smp"),
        ("CONFIG_SCHED_AUTOGROUP", "autogroup"),
        ("CONFIG_UCLAMP_TASK", "uclamp"),
        ("CONFIG_SCHED_CORE", "core scheduling"),
        ("CONFIG_SCHED_CLASS_EXT", "sched_ext"),
        ("CONFIG_NUMA_BALANCING", "NUMA balancing"),
        ("CONFIG_SCHED_DEBUG", "knobs"),
        ("CONFIG_SCHEDSTATS", "schedstats"),
        ("CONFIG_FTRACE", "tracing"),
    ];
    let has: Vec<&str> = features.iter().filter(|(name, _)| is(name)).map(|(_, f)| *f).collect();
    all.push(("features", has.join(", ")));
    all
}

/// Which scheduler, and where its knobs are, by the version.
fn scheduler(release: &str) -> &'static str {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    match (next(), next()) {
        (0, _) => "unknown",
        (..=4, _) | (5, ..=12) => "CFS, knobs by sysctl",
        (5, _) | (6, ..=5) => "CFS, knobs in debugfs",
        _ => "EEVDF, knobs in debugfs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_told_by_its_version_and_its_configuration() {
        let of = |release: &str, config: Option<&str>| {
            let release = release.to_owned();
            let config = config.map(str::to_owned);
            offers(&Kernel { image: "x".into(), release, config })
        };
        for (release, scheduler) in [
            ("5.10.0-40-cloud-amd64", "CFS, knobs by sysctl"),
            ("6.1.0-56-cloud-amd64", "CFS, knobs in debugfs"),
            ("6.12.117", "EEVDF, knobs in debugfs"),
            ("bzImage", "unknown"),
        ] {
            assert_eq!(of(release, None)[0].1, scheduler, "{release}");
        }
        let config = "CONFIG_HZ=1000\nCONFIG_PREEMPT_LAZY=y\n# CONFIG_SMP is not set\nCONFIG_UCLAMP_TASK=y\n";
        let all = of("6.18.1", Some(config));
        let value = |name: &str| all.iter().find(|(n, _)| *n == name).unwrap().1.clone();
        assert_eq!((value("hz"), value("preemption")), ("1000".to_owned(), "lazy".to_owned()));
        assert_eq!(value("features"), "uclamp");
    }
}
