use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::delivery::Delivery;
use super::known_tools::KnownToolList;
use super::{McpClient, RequestOptions, as_object};
use crate::session::Session;
use crate::{Feature, McpError, McpErrorKind, TransportKind};
use pillion_schema::compute;

const METHOD_NOT_FOUND: i64 = -32601;

/// Maximum total size of a list's pages, as a multiple of the maximum response size.
const MAX_LIST_SIZE_FACTOR: usize = 4;

/// Maximum number of tools of one server.
const MAX_TOOLS: usize = 10_000;

impl McpClient {
    /// Returns the server's tools of all pages, each as the server wrote it. Empty if the server
    /// does not know `tools/list`. Of more than 10,000 tools, the rest is dropped with a warning.
    ///
    /// A tool whose `x-mcp-header` annotations violate the rules of revision 2026-07-28 is skipped
    /// with a warning, as that revision requires.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = async {
            let known = self.shared.tools.begin(&self.config().label);
            let (tools, session) = self.all("tools/list", "tools").await?;
            let has_metadata = session.is_some_and(|session| session.has(Feature::RequestMetadata));
            Ok(self.learn(has_metadata, known, tools).await)
        };
        self.list_with_deadline("tools/list", list).await
    }

    /// Returns the server's resources of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resources(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.items("resources/list", "resources");
        self.list_with_deadline("resources/list", list).await
    }

    /// Returns the server's resource templates of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resource_templates(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.items("resources/templates/list", "resourceTemplates");
        self.list_with_deadline("resources/templates/list", list)
            .await
    }

    /// Returns the server's prompts of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_prompts(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.items("prompts/list", "prompts");
        self.list_with_deadline("prompts/list", list).await
    }

    async fn list_with_deadline<T>(
        &self,
        method: &str,
        list: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let name = || self.operation_name(method, &());
        self.in_time(&RequestOptions::default(), name, list).await
    }

    /// Requests the tools again, and updates what calls need to know about them.
    pub(super) async fn learn_tools(&self, session: &Arc<Session>) -> Result<(), McpErrorKind> {
        let known = self.shared.tools.begin(&self.config().label);
        let mut list = self.list("tools/list", "tools");
        while let Some(params) = list.next_page()? {
            let extras = crate::session::RequestExtras::default();
            let result = session.exchange("tools/list", &params, extras).await??;
            list.read(&result)?;
        }
        let has_metadata = session.has(Feature::RequestMetadata);
        self.learn(has_metadata, known, list.items).await;
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
        if tools.len() > MAX_TOOLS {
            tracing::warn!(
                mcp.server = %server,
                tools = tools.len(),
                "An MCP server lists more than {MAX_TOOLS} tools; the rest is dropped"
            );
            tools.truncate(MAX_TOOLS);
        }
        let bytes = tools.iter().map(|tool| tool.get().len()).sum();
        let account = Arc::clone(&server);
        let learned = compute::run(&account, bytes, move || {
            tools.retain(|tool| match known.learn(tool) {
                Err(error) if has_headers => {
                    let name = serde_json::from_str::<Value>(tool.get()).ok();
                    let name = name.as_ref().and_then(|tool| tool.get("name")?.as_str());
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
        self.shared.tools.replace(known);
        tools
    }

    async fn items(
        &self,
        method: &'static str,
        key: &'static str,
    ) -> Result<Vec<Box<RawValue>>, McpErrorKind> {
        let (items, _) = self.all(method, key).await?;
        Ok(items)
    }

    /// Returns the items of all pages, and the session of the last page, which may have ended.
    /// Empty if the server does not know the method.
    async fn all(
        &self,
        method: &'static str,
        key: &'static str,
    ) -> Result<(Vec<Box<RawValue>>, Option<Arc<Session>>), McpErrorKind> {
        let mut list = self.list(method, key);
        let mut last = None;
        while let Some(params) = list.next_page()? {
            let (outcome, session) = self
                .cached_exchange(method, &params, &Map::new(), &Delivery::default())
                .await?;
            last = Some(session);
            match outcome {
                Err(error) if error.code == METHOD_NOT_FOUND => break,
                other => list.read(&other?)?,
            }
        }
        Ok((list.items, last))
    }

    fn list(&self, method: &'static str, key: &'static str) -> ListReader {
        let limits = self.config().limits;
        ListReader {
            method,
            key,
            items: Vec::new(),
            next: NextPage::First,
            pages: 0,
            most_pages: limits.max_pages,
            bytes: 0,
            most_bytes: limits
                .max_response_bytes
                .saturating_mul(MAX_LIST_SIZE_FACTOR),
        }
    }
}

/// A list that is read page by page.
struct ListReader {
    method: &'static str,
    key: &'static str,
    items: Vec<Box<RawValue>>,
    next: NextPage,
    pages: usize,
    most_pages: usize,
    bytes: usize,
    most_bytes: usize,
}

/// The next page of a list.
enum NextPage {
    First,
    At(String),
    Nothing,
}

impl ListReader {
    /// Returns the parameters of the request for the next page; `None` after the last page.
    fn next_page(&mut self) -> Result<Option<Box<RawValue>>, McpErrorKind> {
        let params = match &self.next {
            NextPage::First => json!({}),
            NextPage::At(cursor) => json!({ "cursor": cursor }),
            NextPage::Nothing => return Ok(None),
        };
        if self.pages == self.most_pages {
            let limit = self.most_pages;
            return Err(McpErrorKind::TooManyPages { limit });
        }
        self.pages += 1;
        as_object(&params).map(Some)
    }

    /// Adds the items of a page.
    fn read(&mut self, result: &RawValue) -> Result<(), McpErrorKind> {
        self.bytes = self.bytes.saturating_add(result.get().len());
        if self.bytes > self.most_bytes {
            let limit = self.most_bytes;
            return Err(McpErrorKind::ListTooLarge { limit });
        }
        let method = self.method;
        let unexpected = |source| McpErrorKind::UnexpectedResult { method, source };
        let mut page: indexmap::IndexMap<String, &RawValue> =
            serde_json::from_str(result.get()).map_err(unexpected)?;
        if let Some(found) = page.swap_remove(self.key) {
            let found: Option<Vec<Box<RawValue>>> =
                serde_json::from_str(found.get()).map_err(unexpected)?;
            self.items.extend(found.unwrap_or_default());
        }
        let next: Option<String> = match page.swap_remove("nextCursor") {
            Some(next) => serde_json::from_str(next.get()).map_err(unexpected)?,
            None => None,
        };
        let next = next.filter(|next| !next.is_empty());
        self.next = next.map_or(NextPage::Nothing, NextPage::At);
        Ok(())
    }
}
