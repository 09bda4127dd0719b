//! The MCP registry: a public list of MCP servers, which operators search and from which they
//! install servers.
//!
//! Publishers write the entries of a registry, so nothing of an entry is trusted: see the module
//! `entry` for the limits of entries and the module `installation` for what can be installed.

mod entry;
mod installation;
mod mirror;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use pillion_config::{Config, RegistrySection};
use pillion_core::store::{Store, Timestamp};
use pillion_core::{compute, json_values};
use pillion_deadline::timeout;
use pillion_egress::{EgressPolicy, HttpError, HttpRequest, LazyHttpClient};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use url::Url;

pub use entry::{
    OfficialMetadata, PackageTransport, RegistryEntry, RegistryInput, RegistryPackage,
    RegistryRemote, RegistryServer, RegistrySummary, Repository, publisher,
};
pub use installation::{InstallError, InstallField, InstallMethod, InstallPlan};

use crate::error::{INVALID_INPUT, NOT_FOUND, UNAVAILABLE, route_error};
use entry::{ParsedList, is_server_name, is_version};
use mirror::{LISTS, Mirror, Mirrored, SERVERS};

/// Number of servers of one page of a list. A page of the console with the longest valid entries
/// has less than 60 KB.
const SERVERS_PER_PAGE: usize = 16;

/// Maximum number of versions of a server that are shown.
const MAX_VERSIONS: usize = 20;

/// The version under which a registry sends the latest version.
const LATEST: &str = "latest";

/// Maximum size of a response of the registry, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// Timeout of a request to the registry, including the time in the queue and the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent requests to the registry.
const MAX_REQUESTS: usize = 4;

/// Maximum length of a search, in bytes.
const MAX_SEARCH_BYTES: usize = 200;

/// Maximum length of a cursor, in bytes.
const MAX_CURSOR_BYTES: usize = 1024;

/// The name under which the parsing of responses is scheduled.
const COMPUTE_ACCOUNT: &str = "mcp-registry";

route_error! {
    /// Why the registry cannot be searched, or a server of the registry cannot be shown.
    #[derive(Debug, thiserror::Error)]
    pub enum RegistryError {
        /// The configuration disables the registry.
        #[error("The registry is disabled (registry.enabled)")]
        Disabled => UNAVAILABLE,
        /// The search or the cursor is too long, or contains control characters.
        #[error("The search is too long, or contains control characters")]
        InvalidSearch => INVALID_INPUT,
        /// The registry has no such server or version, or the text cannot be the name of one.
        #[error("The registry has no such server")]
        NotFound => NOT_FOUND,
        /// The registry did not send a usable response, and the mirror does not have the server.
        #[error("{0}. The mirror does not have this server, because no user has opened it before")]
        Unreachable(RequestFailure) => UNAVAILABLE,
    }
}

/// Why the registry did not send a usable response.
#[derive(Debug, thiserror::Error)]
pub enum RequestFailure {
    /// The request failed.
    #[error("The registry cannot be reached: {0}")]
    Http(#[from] HttpError),
    /// No permit for a request became free in time.
    #[error("The registry cannot be reached: too many other requests wait for it")]
    Busy,
    /// The response has an error status.
    #[error("The registry responded with HTTP status {}", .0.as_u16())]
    Status(StatusCode),
    /// The response is not valid.
    #[error("The registry sent an invalid response: {0}")]
    Invalid(String),
}

/// A position in a list of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListPosition {
    /// The beginning of the list.
    Start,
    /// After a page of the registry, which has named this cursor.
    Cursor(String),
    /// After this number of servers of the mirror.
    Mirror(usize),
}

/// A page of a list of servers.
#[derive(Debug)]
pub struct RegistryPage {
    /// The servers.
    pub servers: Vec<RegistrySummary>,
    /// The position of the next page, if there is one.
    pub next: Option<ListPosition>,
    /// Number of entries that were skipped because they are invalid.
    pub skipped: usize,
    /// Why the page is from the mirror although it is out of date or incomplete; `None` if the page
    /// is up to date.
    pub failure: Option<String>,
    /// The time at which the registry sent the page, or the oldest part of the page. `None` if the
    /// mirror is empty.
    pub fetched_at: Option<Timestamp>,
}

