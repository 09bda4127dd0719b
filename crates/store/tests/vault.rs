//! L1: secrets are encrypted at rest, bound to their kind and id, and readable only with their key.

use std::sync::Arc;

use pillion_core::store::{SecretId, SecretKind, SecretStore};
use pillion_mcp_client::{OAuthConfig, OAuthCredentials, TokenKey, TokenStore};
use pillion_store::{
    MasterKey, SqlStore, StoreLocation, StoreOptions, Vault, VaultError, VaultTokenStore,
};
use secrecy::ExposeSecret;

async fn store() -> Arc<SqlStore> {
    let options = StoreOptions::new(StoreLocation::Memory);
    Arc::new(SqlStore::open(&options).await.unwrap())
}

fn copy(key: &MasterKey) -> MasterKey {
    MasterKey::from_base64(&key.to_base64()).unwrap()
}

async fn get(vault: &Vault, id: &str) -> Option<String> {
    let secret = vault.get(SecretKind::Credential, id).await.unwrap();
    secret.map(|secret| secret.expose_secret().to_owned())
}

#[tokio::test]
async fn l1_the_file_contains_no_part_of_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    let store = Arc::new(store);
    let vault = Vault::open(store.clone(), MasterKey::generate())
        .await
        .unwrap();
    let secret = "hush-hush-hush-hush".into();
    vault
        .put(SecretKind::Credential, "weather", &secret)
        .await
        .unwrap();
    assert_eq!(
        get(&vault, "weather").await.as_deref(),
        Some("hush-hush-hush-hush")
    );
    assert!(!format!("{vault:?} {:?}", store.secrets().await.unwrap()).contains("hush"));
    store.close().await;
    let content = std::fs::read(&file).unwrap();
    assert!(content.windows(7).any(|bytes| bytes == b"weather"));
    assert!(!content.windows(4).any(|bytes| bytes == b"hush"));
}

#[tokio::test]
async fn l1_a_wrong_key_is_detected_at_start() {
    let store = store().await;
    let key = MasterKey::generate();
    Vault::open(store.clone(), copy(&key)).await.unwrap();
    let other = MasterKey::generate();
    let ids = (key.id().to_owned(), other.id().to_owned());
    let refused = Vault::open(store.clone(), other).await.unwrap_err();
    let VaultError::WrongKey { stored, given } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((stored, given), ids);
    Vault::open(store.clone(), copy(&key)).await.unwrap();

    // Secrets without the check value, which was removed.
    let vault = Vault::open(store.clone(), copy(&key)).await.unwrap();
    vault
        .put(SecretKind::Credential, "a", &"1".into())
        .await
        .unwrap();
    for (secret_id, _) in store.secrets().await.unwrap() {
        if secret_id.kind == SecretKind::KeyCheck {
            store.remove_secret(&secret_id).await.unwrap();
        }
    }
    let refused = Vault::open(store, key).await.unwrap_err();
    assert!(matches!(refused, VaultError::NoCheck), "{refused:?}");
}

#[tokio::test]
async fn l1_a_secret_can_only_be_decrypted_under_its_kind_and_id() {
    let store = store().await;
    let vault = Vault::open(store.clone(), MasterKey::generate())
        .await
        .unwrap();
    vault
        .put(SecretKind::Credential, "a", &"of a".into())
        .await
        .unwrap();
    vault
        .put(SecretKind::Credential, "b", &"of b".into())
        .await
        .unwrap();
    let secret_id = |kind, id: &str| SecretId {
        kind,
        id: id.to_owned(),
    };
    let of_a = secret_id(SecretKind::Credential, "a");
    let sealed = store.secret(&of_a).await.unwrap().unwrap();
    for moved in [
        secret_id(SecretKind::Credential, "b"),
        secret_id(SecretKind::OAuthTokens, "a"),
    ] {
        store.put_secret(&moved, &sealed).await.unwrap();
        let refused = vault.get(moved.kind, &moved.id).await.unwrap_err();
        assert!(matches!(refused, VaultError::Damaged { .. }), "{refused:?}");
    }
    // One changed bit in each byte, and every shorter length.
    for byte in 0..sealed.sealed.len() {
        let mut changed = sealed.clone();
        changed.sealed[byte] ^= 1;
        store.put_secret(&of_a, &changed).await.unwrap();
        let refused = vault.get(of_a.kind, "a").await.unwrap_err();
        assert!(matches!(refused, VaultError::Damaged { .. }), "{refused:?}");
        changed.sealed.truncate(byte);
        store.put_secret(&of_a, &changed).await.unwrap();
        assert!(vault.get(of_a.kind, "a").await.is_err());
    }
    store.put_secret(&of_a, &sealed).await.unwrap();
    assert_eq!(get(&vault, "a").await.as_deref(), Some("of a"));
}

