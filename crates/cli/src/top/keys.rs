//! Keyboard input and terminal resizes.

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
    /// Closes what is open.
    Back,
    Quit,
    /// No meaning of its own, but answers a confirmation with no.
    Other,
    /// The terminal was resized.
    Resized,
}

/// How soon the thread notices that the receiver was dropped.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const CHANNEL_CAPACITY: usize = 16;

/// Reads keys in a separate thread, which ends soon after the receiver is dropped.
pub(super) fn keys() -> mpsc::Receiver<Key> {
    let (pressed, taken) = mpsc::channel(CHANNEL_CAPACITY);
    std::thread::spawn(move || {
        while !pressed.is_closed() {
            let update = match poll(POLL_INTERVAL) {
                Ok(false) => continue,
                Ok(true) => read(),
                Err(_) => return,
            };
            // A read error means that the terminal is gone.
            let Ok(event) = update else { return };
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
        // In raw mode Ctrl-C is an ordinary key.
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
