//! Every chart: golden pictures of small inputs, and that nothing, one value and wild values are
//! pictures too.

use crate::golden::{check, reads_well};
use schedlab_draw::chart::{
    Axis, Boxes, Cdf, Chart, Column, Curve, Edge, Fit, FitLine, Gantt, Graph, Group, Heatmap,
    Histogram, Job, Line, Multiples, Node, Published, Region, Sample, Series, Shape, Values,
    cdf_of, histogram_of,
};
use schedlab_draw::{PALETTE, Theme, svg};
use schedlab_model::{Nanos, Span};

fn svg_of(chart: &dyn Chart) -> String {
    svg(&chart.scene(1200, &Theme::light()))
}

/// The golden picture on light ground; on dark ground its words keep the same rules.
fn both(name: &str, chart: &dyn Chart, width_px: i32) {
    check(name, &chart.scene(width_px, &Theme::light()));
    reads_well(&format!("{name} in the dark"), &chart.scene(width_px, &Theme::dark()));
}

fn sample(x: f64, y: f64, half: f64) -> Sample {
    Sample { x, y, interval: Some((y - half, y + half)) }
}

#[test]
fn a_sweep_has_intervals_and_an_ideal() {
    let line = Line {
        title: "speed asked for and speed measured".into(),
        notes: vec!["95 % intervals over 5 runs".into()],
        x: Axis { values: Values::Percent, ..Axis::new("speed asked for") },
        y: Axis { values: Values::Percent, ..Axis::new("speed measured").from_zero() },
        series: vec![
            Series::ideal("ideal", vec![Sample::new(0.1, 0.1), Sample::new(1.0, 1.0)]),
            Series::new(
                "duty",
                (1..=10)
                    .map(|i| sample(f64::from(i) / 10.0, f64::from(i * i) / 100.0, 0.03))
                    .collect(),
            ),
            Series {
                shape: Shape::Points,
                ..Series::new(
                    "points",
                    (1..=10)
                        .map(|i| sample(f64::from(i) / 10.0, f64::from(i) / 11.0, 0.02))
                        .collect(),
                )
            },
            Series {
                shape: Shape::Steps,
                ..Series::new(
                    "steps",
                    (1..=10)
                        .map(|i| Sample::new(f64::from(i) / 10.0, f64::from(i % 4) / 5.0))
                        .collect(),
                )
            },
        ],
    };
    both("chart-line", &line, 760);
}

#[test]
fn small_multiples_shade_their_regions_and_say_their_values() {
    let ticks = ["100us", "1ms", "10ms", "100ms"];
    let place = |index: usize| 0.06 + index as f64 * 0.88 / 3.0;
    let column = |name: &str, level: f64| {
        let row = |scale: f64| -> Vec<Sample> {
            (0..4)
                .map(|i| sample(place(i), scale * level * if i > 1 { 1.4 } else { 1.0 }, 2.0))
                .collect()
        };
        let hints = |what: &str| ticks.iter().map(|t| format!("{t}: {what}")).collect();
        let middle = f64::midpoint(place(1), place(2));
        Column {
            name: name.into(),
            regions: vec![
                Region { from: 0.0, to: middle, name: "A".into() },
                Region { from: middle, to: 1.0, name: "B".into() },
            ],
            rows: vec![row(10.0), row(3.0)],
            hints: vec![hints("time"), hints("switches")],
            published: vec![
                Published { x: place(0), low: 8.0, high: 12.0 },
                Published { x: place(3), low: 50.0, high: f64::INFINITY },
            ],
        }
    };
    let chart = Multiples {
        title: "sockets along slice".into(),
        notes: vec!["shaded: regions of one level".into()],
        x_label: "slice".into(),
        ticks: ticks.iter().enumerate().map(|(i, t)| (place(i), (*t).to_owned())).collect(),
        words: false,
        rows: vec![Axis::new("time").from_zero(), Axis::new("voluntary").from_zero()],
        row_px: 92,
        columns: vec![column("groups=1", 1.0), column("groups=2", 2.2), column("groups=4", 4.1)],
    };
    both("chart-multiples", &chart, 640);
    // Panels beside each other have one scale: each of its values stands three times.
    let drawn = svg(&chart.scene(640, &Theme::light()));
    let stands = |value: &str| drawn.matches(&format!(">{value}</text>")).count();
    assert_eq!((stands("0"), stands("80"), stands("100ms")), (6, 3, 3));
    // Of many panels the first alone tells the values, and the axis is named once.
    let names = ["1ms", "2ms", "4ms", "8ms", "15ms", "30ms"];
    let many = Multiples {
        x_label: "wakeup_granularity".into(),
        columns: names.map(|name| column(name, 2.0)).to_vec(),
        ..chart.clone()
    };
    for theme in [Theme::light(), Theme::dark()] {
        reads_well("many panels", &many.scene(640, &theme));
    }
    let drawn = svg(&many.scene(640, &Theme::light()));
    let stands = |value: &str| drawn.matches(&format!(">{value}</text>")).count();
    assert_eq!((stands("0"), stands("wakeup_granularity")), (2, 1));
    let lines = |chart: &Multiples| svg(&chart.scene(640, &Theme::light())).len();
    let words = Multiples { words: true, ..chart.clone() };
    assert!(lines(&words) < lines(&chart), "no line joins words");
    let empty = Multiples { columns: Vec::new(), ..chart };
    assert!(svg(&empty.scene(300, &Theme::light())).contains("no values"));
}

