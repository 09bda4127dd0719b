//! Tools that a server lists for a single user.

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

use super::connection::UpstreamConnection;
use super::discovery_state::{backoff, time_until_stale};
use super::listing::{list_tools, not_listed_within};
use super::offer::{CheckedTool, check_tools};
use super::{Server, UpstreamTool, Upstreams};

/// The tools of all servers that only one caller has.
#[derive(Debug, Default)]
pub struct Own {
    /// The tools, for the executor.
    pub tools: Arc<CallerOnlyTools>,
    /// The tools as their servers listed them.
    pub listed: IndexMap<ToolName, Arc<UpstreamTool>>,
    /// The servers whose tools could not be listed for the caller.
    pub unavailable: Vec<UnavailableServer>,
    /// The labels of the servers that have never listed the caller's tools because they failed.
    pub(super) unlisted: Vec<String>,
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

impl Own {
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

    /// Returns the tool that has the server's own name `own_name` for MCP clients.
    pub fn only_named(&self, upstreams: &Upstreams, own_name: &str) -> Option<Arc<RegisteredTool>> {
        let mut matching = self.listed.iter().filter(|(_, tool)| {
            tool.remote_name() == own_name && self.allows_own_name(upstreams, tool)
        });
        let (name, _) = matching.next()?;
        let is_only = matching.next().is_none();
        self.tools.get(name).filter(|_| is_only).cloned()
    }
}

impl Upstreams {
    /// Returns the tools that only this caller has. First requests the caller's lists that are
    /// missing or stale.
    pub async fn own(&self, context: &CallContext) -> Own {
        self.own_within(Duration::MAX, context, ready(())).await
    }

    /// Returns the tools that only this caller has, without those of servers that do not list them
    /// within `limit`. Shared tools that `shared` registers take precedence.
    pub(super) async fn own_within(
        &self,
        limit: Duration,
        context: &CallContext,
        shared: impl Future<Output = ()>,
    ) -> Own {
        let latest = self.latest();
        let servers = latest.servers.iter().cloned();
        let own = latest.list_user_tools_of(servers, context, &[], (limit, shared));
        own.await
    }

    /// Returns the tools that only this caller has, for a lookup of these names: of the servers that
    /// own the names, or of all servers if a name has no owner. A server that
    /// failed recently receives another request if its list does not contain the name.
    pub async fn user_tools_named(&self, context: &CallContext, names: &[String]) -> Own {
        let latest = self.latest();
        let named = latest.owners_of(names);
        let is_named = |name: &String| named.iter().any(|server| latest.owns(server, name));
        // Without a prefix, a caller's own tools may have any name.
        let has_any_name =
            |server: &Arc<Server>| server.tool_prefix.is_empty() && !server.lists_for_all();
        if names.iter().all(is_named) && !latest.servers.iter().any(has_any_name) {
            let at_once = (Duration::MAX, ready(()));
            let own = latest.list_user_tools_of(named, context, names, at_once);
            return own.await;
        }
        latest.own(context).await
    }

    /// Returns the tools of these servers that only this caller has, for a lookup of the tools
    /// `sought`.
    async fn list_user_tools_of(
        &self,
        servers: impl IntoIterator<Item = Arc<Server>>,
        context: &CallContext,
        sought: &[String],
        (limit, shared): (Duration, impl Future<Output = ()>),
    ) -> Own {
        let latest = self;
        let servers: Vec<_> = servers
            .into_iter()
            .filter(|server| !server.lists_for_all())
            .collect();
        if servers.is_empty() {
            shared.await;
            return Own::default();
        }
        let lists = servers.iter().map(async |server| {
            let list = latest.list_user_tools(server, context, sought);
            timeout(limit, list).await.unwrap_or_else(|_| {
                let message = not_listed_within(limit);
                Err(ToolFailure::new(ErrorCode::Unavailable, message))
            })
        });
        let mut own = Own::default();
        let mut tools = CallerOnlyTools::new();
        let (lists, ()) = join(join_all(lists), shared).await;
        for (server, list) in servers.iter().zip(lists) {
            match list {
                Ok(Listing {
                    tools: listed,
                    error,
                    has_listed,
                    ..
                }) => {
                    for tool in listed {
                        let name = tool.registered.name().clone();
                        if let Some(conflict) = latest.name_conflict(server, name.as_str()) {
                            let entry = tool.upstream.remote_name();
                            server
                                .entries
                                .report_name_conflict(EntryKind::Tool, entry, &conflict);
                            continue;
                        }
                        if latest.registry.contains(name.as_str()) || tools.contains_key(&name) {
                            let label = &server.label;
                            tracing::debug!(
                                server.label = label, tool.name = %name,
                                "Skipped a user's tool: another tool has the same name"
                            );
                            continue;
                        }
                        own.listed.insert(name.clone(), tool.upstream);
                        tools.insert(name, tool.registered);
                    }
                    if error.is_some() && !has_listed {
                        own.unlisted.push(server.label.clone());
                    }
                    own.unavailable.extend(error.map(|error| UnavailableServer {
                        label: server.label.clone(),
                        error,
                    }));
                }
                Err(failure) => {
                    if failure.code == ErrorCode::Unavailable {
                        own.unlisted.push(server.label.clone());
                    }
                    // A caller without a user expects only the tools of all users.
                    if context.user.is_some() {
                        own.unavailable.push(UnavailableServer {
                            label: server.label.clone(),
                            error: failure.message.clone(),
                        });
                    }
                    own.missing_credentials.push(MissingCredential {
                        label: server.label.clone(),
                        origin: server.origin(),
                        failure,
                    });
                }
            }
        }
        own.tools = Arc::new(tools);
        own
    }

