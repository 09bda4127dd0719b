use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::known_tools::{KnownToolList, KnownTools};
use super::list_reader::{ListKind, ListReader};
use crate::session::{RequestExtras, Session};
use crate::{Feature, McpErrorKind, ServerConfig, TransportKind};
use pillion_schema::compute;

/// Maximum total size of a list's pages, as a multiple of the maximum response size.
const MAX_LIST_SIZE_FACTOR: usize = 4;

/// Requests the list of tools again, and stores those properties of the tools that are needed for
/// calls.
pub(super) async fn request_known_tools(
    known_tools: &KnownTools,
    config: &ServerConfig,
    session: &Arc<Session>,
) -> Result<(), McpErrorKind> {
    let tool_list = known_tools.new_list(&config.label);
    let mut reader = new_reader(config, ListKind::TOOLS);
    while let Some(params) = reader.next_page_params()? {
        let extras = RequestExtras::default();
        let result = session.exchange("tools/list", &params, extras).await??;
        reader = reader.read_page(result).await?;
    }
    let has_metadata = session.has_feature(Feature::RequestMetadata);
    let entries = reader.into_entries();
    store_known_tools(known_tools, config, has_metadata, tool_list, entries).await;
    Ok(())
}

/// Stores the properties of the tools that are needed for calls, and returns the usable tools.
/// Processes a long list on another thread. `has_metadata` is `true` if the session's requests
/// carry metadata, including headers.
pub(super) async fn store_known_tools(
    known_tools: &KnownTools,
    config: &ServerConfig,
    has_metadata: bool,
    mut tool_list: KnownToolList,
    mut entries: Vec<Box<RawValue>>,
) -> Vec<Box<RawValue>> {
    let server: Arc<str> = config.label.as_str().into();
    let transport = config.transport;
    let has_headers = has_metadata
        && matches!(
            transport,
            TransportKind::Auto | TransportKind::StreamableHttp
        );
    let total_bytes = entries.iter().map(|entry| entry.get().len()).sum();
    let server_label = Arc::clone(&server);
    let stored_list = compute::run(&server_label, total_bytes, move || {
        entries.retain(|entry| match tool_list.add(entry) {
            Err(error) if has_headers => {
                let tool = serde_json::from_str::<Value>(entry.get()).ok();
                let name = tool.as_ref().and_then(|tool| tool.get("name")?.as_str());
                tracing::warn!(
                    mcp.server = %server, tool = name, %error,
                    "Skipped a tool with invalid `x-mcp-header` annotations"
                );
                false
            }
            _ => true,
        });
        (tool_list, entries)
    });
    let (tool_list, usable_tools) = stored_list.await;
    known_tools.replace(tool_list);
    usable_tools
}

/// Creates the reader of a server's list, with the limits of the server's configuration.
pub(super) fn new_reader(config: &ServerConfig, kind: ListKind) -> ListReader {
    let limits = config.limits;
    let max_bytes = limits
        .max_response_bytes
        .saturating_mul(MAX_LIST_SIZE_FACTOR);
    ListReader::new(kind, &config.label, limits.max_pages, max_bytes)
}
