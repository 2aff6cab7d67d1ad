//! Tests of a writer and concurrent readers.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::*;

const SMALL: RingSize = RingSize { segments: 3, segment_bytes: 100 };

fn writer(directory: &Path, ring: RingSize) -> LogWriter {
    LogWriter::begin(File::open(directory).unwrap().into(), "exe", ring, LogPosition::default()).unwrap()
}

fn chunk(seq: u64, bytes: &[u8]) -> OutputEntry {
    OutputEntry::Chunk(OutputChunk { seq, at_ms: 7, stream: OutputStream::Stdout, bytes: bytes.to_vec() })
}

fn all(reader: &mut LogReader) -> Vec<OutputEntry> {
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

#[test]
fn chunks_are_read_in_order_and_only_when_complete() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = LogReader::new(directory.path(), "exe");
    assert_eq!(reader.next().unwrap(), None);

    let mut writer = writer(directory.path(), RingSize::DEFAULT);
    writer.append(OutputStream::Stdout, 7, b"one").unwrap();
    writer.append(OutputStream::Stderr, 8, b"").unwrap();
    writer.file.write_all(&[9, 0]).unwrap();

    let two = OutputChunk { seq: 2, at_ms: 8, stream: OutputStream::Stderr, bytes: Vec::new() };
    assert_eq!(all(&mut reader), [chunk(1, b"one"), OutputEntry::Chunk(two)]);
}

#[test]
fn a_reader_that_keeps_up_misses_nothing_while_segments_rotate() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = LogReader::new(directory.path(), "exe");
    let mut writer = writer(directory.path(), SMALL);

    for seq in 1..=100 {
        writer.append(OutputStream::Stdout, 7, &[b'x'; 30]).unwrap();
        assert_eq!(all(&mut reader), [chunk(seq, &[b'x'; 30])]);
    }

    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn a_late_reader_gets_a_gap_with_exactly_the_deleted_chunks() {
    let directory = tempfile::tempdir().unwrap();
    let mut slow = LogReader::new(directory.path(), "exe");
    let mut writer = writer(directory.path(), SMALL);
    writer.append(OutputStream::Stdout, 7, b"first").unwrap();
    assert_eq!(slow.next().unwrap(), Some(chunk(1, b"first")));

    for _ in 2..=50 {
        writer.append(OutputStream::Stdout, 7, &[b'x'; 30]).unwrap();
    }

    let read = all(&mut slow);
    let late = all(&mut LogReader::new(directory.path(), "exe"));
    // The open segment is read to its end before the gap.
    let gap = read.iter().position(|entry| matches!(entry, OutputEntry::Gap(_))).unwrap();
    let OutputEntry::Gap(OutputGap { from_seq, to_seq, bytes }) = read[gap] else { unreachable!() };
    assert_eq!(from_seq, gap as u64 + 2);
    assert_eq!(bytes, (to_seq - from_seq + 1) * 30);
    assert_eq!(read[gap + 1], chunk(to_seq + 1, &[b'x'; 30]));
    assert_eq!(read.last(), Some(&chunk(50, &[b'x'; 30])));
    assert_eq!(late[0], OutputEntry::Gap(OutputGap { from_seq: 1, to_seq, bytes: 5 + (to_seq - 1) * 30 }));
}

#[test]
fn the_log_of_an_execution_with_the_same_prefix_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let open = || File::open(directory.path()).unwrap().into();
    let mut other = LogWriter::begin(open(), "exe_2", RingSize::DEFAULT, LogPosition::default()).unwrap();
    other.append(OutputStream::Stdout, 7, b"other").unwrap();

    assert_eq!(LogReader::new(directory.path(), "exe").next().unwrap(), None);
}

#[test]
fn the_writer_of_a_new_instance_continues_where_the_last_one_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = LogReader::new(directory.path(), "exe");
    let mut first = writer(directory.path(), SMALL);
    for _ in 1..=20 {
        first.append(OutputStream::Stdout, 7, &[b'x'; 30]).unwrap();
    }
    all(&mut reader);
    // The writer was killed in the middle of a chunk.
    first.file.write_all(&[9, 0]).unwrap();

    let position = LogReader::new(directory.path(), "exe").next_writer_position().unwrap();
    let open = File::open(directory.path()).unwrap();
    let mut second = LogWriter::begin(open.into(), "exe", SMALL, position).unwrap();
    second.append(OutputStream::Stdout, 7, b"again").unwrap();
    let late = all(&mut LogReader::new(directory.path(), "exe"));

    assert_eq!((second.chunks(), second.written), (1, 5));
    assert_eq!(all(&mut reader), [chunk(21, b"again")]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
    assert_eq!(late[late.len() - 2..], [chunk(20, &[b'x'; 30]), chunk(21, b"again")]);
}

