//! Expansion of words: variables, arithmetic, and the splitting of unquoted results at blanks.

use std::collections::BTreeMap;

use super::syntax::{Node, Piece, Simple, Word};

pub(crate) type Variables = BTreeMap<String, String>;

/// What `$$` expands to.
pub(crate) const OWN_PID: &str = "2";

/// The words that these words expand to. Substitutions are replaced before.
pub(crate) fn expand_words(words: &[Word], variables: &Variables) -> Vec<String> {
    words.iter().flat_map(|word| expand_word(word, variables)).collect()
}

/// The text of a word that is not split.
pub(crate) fn expand_unsplit(word: &Word, variables: &Variables) -> String {
    word.iter().map(|piece| expand_piece(piece, variables).0).collect()
}

fn expand_word(word: &Word, variables: &Variables) -> Vec<String> {
    let mut done = Vec::new();
    let mut current: Option<String> = None;
    for piece in word {
        let (text, quoted) = expand_piece(piece, variables);
        if quoted {
            current.get_or_insert_default().push_str(&text);
            continue;
        }
        if text.starts_with(char::is_whitespace) {
            done.extend(current.take());
        }
        let mut parts = text.split_whitespace().peekable();
        while let Some(part) = parts.next() {
            current.get_or_insert_default().push_str(part);
            if parts.peek().is_some() || text.ends_with(char::is_whitespace) {
                done.extend(current.take());
            }
        }
    }
    done.extend(current);
    done
}

/// The text, and whether it stays one word.
fn expand_piece(piece: &Piece, variables: &Variables) -> (String, bool) {
    match piece {
        Piece::Text { text, quoted } => (text.clone(), *quoted),
        Piece::Variable { name, quoted } if name == "$" => (OWN_PID.to_owned(), *quoted),
        Piece::Variable { name, quoted } => (variables.get(name).cloned().unwrap_or_default(), *quoted),
        Piece::Arithmetic(expression) => (calculate(expression, variables).to_string(), true),
        Piece::Substitution { .. } => (String::new(), true),
    }
}

/// Sums and differences of numbers and variables.
fn calculate(expression: &str, variables: &Variables) -> i64 {
    let (mut total, mut sign) = (0_i64, 1);
    let spaced = expression.replace('+', " + ").replace('-', " - ");
    for token in spaced.split_whitespace() {
        match token {
            "+" => sign = 1,
            "-" => sign = -1,
            term => {
                let value = variables.get(term).map_or(term, String::as_str).parse().unwrap_or(0);
                total = total.saturating_add(value * sign);
            }
        }
    }
    total
}

impl Simple {
    fn words_mut(&mut self) -> impl Iterator<Item = &mut Word> {
        self.assignments.iter_mut().map(|(_, word)| word).chain(&mut self.words)
    }

    /// The commands of the first substitution.
    pub(crate) fn first_substitution(&self) -> Option<&Node> {
        let words = self.assignments.iter().map(|(_, word)| word).chain(&self.words);
        words.flatten().find_map(|piece| match piece {
            Piece::Substitution { commands, .. } => Some(&**commands),
            Piece::Text { .. } | Piece::Variable { .. } | Piece::Arithmetic(_) => None,
        })
    }

    /// Replaces the first substitution by its output.
    pub(crate) fn substitute(&mut self, output: &str) {
        let text = output.trim_end_matches('\n').to_owned();
        for piece in self.words_mut().flatten() {
            if let Piece::Substitution { quoted, .. } = piece {
                let quoted = *quoted;
                *piece = Piece::Text { text, quoted };
                return;
            }
        }
    }
}

/// `printf` without arguments: its format with backslash escapes replaced.
pub(crate) fn unescape(format: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = format.bytes().peekable();
    while let Some(next) = rest.next() {
        if next != b'\\' {
            bytes.push(next);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(first @ b'0'..=b'7') => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                // A byte: larger octal numbers are cut, as in a real shell.
                bytes.push(u8::try_from(value & 0xff).unwrap_or_default());
            }
            Some(other) => bytes.extend([b'\\', other]),
            None => bytes.push(b'\\'),
        }
    }
    bytes
}
