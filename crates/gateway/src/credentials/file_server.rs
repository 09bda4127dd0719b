use sha2::{Digest, Sha256};

/// Returns the id of a server of the configuration file, derived from its label.
pub fn file_id(label: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"pillion server of the configuration file\0");
    hash.update(label.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

/// Returns the scheme, host and port of a URL.
pub fn origin_of(url: &url::Url) -> String {
    format!(
        "{}://{}:{:?}",
        url.scheme(),
        url.host_str().unwrap_or_default(),
        url.port_or_known_default()
    )
}
