use pillion_core::digest::sha256_hex;

/// Returns a key for a cache or token store that reveals nothing about `identity`. PSR-16
/// guarantees 64 characters.
pub(super) fn store_key(kind: &str, identity: &str) -> String {
    format!("pillion_{kind}_{:.48}", sha256_hex(identity))
}
