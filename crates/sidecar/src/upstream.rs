//! The MCP servers whose tools the sidecar offers as its own.
//!
//! Nothing is asked at start-up. When somebody lists tools, or names a tool that is not
//! there, each server whose list is missing or old is asked, all side by side and under a
//! deadline; whoever comes meanwhile waits for the same answers. A server that fails is
//! left alone for a while; it takes nothing from the others, and the tools it had stay.

mod desk;
mod line;
mod offer;
mod own;
pub(crate) mod tool;
mod users;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use indexmap::IndexMap;
use parking_lot::RwLock;
use pillion_core::mcp::{LogLevel, McpClient};
use pillion_core::registry::ToolRegistry;
use pillion_core::store::Timestamp;
use pillion_core::tool::{ToolName, ToolOrigin, TraceContext};
use pillion_wire::UnavailableServer;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use crate::config::{McpSection, McpServerSection};
use crate::connections::{ConnectionStatus, Connections};
use crate::events::{Bus, Event};
use crate::pins::Pins;
use crate::servers::{UserCredentials, file_id};
use crate::telemetry::{Span, Telemetry};
pub(crate) use line::Line;
pub(crate) use own::Own;
pub(crate) use tool::UpstreamTool;
pub(crate) use users::SWEEP_EVERY;
use users::Users;

/// The longest that a server which fails again and again is left alone.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How long to wait before a server is asked again at once; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Who hears of what becomes of the servers.
#[derive(Debug, Clone)]
pub(crate) struct Listeners {
    pub(crate) events: Arc<Bus>,
    pub(crate) connections: Connections,
    pub(crate) telemetry: Option<Arc<Telemetry>>,
}

/// Every enabled server of the configuration.
#[derive(Debug)]
pub(crate) struct Upstreams {
    servers: Vec<Arc<Server>>,
    /// The tools of theirs that are registered.
    tools: RwLock<IndexMap<ToolName, Arc<UpstreamTool>>>,
    /// The least serious log messages that somebody has asked for.
    log_level: AtomicU8,
    /// What is known of each server. Held while servers are being asked.
    states: Mutex<Vec<State>>,
    registry: Arc<ToolRegistry>,
    times: McpSection,
    listeners: Listeners,
    pins: Pins,
    credentials: UserCredentials,
    /// Tools that are not offered because they have changed, by the names that they would have.
    blocked: RwLock<IndexMap<String, Blocked>>,
    /// Whether every server was asked at least once.
    was_tried: AtomicBool,
    /// What has taken its place. From then on requests that still hold this one look there: two
    /// that register tools in one registry would each bring back what the other took out.
    successor: OnceLock<Arc<Self>>,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) label: String,
    /// Its id in the store, or what stands for it.
    id: String,
    /// What stands before the names of its tools in the registry.
    tool_prefix: String,
    /// The prefix that the configuration asks for.
    pub(crate) configured_prefix: Option<String>,
    /// The connection under its own credential.
    pub(crate) shared: Arc<Line>,
    users: Users,
    /// It said that its list has changed.
    is_stale: AtomicBool,
    /// How often its lists became old at once.
    epoch: AtomicU64,
    section: McpServerSection,
    telemetry: Option<Arc<Telemetry>>,
    /// What others may know of it without waiting for those who ask it.
    report: RwLock<ServerReport>,
}

/// A tool that is not offered because it is another than it was accepted to be.
#[derive(Debug, Clone)]
pub(crate) struct Blocked {
    server: Arc<Server>,
    /// Its name there.
    tool: String,
}

impl Blocked {
    /// Why a call of it is refused, and what to do.
    pub(crate) fn reason(&self, name: &str) -> String {
        let (server, tool) = (&self.server.label, &self.tool);
        format!(
            "Tool '{name}' is blocked: its server has changed it since it was accepted. See \
             `pillion pins diff {server} {tool}`, and accept it with \
             `pillion pins accept {server} {tool}`"
        )
    }

    /// Where it comes from.
    pub(crate) fn origin(&self) -> ToolOrigin {
        ToolOrigin::Mcp {
            server_label: self.server.label.clone(),
            server_url: self.server.section.server.display_url(),
        }
    }
}

/// What is known of one server, for statistics.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerReport {
    pub(crate) label: String,
    /// Whether it was ever asked for its tools.
    pub(crate) was_asked: bool,
    pub(crate) tools: usize,
    /// Why the last try failed.
    pub(crate) error: Option<String>,
    /// Whether it is being asked now.
    pub(crate) is_asked: bool,
    /// When it last answered.
    pub(crate) connected_at: Option<Timestamp>,
}

