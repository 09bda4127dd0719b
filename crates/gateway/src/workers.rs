//! Tools of worker processes. A worker, such as a PHP process with a Laravel application, connects
//! to the Unix socket, registers its tools, and receives calls, one at a time.
//! `docs/reference/worker-protocol.md` describes the protocol.
//!
//! A worker exists as long as its connection: when the connection closes or the worker's process
//! ends, its current call fails at once. A call waits for the first idle worker with the tool.

mod connection;
mod message;
mod registration;
mod state;
mod tool;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::tool::{ErrorCode, ToolFailure, ToolName};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::events::{EventBus, ToolChanges, ToolListener};
pub use connection::wait_for_process_end;
use pillion_config::WorkersSection;
use registration::CheckedWorkerTool;
pub use registration::{CheckedRegistration, Registration, RegistrationError};
use state::{OfferedTool, State, Worker};
use tool::WorkerJob;
pub(crate) use tool::WorkerTool;

/// Maximum number of calls of one tool that wait for a worker.
const MAX_WAITING_CALLS: usize = 10_000;

/// All connected workers and their tools.
#[derive(Debug)]
pub struct Workers {
    registry: Arc<ToolRegistry>,
    listener: Arc<dyn ToolListener>,
    events: Arc<EventBus>,
    section: RwLock<WorkersSection>,
    state: Mutex<State>,
    weak_self: Weak<Self>,
}

/// The public state of a worker.
#[derive(Debug)]
pub struct WorkerReport {
    /// The worker's ID.
    pub id: u64,
    /// The worker's name.
    pub name: String,
    /// The ID of the worker's process, if the socket reports it.
    pub pid: Option<i32>,
    /// The names of the worker's tools.
    pub tools: Vec<String>,
    /// Whether the worker runs a call.
    pub is_busy: bool,
    /// The number of calls that were sent to the worker.
    pub calls: u64,
}

/// Why a worker is rejected.
#[derive(Debug, thiserror::Error)]
pub enum WorkerRejection {
    /// The registration is invalid.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// A tool of the worker has the name of a tool that does not belong to workers.
    #[error("The tool name '{0}' is already used by a tool that is not a worker's")]
    NameTaken(ToolName),
    /// The maximum number of workers is connected.
    #[error("{max_workers} workers are already connected, the limit of workers.max_workers")]
    TooMany {
        /// The maximum number of connected workers.
        max_workers: usize,
    },
    /// The configuration disables workers.
    #[error("This sidecar accepts no workers: workers.enabled is false")]
    Disabled,
}

/// A worker that is registered, but whose connection is not served yet.
#[derive(Debug)]
pub struct WorkerRegistration {
    workers: Arc<Workers>,
    id: u64,
    calls: mpsc::Receiver<(Arc<WorkerTool>, Box<WorkerJob>)>,
}

