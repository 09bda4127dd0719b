//! The credentials for MCP servers, providers and tools in the vault: a server's own, those of
//! single users, and the tokens that OAuth obtains for either. Each credential is bound to the
//! address for which it was set.

mod error;
mod file_server;
mod of_server;
mod tokens;
mod user_credentials;
mod vault;

pub(crate) use error::CredentialError;
pub(crate) use file_server::{file_id, origin_of};
pub(crate) use of_server::{CredentialNote, Credentials, take_secrets};
pub(crate) use tokens::Account;
pub(crate) use user_credentials::{UserCredential, UserCredentials, forget_server, identity_of};
pub(crate) use vault::{next_key_file, open_vault};
