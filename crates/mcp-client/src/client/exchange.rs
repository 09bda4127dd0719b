use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::McpClient;
use crate::connect::{HEADER_MISMATCH, UNSUPPORTED_VERSION, supported_by};
use crate::jsonrpc::RpcOutcome;
use crate::metadata::RESERVED;
use crate::result_cache::ResultCache;
use crate::session::{Extras, Session};
use crate::{Feature, McpErrorKind};

/// Maximum number of connections that may end before a byte of one request has been sent.
const MAX_CHANNELS: usize = 8;

/// The reason for sending a request again.
#[derive(Debug, PartialEq, Eq)]
enum Again {
    /// The session has expired; the server has not processed the request.
    SessionExpired,
    /// The server uses another transport or revision now; it has not processed the request.
    DialectChanged,
    /// The connection broke, and repeating the request is harmless.
    ConnectionBroken,
    /// The server rejected the revision, although it lists that revision as supported.
    RevisionRefused,
    /// The headers that mirror parameters were not those that the tool requires by now.
    HeadersChanged,
}

impl McpClient {
    /// Sends a request, or answers it from the result cache if the server allows that.
    pub(super) async fn cached_exchange(
        &self,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
    ) -> Result<(RpcOutcome, Arc<Session>), McpErrorKind> {
        let may_be_kept = ResultCache::covers(method);
        if may_be_kept {
            let session = self.shared.connections.session().await?;
            if let Some(result) = self.shared.results.get(method, params) {
                return Ok((Ok(result), session));
            }
        }
        let sent = may_be_kept.then(|| self.shared.results.generation(method));
        let (outcome, session) = self.exchange(method, params, meta).await?;
        if let Ok(result) = &outcome
            && let Some(sent) = sent
            && session.has(Feature::RequestMetadata)
        {
            self.shared.results.put(method, params, result, sent);
        }
        Ok((outcome, session))
    }

    /// Sends a request and returns the response. Rare paths are boxed here and below, so that they
    /// do not make every exchange larger. The request is repeated only if that is harmless.
    pub(super) async fn exchange(
        &self,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
    ) -> Result<(RpcOutcome, Arc<Session>), McpErrorKind> {
        let url = &self.shared.display_url;
        let mut tried = Vec::new();
        loop {
            let session = self.shared.connections.session().await?;
            tracing::debug!(mcp.url = url, mcp.method = method, "MCP request");
            let extras = self.extras(&session, method, params, meta);
            let outcome = session.exchange(method, params, extras).await;
            self.shared.connections.learn(&outcome);
            tracing::debug!(
                mcp.url = url,
                mcp.method = method,
                success = matches!(outcome, Ok(Ok(_))),
                "MCP response"
            );
            let again = self.again(&session, method, params, &outcome);
            let Some(again) = again.filter(|reason| self.may_repeat(reason, &tried)) else {
                return Ok((outcome?, session));
            };
            tracing::debug!(?again, "Retrying the MCP request");
            match again {
                // An HTTP session outlives its connections.
                Again::ConnectionBroken if session.is_open() => {}
                Again::SessionExpired | Again::ConnectionBroken => {
                    self.shared.connections.forget(&session).await;
                }
                Again::RevisionRefused => {}
                Again::DialectChanged => {
                    let before = session.version();
                    self.shared.connections.forget_dialect(&session).await;
                    let now = self.shared.connections.session().await;
                    let now = now.map(|now| now.version());
                    if now.as_ref().is_ok_and(|now| *now == before) {
                        self.shared.connections.confirmed().note(&outcome);
                    }
                    let is_other = now.is_ok_and(|now| now != before);
                    if !is_other && !only_reads(method) {
                        // It was an error of the tool, or that is unknown: the tool may have run,
                        // so the request must not be repeated.
                        return Ok((outcome?, session));
                    }
                }
                Again::HeadersChanged => {
                    self.shared.results.forget("tools/list");
                    Box::pin(self.learn_tools(&session)).await?;
                }
            }
            tried.push(again);
        }
    }

    /// Returns whether a request may be sent again for this reason. A request is sent again once
    /// for each reason, but the connection to a program, or a WebSocket, may end several times
    /// before a byte of the request has been sent.
    fn may_repeat(&self, reason: &Again, tried: &[Again]) -> bool {
        let before = tried.iter().filter(|other| *other == reason).count();
        let most = match reason {
            Again::SessionExpired if self.shared.connections.is_channel() => MAX_CHANNELS,
            _ => 1,
        };
        before < most
    }

