//! Lists the resources, resource templates and prompts of the upstream servers and of packs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use parking_lot::RwLock;
use pillion_core::compute;
use pillion_mcp_client::{EntryKind, McpError, RpcError};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::Caller;
use super::list_kind::Kind;
use super::local;
use super::resource_not_found::resource_not_found_for;
use super::template;
use pillion_gateway::Gateway;
use pillion_gateway::calling_client::link::ClientLink;
use pillion_gateway::calling_client::message::{
    INTERNAL_ERROR, Members, Request, check_identifier, invalid_params, raw, raw_list, unknown,
};
use pillion_gateway::upstream::{OfferedEntry, Server, Upstreams, VisibleServers};

/// One entry of a server's list.
#[derive(Debug, Clone)]
struct CatalogEntry {
    /// The name, URI or URI template under which clients know the entry.
    id: String,
    /// The name, URI or URI template on the server.
    remote_id: String,
    server: Arc<Server>,
    /// The entry as clients receive it.
    listed: Arc<RawValue>,
}

/// Time for which a list counts as fresh when a missing entry is looked up.
const FRESH_LIST_TTL: Duration = Duration::from_secs(1);

/// The latest lists of the upstream servers, for routing requests.
#[derive(Debug, Default)]
pub struct Catalog {
    lists: RwLock<HashMap<Kind, RequestedList>>,
    /// Locked while the list of a kind is requested.
    refreshing: [tokio::sync::Mutex<()>; 3],
}

/// A list, and when it was requested.
#[derive(Debug)]
struct RequestedList {
    since: Instant,
    entries: Arc<Vec<CatalogEntry>>,
    /// Whether the servers are the same as when the list was requested. If not, the list only
    /// provides the previous entries of servers that fail.
    is_current: bool,
}

impl Catalog {
    /// Marks all lists as outdated, because the servers have changed. A server that fails when it
    /// is listed again keeps its previous entries, so that no other server takes their names and
    /// URIs.
    pub(super) fn forget(&self) {
        let mut lists = self.lists.write();
        lists.values_mut().for_each(|list| list.is_current = false);
    }

    /// Returns the entries of one kind, of the packs and reachable servers that the caller may see.
    /// A resource URI of a pack never belongs to a server. Of several entries with one id, only the
    /// first is listed.
    pub(super) async fn list(
        &self,
        caller: &Caller,
        kind: Kind,
    ) -> Result<Box<RawValue>, RpcError> {
        let pack_entries = local::list(caller, kind).await;
        let limit = caller.mcp.gateway.upstreams().list_timeout();
        let refresh = pillion_deadline::timeout(limit, self.refresh(&caller.mcp.gateway, kind));
        let (visible_servers, entries) = join(visible_servers(caller), refresh).await;
        let entries = entries.unwrap_or_else(|_| self.current_list(kind).unwrap_or_default());
        let bytes = entries.iter().map(|entry| entry.listed.get().len()).sum();
        let packs = caller.mcp.gateway.packs().clone();
        compute::run(&compute_account(caller), bytes, move || {
            let belongs_to_pack = |entry: &CatalogEntry| match kind {
                Kind::Prompts => false,
                Kind::Resources | Kind::Templates => packs.provider_of(&entry.id).is_some(),
            };
            let visible = entries
                .iter()
                .filter(|entry| visible_servers.has(&entry.server) && !belongs_to_pack(entry));
            let server_entries = without_duplicates(visible).map(|entry| &*entry.listed);
            let list: Vec<_> = pack_entries
                .iter()
                .map(|entry| &**entry)
                .chain(server_entries)
                .collect();
            raw_list(kind.key(), &list)
        })
        .await
    }

