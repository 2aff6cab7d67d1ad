//! Promises about nodes: known by their heartbeats, and not forgotten while there is something to adopt.

use pinfold_lifecycle::NodeId;

use super::Subject;
use super::world::{NODE, NOON, OTHER_NODE, World};
use crate::{Node, NodeSeen};

fn node(id: NodeId) -> Node {
    Node { id, host: "host".into(), boot_id: "boot".into(), pid: 77, started: 123_456 }
}

pub async fn a_node_is_known_by_its_last_heartbeat(subject: &dyn Subject) {
    let store = subject.store();
    store.beat(node(OTHER_NODE), NOON).await.unwrap();
    store.beat(node(NODE), NOON).await.unwrap();

    store.beat(node(NODE), NOON.after_ms(2_000)).await.unwrap();

    let seen = |id, heartbeat_at| NodeSeen { node: node(id), heartbeat_at };
    assert_eq!(store.nodes().await.unwrap(), [seen(NODE, NOON.after_ms(2_000)), seen(OTHER_NODE, NOON)]);
}

pub async fn a_node_that_owns_something_cannot_leave(subject: &dyn Subject) {
    let world = World::over(subject);
    world.store.beat(node(NODE), NOON).await.unwrap();
    world.live(1).await;
    let early = world.store.leave(NODE).await.unwrap();
    let known = world.store.nodes().await.unwrap().len();
    world.end(1).await;

    let late = world.store.leave(NODE).await.unwrap();
    let again = world.store.leave(NODE).await.unwrap();

    assert_eq!((early, known), (false, 1));
    assert!(late && again);
    assert_eq!(world.store.nodes().await.unwrap(), []);
}

pub async fn what_a_node_writes_after_it_was_forgotten_tells_of_it(subject: &dyn Subject) {
    let world = World::over(subject);
    world.live(1).await;
    let unknown = world.store.forgotten_nodes().await.unwrap();

    world.store.beat(node(NODE), NOON).await.unwrap();
    let known = world.store.forgotten_nodes().await.unwrap();
    world.end(1).await;
    world.store.leave(NODE).await.unwrap();

    assert_eq!((unknown, known), (vec![NODE], vec![]));
    assert_eq!(world.store.forgotten_nodes().await.unwrap(), [], "it has left nothing");
}

pub async fn a_node_that_was_forgotten_is_known_again_by_its_next_heartbeat(subject: &dyn Subject) {
    let store = subject.store();
    store.beat(node(NODE), NOON).await.unwrap();
    store.leave(NODE).await.unwrap();

    store.beat(node(NODE), NOON).await.unwrap();

    assert_eq!(store.nodes().await.unwrap().len(), 1);
}