/// A server of the registry.
#[derive(Debug)]
pub struct RegistryDetails {
    /// The version of the server.
    pub entry: RegistryEntry,
    /// Some of the versions of the server, as the registry orders them.
    pub versions: Vec<String>,
    /// Why the details are from the mirror although they are out of date.
    pub failure: Option<String>,
    /// The time at which the registry sent the details.
    pub fetched_at: Timestamp,
}

/// A page of a list, as mirrored.
#[derive(Serialize, Deserialize)]
struct ListContent {
    servers: Vec<RegistrySummary>,
    next_cursor: Option<String>,
    skipped: usize,
}

/// A server, as mirrored.
#[derive(Serialize, Deserialize)]
struct ServerContent {
    entry: RegistryEntry,
    versions: Vec<String>,
}

/// The registry of the configuration.
pub struct Registry {
    section: RegistrySection,
    /// Which URLs the registry may name for servers.
    url_policy: EgressPolicy,
    client: LazyHttpClient,
    mirror: Mirror,
    permits: Semaphore,
}

impl Registry {
    /// Creates the registry of a configuration. Does no I/O.
    #[must_use]
    pub fn new(config: &Config, store: Arc<dyn Store>) -> Self {
        let section = config.registry.clone();
        let url = &section.url.0;
        Self {
            url_policy: config.servers.egress.for_urls_from(url),
            client: LazyHttpClient::new(EgressPolicy::default()),
            mirror: Mirror::new(store, url.to_string()),
            permits: Semaphore::new(MAX_REQUESTS),
            section,
        }
    }