    /// Returns the tools that one server lists for this caller.
    async fn list_user_tools(
        &self,
        server: &Arc<Server>,
        context: &CallContext,
        sought: &[String],
    ) -> Result<Listing, ToolFailure> {
        let connection = server.connections.for_caller(context).await?;
        let came = Instant::now();
        let shared = self
            .offered
            .user_listings
            .for_connection(server, &connection);
        let mut listing = shared.lock().await;
        let epoch = server.epoch.load(Ordering::Relaxed);
        // A caller that waited while another caller's attempt failed shares the outcome.
        let has_waited = listing.failed_at.is_some_and(|failed| failed >= came);
        let is_old = listing.next.is_none_or(|next| Instant::now() >= next);
        let is_due = (is_old && !has_waited) || listing.epoch != epoch;
        let is_owned = |name: &str| self.owns(server, name);
        let is_retried =
            listing.failures > 0 && !has_waited && listing.is_missing_any(is_owned, sought);
        if is_due || is_retried {
            if is_retried {
                connection.client.end_pause();
            }
            let outcome =
                list_tools(server, &connection.client, self.times.discovery_timeout).await;
            let listed = match outcome {
                Ok(tools) => {
                    let (checked, definitions) = check_tools(server, &Arc::new(tools)).await;
                    let rules = server.pin_rules(&self.times);
                    let owner = server.pinned(context.verified_user());
                    let blocked = self.pins.blocked(owner, rules, definitions).await;
                    blocked.map(|blocked| (checked, blocked))
                }
                Err(error) => Err(error),
            };
            match listed {
                Ok((checked, blocked)) => {
                    let is_offered =
                        |tool: &CheckedTool| !blocked.contains(tool.upstream.remote_name());
                    *listing = Listing {
                        tools: checked.into_iter().filter(is_offered).collect(),
                        next: Some(Instant::now() + time_until_stale(&self.times)),
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
                        let pause = backoff(&self.times, listing.failures);
                        listing.next = Some(Instant::now() + pause);
                        listing.epoch = epoch;
                        listing.failures += 1;
                    }
                }
            }
        }
        Ok(listing.clone())
    }

    /// Closes unneeded connections of users once their calls have ended.
    pub async fn sweep_users(&self) {
        let servers = self.latest().servers.iter();
        let per_user = servers.filter(|server| server.uses_user_credentials());
        join_all(per_user.map(|server| server.connections.sweep())).await;
        self.offered.user_listings.remove_closed();
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
    /// When to request the list next; `None` before the first attempt.
    next: Option<Instant>,
    /// The server's epoch at the last attempt.
    epoch: u64,
    /// The error of the last attempt, if it failed.
    error: Option<String>,
    failures: u32,
    /// Whether an attempt has succeeded.
    has_listed: bool,
    /// When the last attempt failed.
    failed_at: Option<Instant>,
}

/// The tool lists of users. Each belongs to a connection under the user's credential, and is removed
/// after that connection is closed.
#[derive(Debug, Default)]
pub(super) struct UserListings {
    /// The lists by the address of their connection, which is unique while the entry exists.
    by_connection: Mutex<HashMap<usize, UserListing>>,
}

#[derive(Debug)]
struct UserListing {
    server: Weak<Server>,
    connection: Weak<UpstreamConnection>,
    listing: Arc<tokio::sync::Mutex<Listing>>,
}

impl UserListings {
    /// Returns the tool list that belongs to a user's connection.
    fn for_connection(
        &self,
        server: &Arc<Server>,
        connection: &Arc<UpstreamConnection>,
    ) -> Arc<tokio::sync::Mutex<Listing>> {
        let mut by_connection = self.by_connection.lock();
        let address = Arc::as_ptr(connection).addr();
        let entry = by_connection.entry(address).or_insert_with(|| UserListing {
            server: Arc::downgrade(server),
            connection: Arc::downgrade(connection),
            listing: Arc::default(),
        });
        Arc::clone(&entry.listing)
    }

    /// Removes the lists that belong to closed connections.
    fn remove_closed(&self) {
        let mut by_connection = self.by_connection.lock();
        by_connection.retain(|_, entry| entry.connection.strong_count() > 0);
    }

    /// Removes the lists of a server.
    pub(super) fn forget(&self, server: &Arc<Server>) {
        let mut by_connection = self.by_connection.lock();
        by_connection.retain(|_, entry| !std::ptr::eq(entry.server.as_ptr(), &**server));
    }
}

impl Listing {
    /// Returns whether the server owns one of `names` and does not list a tool with that name.
    fn is_missing_any(&self, is_owned: impl Fn(&str) -> bool, names: &[String]) -> bool {
        let lists = |name: &str| {
            self.tools
                .iter()
                .any(|tool| tool.registered.name().as_str() == name)
        };
        let is_missing = |name: &String| is_owned(name) && !lists(name);
        names.iter().any(is_missing)
    }
}
