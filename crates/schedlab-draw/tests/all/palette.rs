//! Colours that must be told apart are measured: CIEDE2000 (G. Sharma, W. Wu, E. N. Dalal, "The CIEDE2000
//! Color-Difference Formula", 2005) for normal vision, and for deuteranopes and protanopes (G. M. Machado,
//! M. M. Oliveira, L. A. F. Fernandes, 2009, severity 1). Contrast is that of WCAG 2.

use schedlab_draw::{Colour, Theme};
use std::f64::consts::PI;

/// Least distance of two tasks, by eye: 10 is seen at a glance.
const TASKS_APART: [f64; 3] = [11.0, 9.0, 8.9];
/// Least distance of a task from a mark, or from what is no task, for each eye.
const MARKS_APART: f64 = 7.0;

/// Least contrast of a text, and of a mark that carries meaning (WCAG 2.2, criteria 1.4.3 and 1.4.11).
const TEXTS_LEAST: f64 = 4.5;
const MARKS_LEAST: f64 = 3.0;

/// L*, a*, b* under D65.
type Lab = [f64; 3];

#[derive(Clone, Copy, Debug)]
enum Eye {
    Normal,
    Deuteranope,
    Protanope,
}

const EYES: [Eye; 3] = [Eye::Normal, Eye::Deuteranope, Eye::Protanope];

