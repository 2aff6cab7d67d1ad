//! Text from a sandbox on somebody's terminal: shown, never obeyed.

use std::fmt::Write;

/// New lines and tabs stay. Whatever else a terminal would act on, or use to show text in another order than it is
/// written in, is spelled out.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            // The end of a line as terminals write it.
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\t' => shown.push(character),
            '\u{0}'..='\u{1f}' | '\u{7f}' => spell_byte(&mut shown, u32::from(character)),
            character if acts_on_text(character) => {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
            }
            character => shown.push(character),
        }
    }
    shown
}

/// The same for what is not UTF-8: those bytes are spelled out.
#[must_use]
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&printable(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| spell_byte(&mut shown, u32::from(*byte)));
    }
    shown
}

fn spell_byte(shown: &mut String, byte: u32) {
    let _ = write!(shown, "\\x{byte:02x}");
}

/// The controls beyond ASCII, and what turns the direction of text, breaks lines, hides or annotates.
fn acts_on_text(character: char) -> bool {
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
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (written, shown) in [
            ("plain\ttext\r\nnext", "plain\ttext\nnext"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
            ("ok\rno", "ok\\x0dno"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("\u{8}\u{7f}\0", "\\x08\\x7f\\x00"),
            ("grüße 你好 🦀", "grüße 你好 🦀"),
        ] {
            assert_eq!(printable(written), shown);
        }
    }

    #[test]
    fn what_is_no_text_is_spelled_out_among_what_is() {
        assert_eq!(printable_bytes(b"a\xffb\x9b31m\xc3"), "a\\xffb\\x9b31m\\xc3");
    }

    #[test]
    fn whatever_is_written_no_control_is_left() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();

        let shown = printable(&all);

        assert!(shown.chars().all(|character| !character.is_control() || "\n\t".contains(character)));
    }
}