impl ServerReport {
    /// How it stands with the server (F3).
    pub(crate) fn status(&self) -> ConnectionStatus {
        match (self.was_asked, &self.error) {
            (_, Some(_)) => ConnectionStatus::Error,
            (true, None) => ConnectionStatus::Connected,
            (false, None) if self.is_asked => ConnectionStatus::Connecting,
            (false, None) => ConnectionStatus::Disconnected,
        }
    }
}

/// What is known of one server.
#[derive(Debug, Default, Clone)]
struct State {
    /// The names under which the server's tools are registered.
    tools: Vec<ToolName>,
    /// When to ask next; now, if none is set.
    next: Option<Next>,
    /// Why the last try failed.
    error: Option<String>,
    /// How many tries have failed since the last that did not.
    failures: u32,
    /// The last try did not fail.
    is_connected: bool,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    At(Instant),
    Never,
}

impl Upstreams {
    pub(crate) fn new(
        servers: &[McpServerSection],
        times: McpSection,
        registry: Arc<ToolRegistry>,
        listeners: Listeners,
        pins: Pins,
        credentials: UserCredentials,
    ) -> Self {
        let servers = servers.iter().filter(|server| server.enabled);
        let servers: Vec<_> = servers
            .map(|section| Arc::new(Server::new(section, &listeners, &credentials)))
            .collect();
        let states = servers.iter().map(|_| State::default()).collect();
        Self {
            was_tried: AtomicBool::new(servers.is_empty()),
            states: Mutex::new(states),
            servers,
            tools: RwLock::default(),
            log_level: AtomicU8::new(u8::MAX),
            registry,
            times,
            listeners,
            pins,
            credentials,
            blocked: RwLock::default(),
            successor: OnceLock::new(),
        }
    }

    /// This one, or what has taken its place.
    fn latest(&self) -> &Self {
        let mut latest = self;
        while let Some(successor) = latest.successor.get() {
            latest = successor;
        }
        latest
    }

    /// The servers, in the order of the configuration.
    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// How long a server may take to list what it offers.
    pub(crate) fn discovery_timeout(&self) -> Duration {
        self.times.discovery_timeout
    }

    /// Every tool of the servers that is registered, with its name there.
    pub(crate) fn tools(&self) -> IndexMap<ToolName, Arc<UpstreamTool>> {
        self.latest().tools.read().clone()
    }

    /// The name in the registry of the only tool that its server calls so, if the configuration
    /// leaves its prefix to us.
    pub(crate) fn only_named(&self, remote_name: &str) -> Option<ToolName> {
        let tools = self.latest().tools.read();
        let mut so_named = tools.iter().filter(|(_, tool)| {
            tool.remote_name() == remote_name && tool.server().configured_prefix.is_none()
        });
        let (name, _) = so_named.next()?;
        so_named.next().is_none().then(|| name.clone())
    }

    /// The tool of that name that is not offered because it has changed; a name without prefix
    /// will do where [`only_named`](Self::only_named) would take it.
    pub(crate) fn blocked(&self, name: &str) -> Option<Blocked> {
        let blocked = self.latest().blocked.read();
        if let Some(blocked) = blocked.get(name) {
            return Some(blocked.clone());
        }
        let mut so_named = blocked
            .values()
            .filter(|blocked| blocked.tool == name && blocked.server.configured_prefix.is_none());
        let first = so_named.next()?;
        so_named.next().is_none().then(|| first.clone())
    }

    /// The server of that label is asked for its tools at the next look.
    pub(crate) fn expire(&self, label: &str) {
        let server = self.servers.iter().find(|server| server.label == label);
        if let Some(server) = server {
            server.expire();
        }
    }

    /// Asks every server for its log messages from `level` up, unless somebody has asked for
    /// as many before. Nobody waits for the servers.
    pub(crate) fn want_log(&self, level: LogLevel) {
        if self.log_level.fetch_min(level as u8, Ordering::Relaxed) <= level as u8 {
            return;
        }
        for server in self.servers.iter().filter(|server| server.lists_for_all()) {
            let server = Arc::clone(server);
            tokio::spawn(async move {
                if let Err(error) = server.shared.client.set_log_level(level).await {
                    tracing::debug!(server.label = server.label, %error, "No log messages");
                }
            });
        }
    }

