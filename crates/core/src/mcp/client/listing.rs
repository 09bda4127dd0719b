use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{McpClient, RequestOptions, as_object};
use crate::mcp::session::Session;
use crate::mcp::{Feature, McpError, McpErrorKind, TransportKind};

const METHOD_NOT_FOUND: i64 = -32601;

impl McpClient {
    /// The server's tools, each as the server wrote it, with every page fetched. A server
    /// that does not know `tools/list` has none (E6).
    ///
    /// A tool whose `x-mcp-header` annotations break the rules of revision 2026-07-28 is
    /// left out with a warning, as that revision asks.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = async {
            let tools = self.all("tools/list", "tools").await?;
            let session = self.shared.connections.session().await?;
            Ok(self.learn(&session, tools))
        };
        self.in_time(&RequestOptions::default(), list).await
    }

    /// The server's resources, each as the server wrote it, with every page fetched.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resources(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.all("resources/list", "resources");
        self.in_time(&RequestOptions::default(), list).await
    }

    /// The server's resource templates, likewise.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resource_templates(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.all("resources/templates/list", "resourceTemplates");
        self.in_time(&RequestOptions::default(), list).await
    }

    /// The server's prompts, likewise.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_prompts(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = self.all("prompts/list", "prompts");
        self.in_time(&RequestOptions::default(), list).await
    }

    /// Asks for the tools anew and learns what calls have to know of them.
    pub(super) async fn learn_tools(&self, session: &Arc<Session>) -> Result<(), McpErrorKind> {
        let mut cursor = None;
        let mut tools = Vec::new();
        for _ in 0..self.config().limits.max_pages {
            let params = page_params(cursor.as_deref())?;
            let extras = crate::mcp::session::Extras::default();
            let result = session.exchange("tools/list", &params, extras).await??;
            cursor = read_page(&result, "tools/list", "tools", &mut tools)?;
            if cursor.is_none() {
                break;
            }
        }
        self.learn(session, tools);
        Ok(())
    }

    /// Remembers what calls have to know of tools; gives those that may be used.
    fn learn(&self, session: &Session, tools: Vec<Box<RawValue>>) -> Vec<Box<RawValue>> {
        let server = &self.config().label;
        let has_headers = session.has(Feature::RequestMetadata)
            && matches!(
                self.config().transport,
                TransportKind::Auto | TransportKind::StreamableHttp
            );
        self.shared.tools.forget_all();
        let mut usable = tools;
        usable.retain(|tool| match self.shared.tools.learn(tool) {
            Err(error) if has_headers => {
                let name = serde_json::from_str::<Value>(tool.get()).ok();
                let name = name.as_ref().and_then(|tool| tool.get("name")?.as_str());
                tracing::warn!(mcp.server = server, tool = name, %error, "A tool is left out");
                false
            }
            _ => true,
        });
        usable
    }

    /// Every page of a list. A server that does not know the method has nothing (E6).
    async fn all(
        &self,
        method: &'static str,
        key: &str,
    ) -> Result<Vec<Box<RawValue>>, McpErrorKind> {
        let limit = self.config().limits.max_pages;
        let mut items = Vec::new();
        let mut cursor = None;
        for _ in 0..limit {
            let params = page_params(cursor.as_deref())?;
            let (outcome, _) = self.cached_exchange(method, &params, &Map::new()).await?;
            let result = match outcome {
                Err(error) if error.code == METHOD_NOT_FOUND => return Ok(items),
                other => other?,
            };
            cursor = read_page(&result, method, key, &mut items)?;
            if cursor.is_none() {
                return Ok(items);
            }
        }
        Err(McpErrorKind::TooManyPages { limit })
    }
}

fn page_params(cursor: Option<&str>) -> Result<Box<RawValue>, McpErrorKind> {
    as_object(&match cursor {
        None => json!({}),
        Some(cursor) => json!({ "cursor": cursor }),
    })
}

/// Takes the items of one page; gives the cursor of the next.
fn read_page(
    result: &RawValue,
    method: &'static str,
    key: &str,
    items: &mut Vec<Box<RawValue>>,
) -> Result<Option<String>, McpErrorKind> {
    let unexpected = |source| McpErrorKind::UnexpectedResult { method, source };
    let mut page: indexmap::IndexMap<String, &RawValue> =
        serde_json::from_str(result.get()).map_err(unexpected)?;
    if let Some(found) = page.swap_remove(key) {
        let found: Option<Vec<Box<RawValue>>> =
            serde_json::from_str(found.get()).map_err(unexpected)?;
        items.extend(found.unwrap_or_default());
    }
    let Some(next) = page.swap_remove("nextCursor") else {
        return Ok(None);
    };
    let next: Option<String> = serde_json::from_str(next.get()).map_err(unexpected)?;
    Ok(next.filter(|next| !next.is_empty()))
}
