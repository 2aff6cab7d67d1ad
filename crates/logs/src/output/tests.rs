//! Chunks of what the keeper's own writer wrote.

use std::fs::File;

use pinfold_output_log::{LogPosition, LogReader, LogWriter, RingSize};

use super::*;

const EXECUTION: &str = "exe_7";

struct Written {
    directory: tempfile::TempDir,
    writer: LogWriter,
}

impl Written {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = File::open(directory.path()).unwrap().into();
        let writer = LogWriter::begin(file, EXECUTION, RingSize::DEFAULT, LogPosition::default()).unwrap();
        Self { directory, writer }
    }

    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.writer.append(stream, 7, bytes).unwrap();
    }

    fn read(&self, after: OutputPosition, is_complete: bool) -> Vec<LogChunk> {
        let (seq, bytes) = (after.piece, after.bytes);
        let reader = LogReader::after(self.directory.path(), EXECUTION, seq, bytes);
        let mut output = ExecutionOutput::after(after, Some(Box::new(reader)));
        let mut chunks = Vec::new();
        while output.head(is_complete, Timestamp(0)).unwrap().is_some() {
            chunks.extend(output.take());
        }
        chunks
    }

    fn content(&self, is_complete: bool) -> Vec<LineContent> {
        let chunks = self.read(OutputPosition::default(), is_complete);
        for (index, chunk) in chunks.iter().enumerate() {
            assert_eq!(self.read(chunk.after, is_complete), chunks[index + 1..], "after chunk {index}");
        }
        chunks.into_iter().map(|chunk| chunk.content).collect()
    }
}

fn text(text: &str) -> LineContent {
    LineContent::Text(text.into())
}

#[test]
fn a_character_that_is_cut_in_two_is_put_together() {
    let mut written = Written::new();
    let crab = "🦀".as_bytes();
    written.write(OutputStream::Stdout, &[b"a", &crab[..1]].concat());
    assert_eq!(written.content(false), [text("a")]);
    written.write(OutputStream::Stdout, &crab[1..2]);
    assert_eq!(written.content(false), [text("a")]);

    written.write(OutputStream::Stdout, &[&crab[2..], b"b"].concat());

    assert_eq!(written.content(false), [text("a"), text("🦀"), text("b")]);
}

#[test]
fn a_character_that_never_ends_is_bytes() {
    let mut written = Written::new();
    written.write(OutputStream::Stdout, b"a\xf0\x9f");
    assert_eq!(written.content(true), [text("a"), LineContent::Bytes(b"\xf0\x9f".to_vec())]);

    written.write(OutputStream::Stderr, b"other");

    let expected = [text("a"), LineContent::Bytes(b"\xf0\x9f".to_vec()), text("other")];
    assert_eq!(written.content(false), expected);
}

#[test]
fn a_long_line_is_cut_between_characters_and_a_long_text_between_lines() {
    let mut written = Written::new();
    written.write(OutputStream::Stdout, "€".repeat(20_000).as_bytes());
    written.write(OutputStream::Stdout, "a line of some length\n".repeat(1_000).as_bytes());

    let kept = written.content(false);

    let texts = kept.iter().map(|kept| match kept {
        LineContent::Text(text) => text.as_str(),
        other => panic!("{other:?}"),
    });
    let texts: Vec<_> = texts.collect();
    assert!(texts.iter().all(|text| text.len() <= MAX_CHUNK));
    assert_eq!(texts.concat(), "€".repeat(20_000) + &"a line of some length\n".repeat(1_000));
    assert!(texts.iter().skip_while(|text| text.starts_with('€')).all(|text| text.ends_with('\n')));
}

#[test]
fn pieces_of_no_length_are_passed_over() {
    let mut written = Written::new();
    written.write(OutputStream::Stdout, b"");
    written.write(OutputStream::Stderr, b"");
    written.write(OutputStream::Stdout, b"x");

    assert_eq!(written.content(false), [text("x")]);
}

#[test]
fn random_output_is_read_back_unchanged() {
    fastrand::seed(5);
    for _ in 0..50 {
        let mut written = Written::new();
        let mut expected: Vec<u8> = Vec::new();
        for _ in 0..fastrand::usize(1..30) {
            let alphabet = "a\n€🦀\u{1b}é".as_bytes();
            let begin = fastrand::usize(..alphabet.len());
            let piece = &alphabet[begin..fastrand::usize(begin..=alphabet.len())];
            let stream = if fastrand::u8(..4) == 0 { OutputStream::Stderr } else { OutputStream::Stdout };
            written.write(stream, piece);
            expected.extend(piece);
        }

        let kept = written.content(true);

        let bytes = kept.into_iter().flat_map(|kept| match kept {
            LineContent::Text(text) => text.into_bytes(),
            LineContent::Bytes(bytes) => bytes,
            LineContent::Gap(missing) => panic!("{missing:?}"),
        });
        assert_eq!(bytes.collect::<Vec<_>>(), expected);
    }
}