impl Eye {
    fn matrix(self) -> [[f64; 3]; 3] {
        match self {
            Self::Normal => [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            Self::Deuteranope => [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
            Self::Protanope => [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        }
    }
}

fn times(matrix: [[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
}

fn linear(colour: Colour) -> [f64; 3] {
    [colour.r, colour.g, colour.b].map(|channel| {
        let v = f64::from(channel) / 255.0;
        if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    })
}

fn lab(colour: Colour, eye: Eye) -> Lab {
    let seen = times(eye.matrix(), linear(colour));
    let xyz = times(
        [
            [0.412_456_4, 0.357_576_1, 0.180_437_5],
            [0.212_672_9, 0.715_152_2, 0.072_175_0],
            [0.019_333_9, 0.119_192_0, 0.950_304_1],
        ],
        seen,
    );
    let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t.max(0.0) + 16.0 / 116.0 };
    let [x, y, z] = [f(xyz[0] / 0.950_47), f(xyz[1]), f(xyz[2] / 1.088_83)];
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// CIEDE2000 with all weights 1.
fn distance([l1, a1, b1]: Lab, [l2, a2, b2]: Lab) -> f64 {
    let mean = f64::midpoint(a1.hypot(b1), a2.hypot(b2)).powi(7);
    let g = 0.5 * (1.0 - (mean / (mean + 25_f64.powi(7))).sqrt());
    let (a1, a2) = (a1 * (1.0 + g), a2 * (1.0 + g));
    let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
    let hue =
        |a: f64, b: f64| if a == 0.0 && b == 0.0 { 0.0 } else { b.atan2(a).rem_euclid(2.0 * PI) };
    let (h1, h2) = (hue(a1, b1), hue(a2, b2));
    let grey = c1 * c2 == 0.0;
    let mut dh = if grey { 0.0 } else { h2 - h1 };
    if dh > PI {
        dh -= 2.0 * PI;
    } else if dh < -PI {
        dh += 2.0 * PI;
    }
    let (dl, dc) = (l2 - l1, c2 - c1);
    let dh = 2.0 * (c1 * c2).sqrt() * (dh / 2.0).sin();
    let (l, c) = (f64::midpoint(l1, l2), f64::midpoint(c1, c2));
    let h = match (grey, (h1 - h2).abs() > PI) {
        (true, _) => h1 + h2,
        (false, false) => f64::midpoint(h1, h2),
        (false, true) if h1 + h2 < 2.0 * PI => f64::midpoint(h1, h2) + PI,
        (false, true) => f64::midpoint(h1, h2) - PI,
    };
    let t = 1.0 - 0.17 * (h - PI / 6.0).cos()
        + 0.24 * (2.0 * h).cos()
        + 0.32 * (3.0 * h + PI / 30.0).cos()
        - 0.20 * (4.0 * h - 63.0 * PI / 180.0).cos();
    let turn = PI / 6.0 * (-((h.to_degrees() - 275.0) / 25.0).powi(2)).exp();
    let rc = 2.0 * (c.powi(7) / (c.powi(7) + 25_f64.powi(7))).sqrt();
    let sl = 1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt();
    let (sc, sh) = (1.0 + 0.045 * c, 1.0 + 0.015 * c * t);
    let (l, c, h) = (dl / sl, dc / sc, dh / sh);
    (l * l + c * c + h * h - (2.0 * turn).sin() * rc * c * h).sqrt()
}

fn apart(a: Colour, b: Colour, eye: Eye) -> f64 {
    distance(lab(a, eye), lab(b, eye))
}

fn contrast(a: Colour, b: Colour) -> f64 {
    let luminance = |colour| times([[0.2126, 0.7152, 0.0722]; 3], linear(colour))[0] + 0.05;
    let (a, b) = (luminance(a), luminance(b));
    a.max(b) / a.min(b)
}

#[test]
fn the_contrast_of_colours_is_that_of_wcag() {
    assert!((Colour::BLACK.contrast(Colour::WHITE) - 21.0).abs() < 1e-9);
    for theme in [Theme::light(), Theme::dark()] {
        for &colour in theme.tasks.iter().chain(theme.series) {
            let ours = contrast(colour, theme.panel);
            assert!((colour.contrast(theme.panel) - ours).abs() < 1e-9, "{colour:?}");
        }
    }
}

#[test]
fn the_distance_is_that_of_the_published_pairs() {
    // Of the 34 pairs of Sharma et al., those that test each branch.
    for (a, b, expected) in [
        ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
        ([50.0, 0.0, 0.0], [50.0, -1.0, 2.0], 2.3669),
        ([50.0, -0.001, 2.49], [50.0, 0.0011, -2.49], 4.7461),
        ([50.0, 2.49, -0.001], [50.0, -2.49, 0.0011], 7.2195),
        ([50.0, 2.5, 0.0], [73.0, 25.0, -18.0], 27.1492),
        ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
        ([22.7233, 20.0904, -46.6940], [23.0331, 14.9730, -42.5619], 2.0373),
        ([90.8027, -2.0831, 1.4410], [91.1528, -1.6435, 0.0447], 1.4441),
        ([2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082),
    ] {
        assert!((distance(a, b) - expected).abs() < 1e-4, "{a:?} {b:?}: {}", distance(a, b));
    }
}

/// The roles of a picture that a task must not be taken for.
fn marks(theme: &Theme) -> Vec<(&'static str, Colour)> {
    let mut marks = vec![
        ("text", theme.text),
        ("waiting", theme.waiting),
        ("alarm", theme.alarm),
        ("moved", theme.moved),
    ];
    marks.extend(theme.events.map(|colour| ("event", colour)));
    marks
}

#[test]
fn tasks_can_be_told_from_each_other_by_every_eye() {
    for theme in [Theme::light(), Theme::dark()] {
        assert!(theme.tasks.len() >= 16);
        for (i, &a) in theme.tasks.iter().enumerate() {
            for &b in &theme.tasks[..i] {
                for (eye, least) in EYES.into_iter().zip(TASKS_APART) {
                    let apart = apart(a, b, eye);
                    assert!(apart >= least, "{a:?} and {b:?} for {eye:?}: {apart:.1}");
                }
            }
        }
    }
}

#[test]
fn marks_have_hues_of_their_own() {
    for theme in [Theme::light(), Theme::dark()] {
        for (role, mark) in marks(&theme) {
            for &task in theme.tasks {
                for eye in EYES {
                    let apart = apart(mark, task, eye);
                    assert!(
                        apart >= MARKS_APART,
                        "{role} {mark:?} and {task:?} for {eye:?}: {apart:.1}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_not_known_idle_or_of_others_is_no_task() {
    for theme in [Theme::light(), Theme::dark()] {
        for &task in theme.tasks {
            for (role, colour) in
                [("unknown", theme.unknown), ("idle", theme.panel), ("other", theme.other)]
            {
                for eye in EYES {
                    let apart = apart(colour, task, eye);
                    assert!(apart >= MARKS_APART, "{role} and {task:?} for {eye:?}: {apart:.1}");
                }
            }
            let target = contrast(task, theme.other);
            assert!(target >= 2.2, "a target beside others: {task:?}, {target:.2} : 1");
        }
        let other = contrast(theme.other, theme.panel);
        assert!(other >= 1.6, "others on the ground: {other:.2} : 1");
    }
}

#[test]
fn series_can_be_seen_as_lines_and_told_from_each_other() {
    for theme in [Theme::light(), Theme::dark()] {
        for (i, &series) in theme.series.iter().enumerate() {
            for ground in [theme.panel, theme.ground] {
                let contrast = contrast(series, ground);
                assert!(contrast >= MARKS_LEAST, "series {i}: {contrast:.2} : 1");
            }
            for &other in &theme.series[..i] {
                let least = EYES.into_iter().map(|eye| apart(series, other, eye));
                let least = least.fold(f64::INFINITY, f64::min);
                assert!(least >= 8.8, "{series:?} and {other:?}: {least:.1}");
            }
        }
    }
}

#[test]
fn texts_and_marks_have_the_contrast_that_they_need() {
    for theme in [Theme::light(), Theme::dark()] {
        for ground in [theme.panel, theme.ground] {
            for text in [theme.text, theme.muted] {
                let contrast = contrast(text, ground);
                assert!(contrast >= TEXTS_LEAST, "text {text:?}: {contrast:.2} : 1");
            }
            let roles = [
                ("running", theme.running),
                ("waiting", theme.waiting),
                ("alarm", theme.alarm),
                ("moved", theme.moved),
                ("axis", theme.axis),
            ];
            let events = theme.events.map(|colour| ("event", colour));
            for (role, mark) in roles.into_iter().chain(events) {
                let contrast = contrast(mark, ground);
                assert!(contrast >= MARKS_LEAST, "{role}: {contrast:.2} : 1");
            }
        }
        // Words stand on bands of CPUs without events.
        assert!(contrast(theme.text, theme.unknown) >= TEXTS_LEAST);
        for colour in theme.tasks.iter().chain(theme.series) {
            let contrast = contrast(*colour, colour.ink());
            assert!(contrast >= TEXTS_LEAST, "a name on {colour:?}: {contrast:.2} : 1");
        }
    }
}