#[test]
fn words_below_a_panel_stand_apart_and_points_at_zero_are_whole() {
    let kernels = ["kernel=6.1-250hz-voluntary", "kernel=6.1-no-previous-idle", "debian-5.10"];
    let place = |index: usize| (index as f64 + 0.5) / 3.0;
    let chart = Multiples {
        title: "sockets along machine".into(),
        notes: vec!["points: mean of the runs".into()],
        x_label: "machine".into(),
        ticks: kernels.iter().enumerate().map(|(i, k)| (place(i), (*k).to_owned())).collect(),
        words: true,
        rows: vec![
            Axis { values: Values::Percent, ..Axis::new("left idle").from_zero() },
            Axis::new("migrations").from_zero(),
        ],
        row_px: 92,
        columns: vec![Column {
            rows: vec![
                vec![sample(place(0), 0.0, 0.0), sample(place(1), 0.02, 0.01)],
                (0..3).map(|i| sample(place(i), 20.0 * (i + 1) as f64, 9.0)).collect(),
            ],
            ..Column::default()
        }],
    };
    both("chart-words", &chart, 470);
    // All words are told, also where there is too little room for them beside each other.
    for width in [240, 470, 1000] {
        let drawn = svg(&chart.scene(width, &Theme::light()));
        assert!(kernels.iter().all(|kernel| drawn.contains(kernel)), "{width}: {drawn}");
    }
    let height = |width| chart.scene(width, &Theme::light()).height;
    assert!(height(1000) < height(470) && height(470) < height(240));
}

#[test]
fn a_long_note_takes_several_lines_and_is_whole() {
    let note = "ringed: best; outlined: not different from the best; dashed: between two levels";
    let chart = Heatmap { notes: vec![note.into()], ..Heatmap::default() };
    let words = |width: i32| -> Vec<String> {
        let scene = chart.scene(width, &Theme::light());
        reads_well("a long note", &scene);
        let texts = scene.texts();
        let lines = texts.iter().filter(|text| text.size == 1_200).map(|text| text.content.clone());
        lines.collect()
    };
    assert_eq!(words(900), [note]);
    assert!(words(300).len() > 1 && words(300).join(" ") == note, "{:?}", words(300));
}

fn latencies(scale: u64) -> schedlab_stats::Histogram {
    let mut histogram = schedlab_stats::Histogram::new();
    for i in 0..4_000_u64 {
        histogram.record(
            scale * (1_000 + i % 37 * 120 + i * i % 1_013) + if i % 250 == 0 { 900_000 } else { 0 },
        );
    }
    histogram
}

#[test]
fn latencies_are_bars_and_curves() {
    let bars = histogram_of("wakeup latency", "latency", &latencies(1));
    let highest = bars.bars.iter().map(|bar| bar.2).max().unwrap_or(0);
    assert!(highest <= latencies(1).count(), "a bar is a count");
    let svg = schedlab_draw::svg(&bars.scene(760, &Theme::light()));
    assert!(svg.contains(">count<"), "all bars are equally wide on the axis");
    both("chart-histogram", &bars, 760);
    let cdf = Cdf {
        title: "wakeup latency of two kernels".into(),
        notes: vec![],
        x: Axis::nanoseconds("latency").logarithmic(),
        curves: vec![cdf_of("before", &latencies(2)), cdf_of("after", &latencies(1))],
        tail: false,
    };
    both("chart-cdf", &cdf, 760);
    check("chart-tail", &Cdf { tail: true, ..cdf }.scene(760, &Theme::dark()));
}

