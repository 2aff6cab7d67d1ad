//! What does not hold, and which promise that breaks.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// Something is there that nobody wants.
    Leak,
    /// Something was said that is not so.
    Lie,
    /// Something waits for nothing.
    Stuck,
    /// The figures do not add up.
    Sum,
    /// Something was acknowledged and is not known any more.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    pub broken: Broken,
    pub text: String,
}

impl Complaint {
    pub(crate) fn new(broken: Broken, text: impl Into<String>) -> Self {
        Self { broken, text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broken = match self.broken {
            Broken::Leak => "leak",
            Broken::Lie => "lie",
            Broken::Stuck => "stuck",
            Broken::Sum => "sum",
            Broken::Lost => "lost",
        };
        write!(f, "{broken}: {}", self.text)
    }
}
