//! Text tables with aligned columns, and escaping of control characters.

use std::fmt::Write as _;

use anstream::adapter::strip_str;

/// Formats rows with two spaces between columns and none at the end of a line.
pub(crate) fn format_table(rows: &[Vec<String>]) -> String {
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

/// The visible length: colour sequences take no room.
fn length(cell: &str) -> usize {
    strip_str(cell).map(|part| part.chars().count()).sum()
}

/// Escapes control and invisible characters of untrusted text, which could move the cursor or hide a line.
pub(crate) fn escape_control(text: &str) -> String {
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

/// Characters that change the text direction or join text, and so can make it read differently.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Formats a duration in one unit.
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
    fn columns_are_aligned_by_characters_not_bytes() {
        let rows = [["a", "müde", "x"], ["bcd", "e", ""]].map(|row| row.map(str::to_owned).to_vec());

        assert_eq!(format_table(&rows), "a    müde  x\nbcd  e\n");
    }

    #[test]
    fn colour_sequences_have_no_width() {
        let rows = [["a", "\u{1b}[32mgreen\u{1b}[0m", "x"], ["b", "e", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());

        assert_eq!(format_table(&rows), "a  \u{1b}[32mgreen\u{1b}[0m  x\nb  e      y\n");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_control("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\\u{a}c\\u{202e}d");
        assert_eq!(escape_control("plain – text"), "plain – text");
    }

    #[test]
    fn age_has_one_unit() {
        let ages = [0, 59_999, 60_000, 7_199_000, 172_800_000].map(age);

        assert_eq!(ages, ["0s", "59s", "1m", "1h", "2d"]);
    }
}
