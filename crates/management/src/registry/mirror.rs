//! The mirror: the last responses of the registry, in the store. The console uses a recent response
//! instead of a new request, and an older one if the registry cannot be reached.

use std::collections::BTreeSet;
use std::sync::Arc;

use pillion_core::compute;
use pillion_core::digest::sha256_hex;
use pillion_core::store::{Store, StoreError, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::entry::RegistrySummary;

/// A kind of mirrored responses. Each kind is limited by the number and the size of its documents:
/// all kinds together take at most 8 MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct MirrorKind {
    /// The name under which the store contains the documents. Names of packs contain no `-`, so no
    /// pack has the same name.
    pack: &'static str,
    max_documents: u32,
    max_bytes: usize,
}

/// Pages of lists of servers: at most 4,000 servers.
pub(super) const LISTS: MirrorKind = MirrorKind {
    pack: "mcp-registry-lists",
    max_documents: 250,
    max_bytes: 24 * 1024,
};

/// Single servers, with all that is needed to install them.
pub(super) const SERVERS: MirrorKind = MirrorKind {
    pack: "mcp-registry-servers",
    max_documents: 24,
    max_bytes: 80 * 1024,
};

/// The mirrored responses of one registry.
pub(super) struct Mirror {
    store: Arc<dyn Store>,
    /// The URL of the registry. Responses of other registries are ignored.
    registry: String,
}

/// A document of the store.
#[derive(Serialize, Deserialize)]
struct Document<T> {
    /// The URL of the registry.
    registry: String,
    /// The time of the response, in milliseconds since the Unix epoch.
    fetched_at: i64,
    content: T,
}

/// A document whose content is not read.
#[derive(Deserialize)]
struct DocumentTime {
    fetched_at: i64,
}

/// A mirrored response.
pub(super) struct Mirrored<T> {
    pub(super) content: T,
    pub(super) fetched_at: Timestamp,
}

/// The servers of a mirrored list; other members are ignored.
#[derive(Deserialize)]
struct ListedServers {
    servers: Vec<RegistrySummary>,
}

impl Mirror {
    pub(super) fn new(store: Arc<dyn Store>, registry: String) -> Self {
        Self { store, registry }
    }

    /// Returns the mirrored response for a request, if there is one that can be read.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        kind: MirrorKind,
        request: &str,
    ) -> Option<Mirrored<T>> {
        let name = self.document_name(request);
        let json = match self.store.find_document(kind.pack, &name).await {
            Ok(json) => json?,
            Err(error) => {
                tracing::warn!(%error, "Cannot read the mirror of the MCP registry");
                return None;
            }
        };
        let document: Document<T> = serde_json::from_str(&json).ok()?;
        Some(Mirrored {
            content: document.content,
            fetched_at: Timestamp::from_millis(document.fetched_at),
        })
    }

    /// Stores the response for a request. If that fails, the mirror keeps the previous response.
    pub(super) async fn put(
        &self,
        kind: MirrorKind,
        request: &str,
        content: &impl Serialize,
        fetched_at: Timestamp,
    ) {
        let document = to_raw_value(content).and_then(|content: Box<RawValue>| {
            serde_json::to_string(&Document {
                registry: self.registry.clone(),
                fetched_at: fetched_at.as_millis(),
                content,
            })
        });
        let Ok(json) = document else { return };
        if json.len() > kind.max_bytes {
            return;
        }
        let name = self.document_name(request);
        if let Err(error) = self.put_document(kind, &name, &json).await {
            tracing::warn!(%error, "Cannot write the mirror of the MCP registry");
        }
    }

    async fn put_document(
        &self,
        kind: MirrorKind,
        name: &str,
        json: &str,
    ) -> Result<(), StoreError> {
        let max_documents = Some(kind.max_documents);
        let put = || {
            self.store
                .put_document(kind.pack, name, json, max_documents)
        };
        match put().await {
            Err(error) if error.is_full() => {
                self.remove_oldest(kind).await?;
                put().await.map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    /// Removes the oldest tenth of the documents.
    async fn remove_oldest(&self, kind: MirrorKind) -> Result<(), StoreError> {
        let documents = self.read_documents(kind).await?;
        let bytes = documents.iter().map(|(_, json)| json.len()).sum();
        let find_oldest = compute::run(kind.pack, bytes, move || {
            let to_age = |(name, json): (String, String)| {
                let time = serde_json::from_str::<DocumentTime>(&json);
                (time.map_or(i64::MIN, |time| time.fetched_at), name)
            };
            let mut ages: Vec<_> = documents.into_iter().map(to_age).collect();
            ages.sort();
            ages.truncate(ages.len() / 10 + 1);
            ages
        });
        for (_, name) in find_oldest.await {
            self.store.remove_document(kind.pack, &name).await?;
        }
        Ok(())
    }

    /// Returns the servers of all mirrored lists that match `matches`, each once, ordered by name,
    /// and the time of the oldest list.
    pub(super) async fn search(
        &self,
        matches: impl Fn(&RegistrySummary) -> bool + Send + 'static,
    ) -> Result<(Vec<RegistrySummary>, Option<Timestamp>), StoreError> {
        let documents = self.read_documents(LISTS).await?;
        let registry = self.registry.clone();
        let bytes = documents.iter().map(|(_, json)| json.len()).sum();
        let search = move || {
            let parse = |(_, json): &(String, String)| {
                serde_json::from_str::<Document<ListedServers>>(json).ok()
            };
            let mut lists: Vec<_> = documents.iter().filter_map(parse).collect();
            lists.retain(|list| list.registry == registry);
            lists.sort_by_key(|list| list.fetched_at);
            let oldest = lists
                .first()
                .map(|list| Timestamp::from_millis(list.fetched_at));
            let mut names = BTreeSet::new();
            let mut servers = Vec::new();
            for list in lists.into_iter().rev() {
                for server in list.content.servers {
                    if names.insert(server.name.clone()) && matches(&server) {
                        servers.push(server);
                    }
                }
            }
            servers.sort_by(|a, b| a.name.cmp(&b.name));
            (servers, oldest)
        };
        Ok(compute::run(LISTS.pack, bytes, search).await)
    }

    async fn read_documents(&self, kind: MirrorKind) -> Result<Vec<(String, String)>, StoreError> {
        self.store
            .documents(kind.pack, "", None, kind.max_documents)
            .await
    }

    fn document_name(&self, request: &str) -> String {
        sha256_hex(&format!("{}\n{request}", self.registry))
    }
}
