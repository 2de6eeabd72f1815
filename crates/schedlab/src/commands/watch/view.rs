//! The terminal view: what is shown and what keys do. It draws from the last window alone, and does nothing itself: what a
//! key asks for is returned ([`Do`]).

use super::window::{By, Entry, Window};
use crate::commands::trace::why::overview::percent;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use schedlab_model::{Nanos, Pid};
use schedlab_timeline::{Parts, WaitCause, is_kernel_thread};
use std::cmp::Reverse;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Do {
    Quit,
    /// Write the last seconds as a trace.
    Trace,
    /// The same, and show what `why` says of it.
    Why,
}

/// By what rows are sorted, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Name,
    Waited,
    Worst,
    P99,
    Cpu,
    Throttled,
    Wakeups,
    Switches,
}

impl Sort {
    const ALL: [Self; 8] = [
        Self::Name,
        Self::Waited,
        Self::Worst,
        Self::P99,
        Self::Cpu,
        Self::Throttled,
        Self::Wakeups,
        Self::Switches,
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Waited => "WAITED",
            Self::Worst => "WORST",
            Self::P99 => "P99",
            Self::Cpu => "CPU",
            Self::Throttled => "THROTTLED",
            Self::Wakeups => "WAKE",
            Self::Switches => "SWI",
        }
    }

    /// Characters of the column; of names, those left over.
    const fn width(self) -> usize {
        match self {
            Self::Name => 0,
            Self::Waited | Self::P99 | Self::Cpu => 8,
            Self::Worst => 9,
            Self::Throttled => 10,
            Self::Wakeups | Self::Switches => 6,
        }
    }

    fn cell(self, row: &Entry) -> String {
        match self {
            // Short, so that more of the name fits.
            Self::Name if row.pid.is_none() && row.tasks > 1 => {
                format!("{} \u{d7}{}", row.name(), row.tasks)
            }
            Self::Name => row.title(),
            Self::Waited => time(row.parts.sum()),
            Self::Worst if row.is_open => format!("≥{}", time(row.longest)),
            Self::Worst => time(row.longest),
            Self::P99 => {
                row.delays.run_delay.quantile(0.99).map_or("-".into(), |ns| time(Nanos(ns)))
            }
            Self::Cpu => time(row.ran),
            Self::Throttled => time(row.parts.of(WaitCause::Throttled)),
            Self::Wakeups => count(row.wakeups),
            Self::Switches => count(row.switches),
        }
    }

    fn key(self, row: &Entry) -> u64 {
        match self {
            Self::Name => 0,
            Self::Waited => row.parts.sum().0,
            Self::Worst => row.longest.0,
            Self::P99 => row.delays.run_delay.quantile(0.99).unwrap_or(0),
            Self::Cpu => row.ran.0,
            Self::Throttled => row.parts.of(WaitCause::Throttled).0,
            Self::Wakeups => row.wakeups,
            Self::Switches => row.switches,
        }
    }
}

/// A wider name would stand far from its figures.
const NAME_MAX: usize = 48;
/// Characters of the column that names the main cause of a row's waits.
const MOSTLY: usize = 30;

/// A time in at most 7 characters; a dash for none.
fn time(time: Nanos) -> String {
    if time == Nanos::ZERO { "-".to_owned() } else { time.readable() }
}

fn count(count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        1..=99_999 => count.to_string(),
        100_000..=9_999_999 => format!("{}k", count / 1_000),
        _ => format!("{}M", count / 1_000_000),
    }
}

/// What the lower part shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Page {
    Rows,
    /// The row with this process or pid and name.
    One(Option<Pid>, String),
    Help,
    /// A text with its first line shown.
    Text(Vec<String>, usize),
}

/// What is shown.
pub(super) struct View {
    window: Option<Window>,
    by: By,
    sort: Sort,
    is_reversed: bool,
    filter: String,
    is_typing: bool,
    is_paused: bool,
    selected: usize,
    first: usize,
    page: Page,
    message: String,
    has_colours: bool,
    own: Pid,
}

impl View {
    pub(super) fn new(by: By, has_colours: bool, own: Pid) -> Self {
        Self {
            window: None,
            by,
            sort: Sort::Waited,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            selected: 0,
            first: 0,
            page: Page::Rows,
            message: String::new(),
            has_colours,
            own,
        }
    }

