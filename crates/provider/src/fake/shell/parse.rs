//! The parser of shell scripts. It knows lists, `&&`, `||`, pipes, `&`, `while`, `for`, redirections, quotes and
//! the expansions of [`Piece`].

use super::syntax::{Node, Piece, Redirect, Simple, Stream, Word};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("syntax error: {expected} expected")]
pub(crate) struct SyntaxError {
    expected: &'static str,
}

pub(crate) fn parse(script: &str) -> Result<Node, SyntaxError> {
    let mut parser = Parser { text: script.chars().collect(), at: 0 };
    let node = parser.list(&[])?;
    if parser.at == parser.text.len() { Ok(node) } else { Err(SyntaxError { expected: "end of the script" }) }
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

/// Words that end a list where they are expected.
type Terminators<'a> = &'a [&'static str];

impl Parser {
    fn list(&mut self, terminators: Terminators<'_>) -> Result<Node, SyntaxError> {
        let mut nodes = Vec::new();
        loop {
            self.skip_while(|next| next.is_whitespace() || next == ';');
            self.skip_comment();
            let ends = terminators.iter().any(|word| self.is_at_word(word));
            match self.peek() {
                Some('\n') => continue,
                None | Some(')') => break,
                Some(_) if ends => break,
                Some(_) => {}
            }
            let mut node = self.and_or()?;
            self.skip_blanks();
            if self.peek() == Some('&') {
                self.at += 1;
                node = Node::Background(Box::new(node));
            }
            nodes.push(node);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) })
    }

    fn and_or(&mut self) -> Result<Node, SyntaxError> {
        let mut left = self.pipe()?;
        loop {
            self.skip_blanks();
            let combine: fn(Box<Node>, Box<Node>) -> Node = if self.take("&&") {
                Node::And
            } else if self.take("||") {
                Node::Or
            } else {
                return Ok(left);
            };
            left = combine(Box::new(left), Box::new(self.pipe()?));
        }
    }

    fn pipe(&mut self) -> Result<Node, SyntaxError> {
        let mut left = self.command()?;
        loop {
            self.skip_blanks();
            if self.is_at("||") || !self.take("|") {
                return Ok(left);
            }
            left = Node::Pipe(Box::new(left), Box::new(self.command()?));
        }
    }

    fn command(&mut self) -> Result<Node, SyntaxError> {
        self.skip_blanks();
        if self.take_word("while") {
            let condition = Box::new(self.list(&["do"])?);
            Ok(Node::While { condition, body: Box::new(self.loop_body()?) })
        } else if self.take_word("for") {
            self.skip_blanks();
            let name = self.name();
            self.skip_blanks();
            if !self.take_word("in") {
                return Err(SyntaxError { expected: "`in`" });
            }
            let mut words = Vec::new();
            while let Some(word) = self.word()? {
                words.push(word);
            }
            self.skip_while(|next| next.is_whitespace() || next == ';');
            Ok(Node::For { name, words, body: Box::new(self.loop_body()?) })
        } else {
            self.simple()
        }
    }

    /// `do LIST done`.
    fn loop_body(&mut self) -> Result<Node, SyntaxError> {
        if !self.take_word("do") {
            return Err(SyntaxError { expected: "`do`" });
        }
        let body = self.list(&["done"])?;
        if self.take_word("done") { Ok(body) } else { Err(SyntaxError { expected: "`done`" }) }
    }

    fn simple(&mut self) -> Result<Node, SyntaxError> {
        let mut simple = Simple::default();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
            } else if let Some(name) = self.assignment().filter(|_| simple.words.is_empty()) {
                self.at += name.chars().count() + 1;
                simple.assignments.push((name, self.word_here()?));
            } else if let Some(word) = self.word()? {
                simple.words.push(word);
            } else if simple == Simple::default() {
                return Err(SyntaxError { expected: "a command" });
            } else {
                return Ok(Node::Simple(simple));
            }
        }
    }

    fn redirect(&mut self) -> Result<Option<Redirect>, SyntaxError> {
        if self.take("<") {
            return Ok(Some(Redirect::ReadFile(self.file_name()?)));
        }
        let stream = if self.take("2>") {
            Stream::Stderr
        } else if self.take(">") || self.take("1>") {
            Stream::Stdout
        } else {
            return Ok(None);
        };
        if self.take("&") {
            let of = if self.take("2") {
                Stream::Stderr
            } else if self.take("1") {
                Stream::Stdout
            } else {
                return Err(SyntaxError { expected: "1 or 2" });
            };
            return Ok(Some(Redirect::Duplicate { stream, of }));
        }
        let append = self.take(">");
        Ok(Some(Redirect::WriteFile { stream, file: self.file_name()?, append }))
    }

    fn file_name(&mut self) -> Result<Word, SyntaxError> {
        self.word()?.ok_or(SyntaxError { expected: "a file name" })
    }

    /// The name of the assignment that begins here.
    fn assignment(&self) -> Option<String> {
        let name: String = self.text[self.at..].iter().take_while(|next| is_name(**next)).collect();
        let follows = self.text.get(self.at + name.chars().count());
        let is_variable = name.starts_with(|first: char| !first.is_ascii_digit());
        (is_variable && follows == Some(&'=')).then_some(name)
    }

    /// The next word of the command. None: it ends here.
    fn word(&mut self) -> Result<Option<Word>, SyntaxError> {
        self.skip_blanks();
        match self.peek() {
            Some(next) if !ends_word(next) => Ok(Some(self.word_here()?)),
            _ => Ok(None),
        }
    }

    /// The word up to the next blank or operator. It may be empty.
    fn word_here(&mut self) -> Result<Word, SyntaxError> {
        let mut word = Word::new();
        while let Some(next) = self.peek().filter(|next| !ends_word(*next)) {
            match next {
                '\'' => {
                    self.at += 1;
                    let text = self.take_while(|next| next != '\'');
                    word.push(Piece::quoted(text));
                    self.expect('\'')?;
                }
                '"' => {
                    self.at += 1;
                    self.double_quoted(&mut word)?;
                }
                '$' => word.push(self.dollar(false)?),
                '\\' => {
                    self.at += 1;
                    word.push(Piece::quoted(self.take_char()));
                }
                _ => {
                    let plain = |next: char| !ends_word(next) && !matches!(next, '\'' | '"' | '$' | '\\');
                    let text = self.take_while(plain);
                    word.push(Piece::quoted(text));
                }
            }
        }
        Ok(word)
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        word.push(Piece::quoted(""));
        loop {
            match self.peek() {
                None => return Err(SyntaxError { expected: "a closing quote" }),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('$') => word.push(self.dollar(true)?),
                Some('\\') if matches!(self.text.get(self.at + 1), Some('"' | '\\' | '$')) => {
                    self.at += 1;
                    word.push(Piece::quoted(self.take_char()));
                }
                Some(_) => word.push(Piece::quoted(self.take_char())),
            }
        }
    }

    fn dollar(&mut self, quoted: bool) -> Result<Piece, SyntaxError> {
        if self.take("$((") {
            let expression = self.take_while(|next| next != ')');
            return if self.take("))") {
                Ok(Piece::Arithmetic(expression))
            } else {
                Err(SyntaxError { expected: "`))`" })
            };
        }
        if self.take("$(") {
            let commands = Box::new(self.list(&[])?);
            self.expect(')')?;
            return Ok(Piece::Substitution { commands, quoted });
        }
        if self.take("$$") {
            return Ok(Piece::Variable { name: "$".into(), quoted });
        }
        if self.take("${") {
            let name = self.name();
            self.expect('}')?;
            return Ok(Piece::Variable { name, quoted });
        }
        self.at += 1;
        let name = self.name();
        Ok(if name.is_empty() { Piece::quoted("$") } else { Piece::Variable { name, quoted } })
    }

    fn name(&mut self) -> String {
        self.take_while(is_name)
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn take_char(&mut self) -> String {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next.map(String::from).unwrap_or_default()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let taken: String = self.text[self.at..].iter().take_while(|next| wanted(**next)).collect();
        self.at += taken.chars().count();
        taken
    }

    fn skip_while(&mut self, skipped: impl Fn(char) -> bool) {
        self.take_while(skipped);
    }

    fn skip_blanks(&mut self) {
        self.skip_while(|next| matches!(next, ' ' | '\t'));
    }

    fn skip_comment(&mut self) {
        if self.peek() == Some('#') {
            self.skip_while(|next| next != '\n');
        }
    }

    fn is_at(&self, token: &str) -> bool {
        self.text[self.at.min(self.text.len())..].iter().copied().take(token.len()).eq(token.chars())
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.is_at(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn is_at_word(&self, word: &str) -> bool {
        self.is_at(word) && self.text.get(self.at + word.len()).is_none_or(|next| ends_word(*next))
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.is_at_word(word) && self.take(word)
    }

    fn expect(&mut self, token: char) -> Result<(), SyntaxError> {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        if found { Ok(()) } else { Err(SyntaxError { expected: "a closing quote or bracket" }) }
    }
}

fn is_name(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}

fn ends_word(next: char) -> bool {
    next.is_whitespace() || matches!(next, ';' | '&' | '|' | '<' | '>' | '(' | ')')
}
