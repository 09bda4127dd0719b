use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, json};
use url::form_urlencoded::byte_serialize;

use super::OAuthError;
use super::jwt::{SigningKey, unix_time};

/// Time for which a client assertion is valid, in seconds.
const ASSERTION_TTL_SECONDS: u64 = 300;

/// A client registered at one authorization server.
#[derive(Debug, Clone)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    credential: ClientCredential,
}

/// How the client authenticates itself to the authorization server.
#[derive(Debug, Clone)]
enum ClientCredential {
    /// The client is public, and does not authenticate itself.
    None,
    Secret(SecretString),
    PrivateKey(Arc<SigningKey>),
}

/// The parameters of a token request.
pub(super) type RequestForm = Vec<(&'static str, String)>;

impl OAuthClient {
    pub(super) fn with_secret(id: String, secret: Option<SecretString>) -> Self {
        let secret = secret.filter(|secret| !secret.expose_secret().is_empty());
        Self {
            id,
            credential: secret.map_or(ClientCredential::None, ClientCredential::Secret),
        }
    }

    pub(super) fn with_key(id: String, key: SigningKey) -> Self {
        Self {
            id,
            credential: ClientCredential::PrivateKey(Arc::new(key)),
        }
    }

    pub(super) fn is_confidential(&self) -> bool {
        !matches!(self.credential, ClientCredential::None)
    }

    /// Adds client authentication to a token request (OAuth 2.1 section 2.4, RFC 7523 section 2.2).
    /// `methods` are the methods that the authorization server announces; the default is Basic (RFC
    /// 8414 section 2).
    pub(super) fn authenticate(
        &self,
        methods: Option<&[String]>,
        issuer: &str,
        headers: &mut HeaderMap,
        form: &mut RequestForm,
    ) -> Result<(), OAuthError> {
        let is_accepted = |method: &str| {
            methods.is_none_or(|methods| methods.iter().any(|announced| announced == method))
        };
        match &self.credential {
            ClientCredential::PrivateKey(key) => {
                let assertion_type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                form.push(("client_assertion_type", assertion_type.to_owned()));
                form.push(("client_assertion", self.sign_assertion(key, issuer)?));
            }
            ClientCredential::Secret(secret) if is_accepted("client_secret_basic") => {
                headers.insert(AUTHORIZATION, self.build_basic_header(secret)?);
            }
            ClientCredential::Secret(secret) if is_accepted("client_secret_post") => {
                form.push(("client_id", self.id.clone()));
                form.push(("client_secret", secret.expose_secret().to_owned()));
            }
            // A client secret is not sent to a server that announces no authentication method with
            // a client secret.
            ClientCredential::Secret(_) | ClientCredential::None => {
                form.push(("client_id", self.id.clone()));
            }
        }
        Ok(())
    }

    fn build_basic_header(&self, secret: &SecretString) -> Result<HeaderValue, OAuthError> {
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let credentials = format!("{}:{}", encode(&self.id), encode(secret.expose_secret()));
        let text = format!("Basic {}", BASE64_STANDARD.encode(credentials));
        let mut value = HeaderValue::try_from(text).map_err(|_| OAuthError::Signing)?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn sign_assertion(&self, key: &SigningKey, issuer: &str) -> Result<String, OAuthError> {
        let now = unix_time();
        let mut header = Map::new();
        header.insert("typ".to_owned(), "JWT".into());
        key.sign(
            header,
            &json!({
                "iss": self.id, "sub": self.id, "aud": issuer, "iat": now,
                "exp": now + ASSERTION_TTL_SECONDS, "jti": uuid::Uuid::new_v4().to_string(),
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticated(client: &OAuthClient, methods: Option<&[&str]>) -> (String, RequestForm) {
        let methods: Option<Vec<String>> =
            methods.map(|all| all.iter().map(|&method| method.to_owned()).collect());
        let (mut headers, mut form) = (HeaderMap::new(), RequestForm::new());
        let issuer = "https://as.example";
        let outcome = client.authenticate(methods.as_deref(), issuer, &mut headers, &mut form);
        outcome.unwrap();
        let header = headers.get(AUTHORIZATION).map(|h| h.to_str().unwrap());
        (header.unwrap_or_default().to_owned(), form)
    }

    #[test]
    fn the_secret_is_sent_with_the_method_of_the_server() {
        let client = OAuthClient::with_secret("a b".to_owned(), Some("s:/".into()));
        let basic = format!("Basic {}", BASE64_STANDARD.encode("a+b:s%3A%2F"));
        let expected = (basic.clone(), RequestForm::new());
        assert_eq!(authenticated(&client, None), expected);
        let both: &[&str] = &["client_secret_post", "client_secret_basic"];
        assert_eq!(authenticated(&client, Some(both)).0, basic);
        let (header, form) = authenticated(&client, Some(&["client_secret_post"]));
        assert_eq!(header, "");
        let id = ("client_id", "a b".to_owned());
        assert_eq!(form, [id.clone(), ("client_secret", "s:/".to_owned())]);
        let (header, form) = authenticated(&client, Some(&["none"]));
        assert_eq!((header.as_str(), form), ("", vec![id]));
    }

    #[test]
    fn an_empty_secret_counts_as_none() {
        let client = OAuthClient::with_secret("c".to_owned(), Some("".into()));
        assert!(!client.is_confidential());
        assert_eq!(authenticated(&client, None).0, "");
    }
}
