use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::McpErrorKind;
use crate::http::{HttpLink, check_status};

const SUBPROTOCOL: HeaderValue = HeaderValue::from_static("mcp");

/// Opens a WebSocket (RFC 6455, section 4.1).
pub(super) async fn open_websocket(link: &HttpLink) -> Result<reqwest::Upgraded, McpErrorKind> {
    let key = BASE64_STANDARD.encode(rand::random::<[u8; 16]>());
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
    let key_header = HeaderValue::try_from(&key).map_err(|_| McpErrorKind::NotWebSocket)?;
    headers.insert(SEC_WEBSOCKET_KEY, key_header);
    let response = link.get(headers).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        check_status(response).await?;
        return Err(McpErrorKind::NotWebSocket);
    }
    if !is_accepted(response.headers(), &key) {
        return Err(McpErrorKind::NotWebSocket);
    }
    response
        .upgrade()
        .await
        .map_err(|error| McpErrorKind::ConnectionBroken(error.without_url().into()))
}

/// Returns whether the server's response accepts the WebSocket handshake. A missing subprotocol is
/// accepted, because some servers do not know subprotocols. Any other subprotocol than `mcp` is
/// rejected.
fn is_accepted(headers: &HeaderMap, key: &str) -> bool {
    let has_value = |name, expected: &str| {
        let value = headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok());
        value.is_some_and(|value| value.trim().eq_ignore_ascii_case(expected))
    };
    has_value(UPGRADE, "websocket")
        && headers.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes)
            == Some(derive_accept_key(key.as_bytes()).as_bytes())
        && headers
            .get(SEC_WEBSOCKET_PROTOCOL)
            .is_none_or(|protocol| protocol == SUBPROTOCOL)
}
