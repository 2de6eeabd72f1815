//! `schedlab shell`: completions and the man page, from the same source as the help.

use std::io::Write;
use std::process::ExitCode;

/// Options of `schedlab shell`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab shell bash > /etc/bash_completion.d/schedlab
  schedlab shell zsh > ~/.zfunc/_schedlab
  schedlab shell man > /usr/local/share/man/man1/schedlab.1")]
pub(crate) struct Args {
    /// Print completions for this shell, or the man page
    what: What,
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
