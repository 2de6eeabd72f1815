//! The view on a terminal: the screen is taken and given back, keys are read, and what they ask for is done beside the
//! reading of the rings.

use super::snapshots::made;
use super::view::{Do, View};
use super::{Args, Watched};
use crate::commands::record::Files;
use anyhow::Context as _;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use schedlab_model::Pid;
use schedlab_record::live::Live;
use schedlab_sys::{process, signal};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The screen, which is given back when this is dropped, also after a panic. The terminal's own drop would write to the
/// standard error, and panic where that is gone with the screen.
struct Screen(ManuallyDrop<Terminal<CrosstermBackend<io::Stdout>>>);

impl Screen {
    fn take() -> anyhow::Result<Self> {
        enable_raw_mode().context("taking the terminal")?;
        let mut out = crate::output::screen();
        execute!(out, EnterAlternateScreen, cursor::Hide)?;
        Ok(Self(ManuallyDrop::new(Terminal::new(CrosstermBackend::new(out))?)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(crate::output::screen(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// The result of work that a thread did beside the view.
struct Finished {
    message: String,
    text: Option<String>,
}

/// Whether a person can see and type.
pub(super) fn is_there() -> bool {
    use std::io::IsTerminal as _;
    io::stdin().is_terminal() && crate::output::screen().is_terminal()
}

/// Whether colours are wanted: <https://no-color.org>, and terminals that have none.
fn has_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.starts_with("vt"));
    !is_set("NO_COLOR") && !dumb
}

/// Shows window after window until somebody quits. Traces that are being made are finished then.
pub(super) fn run(
    args: &Args,
    watched: &mut Watched,
    live: &mut Live,
    signals: signal::Signals,
) -> anyhow::Result<()> {
    let mut saves = Vec::new();
    Files::of(&args.output)?.remove_what_was_killed();
    let done = show(args, watched, live, signals, &mut saves);
    for save in saves {
        let _ = save.join();
    }
    done
}

fn show(
    args: &Args,
    watched: &mut Watched,
    live: &mut Live,
    signals: signal::Signals,
    saves: &mut Vec<JoinHandle<()>>,
) -> anyhow::Result<()> {
    let own = Pid(i32::try_from(std::process::id()).unwrap_or(0));
    let mut view = View::new(args.by, has_colours(), own);
    let mut screen = Screen::take()?;
    let (tell, told) = channel();
    let stdin = io::stdin();
    let last = args.time.map(|time| watched.began + time);
    loop {
        let end = watched.next(args);
        let is_over = last.is_some_and(|last| end > last) || signals.caught().is_some();
        if is_over || process::is_hung_up(stdin.as_fd())? {
            return Ok(());
        }
        screen.0.draw(|frame| view.draw(frame))?;
        let typed = live.wait(Live::settles(end), &[signals.fd(), stdin.as_fd()])?;
        if !typed {
            let window = watched.window(args, live, end)?;
            for said in watched.count(args, live, &window, end) {
                view.say(said);
            }
            view.take(window);
        }
        show_finished(&mut view, &told);
        // crossterm reads a terminal that is gone for ever.
        while !process::is_hung_up(stdin.as_fd())? && event::poll(Duration::ZERO)? {
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match view.key(key) {
                Some(Do::Quit) => return Ok(()),
                Some(asked) => saves.extend(save(args, live, &mut view, asked == Do::Why, &tell)),
                None => {}
            }
        }
    }
}

/// Shows what threads have finished.
fn show_finished(view: &mut View, finished: &Receiver<Finished>) {
    for Finished { message, text } in finished.try_iter() {
        view.say(message);
        text.iter().for_each(|text| view.show(text));
    }
}

/// Writes the last seconds as a trace, and lets a thread make the file, and the answer about it.
fn save(
    args: &Args,
    live: &Live,
    view: &mut View,
    is_asked: bool,
    tell: &Sender<Finished>,
) -> Option<JoinHandle<()>> {
    let saved = Files::of(&args.output).and_then(|files| {
        let (file, spool) = files.next()?;
        live.save(&spool, None)?;
        Ok((file, spool))
    });
    let (file, spool) = match saved {
        Ok(saved) => saved,
        Err(error) => {
            view.say(format!("no trace: {error:#}"));
            return None;
        }
    };
    view.say(format!("writing {}", file.display()));
    let tell = tell.clone();
    let work = move || {
        let finished = make(&spool, &file, is_asked).unwrap_or_else(|error| {
            let message = format!("no trace: {error:#}");
            Finished { message, text: None }
        });
        // Nobody listens once the view has ended; the file is there.
        let _ = tell.send(finished);
    };
    let thread = std::thread::Builder::new().name("sl-save".into()).spawn(work);
    if let Err(error) = &thread {
        view.say(format!("no trace: {error}"));
    }
    thread.ok()
}

/// Makes the trace, and asks it.
fn make(spool: &Path, file: &Path, is_asked: bool) -> anyhow::Result<Finished> {
    let message = made(spool, file)?;
    if !is_asked {
        return Ok(Finished { message, text: None });
    }
    let program = process::this_program()?;
    let output = Command::new(program).arg("why").arg(file).output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = format!("$ schedlab why {}\n{}", file.display(), String::from_utf8_lossy(&text));
    Ok(Finished { message, text: Some(text) })
}
