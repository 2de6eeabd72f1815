use super::*;

/// The long table of docs/jobs.md is that of a release build: `cargo test -p schedlab-stats --release --lib segments --
/// --nocapture`.
fn count(usual: usize, long: usize) -> usize {
    if cfg!(debug_assertions) { usual } else { long }
}

/// Sweeps with a known law.
#[derive(Clone, Copy, Debug)]
enum Law {
    /// 0.12 and 0.20 ms a job in two populations below 90 jobs, 0.20 above, where the spread is a third.
    Populations,
    /// 0.1 ms a job up to 100 jobs, then 0.3.
    Kink,
    /// A step of 5 ms at 103 jobs.
    Step,
    /// Two populations side by side, all the way.
    Parallel,
}

#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    /// Student's with three degrees of freedom.
    Heavy,
    /// One point in fifty is 20 standard deviations late.
    Outliers,
    /// The spread grows elevenfold from the first job to the last.
    Growing,
}

impl Noise {
    const ALL: [Self; 4] = [Self::Normal, Self::Heavy, Self::Outliers, Self::Growing];

    fn draw(self, random: &mut Random, x: f64) -> f64 {
        let normal = random.normal();
        match self {
            Self::Normal => normal,
            Self::Heavy => {
                let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                normal / (squares / 3.0).sqrt()
            }
            Self::Outliers => normal + if random.below(50) == 0 { 20.0 } else { 0.0 },
            Self::Growing => normal * (0.2 + x / 100.0),
        }
    }
}

fn jobs(random: &mut Random) -> f64 {
    4.0 + random.below(197) as f64
}

impl Law {
    const ALL: [Self; 4] = [Self::Populations, Self::Kink, Self::Step, Self::Parallel];

    /// The slopes of each segment, ascending.
    fn slopes(self) -> &'static [&'static [f64]] {
        match self {
            Self::Populations => &[&[0.12, 0.2], &[0.2]],
            Self::Kink => &[&[0.1], &[0.3]],
            Self::Step => &[&[0.2], &[0.2]],
            Self::Parallel => &[&[0.2, 0.2]],
        }
    }

    fn sweep(self, random: &mut Random) -> Vec<(f64, f64)> {
        let count = match self {
            Self::Populations => 120,
            Self::Kink => 100,
            Self::Step | Self::Parallel => 80,
        };
        let point = |_| {
            let (x, noise) = (jobs(random), random.normal());
            let second = random.below(2) == 0;
            let y = match self {
                Self::Populations if x >= 90.0 => 0.2 * x + 0.12 * noise,
                Self::Populations => (if second { 0.2 } else { 0.12 }) * x + 0.4 * noise,
                Self::Kink => 0.1 * x + 0.2 * (x - 100.0).max(0.0) + 0.22 * noise,
                Self::Step => 0.2 * x + if x >= 103.0 { 5.0 } else { 0.0 } + 0.85 * noise,
                Self::Parallel => 0.2 * x + if second { 4.0 } else { 0.0 } + 0.5 * noise,
            };
            (x, y)
        };
        (0..count).map(point).collect()
    }
}

/// What is found without intervals: the kinds, the places, and by segment how many lines there are.
fn found(points: &[(f64, f64)]) -> (Vec<Kind>, Vec<f64>, Vec<usize>) {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, model) = find(&Sweep::new(&sorted)).expect("there are points");
    let kinds = model.changes.iter().map(|change| change.1).collect();
    let places = model.changes.iter().map(|change| change.0).collect();
    (kinds, places, model.parts.iter().map(|part| part.fitted.lines.len()).collect())
}

/// How many of so many sweeps of a law have what it says, a kink or a step within five jobs.
fn right(law: Law, count: usize) -> usize {
    let mut random = Random::new(law as u64 + 1);
    let is_right = |_: &usize| {
        let (_, places, lines) = found(&law.sweep(&mut random));
        match law {
            Law::Parallel => lines == [2],
            // Half of the points below 90 lie on the line above it: the place is less sharp.
            Law::Populations => lines == [2, 1] && (80.0..=95.0).contains(&places[0]),
            Law::Kink => places.iter().any(|place| (place - 100.0).abs() <= 5.0),
            Law::Step => places.iter().any(|place| (place - 103.0).abs() <= 5.0),
        }
    };
    (0..count).filter(is_right).count()
}

/// How many of so many sweeps without a change have a kink, a step or two populations.
fn wrong(noise: Noise, count: usize) -> usize {
    let mut random = Random::new(noise as u64 + 10);
    let is_wrong = |_: &usize| {
        let count = 60 + 20 * random.below(4);
        let point = |_| {
            let x = jobs(&mut random);
            (x, 3.0 + 0.2 * x + noise.draw(&mut random, x))
        };
        let (kinds, _, lines) = found(&(0..count).map(point).collect::<Vec<_>>());
        kinds.iter().any(|kind| *kind != Kind::Spread) || lines.iter().any(|&lines| lines > 1)
    };
    (0..count).filter(is_wrong).count()
}

/// Of all slopes in sweeps with the right segments: how many there are, and how many lie in their interval.
fn covered(law: Law, count: usize) -> (usize, usize) {
    let mut random = Random::new(law as u64 + 20);
    let (mut all, mut inside) = (0, 0);
    for _ in 0..count {
        let told = segments(&law.sweep(&mut random)).expect("points enough");
        let as_law = told.segments.iter().map(|segment| segment.populations.len());
        if !as_law.eq(law.slopes().iter().map(|slopes| slopes.len())) {
            continue;
        }
        for (segment, slopes) in told.segments.iter().zip(law.slopes()) {
            let mut found: Vec<Interval> =
                segment.populations.iter().map(|one| one.slope).collect();
            found.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
            all += found.len();
            let holds =
                |(found, slope): (&Interval, &f64)| (found.low..=found.high).contains(slope);
            inside += found.iter().zip(*slopes).map(holds).filter(|holds| *holds).count();
        }
    }
    (all, inside)
}

