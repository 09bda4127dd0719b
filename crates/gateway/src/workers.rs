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

use crate::events::{Bus, ToolChanges, ToolListener};
pub use connection::ended;
use pillion_config::WorkersSection;
use registration::CheckedWorkerTool;
pub use registration::{CheckedRegistration, Registration, RegistrationError};
use state::{Offered, State, Worker};
use tool::WorkerJob;
pub(crate) use tool::WorkerTool;

/// Maximum number of calls of one tool that wait for a worker.
const MAX_WAITING: usize = 10_000;

/// All connected workers and their tools.
#[derive(Debug)]
pub struct Workers {
    registry: Arc<ToolRegistry>,
    listener: Arc<dyn ToolListener>,
    events: Arc<Bus>,
    section: RwLock<WorkersSection>,
    state: Mutex<State>,
    this: Weak<Self>,
}

/// The public state of a worker.
#[derive(Debug)]
pub struct WorkerReport {
    /// The worker's id.
    pub id: u64,
    /// The worker's name.
    pub name: String,
    /// The id of the worker's process, if the socket tells it.
    pub pid: Option<i32>,
    /// The names of the worker's tools.
    pub tools: Vec<String>,
    /// Whether the worker runs a call.
    pub is_busy: bool,
    /// The number of calls that the worker was given.
    pub calls: u64,
}

/// Why a worker is rejected.
#[derive(Debug, thiserror::Error)]
pub enum WorkerRejection {
    /// The registration is invalid.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The name belongs to a tool that no worker offers.
    #[error("The tool name '{0}' is already used by a tool that no worker offers")]
    NameTaken(ToolName),
    /// The maximum number of workers is connected.
    #[error("{max} workers are already connected, the limit of workers.max_workers")]
    TooMany {
        /// The maximum number of connected workers.
        max: usize,
    },
    /// The configuration disables workers.
    #[error("This sidecar accepts no workers: workers.enabled is false")]
    Disabled,
}