#[tokio::test]
async fn l1_a_key_rotation_is_atomic() {
    let store = store().await;
    let (old, new) = (MasterKey::generate(), MasterKey::generate());
    let vault = Arc::new(Vault::open(store.clone(), copy(&old)).await.unwrap());
    for number in 0..20 {
        let (id, secret) = (number.to_string(), format!("secret {number}").into());
        vault
            .put(SecretKind::Credential, &id, &secret)
            .await
            .unwrap();
    }
    let before = store.secrets().await.unwrap();
    // Other tasks write during the rotation.
    let writer = tokio::spawn({
        let vault = vault.clone();
        async move {
            for number in 0..20 {
                let secret = format!("new {number}").into();
                vault
                    .put(SecretKind::Credential, "busy", &secret)
                    .await
                    .unwrap();
            }
        }
    });
    let number = vault.rotate(copy(&new)).await.unwrap();
    writer.await.unwrap();
    assert!((20..=21).contains(&number), "{number}");
    assert_eq!(get(&vault, "7").await.as_deref(), Some("secret 7"));
    assert_eq!(get(&vault, "busy").await.as_deref(), Some("new 19"));
    let after = store.secrets().await.unwrap();
    assert!(after.iter().all(|(_, secret)| secret.key_id == new.id()));
    assert!(before.iter().all(|secret| !after.contains(secret)));
    let refused = Vault::open(store.clone(), old).await.unwrap_err();
    assert!(
        matches!(refused, VaultError::WrongKey { .. }),
        "{refused:?}"
    );
    let again = Vault::open(store, new).await.unwrap();
    assert_eq!(get(&again, "0").await.as_deref(), Some("secret 0"));
}

#[tokio::test]
async fn l1_a_key_rotation_with_a_damaged_secret_changes_nothing() {
    let store = store().await;
    let vault = Vault::open(store.clone(), MasterKey::generate())
        .await
        .unwrap();
    for id in ["a", "b"] {
        vault
            .put(SecretKind::Credential, id, &"1".into())
            .await
            .unwrap();
    }
    let secret_id = SecretId {
        kind: SecretKind::Credential,
        id: "b".to_owned(),
    };
    let mut damaged = store.secret(&secret_id).await.unwrap().unwrap();
    damaged.sealed[30] ^= 1;
    store.put_secret(&secret_id, &damaged).await.unwrap();
    let before = store.secrets().await.unwrap();
    let refused = vault.rotate(MasterKey::generate()).await.unwrap_err();
    assert!(matches!(refused, VaultError::Damaged { .. }), "{refused:?}");
    assert_eq!(store.secrets().await.unwrap(), before);
    assert_eq!(get(&vault, "a").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn l1_oauth_tokens_are_stored_for_each_identity() {
    let store = store().await;
    let vault = Vault::open(store.clone(), MasterKey::generate())
        .await
        .unwrap();
    let vault = Arc::new(vault);
    let alice = VaultTokenStore::new(vault.clone(), "alice");
    let bob = VaultTokenStore::new(vault.clone(), "bob");
    let server = "https://dice.example/mcp".parse().unwrap();
    let key = TokenKey::new(&server, &OAuthConfig::default());
    let credentials: OAuthCredentials = serde_json::from_value(serde_json::json!({
        "tokens": {"issuer": "https://as.example", "access_token": "hush-access",
                   "refresh_token": "hush-refresh", "expires_at": 5, "scopes": ["roll"]}
    }))
    .unwrap();
    assert!(alice.load(&key).await.unwrap().is_none());
    alice.save(&key, credentials).await.unwrap();
    assert!(bob.load(&key).await.unwrap().is_none());
    let loaded = alice.load(&key).await.unwrap().unwrap().tokens.unwrap();
    assert_eq!(loaded.access_token.expose_secret(), "hush-access");
    assert_eq!(
        loaded.refresh_token.unwrap().expose_secret(),
        "hush-refresh"
    );
    assert_eq!(
        (loaded.expires_at, loaded.scopes),
        (Some(5), vec!["roll".to_owned()])
    );

    let id = &vault.ids(SecretKind::OAuthTokens).await.unwrap()[0];
    let wrong = "no credentials, hush-hush".into();
    vault
        .put(SecretKind::OAuthTokens, id, &wrong)
        .await
        .unwrap();
    let refused = alice.load(&key).await.unwrap_err();
    assert!(
        !format!("{refused} {refused:?}").contains("hush"),
        "{refused:?}"
    );
    alice.clear(&key).await.unwrap();
    assert!(alice.load(&key).await.unwrap().is_none());
}

#[tokio::test]
async fn l1_a_closed_token_store_changes_nothing() {
    let vault = Vault::open(store().await, MasterKey::generate())
        .await
        .unwrap();
    let vault = Arc::new(vault);
    let server = "https://dice.example/mcp".parse().unwrap();
    let key = TokenKey::new(&server, &OAuthConfig::default());
    let gone = VaultTokenStore::new(vault.clone(), "alice");
    gone.save(&key, OAuthCredentials::default()).await.unwrap();
    gone.close().await;
    assert!(gone.load(&key).await.unwrap().is_none());
    let next = VaultTokenStore::new(vault.clone(), "alice");
    assert!(next.load(&key).await.unwrap().is_some());
    gone.clear(&key).await.unwrap();
    assert!(next.load(&key).await.unwrap().is_some());
    next.forget(None).await.unwrap();
    gone.save(&key, OAuthCredentials::default()).await.unwrap();
    assert!(next.load(&key).await.unwrap().is_none());
    assert!(vault.ids(SecretKind::OAuthTokens).await.unwrap().is_empty());
}
