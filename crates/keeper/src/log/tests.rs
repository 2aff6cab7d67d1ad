//! A writer and a reader at each other's heels.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::*;

const SMALL: Ring = Ring { segments: 3, segment_bytes: 100 };

fn writer(directory: &Path, ring: Ring) -> Writer {
    Writer::begin(File::open(directory).unwrap().into(), "exe", ring).unwrap()
}

fn piece(seq: u64, bytes: &[u8]) -> Entry {
    Entry::Piece(Piece { seq, at_ms: 7, stream: Stream::Stdout, bytes: bytes.to_vec() })
}

fn all(reader: &mut Reader) -> Vec<Entry> {
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

#[test]
fn what_was_written_is_read_back_in_order_and_only_when_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(directory.path(), "exe");
    assert_eq!(reader.next().unwrap(), None);

    let mut writer = writer(directory.path(), Ring::DEFAULT);
    writer.append(Stream::Stdout, 7, b"one").unwrap();
    writer.append(Stream::Stderr, 8, b"").unwrap();
    writer.file.write_all(&[9, 0]).unwrap();

    let two = Piece { seq: 2, at_ms: 8, stream: Stream::Stderr, bytes: Vec::new() };
    assert_eq!(all(&mut reader), [piece(1, b"one"), Entry::Piece(two)]);
}

#[test]
fn a_reader_that_keeps_up_misses_nothing_while_segments_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(directory.path(), "exe");
    let mut writer = writer(directory.path(), SMALL);

    for seq in 1..=100 {
        writer.append(Stream::Stdout, 7, &[b'x'; 30]).unwrap();
        assert_eq!(all(&mut reader), [piece(seq, &[b'x'; 30])]);
    }

    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn a_reader_that_comes_late_is_told_exactly_what_made_room() {
    let directory = tempfile::tempdir().unwrap();
    let mut slow = Reader::new(directory.path(), "exe");
    let mut writer = writer(directory.path(), SMALL);
    writer.append(Stream::Stdout, 7, b"first").unwrap();
    assert_eq!(slow.next().unwrap(), Some(piece(1, b"first")));

    for _ in 2..=50 {
        writer.append(Stream::Stdout, 7, &[b'x'; 30]).unwrap();
    }

    let read = all(&mut slow);
    let late = all(&mut Reader::new(directory.path(), "exe"));
    // What it had open is read to its end before the gap.
    let gap = read.iter().position(|entry| matches!(entry, Entry::Gap(_))).unwrap();
    let Entry::Gap(Gap { from_seq, to_seq, bytes }) = read[gap] else { unreachable!() };
    assert_eq!(from_seq, gap as u64 + 2);
    assert_eq!(bytes, (to_seq - from_seq + 1) * 30);
    assert_eq!(read[gap + 1], piece(to_seq + 1, &[b'x'; 30]));
    assert_eq!(read.last(), Some(&piece(50, &[b'x'; 30])));
    assert_eq!(late[0], Entry::Gap(Gap { from_seq: 1, to_seq, bytes: 5 + (to_seq - 1) * 30 }));
}

#[test]
fn another_execution_whose_name_begins_alike_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let open = || File::open(directory.path()).unwrap().into();
    let mut other = Writer::begin(open(), "exe_2", Ring::DEFAULT).unwrap();
    other.append(Stream::Stdout, 7, b"other").unwrap();

    assert_eq!(Reader::new(directory.path(), "exe").next().unwrap(), None);
}

#[test]
fn a_reader_that_comes_back_goes_on_after_what_it_has_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), SMALL);
    for seq in 1..=50_u8 {
        writer.append(Stream::Stdout, 7, &[seq; 30]).unwrap();
    }
    let whole = all(&mut Reader::new(directory.path(), "exe"));
    let Entry::Gap(Gap { to_seq: made_room, .. }) = whole[0] else { panic!("{whole:?}") };

    for seen in made_room..=50 {
        let rest = all(&mut Reader::after(directory.path(), "exe", seen, seen * 30));
        assert_eq!(rest, whole[usize::try_from(seen - made_room).unwrap() + 1..]);
    }
    let late = all(&mut Reader::after(directory.path(), "exe", 2, 60));
    let bytes = (made_room - 2) * 30;
    assert_eq!(late[0], Entry::Gap(Gap { from_seq: 3, to_seq: made_room, bytes }));
    assert_eq!(late[1..], whole[1..]);
}

#[test]
fn a_link_in_place_of_a_segment_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    writer(elsewhere.path(), Ring::DEFAULT).append(Stream::Stdout, 7, b"secret").unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("exe.0.log"), directory.path().join("exe.0.log"))
        .unwrap();

    assert!(Reader::new(directory.path(), "exe").next().is_err());
}
