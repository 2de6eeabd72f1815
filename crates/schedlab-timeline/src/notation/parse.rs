//! From text to rows and statements; what happens between columns is decided in `edges`.

use super::Trace;
use super::edges::{Edges, Statement};
use super::grid::{Grid, ParseError, Place, Shown, pid};
use schedlab_model::{Clock, Cpu, CpuSet, Nanos, Phase, Span, TraceInfo};

/// Reads the notation.
///
/// # Errors
/// When a line cannot be read, or the columns contradict each other.
pub fn parse(text: &str) -> Result<Trace, ParseError> {
    let mut grid = Grid::default();
    let mut statements = Vec::new();
    let mut tick = Nanos::from_micros(1);
    let mut info = TraceInfo::new("notation", Clock::Nanoseconds("notation".into()));
    for task in 0..26_u8 {
        let mut comm = [0; 16];
        comm[0] = b'A' + task;
        info.comms.insert(pid(task.into()), comm);
    }
    let mut waits: Vec<(usize, Cpu, &str)> = Vec::new();
    for (line, raw) in (1..).zip(text.lines()) {
        let fail = |what: String| ParseError { line, what };
        let trimmed = raw.trim();
        if trimmed.is_empty() || trimmed.starts_with(';') {
            continue;
        }
        if let Some((head, row)) = raw.split_once('|') {
            // One blank after the bar belongs to the frame.
            let row = row.strip_prefix(' ').unwrap_or(row).trim_end();
            match head.trim() {
                "" => {
                    let last = grid.cpus.last().copied();
                    let cpu = last.ok_or_else(|| fail("waiters before any CPU".into()))?;
                    waits.push((line, cpu, row));
                }
                number => {
                    let cpu = number.parse().map_err(|_| {
                        fail(format!("invalid CPU '{number}': use a number from 0 to 65535"))
                    })?;
                    grid.cpus.push(Cpu(cpu));
                    grid.shown.push(shown(row).map_err(fail)?);
                }
            }
        } else if let Some(duration) = trimmed.strip_prefix("tick ") {
            tick = duration.parse().map_err(|error| fail(format!("{error}")))?;
        } else if let Some((letter, name)) = trimmed.split_once(" is called ") {
            let mut comm = [0; 16];
            let length = name.len().min(15);
            comm[..length].copy_from_slice(&name.as_bytes()[..length]);
            info.comms.insert(pid(letter_of(letter).map_err(fail)?), comm);
        } else {
            statements.push((line, statement(trimmed).map_err(fail)?));
        }
    }
    fill(&mut grid, &waits)?;
    info.cpus = covered(&grid);
    let columns = grid.places.len() as u64;
    info.span = Some(Span::new(Nanos::ZERO, Nanos(columns * tick.0)));
    let events = Edges::new(&grid, &statements, tick).events()?;
    Ok(Trace { info, events, tick })
}

fn shown(row: &str) -> Result<Vec<Shown>, String> {
    let one = |letter: char| match letter {
        '.' => Ok(Shown::Idle),
        '?' => Ok(Shown::Unknown),
        '-' => Ok(Shown::Uncovered),
        'A'..='Z' => Ok(Shown::Task((letter as u8 - b'A').into())),
        other => Err(format!("invalid state of a CPU '{other}': see the table in `notation`")),
    };
    row.chars().map(one).collect()
}

fn letter_of(text: &str) -> Result<usize, String> {
    match text.trim().as_bytes() {
        [letter @ b'A'..=b'Z'] => Ok((letter - b'A').into()),
        _ => Err(format!("invalid task '{text}': use one letter")),
    }
}

/// The CPUs whose rows are not all `-`.
fn covered(grid: &Grid) -> CpuSet {
    let rows = grid.cpus.iter().zip(&grid.shown);
    let covered = rows.filter(|(_, row)| row.iter().any(|shown| *shown != Shown::Uncovered));
    covered.map(|(cpu, _)| *cpu).collect()
}

