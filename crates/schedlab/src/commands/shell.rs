//! `schedlab shell`: completions and man pages, from the same source as the help.

use anyhow::Context as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab shell`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab shell bash > /etc/bash_completion.d/schedlab
  schedlab shell zsh > ~/.zfunc/_schedlab
  schedlab shell man > /usr/local/share/man/man1/schedlab.1
  schedlab shell man --output /usr/local/share/man/man1")]
pub(crate) struct Args {
    /// Print completions for this shell, or the man page
    what: What,
    /// Write a man page for each command to DIR
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
    Man,
}

/// Runs it; `command` is all that can be typed.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    use clap_complete::Shell;
    if let Some(folder) = &args.output {
        if !matches!(args.what, What::Man) {
            let what = "--output is for man pages; completions go to the standard output";
            return Err(super::UsageError(what.into()).into());
        }
        pages(command, folder).with_context(|| folder.display().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = Vec::new();
    let shell = match args.what {
        What::Bash => Some(Shell::Bash),
        What::Elvish => Some(Shell::Elvish),
        What::Fish => Some(Shell::Fish),
        What::Powershell => Some(Shell::PowerShell),
        What::Zsh => Some(Shell::Zsh),
        What::Man => None,
    };
    match shell {
        Some(shell) => clap_complete::generate(shell, &mut command, "schedlab", &mut text),
        None => man(command, &mut text)?,
    }
    crate::output::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// One page for the command and all its subcommands, so that `man schedlab` finds everything.
fn man(mut command: clap::Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    command.build();
    clap_mangen::Man::new(command.clone()).render(text)?;
    let subcommands: Vec<_> = command.get_subcommands().cloned().collect();
    for subcommand in subcommands {
        let title = subcommand.get_name().to_uppercase();
        writeln!(text, ".SH \"SCHEDLAB {title}\"")?;
        let page = clap_mangen::Man::new(subcommand);
        page.render_description_section(text)?;
        page.render_options_section(text)?;
        page.render_subcommands_section(text)?;
    }
    Ok(())
}

/// A page for each command and subcommand: `man schedlab-trace-latency` finds its options. The page of the
/// whole lists them all.
fn pages(command: clap::Command, folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command.clone(), folder)?;
    let mut whole = Vec::new();
    man(command, &mut whole)?;
    schedlab_trace::write_file(&folder.join("schedlab.1"), whole)
}