    /// Takes a window over, unless it is paused.
    pub(super) fn take(&mut self, window: Window) {
        if !self.is_paused {
            self.window = Some(window);
        }
    }

    /// Says something in the last line, until the next key.
    pub(super) fn say(&mut self, what: impl Into<String>) {
        self.message = what.into();
    }

    pub(super) fn show(&mut self, text: &str) {
        self.page = Page::Text(text.lines().map(str::to_owned).collect(), 0);
    }

    /// Rows that pass the filter, in order.
    fn rows(&self) -> Vec<Entry> {
        let Some(window) = &self.window else { return Vec::new() };
        let mut rows = window.rows_by(self.by);
        let wanted = self.filter.to_lowercase();
        let has = |text: &Option<String>| {
            text.as_ref().is_some_and(|text| text.to_lowercase().contains(&wanted))
        };
        rows.retain(|row| {
            wanted.is_empty() || has(&row.comm) || has(&row.group) || has(&row.group_title)
        });
        match self.sort {
            Sort::Name => rows.sort_by_key(Entry::title),
            sort => rows.sort_by_key(|row| Reverse(sort.key(row))),
        }
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Do> {
        self.message.clear();
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return Some(Do::Quit);
        }
        if self.is_typing {
            self.typed(key.code);
            return None;
        }
        let is_rows = self.page == Page::Rows;
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) if is_rows => return Some(Do::Quit),
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::F(10) | KeyCode::Backspace if !is_rows => {
                self.page = Page::Rows;
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.page = Page::Help,
            KeyCode::Char('t') => return Some(Do::Trace),
            KeyCode::Char('w') => return Some(Do::Why),
            KeyCode::Char(' ' | 'Z' | 'z') => self.is_paused = !self.is_paused,
            KeyCode::Char('/' | '\\') | KeyCode::F(3 | 4) => {
                self.page = Page::Rows;
                self.is_typing = true;
                self.filter.clear();
            }
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageUp => self.scroll(-10),
            KeyCode::PageDown => self.scroll(10),
            KeyCode::Home => self.scroll(-1_000_000),
            KeyCode::End => self.scroll(1_000_000),
            KeyCode::Enter if is_rows => self.open(),
            code if is_rows => self.arrange(code),
            _ => {}
        }
        None
    }

    /// Keys that sort and group.
    fn arrange(&mut self, code: KeyCode) {
        let at = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(1);
        let last = Sort::ALL.len() - 1;
        let before = self.sort;
        match code {
            KeyCode::Char('>') | KeyCode::Right | KeyCode::F(6) => {
                self.sort = Sort::ALL[if at == last { 0 } else { at + 1 }];
            }
            KeyCode::Char('<') | KeyCode::Left => {
                self.sort = Sort::ALL[if at == 0 { last } else { at - 1 }];
            }
            KeyCode::Char('R' | 'I') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('P') => self.sort = Sort::Cpu,
            KeyCode::Char('T') => self.sort = Sort::Waited,
            KeyCode::Char('N') => self.sort = Sort::Name,
            KeyCode::Char('b') => {
                self.by = match self.by {
                    By::Command => By::Process,
                    By::Process => By::Task,
                    By::Task => By::Group,
                    By::Group => By::Command,
                };
            }
            KeyCode::Char('H') => {
                self.by = if self.by == By::Task { By::Process } else { By::Task };
            }
            KeyCode::Char('g') => self.by = By::Group,
            KeyCode::Char('c') => self.by = By::Command,
            _ => return,
        }
        if self.sort != before {
            self.is_reversed = false;
        }
        self.selected = 0;
    }

    fn typed(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    fn scroll(&mut self, by: isize) {
        let rows = self.rows().len().saturating_sub(1);
        let place = match &mut self.page {
            Page::Text(lines, first) => {
                let last = lines.len().saturating_sub(1);
                *first = first.saturating_add_signed(by).min(last);
                return;
            }
            _ => &mut self.selected,
        };
        *place = place.saturating_add_signed(by).min(rows);
    }

    fn open(&mut self) {
        if let Some(row) = self.rows().get(self.selected) {
            let name = row.comm.clone().or_else(|| row.group.clone()).unwrap_or_default();
            self.page = Page::One(row.pid, name);
        }
    }

    fn colour(&self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Line::from(self.head()).style(Modifier::REVERSED), head);
        frame.render_widget(Line::from(self.foot()), foot);
        match &self.page {
            Page::Help => frame.render_widget(Paragraph::new(HELP), body),
            Page::Text(lines, first) => {
                let shown = lines.iter().skip(*first).map(|line| Line::from(line.as_str()));
                frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), body);
            }
            _ if self.window.is_none() => {
                frame.render_widget(Paragraph::new("The first window has not ended yet."), body);
            }
            Page::One(pid, name) => {
                let lines = self.one(*pid, &name.clone(), body.width.into());
                let all = Paragraph::new(lines).wrap(Wrap { trim: false });
                frame.render_widget(all, body);
            }
            Page::Rows => self.machine(frame, body),
        }
    }

    /// What the figures below cover: the same time for all of them.
    fn head(&self) -> String {
        let title = if self.is_paused { "PAUSED" } else { "schedlab watch" };
        let Some(window) = &self.window else { return title.to_owned() };
        let length = window.reply.observed.duration().readable();
        let busy = window.busy().map_or("?".to_owned(), |part| format!("{:.0}", part * 100.0));
        format!(
            "{title}  last {length}: {} CPUs {busy} % busy, {} tasks, {} events",
            window.cpus.rows.len(),
            window.tasks.len(),
            window.events
        )
    }

    fn foot(&self) -> String {
        match (&self.page, self.is_typing) {
            (_, true) => format!("filter: {}_   Enter keeps it, Esc drops it", self.filter),
            _ if !self.message.is_empty() => self.message.clone(),
            (Page::Rows, _) if !self.filter.is_empty() => {
                format!("filter: {}   Esc drops it", self.filter)
            }
            (Page::Rows, _) => {
                "h help  / filter  < > sort  b by  Enter look  Space pause  t trace  w why  q end"
                    .to_owned()
            }
            _ => "Esc back   t trace  w why".to_owned(),
        }
    }

    /// The answer, the causes, the CPUs, and rows.
    fn machine(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(window) = &self.window else { return };
        let answer = window.answer.clone().unwrap_or_else(|| {
            let all = window.waits.sum().readable();
            format!("Tasks hardly waited: {all} in sum.")
        });
        let width = usize::from(area.width).max(20);
        let answer = crate::output::wrapped("", "", &answer, width);
        let style = match window.answer {
            Some(_) => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            None => self.colour(Color::Green),
        };
        let mut lines: Vec<Line<'_>> =
            answer.lines().take(4).map(|line| Line::styled(line.to_owned(), style)).collect();
        let worst = window.worst().map(|wait| format!("   worst {}", window.spelled(wait)));
        lines.push(Line::from(format!(
            "waited {}{}",
            window.waits.sum().readable(),
            worst.unwrap_or_default()
        )));
        lines.extend(window.note().map(Line::from));
        if window.is_partial() {
            let text = "EVENTS WERE LOST: figures are at least that";
            lines.push(Line::styled(text, self.colour(Color::Red)));
        }
        lines.extend(self.causes(&window.waits, width, if area.height > 30 { 8 } else { 4 }));
        lines.extend(self.cpus(window, width, if area.height > 30 { 6 } else { 2 }));
        let top = (lines.len() as u16).min(area.height.saturating_sub(2));
        let [upper, lower] =
            Layout::vertical([Constraint::Length(top), Constraint::Min(0)]).areas(area);
        frame.render_widget(Paragraph::new(lines), upper);
        self.table(frame, lower);
    }

    /// A bar for each cause.
    fn causes(&self, total: &Parts, width: usize, most: usize) -> Vec<Line<'static>> {
        let all = total.sum();
        let bar = |(cause, time): (WaitCause, Nanos)| {
            let share = time.0 as f64 / all.0.max(1) as f64;
            let room = width.saturating_sub(49);
            let length = (share * room as f64).round() as usize;
            let text =
                format!("  {:<29}{:>9}{:>6}  ", cause.title(), time.readable(), percent(time, all));
            let colour = match cause {
                WaitCause::Throttled | WaitCause::HeldBack => Color::Red,
                WaitCause::Misplaced | WaitCause::Pinned => Color::Magenta,
                WaitCause::HandingOver => Color::Green,
                WaitCause::Unknown | WaitCause::Offline => Color::Blue,
                _ => Color::Yellow,
            };
            Line::from(vec![Span::raw(text), Span::styled("|".repeat(length), self.colour(colour))])
        };
        total.ranked().into_iter().take(most).map(bar).collect()
    }

    /// A bar for each CPU; where there are too many, a digit each: tenths of its time in which it was busy.
    fn cpus(&self, window: &Window, width: usize, most: usize) -> Vec<Line<'static>> {
        const CELL: usize = 20;
        let state = &window.reply.state;
        let rows = &window.cpus.rows;
        let per_line = (width / CELL).max(1);
        if rows.len() > per_line * most {
            let digit = |part: Option<f64>| match part {
                None => '?',
                Some(part) if part >= 0.95 => '#',
                Some(part) => char::from_digit((part * 10.0) as u32, 10).unwrap_or('9'),
            };
            let all: String = rows.iter().map(|row| digit(row.utilisation())).collect();
            let text = format!("CPUs, tenths of their time busy (#: all): {all}");
            let lines = text.as_bytes().chunks(width).take(most);
            return lines
                .map(|line| Line::from(String::from_utf8_lossy(line).into_owned()))
                .collect();
        }
        let cell = |row: &schedlab_timeline::CpuRow| {
            let room = CELL - 11;
            let (bar, share) = match row.utilisation() {
                None if state.cpu(row.cpu).is_some_and(|here| here.offline) => {
                    (0, " off".to_owned())
                }
                None => (0, "   ?".to_owned()),
                Some(part) => {
                    ((part * room as f64).round() as usize, format!("{:3.0}%", part * 100.0))
                }
            };
            let colour = if row.waiting_max > 0 { Color::Yellow } else { Color::Green };
            vec![
                Span::raw(format!("{:>3} [", row.cpu.0)),
                Span::styled(format!("{:<room$}", "|".repeat(bar.min(room))), self.colour(colour)),
                Span::raw(format!("{share}] ")),
            ]
        };
        let lines = rows
            .chunks(per_line)
            .map(|some| Line::from(some.iter().flat_map(cell).collect::<Vec<_>>()));
        lines.collect()
    }

    fn table(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.rows();
        let room = usize::from(area.height.saturating_sub(1));
        self.selected = self.selected.min(rows.len().saturating_sub(1));
        if self.selected < self.first {
            self.first = self.selected;
        }
        if room > 0 && self.selected >= self.first + room {
            self.first = self.selected + 1 - room;
        }
        let fixed: usize = Sort::ALL.iter().map(|sort| sort.width()).sum();
        let name = usize::from(area.width).saturating_sub(fixed + 1).clamp(8, NAME_MAX);
        // What a wide terminal has room for.
        let more = usize::from(area.width).saturating_sub(fixed + name + 2);
        let mut head: Vec<Span<'static>> = Vec::new();
        for sort in Sort::ALL {
            let title = match (sort, self.by) {
                (Sort::Name, By::Task) => "TASK",
                (Sort::Name, By::Command) => "COMMAND",
                (Sort::Name, By::Process) => "PROCESS",
                (Sort::Name, By::Group) => "GROUP",
                _ => sort.title(),
            };
            let mark =
                if sort == self.sort { if self.is_reversed { "^" } else { "v" } } else { "" };
            let text = fitted(&format!("{title}{mark}"), sort, name);
            let style = if sort == self.sort {
                self.colour(Color::Cyan).add_modifier(Modifier::BOLD | Modifier::REVERSED)
            } else {
                Style::new().add_modifier(Modifier::REVERSED)
            };
            head.push(Span::styled(text, style));
        }
        if more > MOSTLY {
            let first = "MOSTLY";
            let rest = more - MOSTLY;
            let text = format!("  {first:<MOSTLY$}{:<rest$}", "GROUP");
            head.push(Span::styled(text, Modifier::REVERSED));
        }
        let mut lines = vec![Line::from(head)];
        for (place, row) in rows.iter().enumerate().skip(self.first).take(room) {
            let cells = Sort::ALL.into_iter().map(|sort| {
                let mut text = sort.cell(row);
                if sort == Sort::Name && row.pid == Some(self.own) {
                    text += " (this view)";
                }
                Span::raw(fitted(&text, sort, name))
            });
            let mut cells: Vec<_> = cells.collect();
            if more > MOSTLY {
                let mostly = mostly(row);
                let group = row.group_title.as_deref().unwrap_or("-");
                let text = format!("  {mostly:<MOSTLY$}{group}");
                cells.push(Span::raw(text.chars().take(more + 2).collect::<String>()));
            }
            let mut line = Line::from(cells);
            let share = row.parts.of(WaitCause::Throttled).0 * 2 > row.parts.sum().0.max(1);
            if share {
                line = line.style(self.colour(Color::Red));
            }
            if place == self.selected {
                line = line.style(Style::new().add_modifier(Modifier::REVERSED));
            }
            lines.push(line);
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// One row: its causes, who ran instead, its longest waits, and who woke it.
    fn one(&self, pid: Option<Pid>, name: &str, width: usize) -> Vec<Line<'static>> {
        let Some(window) = &self.window else { return Vec::new() };
        let rows = window.rows_by(self.by);
        let is_it = |row: &&Entry| {
            row.pid == pid
                && row.comm.as_deref().or(row.group.as_deref()).unwrap_or_default() == name
        };
        let Some(row) = rows.iter().find(is_it) else {
            return vec![Line::from(format!("{name} did nothing in the last window."))];
        };
        let members = window.members(row, self.by);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut lines = vec![
            Line::styled(format!("{}{}", row.title(), in_group(row)), bold),
            Line::from(format!(
                "waited {} in {} waits, p99 {}, worst {}; ran {}; {} wakeups, {} switches",
                time(row.parts.sum()),
                row.delays.run_delay.count(),
                Sort::P99.cell(row),
                Sort::Worst.cell(row),
                time(row.ran),
                row.wakeups,
                row.switches
            )),
        ];
        lines.extend(self.causes(&row.parts, width, 6));
        lines.push(Line::styled("Who ran on its CPU while it waited", bold));
        lines.extend(listed(window.culprits(&members), |(who, spent)| {
            let kernel = if is_kernel_thread(&who) { " (kernel)" } else { "" };
            format!("{:>9}  {who}{kernel}", spent.readable())
        }));
        lines.push(Line::styled("Its longest waits", bold));
        lines.extend(listed(window.waits_of(&members), |text| text));
        lines.push(Line::styled("Who woke it (evidence, not proof)", bold));
        lines.extend(listed(window.wakers(&members), |(who, times)| format!("{times:>9}  {who}")));
        lines
    }
}

