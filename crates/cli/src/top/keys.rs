//! What is typed, and when the screen changes its size.

use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use tokio::sync::mpsc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    First,
    Last,
    Stop,
    Log,
    Yes,
    /// Whatever is open is closed.
    Back,
    Quit,
    /// It means nothing; but it answers a question with no.
    Other,
    /// The screen has another size.
    Resized,
}

/// How soon the thread notices that nobody listens any more.
const NOTICE: Duration = Duration::from_millis(200);
const AHEAD: usize = 16;

/// By a thread of its own, which ends soon after nobody listens.
pub(super) fn keys() -> mpsc::Receiver<Key> {
    let (pressed, taken) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        while !pressed.is_closed() {
            let came = match poll(NOTICE) {
                Ok(false) => continue,
                Ok(true) => read(),
                Err(_) => return,
            };
            // A terminal that cannot be read any more is gone.
            let Ok(event) = came else { return };
            if key(&event).is_some_and(|key| pressed.blocking_send(key).is_err()) {
                return;
            }
        }
    });
    taken
}

fn key(event: &Event) -> Option<Key> {
    let pressed = match event {
        Event::Resize(..) => return Some(Key::Resized),
        Event::Key(pressed) if pressed.kind != KeyEventKind::Release => pressed,
        _ => return None,
    };
    let control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    Some(match pressed.code {
        // In raw mode it is a key like any other.
        KeyCode::Char('c') if control => Key::Quit,
        KeyCode::Char('q') => Key::Quit,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Char('s') => Key::Stop,
        KeyCode::Char('l') | KeyCode::Enter => Key::Log,
        KeyCode::Char('y' | 'Y') => Key::Yes,
        KeyCode::Esc | KeyCode::Backspace => Key::Back,
        _ => Key::Other,
    })
}
