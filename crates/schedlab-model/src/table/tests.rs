use super::*;
use crate::{Cover, Cpu, Known, Pid};
use serde_json::json;

struct Wait {
    pid: Pid,
    comm: Option<&'static str>,
    cpu: Cpu,
    since: Nanos,
    took: Nanos,
    share: Option<f64>,
    by: Vec<Waker>,
}

#[derive(Clone)]
struct Waker {
    comm: &'static str,
    count: u64,
}

impl Row for Waker {
    const ABOUT: &'static str = "A waker.";
    fn columns() -> Vec<Column<Self>> {
        vec![
            column("task.comm", "Its name.", |row: &Self| row.comm),
            column("count", "How often.", |row: &Self| row.count),
            column("ns", "How long.", |row: &Self| Nanos(row.count)),
        ]
    }
}

impl Row for Wait {
    const ABOUT: &'static str = "A wait.";
    fn columns() -> Vec<Column<Self>> {
        vec![
            column("pid", "The task.", |row: &Self| row.pid).title("pid"),
            words("comm", "Its name.", |row: &Self| row.comm.map(Into::into)).title("comm"),
            column("cpu", "The CPU.", |row: &Self| row.cpu),
            column("wait.start_ns", "When.", |row: &Self| At(row.since)).title("from"),
            column("wait.took_ns", "How long.", |row: &Self| row.took).title("wait: took").bounded(
                |row: &Self| match row.share {
                    Some(_) => Bound::Exact,
                    None => Bound::AtLeast,
                },
            ),
            column("wait.share", "A part.", |row: &Self| row.share.map(Share))
                .title("wait: share")
                .rank(1),
            column("by", "By whom.", |row: &Self| Items(row.by.clone())).title("by").rank(2),
            column("all", "All.", |row: &Self| vec![row.share]).on_request(),
        ]
    }
}

fn waits() -> [Wait; 2] {
    let waker = |comm, count| Waker { comm, count };
    let by = vec![waker("a", 1), waker("b b", 2_000)];
    [
        Wait {
            pid: Pid(-1),
            comm: Some("x,\"y\""),
            cpu: Cpu(3),
            since: Nanos(10_000_000_123),
            took: Nanos(2_512_345),
            share: Some(0.25),
            by,
        },
        Wait {
            pid: Pid(7),
            comm: None,
            cpu: Cpu(0),
            since: Nanos(12_000_000_000),
            took: Nanos(850),
            share: None,
            by: Vec::new(),
        },
    ]
}

const ORIGIN: Nanos = Nanos(10_000_000_000);

#[test]
fn json_nests_at_dots_and_tells_bounds_and_only_what_was_asked_for() {
    let waits = waits();
    let rows = serde_json::to_value(Rows::new(&waits, ORIGIN)).unwrap();
    assert_eq!(
        rows[0],
        json!({"pid": -1, "comm": "x,\"y\"", "cpu": 3,
            "wait": {"start_ns": 123, "took_ns": 2_512_345, "took_ns_bound": null, "share": 0.25},
            "by": [{"task": {"comm": "a"}, "count": 1, "ns": 1},
                {"task": {"comm": "b b"}, "count": 2_000, "ns": 2_000}]})
    );
    assert_eq!(rows[1]["wait"]["took_ns_bound"], "at_least");
    assert_eq!(rows[1]["comm"], json!(null));
    let one = serde_json::to_value(One::new(&waits[0], ORIGIN, true)).unwrap();
    assert_eq!(one["all"], json!([0.25]));
}

#[test]
fn an_object_of_which_nothing_is_known_is_null() {
    struct Home(Option<u32>);
    impl Row for Home {
        const ABOUT: &'static str = "A home.";
        fn columns() -> Vec<Column<Self>> {
            vec![
                column("home.node", "Its node.", |row: &Self| row.0),
                column("home.socket", "Its socket.", |row: &Self| row.0),
            ]
        }
    }
    let json = serde_json::to_value(Rows::new(&[Home(None), Home(Some(1))], ORIGIN)).unwrap();
    assert_eq!(json, json!([{"home": null}, {"home": {"node": 1, "socket": 1}}]));
}

#[test]
fn csv_is_exact_and_quotes_what_it_must() {
    assert_eq!(
        Rows::new(&waits(), ORIGIN).csv(false),
        "pid,comm,cpu,wait.start_ns,wait.took_ns,wait.took_ns_bound,wait.share,by\n\
         -1,\"x,\"\"y\"\"\",3,123,2512345,,0.25,1:1 2000:2000\n\
         7,,0,2000000000,850,at_least,,\n"
    );
}

