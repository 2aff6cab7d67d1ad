//! Tokens: stored unchanged, and never valid again once revoked.

use pinfold_lifecycle::TokenId;

use super::TestedStore;
use super::fixture::NOON;
use crate::{Role, Token};

fn token(id: u128) -> Token {
    Token {
        id: TokenId(id),
        name: format!("token {id}"),
        role: Role::Operator,
        hash: [7; 32],
        created_at: NOON,
        revoked_at: None,
    }
}

pub async fn a_token_is_read_back_as_it_was(tested: &dyn TestedStore) {
    let tokens = tested.tokens();

    for (id, role) in [(1, Role::Viewer), (2, Role::Operator), (3, Role::Admin)] {
        let token = Token { role, ..token(id) };
        tokens.add_token(token.clone()).await.unwrap();

        assert_eq!(tokens.token(TokenId(id)).await.unwrap(), Some(token));
    }
    assert_eq!(tokens.token(TokenId(4)).await.unwrap(), None);
}

pub async fn a_second_token_with_the_same_id_is_refused(tested: &dyn TestedStore) {
    let tokens = tested.tokens();
    tokens.add_token(token(1)).await.unwrap();

    let again = tokens.add_token(Token { role: Role::Admin, ..token(1) }).await;

    assert!(again.is_err());
    assert_eq!(tokens.token(TokenId(1)).await.unwrap(), Some(token(1)));
}

pub async fn a_token_is_revoked_once_and_for_all(tested: &dyn TestedStore) {
    let tokens = tested.tokens();
    tokens.add_token(token(1)).await.unwrap();
    tokens.add_token(token(2)).await.unwrap();

    let first = tokens.revoke_token(TokenId(1), NOON.after_ms(5)).await.unwrap();
    let again = tokens.revoke_token(TokenId(1), NOON.after_ms(9)).await.unwrap();
    let unknown = tokens.revoke_token(TokenId(3), NOON).await.unwrap();

    assert_eq!((first, again, unknown), (true, true, false));
    let revoked = Token { revoked_at: Some(NOON.after_ms(5)), ..token(1) };
    assert_eq!(tokens.tokens().await.unwrap(), [revoked, token(2)]);
}

pub async fn tokens_are_listed_the_oldest_first(tested: &dyn TestedStore) {
    let tokens = tested.tokens();
    for id in [3, 1, 2] {
        tokens.add_token(token(id)).await.unwrap();
    }

    let ids: Vec<_> = tokens.tokens().await.unwrap().iter().map(|token| token.id.0).collect();

    assert_eq!(ids, [1, 2, 3]);
}
