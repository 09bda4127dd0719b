//! Per-user tools: tools that a server lists for one user only.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{join, join_all, ready};
use indexmap::IndexMap;
use parking_lot::Mutex;
use pillion_core::executor::CallerOnlyTools;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{CallContext, ErrorCode, ToolFailure, ToolName, ToolOrigin};
use pillion_deadline::timeout;
use pillion_mcp_client::EntryKind;
use pillion_wire::UnavailableServer;
use tokio::time::Instant;

use super::caller_connections::UpstreamConnection;
use super::discovery_state::{backoff, time_until_stale};
use super::listing::{list_timeout_error, list_tools};
use super::offer::{CheckedTool, check_tools};
use super::{Server, UpstreamTool, Upstreams};

/// The per-user tools of one caller, from all servers.
#[derive(Debug, Default)]
pub struct CallerTools {
    /// The tools, for the executor.
    pub tools: Arc<CallerOnlyTools>,
    /// The tools as their servers listed them.
    pub listed_tools: IndexMap<ToolName, Arc<UpstreamTool>>,
    /// The servers whose tools could not be listed for the caller.
    pub unavailable_servers: Vec<UnavailableServer>,
    /// The labels of servers that have failed and have never listed the caller's tools.
    pub(super) unlisted_server_labels: Vec<String>,
    /// The servers for which the caller has no credential.
    missing_credentials: Vec<MissingCredential>,
}

/// A server for which a caller has no credential.
#[derive(Debug)]
pub struct MissingCredential {
    /// The server's label.
    label: String,
    /// The origin of the server's tools.
    pub origin: ToolOrigin,
    /// The reason why the tools are unavailable.
    pub failure: ToolFailure,
}

impl CallerTools {
    /// Returns the reason why a tool with this name is unavailable, if the caller has no credential
    /// for the server that owns the name.
    pub fn missing_credential(
        &self,
        upstreams: &Upstreams,
        name: &str,
    ) -> Option<&MissingCredential> {
        let mut missing_credentials = self.missing_credentials.iter();
        let owners = &upstreams.latest().owners;
        missing_credentials.find(|MissingCredential { label, .. }| owners.owns(label, name))
    }

    /// Returns the tool that MCP clients know by the unprefixed name `unprefixed_name`.
    pub fn find_by_unprefixed_name(
        &self,
        upstreams: &Upstreams,
        unprefixed_name: &str,
    ) -> Option<Arc<RegisteredTool>> {
        let mut matching_tools = self.listed_tools.iter().filter(|(_, tool)| {
            tool.remote_name() == unprefixed_name && self.allows_unprefixed_name(upstreams, tool)
        });
        let (name, _) = matching_tools.next()?;
        let is_only_match = matching_tools.next().is_none();
        self.tools.get(name).filter(|_| is_only_match).cloned()
    }
}

impl Upstreams {
    /// Returns the caller's per-user tools. First requests the caller's lists that are missing or
    /// stale.
    pub async fn caller_tools(&self, context: &CallContext) -> CallerTools {
        self.caller_tools_with_timeout(Duration::MAX, context, ready(()))
            .await
    }

    /// Returns the caller's per-user tools. A server that does not list its tools within `limit` is
    /// reported as unavailable. Shared tools that `shared_listing` registers take precedence over
    /// per-user tools of the same name.
    pub(super) async fn caller_tools_with_timeout(
        &self,
        limit: Duration,
        context: &CallContext,
        shared_listing: impl Future<Output = ()>,
    ) -> CallerTools {
        let latest = self.latest();
        let servers = latest.servers.iter().cloned();
        latest
            .list_tools_of_servers(servers, context, &[], (limit, shared_listing))
            .await
    }

    /// Returns the caller's per-user tools, for a lookup of the tools `names`. Queries the servers
    /// that own the names, or all servers if a name has no owner. A server that failed recently is
    /// queried again if its list lacks one of the names.
    pub async fn find_user_tools(&self, context: &CallContext, names: &[String]) -> CallerTools {
        let latest = self.latest();
        let named_servers = latest.servers_owning(names);
        let is_named = |name: &String| named_servers.iter().any(|server| latest.owns(server, name));
        // All servers are queried if a server without a tool prefix lists different tools for each
        // user, because these tools may have any name.
        let has_any_name =
            |server: &Arc<Server>| server.tool_prefix.is_empty() && !server.lists_for_all_users();
        if names.iter().all(is_named) && !latest.servers.iter().any(has_any_name) {
            let unlimited = (Duration::MAX, ready(()));
            return latest
                .list_tools_of_servers(named_servers, context, names, unlimited)
                .await;
        }
        latest.caller_tools(context).await
    }

