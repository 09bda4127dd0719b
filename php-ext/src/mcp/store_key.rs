use pillion_core::digest::sha256_hex;

/// Returns a key that reveals nothing about its input. PSR-16 guarantees 64 characters.
pub(super) fn store_key(kind: &str, identity: &str) -> String {
    format!("pillion_{kind}_{:.48}", sha256_hex(identity))
}