#[test]
fn text_has_three_digits_all_digits_of_the_clock_and_less_where_there_is_no_room() {
    let waits = waits();
    let rows = Rows::new(&waits, ORIGIN);
    let text = |room, hidden: &[&str]| {
        let mut text = rows.text(room, hidden);
        text.all();
        text.print(0)
    };
    let all = "                           wait -----------\n\
         pid  comm            from      took   share  by\n \
          -1  x,\"y\"  @10.000000123   2.51 ms  25.0 %  a 1 1 ns, b b 2000 2.00 µs\n  \
           7  -      @12.000000000  ≥ 850 ns       -\n";
    assert_eq!(text(74, &[]), all);
    let narrow = "                           wait ---\n\
         pid  comm            from      took\n \
          -1  x,\"y\"  @10.000000123   2.51 ms\n  \
           7  -      @12.000000000  ≥ 850 ns\n\
         2 columns do not fit (--wide shows all)\n";
    assert_eq!(text(1, &[]), narrow, "what has no rank stays");
    let lines = text(usize::MAX, &["wait."]);
    assert_eq!(lines.lines().next(), Some("pid  comm   cpu  by"), "all but what is hidden");
}

#[test]
fn a_row_can_be_named_and_rows_be_left_out() {
    let waits = waits();
    let rows = Rows::new(&waits, ORIGIN);
    let mut text = rows.text(1, &["wait", "comm"]);
    text.row(&waits[0], &[("pid", "all")]);
    text.all();
    let all = "pid\nall\n -1\n... and 1 more (--top 0 shows all)\n\
               1 column does not fit (--wide shows all)\n";
    assert_eq!(text.print(2), all);
    let mut text = rows.text(1, &["wait", "comm"]);
    text.row(&waits[0], &[("pid", "all")]);
    text.first(1);
    assert_eq!(text.print(0), all, "rows that are only counted");
}

#[test]
fn groups_stand_above_their_columns_and_have_room() {
    let mut table = TextTable::new(&["<who", "1?wait: p50", "wait: max", "run"]);
    table.row(vec!["a".into(), "2 µs".into(), "30 µs".into(), "5 s".into()]);
    let wide = "     wait ------\nwho   p50    max  run\na    2 µs  30 µs  5 s\n";
    assert_eq!(table.text(0, 99), wide);
    let narrow = "     wait\nwho    max  run\na    30 µs  5 s\n\
                  1 column does not fit (--wide shows all)\n";
    assert_eq!(table.text(0, 15), narrow);
    let mut table = TextTable::new(&["migrations: all", "run"]);
    table.row(vec!["7".into(), "5 s".into()]);
    assert_eq!(table.text(0, 99), "migrations\n       all  run\n         7  5 s\n");
}

#[test]
fn a_text_is_no_formula_unless_it_is_asked_for_as_it_is() {
    let columns = [column("=name", "A name.", |row: &String| row.clone())];
    let row = "=cmd|x".to_owned();
    let mut text = String::new();
    Csv::new(&columns, false).line(&row, &mut text);
    Csv::new(&columns, true).line(&row, &mut text);
    assert_eq!(text, "'=cmd|x\n=cmd|x\n");
}

#[test]
fn columns_that_are_known_later_follow() {
    let waits = waits();
    let axis = column("axis", "An axis.", |row: &Wait| format!("cpu {}", row.cpu));
    let csv = Rows::new(&waits, ORIGIN).and([axis]).csv(false);
    assert!(csv.lines().all(|line| line.ends_with(",axis") || line.contains(",cpu ")), "{csv}");
}

struct Mean(f64);

impl Row for Mean {
    const ABOUT: &'static str = "A mean.";
    fn columns() -> Vec<Column<Self>> {
        crate::columns! { row: Self;
            "mean_ns" ["mean"] = MeanTime(row.0), "The mean.";
            "all_ns" ["all"] = vec![Nanos(row.0 as u64)] => format!("of {:.0}", row.0), "All times.";
        }
    }
}

#[test]
fn a_column_goes_before_another_and_is_spelled_where_it_is_declared() {
    let means = [Mean(1_500.25)];
    let name = column("name", "A name.", |_: &Mean| "a").title("name");
    let rows = Rows::new(&means, Nanos::ZERO).before("all_ns", name);
    let mut text = rows.text(80, &[]);
    text.all();
    assert_eq!(text.print(0), "   mean  name      all\n1.50 µs  a     of 1500\n");
    let json = serde_json::to_value(&rows).unwrap();
    assert_eq!(json, json!([{ "mean_ns": 1_500.25, "name": "a", "all_ns": [1_500] }]));
}

