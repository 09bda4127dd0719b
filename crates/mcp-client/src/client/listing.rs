use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::delivery::Delivery;
use super::known_tools::KnownToolList;
use super::list_reader::{ListKind, ListReader};
use super::request_sender::RequestSender;
use crate::session::Session;
use crate::{Feature, McpErrorKind, TransportKind};
use pillion_schema::compute;

const METHOD_NOT_FOUND: i64 = -32601;

/// Maximum total size of a list's pages, as a multiple of the maximum response size.
const MAX_LIST_SIZE_FACTOR: usize = 4;

/// Returns the usable tools of all pages, and stores the properties of the tools that calls use.
pub(super) async fn list_tools(sender: &RequestSender) -> Result<Vec<Box<RawValue>>, McpErrorKind> {
    let known = sender.tools.begin(&sender.config.label);
    let (tools, session) = all(sender, ListKind::TOOLS).await?;
    let has_metadata = session.is_some_and(|session| session.has(Feature::RequestMetadata));
    Ok(learn(sender, has_metadata, known, tools).await)
}

/// Requests the tools again, and stores the properties of the tools that calls use.
pub(super) async fn learn_tools(
    sender: &RequestSender,
    session: &Arc<Session>,
) -> Result<(), McpErrorKind> {
    let known = sender.tools.begin(&sender.config.label);
    let mut list = reader(sender, ListKind::TOOLS);
    while let Some(params) = list.next_page()? {
        let extras = crate::session::RequestExtras::default();
        let result = session.exchange("tools/list", &params, extras).await??;
        list = list.read(result).await?;
    }
    let has_metadata = session.has(Feature::RequestMetadata);
    learn(sender, has_metadata, known, list.into_entries()).await;
    Ok(())
}

/// Stores the properties of the tools that calls use, and returns the usable tools. A long list is
/// processed on another thread. `has_metadata`: the session's requests carry metadata, including
/// headers.
async fn learn(
    sender: &RequestSender,
    has_metadata: bool,
    mut known: KnownToolList,
    mut tools: Vec<Box<RawValue>>,
) -> Vec<Box<RawValue>> {
    let server: Arc<str> = sender.config.label.as_str().into();
    let has_headers = has_metadata
        && matches!(
            sender.config.transport,
            TransportKind::Auto | TransportKind::StreamableHttp
        );
    let bytes = tools.iter().map(|tool| tool.get().len()).sum();
    let account = Arc::clone(&server);
    let learned = compute::run(&account, bytes, move || {
        tools.retain(|tool| match known.learn(tool) {
            Err(error) if has_headers => {
                let parsed = serde_json::from_str::<Value>(tool.get()).ok();
                let name = parsed.as_ref().and_then(|tool| tool.get("name")?.as_str());
                tracing::warn!(
                    mcp.server = %server, tool = name, %error,
                    "Skipped a tool of an MCP server"
                );
                false
            }
            _ => true,
        });
        (known, tools)
    });
    let (known, tools) = learned.await;
    sender.tools.replace(known);
    tools
}

/// Returns the entries of all pages, and the session of the last page, which may have ended.
/// Empty if the server does not know the method.
pub(super) async fn all(
    sender: &RequestSender,
    kind: ListKind,
) -> Result<(Vec<Box<RawValue>>, Option<Arc<Session>>), McpErrorKind> {
    let mut list = reader(sender, kind);
    let mut last = None;
    while let Some(params) = list.next_page()? {
        let (outcome, session) = sender
            .cached_exchange(kind.method, &params, &Map::new(), &Delivery::default())
            .await?;
        last = Some(session);
        match outcome {
            Err(error) if error.code == METHOD_NOT_FOUND => break,
            other => list = list.read(other?).await?,
        }
    }
    Ok((list.into_entries(), last))
}

fn reader(sender: &RequestSender, kind: ListKind) -> ListReader {
    let limits = sender.config.limits;
    let max_bytes = limits
        .max_response_bytes
        .saturating_mul(MAX_LIST_SIZE_FACTOR);
    ListReader::new(kind, &sender.config.label, limits.max_pages, max_bytes)
}
