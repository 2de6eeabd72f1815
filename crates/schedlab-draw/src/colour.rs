//! Colours: plain sRGB values, mixing, and the palettes that series and tasks take theirs from.
//!
//! Series of charts and tasks have palettes, one for each ground. They hold the colours that are farthest
//! apart for the worst of normal, deuteranope and protanope vision (distance after CIEDE2000, simulation
//! after Machado, Oliveira and Fernandes 2009). Colours of series can be seen as thin lines. Colours of
//! tasks are far from each mark and from what is unknown. `assign` says which task gets which;
//! `tests/all/palette.rs` measures the distances.

/// An sRGB colour with opacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Colour {
    /// Red, 0 ..= 255.
    pub r: u8,
    /// Green, 0 ..= 255.
    pub g: u8,
    /// Blue, 0 ..= 255.
    pub b: u8,
    /// Opacity, 255 is opaque.
    pub a: u8,
}

impl Colour {
    /// The opaque colour white, `0xffffff`.
    pub const WHITE: Self = Self::hex(0xff_ff_ff);
    /// The opaque colour black, `0x000000`.
    pub const BLACK: Self = Self::hex(0);

    /// The opaque colour `0xRRGGBB`.
    #[must_use]
    pub const fn hex(rgb: u32) -> Self {
        let [_, r, g, b] = rgb.to_be_bytes();
        Self { r, g, b, a: 255 }
    }

    /// This colour with another opacity: 0 is transparent, 255 opaque.
    #[must_use]
    pub const fn fade(self, a: u8) -> Self {
        Self { a, ..self }
    }

    /// `parts` of 255 of `other` mixed into this colour, channel by channel in sRGB.
    #[must_use]
    pub fn mix(self, other: Self, parts: u8) -> Self {
        let new = u32::from(parts);
        let old = 255 - u32::from(parts);
        let one = |a: u8, b: u8| {
            let sum = u32::from(a) * old + u32::from(b) * new;
            u8::try_from((sum + 127) / 255).expect("a mean of two bytes is a byte")
        };
        Self {
            r: one(self.r, other.r),
            g: one(self.g, other.g),
            b: one(self.b, other.b),
            a: one(self.a, other.a),
        }
    }

    /// How light it looks, 0 black ..= 255 white (the luma weights of ITU-R BT.601).
    #[must_use]
    pub(crate) fn luma(self) -> u8 {
        let sum = 299 * u32::from(self.r) + 587 * u32::from(self.g) + 114 * u32::from(self.b);
        u8::try_from(sum / 1_000).expect("weights sum to 1,000")
    }

    /// Relative luminance of the opaque colour, 0 black ..= 1 white (WCAG 2.2).
    #[must_use]
    pub(crate) fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let part = f64::from(channel) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.r) + 0.7152 * linear(self.g) + 0.0722 * linear(self.b)
    }

    /// Contrast of two opaque colours, 1 ..= 21 (WCAG 2.2).
    #[must_use]
    pub fn contrast(self, other: Self) -> f64 {
        let a = self.luminance() + 0.05;
        let b = other.luminance() + 0.05;
        a.max(b) / a.min(b)
    }

    /// A dark or a light colour that can be read on this one: its contrast is at least 4.5.
    #[must_use]
    pub fn ink(self) -> Self {
        let soft = Self::hex(0x11_18_27);
        let can_be_read = |ink: &Self| self.contrast(*ink) >= TEXT_CONTRAST;
        // Black or white reads on each colour: one of them has a contrast of 4.58 or more.
        [soft, Self::WHITE].into_iter().find(can_be_read).unwrap_or(Self::BLACK)
    }

    /// This colour, mixed with black or white until its contrast to `ground` is at least `least`.
    #[must_use]
    pub(crate) fn apart_from(self, ground: Self, least: f64) -> Self {
        const STEPS: u8 = 16;
        let end = if ground.luminance() > 0.179 { Self::BLACK } else { Self::WHITE };
        let mixed = |step: u8| self.mix(end, step * (255 / STEPS));
        (0..=STEPS).map(mixed).find(|one| one.contrast(ground) >= least).unwrap_or(end)
    }
}

