//! The stylesheet, the script and the icon of the console, which are part of the program.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use pillion_core::digest::sha256_hex;

pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "console",
        "css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/console.css"),
    )
});
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "console",
        "js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/console.js"),
    )
});
pub(crate) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "icon",
        "svg",
        "image/svg+xml",
        include_bytes!("../assets/icon.svg"),
    )
});

/// A file of the program, under a name that contains a hash of its content. A new version of the
/// file has another name, so browsers may keep a file forever.
pub(crate) struct Asset {
    path: String,
    content_type: &'static str,
    content: &'static [u8],
}

impl Asset {
    fn new(
        name: &str,
        extension: &str,
        content_type: &'static str,
        content: &'static [u8],
    ) -> Self {
        let hash = sha256_hex(content);
        Self {
            path: format!("assets/{name}-{}.{extension}", &hash[..12]),
            content_type,
            content,
        }
    }

    /// Returns the path of the asset below the console.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// Sends an asset.
pub(crate) async fn send(Path(name): Path<String>) -> Response {
    let is_named = |asset: &&Asset| asset.path.strip_prefix("assets/") == Some(&name);
    match [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(is_named) {
        Some(asset) => {
            let headers = [
                (CONTENT_TYPE, HeaderValue::from_static(asset.content_type)),
                (
                    CACHE_CONTROL,
                    HeaderValue::from_static("public, max-age=31536000, immutable"),
                ),
            ];
            (headers, asset.content).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