    /// Requests the list of every server. A server that fails keeps its previous entries. Callers
    /// that arrive during a request share the next request.
    async fn refresh(&self, gateway: &Gateway, kind: Kind) -> Arc<Vec<CatalogEntry>> {
        let arrived = Instant::now();
        let _refreshing = self.refreshing[kind as usize].lock().await;
        if let Some(list) = self.list_since(kind, Some(arrived)) {
            return list;
        }
        let since = Instant::now();
        let before = self.latest(kind);
        let upstreams = gateway.upstreams();
        let limit = upstreams.discovery_timeout();
        let servers = upstreams
            .servers()
            .iter()
            .filter(|server| server.lists_for_all());
        let lists = servers.map(async |server| {
            let client = &server.shared.client;
            let listing = async {
                match kind {
                    Kind::Prompts => client.list_prompts().await,
                    Kind::Resources => client.list_resources().await,
                    Kind::Templates => client.list_resource_templates().await,
                }
            };
            let list = match pillion_deadline::timeout(limit, listing).await {
                Ok(Ok(list)) => list,
                Ok(Err(error)) => {
                    tracing::debug!(
                        server.label = server.label, %error,
                        "Cannot list the {} of an MCP server", kind.key()
                    );
                    return entries_from(&before, server);
                }
                Err(_) => return entries_from(&before, server),
            };
            let offered = server.entries.check_list(kind.entry_kind(), list).await;
            offered
                .into_iter()
                .map(|offered| CatalogEntry::new(server, offered))
                .collect()
        });
        let mut entries = join_all(lists).await.concat();
        if kind == Kind::Prompts {
            let bytes = entries.iter().map(|entry| entry.id.len()).sum();
            let thread_gateway = gateway.clone();
            let unique = compute::run("names of prompts", bytes, move || {
                make_names_unique(&mut entries, thread_gateway.upstreams());
                entries
            });
            entries = unique.await;
        }
        let shared = Arc::new(entries);
        let list = RequestedList {
            since,
            entries: Arc::clone(&shared),
            is_current: true,
        };
        self.lists.write().insert(kind, list);
        shared
    }

    /// Returns the entries of the latest list, even if the servers have changed since.
    fn latest(&self, kind: Kind) -> Arc<Vec<CatalogEntry>> {
        let lists = self.lists.read();
        lists
            .get(&kind)
            .map(|list| Arc::clone(&list.entries))
            .unwrap_or_default()
    }

    /// Returns the latest list of the current servers, if there is one.
    fn current_list(&self, kind: Kind) -> Option<Arc<Vec<CatalogEntry>>> {
        self.list_since(kind, None)
    }

    /// Returns the list of the current servers, if it was requested after `since`.
    fn list_since(&self, kind: Kind, since: Option<Instant>) -> Option<Arc<Vec<CatalogEntry>>> {
        let lists = self.lists.read();
        let list = lists.get(&kind).filter(|list| list.is_current)?;
        let is_late_enough = since.is_none_or(|since| list.since >= since);
        is_late_enough.then(|| Arc::clone(&list.entries))
    }

    /// Returns whether the list of this kind was requested within the last second.
    fn has_fresh_list(&self, kind: Kind) -> bool {
        let lists = self.lists.read();
        lists
            .get(&kind)
            .is_some_and(|list| list.is_current && list.since.elapsed() < FRESH_LIST_TTL)
    }

    /// Returns the first visible matching entry of the latest list, or else of a new list.
    async fn find(
        &self,
        gateway: &Gateway,
        visible_servers: &VisibleServers,
        kind: Kind,
        matches: impl Fn(&CatalogEntry) -> bool,
    ) -> Option<CatalogEntry> {
        let known = self.current_list(kind);
        match known.and_then(|known| first(&known, visible_servers, &matches)) {
            Some(found) => Some(found),
            None => first(
                &self.refresh(gateway, kind).await,
                visible_servers,
                &matches,
            ),
        }
    }

    /// Handles `prompts/get`: forwards the request to the server of the prompt.
    pub(super) async fn get_prompt(
        &self,
        caller: &Caller,
        request: &Request,
        link: &Arc<ClientLink>,
    ) -> Result<Box<RawValue>, RpcError> {
        let name = request.text("name")?;
        let prompt = self.prompt(caller, &name).await?;
        let remote_name = ("name", raw(&prompt.remote_id)?);
        forward_request(&prompt.server, caller, request, [remote_name], link).await
    }

    async fn prompt(&self, caller: &Caller, name: &str) -> Result<CatalogEntry, RpcError> {
        let visible_servers = visible_servers(caller).await;
        let matches = |entry: &CatalogEntry| entry.id == name;
        let found = self
            .find(
                &caller.mcp.gateway,
                &visible_servers,
                Kind::Prompts,
                matches,
            )
            .await;
        found.ok_or_else(|| unknown("prompt", name))
    }

    /// Handles `resources/read`: forwards the request to the server of the resource.
    pub(super) async fn read(
        &self,
        caller: &Caller,
        request: &Request,
        link: &Arc<ClientLink>,
    ) -> Result<Box<RawValue>, RpcError> {
        let uri = request.text("uri")?;
        let owner = self.owner(caller, &uri).await;
        let server = owner.ok_or_else(|| resource_not_found_for(link, &uri))?;
        forward_request(&server, caller, request, [], link).await
    }