    fn extras(
        &self,
        session: &Session,
        method: &str,
        params: &RawValue,
        meta: &Map<String, Value>,
    ) -> Extras {
        let mut extras = Extras {
            meta: meta.clone(),
            ..Extras::default()
        };
        if !session.has(Feature::RequestMetadata) {
            // An older server would treat reserved keys as an application's.
            extras.meta.retain(|key, _| !key.starts_with(RESERVED));
            return extras;
        }
        if let Some(level) = self.shared.connections.settings().log_level() {
            let key = "io.modelcontextprotocol/logLevel".to_owned();
            extras.meta.insert(key, json!(level));
        }
        if self.shared.tools.has_param_headers()
            && let Some((tool, arguments)) = self.called_tool(method, params)
        {
            extras.mirrored = tool.headers(arguments);
        }
        extras
    }

    /// Returns the tool that a request calls, if the last list contained it, and the arguments.
    fn called_tool<'a>(
        &self,
        method: &str,
        params: &'a RawValue,
    ) -> Option<(Arc<super::known_tools::KnownTool>, &'a RawValue)> {
        #[derive(Deserialize)]
        struct Call<'a> {
            #[serde(borrow)]
            name: std::borrow::Cow<'a, str>,
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
        }
        if method != "tools/call" {
            return None;
        }
        let call: Call<'a> = serde_json::from_str(params.get()).ok()?;
        let tool = self.shared.tools.get(&call.name)?;
        Some((tool, call.arguments.unwrap_or(RawValue::NULL)))
    }

    fn again(
        &self,
        session: &Session,
        method: &str,
        params: &RawValue,
        outcome: &Result<RpcOutcome, McpErrorKind>,
    ) -> Option<Again> {
        match outcome {
            Err(McpErrorKind::SessionExpired) => Some(Again::SessionExpired),
            Err(
                McpErrorKind::Broken(_)
                | McpErrorKind::StreamClosed
                | McpErrorKind::ProcessEnded { .. },
            ) => {
                let tool = || self.called_tool(method, params);
                let harmless =
                    only_reads(method) || tool().is_some_and(|(tool, _)| tool.harmless_twice);
                harmless.then_some(Again::ConnectionBroken)
            }
            Ok(Err(error)) if error.code == HEADER_MISMATCH && method == "tools/call" => {
                // Before that revision, this is an error code of the tool, which may have run.
                session
                    .has(Feature::RequestMetadata)
                    .then_some(Again::HeadersChanged)
            }
            Ok(Err(error)) if error.code == UNSUPPORTED_VERSION => {
                let named = supported_by(error);
                if named.is_some() && named == session.version() {
                    return Some(Again::RevisionRefused);
                }
                self.may_have_changed(outcome)
                    .then_some(Again::DialectChanged)
            }
            outcome => {
                let misfit = !self.shared.connections.is_channel()
                    && does_not_fit(session, outcome)
                    && self.may_have_changed(outcome);
                misfit.then_some(Again::DialectChanged)
            }
        }
    }

    /// Returns whether an outcome may mean a changed server, which a check can tell.
    fn may_have_changed(&self, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
        let connections = &self.shared.connections;
        connections.detects_dialect() && !connections.confirmed().covers(outcome)
    }
}

/// Returns whether a method changes nothing on the server.
fn only_reads(method: &str) -> bool {
    matches!(
        method,
        "ping"
            | "server/discover"
            | "tools/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "prompts/list"
            | "prompts/get"
            | "completion/complete"
            | "tasks/get"
    )
}

/// Returns whether a server without handshake now answers like one that requires it: with a status
/// that has no meaning in that revision, or an error code of the range that earlier servers used.
/// Such a server has not processed the request. A server of unknown revision may use those codes
/// for anything.
fn does_not_fit(session: &Session, outcome: &Result<RpcOutcome, McpErrorKind>) -> bool {
    let is_stateless = session.has(Feature::RequestMetadata);
    match outcome {
        Err(McpErrorKind::HttpStatus { status, rpc, .. }) => {
            let is_any = is_stateless || session.version().is_none();
            is_any && matches!(status, 400 | 404 | 405) && rpc.is_none()
        }
        Ok(Err(error)) => {
            let is_older = matches!(error.code, -32019..=-32000 | -32600);
            is_stateless && is_older && error.code != -32002
        }
        _ => false,
    }
}
