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
use super::list_kind::ListKind;
use super::local;
use super::resource_not_found::resource_not_found_for;
use super::template;
use pillion_gateway::Gateway;
use pillion_gateway::calling_client::link::ClientLink;
use pillion_gateway::calling_client::message::{
    INTERNAL_ERROR, Members, Request, check_identifier, invalid_params, raw, raw_list,
    unknown_item_error,
};
use pillion_gateway::upstream::{OfferedEntry, Server, Upstreams, VisibleServers};

/// One entry of a server's list.
#[derive(Debug, Clone)]
struct CatalogEntry {
    /// The name, URI or URI template under which clients know the entry.
    id: String,
    /// The name, URI or URI template that the entry has on its server.
    remote_id: String,
    server: Arc<Server>,
    /// The entry as clients receive it.
    json: Arc<RawValue>,
}

/// Maximum age of a list that counts as fresh. If a fresh list does not contain an entry, the list
/// is not requested again.
const FRESH_LIST_TTL: Duration = Duration::from_secs(1);

/// The latest lists of the upstream servers, for routing requests.
#[derive(Debug, Default)]
pub struct Catalog {
    lists: RwLock<HashMap<ListKind, RequestedList>>,
    /// One lock per kind, which is held while the lists of this kind are requested.
    refresh_locks: [tokio::sync::Mutex<()>; 3],
}

/// The list of one kind, and the time at which the list was requested.
#[derive(Debug)]
struct RequestedList {
    requested_at: Instant,
    entries: Arc<Vec<CatalogEntry>>,
    /// Whether the list was requested from the current servers. Otherwise, the list only supplies
    /// the previous entries of servers that fail to list their entries again.
    is_current: bool,
}

impl Catalog {
    /// Marks all lists as outdated after a change of the servers. A server whose lists cannot be
    /// requested again keeps its previous entries, so that no other server can take their names and
    /// URIs.
    pub(super) fn mark_outdated(&self) {
        let mut lists = self.lists.write();
        lists.values_mut().for_each(|list| list.is_current = false);
    }

    /// Returns the entries of one kind from the packs and reachable servers that the caller may
    /// see. A resource URI of a pack never belongs to a server. Of several entries with one ID,
    /// only the first is listed.
    pub(super) async fn list(
        &self,
        caller: &Caller,
        kind: ListKind,
    ) -> Result<Box<RawValue>, RpcError> {
        let pack_entries = local::list(caller, kind).await;
        let timeout = caller.mcp.gateway.upstreams().list_timeout();
        let refresh_future =
            pillion_deadline::timeout(timeout, self.refresh(&caller.mcp.gateway, kind));
        let (visible_servers, entries) = join(find_visible_servers(caller), refresh_future).await;
        let entries = entries.unwrap_or_else(|_| self.current_list(kind).unwrap_or_default());
        let total_bytes = entries.iter().map(|entry| entry.json.get().len()).sum();
        let packs = caller.mcp.gateway.packs().clone();
        compute::run(&compute_account(caller), total_bytes, move || {
            let belongs_to_pack = |entry: &CatalogEntry| match kind {
                ListKind::Prompts => false,
                ListKind::Resources | ListKind::Templates => packs.provider_of(&entry.id).is_some(),
            };
            let visible_entries = entries
                .iter()
                .filter(|entry| visible_servers.has(&entry.server) && !belongs_to_pack(entry));
            let server_entries = skip_duplicates(visible_entries).map(|entry| &*entry.json);
            let local_entries = pack_entries.iter().map(|entry| &**entry);
            let list: Vec<_> = local_entries.chain(server_entries).collect();
            raw_list(kind.key(), &list)
        })
        .await
    }