#[test]
fn segments_of_an_earlier_instance_are_deleted_first() {
    let directory = tempfile::tempdir().unwrap();
    let mut reader = LogReader::new(directory.path(), "exe");
    for expected in [1, 51, 101] {
        let position = LogReader::new(directory.path(), "exe").next_writer_position().unwrap();
        let open = File::open(directory.path()).unwrap();
        let mut next = LogWriter::begin(open.into(), "exe", SMALL, position).unwrap();
        assert_eq!((position.seq, position.bytes), (expected, (expected - 1) * 30));

        for seq in expected..expected + 50 {
            next.append(OutputStream::Stdout, 7, &[b'x'; 30]).unwrap();
            assert_eq!(all(&mut reader), [chunk(seq, &[b'x'; 30])]);
        }

        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3);
    }
}

#[test]
fn without_earlier_output_the_next_writer_starts_at_the_beginning() {
    let directory = tempfile::tempdir().unwrap();

    let position = LogReader::new(directory.path(), "exe").next_writer_position().unwrap();

    assert_eq!(position, LogPosition::default());
}

#[test]
fn a_resumed_reader_continues_after_the_last_chunk_it_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), SMALL);
    for seq in 1..=50_u8 {
        writer.append(OutputStream::Stdout, 7, &[seq; 30]).unwrap();
    }
    let whole = all(&mut LogReader::new(directory.path(), "exe"));
    let OutputEntry::Gap(OutputGap { to_seq: deleted_to, .. }) = whole[0] else { panic!("{whole:?}") };

    for seen in deleted_to..=50 {
        let rest = all(&mut LogReader::after(directory.path(), "exe", seen, seen * 30));
        assert_eq!(rest, whole[usize::try_from(seen - deleted_to).unwrap() + 1..]);
    }
    let late = all(&mut LogReader::after(directory.path(), "exe", 2, 60));
    let bytes = (deleted_to - 2) * 30;
    assert_eq!(late[0], OutputEntry::Gap(OutputGap { from_seq: 3, to_seq: deleted_to, bytes }));
    assert_eq!(late[1..], whole[1..]);
}

#[test]
fn a_link_in_place_of_a_segment_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    writer(elsewhere.path(), RingSize::DEFAULT).append(OutputStream::Stdout, 7, b"secret").unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("exe.0.log"), directory.path().join("exe.0.log"))
        .unwrap();

    assert!(LogReader::new(directory.path(), "exe").next().is_err());
}

#[test]
fn a_spare_file_becomes_the_next_log_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = || OwnedFd::from(File::open(directory.path()).unwrap());
    let inode = |name: &str| {
        std::fs::metadata(directory.path().join(name)).ok().map(|it| std::os::unix::fs::MetadataExt::ino(&it))
    };
    let mut spare = SpareLog::default();
    spare.create_if_due(1, &at());
    assert_eq!(inode("spare"), None);
    spare.schedule(5);
    assert_eq!(spare.next_check_ms(), Some(5));
    spare.create_if_due(4, &at());
    assert_eq!(inode("spare"), None);
    spare.create_if_due(5, &at());
    let (made, due) = (inode("spare"), spare.next_check_ms());

    let mut first = LogWriter::begin(at(), "exe", RingSize::DEFAULT, LogPosition::default()).unwrap();
    let mut second = LogWriter::begin(at(), "other", RingSize::DEFAULT, LogPosition::default()).unwrap();
    first.append(OutputStream::Stdout, 7, b"one").unwrap();
    second.append(OutputStream::Stdout, 7, b"two").unwrap();

    assert_eq!((made.is_some(), due), (true, None));
    assert_eq!((inode("exe.0.log"), inode("spare")), (made, None));
    assert_eq!(all(&mut LogReader::new(directory.path(), "exe")), [chunk(1, b"one")]);
    assert_eq!(all(&mut LogReader::new(directory.path(), "other")), [chunk(1, b"two")]);
}
