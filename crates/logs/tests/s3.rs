//! Logs and artifacts in the S3-compatible server whose address is in `PINFOLD_TEST_S3`, such as moto's:
//! `pip install 'moto[server]'`, `moto_server -p 5000`, `PINFOLD_TEST_S3=127.0.0.1:5000`. Only built with the feature
//! `s3`, which no default build has.

#![allow(clippy::unwrap_used, dead_code, reason = "tests, and a fixture that is shared with others")]

#[path = "logs/fixture.rs"]
mod fixture;

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pinfold_lifecycle::Timestamp;
use pinfold_logs::{
    ArtifactError, ArtifactLimits, Artifacts, Bucket, Keys, MoveOutcome, ObjectStorage, RetentionPeriods,
};

use fixture::{Fixture, ID};

fn bucket(name: &str) -> ObjectStorage {
    let address = std::env::var("PINFOLD_TEST_S3").expect("PINFOLD_TEST_S3 is the address of an S3 server");
    let mut server = TcpStream::connect(&address).unwrap();
    write!(
        server,
        "PUT /{name} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    server.read_to_string(&mut String::new()).unwrap();
    let keys = Keys { access_key_id: "test".into(), secret_access_key: "test".into() };
    let bucket = Bucket {
        name: name.into(),
        endpoint: Some(format!("http://{address}")),
        region: Some("us-east-1".into()),
        prefix: "some/where".into(),
        keys: Some(keys),
    };
    ObjectStorage::s3(&bucket).unwrap()
}

#[tokio::test]
async fn log_moved_to_a_bucket_is_read_from_every_cursor() {
    let own = tempfile::tempdir().unwrap();
    drop(Fixture::ready_in(own.path()).await);
    let mut fixture = Fixture::with_objects(own.path(), bucket("logs"));
    fixture.start(7).await;
    for _ in 0..30 {
        fixture.write(7, "a line\n".repeat(10_000).as_str());
    }
    fixture.finish(7).await;
    fixture.end().await;
    let whole = fixture.read_all().await;

    assert!(matches!(fixture.logs.move_one(ID).await.unwrap(), MoveOutcome::Moved { .. }));

    assert!(!fixture.outputs().exists());
    for index in (0..whole.len()).step_by(20) {
        assert_eq!(fixture.read_after(&whole[index].seq).await, whole[index + 1..]);
    }
    let far = Timestamp(i64::MAX / 2);
    assert_eq!(fixture.logs.expire(RetentionPeriods::default(), Timestamp(0)).await.unwrap(), 0);
    assert_eq!(fixture.logs.expire(RetentionPeriods::default(), far).await.unwrap(), 1);
    assert!(fixture.read_all().await.iter().any(|entry| entry.gap().is_some()));
}

#[tokio::test]
async fn artifact_uploaded_in_parts_is_read_back_from_a_bucket() {
    let artifacts = Artifacts::new(bucket("artifacts"), ArtifactLimits { bytes: 13 << 20, artifacts: 9 });
    let now = Timestamp(1_800_000_000_000);

    let made = artifacts.put("run", "a/b", "text/plain", parts_of(13), now).await.unwrap();
    let too_long = artifacts.put("run", "c", "text/plain", parts_of(14), now).await;

    let (found, content) = artifacts.get("run", "a/b").await.unwrap();
    let length: usize = content.map(|part| part.unwrap().len()).collect::<Vec<_>>().await.iter().sum();
    assert_eq!((found, length), (made.clone(), 13 << 20));
    assert!(matches!(too_long, Err(ArtifactError::TooLarge { .. })));
    assert_eq!(artifacts.list("run").await.unwrap(), [made]);
    assert_eq!(artifacts.expire(RetentionPeriods::default(), Timestamp(i64::MAX / 2)).await.unwrap(), 1);
    assert_eq!(artifacts.list("run").await.unwrap(), []);
}

fn parts_of(count: usize) -> impl futures_util::Stream<Item = Result<Bytes, std::io::Error>> + Send {
    stream::iter((0..count).map(|_| Ok(Bytes::from(vec![9; 1 << 20]))))
}
