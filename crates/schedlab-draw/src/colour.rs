//! Colours: plain sRGB values, mixing, and the palette that tasks and series take theirs from.
//!
//! The palette is chosen for eyes and printers: hues that stay apart under the common kinds of colour
//! blindness (after M. Okabe and K. Ito, "Color Universal Design", 2008, and P. Tol's technical note
//! SRON/EPS/TN/09-002), taken at two depths each, so that neighbours also differ in grey.

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
    /// White.
    pub const WHITE: Self = Self::hex(0xff_ff_ff);
    /// Black.
    pub const BLACK: Self = Self::hex(0);

    /// From `0xRRGGBB`, opaque.
    #[must_use]
    pub const fn hex(rgb: u32) -> Self {
        let [_, r, g, b] = rgb.to_be_bytes();
        Self { r, g, b, a: 255 }
    }

    /// The same colour with another opacity.
    #[must_use]
    pub const fn fade(self, a: u8) -> Self {
        Self { a, ..self }
    }

    /// `parts` of 255 of `other` mixed into this colour, channel by channel in sRGB.
    #[must_use]
    pub fn mix(self, other: Self, parts: u8) -> Self {
        let (new, old) = (u32::from(parts), 255 - u32::from(parts));
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
    pub fn luma(self) -> u8 {
        let sum = 299 * u32::from(self.r) + 587 * u32::from(self.g) + 114 * u32::from(self.b);
        u8::try_from(sum / 1_000).expect("weights sum to 1,000")
    }

    /// Black or white, whichever is easier to read on this colour.
    #[must_use]
    pub fn ink(self) -> Self {
        if self.luma() > 140 { Self::hex(0x11_18_27) } else { Self::WHITE }
    }
}

/// Colours of series and tasks, ordered so that neighbours differ most.
pub const PALETTE: [Colour; 16] = [
    Colour::hex(0x00_72_b2), // blue
    Colour::hex(0xe6_9f_00), // orange
    Colour::hex(0x00_9e_73), // green
    Colour::hex(0xcc_79_a7), // pink
    Colour::hex(0x56_b4_e9), // sky
    Colour::hex(0xd5_5e_00), // vermilion
    Colour::hex(0x44_aa_99), // teal
    Colour::hex(0x88_22_55), // wine
    Colour::hex(0xdd_cc_77), // sand
    Colour::hex(0x33_22_88), // indigo
    Colour::hex(0x99_99_33), // olive
    Colour::hex(0xee_88_66), // salmon
    Colour::hex(0x11_77_33), // forest
    Colour::hex(0xaa_44_99), // purple
    Colour::hex(0x77_aa_dd), // pale blue
    Colour::hex(0x66_11_00), // brown
];

/// The colour of a number, the same in every picture: neighbouring numbers get unlike colours, and
/// each colour comes in three depths before one is used again.
#[must_use]
pub fn of_number(number: u64) -> Colour {
    let hues = PALETTE.len() as u64;
    let hue = PALETTE[usize::try_from(number % hues).expect("smaller than the palette")];
    match number / hues % 3 {
        0 => hue,
        1 => hue.mix(Colour::WHITE, 100),
        _ => hue.mix(Colour::BLACK, 80),
    }
}

/// The colour of a name, the same in every picture (FNV-1a over its bytes).
#[must_use]
pub fn of_name(name: &[u8]) -> Colour {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of FNV are its weakest.
    of_number(hash ^ hash >> 29)
}

/// The roles that colours play in a picture, on white or on dark ground.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Behind everything.
    pub ground: Colour,
    /// Behind the data.
    pub panel: Colour,
    /// Titles and values.
    pub text: Colour,
    /// Labels and notes.
    pub muted: Colour,
    /// Frames and axes.
    pub axis: Colour,
    /// Grid lines.
    pub grid: Colour,
    /// What runs, where tasks are not told apart.
    pub running: Colour,
    /// What waits.
    pub waiting: Colour,
    /// What went wrong.
    pub alarm: Colour,
    /// What moved from CPU to CPU.
    pub moved: Colour,
    /// Tasks other than the target.
    pub other: Colour,
    /// The time of a CPU of which nothing is known.
    pub unknown: Colour,
}

impl Theme {
    /// For paper and white pages.
    #[must_use]
    pub const fn light() -> Self {
        Self {
            ground: Colour::WHITE,
            panel: Colour::WHITE,
            text: Colour::hex(0x11_18_27),
            muted: Colour::hex(0x55_60_70),
            axis: Colour::hex(0x9c_a3_af),
            grid: Colour::hex(0xe5_e7_eb),
            running: Colour::hex(0x00_72_b2),
            waiting: Colour::hex(0xd5_5e_00),
            alarm: Colour::hex(0xc0_00_50),
            moved: Colour::hex(0x6b_21_a8),
            other: Colour::hex(0x1f_24_2c),
            unknown: Colour::hex(0xd1_d5_db),
        }
    }

    /// For screens in the dark.
    #[must_use]
    pub const fn dark() -> Self {
        Self {
            ground: Colour::hex(0x11_15_1c),
            panel: Colour::hex(0x16_1b_24),
            text: Colour::hex(0xe8_eb_f0),
            muted: Colour::hex(0x9a_a5_b4),
            axis: Colour::hex(0x5b_66_75),
            grid: Colour::hex(0x29_31_3d),
            running: Colour::hex(0x56_b4_e9),
            waiting: Colour::hex(0xe6_9f_00),
            alarm: Colour::hex(0xff_5c_8a),
            moved: Colour::hex(0xc0_9c_ff),
            other: Colour::hex(0xd6_da_e0),
            unknown: Colour::hex(0x3a_42_4f),
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
        let (black, white) = (Colour::BLACK, Colour::WHITE);
        assert_eq!(black.mix(white, 0), black);
        assert_eq!(black.mix(white, 255), white);
        assert_eq!(black.mix(white, 128).luma(), 128);
    }

    #[test]
    fn neighbours_in_the_palette_differ_and_a_name_keeps_its_colour() {
        for pair in PALETTE.windows(2) {
            let apart = |a: u8, b: u8| i32::from(a.abs_diff(b));
            let sum = apart(pair[0].r, pair[1].r)
                + apart(pair[0].g, pair[1].g)
                + apart(pair[0].b, pair[1].b);
            assert!(sum > 150, "{pair:?}");
        }
        assert_eq!(of_name(b"kworker/0:1"), of_name(b"kworker/0:1"));
        assert_ne!(of_name(b"ua"), of_name(b"sh"));
    }

    #[test]
    fn ink_can_be_read_on_every_colour_of_the_palette() {
        for colour in PALETTE {
            let apart = colour.luma().abs_diff(colour.ink().luma());
            assert!(apart > 90, "{colour:?}: {apart}");
        }
    }
}