    /// The servers of another configuration. One whose entry says what it said keeps its
    /// sessions and its tools; the tools of the others are gone from now on. Calls that run
    /// go on: who called [`discover`](Self::discover) on the old ones before is waited for.
    pub(crate) async fn succeeded_by(
        &self,
        servers: &[McpServerSection],
        times: McpSection,
    ) -> Arc<Self> {
        let mut old = self.states.lock().await;
        let mut known: Vec<_> = self.servers.iter().zip(old.iter_mut()).collect();
        let (mut servers_now, mut states) = (Vec::new(), Vec::new());
        for section in servers.iter().filter(|section| section.enabled) {
            let place = known
                .iter()
                .position(|(server, _)| server.section.is_same(section));
            if let Some(place) = place {
                let (server, state) = known.remove(place);
                servers_now.push(Arc::clone(server));
                states.push(state.clone());
            } else {
                let server = Server::new(section, &self.listeners, &self.credentials);
                servers_now.push(Arc::new(server));
                states.push(State::default());
            }
        }
        for (server, state) in known {
            self.tell_status(server, ConnectionStatus::Disconnected, None);
            for gone in state.tools.drain(..) {
                self.registry.unregister(gone.as_str());
            }
        }
        let tools = self.tools.read().clone();
        let is_kept = |tool: &Arc<UpstreamTool>| {
            let mut kept = servers_now.iter();
            kept.any(|server| Arc::ptr_eq(tool.server(), server))
        };
        let tools = tools.into_iter().filter(|(_, tool)| is_kept(tool));
        let tools = RwLock::new(tools.collect());
        let mut blocked = self.blocked.read().clone();
        blocked.retain(|_, blocked| {
            let mut kept = servers_now.iter();
            kept.any(|server| Arc::ptr_eq(&blocked.server, server))
        });
        if times.pin != self.times.pin {
            servers_now.iter().for_each(|server| server.expire());
        }
        let was_tried = servers_now
            .iter()
            .all(|server| server.report.read().was_asked || !server.lists_for_all());
        let successor = Arc::new(Self {
            was_tried: AtomicBool::new(was_tried),
            states: Mutex::new(states),
            servers: servers_now,
            tools,
            // Whoever asks for messages next has all servers asked.
            log_level: AtomicU8::new(u8::MAX),
            registry: Arc::clone(&self.registry),
            times,
            listeners: self.listeners.clone(),
            pins: self.pins.clone(),
            credentials: self.credentials.clone(),
            blocked: RwLock::new(blocked),
            successor: OnceLock::new(),
        });
        // Before anybody else gets to the old states: they are never looked at again.
        let _ = self.successor.set(Arc::clone(&successor));
        successor
    }

    /// Whether every server was asked at least once, or there is none.
    pub(crate) fn was_tried(&self) -> bool {
        self.was_tried.load(Ordering::Acquire)
    }

    /// What is known of each server now.
    pub(crate) fn reports(&self) -> Vec<ServerReport> {
        let reports = self
            .servers
            .iter()
            .map(|server| server.report.read().clone());
        reports.collect()
    }

    /// Asks every server whose list is missing or old, and names those that failed.
    pub(crate) async fn discover(&self) -> Vec<UnavailableServer> {
        let mut latest = self;
        loop {
            let states = latest.states.lock().await;
            match latest.successor.get() {
                None => return latest.ask(states).await,
                Some(successor) => latest = successor,
            }
        }
    }

    /// Asks those servers of which that is due. Nobody takes the place of these meanwhile.
    async fn ask(&self, mut states: MutexGuard<'_, Vec<State>>) -> Vec<UnavailableServer> {
        if self.servers.is_empty() {
            return Vec::new();
        }
        let asked = self.servers.iter().zip(&*states).map(|(server, state)| {
            let limit = self.times.discovery_timeout;
            async move {
                if !server.lists_for_all() {
                    return None;
                }
                if server.is_stale.swap(false, Ordering::Relaxed) || state.is_due() {
                    if !state.is_connected {
                        self.tell_status(server, ConnectionStatus::Connecting, None);
                    }
                    Some(server.list(&server.shared.client, limit).await)
                } else {
                    None
                }
            }
        });
        let answers = join_all(asked).await;
        // In the order of the configuration, whichever server answered first.
        let known = self.servers.iter().zip(states.iter_mut());
        for ((server, state), answer) in known.zip(answers) {
            match answer {
                Some(Ok(tools)) => {
                    let policy = server.section.pin.unwrap_or(self.times.pin);
                    match self.pins.blocked(&server.label, policy, &tools).await {
                        Ok(blocked) => self.accept(server, state, &tools, &blocked),
                        Err(error) => self.give_up(server, state, error),
                    }
                }
                Some(Err(error)) => self.give_up(server, state, error),
                None => {}
            }
        }
        self.was_tried.store(true, Ordering::Release);
        let states = self.servers.iter().zip(&*states);
        states
            .filter_map(|(server, state)| {
                Some(UnavailableServer {
                    label: server.label.clone(),
                    error: state.error.clone()?,
                })
            })
            .collect()
    }

