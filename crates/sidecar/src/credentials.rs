//! What MCP servers, providers and tools are spoken to with, in the vault: what is a server's own,
//! what single users have for it (L1), and what OAuth obtains for either; and by what a credential
//! is found again, and goes nowhere else.

mod error;
mod of_server;
mod place;
mod tokens;
mod user_credentials;
mod vault;

pub(crate) use error::CredentialError;
pub(crate) use of_server::{CredentialNote, Credentials, take_secrets};
pub(crate) use place::{file_id, place_of_url};
pub(crate) use tokens::Account;
pub(crate) use user_credentials::{UserCredential, UserCredentials, forget_server, identity_of};
pub(crate) use vault::{next_key_file, open_vault};
