//! A picture on light and on dark ground: the page shows the one that its reader asks for.

use schedlab_draw::{Scene, SvgOptions, Theme};

/// One picture, drawn twice. A dimmed drawing would lose contrast, and grey would become the ground.
#[derive(Clone, Debug)]
pub struct ThemedScene {
    /// The drawing on white ground, for paper too.
    pub light: Scene,
    /// The drawing on dark ground, for screens in the dark.
    pub(crate) dark: Scene,
}

impl ThemedScene {
    /// Draws a picture with both themes.
    #[must_use]
    pub(crate) fn of(draw: impl Fn(&Theme) -> Scene) -> Self {
        Self { light: draw(&Theme::light()), dark: draw(&Theme::dark()) }
    }

    /// Two SVG elements. The style sheet of a report shows one of them; their clips have different names.
    #[must_use]
    pub(crate) fn svg(&self) -> String {
        let spell = |scene, prefix, class: &str| {
            let options = SvgOptions { prefix, ..SvgOptions::default() };
            let svg = schedlab_draw::svg_with(scene, options);
            svg.replacen("<svg ", &format!("<svg class=\"{class}\" "), 1)
        };
        spell(&self.light, "", "on-light") + &spell(&self.dark, "dark", "on-dark")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_draw::Rect;

    #[test]
    fn each_ground_has_its_colours_and_no_name_is_given_twice() {
        let grounds = ThemedScene::of(|theme| {
            let mut scene = Scene::new(900, 900, "t", theme.ground);
            scene.clipped(Rect::new(0, 0, 9, 9), |scene| {
                scene.rect(theme.text, Rect::new(0, 0, 5, 5));
            });
            scene
        });
        let svg = grounds.svg();
        assert_eq!(svg.matches("<svg class=\"on-").count(), 2);
        assert!(svg.contains("#111827") && svg.contains("#e8ebf0"), "{svg}");
        assert!(svg.contains("id=\"clip1\"") && svg.contains("id=\"darkclip1\""), "{svg}");
    }
}
