use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use pillion_core::store::{SealedSecret, SecretId};
use rand::Rng;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::{MasterKey, VaultError};

/// The version of the format of encrypted secrets. An encrypted secret consists of a byte with this
/// version, the nonce, and the ciphertext with its authentication tag.
const FORMAT_VERSION: u8 = 1;
/// The length of a nonce, in bytes. Random nonces of this length practically never collide for
/// fewer than about 2^80 secrets.
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
            aad: &build_associated_data(secret_id),
        };
        let ciphertext = self
            .cipher()
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| VaultError::SecretTooLarge)?;
        let mut sealed_bytes = Vec::with_capacity(1 + NONCE_BYTES + ciphertext.len());
        sealed_bytes.push(FORMAT_VERSION);
        sealed_bytes.extend_from_slice(&nonce);
        sealed_bytes.extend_from_slice(&ciphertext);
        Ok(SealedSecret {
            key_id: self.id().to_owned(),
            sealed: sealed_bytes,
        })
    }

    pub(super) fn open(
        &self,
        secret_id: &SecretId,
        secret: &SealedSecret,
    ) -> Result<SecretString, VaultError> {
        if secret.key_id != self.id() {
            return Err(VaultError::WrongKey {
                stored_id: secret.key_id.clone(),
                configured_id: self.id().to_owned(),
            });
        }
        let damage_error = || VaultError::Damaged {
            kind: secret_id.kind,
        };
        let (version, rest) = secret.sealed.split_first().ok_or_else(damage_error)?;
        let (nonce, ciphertext) = rest
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(damage_error)?;
        if *version != FORMAT_VERSION {
            return Err(damage_error());
        }
        let payload = Payload {
            msg: ciphertext,
            aad: &build_associated_data(secret_id),
        };
        let decrypt_result = self.cipher().decrypt(&XNonce::from(*nonce), payload);
        let bytes = Zeroizing::new(decrypt_result.map_err(|_| damage_error())?);
        let text = std::str::from_utf8(&bytes).map_err(|_| damage_error())?;
        Ok(SecretString::from(text))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.bytes().into())
    }
}

/// Returns the associated data, which must be the same for encryption and decryption. A kind
/// contains no zero byte, so the data differ for any two different secret IDs.
fn build_associated_data(secret_id: &SecretId) -> Vec<u8> {
    let mut data = vec![FORMAT_VERSION];
    data.extend_from_slice(secret_id.kind.as_str().as_bytes());
    data.push(0);
    data.extend_from_slice(secret_id.id.as_bytes());
    data
}