    /// Returns the server that lists a resource, or else the server with a matching resource
    /// template. Lists take precedence, because a template of any server may match the URI of
    /// another server's resource.
    pub(super) async fn owner(&self, caller: &Caller, uri: &str) -> Option<Arc<Server>> {
        let visible_servers = visible_servers(caller).await;
        let matches = |entry: &CatalogEntry| entry.id == uri;
        let known = self.current_list(Kind::Resources);
        let is_new = known.is_none();
        let listed = match known {
            Some(known) => known,
            None => self.refresh(&caller.mcp.gateway, Kind::Resources).await,
        };
        if let Some(found) = first(&listed, &visible_servers, matches) {
            return Some(found.server);
        }
        let by_current_template = match self.current_list(Kind::Templates) {
            Some(known) => with_template(&known, &visible_servers, caller, uri).await,
            None => None,
        };
        let by_template = match by_current_template {
            Some(found) => Some(found),
            None => {
                let listed = self.refresh(&caller.mcp.gateway, Kind::Templates).await;
                with_template(&listed, &visible_servers, caller, uri).await
            }
        };
        // Another server may list the resource by now; its list takes precedence over a template.
        let is_sure = by_template.is_some()
            && (caller.mcp.gateway.upstreams().servers().len() == 1
                || self.has_fresh_list(Kind::Resources));
        let listed = if is_new || is_sure {
            None
        } else {
            first(
                &self.refresh(&caller.mcp.gateway, Kind::Resources).await,
                &visible_servers,
                matches,
            )
        };
        listed.or(by_template).map(|found| found.server)
    }

    /// Handles `completion/complete`: forwards the request to the server of the prompt or template.
    pub(super) async fn complete(
        &self,
        caller: &Caller,
        request: &Request,
        link: &Arc<ClientLink>,
    ) -> Result<Box<RawValue>, RpcError> {
        #[derive(Deserialize)]
        struct Reference {
            #[serde(rename = "type")]
            kind: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            uri: String,
        }
        let wrong = || invalid_params("'ref' must be a reference to a prompt or a resource");
        let written = request.params.get("ref").ok_or_else(wrong)?;
        let reference: Reference = serde_json::from_str(written.get()).map_err(|_| wrong())?;
        check_identifier("ref", &reference.name)?;
        check_identifier("ref", &reference.uri)?;
        match reference.kind.as_str() {
            "ref/prompt" => {
                let prompt = self.prompt(caller, &reference.name).await?;
                let mut written: Members =
                    serde_json::from_str(written.get()).map_err(|_| wrong())?;
                written.insert("name".to_owned(), raw(&prompt.remote_id)?);
                forward_request(
                    &prompt.server,
                    caller,
                    request,
                    [("ref", raw(&written)?)],
                    link,
                )
                .await
            }
            "ref/resource" => {
                let uri = &reference.uri;
                if let Some(result) = local::complete(caller, uri) {
                    return result;
                }
                let visible_servers = visible_servers(caller).await;
                let matches = |entry: &CatalogEntry| entry.id == *uri;
                let owner = match self
                    .find(
                        &caller.mcp.gateway,
                        &visible_servers,
                        Kind::Templates,
                        matches,
                    )
                    .await
                {
                    Some(template) => Some(template.server),
                    None => self.owner(caller, uri).await,
                };
                let server = owner.ok_or_else(|| resource_not_found_for(link, uri))?;
                forward_request(&server, caller, request, [], link).await
            }
            _ => Err(wrong()),
        }
    }
}

fn entries_from(entries: &[CatalogEntry], server: &Arc<Server>) -> Vec<CatalogEntry> {
    entries
        .iter()
        .filter(|entry| Arc::ptr_eq(&entry.server, server))
        .cloned()
        .collect()
}

impl CatalogEntry {
    fn new(server: &Arc<Server>, OfferedEntry { id, entry }: OfferedEntry) -> Self {
        Self {
            remote_id: id.clone(),
            id,
            server: Arc::clone(server),
            listed: entry.into(),
        }
    }
}

/// Returns the account to which a caller's computations over lists are charged.
pub(super) fn compute_account(caller: &Caller) -> String {
    format!("list of {:?}", caller.context.principal)
}

/// Returns the entries without those that have the id of an earlier entry.
fn without_duplicates<'a>(
    entries: impl Iterator<Item = &'a CatalogEntry>,
) -> impl Iterator<Item = &'a CatalogEntry> {
    let mut seen_ids = HashSet::new();
    entries.filter(move |entry| {
        let is_first = seen_ids.insert(&entry.id);
        if !is_first {
            let (id, label) = (&entry.id, &entry.server.label);
            tracing::debug!(
                server.label = label,
                id,
                "Skipped a prompt or resource: another MCP server has one with the same ID"
            );
        }
        is_first
    })
}