    /// Returns whether the configuration enables the registry.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.section.enabled
    }

    /// Returns the host of the registry.
    #[must_use]
    pub fn host(&self) -> &str {
        self.section.url.0.host_str().unwrap_or_default()
    }

    /// Returns a page of the servers whose latest versions match a search; of all servers if the
    /// search is empty. If the registry cannot be reached, searches the mirror.
    ///
    /// # Errors
    /// [`RegistryError::Disabled`] if the configuration disables the registry;
    /// [`RegistryError::InvalidSearch`] if the search or the position is too long.
    pub async fn list(
        &self,
        search: &str,
        position: &ListPosition,
    ) -> Result<RegistryPage, RegistryError> {
        if !self.section.enabled {
            return Err(RegistryError::Disabled);
        }
        let cursor: &str = match position {
            ListPosition::Cursor(cursor) => cursor,
            ListPosition::Start | ListPosition::Mirror(_) => "",
        };
        if !is_short_text(search, MAX_SEARCH_BYTES) || !is_short_text(cursor, MAX_CURSOR_BYTES) {
            return Err(RegistryError::InvalidSearch);
        }
        if let ListPosition::Mirror(offset) = position {
            let message = "The registry could not be reached for the first page of this list";
            return Ok(self
                .search_mirror(search, *offset, message.to_owned())
                .await);
        }
        let request = format!("list\n{search}\n{cursor}");
        let mirrored: Option<Mirrored<ListContent>> = self.mirror.find(LISTS, &request).await;
        if let Some(page) = mirrored.as_ref().filter(|page| self.is_fresh(page)) {
            return Ok(RegistryPage::from_mirrored(page, None));
        }
        match Box::pin(self.fetch_list(search, cursor)).await {
            Ok(content) => {
                let fetched_at = Timestamp::now();
                self.mirror.put(LISTS, &request, &content, fetched_at).await;
                let fetched = Mirrored {
                    content,
                    fetched_at,
                };
                Ok(RegistryPage::from_mirrored(&fetched, None))
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot list the servers of the MCP registry");
                Ok(match mirrored {
                    Some(page) => RegistryPage::from_mirrored(&page, Some(error.to_string())),
                    None => self.search_mirror(search, 0, error.to_string()).await,
                })
            }
        }
    }

    /// Returns the servers of the mirror that match a search, after the first `offset`.
    async fn search_mirror(&self, search: &str, offset: usize, failure: String) -> RegistryPage {
        // The permit limits the number of copies of the mirror in memory.
        let _permit = self.permits.acquire().await;
        let words: Vec<_> = search.split_whitespace().map(str::to_lowercase).collect();
        let matches = move |server: &RegistrySummary| {
            let title = server.title.as_deref().unwrap_or_default();
            let text = format!("{} {title} {}", server.name, server.description).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let (servers, fetched_at, failure) = match self.mirror.search(matches).await {
            Ok((servers, fetched_at)) => (servers, fetched_at, failure),
            Err(error) => {
                tracing::warn!(%error, "Cannot read the mirror of the MCP registry");
                let failure = format!("{failure}. The mirror cannot be read: {error}");
                (Vec::new(), None, failure)
            }
        };
        let end = offset.saturating_add(SERVERS_PER_PAGE);
        RegistryPage {
            next: (servers.len() > end).then_some(ListPosition::Mirror(end)),
            servers: servers
                .into_iter()
                .skip(offset)
                .take(SERVERS_PER_PAGE)
                .collect(),
            skipped: 0,
            failure: Some(failure),
            fetched_at,
        }
    }

    /// Returns a server of the registry: the version `version`, or the latest one.
    ///
    /// # Errors
    /// [`RegistryError::Disabled`] if the configuration disables the registry;
    /// [`RegistryError::NotFound`] if the registry has no such server or version;
    /// [`RegistryError::Unreachable`] if neither the registry nor the mirror has sent the server.
    pub async fn find(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<RegistryDetails, RegistryError> {
        if !self.section.enabled {
            return Err(RegistryError::Disabled);
        }
        let requested_version = version.unwrap_or(LATEST);
        if !is_server_name(name) || !is_version(requested_version) {
            return Err(RegistryError::NotFound);
        }
        let request = server_request(name, requested_version);
        let details = |server: Mirrored<ServerContent>, failure| RegistryDetails {
            entry: server.content.entry,
            versions: server.content.versions,
            failure,
            fetched_at: server.fetched_at,
        };
        let outdated = match self.mirror.find(SERVERS, &request).await {
            Some(server) if self.is_fresh(&server) => return Ok(details(server, None)),
            mirrored => mirrored,
        };
        match Box::pin(self.fetch_server(name, requested_version)).await {
            Ok(content) => {
                let fetched_at = Timestamp::now();
                self.mirror
                    .put(SERVERS, &request, &content, fetched_at)
                    .await;
                // The form that installs this version requests the version by its number.
                let fetched_version = &content.entry.server.version;
                if fetched_version != requested_version {
                    let numbered_request = server_request(name, fetched_version);
                    self.mirror
                        .put(SERVERS, &numbered_request, &content, fetched_at)
                        .await;
                }
                Ok(details(
                    Mirrored {
                        content,
                        fetched_at,
                    },
                    None,
                ))
            }
            Err(RequestFailure::Status(StatusCode::NOT_FOUND)) => Err(RegistryError::NotFound),
            Err(error) => match outdated {
                Some(server) => Ok(details(server, Some(error.to_string()))),
                None => Err(RegistryError::Unreachable(error)),
            },
        }
    }

    /// Plans the installation of a server's remote or package.
    ///
    /// # Errors
    /// [`InstallError::Deleted`] if the registry has deleted the version; otherwise the errors of
    /// [`InstallPlan::new`].
    pub fn plan(
        &self,
        entry: &RegistryEntry,
        method: InstallMethod,
    ) -> Result<InstallPlan, InstallError> {
        if entry.status() == "deleted" {
            return Err(InstallError::Deleted);
        }
        InstallPlan::new(&entry.server, method, &self.section, &self.url_policy)
    }

    /// Returns which URLs the registry may name for servers.
    pub(crate) fn url_policy(&self) -> &EgressPolicy {
        &self.url_policy
    }

    fn is_fresh<T>(&self, mirrored: &Mirrored<T>) -> bool {
        let now = Timestamp::now();
        mirrored.fetched_at <= now && mirrored.fetched_at.plus(self.section.mirror_ttl) > now
    }

    async fn fetch_list(&self, search: &str, cursor: &str) -> Result<ListContent, RequestFailure> {
        let mut url = self.endpoint(&[]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("version", "latest");
            query.append_pair("limit", &SERVERS_PER_PAGE.to_string());
            for (name, value) in [("search", search), ("cursor", cursor)] {
                if !value.is_empty() {
                    query.append_pair(name, value);
                }
            }
        }
        let list = self.fetch_entries(url, SERVERS_PER_PAGE).await?;
        let is_usable = |next: &String| !next.is_empty() && is_short_text(next, MAX_CURSOR_BYTES);
        Ok(ListContent {
            servers: list.entries.iter().map(RegistryEntry::to_summary).collect(),
            next_cursor: list.next_cursor.filter(is_usable),
            skipped: list.skipped,
        })
    }

    async fn fetch_server(
        &self,
        name: &str,
        version: &str,
    ) -> Result<ServerContent, RequestFailure> {
        let entry_url = self.endpoint(&[name, "versions", version]);
        let versions_url = self.endpoint(&[name, "versions"]);
        let (entry_outcome, versions_outcome) = tokio::join!(
            self.fetch(entry_url),
            self.fetch_entries(versions_url, MAX_VERSIONS)
        );
        let body = entry_outcome?;
        let parsed_entry = RegistryEntry::parse(std::str::from_utf8(&body).unwrap_or_default());
        let is_requested = |entry: &RegistryEntry| {
            let server = &entry.server;
            server.name == name && (version == LATEST || server.version == version)
        };
        let entry = parsed_entry.filter(is_requested).ok_or_else(|| {
            RequestFailure::Invalid("the entry of the server is not valid".to_owned())
        })?;
        let versions = match versions_outcome {
            Ok(list) => {
                let entries = list.entries.into_iter();
                let same_server = entries.filter(|entry| entry.server.name == name);
                same_server.map(|entry| entry.server.version).collect()
            }
            Err(error) => {
                tracing::debug!(%error, "Cannot list the versions of a server of the MCP registry");
                Vec::new()
            }
        };
        Ok(ServerContent { entry, versions })
    }

    /// Fetches a list. Uses at most `max` entries.
    async fn fetch_entries(&self, url: Url, max: usize) -> Result<ParsedList, RequestFailure> {
        let body = self.fetch(url).await?;
        let size = body.len();
        let parse = move || {
            json_values::check(&body).map_err(|error| format!("it has {error}"))?;
            ParsedList::parse(&body, max).map_err(|error| error.to_string())
        };
        let outcome = compute::run(COMPUTE_ACCOUNT, size, parse).await;
        outcome.map_err(RequestFailure::Invalid)
    }

    /// Fetches a response with a success status.
    async fn fetch(&self, url: Url) -> Result<Vec<u8>, RequestFailure> {
        let started_at = Instant::now();
        let Ok(Ok(_permit)) = timeout(REQUEST_TIMEOUT, self.permits.acquire()).await else {
            return Err(RequestFailure::Busy);
        };
        let json_media_type = HeaderValue::from_static("application/json");
        let request = HttpRequest {
            headers: HeaderMap::from_iter([(ACCEPT, json_media_type)]),
            ..HttpRequest::get(url)
        };
        let client = self.client.get()?;
        let remaining_time = REQUEST_TIMEOUT.saturating_sub(started_at.elapsed());
        let response = client.send(request, remaining_time).await?;
        if !response.status().is_success() {
            return Err(RequestFailure::Status(response.status()));
        }
        Ok(response.bytes(MAX_RESPONSE_BYTES).await?.into())
    }

    /// Returns the URL of the servers, or of a path below them.
    fn endpoint(&self, segments: &[&str]) -> Url {
        let mut url = self.section.url.0.clone();
        // A URL with a host has a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty()
                .extend(["v0.1", "servers"])
                .extend(segments);
        }
        url
    }
}

impl RegistryPage {
    fn from_mirrored(mirrored: &Mirrored<ListContent>, failure: Option<String>) -> Self {
        let content = &mirrored.content;
        Self {
            servers: content.servers.clone(),
            next: content.next_cursor.clone().map(ListPosition::Cursor),
            skipped: content.skipped,
            failure,
            fetched_at: Some(mirrored.fetched_at),
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("section", &self.section)
            .finish_non_exhaustive()
    }
}

/// Returns the text that identifies the request for a version of a server.
fn server_request(name: &str, version: &str) -> String {
    format!("server\n{name}\n{version}")
}

/// Returns whether a text has at most `max_bytes` bytes and no control characters.
fn is_short_text(text: &str, max_bytes: usize) -> bool {
    text.len() <= max_bytes && !text.chars().any(char::is_control)
}
