use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

use super::millis;

/// `[http]`: limits of the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HttpSection {
    /// Maximum size of a request body, in bytes; a larger body gets status 413. The number of [JSON
    /// values](errors.md#json-values) in a body is limited, too.
    pub max_body_bytes: NonZeroUsize,
    /// Timeout for receiving a request body; after the timeout, the request gets status 408.
    #[serde(rename = "body_timeout_ms", deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub body_timeout: Duration,
    /// Maximum time for which a connection may be idle or receive an incomplete request head; then
    /// the connection is closed.
    #[serde(rename = "idle_timeout_ms", deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub idle_timeout: Duration,
    /// Maximum time for which a client may read nothing of its response; then the connection is
    /// closed. A slow client that keeps reading is not disconnected by this timeout. For a client
    /// on another host or in another network namespace, this timeout is four times as long, because
    /// the operating system reports what such a client has read only in steps of up to 128 KiB.
    /// With the default, the longer timeout is enough for a client that reads at least 1.1 kB/s.
    #[serde(rename = "write_timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub write_timeout: Duration,
    /// Maximum memory for response bytes that wait for clients, over all connections, in bytes. A
    /// large response counts toward this limit from before it is built until its last byte is sent.
    /// When the limit is reached, further large results wait for free memory, at most until their
    /// call's deadline. While results wait, the sidecar disconnects, one at a time, clients that
    /// have read nothing for at least 2 s; the client that has stalled longest is the first. For a
    /// client on another host, or in another network namespace, the time is 30 s instead of 2 s,
    /// which is enough for a client that reads at least 4.4 kB/s. One principal (a token, or a user
    /// of this host) may use at most 6/7 of the limit. Results that are being read or built need
    /// additional memory: up to several times `executor.max_output_bytes` for each running call.
    pub max_waiting_bytes: NonZeroUsize,
    /// Maximum size of a request head, in bytes, at least 8,192; a larger head gets status 431.
    #[serde(deserialize_with = "read_max_header_bytes")]
    #[cfg_attr(test, schemars(range(min = MIN_HEAD_BYTES)))]
    pub max_header_bytes: usize,
    /// Maximum number of headers of a request; a request with more headers gets status 431.
    #[serde(deserialize_with = "read_max_headers")]
    #[cfg_attr(test, schemars(range(min = 1, max = MAX_HEADERS)))]
    pub max_headers: NonZeroUsize,
    /// Maximum number of connections that are served at once; further connections wait in the queue
    /// of the operating system.
    pub max_connections: NonZeroUsize,
    /// Maximum number of calls in a batch.
    pub max_batch_calls: NonZeroUsize,
    /// How long the sidecar remembers the request of an `Idempotency-Key`.
    #[serde(rename = "idempotency_ttl_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub idempotency_ttl: Duration,
    /// Maximum number of requests of one principal (a token, or a user of this host) that continue
    /// or wait without their clients: requests with an `Idempotency-Key`, requests of MCP sessions,
    /// turns of chats in the console, and MCP requests that wait for the client's input. At the
    /// limit, a further request with an `Idempotency-Key` gets status 429, a request of an MCP
    /// session is cancelled when its client disconnects, and the oldest request that waits for
    /// input is cancelled. All principals together may have up to four times `max_detached` such
    /// requests, and one principal may never have more requests than are left unused of that total.
    pub max_detached: NonZeroUsize,
    /// Maximum memory of the requests that `max_detached` counts, in bytes, estimated from the size
    /// and the number of values of each request. All principals together may use up to four times
    /// `max_detached_bytes`, and one principal may never use more memory than is left unused of
    /// that total.
    pub max_detached_bytes: NonZeroUsize,
    /// Maximum size of the stored responses of one principal, in bytes. If a response does not fit,
    /// the sidecar stores only that the request has run.
    pub idempotency_max_bytes: u64,
}

impl Default for HttpSection {
    fn default() -> Self {
        let non_zero = |n| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN);
        Self {
            max_body_bytes: non_zero(1024 * 1024),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            max_waiting_bytes: non_zero(64 * 1024 * 1024),
            max_header_bytes: 64 * 1024,
            max_headers: non_zero(100),
            max_connections: non_zero(512),
            max_batch_calls: non_zero(100),
            idempotency_ttl: Duration::from_secs(24 * 60 * 60),
            max_detached: non_zero(500),
            max_detached_bytes: non_zero(32 * 1024 * 1024),
            idempotency_max_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Minimum value of `http.max_header_bytes`, in bytes. The HTTP parser accepts no smaller limit.
const MIN_HEAD_BYTES: usize = 8192;

/// Maximum number of headers for which the HTTP server can reserve memory.
const MAX_HEADERS: usize = 16_384;

fn read_max_headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroUsize, D::Error> {
    let max_headers = NonZeroUsize::deserialize(deserializer)?;
    if max_headers.get() > MAX_HEADERS {
        let unexpected = Unexpected::Unsigned(max_headers.get() as u64);
        return Err(D::Error::invalid_value(
            unexpected,
            &"at most 16384 headers",
        ));
    }
    Ok(max_headers)
}

fn read_max_header_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let bytes = usize::deserialize(deserializer)?;
    if bytes < MIN_HEAD_BYTES {
        let unexpected = Unexpected::Unsigned(bytes as u64);
        return Err(D::Error::invalid_value(unexpected, &"at least 8192 bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_headers_than_the_server_can_reserve_are_rejected() {
        let section = |headers: usize| {
            toml::from_str::<HttpSection>(&format!("max_headers = {headers}")).map_err(|_| ())
        };
        assert_eq!(section(MAX_HEADERS).unwrap().max_headers.get(), MAX_HEADERS);
        assert!(section(MAX_HEADERS + 1).is_err());
        assert!(section(0).is_err());
    }
}
