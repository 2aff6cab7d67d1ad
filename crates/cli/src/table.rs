//! Tables for people: columns that line up, and nothing in them that a terminal would obey.

use std::fmt::Write as _;

use anstream::adapter::strip_str;

/// Two spaces between columns, none at the end of a line.
pub(crate) fn lay_out(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| length(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let padding = width.saturating_sub(length(cell)) + 2;
            let _ = write!(line, "{cell}{:padding$}", "");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Of what is seen: colours take no room.
fn length(cell: &str) -> usize {
    strip_str(cell).map(|part| part.chars().count()).sum()
}

/// What somebody else wrote, with control characters made visible: they could move the cursor or hide a line.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            safe.extend(character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Marks that turn the direction of text around or join it, and so make it read as something else.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// How long ago, in the one unit that says most.
pub(crate) fn age(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters() {
        let rows = [["a", "müde", "x"], ["bcd", "e", ""]].map(|row| row.map(str::to_owned).to_vec());

        assert_eq!(lay_out(&rows), "a    müde  x\nbcd  e\n");
    }

    #[test]
    fn colours_take_no_room() {
        let rows = [["a", "\u{1b}[32mgreen\u{1b}[0m", "x"], ["b", "e", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());

        assert_eq!(lay_out(&rows), "a  \u{1b}[32mgreen\u{1b}[0m  x\nb  e      y\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(harmless("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\\u{a}c\\u{202e}d");
        assert_eq!(harmless("plain – text"), "plain – text");
    }

    #[test]
    fn an_age_has_one_unit() {
        let ages = [0, 59_999, 60_000, 7_199_000, 172_800_000].map(age);

        assert_eq!(ages, ["0s", "59s", "1m", "1h", "2d"]);
    }
}
