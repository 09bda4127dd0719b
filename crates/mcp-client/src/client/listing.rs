use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::delivery::Delivery;
use super::known_tools::KnownToolList;
use super::list_reader::{ListKind, ListReader};
use super::{McpClient, RequestOptions};
use crate::session::Session;
use crate::{Feature, McpError, McpErrorKind, TransportKind};
use pillion_schema::compute;

const METHOD_NOT_FOUND: i64 = -32601;

/// Maximum total size of a list's pages, as a multiple of the maximum response size.
const MAX_LIST_SIZE_FACTOR: usize = 4;

impl McpClient {
    /// Returns the server's tools of all pages, each as the server wrote it. Empty if the server
    /// does not know `tools/list`.
    ///
    /// The number and the size of the entries of every list are limited: to 10,000 tools, resources
    /// or prompts, or 1,000 resource templates, to 1 MiB for each entry, and to 16 MiB together. What
    /// exceeds a limit is dropped with a warning.
    ///
    /// A tool whose `x-mcp-header` annotations violate the rules of revision 2026-07-28 is skipped
    /// with a warning, as that revision requires.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error or an invalid list.
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = async {
            let known = self.shared.tools.begin(&self.config().label);
            let (tools, session) = self.all(ListKind::TOOLS).await?;
            let has_metadata = session.is_some_and(|session| session.has(Feature::RequestMetadata));
            Ok(self.learn(has_metadata, known, tools).await)
        };
        self.list_with_deadline("tools/list", list).await
    }

    /// Returns the server's resources of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// As for [`list_tools`](Self::list_tools).
    pub async fn list_resources(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.items(ListKind::RESOURCES);
        self.list_with_deadline("resources/list", list).await
    }

    /// Returns the server's resource templates of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// As for [`list_tools`](Self::list_tools).
    pub async fn list_resource_templates(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.items(ListKind::RESOURCE_TEMPLATES);
        self.list_with_deadline("resources/templates/list", list)
            .await
    }

    /// Returns the server's prompts of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// As for [`list_tools`](Self::list_tools).
    pub async fn list_prompts(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.items(ListKind::PROMPTS);
        self.list_with_deadline("prompts/list", list).await
    }

    async fn list_with_deadline<T>(
        &self,
        method: &str,
        list: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let name = || self.operation_name(method, &());
        self.in_time(&RequestOptions::default(), name, Box::pin(list))
            .await
    }

    /// Requests the tools again, and updates what calls need to know about them.
    pub(super) async fn learn_tools(&self, session: &Arc<Session>) -> Result<(), McpErrorKind> {
        let known = self.shared.tools.begin(&self.config().label);
        let mut list = self.list(ListKind::TOOLS);
        while let Some(params) = list.next_page()? {
            let extras = crate::session::RequestExtras::default();
            let result = session.exchange("tools/list", &params, extras).await??;
            list = list.read(result).await?;
        }
        let has_metadata = session.has(Feature::RequestMetadata);
        self.learn(has_metadata, known, list.into_entries()).await;
        Ok(())
    }

    /// Stores the tools' properties that calls use, and returns the usable tools. A long list is
    /// processed on another thread. `has_metadata`: the session's requests carry metadata, including
    /// headers.
    async fn learn(
        &self,
        has_metadata: bool,
        mut known: KnownToolList,
        mut tools: Vec<Box<RawValue>>,
    ) -> Vec<Box<RawValue>> {
        let server: Arc<str> = self.config().label.as_str().into();
        let has_headers = has_metadata
            && matches!(
                self.config().transport,
                TransportKind::Auto | TransportKind::StreamableHttp
            );
        let bytes = tools.iter().map(|tool| tool.get().len()).sum();
        let account = Arc::clone(&server);
        let learned = compute::run(&account, bytes, move || {
            tools.retain(|tool| match known.learn(tool) {
                Err(error) if has_headers => {
                    let entry = serde_json::from_str::<Value>(tool.get()).ok();
                    let name = entry.as_ref().and_then(|tool| tool.get("name")?.as_str());
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
        let (list, valid_tools) = learned.await;
        self.shared.tools.replace(list);
        valid_tools
    }

    async fn items(&self, kind: ListKind) -> Result<Vec<Box<RawValue>>, McpErrorKind> {
        let (items, _) = self.all(kind).await?;
        Ok(items)
    }

    /// Returns the items of all pages, and the session of the last page, which may have ended.
    /// Empty if the server does not know the method.
    async fn all(
        &self,
        kind: ListKind,
    ) -> Result<(Vec<Box<RawValue>>, Option<Arc<Session>>), McpErrorKind> {
        let mut list = self.list(kind);
        let mut last = None;
        while let Some(params) = list.next_page()? {
            let (outcome, session) = self
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

    fn list(&self, kind: ListKind) -> ListReader {
        let limits = self.config().limits;
        let max_bytes = limits
            .max_response_bytes
            .saturating_mul(MAX_LIST_SIZE_FACTOR);
        ListReader::new(kind, &self.config().label, limits.max_pages, max_bytes)
    }
}
