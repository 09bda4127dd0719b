use std::sync::Arc;

use pillion_core::store::{
    SealedSecret, SecretId, SecretKind, SecretReplacement, Store, StoreErrorKind,
};

fn secret_id(id: &str) -> SecretId {
    SecretId {
        kind: SecretKind::Credential,
        id: id.to_owned(),
    }
}

fn sealed(key_id: &str, byte: u8) -> SealedSecret {
    SealedSecret {
        key_id: key_id.to_owned(),
        sealed: vec![byte, 0, 0xff],
    }
}

pub async fn secrets_are_replaced_atomically(store: Arc<dyn Store>) {
    for (id, byte) in [("a", 9), ("b", 9), ("a", 1), ("b", 2)] {
        let put = store.put_secret(&secret_id(id), &sealed("old", byte)).await;
        put.unwrap();
    }
    let replacement = |id: &str, old, new| SecretReplacement {
        secret_id: secret_id(id),
        old_secret: sealed("old", old),
        new_secret: sealed("new", new),
    };
    let first = replacement("a", 1, 11);
    for (why, all) in [
        ("one is missing", vec![first.clone()]),
        (
            "one has changed",
            vec![first.clone(), replacement("b", 3, 12)],
        ),
        ("one is gone", vec![first.clone(), replacement("c", 2, 12)]),
    ] {
        let error = store.replace_secrets(&all).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Conflict, "{why}");
        let stored = store.find_secret(&secret_id("a")).await.unwrap();
        assert_eq!(stored, Some(sealed("old", 1)), "{why}");
    }
    let all = [first, replacement("b", 2, 12)];
    store.replace_secrets(&all).await.unwrap();
    let expected = [
        (secret_id("a"), sealed("new", 11)),
        (secret_id("b"), sealed("new", 12)),
    ];
    assert_eq!(store.secrets().await.unwrap(), expected);
    store.remove_secret(&secret_id("a")).await.unwrap();
    store.remove_secret(&secret_id("a")).await.unwrap();
    assert_eq!(store.find_secret(&secret_id("a")).await.unwrap(), None);
}