/// The least contrast of a text to what is behind it (WCAG 2.2, criterion 1.4.3).
pub(crate) const TEXT_CONTRAST: f64 = 4.5;
/// The least contrast of a mark that carries meaning to what is beside it (WCAG 2.2, criterion 1.4.11).
pub(crate) const MARK_CONTRAST: f64 = 3.0;

/// Colours of series on light ground, ordered so that the first few differ most. Each has a contrast
/// of at least 3 to white, so that a thin line of it is seen.
pub const PALETTE: [Colour; 16] = [
    Colour::hex(0x00_72_b2), // blue
    Colour::hex(0xd5_5e_00), // vermilion
    Colour::hex(0x00_9e_73), // green
    Colour::hex(0x88_22_55), // wine
    Colour::hex(0x77_88_ff), // periwinkle
    Colour::hex(0x88_11_00), // brick
    Colour::hex(0x55_99_aa), // teal
    Colour::hex(0xff_55_77), // pink
    Colour::hex(0x00_00_cc), // navy
    Colour::hex(0xbb_22_44), // crimson
    Colour::hex(0x11_66_77), // petrol
    Colour::hex(0x66_00_66), // purple
    Colour::hex(0xbb_33_00), // rust
    Colour::hex(0x11_77_55), // forest
    Colour::hex(0x66_22_22), // brown
    Colour::hex(0x00_44_ff), // cobalt
];

/// Colours of tasks on light ground; each first few of them are as far apart as they can be.
const TASKS_LIGHT: [Colour; 16] = [
    Colour::hex(0x00_77_ee),
    Colour::hex(0xff_dd_55),
    Colour::hex(0x55_88_77),
    Colour::hex(0xaa_dd_ff),
    Colour::hex(0xbb_ee_cc),
    Colour::hex(0x99_66_99),
    Colour::hex(0xdd_88_66),
    Colour::hex(0xdd_66_88),
    Colour::hex(0x00_99_cc),
    Colour::hex(0xdd_dd_99),
    Colour::hex(0xdd_aa_33),
    Colour::hex(0x22_aa_99),
    Colour::hex(0xcc_55_55),
    Colour::hex(0xbb_aa_cc),
    Colour::hex(0xaa_bb_99),
    Colour::hex(0xbb_aa_ff),
];

/// The same on dark ground.
const TASKS_DARK: [Colour; 16] = [
    Colour::hex(0x33_77_ee),
    Colour::hex(0xdd_dd_55),
    Colour::hex(0x00_88_66),
    Colour::hex(0xaa_dd_ff),
    Colour::hex(0xdd_99_aa),
    Colour::hex(0x88_77_00),
    Colour::hex(0xaa_77_aa),
    Colour::hex(0xbb_88_44),
    Colour::hex(0xcc_bb_77),
    Colour::hex(0xbb_dd_bb),
    Colour::hex(0xcc_55_66),
    Colour::hex(0xbb_55_88),
    Colour::hex(0x00_aa_88),
    Colour::hex(0x44_cc_bb),
    Colour::hex(0x99_aa_cc),
    Colour::hex(0xaa_55_bb),
];

/// Colours of tasks that differ in grey: each first few are as far apart in lightness as they can be.
const TASKS_GREY: [Colour; 5] = [
    Colour::hex(0x44_01_54),
    Colour::hex(0x20_a3_86),
    Colour::hex(0x39_56_8c),
    Colour::hex(0x46_32_7e),
    Colour::hex(0x27_7f_8e),
];

/// From low to high: dark to light, ordered in grey too (after the map "viridis" of S. van der Walt
/// and N. Smith, CC0).
const SCALE: [Colour; 8] = [
    Colour::hex(0x44_01_54),
    Colour::hex(0x46_32_7e),
    Colour::hex(0x36_5c_8d),
    Colour::hex(0x27_7f_8e),
    Colour::hex(0x1f_a1_87),
    Colour::hex(0x4a_c1_6d),
    Colour::hex(0xa0_da_39),
    Colour::hex(0xfd_e7_25),
];