/// Puts every task where the rows show it.
fn fill(grid: &mut Grid, waits: &[(usize, Cpu, &str)]) -> Result<(), ParseError> {
    let columns = grid.shown.first().map_or(0, Vec::len);
    if let Some(at) = grid.shown.iter().position(|row| row.len() != columns) {
        let what = format!("the row of CPU {} is not as long as the first row", grid.cpus[at]);
        return Err(ParseError { line: 0, what });
    }
    grid.places = vec![[Place::Away; 26]; columns];
    let mut put = |line: usize, column: usize, task: usize, place: Place| {
        let what = |what: String| Err(ParseError { line, what });
        let letter = char::from(b'A' + task as u8);
        match grid.places.get_mut(column).map(|places| &mut places[task]) {
            None => what(format!("{letter} waits beyond the last column")),
            Some(Place::Away) => {
                grid.places[column][task] = place;
                Ok(())
            }
            Some(_) => what(format!("{letter} is in two places in column {column}")),
        }
    };
    for (cpu, row) in grid.cpus.iter().zip(&grid.shown) {
        for (column, shown) in row.iter().enumerate() {
            if let Shown::Task(task) = shown {
                put(0, column, *task, Place::Runs(*cpu))?;
            }
        }
    }
    for (line, cpu, row) in waits {
        for (column, letter) in row.chars().enumerate() {
            match letter {
                ' ' => {}
                'a'..='z' => {
                    put(*line, column, (letter as u8 - b'a').into(), Place::Waits(*cpu))?;
                }
                other => {
                    let what = format!("invalid waiting task '{other}': use one letter");
                    return Err(ParseError { line: *line, what });
                }
            }
        }
    }
    Ok(())
}

/// Reads a line `at N: ...`.
fn statement(line: &str) -> Result<(usize, Statement), String> {
    let usage = || format!("invalid line '{line}': see the table in `notation`");
    let (at, what) =
        line.strip_prefix("at ").and_then(|rest| rest.split_once(':')).ok_or_else(usage)?;
    let column =
        at.trim().parse().map_err(|_| format!("invalid column '{at}': use a whole number"))?;
    let words: Vec<&str> = what.split_whitespace().collect();
    let number =
        |text: &str| text.parse().map_err(|_| format!("invalid number '{text}': use digits"));
    let statement = match words[..] {
        [waker, "wakes", task] => {
            Statement::Wakes { waker: letter_of(waker)?, task: letter_of(task)? }
        }
        ["interrupt", "on", cpu, "wakes", task] => {
            let cpu = Cpu(cpu
                .parse()
                .map_err(|_| format!("invalid CPU '{cpu}': use a number from 0 to 65535"))?);
            Statement::Interrupt { cpu, task: letter_of(task)? }
        }
        [parent, "forks", child] => {
            Statement::Forks { parent: letter_of(parent)?, child: letter_of(child)? }
        }
        [task, "dies"] => Statement::Dies { task: letter_of(task)? },
        [task, "is", "displaced"] => Statement::Displaced { task: letter_of(task)? },
        ["lose", count, "on", cpu] => {
            let cpu = Cpu(cpu
                .parse()
                .map_err(|_| format!("invalid CPU '{cpu}': use a number from 0 to 65535"))?);
            Statement::Loses { cpu, count: number(count)? }
        }
        [task, "marks", id, phase, ref of @ ..] => {
            let phase = match phase {
                "begin" => Phase::Begin,
                "end" => Phase::End,
                "point" => Phase::Point,
                other => return Err(format!("invalid phase '{other}': use begin, end or point")),
            };
            let request = match of {
                [] => 0,
                ["of", request] => number(request)?,
                _ => return Err(usage()),
            };
            Statement::Marks { task: letter_of(task)?, id: number(id)?, phase, request }
        }
        _ => return Err(usage()),
    };
    Ok((column, statement))
}
