//! Finds whole words in text.

/// Whether `word` stands in `text` with no letter, digit or underscore on either side of it. A side of the
/// word that is itself punctuation (the end of `panic!`) may touch anything.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    count_word(text, word) > 0
}

/// How often `word` stands in `text` as `has_word` finds it.
pub(super) fn count_word(text: &str, word: &str) -> usize {
    let is_whole = |start: usize| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        let joins_before = word.starts_with(is_word) && before.is_some_and(is_word);
        let joins_after = word.ends_with(is_word) && after.is_some_and(is_word);
        !joins_before && !joins_after
    };
    text.match_indices(word).filter(|(start, _)| is_whole(*start)).count()
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_only_whole() {
        assert!(has_word("see std::io.", "std::io"));
        assert!(has_word("(panic!()", "panic!"));
        assert!(!has_word("std::iota", "std::io"));
        assert!(!has_word("my_panic!()", "panic!"));
        assert!(has_word("std::iota or std::io", "std::io"));
    }
}
