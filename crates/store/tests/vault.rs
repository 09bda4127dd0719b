//! L1: secrets are encrypted at rest, bound to their kind and ID, and readable only with their key.

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

async fn open(store: &Arc<SqlStore>, key: MasterKey) -> Result<Vault, VaultError> {
    Vault::open(store.clone(), key).await
}

async fn new_vault(store: &Arc<SqlStore>) -> Vault {
    open(store, MasterKey::generate()).await.unwrap()
}

fn copy(key: &MasterKey) -> MasterKey {
    MasterKey::from_base64(&key.to_base64()).unwrap()
}

async fn put(vault: &Vault, id: &str, secret: &str) {
    let stored = vault.put(SecretKind::Credential, id, &secret.into()).await;
    stored.unwrap();
}

async fn get(vault: &Vault, id: &str) -> Option<String> {
    let secret = vault.get(SecretKind::Credential, id).await.unwrap();
    secret.map(|secret| secret.expose_secret().to_owned())
}

fn secret_id(kind: SecretKind, id: &str) -> SecretId {
    let id = id.to_owned();
    SecretId { kind, id }
}

fn assert_damaged<T>(outcome: Result<T, VaultError>) {
    let error = outcome.err().unwrap();
    assert!(matches!(error, VaultError::Damaged { .. }), "{error:?}");
}

#[tokio::test]
async fn l1_the_file_contains_no_part_of_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pillion.db");
    let store = SqlStore::open(&StoreOptions::at_file(&file)).await.unwrap();
    let store = Arc::new(store);
    let vault = new_vault(&store).await;
    let secret = "hush-hush-hush-hush";
    put(&vault, "weather", secret).await;
    assert_eq!(get(&vault, "weather").await.as_deref(), Some(secret));
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
    open(&store, copy(&key)).await.unwrap();
    let other = MasterKey::generate();
    let ids = (key.id().to_owned(), other.id().to_owned());
    let error = open(&store, other).await.unwrap_err();
    let VaultError::WrongKey {
        stored_id,
        configured_id,
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!((stored_id, configured_id), ids);

    // The store has secrets, but the check value was removed.
    let vault = open(&store, copy(&key)).await.unwrap();
    put(&vault, "a", "1").await;
    for (secret_id, _) in store.secrets().await.unwrap() {
        if secret_id.kind == SecretKind::KeyCheck {
            store.remove_secret(&secret_id).await.unwrap();
        }
    }
    let error = open(&store, key).await.unwrap_err();
    assert!(matches!(error, VaultError::MissingCheckValue), "{error:?}");
}

#[tokio::test]
async fn l1_a_secret_can_only_be_decrypted_under_its_kind_and_id() {
    let store = store().await;
    let vault = new_vault(&store).await;
    put(&vault, "a", "of a").await;
    put(&vault, "b", "of b").await;
    let of_a = secret_id(SecretKind::Credential, "a");
    let sealed = store.find_secret(&of_a).await.unwrap().unwrap();
    for moved in [
        secret_id(SecretKind::Credential, "b"),
        secret_id(SecretKind::OAuthTokens, "a"),
    ] {
        store.put_secret(&moved, &sealed).await.unwrap();
        assert_damaged(vault.get(moved.kind, &moved.id).await);
    }
    // Tests one changed bit in each byte, and every shorter length.
    for byte in 0..sealed.sealed.len() {
        let mut changed = sealed.clone();
        changed.sealed[byte] ^= 1;
        store.put_secret(&of_a, &changed).await.unwrap();
        assert_damaged(vault.get(of_a.kind, "a").await);
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
    let vault = Arc::new(open(&store, copy(&old)).await.unwrap());
    for number in 0..20 {
        put(&vault, &number.to_string(), &format!("secret {number}")).await;
    }
    let before = store.secrets().await.unwrap();
    // Other tasks write secrets during the rotation.
    let writer = tokio::spawn({
        let vault = vault.clone();
        async move {
            for number in 0..20 {
                put(&vault, "busy", &format!("new {number}")).await;
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
    let error = open(&store, old).await.unwrap_err();
    assert!(matches!(error, VaultError::WrongKey { .. }), "{error:?}");
    let again = open(&store, new).await.unwrap();
    assert_eq!(get(&again, "0").await.as_deref(), Some("secret 0"));
}

#[tokio::test]
async fn l1_a_key_rotation_with_a_damaged_secret_changes_nothing() {
    let store = store().await;
    let vault = new_vault(&store).await;
    for id in ["a", "b"] {
        put(&vault, id, "1").await;
    }
    let of_b = secret_id(SecretKind::Credential, "b");
    let mut damaged = store.find_secret(&of_b).await.unwrap().unwrap();
    damaged.sealed[30] ^= 1;
    store.put_secret(&of_b, &damaged).await.unwrap();
    let before = store.secrets().await.unwrap();
    assert_damaged(vault.rotate(MasterKey::generate()).await);
    assert_eq!(store.secrets().await.unwrap(), before);
    assert_eq!(get(&vault, "a").await.as_deref(), Some("1"));
}

fn token_key() -> TokenKey {
    let server = "https://dice.example/mcp".parse().unwrap();
    TokenKey::new(&server, &OAuthConfig::default())
}

#[tokio::test]
async fn l1_oauth_tokens_are_stored_for_each_identity() {
    let vault = Arc::new(new_vault(&store().await).await);
    let alice = VaultTokenStore::new(vault.clone(), "alice");
    let bob = VaultTokenStore::new(vault.clone(), "bob");
    let key = token_key();
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
    let refresh_token = loaded.refresh_token.unwrap();
    assert_eq!(refresh_token.expose_secret(), "hush-refresh");
    assert_eq!(loaded.expires_at, Some(5));
    assert_eq!(loaded.scopes, ["roll"]);

    let id = &vault.ids(SecretKind::OAuthTokens).await.unwrap()[0];
    let wrong = "no credentials, hush-hush".into();
    let stored = vault.put(SecretKind::OAuthTokens, id, &wrong).await;
    stored.unwrap();
    let error = alice.load(&key).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hush"), "{shown}");
    alice.clear(&key).await.unwrap();
    assert!(alice.load(&key).await.unwrap().is_none());
}

#[tokio::test]
async fn l1_a_closed_token_store_changes_nothing() {
    let vault = Arc::new(new_vault(&store().await).await);
    let key = token_key();
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
