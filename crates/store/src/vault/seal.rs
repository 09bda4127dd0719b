use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use pillion_core::store::{SealedSecret, SecretId};
use rand::Rng;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::{MasterKey, VaultError};

/// The version of the sealed format: a byte with this version, the nonce, and the ciphertext with
/// its tag.
const FORMAT_VERSION: u8 = 1;
/// Random nonces of 24 bytes do not collide for fewer than about 2^80 secrets.
const NONCE_BYTES: usize = 24;

impl MasterKey {
    pub(super) fn seal(
        &self,
        secret_id: &SecretId,
        secret: &SecretString,
    ) -> Result<SealedSecret, VaultError> {
        let mut nonce = [0; NONCE_BYTES];
        rand::rng().fill_bytes(&mut nonce);
        let payload = Payload {
            msg: secret.expose_secret().as_bytes(),
            aad: &associated_data(secret_id),
        };
        let encrypted = self
            .cipher()
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| VaultError::Unsealable)?;
        let mut sealed = Vec::with_capacity(1 + NONCE_BYTES + encrypted.len());
        sealed.push(FORMAT_VERSION);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&encrypted);
        Ok(SealedSecret {
            key_id: self.id().to_owned(),
            sealed,
        })
    }

    pub(super) fn open(
        &self,
        secret_id: &SecretId,
        secret: &SealedSecret,
    ) -> Result<SecretString, VaultError> {
        if secret.key_id != self.id() {
            return Err(VaultError::WrongKey {
                stored: secret.key_id.clone(),
                configured: self.id().to_owned(),
            });
        }
        let damaged = || VaultError::Damaged {
            kind: secret_id.kind,
        };
        let (version, rest) = secret.sealed.split_first().ok_or_else(damaged)?;
        let (nonce, encrypted) = rest
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(damaged)?;
        if *version != FORMAT_VERSION {
            return Err(damaged());
        }
        let payload = Payload {
            msg: encrypted,
            aad: &associated_data(secret_id),
        };
        let decrypted = self.cipher().decrypt(&XNonce::from(*nonce), payload);
        let bytes = Zeroizing::new(decrypted.map_err(|_| damaged())?);
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
        Ok(SecretString::from(text))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.bytes().into())
    }
}

/// Returns the data to which the ciphertext is bound. A kind contains no zero byte, so that the
/// data of two different ids always differ.
fn associated_data(secret_id: &SecretId) -> Vec<u8> {
    let mut data = vec![FORMAT_VERSION];
    data.extend_from_slice(secret_id.kind.as_str().as_bytes());
    data.push(0);
    data.extend_from_slice(secret_id.id.as_bytes());
    data
}
