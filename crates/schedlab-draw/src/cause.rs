//! How a wait looks by its cause: one list for the page, its legend and the pictures.

use crate::colour::Colour;
use schedlab_timeline::WaitCause;

/// Lines over a colour, so that causes can be told apart without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Plain,
    /// Lines that rise to the right.
    Rising,
    /// Lines that fall to the right.
    Falling,
    Crossed,
    Upright,
    Level,
    Dotted,
}

impl Pattern {
    /// As a word in the page.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Rising => "rising",
            Self::Falling => "falling",
            Self::Crossed => "crossed",
            Self::Upright => "upright",
            Self::Level => "level",
            Self::Dotted => "dotted",
        }
    }
}

/// The colour of a cause on light and on dark ground, and its pattern. Causes whose colours are near each other differ in
/// their patterns.
#[must_use]
pub(crate) const fn look(cause: WaitCause) -> (Colour, Colour, Pattern) {
    let (light, dark, pattern) = match cause {
        WaitCause::Offline => (0x11_18_27, 0xe8_eb_f0, Pattern::Crossed),
        WaitCause::Throttled => (0xa0_00_80, 0xff_7a_d9, Pattern::Rising),
        WaitCause::HeldBack => (0x6e_6a_00, 0xd8_d0_60, Pattern::Falling),
        WaitCause::HandingOver => (0x00_80_70, 0x3f_c8_b4, Pattern::Plain),
        WaitCause::Interrupt => (0x5b_3a_b0, 0xb8_a0_ff, Pattern::Level),
        WaitCause::Pinned => (0x00_50_c8, 0x6f_ad_ff, Pattern::Upright),
        WaitCause::Misplaced => (0xc0_00_20, 0xff_5c_6a, Pattern::Crossed),
        WaitCause::KernelThread => (0x7a_4a_1e, 0xd0_a0_70, Pattern::Dotted),
        WaitCause::Deadline => (0x2a_6a_2a, 0x90_d8_80, Pattern::Upright),
        WaitCause::RealTime => (0x8a_2a_00, 0xff_9d_70, Pattern::Level),
        WaitCause::OwnGroup => (0xb0_78_00, 0xf2_d0_40, Pattern::Dotted),
        WaitCause::OtherGroup => (0xd5_5e_00, 0xe6_9f_00, Pattern::Rising),
        WaitCause::Fair => (0xd5_5e_00, 0xe6_9f_00, Pattern::Plain),
        // What is not known, and what later versions of the list add.
        _ => (0x70_78_86, 0x8a_94_a4, Pattern::Dotted),
    };
    (Colour::hex(light), Colour::hex(dark), pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Theme;
    use crate::colour::MARK_CONTRAST;

    #[test]
    fn each_cause_is_seen_on_its_ground_and_differs_from_each_other() {
        for (index, cause) in WaitCause::ALL.into_iter().enumerate() {
            let (light, dark, pattern) = look(cause);
            for (colour, theme) in [(light, Theme::light()), (dark, Theme::dark())] {
                let contrast = colour.contrast(theme.panel);
                assert!(contrast >= MARK_CONTRAST, "{cause:?}: {contrast:.2}");
            }
            for other in &WaitCause::ALL[..index] {
                let same = look(*other);
                assert!(
                    same.2 != pattern || far(light, same.0) && far(dark, same.1),
                    "{cause:?}, {other:?}"
                );
            }
        }
    }

    fn far(a: Colour, b: Colour) -> bool {
        let apart = |a: u8, b: u8| i32::from(a.abs_diff(b));
        apart(a.r, b.r) + apart(a.g, b.g) + apart(a.b, b.b) > 100
    }
}
