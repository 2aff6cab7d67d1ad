//! The lock and the note from every side: before, during and after a keeper's life.

use std::io::Write;
use std::process::{Command, Stdio};

use pinfold_lifecycle::{Generation, SandboxId};
use pinfold_provider::InstanceId;

use super::*;
use crate::places::{Grounds, make};

struct Ground {
    _data: tempfile::TempDir,
    places: Places,
}

fn ground() -> Ground {
    let data = tempfile::tempdir().unwrap();
    let body = InstanceId { sandbox: SandboxId(1), generation: Generation(1) };
    let places = Grounds::on_disk(data.path()).unwrap().of(body);
    make(&places.control, 0o700).unwrap();
    Ground { _data: data, places }
}

fn own_note() -> (String, Keeper) {
    let pid = i32::try_from(std::process::id()).unwrap();
    let since = began(pid).unwrap().unwrap();
    (format!("{pid} {since}"), Keeper::Alive(pid, since))
}

#[test]
fn what_nobody_claimed_has_no_keeper() {
    let ground = ground();

    assert_eq!(keeper(&ground.places).unwrap(), Keeper::Nobody);
}

#[test]
fn a_keeper_without_a_note_is_seen_as_long_as_anybody_holds_its_lock() {
    let ground = ground();
    let maker = claim(&ground.places).unwrap();
    let held = maker.try_clone().unwrap();
    let mut heir = Command::new("sleep").arg("100").stdin(Stdio::from(held)).spawn().unwrap();

    drop(maker);
    let while_held = keeper(&ground.places).unwrap();
    heir.kill().unwrap();
    heir.wait().unwrap();

    assert_eq!((while_held, keeper(&ground.places).unwrap()), (Keeper::Unborn, Keeper::Nobody));
}

#[test]
fn a_note_names_the_keeper_until_that_process_is_gone() {
    let ground = ground();
    let (note, known) = own_note();
    let mut held = claim(&ground.places).unwrap();

    held.write_all(note.as_bytes()).unwrap();
    let noted = keeper(&ground.places).unwrap();
    std::fs::write(ground.places.process(), note.replace(' ', " 1")).unwrap();

    // The lock is still held here, but by nobody who could be the keeper.
    assert_eq!((noted, keeper(&ground.places).unwrap()), (known, Keeper::Nobody));
}

#[test]
fn a_claim_forgets_an_earlier_keeper() {
    let ground = ground();
    std::fs::write(ground.places.process(), "1 1").unwrap();

    let _held = claim(&ground.places).unwrap();

    assert_eq!(keeper(&ground.places).unwrap(), Keeper::Unborn);
}

#[test]
fn there_is_no_second_claim_beside_the_first() {
    let ground = ground();
    let _held = claim(&ground.places).unwrap();

    let second = claim(&ground.places);

    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_mark_that_is_taken_away_lets_nobody_be_born() {
    let ground = ground();
    let seal = seal(&ground.places).unwrap();
    assert!(seal.is_some());
    let places = ground.places.clone();
    // It may open the file before or after it is taken away; the lock it never gets in time.
    let late = std::thread::spawn(move || claim(&places));

    std::fs::remove_dir_all(&ground.places.control).unwrap();
    drop(seal);

    assert_eq!(late.join().unwrap().unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_mark_with_a_live_keeper_is_not_sealed() {
    let ground = ground();
    std::fs::write(ground.places.process(), own_note().0).unwrap();

    assert!(seal(&ground.places).is_err());
}

#[test]
fn a_body_that_is_not_there_needs_no_seal() {
    let ground = ground();
    std::fs::remove_dir(&ground.places.control).unwrap();

    assert!(seal(&ground.places).unwrap().is_none());
}

#[tokio::test]
async fn launches_take_turns() {
    let ground = ground();
    let first = Launching::begin(&ground.places).await.unwrap();
    let mut second = std::pin::pin!(Launching::begin(&ground.places));

    let early = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
    drop(first);

    assert!(early.is_err(), "two launches at once");
    second.await.unwrap();
}