    /// Returns the caller's per-user tools of `servers`. A server that failed recently is queried
    /// again if its list lacks one of the tools `names`.
    async fn list_tools_of_servers(
        &self,
        servers: impl IntoIterator<Item = Arc<Server>>,
        context: &CallContext,
        names: &[String],
        (limit, shared_listing): (Duration, impl Future<Output = ()>),
    ) -> CallerTools {
        let servers: Vec<_> = servers
            .into_iter()
            .filter(|server| !server.lists_for_all_users())
            .collect();
        if servers.is_empty() {
            shared_listing.await;
            return CallerTools::default();
        }
        let listings = servers.iter().map(async |server| {
            let list = self.list_user_tools(server, context, names);
            timeout(limit, list).await.unwrap_or_else(|_| {
                let message = list_timeout_error(limit);
                Err(ToolFailure::new(ErrorCode::Unavailable, message))
            })
        });
        let mut caller_tools = CallerTools::default();
        let mut tools = CallerOnlyTools::new();
        let (listings, ()) = join(join_all(listings), shared_listing).await;
        for (server, list) in servers.iter().zip(listings) {
            match list {
                Ok(listing) => {
                    for tool in listing.tools {
                        let name = tool.registered_tool.name().clone();
                        if let Some(conflict) = self.name_conflict(server, name.as_str()) {
                            let entry = tool.upstream_tool.remote_name();
                            let entries = &server.entries;
                            entries.report_name_conflict(EntryKind::Tool, entry, &conflict);
                            continue;
                        }
                        if self.registry.contains(name.as_str()) || tools.contains_key(&name) {
                            let label = &server.label;
                            tracing::debug!(
                                server.label = label, tool.name = %name,
                                "Skipped a user's tool: another tool has the same name"
                            );
                            continue;
                        }
                        caller_tools
                            .listed_tools
                            .insert(name.clone(), tool.upstream_tool);
                        tools.insert(name, tool.registered_tool);
                    }
                    if listing.error.is_some() && !listing.has_listed {
                        caller_tools
                            .unlisted_server_labels
                            .push(server.label.clone());
                    }
                    let unavailable_server = listing.error.map(|error| UnavailableServer {
                        label: server.label.clone(),
                        error,
                    });
                    caller_tools.unavailable_servers.extend(unavailable_server);
                }
                Err(failure) => {
                    if failure.code == ErrorCode::Unavailable {
                        caller_tools
                            .unlisted_server_labels
                            .push(server.label.clone());
                    }
                    // For a caller without a user, the server does not count as unavailable,
                    // because the caller expects only the tools that are listed for all users.
                    if context.user.is_some() {
                        caller_tools.unavailable_servers.push(UnavailableServer {
                            label: server.label.clone(),
                            error: failure.message.clone(),
                        });
                    }
                    caller_tools.missing_credentials.push(MissingCredential {
                        label: server.label.clone(),
                        origin: server.origin(),
                        failure,
                    });
                }
            }
        }
        caller_tools.tools = Arc::new(tools);
        caller_tools
    }

    /// Returns the tools that `server` lists for the caller.
    async fn list_user_tools(
        &self,
        server: &Arc<Server>,
        context: &CallContext,
        names: &[String],
    ) -> Result<Listing, ToolFailure> {
        let connection = server.connections.for_caller(context).await?;
        let arrived_at = Instant::now();
        let listings = &self.server_tools.user_listings;
        let shared_listing = listings.listing_for_connection(server, &connection);
        let mut listing = shared_listing.lock().await;
        let epoch = server.epoch.load(Ordering::Relaxed);
        // A caller that waited while another caller's attempt failed does not try again, and shares
        // the outcome.
        let has_waited = listing.failed_at.is_some_and(|at| at >= arrived_at);
        let now = Instant::now();
        let is_expired = listing.next_request_at.is_none_or(|at| now >= at);
        let is_due = (is_expired && !has_waited) || listing.epoch != epoch;
        let is_owned = |name: &str| self.owns(server, name);
        let is_retried =
            listing.failures > 0 && !has_waited && listing.is_missing_any(is_owned, names);
        if is_due || is_retried {
            if is_retried {
                connection.client.end_backoff();
            }
            let outcome =
                list_tools(server, &connection.client, self.section.discovery_timeout).await;
            let result = match outcome {
                Ok(tools) => {
                    let (checked_tools, definitions) = check_tools(server, &Arc::new(tools)).await;
                    let rules = server.pin_rules(&self.section);
                    let owner = server.pin_owner(context.verified_user());
                    let blocked_names = self
                        .pins
                        .find_blocked_names(owner, rules, definitions)
                        .await;
                    blocked_names.map(|blocked_names| (checked_tools, blocked_names))
                }
                Err(error) => Err(error),
            };
            match result {
                Ok((checked_tools, blocked_names)) => {
                    let is_offered = |tool: &CheckedTool| {
                        !blocked_names.contains(tool.upstream_tool.remote_name())
                    };
                    *listing = Listing {
                        tools: checked_tools.into_iter().filter(is_offered).collect(),
                        next_request_at: Some(Instant::now() + time_until_stale(&self.section)),
                        epoch,
                        has_listed: true,
                        ..Listing::default()
                    };
                    server.report.record_listing(listing.tools.len());
                }
                Err(error) => {
                    tracing::warn!(server.label = server.label, %error, "Failed to list a user's MCP tools");
                    listing.error = Some(error);
                    listing.failed_at = Some(Instant::now());
                    if is_due {
                        let pause = backoff(&self.section, listing.failures);
                        listing.next_request_at = Some(Instant::now() + pause);
                        listing.epoch = epoch;
                        listing.failures += 1;
                    }
                }
            }
        }
        Ok(listing.clone())
    }

