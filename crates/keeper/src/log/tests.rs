//! A writer and a reader at each other's heels.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::*;

const SMALL: Ring = Ring { segments: 3, segment_bytes: 100 };

fn writer(directory: &Path, ring: Ring) -> Writer {
    Writer::begin(File::open(directory).unwrap().into(), "exe", ring, Onset::default()).unwrap()
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
    let mut other = Writer::begin(open(), "exe_2", Ring::DEFAULT, Onset::default()).unwrap();
    other.append(Stream::Stdout, 7, b"other").unwrap();

    assert_eq!(Reader::new(directory.path(), "exe").next().unwrap(), None);
}

#[test]
fn the_writer_of_another_body_goes_on_where_the_last_one_broke_off() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(directory.path(), "exe");
    let mut first = writer(directory.path(), SMALL);
    for _ in 1..=20 {
        first.append(Stream::Stdout, 7, &[b'x'; 30]).unwrap();
    }
    all(&mut reader);
    // It was killed in the middle of a piece.
    first.file.write_all(&[9, 0]).unwrap();

    let onset = Reader::new(directory.path(), "exe").onset_of_the_next().unwrap();
    let open = File::open(directory.path()).unwrap();
    let mut second = Writer::begin(open.into(), "exe", SMALL, onset).unwrap();
    second.append(Stream::Stdout, 7, b"again").unwrap();
    let late = all(&mut Reader::new(directory.path(), "exe"));

    assert_eq!((second.pieces(), second.written), (1, 5));
    assert_eq!(all(&mut reader), [piece(21, b"again")]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
    assert_eq!(late[late.len() - 2..], [piece(20, &[b'x'; 30]), piece(21, b"again")]);
}

#[test]
fn what_another_body_wrote_makes_room_for_what_comes_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(directory.path(), "exe");
    for expected in [1, 51, 101] {
        let onset = Reader::new(directory.path(), "exe").onset_of_the_next().unwrap();
        let open = File::open(directory.path()).unwrap();
        let mut next = Writer::begin(open.into(), "exe", SMALL, onset).unwrap();
        assert_eq!((onset.seq, onset.bytes), (expected, (expected - 1) * 30));

        for seq in expected..expected + 50 {
            next.append(Stream::Stdout, 7, &[b'x'; 30]).unwrap();
            assert_eq!(all(&mut reader), [piece(seq, &[b'x'; 30])]);
        }

        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
    }
}

#[test]
fn where_nothing_was_written_the_next_writer_begins_at_the_beginning() {
    let directory = tempfile::tempdir().unwrap();

    let onset = Reader::new(directory.path(), "exe").onset_of_the_next().unwrap();

    assert_eq!(onset, Onset::default());
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

#[test]
fn a_file_made_ahead_becomes_the_next_log_and_only_one() {
    let directory = tempfile::tempdir().unwrap();
    let at = || OwnedFd::from(File::open(directory.path()).unwrap());
    let inode = |name: &str| {
        std::fs::metadata(directory.path().join(name)).ok().map(|it| std::os::unix::fs::MetadataExt::ino(&it))
    };
    let mut spare = Spare::default();
    spare.look(1, &at());
    assert_eq!(inode("spare"), None);
    spare.is_needed(5);
    assert_eq!(spare.next_look_ms(), Some(5));
    spare.look(4, &at());
    assert_eq!(inode("spare"), None);
    spare.look(5, &at());
    let (made, due) = (inode("spare"), spare.next_look_ms());

    let mut first = Writer::begin(at(), "exe", Ring::DEFAULT, Onset::default()).unwrap();
    let mut second = Writer::begin(at(), "other", Ring::DEFAULT, Onset::default()).unwrap();
    first.append(Stream::Stdout, 7, b"one").unwrap();
    second.append(Stream::Stdout, 7, b"two").unwrap();

    assert_eq!((made.is_some(), due), (true, None));
    assert_eq!((inode("exe.0.log"), inode("spare")), (made, None));
    assert_eq!(all(&mut Reader::new(directory.path(), "exe")), [piece(1, b"one")]);
    assert_eq!(all(&mut Reader::new(directory.path(), "other")), [piece(1, b"two")]);
}
