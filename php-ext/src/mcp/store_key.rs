use pillion_core::digest::sha256_hex;

/// Returns a key for a cache or token store that reveals nothing about `identity`. The key has at
/// most 64 characters, the length that every PSR-16 cache supports.
pub(super) fn store_key(kind: &str, identity: &str) -> String {
    format!("pillion_{kind}_{:.48}", sha256_hex(identity))
}
