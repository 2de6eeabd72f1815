//! Files of results: the old one or the whole new one, and pictures in the format that their names say.

use super::UsageError;
use anyhow::Context as _;
use schedlab_draw::{Scene, Theme};
use std::io::Write as _;
use std::path::Path;

/// Pixels of a PNG for each pixel of the picture, as `draw` has by default: words are sharp.
const PNG_SCALE: u32 = 2;

/// On which ground a picture is drawn.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct ThemeOption {
    /// Draw light on dark
    #[arg(long)]
    dark: bool,
}

impl ThemeOption {
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

/// Adds Markdown to the summary of a job on GitHub.
pub(crate) fn add_to_summary(markdown: &str) -> anyhow::Result<()> {
    let Some(file) = std::env::var_os("GITHUB_STEP_SUMMARY") else {
        let what = "--github: $GITHUB_STEP_SUMMARY is not set; GitHub sets it in its jobs";
        return Err(UsageError(what.into()).into());
    };
    let mut summary = std::fs::OpenOptions::new().append(true).create(true).open(&file)?;
    Ok(summary.write_all(markdown.as_bytes())?)
}

/// Refuses a name that cannot be written, before what takes long.
pub(crate) fn check_place(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() || file.is_dir() {
        let what = format!("cannot write {}: {} is not a folder", file.display(), folder.display());
        let is_one = format!("cannot write {}: it is a folder", file.display());
        return Err(UsageError(if file.is_dir() { is_one } else { what }).into());
    }
    Ok(())
}

/// Writes a file that the user named: a half file is never seen.
pub(crate) fn save(file: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    schedlab_trace::write_file(file, bytes)
        .with_context(|| format!("cannot write {}", file.display()))
}