    /// Requests the list of every server. A server that fails keeps its previous entries. Callers
    /// that arrive during a request share the next request.
    async fn refresh(&self, gateway: &Gateway, kind: ListKind) -> Arc<Vec<CatalogEntry>> {
        let arrived_at = Instant::now();
        let _refresh_guard = self.refresh_locks[kind as usize].lock().await;
        if let Some(list) = self.list_since(kind, Some(arrived_at)) {
            return list;
        }
        let requested_at = Instant::now();
        let previous_entries = self.latest_entries(kind);
        let upstreams = gateway.upstreams();
        let timeout = upstreams.discovery_timeout();
        let servers = upstreams
            .servers()
            .iter()
            .filter(|server| server.lists_for_all_users());
        let lists = servers.map(async |server| {
            let client = &server.shared_connection.client;
            let list_request = async {
                match kind {
                    ListKind::Prompts => client.list_prompts().await,
                    ListKind::Resources => client.list_resources().await,
                    ListKind::Templates => client.list_resource_templates().await,
                }
            };
            let list = match pillion_deadline::timeout(timeout, list_request).await {
                Ok(Ok(list)) => list,
                Ok(Err(error)) => {
                    tracing::debug!(
                        server.label = server.label, %error,
                        "Cannot list the {} of an MCP server", kind.key()
                    );
                    return filter_by_server(&previous_entries, server);
                }
                Err(_) => return filter_by_server(&previous_entries, server),
            };
            let offered_entries = server.entries.check_list(kind.entry_kind(), list).await;
            offered_entries
                .into_iter()
                .map(|offered_entry| CatalogEntry::new(server, offered_entry))
                .collect()
        });
        let mut entries = join_all(lists).await.concat();
        if kind == ListKind::Prompts {
            let total_bytes = entries.iter().map(|entry| entry.id.len()).sum();
            let thread_gateway = gateway.clone();
            let rename_task = compute::run("names of prompts", total_bytes, move || {
                make_names_unique(&mut entries, thread_gateway.upstreams());
                entries
            });
            entries = rename_task.await;
        }
        let shared_entries = Arc::new(entries);
        let list = RequestedList {
            requested_at,
            entries: Arc::clone(&shared_entries),
            is_current: true,
        };
        self.lists.write().insert(kind, list);
        shared_entries
    }

    /// Returns the entries of the latest list, even if the servers have changed since.
    fn latest_entries(&self, kind: ListKind) -> Arc<Vec<CatalogEntry>> {
        let lists = self.lists.read();
        let list = lists.get(&kind);
        list.map_or_else(Arc::default, |list| Arc::clone(&list.entries))
    }

    /// Returns the latest list of the current servers, if there is one.
    fn current_list(&self, kind: ListKind) -> Option<Arc<Vec<CatalogEntry>>> {
        self.list_since(kind, None)
    }

    /// Returns the list of the current servers, if the list was requested after `since`, or at any
    /// time if `since` is `None`.
    fn list_since(&self, kind: ListKind, since: Option<Instant>) -> Option<Arc<Vec<CatalogEntry>>> {
        let lists = self.lists.read();
        let list = lists.get(&kind).filter(|list| list.is_current)?;
        let is_recent_enough = since.is_none_or(|since| list.requested_at >= since);
        is_recent_enough.then(|| Arc::clone(&list.entries))
    }

    /// Returns whether the list of this kind was requested within the last second.
    fn has_fresh_list(&self, kind: ListKind) -> bool {
        let lists = self.lists.read();
        let list = lists.get(&kind);
        list.is_some_and(|list| list.is_current && list.requested_at.elapsed() < FRESH_LIST_TTL)
    }