    /// What stands before the names of a server's tools; nothing for a label that is not known.
    pub(crate) fn tool_prefix(&self, label: &str) -> &str {
        let servers = &self.latest().servers;
        let server = servers.iter().find(|server| server.label == label);
        server.map_or("", |server| &server.tool_prefix)
    }

    /// Ends the sessions with the servers.
    pub(crate) async fn disconnect(&self) {
        join_all(self.servers.iter().map(|server| server.disconnect())).await;
    }

    /// The servers that `others` does not have.
    pub(crate) fn without(&self, others: &Self) -> Gone {
        let is_gone = |server: &&Arc<Server>| {
            !others
                .servers
                .iter()
                .any(|other| Arc::ptr_eq(server, other))
        };
        Gone(
            self.servers
                .iter()
                .filter(is_gone)
                .map(Arc::clone)
                .collect(),
        )
    }

    fn tell_status(&self, server: &Server, status: ConnectionStatus, error: Option<&str>) {
        tracing::debug!(
            server.label = server.label,
            status = status.as_str(),
            "A connection"
        );
        if status == ConnectionStatus::Connected {
            self.listeners.connections.connected(&server.label);
        }
        self.listeners.events.tell(&Event::ServerStatus {
            server: &server.label,
            status: status.as_str(),
            error,
        });
    }

    /// Tells what is otherwise than it was, if anything is.
    fn tell_changes(&self, server: &Arc<Server>, registered: &[(ToolName, Arc<UpstreamTool>)]) {
        let known = self.tools.read();
        let before = known.iter();
        let before: IndexMap<&ToolName, &Arc<UpstreamTool>> = before
            .filter(|(_, tool)| Arc::ptr_eq(tool.server(), server))
            .collect();
        let now: IndexMap<&ToolName, &Arc<UpstreamTool>> =
            registered.iter().map(|(name, tool)| (name, tool)).collect();
        let names = |of: &IndexMap<&'_ ToolName, _>, is_meant: &dyn Fn(&ToolName) -> bool| {
            let names = of.keys().filter(|name| is_meant(name));
            names.map(ToString::to_string).collect::<Vec<_>>()
        };
        let added = names(&now, &|name| !before.contains_key(name));
        let removed = names(&before, &|name| !now.contains_key(name));
        let changed = names(&now, &|name| {
            before
                .get(name)
                .is_some_and(|tool| !tool.is_same(now[name]))
        });
        for name in added.iter().chain(&changed) {
            let tool = ToolName::new(name.as_str()).ok();
            let tool = tool.and_then(|name| now.get(&name).copied());
            for warning in tool.map_or(&[][..], |tool| tool.warnings()) {
                tracing::warn!(
                    server.label = server.label,
                    tool.name = name,
                    warning,
                    "Something is hidden in the definition of a tool"
                );
            }
        }
        if added.is_empty() && removed.is_empty() && changed.is_empty() {
            return;
        }
        self.listeners.events.tell(&Event::ToolsChanged {
            server: Some(&server.label),
            added,
            removed,
            changed,
        });
    }

    fn accept(
        &self,
        server: &Arc<Server>,
        state: &mut State,
        tools: &[offer::RawTool],
        blocked: &HashSet<String>,
    ) {
        if !state.is_connected {
            self.tell_status(server, ConnectionStatus::Connected, None);
        }
        let offer = offer::Offer { server };
        let refresh_after = self.times.refresh_after;
        let registered = offer.register(tools, blocked, &state.tools, &self.registry);
        {
            let mut known = self.blocked.write();
            known.retain(|_, other| !Arc::ptr_eq(&other.server, server));
            known.extend(blocked.iter().map(|tool| {
                let name = format!("{}{tool}", server.tool_prefix);
                let (server, tool) = (Arc::clone(server), tool.clone());
                (name, Blocked { server, tool })
            }));
        }
        let names = registered.iter().map(|(name, _)| name.clone()).collect();
        self.tell_changes(server, &registered);
        {
            let mut known = self.tools.write();
            known.retain(|_, tool| !Arc::ptr_eq(tool.server(), server));
            known.extend(registered);
        }
        *state = State {
            tools: names,
            next: Some(if refresh_after.is_zero() {
                Next::Never
            } else {
                Next::At(Instant::now() + refresh_after)
            }),
            error: None,
            failures: 0,
            is_connected: true,
        };
        let tools = state.tools.len();
        {
            let mut report = server.report.write();
            report.was_asked = true;
            report.tools = tools;
            report.error = None;
            report.connected_at = Some(Timestamp::now());
        }
        tracing::info!(
            server.label = server.label,
            tools,
            "MCP server `{}` offers {tools} tools",
            server.label
        );
    }

    fn give_up(&self, server: &Server, state: &mut State, error: String) {
        // Once for each reason, not once for each try.
        if state.error.as_ref() != Some(&error) {
            self.tell_status(server, ConnectionStatus::Error, Some(&error));
            tracing::warn!(server.label = server.label, %error, "Failed to list MCP tools");
        }
        let pause = self
            .times
            .retry_after
            .saturating_mul(1 << state.failures.min(16));
        let pause = pause.min(LONGEST_PAUSE.max(self.times.retry_after));
        {
            let mut report = server.report.write();
            report.was_asked = true;
            report.error = Some(error.clone());
        }
        state.error = Some(error);
        state.is_connected = false;
        state.failures += 1;
        state.next = Some(Next::At(Instant::now() + pause));
    }
}