#[test]
fn items_of_a_list_are_null_only_where_they_can_be_unknown() {
    let schema = |of: schemars::Schema| of.to_value()["items"]["properties"].clone();
    let mut generator = schemars::SchemaGenerator::default();
    let means = schema(generator.root_schema_for::<Rows<'_, Mean>>());
    let waits = schema(generator.root_schema_for::<Rows<'_, Wait>>());
    assert_eq!(means["mean_ns"]["type"], "number");
    assert_eq!(means["all_ns"]["items"]["type"], "integer");
    assert_eq!(waits["all"]["items"]["type"], json!(["number", "null"]));
}

#[test]
fn the_schema_has_each_column_and_what_may_be_unknown() {
    let generator = schemars::SchemaGenerator::default();
    let schema = generator.into_root_schema_for::<Rows<'_, Wait>>().to_value();
    let wait = &schema["items"]["properties"]["wait"];
    assert_eq!(wait["properties"]["share"]["type"], json!(["number", "null"]));
    assert_eq!(wait["properties"]["took_ns"]["description"], "How long.");
    assert!(wait["properties"]["took_ns_bound"].is_object());
    let items = &schema["items"]["properties"]["by"]["items"];
    assert_eq!(items["properties"]["task"]["properties"]["comm"]["type"], "string");
    let required = schema["items"]["required"].as_array().unwrap();
    assert!(!required.contains(&json!("all")) && required.contains(&json!("by")));
}

#[test]
fn a_part_stays_a_part_where_other_cells_of_its_column_are_estimates() {
    struct Sum(u64, bool, Option<f64>);
    impl Row for Sum {
        const ABOUT: &'static str = "A sum.";
        fn columns() -> Vec<Column<Self>> {
            let column = column("sum_ns", "Their sum.", |row: &Self| Nanos(row.0));
            vec![column.at_least(|row| row.1)]
        }
    }
    let sums = [Sum(1, false, Some(0.1)), Sum(2, true, None), Sum(3, false, None)];
    let rows = Rows::new(&sums, ORIGIN).off("sum_ns", |row| row.2);
    assert_eq!(rows.csv(false), "sum_ns,sum_ns_bound\n1,within 0.1\n2,at_least\n3,\n");
}

#[test]
fn rows_are_touched_by_what_is_off_by_more_than_a_hundredth_in_a_shown_figure() {
    struct Ran(Nanos);
    impl Row for Ran {
        const ABOUT: &'static str = "What ran.";
        fn columns() -> Vec<Column<Self>> {
            vec![
                column("ran_ns", "How long.", |row: &Self| row.0).title("ran").needs(Need::RunTime),
                column("waited_ns", "How long.", |_: &Self| Nanos(1)).needs(Need::WaitTime),
            ]
        }
    }
    let ran = [Ran(Nanos(1_000)), Ran(Nanos(10))];
    let known = |off, wakes| Known { contradicted: Nanos(off), wakes, ..Known::ALL };
    let touched = |known: &Known, limit: usize| {
        let rows = Rows::new(&ran, Nanos::ZERO).known(known);
        let mut text = rows.text(80, &[]);
        text.first(limit);
        text.is_touched(limit)
    };
    assert!(!touched(&known(0, Cover::Complete), 0));
    assert!(touched(&known(10, Cover::Complete), 0), "10 of 10");
    assert!(!touched(&known(10, Cover::Complete), 1), "10 of 1,000");
    assert!(touched(&known(11, Cover::Complete), 1), "11 of 1,000");
    assert!(!touched(&known(0, Cover::Absent), 0), "text does not show the wait");
    let lossy = Known { gaps: true, ..Known::ALL };
    assert!(touched(&lossy, 1), "a lower bound");
}

#[test]
fn what_is_no_time_is_off_by_its_own_unit_or_unknown() {
    struct Part(u64);
    impl Row for Part {
        const ABOUT: &'static str = "A part of 1,000 ns.";
        fn columns() -> Vec<Column<Self>> {
            let share = |name: &'static str| {
                column(name, "A part.", |row: &Self| Share(row.0 as f64 / 1_000.0))
                    .title(name)
                    .needs(Need::RunTime)
            };
            let count = column("count", "How often.", |row: &Self| row.0).needs(Need::RunTime);
            let own = share("own").bounded(|_| Bound::Within(0.25)).each_ns(|_| 0.001);
            vec![share("of").each_ns(|_| 0.001), own, share("unsaid"), count.title("count")]
        }
    }
    let known = Known { contradicted: Nanos(100), ..Known::ALL };
    let rows = Rows::new(&[Part(500)], Nanos::ZERO).known(&known);
    let text = |rows: &Rows<'_, Part>| {
        let mut text = rows.text(80, &[]);
        text.all();
        text.print(0).lines().last().map(str::to_owned)
    };
    let line = "50.0 % ± 10.0 %  50.0 % ± 35.0 %       -    500".to_owned();
    assert_eq!(text(&rows), Some(line));
    let exact = Rows::new(&[Part(500)], Nanos::ZERO).known(&Known::ALL);
    assert_eq!(text(&exact), Some("50.0 %  50.0 %  50.0 %    500".to_owned()));
}
