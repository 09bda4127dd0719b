//! Digests of texts.

use std::fmt::Write;

use ring::digest::{SHA256, digest};

/// Returns the SHA-256 digest of a text or of bytes, as 64 hexadecimal digits.
///
/// ```
/// # use pillion_core::digest::sha256_hex;
/// assert!(sha256_hex("abc").starts_with("ba7816bf8f01cfea"));
/// ```
#[must_use]
pub fn sha256_hex(text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    let hash = digest(&SHA256, text.as_ref());
    hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
