//! The machine of a report.

use super::{Section, Table, readable};
use schedlab_model::{Fact, MachineFacts, Unit};
use std::fmt::Display;

/// What a reader must know about the machine before believing a figure.
pub(super) fn section(facts: &MachineFacts) -> Section {
    let mut section = Section::new("The machine");
    let mut table = Table::new(["", ""]);
    for (name, value) in rows(facts) {
        table.row([name.to_owned(), value]);
    }
    section.table(table).warnings(&facts.warnings);
    if let Fact::Known(config) = &facts.kernel.config {
        let lines: Vec<String> = config.iter().map(|(k, v)| format!("{k}={v}")).collect();
        section.folded("Kernel configuration that matters", lines.join("\n"));
    }
    if !facts.knobs.is_empty() {
        let mut knobs = Table::new(["knob", "value", "unit", "where"]);
        for knob in &facts.knobs {
            let value = knob.value.clone().unwrap_or_else(|| unknown(&knob.why_not));
            knobs.row([knob.name.clone(), value, knob.unit.clone(), knob.r#where.clone()]);
        }
        section.folded_table("Scheduler knobs", knobs);
    }
    section
}

fn rows(facts: &MachineFacts) -> Vec<(&'static str, String)> {
    let kernel = &facts.kernel;
    let load = &facts.load;
    let [one, five, fifteen] = load.average;
    let cpus =
        format!("{} online ({}), allowed {}", facts.online.len(), facts.online, facts.allowed);
    let bytes = |bytes: &u64| readable(*bytes as f64, Unit::Bytes);
    let limit = |limit: &Option<String>| limit.clone().unwrap_or_else(|| "none".into());
    let cgroup = format!(
        "{}, CPU limit {}",
        fact_text(&facts.cgroup.path),
        said(&facts.cgroup.cpu_limit, limit)
    );
    vec![
        ("measured at", facts.taken_at.clone()),
        ("host", facts.host.clone()),
        ("processor", fact_text(&facts.model)),
        ("CPUs", cpus),
        ("memory", said(&facts.memory_bytes, bytes)),
        ("hypervisor", said(&facts.hypervisor, |name| or_none(name))),
        ("kernel", format!("{} {}", kernel.release, kernel.architecture)),
        ("build", kernel.version.clone()),
        ("preemption", fact_text(&kernel.preemption)),
        ("sched_ext", said(&kernel.sched_ext, |name| or_none(name))),
        ("SMT", said(&facts.smt, on_off)),
        ("governor", said(&facts.frequency.governors, |all| or_none(&all.join(", ")))),
        ("turbo", said(&facts.frequency.turbo, on_off)),
        ("clock source", fact_text(&facts.clocksource)),
        ("control group", cgroup),
        ("load before", format!("{one:.2} {five:.2} {fifteen:.2}, {} runnable", load.runnable)),
        ("schedlab", facts.schedlab.clone()),
    ]
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "none".into() } else { text.to_owned() }
}

fn on_off(on: &bool) -> String {
    if *on { "on".into() } else { "off".into() }
}

fn said<T>(fact: &Fact<T>, say: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => say(value),
        Fact::Unknown(why) => unknown(why),
    }
}

fn fact_text<T: Display>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Known(value) => value.to_string(),
        Fact::Unknown(why) => unknown(why),
    }
}

fn unknown(why: &str) -> String {
    format!("unknown ({why})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_its_reason_and_what_is_not_there_says_none() {
        let facts = crate::fake::facts(0);
        let rows = rows(&facts);
        let of = |name: &str| rows.iter().find(|(known, _)| *known == name).unwrap().1.as_str();
        assert_eq!(of("host"), "fake <host>");
        assert_eq!(of("processor"), "unknown (not a machine)");
        assert_eq!(of("CPUs"), "2 online (0-1), allowed 0-1");
        assert_eq!(of("memory"), readable((1_u64 << 30) as f64, Unit::Bytes));
        assert_eq!(of("hypervisor"), "none");
        assert_eq!(of("SMT"), "off");
        assert_eq!(of("governor"), "performance");
        assert_eq!(of("control group"), "unknown (not a machine), CPU limit none");
    }

    #[test]
    fn knobs_and_the_configuration_stand_behind_a_click_where_they_are_known() {
        let html = |facts: &MachineFacts| {
            let mut report = crate::report::Report::new("t");
            report.add(section(facts));
            report.html()
        };
        let mut facts = crate::fake::facts(0);
        let plain = html(&facts);
        assert!(!plain.contains("<details>") && !plain.contains("class=\"warnings\""), "{plain}");
        let config = [("CONFIG_HZ", "250"), ("CONFIG_SMP", "y")];
        let config = config.map(|(name, value)| (name.to_owned(), value.to_owned()));
        facts.kernel.config = Fact::Known(config.into());
        let knob = |name: &str, value: Option<&str>| schedlab_model::Knob {
            name: name.into(),
            value: value.map(str::to_owned),
            unit: "ns".into(),
            min: None,
            max: None,
            meaning: String::new(),
            r#where: "/sys".into(),
            writable: false,
            why_not: "locked".into(),
        };
        facts.knobs = vec![knob("slice", Some("3")), knob("base", None)];
        facts.warnings = vec![schedlab_model::Warning::new("w", "it is busy", "wait")];
        let text = html(&facts);
        assert!(text.contains("<pre>CONFIG_HZ=250\nCONFIG_SMP=y</pre>"), "{text}");
        assert!(text.contains("<td>slice</td><td>3</td><td>ns</td><td>/sys</td>"), "{text}");
        assert!(text.contains("<td>base</td><td>unknown (locked)</td>"), "{text}");
        assert!(text.contains("<li>it is busy: wait</li>"), "{text}");
    }

    #[test]
    fn what_is_on_or_limited_says_so() {
        let mut facts = crate::fake::facts(0);
        facts.smt = Fact::Known(true);
        facts.hypervisor = Fact::Known("KVM".into());
        facts.frequency.governors = Fact::Known(vec!["schedutil".into(), "powersave".into()]);
        facts.cgroup.path = Fact::Known("/user".into());
        facts.cgroup.cpu_limit = Fact::Known(Some("1.5".into()));
        facts.load.average = [0.5, 1.0, 2.25];
        facts.load.runnable = 3;
        let rows = rows(&facts);
        let of = |name: &str| rows.iter().find(|(known, _)| *known == name).unwrap().1.as_str();
        assert_eq!([of("SMT"), of("hypervisor")], ["on", "KVM"]);
        assert_eq!(of("governor"), "schedutil, powersave");
        assert_eq!(of("control group"), "/user, CPU limit 1.5");
        assert_eq!(of("load before"), "0.50 1.00 2.25, 3 runnable");
        assert_eq!(of("kernel"), "6.1 x86_64");
    }
}
