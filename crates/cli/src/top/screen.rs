//! State of the screen: updates and keys go in, actions come out. Does no IO.

use super::keys::Key;
use super::source::Row;

#[derive(Default)]
pub(super) struct Screen {
    /// None: not loaded yet.
    pub(super) rows: Option<Vec<Row>>,
    /// By id, since rows above it come and go.
    selected: Option<String>,
    pub(super) view: View,
    /// The last message.
    pub(super) message: String,
    pub(super) stopping: Vec<String>,
}

#[derive(Default, PartialEq, Eq, Debug)]
pub(super) enum View {
    #[default]
    List,
    /// Asks whether to stop this sandbox.
    ConfirmStop(String),
    Log {
        id: String,
        lines: Vec<String>,
        /// How many lines it is scrolled back from the end.
        back: usize,
    },
}

/// Data for the screen.
pub(super) enum Update {
    Sandboxes(Vec<Row>),
    Log { id: String, lines: Vec<String> },
    Message(String),
    Error(String),
}

/// What the caller must do after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    Stop(String),
    OpenLog(String),
    CloseLog,
}

/// A scroll offset beyond any log's length.
const PAST_LOG_START: usize = 1 << 20;

impl Screen {
    pub(super) fn apply(&mut self, updates: Update) {
        match updates {
            Update::Sandboxes(rows) => {
                self.stopping.retain(|id| rows.iter().any(|row| row.id == *id));
                self.rows = Some(rows);
            }
            // The log view may have been closed.
            Update::Log { id: of, lines: update } => {
                if let View::Log { id, lines, .. } = &mut self.view
                    && *id == of
                {
                    *lines = update;
                }
            }
            Update::Message(message) | Update::Error(message) => self.message = message,
        }
    }

    pub(super) fn rows(&self) -> &[Row] {
        self.rows.as_deref().unwrap_or_default()
    }

    /// The selected row, or the first if the selected one is gone.
    pub(super) fn selected(&self) -> Option<usize> {
        let selected_id = self.selected.as_ref();
        let index = selected_id.and_then(|id| self.rows().iter().position(|row| row.id == *id));
        index.or_else(|| (!self.rows().is_empty()).then_some(0))
    }

    fn selected_id(&self) -> Option<String> {
        self.selected().map(|index| self.rows()[index].id.clone())
    }

    pub(super) fn press(&mut self, key: Key) -> Action {
        match (&mut self.view, key) {
            (_, Key::Resized) => Action::None,
            (View::ConfirmStop(id), Key::Yes) => {
                let id = std::mem::take(id);
                self.view = View::List;
                self.message = format!("stopping {id} …");
                self.stopping.push(id.clone());
                Action::Stop(id)
            }
            // Any key but `y` means no.
            (View::ConfirmStop(_), _) => {
                self.view = View::List;
                Action::None
            }
            (View::Log { .. }, Key::Quit | Key::Back | Key::Log) => {
                self.view = View::List;
                Action::CloseLog
            }
            (View::Log { back, lines, .. }, key) => {
                *back = scroll_back(*back, lines.len(), key);
                Action::None
            }
            (View::List, Key::Quit) => Action::Quit,
            (View::List, key) => self.press_in_list(key),
        }
    }

    fn press_in_list(&mut self, key: Key) -> Action {
        match key {
            Key::Up => self.select(|index, _| index.saturating_sub(1)),
            Key::Down => self.select(|index, last| (index + 1).min(last)),
            Key::First => self.select(|_, _| 0),
            Key::Last => self.select(|_, last| last),
            Key::Stop => {
                if let Some(id) = self.selected_id() {
                    self.view = View::ConfirmStop(id);
                }
                Action::None
            }
            Key::Log => match self.selected_id() {
                Some(id) => {
                    self.view = View::Log { id: id.clone(), lines: vec!["…".into()], back: 0 };
                    Action::OpenLog(id)
                }
                None => Action::None,
            },
            Key::Yes | Key::Back | Key::Other | Key::Quit | Key::Resized => Action::None,
        }
    }

    fn select(&mut self, from: impl Fn(usize, usize) -> usize) -> Action {
        if let Some(index) = self.selected() {
            let last = self.rows().len() - 1;
            self.selected = Some(self.rows()[from(index, last)].id.clone());
        }
        Action::None
    }
}

fn scroll_back(back: usize, lines: usize, key: Key) -> usize {
    let back = match key {
        Key::Up => back + 1,
        Key::Down => back.saturating_sub(1),
        Key::First => PAST_LOG_START,
        Key::Last => 0,
        _ => back,
    };
    back.min(lines.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::super::draw::tests::row;
    use super::*;

    fn screen(ids: &[&str]) -> Screen {
        let mut screen = Screen::default();
        screen.apply(Update::Sandboxes(ids.iter().map(|id| row(id)).collect()));
        screen
    }

    #[test]
    fn stop_needs_confirmation_by_yes() {
        let mut screen = screen(&["a", "b"]);
        screen.press(Key::Down);

        assert_eq!(screen.press(Key::Stop), Action::None);
        assert_eq!(screen.press(Key::Other), Action::None);
        assert_eq!(screen.press(Key::Yes), Action::None, "the confirmation was answered with no");
        screen.press(Key::Stop);

        assert_eq!(screen.press(Key::Yes), Action::Stop("b".into()));
        assert_eq!(screen.view, View::List);
    }

    #[test]
    fn selection_follows_the_sandbox_when_rows_change() {
        let mut screen = screen(&["a", "b", "c"]);
        screen.press(Key::Last);

        screen.apply(Update::Sandboxes(vec![row("c"), row("d")]));
        assert_eq!(screen.selected(), Some(0));
        screen.apply(Update::Sandboxes(vec![row("d")]));

        assert_eq!(screen.selected(), Some(0), "the first, since the selected one is gone");
        screen.apply(Update::Sandboxes(Vec::new()));
        assert_eq!((screen.selected(), screen.press(Key::Stop)), (None, Action::None));
    }

    #[test]
    fn quit_closes_the_log_before_the_screen() {
        let mut screen = screen(&["a"]);

        assert_eq!(screen.press(Key::Log), Action::OpenLog("a".into()));
        screen.apply(Update::Log { id: "other".into(), lines: vec!["of another".into()] });
        screen.apply(Update::Log { id: "a".into(), lines: vec!["one".into(), "two".into()] });
        screen.press(Key::First);
        let View::Log { lines, back, .. } = &screen.view else { panic!("it is not open") };
        assert_eq!((lines.len(), *back), (2, 1));

        assert_eq!(screen.press(Key::Quit), Action::CloseLog);
        assert_eq!(screen.press(Key::Quit), Action::Quit);
    }
}
