//! Escapes text from a sandbox, so that no terminal acts on it.

use std::fmt::Write;

/// Keeps newlines and tabs, and spells out every other character that a terminal would act on or that changes the
/// direction in which text is shown.
#[must_use]
pub fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            // A line end as terminals write it.
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\t' => escaped.push(character),
            '\u{0}'..='\u{1f}' | '\u{7f}' => push_escaped_byte(&mut escaped, u32::from(character)),
            character if is_text_control(character) => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(character));
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// Does the same, and spells out bytes that are not UTF-8.
#[must_use]
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        escaped.push_str(&escape_text(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| push_escaped_byte(&mut escaped, u32::from(*byte)));
    }
    escaped
}

fn push_escaped_byte(escaped: &mut String, byte: u32) {
    let _ = write!(escaped, "\\x{byte:02x}");
}

/// Controls beyond ASCII, and characters that change the direction of text, break lines, hide or annotate.
fn is_text_control(character: char) -> bool {
    matches!(character,
        '\u{80}'..='\u{9f}'
        | '\u{ad}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_acts_on_are_spelled_out() {
        for (written, escaped) in [
            ("plain\ttext\r\nnext", "plain\ttext\nnext"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
            ("ok\rno", "ok\\x0dno"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("\u{8}\u{7f}\0", "\\x08\\x7f\\x00"),
            ("grüße 你好 🦀", "grüße 你好 🦀"),
        ] {
            assert_eq!(escape_text(written), escaped);
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_spelled_out_between_text() {
        assert_eq!(escape_bytes(b"a\xffb\x9b31m\xc3"), "a\\xffb\\x9b31m\\xc3");
    }

    #[test]
    fn no_control_character_is_left_of_any_input() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();

        let escaped = escape_text(&all);

        assert!(escaped.chars().all(|character| !character.is_control() || "\n\t".contains(character)));
    }
}