pub(crate) fn on_scale(fraction: f64) -> Colour {
    let place = fraction.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let low = (place.floor() as usize).min(SCALE.len() - 2);
    SCALE[low].mix(SCALE[low + 1], ((place - low as f64) * 255.0).round() as u8)
}

/// The roles that colours play in a picture, on white or on dark ground.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    /// The colour behind the whole picture.
    pub ground: Colour,
    /// The colour behind the data.
    pub panel: Colour,
    pub text: Colour,
    pub muted: Colour,
    /// The colour of frames and axes.
    pub axis: Colour,
    pub grid: Colour,
    /// The colour of running where tasks have no colours of their own.
    pub running: Colour,
    pub waiting: Colour,
    /// The colour of what went wrong.
    pub alarm: Colour,
    /// What moved from CPU to CPU.
    pub moved: Colour,
    /// Tasks other than the target.
    pub other: Colour,
    /// The time of a CPU of which nothing is known.
    pub unknown: Colour,
    /// Tasks, those with the most time first.
    pub tasks: &'static [Colour],
    /// Marks of events by name: darker than each task on light ground, lighter on dark ground.
    pub events: [Colour; 4],
    /// The colours of a chart's series, in order.
    pub series: &'static [Colour],
}

impl Theme {
    /// The colour of a chart's series; they repeat where there are more series than colours.
    #[must_use]
    pub const fn series(&self, index: usize) -> Colour {
        self.series[index % self.series.len()]
    }
}

impl Theme {
    /// The colour of a frequency: the `step`th of `of` from the lowest to the highest, which differs most from the
    /// ground.
    #[must_use]
    pub fn speed(&self, step: usize, of: usize) -> Colour {
        let part = step as f64 / of.saturating_sub(1).max(1) as f64;
        // Beyond these parts of the scale a colour cannot be told from the ground.
        on_scale(if self.ground.luma() > 127 { 0.58 * (1.0 - part) } else { 0.36 + 0.64 * part })
    }

    /// For paper and white pages.
    #[must_use]
    pub const fn light() -> Self {
        Self {
            ground: Colour::WHITE,
            panel: Colour::WHITE,
            text: Colour::hex(0x11_18_27),
            muted: Colour::hex(0x55_60_70),
            axis: Colour::hex(0x88_90_9e),
            grid: Colour::hex(0xe5_e7_eb),
            running: Colour::hex(0x00_72_b2),
            waiting: Colour::hex(0xd5_5e_00),
            alarm: Colour::hex(0xc0_00_50),
            moved: Colour::hex(0x6b_21_a8),
            other: Colour::hex(0x1f_24_2c),
            unknown: Colour::hex(0xd1_d5_db),
            tasks: &TASKS_LIGHT,
            events: [
                Colour::hex(0x99_44_00),
                Colour::hex(0x66_33_66),
                Colour::hex(0x22_44_33),
                Colour::hex(0x33_33_00),
            ],
            series: &PALETTE,
        }
    }

    /// For print without colours: what differs, differs in grey too.
    #[must_use]
    pub const fn grey() -> Self {
        Self {
            running: Colour::hex(0x33_33_33),
            waiting: Colour::hex(0x94_94_94),
            alarm: Colour::BLACK,
            moved: Colour::hex(0x66_66_66),
            unknown: Colour::hex(0xee_ee_ee),
            tasks: &TASKS_GREY,
            events: [Colour::BLACK; 4],
            series: &TASKS_GREY,
            ..Self::light()
        }
    }