/// Servers that are no longer asked for anything.
#[derive(Debug)]
pub(crate) struct Gone(Vec<Arc<Server>>);

impl Gone {
    /// Ends the sessions with them.
    pub(crate) async fn disconnect(&self) {
        join_all(self.0.iter().map(|server| server.disconnect())).await;
    }
}

impl State {
    fn is_due(&self) -> bool {
        match self.next {
            None => true,
            Some(Next::At(instant)) => Instant::now() >= instant,
            Some(Next::Never) => false,
        }
    }
}

impl Server {
    fn new(
        section: &McpServerSection,
        listeners: &Listeners,
        credentials: &UserCredentials,
    ) -> Self {
        let id = section.id.clone();
        Self {
            label: section.label().to_owned(),
            id: id.unwrap_or_else(|| file_id(section.label())),
            tool_prefix: section.tool_prefix(),
            configured_prefix: section.configured_prefix().map(str::to_owned),
            shared: Arc::new(Line::to(section.server.clone())),
            users: Users::new(credentials),
            is_stale: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            report: RwLock::new(ServerReport {
                label: section.label().to_owned(),
                ..ServerReport::default()
            }),
            section: section.clone(),
            telemetry: listeners.telemetry.clone(),
        }
    }

    /// Where it is, if that is a URL.
    pub(crate) fn url(&self) -> Option<&url::Url> {
        self.section.server.url()
    }

    /// The span of a request to it, where somebody wants spans, and where what it is told says
    /// that it stands: the span, or what `parent` says.
    pub(crate) fn span(
        &self,
        method: &str,
        tool: Option<&str>,
        parent: Option<&TraceContext>,
    ) -> (Option<Span>, Option<TraceContext>) {
        let telemetry = self.telemetry.as_ref();
        let span = telemetry.map(|telemetry| telemetry.upstream(self, method, tool, parent));
        let trace = span.as_ref().and_then(Span::context);
        (span, trace.or_else(|| parent.cloned()))
    }

    /// What stands before the names of its tools in the registry.
    pub(crate) fn tool_prefix(&self) -> &str {
        &self.tool_prefix
    }

    /// The list of tools is to be asked for at the next look, however new it is.
    pub(crate) fn expire(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the sessions with it.
    async fn disconnect(&self) {
        let mut lines = self.users.take_all();
        lines.push(Arc::clone(&self.shared));
        join_all(lines.iter().map(|line| line.client.disconnect())).await;
    }

    /// Asks for the tools, again where that is configured, all within `limit`.
    async fn list(
        &self,
        client: &McpClient,
        limit: Duration,
    ) -> Result<Vec<offer::RawTool>, String> {
        let _asking = Asking::begin(self);
        let mut wait = FIRST_WAIT;
        let mut error = None;
        let tried = timeout(limit, async {
            for attempt in 0..=self.section.retry_attempts {
                if attempt > 0 {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
                match client.list_tools().await {
                    Ok(tools) => return Some(tools),
                    Err(failure) => error = Some(failure.to_string()),
                }
            }
            None
        })
        .await;
        match (tried, error) {
            (Ok(Some(tools)), _) => Ok(tools),
            (_, Some(error)) => Err(error),
            (_, None) => Err(format!(
                "the server did not list its tools within {:.1}s",
                limit.as_secs_f64()
            )),
        }
    }
}

/// A server is being asked, until this is dropped.
struct Asking<'a>(&'a Server);

impl<'a> Asking<'a> {
    fn begin(server: &'a Server) -> Self {
        server.report.write().is_asked = true;
        Self(server)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.report.write().is_asked = false;
    }
}
