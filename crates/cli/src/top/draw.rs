//! Draws the screen.

use pinfold_api::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row as TableRow, Table, TableState};

use super::screen::{Screen, View};
use super::source::Row;
use crate::colour::StatusColour;
use crate::json_output::wire_name;
use crate::table::{age, escape_control};

pub(super) const TITLES: [&str; 8] = ["ID", "NAME", "STATUS", "TYPE", "CPU", "MEMORY", "AGE", "FLAGS"];

/// Index of the status column.
pub(super) const STATUS: usize = 2;

/// The cells of one sandbox, with control characters escaped.
pub(super) fn cells(row: &Row) -> [String; 8] {
    let or_dash = |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| escape_control(text));
    let cause = row.cause.map(|cause| format!(" ({})", wire_name(&cause))).unwrap_or_default();
    [
        escape_control(&row.id),
        or_dash(row.name.as_ref()),
        format!("{}{cause}", wire_name(&row.status)),
        or_dash(row.agent_type.as_ref()),
        row.cpu_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0}%")),
        row.memory_mb.map_or_else(|| "-".to_owned(), |mebibytes| format!("{mebibytes:.1}M")),
        row.age_ms.map_or_else(|| "-".to_owned(), age),
        if row.flags.is_empty() { "-".to_owned() } else { escape_control(&row.flags.join(",")) },
    ]
}

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let [head, body, message, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(headline(screen), bold), head);
    match &screen.view {
        View::List | View::ConfirmStop(_) => draw_list(frame, body, screen),
        View::Log { lines, back, .. } => draw_log(frame, body, lines, *back),
    }
    frame.render_widget(Line::raw(escape_control(&screen.message)), message);
    let (keys, style) = match &screen.view {
        View::List => ("↑↓ choose   s stop   l logs   q quit".to_owned(), Style::new().fg(Color::DarkGray)),
        View::ConfirmStop(id) => {
            (format!("Stop {}? y stops it, any other key does not", escape_control(id)), bold)
        }
        View::Log { .. } => ("↑↓ scroll   Home End   q back".to_owned(), Style::new().fg(Color::DarkGray)),
    };
    frame.render_widget(Line::styled(keys, style), foot);
}

fn headline(screen: &Screen) -> String {
    match (&screen.view, &screen.rows) {
        (View::Log { id, .. }, _) => format!("pinfold top: log of {}", escape_control(id)),
        (_, None) => "pinfold top: loading …".to_owned(),
        (_, Some(rows)) => {
            let running = rows.iter().filter(|row| row.status == State::Running).count();
            let plural = if rows.len() == 1 { "" } else { "es" };
            format!("pinfold top: {} sandbox{plural}, {running} running", rows.len())
        }
    }
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let rows: Vec<_> = screen.rows().iter().map(|row| (cells(row), is_stopping(screen, row), row)).collect();
    let width = |column: usize| {
        let widest = rows.iter().map(|(cells, ..)| cells[column].chars().count()).max().unwrap_or(0);
        Constraint::Length(u16::try_from(widest.max(TITLES[column].len()).min(30)).unwrap_or(30))
    };
    let widths: Vec<_> = (0..TITLES.len()).map(width).collect();
    let rows = rows.into_iter().map(|(mut cells, is_stopping, row)| {
        if is_stopping {
            cells[STATUS] = "stopping".to_owned();
        }
        TableRow::new(cells).style(colour(row.status))
    });
    let header = TableRow::new(TITLES).style(Style::new().add_modifier(Modifier::BOLD));
    let table = Table::new(rows, widths)
        .header(header)
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected_id = TableState::new().with_selected(screen.selected());
    frame.render_stateful_widget(table, area, &mut selected_id);
}

fn is_stopping(screen: &Screen, row: &Row) -> bool {
    screen.stopping.contains(&row.id)
}

fn colour(state: State) -> Style {
    match StatusColour::from(state) {
        StatusColour::Good => Style::new().fg(Color::Green),
        StatusColour::Changing => Style::new().fg(Color::Yellow),
        StatusColour::Bad => Style::new().fg(Color::Red),
        StatusColour::Plain => Style::new(),
    }
}

/// Draws the end of the log, unless it is scrolled back.
fn draw_log(frame: &mut Frame<'_>, area: Rect, lines: &[String], back: usize) {
    let end = lines.len().saturating_sub(back).max(usize::from(area.height).min(lines.len()));
    let begin = end.saturating_sub(usize::from(area.height));
    let shown: Vec<_> = lines[begin..end].iter().map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

#[cfg(test)]
pub(super) mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::keys::Key;
    use super::super::screen::Update;
    use super::*;

    pub(in super::super) fn row(id: &str) -> Row {
        Row {
            id: id.to_owned(),
            name: None,
            status: State::Running,
            cause: None,
            agent_type: None,
            cpu_percent: Some(99.6),
            memory_mb: Some(1.25),
            age_ms: Some(61_000),
            flags: Vec::new(),
        }
    }

    fn drawn(screen: &Screen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(90, 8)).unwrap();
        terminal.draw(|frame| draw(frame, screen)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..90).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..8).map(line).collect()
    }

    #[test]
    fn row_shows_usage_with_control_characters_escaped() {
        let mut screen = Screen::default();
        let named = Row { name: Some("x\u{1b}[2Jy".into()), ..row("sbx_1") };

        screen.apply(Update::Sandboxes(vec![named]));
        let lines = drawn(&screen);

        assert_eq!(lines[0], "pinfold top: 1 sandbox, 1 running");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["sbx_1", "x\\u{1b}[2Jy", "running", "-", "100%", "1.2M", "1m", "-"]
        );
    }

    #[test]
    fn stop_confirmation_names_the_sandbox() {
        let mut screen = Screen::default();
        screen.apply(Update::Sandboxes(vec![row("sbx_1")]));

        screen.press(Key::Stop);

        assert!(drawn(&screen)[7].starts_with("Stop sbx_1?"));
    }

    #[test]
    fn log_shows_its_end_until_scrolled_back() {
        let mut screen = Screen::default();
        screen.apply(Update::Sandboxes(vec![row("sbx_1")]));
        screen.press(Key::Log);
        screen.apply(Update::Log {
            id: "sbx_1".into(),
            lines: (0..100).map(|n| format!("line {n}")).collect(),
        });

        assert_eq!(drawn(&screen)[1..6].join(" "), "line 95 line 96 line 97 line 98 line 99");
        screen.press(Key::First);
        assert_eq!(drawn(&screen)[1], "line 0");
    }
}
