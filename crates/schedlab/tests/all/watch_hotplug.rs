//! `schedlab watch` and `schedlab record` while a CPU goes out of use and comes back, and the clock of the day is set: in a guest.

use crate::guest::{BEGIN, END, Guest, TWO};
use serde_json::Value;

const SCRIPT: &str = r#"
cpu1=/sys/devices/system/cpu/cpu1/online
# switches MASK: tasks that begin and end on these CPUs. Those of a CPU that went away may run anywhere afterwards, and
# one that runs there alone would never be seen.
switches() { setsid taskset $1 sh -c 'while :; do sleep 0.003; /bin/true; done' > /dev/null 2>&1 & }
for mask in 1 2; do
	switches $mask
	setsid sh -c 'while :; do :; done' > /dev/null 2>&1 &
done
# until_said TEXT: waits until the command says this.
until_said() {
	tries=0
	while [ $tries -lt 300 ]; do
		case $(cat $via.err) in *"$1"*) return ;; esac
		sleep 0.1; tries=$((tries + 1))
	done
}
for via in ftrace perf; do
	schedlab watch --via $via --interval 500ms --json --keep x.dat > $via.out 2> $via.err &
	watch=$!
	while ! [ -s $via.out ]; do sleep 0.1; done
	echo 0 > $cpu1; until_said 'went out of use'; sleep 1.2
	echo 1 > $cpu1; until_said 'CPU 1 came'; switches 2
	sleep 0.7; date -s '2020-01-01 00:00:00' > /dev/null
	sleep 0.7; date -s '2030-01-01 00:00:00' > /dev/null
	sleep 1.2; kill $watch; wait $watch; echo "code $?" >> $via.err
	schedlab why x.dat > /dev/null || echo "no why" >> $via.err
	echo "left:" *.spool $(ls /sys/kernel/tracing/instances) >> $via.err
	for part in out err; do echo "@@ $via $part"; gzip -c $via.$part | base64; echo "@end"; done
done
schedlab record --via perf -o all.dat > /dev/null 2> all.err & all=$!
schedlab record --via perf --snapshot 60s --keep 8s -o end.dat > /dev/null 2> end.err & end=$!
for via in all end; do until_said 'end with Ctrl-C'; done
echo 0 > $cpu1; sleep 1.5; echo 1 > $cpu1; sleep 2.5
# So fast that no look sees it, or that a look comes while the CPU is on its way.
for again in 1 2 3 4 5 6; do echo 0 > $cpu1; echo 1 > $cpu1; sleep 0.$again; done
switches 2; sleep 6
read -r up rest < /proc/uptime; sleep 2
kill $all $end; wait $all $end
for file in all end; do
	schedlab trace cpus $file.dat --from @$up --json > $file.out 2>> $file.err
	for part in out err; do echo "@@ $file $part"; gzip -c $file.$part | base64; echo "@end"; done
done
"#;

#[test]
fn a_cpu_that_goes_and_comes_back_and_a_clock_that_steps_are_right_or_said() {
    let Some(guest) = Guest::of("debian-6.1", "watch and hotplug") else { return };
    let Some(text) = guest.boot(&format!("{BEGIN}{SCRIPT}{END}"), &TWO) else { return };
    let part = |name: String| {
        let block = text.split(&format!("@@ {name}\n")).nth(1).expect("the part");
        let packed = block.split("@end").next().expect("its end");
        String::from_utf8(guest.unpacked(packed)).expect("a text")
    };
    for via in ["ftrace", "perf"] {
        let [out, said] = ["out", "err"].map(|name| part(format!("{via} {name}")));
        for word in ["CPU 1 went out of use", "CPU 1 came ", "code 0", "left: *.spool\n"] {
            assert!(said.contains(word), "{via}: no '{word}' in {said}");
        }
        // A full ring is another cause.
        assert!(!said.contains("larger rings"), "{via}: {said}");
        assert_eq!(said.contains("CPU 1 was out of use"), via == "perf", "{via}: {said}");
        assert!(!said.contains("no why"), "{via}: {said}");
        let windows: Vec<Value> =
            out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert!(windows.len() > 5, "{via}: {out}");
        for two in windows.windows(2) {
            assert_eq!(two[0]["end_ns"], two[1]["start_ns"], "{via}");
            assert!(two[0]["end_ns"].as_u64() < two[1]["end_ns"].as_u64(), "{via}");
        }
        let cpu = |window: &Value, key: &str| window["cpus"][1][key].as_u64().expect("a figure");
        let is_off = |window: &&Value| cpu(window, "busy_ns") + cpu(window, "idle_ns") == 0;
        assert!(windows.iter().any(|window| is_off(&window)), "{via}: CPU 1 is never off: {out}");
        let last = windows.last().expect("windows");
        assert!(cpu(last, "busy_ns") > 0 && cpu(last, "switches") > 0, "{via}: {last}");
        // Who waited there runs, or waits elsewhere.
        let worst = last["worst"]["comm"].as_str().expect("a name");
        assert!(!["cpuhp/1", "migration/1"].contains(&worst), "{via}: {last}");
    }
    for file in ["all", "end"] {
        let [out, said] = ["out", "err"].map(|name| part(format!("{file} {name}")));
        assert!(said.contains("CPU 1 was out of use"), "{file}: {said}");
        assert!(!said.contains("larger rings"), "{file}: {said}");
        let back: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{file}: {said}"));
        let one = &back["cpus"][1];
        assert!(
            one["switches"].as_u64() > Some(0) && one["busy_ns"].as_u64() > Some(0),
            "{file}: {out}"
        );
    }
}