/// The registration of a worker, before its connection is served.
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
        events: Arc<Bus>,
        section: WorkersSection,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            registry,
            listener,
            events,
            section: RwLock::new(section),
            state: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Applies a new configuration. Workers that are already connected stay.
    pub fn reconfigure(&self, section: &WorkersSection) {
        self.section.write().clone_from(section);
    }

    /// Registers a worker and its tools.
    ///
    /// # Errors
    /// [`WorkerRejection`]; then nothing has changed.
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
        let max = section.max_workers.get();
        if state.workers.len() >= max {
            return Err(WorkerRejection::TooMany { max });
        }
        for CheckedWorkerTool { tool, .. } in &tools {
            tool.belongs_to(&self.this);
        }
        self.claim(&state, &tools)?;
        // An idle worker is given one call, and is busy until it has finished the call.
        let (inbox, calls) = mpsc::channel(1);
        state.last_id += 1;
        let id = state.last_id;
        let mut changes = ToolChanges::default();
        let mut own = HashMap::new();
        for tool in tools {
            self.offer(&mut state, &tool, &mut changes);
            if let Some(offered) = state.tools.get_mut(tool.tool.name()) {
                offered.orphaned_by = None;
            }
            own.insert(tool.tool.name().clone(), tool);
        }
        tracing::info!(
            worker = name,
            worker.id = id,
            pid,
            tools = own.len(),
            "A worker connected"
        );
        let worker = Worker {
            name,
            pid,
            tools: own,
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

    /// Registers those of `tools` whose names no worker has yet, so that no other tool takes their
    /// names; registers none if one fails. Calls of these tools wait until `state` is unlocked.
    fn claim(&self, state: &State, tools: &[CheckedWorkerTool]) -> Result<(), WorkerRejection> {
        let is_new = |tool: &&CheckedWorkerTool| !state.tools.contains_key(tool.tool.name());
        let new: Vec<_> = tools.iter().filter(is_new).collect();
        // The name may be an alias.
        let is_taken =
            |tool: &&&CheckedWorkerTool| self.registry.is_taken(tool.tool.name().as_str());
        if let Some(taken) = new.iter().find(is_taken) {
            return Err(WorkerRejection::NameTaken(taken.tool.name().clone()));
        }
        for (index, CheckedWorkerTool { registered, .. }) in new.iter().enumerate() {
            let registered = Arc::clone(registered);
            if let Err(error) = self.registry.register_checked(registered, |_| false) {
                // Another tool was registered in the meantime.
                for claimed in &new[..index] {
                    self.registry.unregister(claimed.tool.name().as_str());
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
    fn offer(&self, state: &mut State, checked: &CheckedWorkerTool, changes: &mut ToolChanges) {
        let CheckedWorkerTool { tool, registered } = checked;
        match state.tools.get_mut(tool.name()) {
            Some(offered) if offered.tool.is_same(tool) => {}
            Some(offered) => {
                self.registry.replace_checked(Arc::clone(registered));
                if offered.tool.invalidates_calls_of(tool) {
                    for (_, job) in offered.waiting.drain(..) {
                        drop(job.reply.send(Err(tool.has_changed())));
                    }
                }
                offered.tool = Arc::clone(tool);
                changes.changed.push(tool.name().to_string());
            }
            None => {
                let offered = Offered {
                    tool: Arc::clone(tool),
                    waiting: VecDeque::new(),
                    orphaned_by: None,
                };
                state.tools.insert(tool.name().clone(), offered);
                changes.added.push(tool.name().to_string());
            }
        }
    }

    /// Gives the call to the worker that has been idle for the longest time, or queues the call.
    fn submit(&self, tool: &WorkerTool, mut job: Box<WorkerJob>) -> Result<(), ToolFailure> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(offered) = state.tools.get_mut(tool.name()) else {
            let message = format!("No connected worker offers tool '{}'", tool.name());
            return Err(ToolFailure::new(ErrorCode::Unavailable, message));
        };
        if offered.tool.invalidates_calls_of(tool) {
            return Err(tool.has_changed());
        }
        let idle = state
            .workers
            .values_mut()
            .filter(|worker| worker.idle_since.is_some() && worker.has(&offered.tool));
        if let Some(worker) = idle.min_by_key(|worker| worker.idle_since) {
            match worker.give(&offered.tool, job) {
                Ok(()) => return Ok(()),
                // The worker has just disconnected.
                Err(back) => job = back,
            }
        }
        offered.waiting.retain(|(_, job)| !job.reply.is_closed());
        if offered.waiting.len() >= MAX_WAITING {
            let message = format!(
                "{MAX_WAITING} calls to tool '{}' are already waiting for a worker",
                tool.name()
            );
            return Err(ToolFailure::new(ErrorCode::Unavailable, message));
        }
        state.last_job += 1;
        offered.waiting.push_back((state.last_job, job));
        Ok(())
    }

    /// Marks a worker as idle, and gives it the call that has waited for the longest time.
    fn mark_idle(&self, id: u64) {
        let mut state = self.state.lock();
        if let Some(worker) = state.workers.get_mut(&id) {
            worker.idle_since = (!worker.is_draining).then(Instant::now);
            state.feed(id);
        }
    }

    /// Marks a worker as draining, so that it gets no more calls.
    fn mark_draining(&self, id: u64) {
        if let Some(worker) = self.state.lock().workers.get_mut(&id) {
            worker.is_draining = true;
            worker.idle_since = None;
        }
    }

    /// Removes a worker. Tools that no other worker has stay registered for a grace period.
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
        let mut orphans = Vec::new();
        for name in worker.tools.keys() {
            let Some(offered) = state.tools.get(name) else {
                continue;
            };
            if state
                .workers
                .values()
                .any(|worker| worker.has(&offered.tool))
            {
                continue;
            }
            let others = state.workers.values().rev();
            match others
                .filter_map(|worker| worker.tools.get(name))
                .next()
                .cloned()
            {
                Some(other) => self.offer(&mut state, &other, &mut changes),
                None => orphans.push(name.clone()),
            }
        }
        for name in &orphans {
            if let Some(offered) = state.tools.get_mut(name) {
                offered.orphaned_by = Some(id);
            }
        }
        if !changes.changed.is_empty() {
            // Waiting calls may now fit idle workers.
            let ids: Vec<u64> = state.workers.keys().copied().collect();
            ids.into_iter().for_each(|id| state.feed(id));
        }
        drop(state);
        self.publish_changes(changes);
        if !orphans.is_empty() {
            let (this, grace) = (Weak::clone(&self.this), self.section.read().grace);
            tokio::spawn(async move {
                pillion_deadline::sleep(grace).await;
                if let Some(workers) = this.upgrade() {
                    workers.withdraw(&orphans, id);
                }
            });
        }
    }

    /// Unregisters those tools that have had no worker since the worker `last_worker` disconnected.
    fn withdraw(&self, names: &[ToolName], last_worker: u64) {
        let mut state = self.state.lock();
        let mut withdrawn = Vec::new();
        for name in names {
            let offered = state.tools.get(name);
            // In all other cases a worker has or had the tool since, so a later grace period
            // applies.
            if offered.is_none_or(|offered| offered.orphaned_by != Some(last_worker)) {
                continue;
            }
            if let Some(offered) = state.tools.remove(name) {
                self.registry.unregister(name.as_str());
                withdrawn.push(offered);
            }
        }
        drop(state);
        let names = withdrawn
            .iter()
            .map(|it: &Offered| it.tool.name().to_string());
        self.publish_changes(ToolChanges {
            removed: names.collect(),
            ..ToolChanges::default()
        });
        for Offered { tool, waiting, .. } in withdrawn {
            tracing::warn!(
                tool.name = %tool.name(),
                "Removed a tool: its last worker disconnected"
            );
            for (_, job) in waiting {
                let message = format!("No connected worker offers tool '{}'", tool.name());
                drop(
                    job.reply
                        .send(Err(ToolFailure::new(ErrorCode::Unavailable, message))),
                );
            }
        }
    }

    /// Returns the worker tool with this name, for `tools/list`.
    pub fn listed(&self, name: &ToolName) -> Option<Arc<WorkerTool>> {
        let state = self.state.lock();
        state
            .tools
            .get(name)
            .map(|offered| Arc::clone(&offered.tool))
    }

    /// Returns all workers, oldest first.
    pub fn reports(&self) -> Vec<WorkerReport> {
        let state = self.state.lock();
        let workers = state.workers.iter();
        workers
            .map(|(id, worker)| {
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
            })
            .collect()
    }

    /// Returns the maximum size of one message, in bytes.
    pub fn max_message_bytes(&self) -> usize {
        self.section.read().max_message_bytes.get()
    }
}

impl WorkerRegistration {
    /// Returns the worker's id.
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
