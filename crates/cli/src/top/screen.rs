//! What the screen shows and what keys do to it. It is told everything, and asks for nothing by itself.

use super::keys::Key;
use super::source::Row;

#[derive(Default)]
pub(super) struct Screen {
    /// None: nobody has looked yet.
    pub(super) rows: Option<Vec<Row>>,
    /// By id: rows come and go above it.
    selected: Option<String>,
    pub(super) view: View,
    /// The last thing that people should know.
    pub(super) message: String,
    pub(super) stopping: Vec<String>,
}

#[derive(Default, PartialEq, Eq, Debug)]
pub(super) enum View {
    #[default]
    List,
    /// Whether this one is really to be stopped.
    AskStop(String),
    Log {
        id: String,
        lines: Vec<String>,
        /// How many lines it is scrolled back from the end.
        back: usize,
    },
}

/// What has come in.
pub(super) enum News {
    Sandboxes(Vec<Row>),
    Log { id: String, lines: Vec<String> },
    Told(String),
    Trouble(String),
}

/// What a key asks for beyond the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    Stop(String),
    OpenLog(String),
    CloseLog,
}

/// Lines by which a log is scrolled to its beginning: more than there ever are.
const FAR: usize = 1 << 20;

impl Screen {
    pub(super) fn learn(&mut self, news: News) {
        match news {
            News::Sandboxes(rows) => {
                self.stopping.retain(|id| rows.iter().any(|row| row.id == *id));
                self.rows = Some(rows);
            }
            // It may have been closed meanwhile.
            News::Log { id: of, lines: came } => {
                if let View::Log { id, lines, .. } = &mut self.view
                    && *id == of
                {
                    *lines = came;
                }
            }
            News::Told(told) | News::Trouble(told) => self.message = told,
        }
    }

    pub(super) fn rows(&self) -> &[Row] {
        self.rows.as_deref().unwrap_or_default()
    }

    /// The row that keys are about: the one that was chosen, or the first where that is gone.
    pub(super) fn selected(&self) -> Option<usize> {
        let chosen = self.selected.as_ref();
        let place = chosen.and_then(|id| self.rows().iter().position(|row| row.id == *id));
        place.or_else(|| (!self.rows().is_empty()).then_some(0))
    }

    fn selected_id(&self) -> Option<String> {
        self.selected().map(|place| self.rows()[place].id.clone())
    }

    pub(super) fn press(&mut self, key: Key) -> Wish {
        match (&mut self.view, key) {
            (_, Key::Resized) => Wish::Nothing,
            (View::AskStop(id), Key::Yes) => {
                let id = std::mem::take(id);
                self.view = View::List;
                self.message = format!("stopping {id} …");
                self.stopping.push(id.clone());
                Wish::Stop(id)
            }
            // Whatever is not a clear yes is a no.
            (View::AskStop(_), _) => {
                self.view = View::List;
                Wish::Nothing
            }
            (View::Log { .. }, Key::Quit | Key::Back | Key::Log) => {
                self.view = View::List;
                Wish::CloseLog
            }
            (View::Log { back, lines, .. }, key) => {
                *back = scrolled(*back, lines.len(), key);
                Wish::Nothing
            }
            (View::List, Key::Quit) => Wish::Quit,
            (View::List, key) => self.press_in_list(key),
        }
    }

    fn press_in_list(&mut self, key: Key) -> Wish {
        match key {
            Key::Up => self.select(|place, _| place.saturating_sub(1)),
            Key::Down => self.select(|place, last| (place + 1).min(last)),
            Key::First => self.select(|_, _| 0),
            Key::Last => self.select(|_, last| last),
            Key::Stop => {
                if let Some(id) = self.selected_id() {
                    self.view = View::AskStop(id);
                }
                Wish::Nothing
            }
            Key::Log => match self.selected_id() {
                Some(id) => {
                    self.view = View::Log { id: id.clone(), lines: vec!["…".into()], back: 0 };
                    Wish::OpenLog(id)
                }
                None => Wish::Nothing,
            },
            Key::Yes | Key::Back | Key::Other | Key::Quit | Key::Resized => Wish::Nothing,
        }
    }

    fn select(&mut self, from: impl Fn(usize, usize) -> usize) -> Wish {
        if let Some(place) = self.selected() {
            let last = self.rows().len() - 1;
            self.selected = Some(self.rows()[from(place, last)].id.clone());
        }
        Wish::Nothing
    }
}

fn scrolled(back: usize, lines: usize, key: Key) -> usize {
    let back = match key {
        Key::Up => back + 1,
        Key::Down => back.saturating_sub(1),
        Key::First => FAR,
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
        screen.learn(News::Sandboxes(ids.iter().map(|id| row(id)).collect()));
        screen
    }

    #[test]
    fn a_stop_is_asked_for_and_only_a_yes_is_one() {
        let mut screen = screen(&["a", "b"]);
        screen.press(Key::Down);

        assert_eq!(screen.press(Key::Stop), Wish::Nothing);
        assert_eq!(screen.press(Key::Other), Wish::Nothing);
        assert_eq!(screen.press(Key::Yes), Wish::Nothing, "the question was answered with no");
        screen.press(Key::Stop);

        assert_eq!(screen.press(Key::Yes), Wish::Stop("b".into()));
        assert_eq!(screen.view, View::List);
    }

    #[test]
    fn what_was_chosen_stays_chosen_when_others_go() {
        let mut screen = screen(&["a", "b", "c"]);
        screen.press(Key::Last);

        screen.learn(News::Sandboxes(vec![row("c"), row("d")]));
        assert_eq!(screen.selected(), Some(0));
        screen.learn(News::Sandboxes(vec![row("d")]));

        assert_eq!(screen.selected(), Some(0), "the first, where it is gone itself");
        screen.learn(News::Sandboxes(Vec::new()));
        assert_eq!((screen.selected(), screen.press(Key::Stop)), (None, Wish::Nothing));
    }

    #[test]
    fn a_log_is_closed_before_the_screen_is() {
        let mut screen = screen(&["a"]);

        assert_eq!(screen.press(Key::Log), Wish::OpenLog("a".into()));
        screen.learn(News::Log { id: "other".into(), lines: vec!["of another".into()] });
        screen.learn(News::Log { id: "a".into(), lines: vec!["one".into(), "two".into()] });
        screen.press(Key::First);
        let View::Log { lines, back, .. } = &screen.view else { panic!("it is not open") };
        assert_eq!((lines.len(), *back), (2, 1));

        assert_eq!(screen.press(Key::Quit), Wish::CloseLog);
        assert_eq!(screen.press(Key::Quit), Wish::Quit);
    }
}
