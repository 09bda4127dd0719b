use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose};
use pillion_core::variable;
use rand::Rng;
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use zeroize::Zeroizing;

/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// The maximum size of a key file, in bytes; a key takes 44 characters and white space.
const MAX_KEY_FILE_BYTES: u64 = 256;

/// The key that encrypts all secrets: 32 bytes, which debug output does not contain.
pub struct MasterKey {
    id: String,
    bytes: SecretBox<[u8; KEY_BYTES]>,
}

/// Why a key cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MasterKeyError {
    /// The key file cannot be read.
    #[error("the key file '{}' cannot be read: {source}", path.display())]
    Unreadable {
        /// The path of the key file.
        path: PathBuf,
        /// Why the key file cannot be read.
        source: io::Error,
    },
    /// Other users may read or change the file.
    #[error(
        "the key file '{}' is accessible to other users (mode {mode:o}): run chmod 600 on it",
        path.display()
    )]
    Exposed {
        /// The path of the key file.
        path: PathBuf,
        /// The permission bits of the key file.
        mode: u32,
    },
    /// The environment variable for the key is not set.
    #[error("{}, which must contain the key, is not set", variable::describe(name))]
    NotSet {
        /// The name of the environment variable.
        name: String,
    },
    /// The value is neither 32 bytes nor 32 bytes in base64.
    #[error(
        "the key of the vault must have 32 bytes, raw or in base64: create one with `openssl rand \
         -base64 32`"
    )]
    Malformed,
    /// The content of the file is neither 32 bytes nor 32 bytes in base64.
    #[error(
        "the key file '{}' must contain 32 bytes, raw or in base64: create one with `openssl rand \
         -base64 32`",
        path.display()
    )]
    MalformedFile {
        /// The path of the key file.
        path: PathBuf,
    },
}