    /// Closes idle and outdated user connections after their running calls have finished.
    pub async fn close_unneeded_connections(&self) {
        let servers = self.latest().servers.iter();
        let per_user_servers = servers.filter(|server| server.uses_user_credentials());
        join_all(per_user_servers.map(|server| server.connections.close_idle_connections())).await;
        self.server_tools.user_listings.remove_closed();
    }

    /// Closes a user's connection to a server after the user's credential was changed or removed.
    pub fn forget_user(&self, label: &str, user: &str) {
        let mut servers = self.latest().servers.iter();
        if let Some(server) = servers.find(|server| server.label == label) {
            server.connections.forget(user);
        }
    }
}

/// The tools that a server lists on one connection, and the time of the next `tools/list`.
#[derive(Debug, Default, Clone)]
struct Listing {
    tools: Vec<CheckedTool>,
    /// The time of the next request for the list; `None` before the first attempt.
    next_request_at: Option<Instant>,
    /// The number of calls of `Server::expire` at the last attempt.
    epoch: u64,
    /// The error of the last attempt to list the tools; `None` if the attempt succeeded.
    error: Option<String>,
    failures: u32,
    /// Whether the server has listed its tools on the connection at least once.
    has_listed: bool,
    /// The time of the last attempt to list the tools, if the attempt failed.
    failed_at: Option<Instant>,
}

/// The tool lists of users. Each belongs to a connection under the user's credential, and is
/// removed after that connection is closed.
#[derive(Debug, Default)]
pub(super) struct UserListings {
    /// The tool lists, by the memory address of their connection. The address is unique while the
    /// entry exists.
    listings_by_connection: Mutex<HashMap<usize, UserListing>>,
}

#[derive(Debug)]
struct UserListing {
    server: Weak<Server>,
    connection: Weak<UpstreamConnection>,
    listing: Arc<tokio::sync::Mutex<Listing>>,
}

impl UserListings {
    /// Returns the tool list that belongs to a user's connection.
    fn listing_for_connection(
        &self,
        server: &Arc<Server>,
        connection: &Arc<UpstreamConnection>,
    ) -> Arc<tokio::sync::Mutex<Listing>> {
        let mut listings = self.listings_by_connection.lock();
        let address = Arc::as_ptr(connection).addr();
        let entry = listings.entry(address).or_insert_with(|| UserListing {
            server: Arc::downgrade(server),
            connection: Arc::downgrade(connection),
            listing: Arc::default(),
        });
        Arc::clone(&entry.listing)
    }

    /// Removes the lists that belong to closed connections.
    fn remove_closed(&self) {
        let mut listings_by_connection = self.listings_by_connection.lock();
        listings_by_connection.retain(|_, entry| entry.connection.strong_count() > 0);
    }

    /// Removes the tool lists of a server's connections from the cache.
    pub(super) fn forget(&self, server: &Arc<Server>) {
        let mut listings_by_connection = self.listings_by_connection.lock();
        listings_by_connection.retain(|_, entry| !std::ptr::eq(entry.server.as_ptr(), &**server));
    }
}

impl Listing {
    /// Returns whether the server owns one of `names` and does not list a tool with that name.
    fn is_missing_any(&self, is_owned: impl Fn(&str) -> bool, names: &[String]) -> bool {
        let lists = |name: &str| {
            self.tools
                .iter()
                .any(|tool| tool.registered_tool.name().as_str() == name)
        };
        let is_missing = |name: &String| is_owned(name) && !lists(name);
        names.iter().any(is_missing)
    }
}
