//! `schedlab draw --recipe FILE`: a view described in a file, for questions that no option asks.

use super::cores::{self, View};
use super::waiting;
use super::{Common, Drawn};
use crate::commands::trace::input::Selection;
use anyhow::Context;
use schedlab_draw::Scene;
use schedlab_draw::cores::Size;
use schedlab_draw::waiting::{Tints, aligned};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab draw --recipe`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The view as TOML: title, min, max, width, topology, curve, sockets, and a table `rows` with
    /// long options of 'draw cores' (colour-by, target, order, marks, mark, cpus)
    recipe: PathBuf,
    /// Traces, in any format that schedlab reads
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    selection: Selection,
}

/// The file. Every key may be left out; what is typed beside `--recipe` wins.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Recipe {
    /// The picture's title.
    title: Option<String>,
    /// Part of the trace, as `--min` and `--max` take it.
    min: Option<String>,
    max: Option<String>,
    /// Width in pixels.
    width: Option<i32>,
    /// What `--topology` of the other pictures takes: a file, or `host`.
    topology: Option<String>,
    /// Which rows, colours and marks: the options of `draw cores` by their long names.
    rows: Option<View>,
    /// Whether the curve of running and waiting tasks stands below the rows.
    curve: bool,
    /// A curve for each socket as well.
    sockets: bool,
}

/// Draws what the recipe says.
pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let recipe = read(&args.recipe)?;
    apply(&recipe, &mut args.common)
        .map_err(|error| super::usage(format!("{}: {error}", args.recipe.display())))?;
    let (scene, drawn) = draw(&args, &recipe)?;
    args.common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Recipe> {
    let text = schedlab_sys::regular_file::text(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).map_err(|error| super::usage(format!("{}: {error}", path.display())))
}

fn apply(recipe: &Recipe, common: &mut Common) -> Result<(), String> {
    let time = |text: &Option<String>| text.as_deref().map(super::instant).transpose();
    common.min = common.min.or(time(&recipe.min)?);
    common.max = common.max.or(time(&recipe.max)?);
    common.title = common.title.take().or_else(|| recipe.title.clone());
    common.topology = common.topology.take().or_else(|| recipe.topology.clone());
    match recipe.width {
        Some(width) if (200..=20_000).contains(&width) => common.width = width,
        Some(width) => return Err(format!("invalid width {width}: use 200 to 20000 pixels")),
        None => {}
    }
    Ok(())
}

fn draw(args: &Args, recipe: &Recipe) -> anyhow::Result<(Scene, Drawn)> {
    let view = recipe.rows.clone().unwrap_or_default();
    let common = &args.common;
    let theme = common.theme();
    let (mut scene, drawn) = cores::draw(&args.files, common, &view, Some(&args.selection))?;
    if recipe.curve {
        for file in &args.files {
            let brackets = common.open(file)?.has_brackets();
            let left = Size { width_px: common.width(), row_px: None }.left_px(brackets);
            let chosen = super::chosen(&args.selection, common, file)?;
            let (mut running, _) = waiting::collect(file, common, recipe.sockets, chosen)?;
            // The rows above have the title and the notes.
            running.notes.clear();
            running.title = match &args.files[..] {
                [_] => "running and waiting tasks".to_owned(),
                _ => format!("running and waiting tasks of {}", file.display()),
            };
            scene.below(aligned(&running, common.width(), left, Tints::of(&theme), &theme));
        }
    }
    Ok((scene, drawn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_says_rows_colours_marks_and_curve() {
        let text = "
            title = 'who disturbs ua'
            min = '3s'
            max = '3.2'
            curve = true
            [rows]
            order = 'socket'
            colour-by = 'command'
            target = 'ua'
            marks = ['wakeups', 'episodes']
            mark = ['irq_handler_entry:cpu=0-3']
            cpus = '0-7'
        ";
        let recipe: Recipe = toml::from_str(text).unwrap();
        let rows = recipe.rows.unwrap();
        assert_eq!((rows.target.as_deref(), rows.marks.len(), recipe.curve), (Some("ua"), 2, true));
        assert_eq!(rows.cpus.unwrap().len(), 8);
    }

    #[test]
    fn a_misspelt_key_is_refused_by_name() {
        let Err(error) = toml::from_str::<Recipe>("[rows]\ncolor-by = 'pid'") else { panic!() };
        assert!(error.to_string().contains("color-by"), "{error}");
    }
}
