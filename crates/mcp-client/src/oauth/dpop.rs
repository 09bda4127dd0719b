use std::collections::HashMap;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, json};
use url::Url;

use super::OAuthError;
use super::jwt::{SigningKey, unix_time};

pub(super) const DPOP_HEADER: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE_HEADER: HeaderName = HeaderName::from_static("dpop-nonce");

/// Maximum length of a stored nonce, in bytes; every request contains the nonce.
const MAX_NONCE_BYTES: usize = 1024;

/// The key to which a client's tokens are bound, and the nonces of servers (RFC 9449). Each client
/// has one key.
pub(super) struct DpopKey {
    key: SigningKey,
    /// The key as PKCS#8 in Base64.
    encoded_key: SecretString,
    /// The last nonce of each server, by origin.
    nonces: Mutex<HashMap<String, String>>,
}

impl DpopKey {
    pub(super) fn generate() -> Result<Self, OAuthError> {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map_err(|_| OAuthError::Signing)?;
        let encoded_key = SecretString::from(BASE64_STANDARD.encode(pkcs8.as_ref()));
        Self::from_stored(&encoded_key).ok_or(OAuthError::Signing)
    }

    /// Restores a key that [`encoded_key`](Self::encoded_key) returned; `None` if the stored key is
    /// damaged.
    pub(super) fn from_stored(encoded_key: &SecretString) -> Option<Self> {
        let pkcs8 = BASE64_STANDARD.decode(encoded_key.expose_secret()).ok()?;
        Some(Self {
            key: SigningKey::from_p256_pkcs8(&pkcs8).ok()?,
            encoded_key: encoded_key.clone(),
            nonces: Mutex::default(),
        })
    }

    pub(super) fn encoded_key(&self) -> SecretString {
        self.encoded_key.clone()
    }

    /// Creates the DPoP proof for one request. If the request carries an access token, the proof
    /// contains the token's hash (RFC 9449 section 4.2).
    pub(super) fn create_proof(
        &self,
        method: &Method,
        url: &Url,
        access_token: Option<&SecretString>,
    ) -> Result<HeaderValue, OAuthError> {
        let mut target_url = url.clone();
        target_url.set_query(None);
        target_url.set_fragment(None);
        let mut claims = json!({
            "jti": uuid::Uuid::new_v4().to_string(),
            "htm": method.as_str(),
            "htu": target_url.as_str(),
            "iat": unix_time(),
        });
        if let Some(token) = access_token {
            let hash = digest::digest(&digest::SHA256, token.expose_secret().as_bytes());
            claims["ath"] = BASE64_URL_SAFE_NO_PAD.encode(hash).into();
        }
        if let Some(nonce) = self.nonces.lock().get(&format_origin(url)) {
            claims["nonce"] = nonce.clone().into();
        }
        let mut header = Map::new();
        header.insert("typ".to_owned(), "dpop+jwt".into());
        let public_key = self.key.p256_public_key().ok_or(OAuthError::Signing)?;
        header.insert("jwk".to_owned(), public_key);
        let token = self.key.sign(header, &claims)?;
        let mut proof = HeaderValue::try_from(token).map_err(|_| OAuthError::Signing)?;
        proof.set_sensitive(true);
        Ok(proof)
    }

    /// Stores the nonce in a response from this URL. Returns whether the nonce is new.
    pub(super) fn store_nonce(&self, url: &Url, headers: &HeaderMap) -> bool {
        let nonce = headers
            .get(DPOP_NONCE_HEADER)
            .and_then(|nonce| nonce.to_str().ok());
        let Some(nonce) = nonce.filter(|nonce| nonce.len() <= MAX_NONCE_BYTES) else {
            return false;
        };
        let mut nonces = self.nonces.lock();
        let previous_nonce = nonces.insert(format_origin(url), nonce.to_owned());
        previous_nonce.as_deref() != Some(nonce)
    }
}

fn format_origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use serde_json::Value;

    fn part(token: &str, index: usize) -> Vec<u8> {
        let part = token.split('.').nth(index).unwrap();
        BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()
    }

    #[test]
    fn a_proof_contains_its_request_and_verifies_with_its_key() {
        let dpop = DpopKey::generate().unwrap();
        let url = Url::parse("https://x.example/token?a=1#b").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(DPOP_NONCE_HEADER, "n1".parse().unwrap());
        assert!(dpop.store_nonce(&url, &headers));
        assert!(!dpop.store_nonce(&url, &headers));
        let value = dpop
            .create_proof(&Method::POST, &url, Some(&"token".into()))
            .unwrap();
        let proof = value.to_str().unwrap();
        let header: Value = serde_json::from_slice(&part(proof, 0)).unwrap();
        let claims: Value = serde_json::from_slice(&part(proof, 1)).unwrap();
        assert_eq!(header["typ"], "dpop+jwt");
        assert_eq!(header["alg"], "ES256");
        assert_eq!(claims["htu"], "https://x.example/token");
        assert_eq!(claims["htm"], "POST");
        assert_eq!(claims["nonce"], "n1");
        // The hash of "token", as printed by `printf token | sha256sum`, in Base64.
        assert_eq!(claims["ath"], "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A");
        let coordinate = |name: &str| {
            let text = header["jwk"][name].as_str().unwrap();
            BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
        };
        let public = [vec![4], coordinate("x"), coordinate("y")].concat();
        assert!(header["jwk"].get("d").is_none());
        let signed = proof.rsplit_once('.').unwrap().0;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public)
            .verify(signed.as_bytes(), &part(proof, 2))
            .unwrap();
        let other = Url::parse("https://y.example/").unwrap();
        let other = dpop.create_proof(&Method::GET, &other, None).unwrap();
        let claims: Value = serde_json::from_slice(&part(other.to_str().unwrap(), 1)).unwrap();
        assert!(claims.get("nonce").is_none() && claims.get("ath").is_none());
    }

    #[test]
    fn a_key_survives_being_stored() {
        let dpop = DpopKey::generate().unwrap();
        let again = DpopKey::from_stored(&dpop.encoded_key()).unwrap();
        assert_eq!(again.key.p256_public_key(), dpop.key.p256_public_key());
        assert!(DpopKey::from_stored(&"damaged".into()).is_none());
    }
}