#[test]
fn a_legend_names_only_curves_that_are_drawn() {
    let cdf = Cdf {
        title: "wakeup latency".into(),
        notes: vec![],
        x: Axis::nanoseconds("latency").logarithmic(),
        curves: vec![
            cdf_of("it waited", &latencies(1)),
            cdf_of("it never waited", &schedlab_stats::Histogram::default()),
        ],
        tail: false,
    };
    let svg = schedlab_draw::svg(&cdf.scene(760, &Theme::light()));
    assert!(svg.contains(">it waited (n=4,000)<") && !svg.contains("it never waited"), "{svg}");
}

#[test]
fn a_heat_map_rings_its_best_cell() {
    let cell = |row: usize, column: usize| {
        let (r, c) = (row as f64 - 3.0, column as f64 - 6.0);
        (row != 1 || column != 1).then_some(1e5 * (1.0 + r * r + c * c / 3.0))
    };
    let map = Heatmap {
        title: "p99 wakeup latency".into(),
        notes: vec!["sweep of two knobs".into()],
        x_label: "base_slice".into(),
        y_label: "migration_cost".into(),
        columns: (0..10).map(|i| format!("{} ms", i + 1)).collect(),
        rows: (0..6).map(|i| format!("{} µs", i * 100)).collect(),
        value_label: "p99".into(),
        values: Values::Nanoseconds,
        cells: (0..6).map(|row| (0..10).map(|column| cell(row, column)).collect()).collect(),
        best: Some((3, 6)),
        stable: vec![(3, 6), (3, 5), (3, 7), (2, 6), (4, 6)],
        contours: vec![6e5],
    };
    both("chart-heatmap", &map, 820);
}

#[test]
fn groups_are_boxes_with_their_densities() {
    let values = |seed: u32, n: u32| {
        (0..n).map(|i| f64::from((i * 7_919 + seed) % 101) + f64::from(i % 7) * 9.0).collect()
    };
    let boxes = Boxes {
        title: "run time before and after".into(),
        notes: vec![],
        y: Axis::new("time [ms]").from_zero(),
        groups: vec![
            Group { name: "before".into(), values: values(3, 30) },
            Group { name: "after".into(), values: values(9, 200) },
            Group { name: "one".into(), values: vec![60.0] },
        ],
        violins: true,
    };
    both("chart-boxes", &boxes, 640);
}

#[test]
fn a_fit_shows_its_residuals() {
    let fit = Fit {
        title: "run time against jobs".into(),
        notes: vec!["0.57 ms a job + 1.2 ms, r = 0.98".into()],
        x: Axis::new("jobs").from_zero(),
        y: Axis::new("run time [ms]").from_zero(),
        points: (1..30)
            .map(|i| {
                (f64::from(i * 3), 1.2 + 0.57 * f64::from(i * 3) + f64::from(i * 31 % 7) - 3.0)
            })
            .collect(),
        lines: vec![FitLine::all(1.2, 0.57, 2.0)],
        changes: vec![],
        columns: vec![],
    };
    both("chart-fit", &fit, 700);
    // Two populations, then one line, and what else was measured.
    let line = |from, to, gradient, spread| FitLine { from, to, offset: 1.2, gradient, spread };
    let fit = Fit {
        lines: vec![
            line(0.0, 45.0, 0.4, [1.0, 2.0]),
            line(0.0, 45.0, 0.7, [1.0, 2.0]),
            line(45.0, 90.0, 0.57, [3.0, 0.5]),
        ],
        changes: vec![45.0],
        columns: vec![
            ("concurrency".into(), fit.points.iter().map(|p| (p.0, 4.0 - 20.0 / p.0)).collect()),
            ("job time [µs]".into(), fit.points.iter().map(|p| (p.0, 700.0)).collect()),
        ],
        ..fit
    };
    both("chart-fit-segments", &fit, 700);
}