    /// Returns the first entry that matches and that the caller may see, from the latest list or
    /// else from a newly requested list.
    async fn find(
        &self,
        gateway: &Gateway,
        visible_servers: &VisibleServers,
        kind: ListKind,
        is_match: impl Fn(&CatalogEntry) -> bool,
    ) -> Option<CatalogEntry> {
        let find = |list: Arc<Vec<CatalogEntry>>| find_first(&list, visible_servers, &is_match);
        match self.current_list(kind).and_then(find) {
            Some(entry) => Some(entry),
            None => find(self.refresh(gateway, kind).await),
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
        let prompt = self.find_prompt(caller, &name).await?;
        let name_replacement = ("name", raw(&prompt.remote_id)?);
        forward_request(&prompt.server, caller, request, [name_replacement], link).await
    }

    async fn find_prompt(&self, caller: &Caller, name: &str) -> Result<CatalogEntry, RpcError> {
        let visible_servers = find_visible_servers(caller).await;
        let is_match = |entry: &CatalogEntry| entry.id == name;
        let gateway = &caller.mcp.gateway;
        let find = self.find(gateway, &visible_servers, ListKind::Prompts, is_match);
        find.await.ok_or_else(|| unknown_item_error("prompt", name))
    }

    /// Handles `resources/read`: forwards the request to the server of the resource.
    pub(super) async fn read_resource(
        &self,
        caller: &Caller,
        request: &Request,
        link: &Arc<ClientLink>,
    ) -> Result<Box<RawValue>, RpcError> {
        let uri = request.text("uri")?;
        let owner = self.find_owner(caller, &uri).await;
        let server = owner.ok_or_else(|| resource_not_found_for(link, &uri))?;
        forward_request(&server, caller, request, [], link).await
    }

    /// Returns the server that lists a resource, or else the server with a matching resource
    /// template. Lists take precedence, because a template of any server may match the URI of
    /// another server's resource.
    pub(super) async fn find_owner(&self, caller: &Caller, uri: &str) -> Option<Arc<Server>> {
        let visible_servers = find_visible_servers(caller).await;
        let is_match = |entry: &CatalogEntry| entry.id == uri;
        let current_list = self.current_list(ListKind::Resources);
        let is_new_list = current_list.is_none();
        let resources = match current_list {
            Some(current_list) => current_list,
            None => self.refresh(&caller.mcp.gateway, ListKind::Resources).await,
        };
        if let Some(entry) = find_first(&resources, &visible_servers, is_match) {
            return Some(entry.server);
        }
        let current_template_entry = match self.current_list(ListKind::Templates) {
            Some(current_list) => {
                find_matching_template(&current_list, &visible_servers, caller, uri).await
            }
            None => None,
        };
        let template_entry = match current_template_entry {
            Some(entry) => Some(entry),
            None => {
                let templates = self.refresh(&caller.mcp.gateway, ListKind::Templates).await;
                find_matching_template(&templates, &visible_servers, caller, uri).await
            }
        };
        // Checks the resource lists again before the templates, because another server may list the
        // resource by now, and its list takes precedence over a template.
        let is_template_certain = template_entry.is_some()
            && (caller.mcp.gateway.upstreams().servers().len() == 1
                || self.has_fresh_list(ListKind::Resources));
        let newly_listed_entry = if is_new_list || is_template_certain {
            None
        } else {
            let new_list = self.refresh(&caller.mcp.gateway, ListKind::Resources).await;
            find_first(&new_list, &visible_servers, is_match)
        };
        let entry = newly_listed_entry.or(template_entry)?;
        Some(entry.server)
    }

    /// Handles `completion/complete`: forwards the request to the server of the prompt or template.
    pub(super) async fn complete(
        &self,
        caller: &Caller,
        request: &Request,
        link: &Arc<ClientLink>,
    ) -> Result<Box<RawValue>, RpcError> {
        #[derive(Deserialize)]
        struct CompletionReference {
            #[serde(rename = "type")]
            kind: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            uri: String,
        }
        let invalid_ref = || invalid_params("'ref' must be a reference to a prompt or a resource");
        let ref_json = request.params.get("ref").ok_or_else(invalid_ref)?;
        let reference: CompletionReference =
            serde_json::from_str(ref_json.get()).map_err(|_| invalid_ref())?;
        check_identifier("ref", &reference.name)?;
        check_identifier("ref", &reference.uri)?;
        match reference.kind.as_str() {
            "ref/prompt" => {
                let prompt = self.find_prompt(caller, &reference.name).await?;
                let mut members: Members =
                    serde_json::from_str(ref_json.get()).map_err(|_| invalid_ref())?;
                members.insert("name".to_owned(), raw(&prompt.remote_id)?);
                let replacement = ("ref", raw(&members)?);
                forward_request(&prompt.server, caller, request, [replacement], link).await
            }
            "ref/resource" => {
                let uri = &reference.uri;
                if let Some(result) = local::complete(caller, uri) {
                    return result;
                }
                let visible_servers = find_visible_servers(caller).await;
                let is_match = |entry: &CatalogEntry| entry.id == *uri;
                let gateway = &caller.mcp.gateway;
                let find = self.find(gateway, &visible_servers, ListKind::Templates, is_match);
                let owner = match find.await {
                    Some(template) => Some(template.server),
                    None => self.find_owner(caller, uri).await,
                };
                let server = owner.ok_or_else(|| resource_not_found_for(link, uri))?;
                forward_request(&server, caller, request, [], link).await
            }
            _ => Err(invalid_ref()),
        }
    }
}

fn filter_by_server(entries: &[CatalogEntry], server: &Arc<Server>) -> Vec<CatalogEntry> {
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
            json: entry.into(),
        }
    }
}

/// Returns the name under which the CPU time for processing a caller's lists is counted.
pub(super) fn compute_account(caller: &Caller) -> String {
    format!("list of {:?}", caller.context.principal)
}

/// Returns the entries without those that have the ID of an earlier entry.
fn skip_duplicates<'a>(
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
async fn find_matching_template(
    entries: &Arc<Vec<CatalogEntry>>,
    visible_servers: &VisibleServers,
    caller: &Caller,
    uri: &str,
) -> Option<CatalogEntry> {
    let is_candidate = |entry: &CatalogEntry| {
        template::has_same_prefix(&entry.id, uri) && visible_servers.has(&entry.server)
    };
    let candidates: Vec<usize> = (0..entries.len())
        .filter(|&index| is_candidate(&entries[index]))
        .collect();
    let total_bytes = candidates
        .iter()
        .map(|&index| entries[index].id.len() + uri.len())
        .sum();
    let (shared_entries, uri) = (Arc::clone(entries), uri.to_owned());
    let matching_index = compute::run(&compute_account(caller), total_bytes, move || {
        candidates
            .into_iter()
            .find(|&index| template::is_match(&shared_entries[index].id, &uri))
    })
    .await;
    matching_index.map(|index| entries[index].clone())
}

