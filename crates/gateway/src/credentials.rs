//! The credentials for MCP servers, providers and tools in the vault: a server's own, those of
//! single users, and the tokens that OAuth obtains for either. Each credential is bound to the
//! address for which it was set.

mod error;
mod file_server;
mod server_credentials;
mod tokens;
mod user_credentials;
mod vault;

pub use error::CredentialError;
pub use file_server::{file_id, origin_of};
pub use server_credentials::Credentials;
pub use server_credentials::{CredentialNote, take_secrets};
pub use tokens::Account;
pub use user_credentials::forget_server;
pub use user_credentials::{UserCredential, UserCredentials, identity_of};
pub use vault::{next_key_file, open_vault};
