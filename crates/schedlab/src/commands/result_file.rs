//! Files of results: written at once, and pictures in the format that their names say.

use super::UsageError;
use anyhow::Context as _;
use schedlab_draw::{Scene, Theme};
use std::path::Path;

/// Pixels of a PNG for each pixel of the picture, as `draw` has by default: words are sharp.
const PNG_SCALE: u32 = 2;

/// On which ground a picture is drawn.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Ground {
    /// Draw light on dark
    #[arg(long)]
    dark: bool,
}

impl Ground {
    /// The colours of the picture.
    pub(crate) fn theme(self) -> Theme {
        if self.dark { Theme::dark() } else { Theme::light() }
    }
}

/// Refuses a name that asks for no format, before a run that could not be drawn.
pub(super) fn check_picture(file: &Path) -> anyhow::Result<()> {
    match extension(file).as_deref() {
        Some("svg" | "pdf" | "png") => Ok(()),
        _ => Err(no_format(file)),
    }
}

fn extension(file: &Path) -> Option<String> {
    file.extension().map(|end| end.to_string_lossy().to_lowercase())
}

fn no_format(file: &Path) -> anyhow::Error {
    UsageError(format!("{}: invalid name: use the ending .svg, .pdf or .png", file.display()))
        .into()
}

/// Writes a picture in the format that the name asks for.
pub(super) fn save_picture(file: &Path, scene: &Scene) -> anyhow::Result<()> {
    let bytes = match extension(file).as_deref() {
        Some("svg") => schedlab_draw::svg(scene).into_bytes(),
        Some("pdf") => schedlab_draw::pdf(scene),
        Some("png") => schedlab_draw::png(scene, PNG_SCALE)?,
        _ => return Err(no_format(file)),
    };
    save(file, &bytes)
}

/// A file of results, written beside and renamed, so that a half file is never seen.
pub(super) fn save(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    std::fs::write(partial, bytes)
        .and_then(|()| std::fs::rename(partial, file))
        .with_context(|| format!("cannot write {}", file.display()))
}