/// Returns the first visible resource template that may match a URI. Many templates are compared on
/// another thread.
async fn with_template(
    entries: &Arc<Vec<CatalogEntry>>,
    visible_servers: &VisibleServers,
    caller: &Caller,
    uri: &str,
) -> Option<CatalogEntry> {
    let is_candidate = |entry: &CatalogEntry| {
        template::starts_like(&entry.id, uri) && visible_servers.has(&entry.server)
    };
    let candidates: Vec<usize> = (0..entries.len())
        .filter(|&index| is_candidate(&entries[index]))
        .collect();
    let bytes = candidates
        .iter()
        .map(|&index| entries[index].id.len() + uri.len())
        .sum();
    let (shared_entries, uri) = (Arc::clone(entries), uri.to_owned());
    let found = compute::run(&compute_account(caller), bytes, move || {
        candidates
            .into_iter()
            .find(|&index| template::matches(&shared_entries[index].id, &uri))
    })
    .await;
    found.map(|index| entries[index].clone())
}

/// Returns the servers that the caller may see.
async fn visible_servers(caller: &Caller) -> VisibleServers {
    let upstreams = caller.mcp.gateway.upstreams();
    upstreams
        .visible_servers(&caller.context, &caller.visibility)
        .await
}

fn first(
    entries: &[CatalogEntry],
    visible_servers: &VisibleServers,
    matches: impl Fn(&CatalogEntry) -> bool,
) -> Option<CatalogEntry> {
    let mut entries = entries.iter();
    let found = entries.find(|entry| visible_servers.has(&entry.server) && matches(entry));
    found.cloned()
}

/// Gives each prompt a unique name. The server's prefix is added if the configuration sets one, if
/// several servers have a prompt of this name, if the name equals a prefixed name, or if another
/// server owns the name. A prompt whose prefixed name another server owns is dropped. URIs cannot
/// be renamed: of several resources with one URI, the first server's is used.
fn make_names_unique(prompts: &mut Vec<CatalogEntry>, upstreams: &Upstreams) {
    let prefixed =
        |entry: &CatalogEntry| format!("{}{}", entry.server.tool_prefix(), entry.remote_id);
    let reserved: HashSet<String> = prompts.iter().map(prefixed).collect();
    let mut name_counts: HashMap<String, usize> = HashMap::new();
    for entry in &*prompts {
        *name_counts.entry(entry.remote_id.clone()).or_default() += 1;
    }
    prompts.retain_mut(|entry| {
        let (server, remote_name) = (&entry.server, &entry.remote_id);
        let is_free = name_counts[remote_name] == 1
            && !reserved.contains(remote_name)
            && upstreams.owner_conflict(server, remote_name).is_none();
        if server.configured_prefix.is_none() && is_free {
            return true;
        }
        let name = prefixed(entry);
        if let Some(conflict) = upstreams.owner_conflict(server, &name) {
            server
                .entries
                .report_name_conflict(EntryKind::Prompt, remote_name, &conflict);
            return false;
        }
        if let Some(listed) = with_name(&entry.listed, &name) {
            entry.listed = listed.into();
        }
        entry.id = name;
        true
    });
}

/// Returns the prompt with the name `name`.
fn with_name(prompt: &RawValue, name: &str) -> Option<Box<RawValue>> {
    let mut members: Members = serde_json::from_str(prompt.get()).ok()?;
    members.insert("name".to_owned(), to_raw_value(name).ok()?);
    to_raw_value(&members).ok()
}

/// Forwards a request to a server, with the members in `instead` replaced in its parameters.
async fn forward_request<const N: usize>(
    server: &Server,
    caller: &Caller,
    request: &Request,
    instead: [(&'static str, Box<RawValue>); N],
    link: &Arc<ClientLink>,
) -> Result<Box<RawValue>, RpcError> {
    let connection = server
        .connections
        .for_caller(&caller.context)
        .await
        .map_err(|failure| RpcError::new(INTERNAL_ERROR, failure.message))?;
    let (span, trace) = server.span(&request.method, None, link.trace());
    let params = link.params_in(trace.as_ref(), instead);
    let options = link.options();
    let forwarding = connection
        .client
        .request_with(&request.method, &params, &options);
    let outcome = connection
        .during(Some(Arc::clone(link)), forwarding)
        .await
        .map_err(|error| rpc_error(server, &error));
    if let Some(span) = span {
        span.end_request_span(&outcome);
    }
    outcome
}

/// Returns a server's JSON-RPC error unchanged, or converts another error of the client to one.
pub(super) fn rpc_error(server: &Server, error: &McpError) -> RpcError {
    match error.rpc_error() {
        Some(error) => error.clone(),
        None => RpcError::new(
            INTERNAL_ERROR,
            format!("MCP server `{}`: {error}", server.label),
        ),
    }
}