/// Returns the servers that the caller may see.
async fn find_visible_servers(caller: &Caller) -> VisibleServers {
    let upstreams = caller.mcp.gateway.upstreams();
    let visible_servers = upstreams.visible_servers(&caller.context, &caller.visibility);
    visible_servers.await
}

fn find_first(
    entries: &[CatalogEntry],
    visible_servers: &VisibleServers,
    is_match: impl Fn(&CatalogEntry) -> bool,
) -> Option<CatalogEntry> {
    let mut entries = entries.iter();
    let entry = entries.find(|entry| visible_servers.has(&entry.server) && is_match(entry));
    entry.cloned()
}

/// Gives each prompt a unique name: adds the prefix of the prompt's server if one of these
/// conditions holds.
///
/// - The configuration sets the prefix.
/// - Several servers have a prompt of this name.
/// - The name equals the prefixed name of a prompt.
/// - Another server owns the name.
///
/// A prompt is dropped if another server owns the prefixed name. URIs cannot be renamed: if several
/// servers have a resource with the same URI, the resource of the first server is used.
fn make_names_unique(prompts: &mut Vec<CatalogEntry>, upstreams: &Upstreams) {
    let to_prefixed_name =
        |entry: &CatalogEntry| format!("{}{}", entry.server.tool_prefix(), entry.remote_id);
    let prefixed_names: HashSet<String> = prompts.iter().map(to_prefixed_name).collect();
    let mut name_counts: HashMap<String, usize> = HashMap::new();
    for entry in &*prompts {
        *name_counts.entry(entry.remote_id.clone()).or_default() += 1;
    }
    prompts.retain_mut(|entry| {
        let (server, remote_name) = (&entry.server, &entry.remote_id);
        let is_unique_name = name_counts[remote_name] == 1
            && !prefixed_names.contains(remote_name)
            && upstreams.owner_conflict(server, remote_name).is_none();
        if server.configured_prefix.is_none() && is_unique_name {
            return true;
        }
        let name = to_prefixed_name(entry);
        if let Some(conflict) = upstreams.owner_conflict(server, &name) {
            let entries = &server.entries;
            entries.report_name_conflict(EntryKind::Prompt, remote_name, &conflict);
            return false;
        }
        if let Some(renamed_json) = rename_prompt(&entry.json, &name) {
            entry.json = renamed_json.into();
        }
        entry.id = name;
        true
    });
}

/// Returns a copy of `prompt` with the name `name`; `None` if `prompt` is not a JSON object.
fn rename_prompt(prompt: &RawValue, name: &str) -> Option<Box<RawValue>> {
    let mut members: Members = serde_json::from_str(prompt.get()).ok()?;
    members.insert("name".to_owned(), to_raw_value(name).ok()?);
    to_raw_value(&members).ok()
}

/// Forwards a request to a server, with the members in `replacements` replaced in its
/// parameters.
async fn forward_request<const N: usize>(
    server: &Server,
    caller: &Caller,
    request: &Request,
    replacements: [(&'static str, Box<RawValue>); N],
    link: &Arc<ClientLink>,
) -> Result<Box<RawValue>, RpcError> {
    let connect_result = server.connections.for_caller(&caller.context).await;
    let connection =
        connect_result.map_err(|failure| RpcError::new(INTERNAL_ERROR, failure.message))?;
    let (span, trace) = server.start_span(&request.method, None, link.trace());
    let params = link.params_with_trace(trace.as_ref(), replacements);
    let options = link.options();
    let client = &connection.client;
    let response = client.request_with_options(&request.method, &params, &options);
    let outcome = connection
        .route_messages(Some(Arc::clone(link)), response)
        .await
        .map_err(|error| rpc_error(server, &error));
    if let Some(span) = span {
        span.end_request_span(&outcome);
    }
    outcome
}

/// Returns a server's JSON-RPC error unchanged, or converts any other error of the MCP client to a
/// JSON-RPC error.
pub(super) fn rpc_error(server: &Server, error: &McpError) -> RpcError {
    match error.rpc_error() {
        Some(error) => error.clone(),
        None => RpcError::new(
            INTERNAL_ERROR,
            format!("MCP server `{}`: {error}", server.label),
        ),
    }
}
