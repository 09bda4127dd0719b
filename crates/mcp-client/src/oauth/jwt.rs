use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::OAuthError;

/// Signing algorithm for client assertions (RFC 7518 section 3.1, RFC 8037).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// ECDSA on P-256 with SHA-256.
    #[default]
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA on P-384 with SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// A private key that signs JSON Web Tokens (RFC 7515). Uses `ring`, the cryptography library that
/// also serves TLS.
pub(super) struct SigningKey {
    key_pair: SigningKeyPair,
    algorithm: SigningAlgorithm,
    key_id: Option<String>,
}

enum SigningKeyPair {
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

/// A private key cannot be used. Carries no details, because they could reveal the key.
#[derive(Debug)]
pub(super) struct UnusableKey;

impl SigningKey {
    pub(super) fn from_pem(
        pem: &SecretString,
        algorithm: SigningAlgorithm,
        key_id: Option<String>,
    ) -> Result<Self, UnusableKey> {
        let der = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
            .map_err(|_| UnusableKey)?;
        let pkcs8 = match &der {
            PrivateKeyDer::Pkcs8(key) => Some(key.secret_pkcs8_der()),
            _ => None,
        };
        let rsa = |pair| SigningKeyPair::Rsa(Box::new(pair));
        let key_pair = match (algorithm, pkcs8, &der) {
            (SigningAlgorithm::Es256 | SigningAlgorithm::Es384, Some(key), _) => {
                Some(SigningKeyPair::Ecdsa(ecdsa_key_pair(algorithm, key)?))
            }
            (SigningAlgorithm::EdDsa, Some(key), _) => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(key)
                    .ok()
                    .map(SigningKeyPair::Ed25519)
            }
            (SigningAlgorithm::Rs256, Some(key), _) => RsaKeyPair::from_pkcs8(key).ok().map(rsa),
            (SigningAlgorithm::Rs256, None, PrivateKeyDer::Pkcs1(key)) => {
                RsaKeyPair::from_der(key.secret_pkcs1_der()).ok().map(rsa)
            }
            _ => None,
        };
        Ok(Self {
            key_pair: key_pair.ok_or(UnusableKey)?,
            algorithm,
            key_id,
        })
    }

    /// Creates a P-256 key from PKCS#8.
    pub(super) fn from_p256_pkcs8(pkcs8: &[u8]) -> Result<Self, UnusableKey> {
        let algorithm = SigningAlgorithm::Es256;
        Ok(Self {
            key_pair: SigningKeyPair::Ecdsa(ecdsa_key_pair(algorithm, pkcs8)?),
            algorithm,
            key_id: None,
        })
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self.algorithm {
            SigningAlgorithm::Es256 => "ES256",
            SigningAlgorithm::Es384 => "ES384",
            SigningAlgorithm::Rs256 => "RS256",
            SigningAlgorithm::EdDsa => "EdDSA",
        }
    }

    /// Returns the public key of a P-256 key pair as a JSON Web Key (RFC 7518 section 6.2).
    pub(super) fn p256_public_key(&self) -> Option<Value> {
        let SigningKeyPair::Ecdsa(pair) = &self.key_pair else {
            return None;
        };
        // An uncompressed point (SEC 1, section 2.3.3) is the byte 4, then x and y with 32 bytes
        // each.
        let (x, y) = pair.public_key().as_ref().get(1..)?.split_at_checked(32)?;
        let encode = |bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        Some(json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)}))
    }

    /// Signs a token with the given claims, and returns the token in JWS Compact Serialization (RFC
    /// 7515 section 7.1). `header` contains the token's header parameters except `alg` and `kid`.
    pub(super) fn sign(
        &self,
        mut header: Map<String, Value>,
        claims: &Value,
    ) -> Result<String, OAuthError> {
        header.insert("alg".to_owned(), self.algorithm().into());
        if let Some(key_id) = &self.key_id {
            header.insert("kid".to_owned(), key_id.clone().into());
        }
        let encode = |part: &str| BASE64_URL_SAFE_NO_PAD.encode(part);
        let header_text = Value::Object(header).to_string();
        let message = format!("{}.{}", encode(&header_text), encode(&claims.to_string()));
        let signature = self.sign_message(message.as_bytes())?;
        let encoded_signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(format!("{message}.{encoded_signature}"))
    }

    fn sign_message(&self, message: &[u8]) -> Result<Vec<u8>, OAuthError> {
        let random_source = SystemRandom::new();
        let signing_error = |_| OAuthError::Signing;
        match &self.key_pair {
            SigningKeyPair::Ecdsa(pair) => {
                let signature = pair.sign(&random_source, message).map_err(signing_error)?;
                Ok(signature.as_ref().to_vec())
            }
            SigningKeyPair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            SigningKeyPair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding = &signature::RSA_PKCS1_SHA256;
                pair.sign(padding, &random_source, message, &mut signature)
                    .map_err(signing_error)?;
                Ok(signature)
            }
        }
    }
}

fn ecdsa_key_pair(algorithm: SigningAlgorithm, pkcs8: &[u8]) -> Result<EcdsaKeyPair, UnusableKey> {
    let signing_algorithm = match algorithm {
        SigningAlgorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        _ => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
    };
    EcdsaKeyPair::from_pkcs8(signing_algorithm, pkcs8, &SystemRandom::new())
        .map_err(|_| UnusableKey)
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}

/// Returns the seconds since the Unix epoch.
pub(super) fn unix_time() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |duration| duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::BASE64_STANDARD;
    use ring::signature::{ECDSA_P384_SHA384_FIXED, ED25519, UnparsedPublicKey};

    fn pem(pkcs8: &[u8]) -> SecretString {
        let text = BASE64_STANDARD.encode(pkcs8);
        format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n").into()
    }

    fn signed(key: &SigningKey) -> (String, Vec<u8>, Value) {
        let token = key.sign(Map::new(), &json!({"iss": "me"})).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
        let header = decode(signed.split('.').next().unwrap());
        let header = serde_json::from_slice(&header).unwrap();
        (signed.to_owned(), decode(signature), header)
    }

    #[test]
    fn signatures_of_every_key_type_verify() {
        let random_source = SystemRandom::new();
        let p384 = &signature::ECDSA_P384_SHA384_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(p384, &random_source).unwrap();
        let public = EcdsaKeyPair::from_pkcs8(p384, pkcs8.as_ref(), &random_source).unwrap();
        let id = Some("k1".to_owned());
        let pem384 = pem(pkcs8.as_ref());
        let key = SigningKey::from_pem(&pem384, SigningAlgorithm::Es384, id).unwrap();
        let (message, signature, header) = signed(&key);
        assert_eq!(header, json!({"alg": "ES384", "kid": "k1"}));
        UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, public.public_key())
            .verify(message.as_bytes(), &signature)
            .unwrap();

        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random_source).unwrap();
        let public = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let pem25519 = pem(pkcs8.as_ref());
        let key = SigningKey::from_pem(&pem25519, SigningAlgorithm::EdDsa, None).unwrap();
        let (message, signature, header) = signed(&key);
        assert_eq!(header, json!({"alg": "EdDSA"}));
        UnparsedPublicKey::new(&ED25519, public.public_key())
            .verify(message.as_bytes(), &signature)
            .unwrap();

        for (pem, algorithm) in [
            (&pem384, SigningAlgorithm::Es256),
            (&pem384, SigningAlgorithm::Rs256),
            (&pem25519, SigningAlgorithm::Es384),
            (&SecretString::from("no key"), SigningAlgorithm::Es256),
        ] {
            SigningKey::from_pem(pem, algorithm, None).unwrap_err();
        }
    }
}
