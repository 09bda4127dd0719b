use pillion_mcp_client::{ConnectionInfo, McpError};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::plain;
use super::server::ServerConnection;

/// A kind of items that a server can list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfferKind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

/// The items of one list. The JSON of each item is unchanged from the server.
pub(super) type OfferItems = Vec<Box<RawValue>>;

impl OfferKind {
    pub(super) const ALL: [Self; 4] =
        [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "templates",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the key under which a list result of MCP contains the items.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Templates => "resourceTemplates",
            kind => kind.name(),
        }
    }

    /// Returns whether the server declares the capability for this kind. Always true for tools, and
    /// for every kind if the server declares no capabilities at all.
    pub(super) fn is_offered(self, connection: &ConnectionInfo) -> bool {
        let capability = match self {
            Self::Tools => return true,
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        };
        match HandshakeResult::new(connection).capabilities {
            Some(capabilities) => capabilities.get(capability).is_some(),
            None => true,
        }
    }

    pub(super) async fn list(self, server: &ServerConnection) -> Result<OfferItems, McpError> {
        let client = &server.client;
        let request_list = || async move {
            match self {
                Self::Tools => client.list_tools().await,
                Self::Resources => client.list_resources().await,
                Self::Templates => client.list_resource_templates().await,
                Self::Prompts => client.list_prompts().await,
            }
        };
        server.repeat_after_authorization(request_list).await
    }

    /// Returns each item's name, URI or URI template, which identifies the item in requests.
    pub(super) fn ids(self, items: &OfferItems) -> Vec<String> {
        items.iter().map(|item| self.id(item)).collect()
    }

    fn id(self, item: &RawValue) -> String {
        let key = match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        };
        let json: Value = serde_json::from_str(item.get()).unwrap_or_default();
        plain::to_one_line(json[key].as_str().unwrap_or("?"))
    }
}

/// The result of `initialize` or `server/discover`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HandshakeResult {
    pub(super) capabilities: Option<Value>,
    pub(super) instructions: Option<String>,
}

impl HandshakeResult {
    pub(super) fn new(connection: &ConnectionInfo) -> Self {
        let result = connection.server.as_ref();
        let handshake = result.and_then(|result| serde_json::from_str(result.get()).ok());
        handshake.unwrap_or_default()
    }
}
