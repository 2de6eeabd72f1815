//! Short labels for the values of an axis, where a picture has little room.

use schedlab_workload::MachineName;
use std::collections::{BTreeMap, BTreeSet};

/// A label for each value. A machine is named by the settings that differ: `cpus=2`, not `sim:cpus=2,kernel=cfs-6.1`.
/// Where that is one setting whose values are words, the word says it all: `cfs-6.1`. All else stays as it is, and so do
/// machines that would become alike.
#[must_use]
pub fn short(values: &[String]) -> Vec<String> {
    if values.len() < 2 {
        return values.to_vec();
    }
    let machines: Option<Vec<MachineName>> = values
        .iter()
        .map(|value| value.parse().ok().filter(|name: &MachineName| name.to_string() == *value))
        .collect();
    let Some(machines) = machines.filter(|all| all.iter().any(|one| !one.settings.is_empty()))
    else {
        return values.to_vec();
    };
    let differs = |of: &dyn Fn(&MachineName) -> Option<&String>| {
        machines.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]))
    };
    let kinds = differs(&|one| Some(&one.kind));
    let keys: BTreeSet<&String> = machines.iter().flat_map(|one| one.settings.keys()).collect();
    let mut apart = keys.into_iter().filter(|key| differs(&|one| one.settings.get(*key)));
    let word = |one: &MachineName, key: &String| {
        let value = one.settings.get(key).filter(|value| value.starts_with(char::is_alphabetic));
        value.cloned()
    };
    if let (false, Some(key), None) = (kinds, apart.next(), apart.next())
        && let Some(words) = machines.iter().map(|one| word(one, key)).collect()
    {
        return words;
    }
    let label = |one: &MachineName| {
        let told = |(key, _): &(&String, &String)| differs(&|other| other.settings.get(*key));
        let settings: BTreeMap<&String, &String> = one.settings.iter().filter(told).collect();
        let settings: Vec<String> =
            settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        match (kinds, settings.is_empty()) {
            (false, false) => settings.join(","),
            (true, false) => format!("{}:{}", one.kind, settings.join(",")),
            (_, true) => one.kind.clone(),
        }
    };
    let labels: Vec<String> = machines.iter().map(label).collect();
    let alike = labels.iter().enumerate().any(|(at, label)| labels[..at].contains(label));
    if alike { values.to_vec() } else { labels }
}

/// The label of one of `values`.
pub(super) fn short_of(value: &str, values: &[String]) -> String {
    let at = values.iter().position(|one| one == value);
    at.map_or_else(|| value.to_owned(), |at| short(values).swap_remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[&str]) -> Vec<String> {
        short(&values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn machines_are_named_by_what_they_differ_in() {
        let kernels = ["sim:cpus=1,kernel=cfs-6.1", "sim:cpus=1,kernel=eevdf-6.12"];
        assert_eq!(labels(&kernels), ["cfs-6.1", "eevdf-6.12"]);
        let both = ["sim:cpus=1,kernel=cfs-6.1", "sim:cpus=2,kernel=eevdf-6.12"];
        assert_eq!(labels(&both), ["cpus=1,kernel=cfs-6.1", "cpus=2,kernel=eevdf-6.12"]);
        let numbers = ["sim:cpus=1,kernel=cfs-6.1", "sim:cpus=2,kernel=cfs-6.1"];
        assert_eq!(labels(&numbers), ["cpus=1", "cpus=2"], "a number alone says too little");
        assert_eq!(labels(&["host", "sim:cpus=4"]), ["host", "sim:cpus=4"]);
        assert_eq!(labels(&["sim:cpus=2", "sim:cpus=2,seed=3"]), ["sim", "seed=3"]);
        assert_eq!(labels(&["sim:cpus=4"]), ["sim:cpus=4"], "it differs from nothing");
    }

    #[test]
    fn other_values_stay_as_they_are() {
        for values in [["100us", "10ms"], ["1", "2"], ["start", "deadline"]] {
            assert_eq!(labels(&values), values);
        }
    }

    #[test]
    fn one_of_the_values_has_the_label_that_it_has_among_all() {
        let kernels = ["sim:kernel=cfs-6.1", "sim:kernel=eevdf-6.12"].map(str::to_owned);
        assert_eq!(short_of(&kernels[1], &kernels), "eevdf-6.12");
        assert_eq!(short_of("host", &kernels), "host");
    }
}
