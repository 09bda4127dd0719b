//! Serializes secrets as plain text, for token stores.

use secrecy::{ExposeSecret, SecretString};
use serde::Serializer;

pub(super) fn serialize_exposed<S: Serializer>(
    secret: &SecretString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
pub(super) fn serialize_exposed_option<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => serializer.serialize_some(secret.expose_secret()),
        None => serializer.serialize_none(),
    }
}
