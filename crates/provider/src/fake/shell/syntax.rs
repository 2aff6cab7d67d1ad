//! The syntax tree of a shell script. It is part of a process's state, so that it can be stored with it.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Node {
    Simple(Simple),
    Sequence(Vec<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Pipe(Box<Node>, Box<Node>),
    While { condition: Box<Node>, body: Box<Node> },
    For { name: String, words: Vec<Word>, body: Box<Node> },
    Background(Box<Node>),
}

/// Assignments, or a command with its arguments and redirections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<(String, Word)>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
}

pub(crate) type Word = Vec<Piece>;

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Piece {
    /// Text. Unless quoted, it is the result of an expansion, and blanks in it separate words.
    Text {
        text: String,
        quoted: bool,
    },
    Variable {
        name: String,
        quoted: bool,
    },
    Arithmetic(String),
    /// The output of commands.
    Substitution {
        commands: Box<Node>,
        quoted: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Redirect {
    ReadFile(Word),
    WriteFile {
        stream: Stream,
        file: Word,
        append: bool,
    },
    /// `>&2` and `2>&1`.
    Duplicate {
        stream: Stream,
        of: Stream,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Node {
    /// A command with these arguments.
    pub(crate) fn command(argv: &[String]) -> Self {
        let words = argv.iter().map(|word| vec![Piece::quoted(word)]).collect();
        Self::Simple(Simple { words, ..Simple::default() })
    }
}

impl Piece {
    pub(crate) fn quoted(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), quoted: true }
    }
}
