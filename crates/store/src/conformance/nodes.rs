//! Nodes: listed with their heartbeats, and not removed while another node has to adopt something of theirs.

use pinfold_lifecycle::NodeId;

use super::TestedStore;
use super::fixture::{NODE, NOON, OTHER_NODE, StoreFixture};
use crate::{Node, RegisteredNode};

fn node(id: NodeId) -> Node {
    Node { id, host: "host".into(), boot_id: "boot".into(), pid: 77, start_ticks: 123_456 }
}

pub async fn a_node_is_listed_with_its_last_heartbeat(tested: &dyn TestedStore) {
    let store = tested.store();
    store.heartbeat(node(OTHER_NODE), NOON).await.unwrap();
    store.heartbeat(node(NODE), NOON).await.unwrap();

    store.heartbeat(node(NODE), NOON.after_ms(2_000)).await.unwrap();

    let seen = |id, heartbeat_at| RegisteredNode { node: node(id), heartbeat_at };
    assert_eq!(store.nodes().await.unwrap(), [seen(NODE, NOON.after_ms(2_000)), seen(OTHER_NODE, NOON)]);
}

pub async fn a_node_that_owns_a_sandbox_cannot_be_removed(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.store.heartbeat(node(NODE), NOON).await.unwrap();
    fixture.create_ready(1).await;
    let early = fixture.store.remove_node(NODE).await.unwrap();
    let known = fixture.store.nodes().await.unwrap().len();
    fixture.end(1).await;

    let late = fixture.store.remove_node(NODE).await.unwrap();
    let again = fixture.store.remove_node(NODE).await.unwrap();

    assert_eq!((early, known), (false, 1));
    assert!(late && again);
    assert_eq!(fixture.store.nodes().await.unwrap(), []);
}

pub async fn a_removed_node_that_writes_again_is_listed_as_unregistered(tested: &dyn TestedStore) {
    let fixture = StoreFixture::new(tested);
    fixture.create_ready(1).await;
    let unknown = fixture.store.unregistered_nodes().await.unwrap();

    fixture.store.heartbeat(node(NODE), NOON).await.unwrap();
    let known = fixture.store.unregistered_nodes().await.unwrap();
    fixture.end(1).await;
    fixture.store.remove_node(NODE).await.unwrap();

    assert_eq!((unknown, known), (vec![NODE], vec![]));
    assert_eq!(fixture.store.unregistered_nodes().await.unwrap(), [], "it has left nothing");
}

pub async fn a_removed_node_is_registered_again_by_its_next_heartbeat(tested: &dyn TestedStore) {
    let store = tested.store();
    store.heartbeat(node(NODE), NOON).await.unwrap();
    store.remove_node(NODE).await.unwrap();

    store.heartbeat(node(NODE), NOON).await.unwrap();

    assert_eq!(store.nodes().await.unwrap().len(), 1);
}