#[test]
fn kinks_steps_and_populations_of_made_sweeps_are_found_within_five_jobs() {
    for law in Law::ALL {
        let count = count(20, 200);
        let right = right(law, count);
        println!("{law:?}: {right} of {count}");
        // Nine of ten; of the few, one less.
        assert!(right + count / 20 >= count * 9 / 10, "{law:?}: {right} of {count}");
    }
}

#[test]
fn a_line_hardly_ever_gets_a_change_whatever_its_noise() {
    for noise in Noise::ALL {
        let count = count(40, 2_000);
        let wrong = wrong(noise, count);
        println!("{noise:?}: {wrong} of {count}");
        // 5 %; of the few, two more.
        assert!(
            wrong <= count / 20 + 2 * usize::from(count < 2_000),
            "{noise:?}: {wrong} of {count}"
        );
    }
}

#[test]
fn intervals_of_places_hold_the_place_that_was_made() {
    for (law, place) in [(Law::Populations, 90.0), (Law::Kink, 100.0), (Law::Step, 103.0)] {
        let mut random = Random::new(law as u64 + 30);
        let (mut all, mut inside) = (0, 0);
        for _ in 0..count(8, 200) {
            let told = segments(&law.sweep(&mut random)).expect("points enough");
            if let [Change { x: Interval { low, high, .. }, .. }] = told.changes[..] {
                all += 1;
                inside += usize::from((low..=high).contains(&place));
            }
        }
        println!("{law:?}: {inside} of {all} places covered");
        // Between two points each place is as likely, so the interval of a clear step holds it nearly always.
        assert!(all >= 4 && inside * 100 >= all * count(80, 93), "{law:?}: {inside} of {all}");
    }
}

#[test]
fn intervals_of_a_search_cover_the_slopes_that_were_made() {
    // Populations that cross take points from each other, so their intervals are a little too narrow.
    let laws = [
        (Law::Populations, [65, 91]),
        (Law::Kink, [80, 93]),
        (Law::Step, [80, 93]),
        (Law::Parallel, [80, 93]),
    ];
    for (law, [of_few, of_many]) in laws {
        let (all, inside) = covered(law, count(8, 200));
        println!("{law:?}: {inside} of {all} slopes covered");
        // 93 to 97 %; of the few, four of five.
        let (least, most) = (count(of_few, of_many), count(100, 97));
        let covers = (all * least..=all * most).contains(&(inside * 100));
        assert!(all >= 8 && covers, "{law:?}: {inside} of {all}");
    }
}

#[test]
fn kinds_are_told_apart_and_no_value_is_given_where_no_points_are() {
    let mut random = Random::new(5);
    let mut sweep = |y: &dyn Fn(f64) -> f64| -> Segments {
        let points: Vec<_> =
            (30..130).map(|x| (f64::from(x), y(f64::from(x)) + 0.1 * random.normal())).collect();
        segments(&points).expect("points enough")
    };
    let kinked = sweep(&|x| 0.1 * x + 0.2 * (x - 80.0).max(0.0));
    assert_eq!(kinked.changes.iter().map(|c| c.kind).collect::<Vec<_>>(), [Kind::Kink]);
    let Interval { low, high, .. } = kinked.changes[0].x;
    assert!((low - 1.0..=high + 1.0).contains(&80.0), "{low} {high}");
    // From 30 to 80 is no way to say what lies at 0.
    assert_eq!(kinked.segments[0].populations[0].at_zero, None);
    let stepped = sweep(&|x| 0.1 * x + if x < 80.0 { 0.0 } else { 3.0 });
    assert_eq!(stepped.changes.iter().map(|c| c.kind).collect::<Vec<_>>(), [Kind::Step]);
    assert!((stepped.changes[0].step - 3.0).abs() < 0.3, "{:?}", stepped.changes);
    let mut random = Random::new(6);
    let noisy: Vec<_> = (1..121)
        .map(|x| {
            let spread = if x < 60 { 0.05 } else { 1.0 };
            (f64::from(x), 0.5 * f64::from(x) + spread * random.normal())
        })
        .collect();
    let told = segments(&noisy).expect("points enough");
    assert_eq!(told.changes.iter().map(|c| c.kind).collect::<Vec<_>>(), [Kind::Spread]);
    let zero = told.segments[0].populations[0].at_zero.expect("the first point is at 1");
    assert!((zero.low..=zero.high).contains(&0.0), "{zero:?}");
}

#[test]
fn exact_lines_one_x_and_few_points_have_no_change() {
    let exact: Vec<_> = (0..40).map(|x| (f64::from(x), 8.5 + 0.5 * f64::from(x))).collect();
    let told = segments(&exact).expect("points enough");
    assert_eq!((told.segments.len(), told.changes.len()), (1, 0));
    assert!((told.segments[0].populations[0].line.slope - 0.5).abs() < 1e-9);
    assert!(matches!(segments(&exact[..7]), Err(SampleError::TooFew { have: 7, need: 8 })));
    assert!(matches!(segments(&[(1.0, 2.0); 9]), Err(SampleError::NoSpread)));
    assert!(matches!(segments(&[(1.0, f64::NAN); 9]), Err(SampleError::NotFinite)));
}
