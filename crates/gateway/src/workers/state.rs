use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pillion_core::tool::ToolName;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::registration::CheckedWorkerTool;
use super::tool::{WorkerJob, WorkerTool};

/// The connected workers and the waiting calls.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The workers by ID, oldest first.
    pub(super) workers: indexmap::IndexMap<u64, Worker>,
    pub(super) tools: HashMap<ToolName, OfferedTool>,
    pub(super) last_id: u64,
    pub(super) last_job: u64,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) pid: Option<i32>,
    pub(super) tools: HashMap<ToolName, CheckedWorkerTool>,
    pub(super) inbox: mpsc::Sender<(Arc<WorkerTool>, Box<WorkerJob>)>,
    /// The time at which the worker became idle; `None` while it is busy or draining.
    pub(super) idle_since: Option<Instant>,
    pub(super) is_draining: bool,
    pub(super) calls: u64,
}

/// A registered tool that one or more workers offer or have offered.
#[derive(Debug)]
pub(super) struct OfferedTool {
    pub(super) tool: Arc<WorkerTool>,
    /// The waiting calls of the tool, each with a sequence number that orders the waiting calls of
    /// all tools by arrival.
    pub(super) waiting_calls: VecDeque<(u64, Box<WorkerJob>)>,
    /// The ID of the tool's last worker, if that worker has disconnected and no other worker has
    /// the tool; `None` while a worker has the tool.
    pub(super) orphaned_by: Option<u64>,
}

impl State {
    /// Sends the worker with this ID, if it is idle, the oldest waiting call of its tools.
    pub(super) fn assign_waiting_call(&mut self, id: u64) {
        let known_worker = self.workers.get_mut(&id);
        let Some(worker) = known_worker.filter(|worker| worker.idle_since.is_some()) else {
            return;
        };
        loop {
            let offered_tools = self
                .tools
                .values_mut()
                .filter(|offered| worker.has_tool(&offered.tool));
            let oldest_tool = offered_tools.min_by_key(|offered| {
                offered
                    .waiting_calls
                    .front()
                    .map_or(u64::MAX, |(number, _)| *number)
            });
            let Some((offered_tool, (_, job))) = oldest_tool.and_then(|offered| {
                let job = offered.waiting_calls.pop_front()?;
                Some((offered, job))
            }) else {
                return;
            };
            if !job.reply.is_closed() {
                // Sending never fails: a worker is removed from `workers` before its receiver is
                // dropped.
                drop(worker.assign(&offered_tool.tool, job));
                return;
            }
        }
    }
}

impl Worker {
    /// Returns whether the worker offers `tool` with an equal definition.
    pub(super) fn has_tool(&self, tool: &WorkerTool) -> bool {
        let worker_tool = self.tools.get(tool.name());
        worker_tool.is_some_and(|worker_tool| worker_tool.tool.is_same(tool))
    }

    pub(super) fn assign(
        &mut self,
        tool: &Arc<WorkerTool>,
        job: Box<WorkerJob>,
    ) -> Result<(), Box<WorkerJob>> {
        self.idle_since = None;
        self.calls += 1;
        let result = self.inbox.try_send((Arc::clone(tool), job));
        result.map_err(|error| error.into_inner().1)
    }
}
