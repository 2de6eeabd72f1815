//! The command under the names `dat2graph2` and `running_waiting` (a link with that name): the
//! options that those tools are publicly known by, their meaning, and their names of files and titles.
//!
//! Known are `--socket-order`, `--min`, `--max`, `--target` and `--color-by-command`, and of
//! `running_waiting` only its picture; nothing else is claimed. `--topology` is ours, since most
//! traces do not tell which CPUs share a socket.

use super::cores::{ColourBy, Order, View};
use super::{Common, cores, waiting};
use clap::Parser;
use schedlab_draw::cores::Size;
use schedlab_draw::waiting::{Tints, waiting as draw_waiting};
use schedlab_draw::{Colour, Scene, Theme};
use schedlab_model::{Nanos, Point};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Each core's row over time, as one PDF for each trace
#[derive(Parser)]
#[command(name = "dat2graph2", max_term_width = 100)]
struct Dat2graph2 {
    /// Group the cores of a socket, the first socket at the bottom
    #[arg(long)]
    socket_order: bool,
    /// Start here, in seconds since the start of the trace
    #[arg(long, value_name = "S")]
    min: Option<String>,
    /// End here, in seconds since the start of the trace
    #[arg(long, value_name = "S")]
    max: Option<String>,
    /// Colour only tasks whose name starts with NAME; draw the rest black
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Choose colours by command instead of by pid
    #[arg(long)]
    color_by_command: bool,
    /// How CPUs share caches and sockets, if the trace does not say: 'host', a copy of /sys, or a
    /// file made by 'lscpu -p'
    #[arg(long, value_name = "FILE|DIR|host")]
    topology: Option<String>,
    /// Traces
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// How many tasks run (green) and wait (red), as one PDF for each trace
#[derive(Parser)]
#[command(name = "running_waiting", max_term_width = 100)]
struct RunningWaiting {
    /// Start here, in seconds since the start of the trace
    #[arg(long, value_name = "S")]
    min: Option<String>,
    /// End here, in seconds since the start of the trace
    #[arg(long, value_name = "S")]
    max: Option<String>,
    /// Traces
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Runs as `dat2graph2`.
pub(crate) fn dat2graph2(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let args = match parse::<Dat2graph2>(arguments) {
        Ok(args) => args,
        Err(code) => return Ok(code),
    };
    for file in &args.files {
        let name = args.name(file);
        let mut common = Common::for_file(PathBuf::from(format!("{name}.pdf")));
        (common.min, common.max) = window(&args.min, &args.max)?;
        common.topology = args.topology.clone();
        let view = View {
            colour_by: if args.color_by_command { ColourBy::Command } else { ColourBy::Pid },
            target: args.target.clone(),
            order: if args.socket_order { Order::Socket } else { Order::Cpu },
            ..View::default()
        };
        let theme = Theme { other: Colour::BLACK, ..Theme::light() };
        let size = Size { width_px: common.width(), row_px: None };
        let (mut rows, drawn) = cores::trace(file, &common, &view, size, &theme)?;
        // The first core, and the first socket, stand at the bottom.
        rows.rows.reverse();
        rows.notes.clear();
        rows.title = format!("{name}, duration: {} seconds", seconds(end(file, &common)?));
        common.write(&schedlab_draw::cores::cores(&rows, size, &theme), &drawn)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Dat2graph2 {
    /// The trace's name and the options, in the order in which the tool puts them.
    fn name(&self, file: &Path) -> String {
        let mut name = stem(file);
        let mut add = |part: &str| {
            name.push('_');
            name.push_str(part);
        };
        if let Some(min) = &self.min {
            add(&format!("from_{min}"));
        }
        if self.socket_order {
            add("socketorder");
        }
        if let Some(max) = &self.max {
            add(&format!("upto_{max}"));
        }
        if self.color_by_command {
            add("color");
        }
        name
    }
}

/// Runs as `running_waiting`.
pub(crate) fn running_waiting(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let args = match parse::<RunningWaiting>(arguments) {
        Ok(args) => args,
        Err(code) => return Ok(code),
    };
    for file in &args.files {
        let name = format!("{}_running_waiting", stem(file));
        let mut common = Common::for_file(PathBuf::from(format!("{name}.pdf")));
        (common.min, common.max) = window(&args.min, &args.max)?;
        let (mut running, drawn) =
            waiting::collect(file, &common, false, schedlab_timeline::Chosen::all())?;
        running.title = format!("{name}, duration: {} seconds", seconds(end(file, &common)?));
        running.notes.clear();
        let theme = Theme::light();
        let scene: Scene = draw_waiting(&running, common.width(), Tints::green_and_red(), &theme);
        common.write(&scene, &drawn)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parse<T: Parser>(arguments: Vec<OsString>) -> Result<T, ExitCode> {
    T::try_parse_from(arguments).map_err(|error| crate::tell(&error))
}

fn window(
    min: &Option<String>,
    max: &Option<String>,
) -> anyhow::Result<(Option<Point>, Option<Point>)> {
    let time = |text: &Option<String>| text.as_deref().map(super::instant).transpose();
    Ok((time(min).map_err(super::usage)?, time(max).map_err(super::usage)?))
}

/// The file's name without directory and ending: pictures go where the tool is called.
fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// What the title calls the duration: where the first event after the window lies, or the trace's
/// length when there is no end.
fn end(file: &Path, common: &Common) -> anyhow::Result<Nanos> {
    let window = common.open(file)?;
    let Some(max) = window.cut.to else { return Ok(window.span.end - window.origin) };
    let mut source = window.source;
    let mut batch = Vec::new();
    let mut last = window.span.end;
    while source.next(&mut batch)? {
        if let Some(event) = batch.iter().find(|event| event.time > window.origin + max) {
            return Ok(event.time - window.origin);
        }
        last = batch.last().map_or(last, |event| event.time);
    }
    Ok(last - window.origin)
}

fn seconds(time: Nanos) -> String {
    let micros = (time.0 + 500) / 1_000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_together_as_the_tool_does() {
        let name = |line: &str| {
            let args = Dat2graph2::try_parse_from(line.split(' ')).unwrap();
            args.name(&args.files[0])
        };
        assert_eq!(name("dat2graph2 --socket-order d/ua_5.dat"), "ua_5_socketorder");
        assert_eq!(
            name("dat2graph2 --socket-order --min 3 --max 3.2 --target ua ua_5.dat"),
            "ua_5_from_3_socketorder_upto_3.2"
        );
        assert_eq!(
            name("dat2graph2 --min 3.0755 --max 3.0765 --color-by-command --socket-order ua_5.dat"),
            "ua_5_from_3.0755_socketorder_upto_3.0765_color"
        );
        assert_eq!(seconds(Nanos(3_203_655_400)), "3.203655");
    }
}