impl Workers {
    /// Creates an empty set of workers.
    pub fn new(
        registry: Arc<ToolRegistry>,
        listener: Arc<dyn ToolListener>,
        events: Arc<EventBus>,
        section: WorkersSection,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak_self| Self {
            registry,
            listener,
            events,
            section: RwLock::new(section),
            state: Mutex::default(),
            weak_self: Weak::clone(weak_self),
        })
    }

    /// Applies a new configuration. Workers that are already connected stay connected.
    pub fn reconfigure(&self, section: &WorkersSection) {
        self.section.write().clone_from(section);
    }

    /// Registers a worker and its tools.
    ///
    /// # Errors
    /// [`WorkerRejection`]: workers are disabled, too many workers are connected, or a tool cannot
    /// be registered. After an error, nothing has changed.
    pub fn admit(
        self: &Arc<Self>,
        registration: CheckedRegistration,
        pid: Option<i32>,
    ) -> Result<WorkerRegistration, WorkerRejection> {
        let section = self.section.read().clone();
        if !section.enabled {
            return Err(WorkerRejection::Disabled);
        }
        let CheckedRegistration { name, tools } = registration;
        let mut state = self.state.lock();
        let max_workers = section.max_workers.get();
        if state.workers.len() >= max_workers {
            return Err(WorkerRejection::TooMany { max_workers });
        }
        for CheckedWorkerTool { tool, .. } in &tools {
            tool.set_workers(&self.weak_self);
        }
        self.register_new_tools(&state, &tools)?;
        // A capacity of 1 is enough, because a worker gets a call only while it is idle.
        let (inbox, calls) = mpsc::channel(1);
        state.last_id += 1;
        let id = state.last_id;
        let mut changes = ToolChanges::default();
        let mut worker_tools = HashMap::new();
        for tool in tools {
            self.offer_tool(&mut state, &tool, &mut changes);
            if let Some(offered_tool) = state.tools.get_mut(tool.tool.name()) {
                offered_tool.orphaned_by = None;
            }
            worker_tools.insert(tool.tool.name().clone(), tool);
        }
        tracing::info!(
            worker = name,
            worker.id = id,
            pid,
            tools = worker_tools.len(),
            "A worker connected"
        );
        let worker = Worker {
            name,
            pid,
            tools: worker_tools,
            inbox,
            idle_since: None,
            is_draining: false,
            calls: 0,
        };
        state.workers.insert(id, worker);
        drop(state);
        self.publish_changes(changes);
        let workers = Arc::clone(self);
        Ok(WorkerRegistration { workers, id, calls })
    }

    /// Registers those of `tools` that are not registered for another worker yet. If one of them
    /// cannot be registered, registers none. Calls of these tools wait until `state` is unlocked.
    fn register_new_tools(
        &self,
        state: &State,
        tools: &[CheckedWorkerTool],
    ) -> Result<(), WorkerRejection> {
        let is_new = |tool: &&CheckedWorkerTool| !state.tools.contains_key(tool.tool.name());
        let new_tools: Vec<_> = tools.iter().filter(is_new).collect();
        // The registry is searched, because the name may be an alias of another tool.
        let mut names = new_tools.iter().map(|tool| tool.tool.name());
        if let Some(name) = names.find(|name| self.registry.is_taken(name.as_str())) {
            return Err(WorkerRejection::NameTaken(name.clone()));
        }
        for (index, new_tool) in new_tools.iter().enumerate() {
            let registered_tool = Arc::clone(&new_tool.registered_tool);
            if let Err(error) = self.registry.register_checked(registered_tool, |_| false) {
                // The tools registered before the error are removed, so that a rejected worker
                // leaves no tools in the registry.
                for earlier_tool in &new_tools[..index] {
                    self.registry.unregister(earlier_tool.tool.name().as_str());
                }
                return Err(match error {
                    RegistryError::AlreadyRegistered(name) => WorkerRejection::NameTaken(name),
                    error => RegistrationError::Schema(error).into(),
                });
            }
        }
        Ok(())
    }

    /// Publishes changes of tools, if any.
    fn publish_changes(&self, changes: ToolChanges) {
        if !changes.is_empty() {
            self.listener.tools_changed();
            changes.publish(None, &self.registry, &self.events);
        }
    }

    /// Adds a worker's tool, or replaces the worker tool of the same name if its definition
    /// differs.
    fn offer_tool(
        &self,
        state: &mut State,
        checked_tool: &CheckedWorkerTool,
        changes: &mut ToolChanges,
    ) {
        let tool = &checked_tool.tool;
        match state.tools.get_mut(tool.name()) {
            Some(offered_tool) if offered_tool.tool.is_same(tool) => {}
            Some(offered_tool) => {
                let registered_tool = Arc::clone(&checked_tool.registered_tool);
                self.registry.replace_checked(registered_tool);
                if offered_tool.tool.invalidates_calls_of(tool) {
                    for (_, job) in offered_tool.waiting_calls.drain(..) {
                        drop(job.reply.send(Err(tool.changed_failure())));
                    }
                }
                offered_tool.tool = Arc::clone(tool);
                changes.changed_names.push(tool.name().to_string());
            }
            None => {
                let offered_tool = OfferedTool {
                    tool: Arc::clone(tool),
                    waiting_calls: VecDeque::new(),
                    orphaned_by: None,
                };
                state.tools.insert(tool.name().clone(), offered_tool);
                changes.added_names.push(tool.name().to_string());
            }
        }
    }

    /// Gives the call to the worker that has been idle for the longest time, or queues the call.
    fn submit(&self, tool: &WorkerTool, mut job: Box<WorkerJob>) -> Result<(), ToolFailure> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(offered_tool) = state.tools.get_mut(tool.name()) else {
            let message = format!("No connected worker offers tool '{}'", tool.name());
            return Err(ToolFailure::new(ErrorCode::Unavailable, message));
        };
        if offered_tool.tool.invalidates_calls_of(tool) {
            return Err(tool.changed_failure());
        }
        let idle_workers = state
            .workers
            .values_mut()
            .filter(|worker| worker.idle_since.is_some() && worker.has_tool(&offered_tool.tool));
        if let Some(worker) = idle_workers.min_by_key(|worker| worker.idle_since) {
            match worker.assign(&offered_tool.tool, job) {
                Ok(()) => return Ok(()),
                // The worker has just disconnected, so the job is queued.
                Err(returned_job) => job = returned_job,
            }
        }
        offered_tool
            .waiting_calls
            .retain(|(_, job)| !job.reply.is_closed());
        if offered_tool.waiting_calls.len() >= MAX_WAITING_CALLS {
            let message = format!(
                "{MAX_WAITING_CALLS} calls to tool '{}' are already waiting for a worker",
                tool.name()
            );
            return Err(ToolFailure::new(ErrorCode::Unavailable, message));
        }
        state.last_job += 1;
        offered_tool.waiting_calls.push_back((state.last_job, job));
        Ok(())
    }

    /// Marks a worker as idle, and gives it the call that has waited for the longest time.
    fn mark_idle(&self, id: u64) {
        let mut state = self.state.lock();
        if let Some(worker) = state.workers.get_mut(&id) {
            worker.idle_since = (!worker.is_draining).then(Instant::now);
            state.assign_waiting_call(id);
        }
    }

    /// Marks a worker as draining, so that it gets no more calls.
    fn mark_draining(&self, id: u64) {
        if let Some(worker) = self.state.lock().workers.get_mut(&id) {
            worker.is_draining = true;
            worker.idle_since = None;
        }
    }

    /// Removes a worker. A tool that no other worker offers stays registered for a grace period.
    fn remove_worker(&self, id: u64) {
        let mut state = self.state.lock();
        let Some(worker) = state.workers.shift_remove(&id) else {
            return;
        };
        tracing::info!(
            worker = worker.name,
            worker.id = id,
            calls = worker.calls,
            "A worker disconnected"
        );
        let mut changes = ToolChanges::default();
        let mut orphaned_names = Vec::new();
        for name in worker.tools.keys() {
            let Some(offered_tool) = state.tools.get(name) else {
                continue;
            };
            let mut workers = state.workers.values();
            if workers.any(|worker| worker.has_tool(&offered_tool.tool)) {
                continue;
            }
            let mut other_workers = state.workers.values().rev();
            match other_workers.find_map(|worker| worker.tools.get(name).cloned()) {
                Some(other_tool) => self.offer_tool(&mut state, &other_tool, &mut changes),
                None => orphaned_names.push(name.clone()),
            }
        }
        for name in &orphaned_names {
            if let Some(offered_tool) = state.tools.get_mut(name) {
                offered_tool.orphaned_by = Some(id);
            }
        }
        if !changes.changed_names.is_empty() {
            // The idle workers are examined again, because they may have the tools of waiting calls
            // now.
            let ids: Vec<u64> = state.workers.keys().copied().collect();
            ids.into_iter().for_each(|id| state.assign_waiting_call(id));
        }
        drop(state);
        self.publish_changes(changes);
        if !orphaned_names.is_empty() {
            let (weak_workers, grace_period) =
                (Weak::clone(&self.weak_self), self.section.read().grace);
            tokio::spawn(async move {
                pillion_deadline::sleep(grace_period).await;
                if let Some(workers) = weak_workers.upgrade() {
                    workers.withdraw(&orphaned_names, id);
                }
            });
        }
    }

    /// Unregisters those tools that have had no worker since the worker `last_worker_id`
    /// disconnected.
    fn withdraw(&self, names: &[ToolName], last_worker_id: u64) {
        let mut state = self.state.lock();
        let mut withdrawn_tools = Vec::new();
        for name in names {
            let offered_tool = state.tools.get(name);
            // A tool is skipped if another worker has offered it since then: that worker is still
            // connected, or its own grace period is running.
            if offered_tool.is_none_or(|tool| tool.orphaned_by != Some(last_worker_id)) {
                continue;
            }
            if let Some(offered_tool) = state.tools.remove(name) {
                self.registry.unregister(name.as_str());
                withdrawn_tools.push(offered_tool);
            }
        }
        drop(state);
        let names = withdrawn_tools
            .iter()
            .map(|withdrawn_tool: &OfferedTool| withdrawn_tool.tool.name().to_string());
        self.publish_changes(ToolChanges {
            removed_names: names.collect(),
            ..ToolChanges::default()
        });
        for withdrawn_tool in withdrawn_tools {
            let tool = &withdrawn_tool.tool;
            tracing::warn!(
                tool.name = %tool.name(),
                "Removed a tool: its last worker disconnected"
            );
            for (_, job) in withdrawn_tool.waiting_calls {
                let message = format!("No connected worker offers tool '{}'", tool.name());
                let failure = ToolFailure::new(ErrorCode::Unavailable, message);
                drop(job.reply.send(Err(failure)));
            }
        }
    }

    /// Returns the worker tool with this name, for `tools/list`.
    pub fn tool(&self, name: &ToolName) -> Option<Arc<WorkerTool>> {
        let state = self.state.lock();
        let offered_tool = state.tools.get(name)?;
        Some(Arc::clone(&offered_tool.tool))
    }

    /// Returns all workers, oldest first.
    pub fn reports(&self) -> Vec<WorkerReport> {
        let state = self.state.lock();
        let reports = state.workers.iter().map(|(id, worker)| {
            let mut tools: Vec<_> = worker.tools.keys().map(ToString::to_string).collect();
            tools.sort_unstable();
            WorkerReport {
                id: *id,
                name: worker.name.clone(),
                pid: worker.pid,
                tools,
                is_busy: worker.idle_since.is_none(),
                calls: worker.calls,
            }
        });
        reports.collect()
    }

    /// Returns the maximum size of one message, in bytes.
    pub fn max_message_bytes(&self) -> usize {
        self.section.read().max_message_bytes.get()
    }
}

impl WorkerRegistration {
    /// Returns the worker's ID.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for WorkerRegistration {
    fn drop(&mut self) {
        self.workers.remove_worker(self.id);
    }
}

#[cfg(test)]
mod tests;
