use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::value::RawValue;

use super::jsonrpc::{self, RequestId, RpcOutcome};
use super::transport::Transport;
use super::{McpErrorKind, ProtocolVersion};

/// A connection that is ready for requests: the transport and what was agreed on it.
pub(super) struct Session {
    transport: Box<dyn Transport>,
    ids: IdStyle,
    next_id: AtomicI64,
}

/// What ids of requests look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdStyle {
    /// `1`, `2`, ... (E7).
    Number,
    /// `mcp_` and random characters (E1).
    Mcp,
}

impl Session {
    pub(super) fn new(transport: Box<dyn Transport>, ids: IdStyle) -> Self {
        Self {
            transport,
            ids,
            next_id: AtomicI64::new(1),
        }
    }

    /// Sends a request and waits for its response.
    pub(super) async fn exchange(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<RpcOutcome, McpErrorKind> {
        let id = match self.ids {
            IdStyle::Number => RequestId::Number(self.next_id.fetch_add(1, Ordering::Relaxed)),
            IdStyle::Mcp => RequestId::Text(format!("mcp_{}", uuid::Uuid::new_v4().simple())),
        };
        let message = jsonrpc::request(&id, method, params);
        self.transport.exchange(&id, message).await
    }

    /// Says hello: `initialize`, then `notifications/initialized` (E6).
    pub(super) async fn initialize(&self, offered: ProtocolVersion) -> Result<(), McpErrorKind> {
        let params = initialize_params(offered)?;
        let result = self.exchange("initialize", &params).await??;
        #[derive(serde::Deserialize)]
        struct Initialized {
            #[serde(rename = "protocolVersion", default)]
            protocol_version: Option<String>,
        }
        let initialized: Initialized = serde_json::from_str(result.get()).map_err(|source| {
            let method = "initialize";
            McpErrorKind::UnexpectedResult { method, source }
        })?;
        let spoken = initialized.protocol_version.as_deref();
        self.transport
            .negotiated(spoken.map_or(offered, ProtocolVersion::closest_to));
        let done = jsonrpc::notification("notifications/initialized");
        if let Err(error) = self.transport.notify(done).await {
            // Some servers answer it with an error and work all the same.
            tracing::debug!(%error, "The server refused `notifications/initialized`");
        }
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.transport.is_open()
    }

    pub(super) async fn close(&self) {
        self.transport.close().await;
    }
}

fn initialize_params(offered: ProtocolVersion) -> Result<Box<RawValue>, McpErrorKind> {
    let params = serde_json::json!({
        "protocolVersion": offered.as_str(),
        "capabilities": {},
        "clientInfo": {"name": "pillion", "version": env!("CARGO_PKG_VERSION")},
    });
    serde_json::value::to_raw_value(&params).map_err(McpErrorKind::Encode)
}