impl MasterKey {
    /// Generates a random key.
    #[must_use]
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        rand::rng().fill_bytes(&mut *bytes);
        Self::from_bytes(&bytes)
    }

    /// Reads a key from a file with 32 bytes, or with 32 bytes in base64. Only the file's owner may
    /// have access.
    ///
    /// # Errors
    /// The file cannot be read, other users have access, or the file does not contain a key.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, MasterKeyError> {
        let path = path.as_ref();
        let to_unreadable = |source| MasterKeyError::Unreadable {
            path: path.to_owned(),
            source,
        };
        // The path must be a regular file, because opening a FIFO waits for a writer, and a reload
        // could not read a pipe again.
        if !std::fs::metadata(path).map_err(to_unreadable)?.is_file() {
            return Err(to_unreadable(std::io::Error::other("not a regular file")));
        }
        let file = File::open(path).map_err(to_unreadable)?;
        // The mode is read from the opened file, because the path may refer to another file by now.
        let mode = file.metadata().map_err(to_unreadable)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(MasterKeyError::Exposed { path, mode });
        }
        let mut content = Zeroizing::new(Vec::with_capacity(MAX_KEY_FILE_BYTES as usize + 1));
        file.take(MAX_KEY_FILE_BYTES + 1)
            .read_to_end(&mut content)
            .map_err(to_unreadable)?;
        match <&[u8; KEY_BYTES]>::try_from(&content[..]) {
            Ok(bytes) => Ok(Self::from_bytes(bytes)),
            Err(_) => Self::decode(&content).map_err(|_| MasterKeyError::MalformedFile {
                path: path.to_owned(),
            }),
        }
    }

    /// Reads a key in base64 from an environment variable.
    ///
    /// # Errors
    /// The variable is not set, or does not contain a key.
    pub fn from_environment(name: &str) -> Result<Self, MasterKeyError> {
        match std::env::var(name) {
            Ok(text) => Self::from_base64(&text.into()),
            Err(std::env::VarError::NotPresent) => Err(MasterKeyError::NotSet {
                name: name.to_owned(),
            }),
            Err(std::env::VarError::NotUnicode(_)) => Err(MasterKeyError::Malformed),
        }
    }

    /// Decodes a key in base64, with the standard or the URL-safe alphabet, with or without
    /// padding.
    ///
    /// # Errors
    /// [`MasterKeyError::Malformed`]: the text is not the base64 of a key.
    pub fn from_base64(text: &SecretString) -> Result<Self, MasterKeyError> {
        Self::decode(text.expose_secret().as_bytes())
    }

    fn decode(text: &[u8]) -> Result<Self, MasterKeyError> {
        let config =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let trimmed_text = text.trim_ascii();
        for alphabet in [alphabet::STANDARD, alphabet::URL_SAFE] {
            let decode_result = GeneralPurpose::new(&alphabet, config).decode(trimmed_text);
            let Ok(key_bytes) = decode_result.map(Zeroizing::new) else {
                continue;
            };
            if let Ok(bytes) = <&[u8; KEY_BYTES]>::try_from(&key_bytes[..]) {
                return Ok(Self::from_bytes(bytes));
            }
        }
        Err(MasterKeyError::Malformed)
    }

    fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Self {
        let mut hash_input = Zeroizing::new(b"pillion key id\0".to_vec());
        hash_input.extend_from_slice(bytes);
        let hash = digest(&SHA256, &hash_input);
        let id_bytes = hash.as_ref()[..8].iter();
        Self {
            id: id_bytes.map(|byte| format!("{byte:02x}")).collect(),
            bytes: SecretBox::new(Box::new(*bytes)),
        }
    }

    /// Returns the key's id: 16 hexadecimal digits that do not reveal the key.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the key in base64, to be written to a file of mode 0600.
    #[must_use]
    pub fn to_base64(&self) -> SecretString {
        let text = general_purpose::STANDARD.encode(self.bytes());
        text.into()
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        self.bytes.expose_secret()
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    fn write_key_file(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn l1_a_key_is_read_raw_and_in_base64() {
        let key = MasterKey::generate();
        let base64 = key.to_base64();
        let text = base64.expose_secret();
        let unpadded_text = text.trim_end_matches('=');
        let url_safe_text = unpadded_text.replace('+', "-").replace('/', "_");
        for content in [
            key.bytes().to_vec(),
            format!("{text}\n").into_bytes(),
            unpadded_text.as_bytes().to_vec(),
            url_safe_text.into_bytes(),
        ] {
            let (_directory, path) = write_key_file(&content, 0o600);
            assert_eq!(MasterKey::from_file(&path).unwrap().id(), key.id());
        }
    }

    #[test]
    fn l1_an_invalid_or_readable_key_file_is_rejected() {
        let short_file = (&b"c2hvcnQ="[..], 0o400, "must contain 32 bytes");
        let long_file = (&[b'A'; 5_000][..], 0o600, "must contain 32 bytes");
        let exposed_files = [0o640, 0o604, 0o620].map(|mode| (&[7; 32][..], mode, "chmod 600"));
        for (content, mode, message) in [short_file, long_file].into_iter().chain(exposed_files) {
            let (_directory, path) = write_key_file(content, mode);
            let error = MasterKey::from_file(&path).unwrap_err().to_string();
            assert!(error.contains(message), "{mode:o}: {error}");
        }
        let missing_file_error = MasterKey::from_file("/nonexistent/key").unwrap_err();
        assert!(matches!(
            missing_file_error,
            MasterKeyError::Unreadable { .. }
        ));
        let unset_variable_error = MasterKey::from_environment("PILLION_NO_SUCH_KEY").unwrap_err();
        assert!(matches!(
            unset_variable_error,
            MasterKeyError::NotSet { .. }
        ));
    }

    #[test]
    fn l1_debug_shows_no_key() {
        let key = MasterKey::from_bytes(b"0123456789abcdef0123456789abcdef");
        let debug_text = format!("{key:?}");
        assert!(!debug_text.contains("0123456789abcdef"), "{debug_text}");
        assert!(!debug_text.contains("48, 49"), "{debug_text}");
    }
}
