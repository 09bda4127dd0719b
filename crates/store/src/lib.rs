//! Persistent storage: [`SqlStore`] stores all data that must survive a crash in an SQLite file or
//! in Postgres, and [`Vault`] encrypts the secrets.
//!
//! ```
//! use pillion_core::store::{ServerStore, SettingsStore};
//! use pillion_store::{SqlStore, StoreOptions};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("pillion.db");
//! let store = SqlStore::open(&StoreOptions::at_file(&file)).await?;
//! store.set_setting("greeting", "\"hello\"").await?;
//! store.close().await;
//!
//! let again = SqlStore::open(&StoreOptions::at_file(&file)).await?;
//! assert_eq!(again.find_setting("greeting").await?.as_deref(), Some("\"hello\""));
//! # Ok(()) }
//! ```

mod access_tokens;
mod approvals;
mod calls;
mod chats;
mod checkpoints;
mod clock;
mod database;
mod health;
mod idempotency;
mod maintenance;
mod memories;
mod migrations;
mod options;
mod packs;
mod pins;
mod secrets;
mod servers;
mod settings;
mod sql_store;
mod token_store;
mod vault;

pub use clock::{ClockHistory, ClockRange};
pub use options::{Durability, LocationError, StoreLocation, StoreOptions};
pub use sql_store::SqlStore;
pub use token_store::VaultTokenStore;
pub use vault::{MasterKey, MasterKeyError, Vault, VaultError};

/// The result of an operation of the store.
pub(crate) type Result<T, E = pillion_core::store::StoreError> = std::result::Result<T, E>;
