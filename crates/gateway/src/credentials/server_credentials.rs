//! The shared credentials of a server, stored as one entry of the vault.

use pillion_mcp_client::Authentication;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::CredentialError;

/// The keys whose values may be secret, stored together as one entry of the vault.
const SECRET_KEYS: [&str; 3] = ["authentication", "headers", "env"];

/// The public information about a server's credentials, and their ID in the vault.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CredentialMetadata {
    /// The ID of the entry in the vault. Each change gets a new ID, so that a configuration is
    /// never combined with the credentials of another version.
    pub id: String,
    /// The type of authentication, such as `bearer`.
    pub authentication: String,
    /// The names of the HTTP headers whose values are stored in the vault.
    pub headers: Vec<String>,
}

/// The credentials of a server as stored in the vault: the keys of `SECRET_KEYS` and nothing
/// else. Does not implement `Debug`, so that credentials are never logged.
#[derive(Clone, Default)]
pub struct Credentials(pub Map<String, Value>);

impl Credentials {
    /// Parses the credentials that the vault stores.
    pub fn parse(text: &str) -> Result<Self, CredentialError> {
        // The error of `serde_json` is dropped, because it could contain a part of the credentials.
        let members = serde_json::from_str(text).map_err(|_| CredentialError::Unreadable)?;
        Ok(Self(members))
    }

    /// Returns the JSON that the vault stores.
    pub fn to_secret(&self) -> SecretString {
        Value::Object(self.0.clone()).to_string().into()
    }

    /// Removes empty values and the authentication type `none`.
    pub fn simplify(mut self) -> Self {
        self.0.retain(|key, value| match value {
            Value::Null => false,
            Value::Object(members) if key == "authentication" => {
                members.get("type").and_then(Value::as_str) != Some("none")
            }
            Value::Object(members) => !members.is_empty(),
            _ => true,
        });
        self
    }

    /// Returns whether the server has no credential.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the public information about the credentials.
    pub fn to_metadata(&self, id: String) -> CredentialMetadata {
        let authentication = self.0.get("authentication");
        let kind = authentication.and_then(|value| value.get("type")?.as_str());
        let headers = self.0.get("headers").and_then(Value::as_object);
        CredentialMetadata {
            id,
            authentication: kind.unwrap_or("none").to_owned(),
            headers: headers.map_or_else(Vec::new, |headers| headers.keys().cloned().collect()),
        }
    }

    /// Returns the authentication for requests to the server.
    pub fn authentication(&self) -> Result<Authentication, CredentialError> {
        const AUTHENTICATION_KEY: &str = "authentication";
        let Some(value) = self.0.get(AUTHENTICATION_KEY) else {
            return Ok(Authentication::None);
        };
        let result = serde_path_to_error::deserialize(value);
        let authentication: Authentication =
            result.map_err(|error: serde_path_to_error::Error<serde_json::Error>| {
                let full_message = error.into_inner().to_string();
                // Messages of `serde_json` other than `missing field` are replaced, because they
                // could repeat a credential.
                let message = if full_message.starts_with("missing field") {
                    full_message
                } else {
                    "expected the type none, bearer (token), api-key (key, header), basic \
                     (username, password) or oauth, with the keys of that type"
                        .to_owned()
                };
                CredentialError::invalid(AUTHENTICATION_KEY, message)
            })?;
        let is_empty = |secret: &SecretString| secret.expose_secret().is_empty();
        let problem = match &authentication {
            Authentication::Bearer { token } if is_empty(token) => "the token is empty",
            Authentication::ApiKey { key, .. } if is_empty(key) => "the key is empty",
            Authentication::Basic { username, .. } if username.is_empty() => {
                "the username is empty"
            }
            _ => return Ok(authentication),
        };
        Err(CredentialError::invalid(AUTHENTICATION_KEY, problem))
    }

    /// Returns the names and values in the object under `key`, such as `headers`; empty without
    /// this key. All values of the object must be strings.
    pub fn secret_entries(
        &self,
        key: &str,
    ) -> Result<Vec<(String, SecretString)>, CredentialError> {
        let invalid = || CredentialError::invalid(key, "expected an object with string values");
        match self.0.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Object(members)) => members
                .iter()
                .map(|(name, value)| {
                    let value = value.as_str().ok_or_else(invalid)?;
                    Ok((name.clone(), SecretString::from(value)))
                })
                .collect(),
            Some(_) => Err(invalid()),
        }
    }
}

/// Removes and returns the keys that may be secret.
pub fn take_secrets(keys: &mut Map<String, Value>) -> Map<String, Value> {
    SECRET_KEYS
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), keys.remove(key)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn l1_errors_do_not_contain_the_credential() {
        let mut credentials = Credentials::default();
        for wrong in [
            json!("hunter2"),
            json!({"type": "hunter2"}),
            json!({"type": "bearer", "token": ["hunter2"]}),
            json!({"type": "bearer", "hunter2": 1, "token": "x"}),
        ] {
            credentials.0.insert("authentication".to_owned(), wrong);
            let error = credentials.authentication().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
