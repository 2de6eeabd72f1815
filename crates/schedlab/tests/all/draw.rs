//! `draw` and `view` as they are typed: files in every format, the names of other tools, refusals.

use schedlab_trace::dat::Header;
use schedlab_trace::synthetic::{Plan, Synthetic};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of a test's own with a small trace in it.
struct Desk(PathBuf);

impl Desk {
    fn new(name: &str) -> Self {
        let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = own.join(format!("draw-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("writable");
        let plan = Plan { cpus: 4, tasks_per_cpu: 3, events: 4_000, seed: 3 };
        Synthetic::new(plan).write(&path.join("x.dat"), Header::default()).expect("writable");
        Self(path)
    }

    fn run(&self, arguments: &str) -> Output {
        self.start(Path::new(env!("CARGO_BIN_EXE_schedlab")), arguments)
    }

    fn start(&self, program: &Path, arguments: &str) -> Output {
        let mut command = Command::new(program);
        command.current_dir(&self.0).args(arguments.split_whitespace());
        command.output().expect("the built command starts")
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_picture_comes_in_every_format_and_says_what_it_is() {
    let desk = Desk::new("formats");
    for picture in ["cores", "tasks", "waiting", "latency"] {
        for (end, magic) in [("svg", &b"<svg"[..]), ("pdf", b"%PDF"), ("png", b"\x89PNG")] {
            let output = desk.run(&format!("draw {picture} x.dat -o {picture}.{end} --json"));
            done(&output);
            let bytes = desk.read(&format!("{picture}.{end}"));
            assert!(bytes.starts_with(magic), "{picture}.{end}");
            let json: serde_json::Value =
                serde_json::from_slice(&output.stdout).expect("stdout is JSON");
            assert_eq!(json["schema"], "schedlab/draw/1");
            assert_eq!(json["bytes"], bytes.len());
            assert_eq!(json["cpus"], 4);
            assert!(json["origin_ns"].is_string());
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let desk = Desk::new("same");
    for end in ["svg", "pdf", "png"] {
        done(&desk.run(&format!("draw cores x.dat -o a.{end}")));
        done(&desk.run(&format!("draw cores x.dat -o b.{end}")));
        assert_eq!(desk.read(&format!("a.{end}")), desk.read(&format!("b.{end}")));
    }
}

#[test]
fn a_recipe_draws_rows_and_curve() {
    let desk = Desk::new("recipe");
    let recipe =
        "title = 'mine'\nmin = '1ms'\nmax = '3ms'\ncurve = true\n[rows]\nmarks = ['migrations']\n";
    std::fs::write(desk.0.join("r.toml"), recipe).expect("writable");
    done(&desk.run("draw --recipe r.toml x.dat -o r.svg"));
    let text = String::from_utf8(desk.read("r.svg")).expect("SVG is text");
    assert!(text.contains(">mine</text>") && text.contains(">tasks</text>"));
    std::fs::write(desk.0.join("bad.toml"), "[rows]\ncolor-by = 'pid'\n").expect("writable");
    let output = desk.run("draw --recipe bad.toml x.dat -o r.svg");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("color-by"));
}

#[test]
fn a_page_holds_the_trace_and_nothing_from_outside() {
    let desk = Desk::new("page");
    done(&desk.run("view x.dat"));
    let page = String::from_utf8(desk.read("x.html")).expect("HTML is text");
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=\"http", "href=\"http", "@import", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_with_the_reason() {
    let desk = Desk::new("refused");
    for (arguments, code, reason) in [
        ("draw cores x.dat -o x.jpg", 2, ".svg, .pdf or .png"),
        ("draw cores x.dat", 2, "--output"),
        ("draw cores none.dat -o x.svg", 1, "none.dat"),
        ("draw cores x.dat --from 9h -o x.svg", 1, "it lasts"),
        ("draw cores x.dat --mark sched_switch:who=me -o x.svg", 2, "comm=NAME"),
        ("draw cores x.dat --topology none -o x.svg", 1, "lscpu -p"),
        ("draw tasks x.dat --target nosuch -o x.svg", 1, "no task's name starts"),
        ("view x.dat --from 9h", 1, "it lasts"),
    ] {
        let output = desk.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
        assert!(said.contains(reason), "{arguments}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn under_the_names_of_other_tools_it_names_files_and_titles_as_they_do() {
    let desk = Desk::new("names");
    let link = |name: &str| {
        let path = desk.0.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_schedlab"), &path).expect("writable");
        path
    };
    let dat2graph2 = link("dat2graph2");
    done(
        &desk
            .start(&dat2graph2, "--min 0.001 --max 0.003 --target worker --color-by-command x.dat"),
    );
    assert!(desk.read("x_from_0.001_upto_0.003_color.pdf").starts_with(b"%PDF"));
    let output = desk.start(&dat2graph2, "--cores x.dat");
    assert_eq!(output.status.code(), Some(2), "what is not documented is not claimed");
    done(&desk.start(&link("running_waiting"), "x.dat"));
    assert!(desk.read("x_running_waiting.pdf").starts_with(b"%PDF"));
}

#[test]
fn text_of_a_pdf_can_be_searched() {
    let desk = Desk::new("text");
    done(&desk.run("draw cores x.dat -o x.pdf"));
    let Ok(output) = Command::new("pdftotext").arg(desk.0.join("x.pdf")).arg("-").output() else {
        missing!("pdftotext: the text of PDFs was not checked (apt-get install poppler-utils)");
        assert!(std::env::var_os("CI").is_none(), "CI must have poppler-utils");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("cores of x.dat") && text.contains("CPU 3"), "{text}");
}

#[test]
fn charts_are_drawn_from_a_table_whose_columns_are_named() {
    let desk = Desk::new("charts");
    let mut text = String::from("load,slice,who,time\n");
    for row in 0..24 {
        let (load, slice) = (1 << (row % 4), 1 + row % 3);
        let who = if row < 12 { "old" } else { "\"new, \"\"fast\"\"\"" };
        let time = 10 + 3 * load + row % 2;
        writeln!(text, "{load},{slice},{who},{time}").expect("a String takes all");
    }
    std::fs::write(desk.0.join("t.csv"), text).expect("writable");
    for (chart, shown) in [
        ("heatmap t.csv --x load --y slice --value time --best lowest", "slice</text>"),
        ("sweep t.csv --x load --y time --by who --log-x", ">new, "),
        ("fit t.csv --x load --y time --where who=old", "12 points: "),
        ("boxes t.csv --value time --by who", "old (n=12)</text>"),
    ] {
        done(&desk.run(&format!("draw {chart} -o c.svg")));
        let svg = String::from_utf8(desk.read("c.svg")).expect("SVG is UTF-8");
        assert!(svg.contains(shown), "{chart}");
        let output = desk.run(&format!("draw {chart} -o c.svg --json"));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&told["path"], &told["bytes"]),
            (&"c.svg".into(), &svg.len().into()),
            "{chart}"
        );
        assert!(told["height_px"].as_i64() > Some(100), "{told}");
    }
}

#[test]
fn a_table_that_cannot_be_drawn_is_refused_with_line_and_column() {
    let desk = Desk::new("tables");
    for (text, code, said) in [
        ("a,c\n1,2\n", 2, "x.csv: line 1: unknown column 'b': use a, c"),
        ("a,b\n1,2\n\n3,x\n", 1, "x.csv: line 4, column 2 (b): invalid number 'x'"),
        ("a,b\n1,2,3\n", 1, "x.csv: line 2, column 3: found 3 fields instead of 2"),
        ("a,b\n1,\"2\n", 1, "x.csv: line 2, column 2: this quote never ends"),
        ("", 1, "x.csv: line 1: missing names of the columns"),
        ("a,b\n1,2\n", 1, "x.csv: no line fits"),
    ] {
        std::fs::write(desk.0.join("x.csv"), text).expect("writable");
        let output = desk.run("draw fit x.csv --x a --y b -o c.svg");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(said), "{error}");
    }
}

/// How many ticks a picture of `source` has for `mark`, and what was said.
#[track_caller]
fn ticks(desk: &Desk, source: &str, mark: &str) -> (usize, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["draw", "cores", source, "-o", "marked.svg", "--mark", mark])
        .current_dir(&desk.0)
        .output()
        .expect("the built command starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let picture = String::from_utf8(desk.read("marked.svg")).expect("SVG is text");
    let layer = picture.split_once(&format!("<title>{mark}</title>"));
    let path = layer.and_then(|(_, rest)| rest.split_once("</g>")).map_or("", |(path, _)| path);
    (path.matches('M').count(), said)
}

#[test]
fn a_tracepoint_is_marked_wherever_it_first_appears_and_by_its_fields() {
    let desk = Desk::new("fields");
    let mut text = String::from("cpus=2\n");
    let switch = |at: u32| {
        let (prev, next) = if at.is_multiple_of(2) { (0, 7) } else { (7, 0) };
        format!(
            " sh-{prev} [000] 1.{at:06}: sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 \
             prev_state=S ==> next_comm=b next_pid={next} next_prio=120\n"
        )
    };
    text.extend((0..5_000).map(switch));
    // Far behind the first lines, which are read when the format is recognised.
    text.extend([(6, 42), (7, 43), (8, 42)].map(|(at, irq)| {
        format!(" sh-7 [001] 1.00{at}000: irq_handler_entry: irq={irq} name=a disk\n")
    }));
    text += &switch(9_000);
    std::fs::write(desk.0.join("late.txt"), text).expect("writable");
    let convert = ["trace", "convert", "late.txt", "late.dat"];
    let converted = std::process::Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(convert)
        .current_dir(&desk.0)
        .status();
    assert!(converted.expect("the built command starts").success());
    for source in ["late.txt", "late.dat"] {
        assert_eq!(ticks(&desk, source, "irq_handler_entry").0, 3, "{source}");
        let (none, said) = ticks(&desk, source, "irq_handler_entry:irq=44");
        assert!(none == 0 && !said.contains("no such event"), "{said}");
        let (none, said) = ticks(&desk, source, "irq_handler_exit");
        assert!(none == 0 && said.contains("the trace has no such event"), "{said}");
    }
    for source in ["late.txt", "late.dat"] {
        let chosen = ticks(&desk, source, "irq_handler_entry:irq=42,name=a disk");
        assert_eq!(chosen.0, 2, "{source}: {}", chosen.1);
    }
    let by_cpu = ticks(&desk, "late.txt", "irq_handler_entry:irq=42,cpu=0");
    assert_eq!(by_cpu.0, 0, "both conditions hold, or nothing is marked");
}

#[test]
fn what_is_not_in_the_trace_is_an_error_and_an_end_behind_it_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let text = " a-1 [000] 1.0: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b \
                next_pid=2 next_prio=120
 c-3 [001] 1.1: sched_switch: prev_comm=c prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=d next_pid=4 next_prio=120
 b-2 [000] 1.5: sched_process_exit: comm=b pid=2 prio=120
 b-2 [000] 1.5: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=X ==> next_comm=e next_pid=5 next_prio=120
 e-5 [000] 1.6: sched_process_fork: comm=e pid=5 child_comm=e child_pid=2
 e-5 [000] 1.6: sched_wakeup_new: comm=e pid=2 prio=120 target_cpu=000
 e-5 [000] 1.7: sched_switch: prev_comm=e prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=again next_pid=2 \
next_prio=120
 again-2 [000] 2.0: sched_switch: prev_comm=again prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=swapper/0 \
next_pid=0 next_prio=120
";
    std::fs::write(dir.path().join("x.txt"), text).unwrap();
    let draw = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(["draw", "cores", "x.txt", "-o", "x.svg"]).args(arguments);
        let output = command.current_dir(dir.path()).output().expect("the built command starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (wrong, part) in [
        (["--cpus", "500"], "it has 0-1"),
        (["--target", "nosuch"], "no task's name starts"),
        (["--from", "50s"], "it lasts 1s"),
    ] {
        let (code, said) = draw(&wrong);
        assert_eq!(code, Some(1), "{wrong:?}: {said}");
        assert!(said.contains(part), "{wrong:?}: {said}");
    }
    let (code, said) = draw(&["--to", "50s"]);
    assert!(code == Some(0) && said.contains("--to 50s lies behind the end"), "{said}");
    // Two tasks had pid 2, each its own time.
    let svg = || std::fs::read_to_string(dir.path().join("x.svg")).unwrap();
    let (all, _) = (svg(), ());
    assert!(all.contains(">b:2, 500 ms<") && all.contains(">again:2, 300 ms<"), "{all}");
    // Sums are those of the rows that are shown.
    assert!(all.contains(">d:4, 900 ms<"), "{all}");
    assert_eq!(draw(&["--cpus", "0"]).0, Some(0));
    let part = svg();
    assert!(part.contains(">b:2, 500 ms<") && !part.contains(">d:4"), "{part}");
    assert!(part.contains(">1 CPU, 3 tasks, "), "{part}");
}

#[test]
fn several_latencies_are_all_named() {
    let desk = Desk::new("latencies");
    std::fs::create_dir(desk.0.join("a")).expect("writable");
    std::fs::copy(desk.0.join("x.dat"), desk.0.join("a/x.dat")).expect("writable");
    std::fs::copy(desk.0.join("x.dat"), desk.0.join("y.dat")).expect("writable");
    done(&desk.run("draw latency x.dat y.dat -o two.svg"));
    let svg = String::from_utf8(desk.read("two.svg")).expect("SVG is text");
    assert!(svg.contains(">wakeup latency of x.dat and y.dat<"), "{svg}");
    done(&desk.run("draw latency a/x.dat ./x.dat -o same.svg"));
    let svg = String::from_utf8(desk.read("same.svg")).expect("SVG is text");
    assert!(svg.contains(">a/x.dat (n="), "{svg}");
}

/// A page, and its bytes.
fn page(desk: &Desk, arguments: &str) -> (String, usize) {
    done(&desk.run(arguments));
    let page = String::from_utf8(desk.read("p.html")).expect("HTML is text");
    (page.clone(), page.len())
}

#[test]
fn the_page_of_a_large_trace_is_bounded_by_its_columns() {
    let desk = Desk::new("large");
    let write = |name: &str, events| {
        let plan = Plan { cpus: 16, tasks_per_cpu: 8, events, seed: 3 };
        Synthetic::new(plan).write(&desk.0.join(name), Header::default()).expect("writable");
    };
    write("few.dat", 100_000);
    write("many.dat", 400_000);
    let view = |name: &str| page(&desk, &format!("view {name} -o p.html --slices-max 100000"));
    let ((few, few_bytes), (many, many_bytes)) = (view("few.dat"), view("many.dat"));
    for page in [&few, &many] {
        assert!(page.contains("\"fine\":65536"), "as many columns as a page may have");
    }
    // 1,024 CPUs have 8,192 columns each: eight times these cells, with as many bytes for each.
    assert!(8 * many_bytes.max(few_bytes) < 60_000_000, "{few_bytes} and {many_bytes} bytes");
    let output = desk.run("view few.dat -o p.html --slices-max 100000");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("shows columns") && said.contains("--from"), "{said}");
}

#[test]
fn a_page_can_show_a_part_and_counts_from_the_begin_of_the_trace() {
    let desk = Desk::new("part");
    let (whole, _) = page(&desk, "view x.dat -o p.html");
    let (part, _) = page(&desk, "view x.dat -o p.html --from 500us --to 900us");
    assert!(whole.contains("\"shift\":0,") && whole.contains("\"fine\":0,"));
    assert!(part.contains("\"shift\":500000,\"span\":400000,"));
}

#[test]
fn a_page_to_share_holds_no_name_of_the_machine() {
    let desk = Desk::new("anonymous");
    done(&desk.run("load app --duration 30ms --on sim:cpus=2,kernel=cfs-6.1 --trace secret.dat"));
    let (open, _) = page(&desk, "view secret.dat -o p.html");
    assert!(open.contains("app-producer") && open.contains("secret.dat"), "the test can fail");
    let (page, _) = page(&desk, "view secret.dat -o p.html --anonymise");
    for name in ["app-", "secret", "consumer"] {
        assert!(!page.contains(name), "{name}");
    }
    assert!(
        page.contains("task-") && page.contains("<title>trace</title>"),
        "numbers stand for names"
    );
}

#[test]
fn two_traces_stand_on_one_page_with_their_difference() {
    let desk = Desk::new("pair");
    std::fs::copy(desk.0.join("x.dat"), desk.0.join("y.dat")).expect("writable");
    let (page, bytes) = page(&desk, "view x.dat y.dat -o p.html");
    assert!(page.contains("Tasks waited as long in both, for the same causes."), "the same trace");
    assert_eq!(page.matches("<iframe ").count(), 2);
    let output = desk.run("view x.dat y.dat -o p.html --json");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&told["a"]["slices"], &told["a"]["bytes"]), (&told["b"]["slices"], &bytes.into()));
    let output = desk.run("view x.dat y.dat x.dat -o p.html");
    assert_eq!(output.status.code(), Some(2), "two at most");
}

#[test]
fn a_figure_shows_the_chosen_tasks_alone_at_its_size_with_a_caption() {
    let desk = Desk::new("figure");
    done(&desk.run("load app --duration 30ms --on sim:cpus=2,kernel=cfs-6.1 --trace app.dat"));
    let drawn = |arguments: &str| {
        let output = desk.run(&format!("draw {arguments} --comm app-producer --caption -o f.svg"));
        done(&output);
        let svg = String::from_utf8(desk.read("f.svg")).expect("SVG is text");
        (svg, String::from_utf8(output.stdout).expect("text"))
    };
    let (svg, said) = drawn("tasks app.dat --from 2ms --to 20ms --width-mm 85 --font-pt 7 --grey");
    assert!(svg.contains(">app-producer:") && !svg.contains(">app-consumer"), "{svg}");
    // 85 mm are 321.26 px of 1/96 inch.
    let width = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next());
    let width: f64 = width.expect("a width").parse().expect("a number");
    assert!((width - 321.26).abs() < 0.5, "{width}");
    // 7 points of a natural 8.25: the scene is wider than the figure.
    let scene = svg.split("viewBox=\"0 0 ").nth(1).and_then(|rest| rest.split(' ').next());
    let scene: f64 = scene.expect("a view box").parse().expect("a number");
    assert!((scene / 100.0 * 7.0 / 8.25 - 321.26).abs() < 1.0, "{scene}");
    assert!(svg.contains("#333333") && !svg.contains("#0072b2"), "the palette of grey print");
    let caption = said.lines().nth(1).expect("a caption");
    assert!(
        caption.starts_with("Tasks of app.dat: 2 chosen tasks on 2 CPUs from 2.00 ms to 20.0 ms"),
        "{caption}"
    );
    assert!(caption.ends_with("18.0 ms)."), "{caption}");
    assert!(!caption.trim_end_matches('.').contains(". "), "one sentence: {caption}");
    // What was filtered away is drawn as nothing: rows of CPUs have fewer boxes, and no colour for the rest.
    let (some, _) = drawn("cores app.dat");
    done(&desk.run("draw cores app.dat -o all.svg"));
    let all = String::from_utf8(desk.read("all.svg")).expect("SVG is text");
    assert!(some.matches("h").count() < all.matches("h").count());
    assert!(some.contains("app-producer") && !some.contains("app-consumer"), "{some}");
    assert!(!some.contains("#1f242c"), "not even as others: {some}");
    // The curve holds the chosen tasks' time only, and so does the histogram.
    for picture in ["waiting", "latency"] {
        let (_, said) = drawn(&format!("{picture} app.dat"));
        assert!(said.contains("2 chosen tasks"), "{said}");
    }
    let output = desk.run("draw tasks app.dat --comm nobody -o f.svg");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--comm nobody"), "{said}");
}