    #[must_use]
    pub const fn dark() -> Self {
        Self {
            ground: Colour::hex(0x11_15_1c),
            panel: Colour::hex(0x16_1b_24),
            text: Colour::hex(0xe8_eb_f0),
            muted: Colour::hex(0x9a_a5_b4),
            axis: Colour::hex(0x66_71_82),
            grid: Colour::hex(0x29_31_3d),
            running: Colour::hex(0x56_b4_e9),
            waiting: Colour::hex(0xe6_9f_00),
            alarm: Colour::hex(0xff_5c_8a),
            moved: Colour::hex(0xc0_9c_ff),
            other: Colour::hex(0x39_41_50),
            unknown: Colour::hex(0x2a_31_3c),
            tasks: &TASKS_DARK,
            events: [
                Colour::hex(0xff_ff_00),
                Colour::hex(0xee_bb_cc),
                Colour::hex(0xee_ff_cc),
                Colour::hex(0xee_ff_99),
            ],
            series: &TASKS_DARK,
        }
    }
}

impl Default for Theme {
    fn default() -> Self {
        Self::light()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_goes_from_one_to_the_other() {
        let black = Colour::BLACK;
        let white = Colour::WHITE;
        assert_eq!(black.mix(white, 0), black);
        assert_eq!(black.mix(white, 255), white);
        assert_eq!(black.mix(white, 128).luma(), 128);
    }

    #[test]
    fn the_highest_frequency_differs_most_from_the_ground() {
        for theme in [Theme::light(), Theme::dark()] {
            let apart = |step| theme.speed(step, 8).luma().abs_diff(theme.ground.luma());
            let all: Vec<u8> = (0..8).map(apart).collect();
            assert!(all.is_sorted(), "{all:?}");
            let seen = |step| theme.speed(step, 8).contrast(theme.panel) >= MARK_CONTRAST;
            assert!((0..8).all(seen), "each frequency is seen on the ground");
            assert_eq!(theme.speed(0, 1), theme.speed(0, 8), "one frequency is no range");
        }
    }

    #[test]
    fn a_colour_moves_away_from_its_ground_until_it_is_seen() {
        for theme in [Theme::light(), Theme::dark()] {
            for &task in theme.tasks {
                let edge = task.apart_from(theme.panel, MARK_CONTRAST);
                let contrast = edge.contrast(theme.panel);
                assert!(contrast >= MARK_CONTRAST, "{task:?} becomes {edge:?}: {contrast:.2}");
                let seen = task.contrast(theme.panel) >= MARK_CONTRAST;
                assert_eq!(edge == task, seen, "{task:?} changes only where it must");
            }
        }
    }

    #[test]
    fn in_grey_print_what_differs_can_be_told_apart() {
        let theme = Theme::grey();
        let mut states =
            [theme.running, theme.moved, theme.waiting, theme.unknown].map(Colour::luma);
        states.sort_unstable();
        assert!(states.windows(2).all(|pair| pair[1] - pair[0] >= 40), "{states:?}");
        let mut tasks: Vec<u8> = theme.tasks.iter().map(|task| task.luma()).collect();
        tasks.sort_unstable();
        assert!(tasks.windows(2).all(|pair| pair[1] - pair[0] >= 18), "{tasks:?}");
        let seen = |colour: &Colour| colour.contrast(theme.panel) >= MARK_CONTRAST;
        assert!(theme.tasks.iter().chain([&theme.running, &theme.waiting]).all(seen));
    }

    #[test]
    fn neighbours_in_the_palette_differ() {
        for pair in PALETTE.windows(2) {
            let apart = |a: u8, b: u8| i32::from(a.abs_diff(b));
            let sum = apart(pair[0].r, pair[1].r)
                + apart(pair[0].g, pair[1].g)
                + apart(pair[0].b, pair[1].b);
            assert!(sum > 150, "{pair:?}");
        }
    }

    #[test]
    fn ink_can_be_read_on_every_colour_of_the_palette() {
        let tasks = TASKS_LIGHT.into_iter().chain(TASKS_DARK);
        for colour in PALETTE.into_iter().chain(tasks) {
            let contrast = colour.contrast(colour.ink());
            assert!(contrast >= TEXT_CONTRAST, "{colour:?}: {contrast:.2}");
        }
    }
}
