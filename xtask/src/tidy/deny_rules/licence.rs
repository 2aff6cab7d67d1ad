//! Licence expressions, such as `(MIT OR Apache-2.0) AND Unicode-3.0`. Older packages write `/` for `OR`.

/// Whether a choice that the expression offers is allowed. One that cannot be read is not.
pub(super) fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0, allowed };
    let is_allowed = words.any_of();
    is_allowed == Some(true) && words.next == words.words.len()
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a [&'a str],
}

impl Words<'_> {
    /// `A OR B`, which binds less than `AND`.
    fn any_of(&mut self) -> Option<bool> {
        let mut any = self.all_of()?;
        while self.take("OR") {
            any |= self.all_of()?;
        }
        Some(any)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut all = self.one()?;
        while self.take("AND") {
            all &= self.one()?;
        }
        Some(all)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let inner = self.any_of()?;
            return self.take(")").then_some(inner);
        }
        let name = *self.words.get(self.next)?;
        self.next += 1;
        if ["AND", "OR", "WITH", ")"].contains(&name) {
            return None;
        }
        if self.take("WITH") {
            // A licence with an exception is another licence.
            let exception = *self.words.get(self.next)?;
            self.next += 1;
            return Some(self.allowed.contains(&format!("{name} WITH {exception}").as_str()));
        }
        Some(self.allowed.contains(&name))
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.next) == Some(&word);
        self.next += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Unicode-3.0"];

    #[test]
    fn one_allowed_choice_is_enough() {
        for expression in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
            "GPL-3.0-only AND ISC OR MIT",
        ] {
            assert!(is_allowed(expression, ALLOWED), "{expression}");
        }
    }

    #[test]
    fn every_part_of_a_whole_must_be_allowed() {
        for expression in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(!is_allowed(expression, ALLOWED), "{expression}");
        }
    }

    #[test]
    fn an_expression_that_cannot_be_read_is_not_allowed() {
        for expression in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "OR MIT", "MIT WITH"] {
            assert!(!is_allowed(expression, ALLOWED), "{expression}");
        }
    }
}
