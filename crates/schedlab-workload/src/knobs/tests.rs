//! Names and values of knobs as people write them.

use super::*;

#[test]
fn values_have_units_or_are_in_the_kernels_and_stay_within_limits() {
    let of = |name: &str, text: &str| read(tunable(name).unwrap(), text);
    for (name, text, kernel) in [
        ("base_slice", "3ms", "3000000"),
        ("base_slice", "3000000", "3000000"),
        ("bandwidth_slice", "5ms", "5000"),
        ("autogroup", "off", "0"),
        ("nice", "-5", "-5"),
        ("slice", "0", "0"),
        ("policy", "fifo:3", "fifo:3"),
        ("cgroup_max", "20ms", "20000"),
    ] {
        assert_eq!(of(name, text).unwrap(), kernel, "{name}={text}");
    }
    for (name, text, why) in [
        ("base_slice", "1s", "outside of 100us to 100ms"),
        ("base_slice", "soon", "soon"),
        ("bandwidth_slice", "1500ns", "use a whole number of us"),
        ("nice", "20", "outside of -20 to 19"),
        ("nice", "low", "invalid number 'low'"),
        ("policy", "", "empty"),
    ] {
        let error = of(name, text).unwrap_err();
        assert!(error.contains(why), "{name}={text}: {error}");
    }
    assert_eq!(feature("NEXT_BUDDY", "off").unwrap(), "NO_NEXT_BUDDY");
    assert!(feature("NEXT_BUDDY", "perhaps").unwrap_err().contains("use on or off"));
}

#[test]
fn a_name_asks_for_a_knob_a_switch_or_a_speed() {
    assert_eq!(SettingKind::read("slice"), Ok(SettingKind::Knob(tunable("slice").unwrap())));
    assert_eq!(SettingKind::read("feature:NEXT_BUDDY"), Ok(SettingKind::Feature("NEXT_BUDDY")));
    assert_eq!(SettingKind::read("speed:0-1"), Ok(SettingKind::Speed));
    assert_eq!(SettingKind::read("slize"), Err("; did you mean slice?".to_owned()));
    assert_eq!(SettingKind::read("granularity"), Err("; did you mean min_granularity?".to_owned()));
    assert_eq!(SettingKind::read("xyz"), Err(String::new()));
}

#[test]
fn names_are_unlike_each_other() {
    let names: std::collections::BTreeSet<&str> = TUNABLES.iter().map(|t| t.name).collect();
    assert_eq!(names.len(), TUNABLES.len());
}