/// The cause of most of a row's waiting.
fn mostly(row: &Entry) -> &'static str {
    row.parts.ranked().first().map_or("-", |(cause, _)| cause.title())
}

fn in_group(row: &Entry) -> String {
    let group = row.group_title.as_deref().filter(|group| *group != "/" && row.comm.is_some());
    group.map(|group| format!(" in {group}")).unwrap_or_default()
}

/// Some lines, or a dash.
fn listed<T>(all: Vec<T>, text: impl Fn(T) -> String) -> Vec<Line<'static>> {
    if all.is_empty() {
        return vec![Line::from("        -")];
    }
    all.into_iter().take(6).map(|one| Line::from(format!("  {}", text(one)))).collect()
}

/// A cell in its column's width.
fn fitted(text: &str, sort: Sort, name: usize) -> String {
    if sort == Sort::Name {
        let mut short: String = text.chars().take(name).collect();
        if text.chars().count() > name {
            short.pop();
            short.push('~');
        }
        return format!("{short:<name$}");
    }
    let width = sort.width();
    format!("{text:>width$}")
}

const HELP: &str = "\
Who waits for a CPU, why, and behind whom. All figures cover the time that the
first line names. A single wait alone, as WORST, counts from its start (with ≥:
it goes on). WAITED is all waiting, P99 is of the run delay, CPU is run time.

  Up Down PgUp PgDn Home End    choose a row
  Enter                         look at it: its culprits, waits and wakers
  < >  F6                       sort by the column to the left or right
  T P N                         sort by waiting, CPU time, name
  R I                           reverse the order
  b                             rows by command, process, task, group
  H g c                         tasks or processes; groups; commands
  /  \\  F3  F4                  filter by a part of a name
  Space Z                       pause and go on
  t                             write the last seconds as a trace
  w                             the same, and show what `schedlab why` says of it
  Esc                           back, or drop the filter
  q  F10                        quit";

#[cfg(test)]
mod tests;