#[test]
fn jobs_are_a_graph_and_a_timeline() {
    let job = |i: u64| Job {
        lane: usize::try_from(i % 4).expect("few"),
        span: Span::new(Nanos(i * 50_000), Nanos(i * 50_000 + 150_000)),
        name: format!("job {i}"),
        colour: PALETTE[usize::try_from(i % 3).expect("few")],
        due: i.is_multiple_of(2).then_some(Nanos(i * 48_000)),
    };
    let gantt = Gantt {
        title: "jobs of 4 workers".into(),
        notes: vec![],
        lanes: (0..4).map(|i| format!("worker {i}")).collect(),
        jobs: (0..20).map(job).collect(),
        over: vec![],
        legend: vec![(PALETTE[0], "seed 0".into())],
    };
    both("chart-gantt", &gantt, 760);
    let node =
        |level: usize, i: usize| Node { level, name: i.to_string(), colour: PALETTE[level % 5] };
    let graph = Graph {
        title: "a job graph".into(),
        notes: vec![],
        nodes: vec![
            node(0, 0),
            node(1, 1),
            node(1, 2),
            node(1, 3),
            node(2, 4),
            node(2, 5),
            node(3, 6),
        ],
        edges: [(0, 1), (0, 2), (0, 3), (1, 5), (2, 4), (3, 4), (4, 6), (5, 6), (9, 1)]
            .map(|(from, to)| Edge { from, to })
            .to_vec(),
        legend: vec![],
    };
    both("chart-graph", &graph, 600);
}

#[test]
fn the_lanes_of_sixty_four_workers_have_names_and_what_is_over_jobs_has_its_colour() {
    let part = |lane: usize, from: u64, colour| Job {
        lane,
        span: Span::new(Nanos(from), Nanos(from + 50_000)),
        name: String::new(),
        colour,
        due: None,
    };
    let gantt = Gantt {
        title: "jobs".into(),
        notes: vec![],
        lanes: (0..64).map(|i| format!("worker {i}")).collect(),
        jobs: (0..64).map(|lane| part(lane, 0, PALETTE[0])).collect(),
        over: (0..64).map(|lane| part(lane, 50_000, PALETTE[5])).collect(),
        legend: vec![(PALETTE[0], "in jobs".into()), (PALETTE[5], "run delay".into())],
    };
    let svg = schedlab_draw::svg(&gantt.scene(1200, &Theme::light()));
    let texts = |name: &str| svg.contains(&format!(">{name}<"));
    assert!((0..64).all(|i| texts(&format!("worker {i}"))), "each lane is named");
    assert!(texts("run delay") && svg.contains("#881100"));
    // A name that something is painted over is not left on it.
    let wide = |over: Vec<Job>| {
        let named = Job { name: "159".into(), ..part(0, 0, PALETTE[0]) };
        let gantt =
            Gantt { lanes: vec!["worker 0".into()], jobs: vec![named], over, ..Gantt::default() };
        svg_of(&gantt)
    };
    assert!(wide(vec![]).contains(">159<"));
    assert!(!wide(vec![part(0, 0, PALETTE[1])]).contains(">159<"));
}

#[test]
fn nothing_and_wild_values_are_pictures_too() {
    let theme = Theme::light();
    let wild = vec![f64::NAN, f64::INFINITY, -1e300, 1e300, 0.0];
    let charts: Vec<Box<dyn Chart>> = vec![
        Box::new(Line::default()),
        Box::new(Histogram::default()),
        Box::new(Cdf::default()),
        Box::new(Heatmap::default()),
        Box::new(Boxes::default()),
        Box::new(Fit::default()),
        Box::new(Gantt::default()),
        Box::new(Graph::default()),
        Box::new(Boxes {
            groups: vec![Group { name: "<w>".into(), values: wild.clone() }],
            violins: true,
            ..Boxes::default()
        }),
        Box::new(Fit {
            points: wild.iter().map(|&x| (x, x)).collect(),
            lines: vec![FitLine::all(0.0, f64::NAN, 1.0)],
            ..Fit::default()
        }),
        Box::new(Cdf {
            curves: vec![Curve { name: "</svg>".into(), points: vec![(0.0, 0.5)] }],
            x: Axis::new("").logarithmic(),
            ..Cdf::default()
        }),
        Box::new(Line {
            series: vec![Series::new(
                "w",
                wild.iter().map(|&x| Sample { x, y: x, interval: Some((x, x)) }).collect(),
            )],
            ..Line::default()
        }),
    ];
    for chart in charts {
        for width in [0, 200, 4_000] {
            let drawn = svg(&chart.scene(width, &theme));
            assert_eq!(drawn.matches("<svg").count(), 1);
            assert_eq!(drawn.matches("</svg>").count(), 1, "a name ended the picture");
        }
    }
}
