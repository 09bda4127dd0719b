//! Tools that are WebAssembly components in a folder. The folder is checked at intervals: added,
//! replaced and removed files apply without a restart, and faulty files are reported wherever tools
//! are listed.

mod compile_queue;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pillion_core::registry::{RegistryError, ToolRegistry};
use pillion_core::tool::{Tool, ToolName};
use pillion_wasm_tools::{FaultCode, WasmFolder, WasmTool};
use pillion_wire::InvalidTool;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::events::{EventBus, ToolChanges, ToolListener};
use compile_queue::{CompileProgress, CompileQueue};
use pillion_config::WasmToolsSection;

/// Interval at which the folder is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that the sidecar waits for tools to be compiled before it serves without them.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The registered tools of the folder.
pub struct WasmTools {
    registry: Arc<ToolRegistry>,
    listener: Arc<dyn ToolListener>,
    events: Arc<EventBus>,
    settings: watch::Sender<WasmToolsSection>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    offered_tools: HashMap<ToolName, Arc<WasmTool>>,
    faults: Vec<InvalidTool>,
}

impl WasmTools {
    /// Creates the tools, which are registered after [`start`](Self::start).
    pub fn new(
        registry: Arc<ToolRegistry>,
        listener: Arc<dyn ToolListener>,
        events: Arc<EventBus>,
        section: &WasmToolsSection,
    ) -> Arc<Self> {
        Arc::new(Self {
            registry,
            listener,
            events,
            settings: watch::Sender::new(section.clone()),
            state: Mutex::default(),
        })
    }

    /// Sets the configuration, which applies after the next check of the folder.
    pub fn reconfigure(&self, section: &WasmToolsSection) {
        if *self.settings.borrow() != *section {
            self.settings.send_replace(section.clone());
        }
    }

    /// Registers the tools in the folder, and checks the folder until `self` is dropped. Waits up
    /// to 10 seconds for the first check.
    pub async fn start(self: &Arc<Self>) {
        let settings = self.settings.subscribe();
        let has_folder = settings.borrow().folder.is_some();
        let (first_check_sender, first_check) = oneshot::channel();
        let weak_tools = Arc::downgrade(self);
        tokio::spawn(watch_folder(weak_tools, settings, first_check_sender));
        if has_folder && timeout(STARTUP_TIMEOUT, first_check).await.is_err() {
            tracing::warn!(
                "Still compiling WebAssembly tools; each one is offered as soon as it is compiled"
            );
        }
    }

    /// Returns the faulty files in the folder.
    pub fn faults(&self) -> Vec<InvalidTool> {
        self.state.lock().faults.clone()
    }

    /// Registers and unregisters tools according to the folder.
    fn apply(&self, folder: &WasmFolder) {
        let mut state = self.state.lock();
        let mut changes = ToolChanges::default();
        let mut faults: Vec<_> = folder.faults().into_iter().map(to_invalid_tool).collect();
        let tools = folder.tools();
        let previous_tools = std::mem::take(&mut state.offered_tools);
        for (name, tool) in &previous_tools {
            let is_present = tools.iter().any(|tool| tool.definition().name() == name);
            if !is_present && self.is_registered(tool) {
                self.registry.unregister(name.as_str());
                changes.removed_names.push(name.to_string());
            }
        }
        for tool in tools {
            let name = tool.definition().name().clone();
            let known_tool = previous_tools.get(&name);
            let previous_tool = known_tool.filter(|tool| self.is_registered(tool));
            let result = match previous_tool {
                Some(previous_tool) if Arc::ptr_eq(previous_tool, &tool) => Ok(()),
                Some(_) => self
                    .registry
                    .replace(Arc::<WasmTool>::clone(&tool))
                    .map(|_| changes.changed_names.push(name.to_string())),
                None => self
                    .registry
                    .register_preferred(Arc::<WasmTool>::clone(&tool), |holder| {
                        holder.origin().is_mcp()
                    })
                    .map(|_| changes.added_names.push(name.to_string())),
            };
            match result {
                Ok(()) => drop(state.offered_tools.insert(name, tool)),
                Err(error) => faults.push(registration_fault(&name, &error)),
            }
        }
        for fault in &faults {
            if !state.faults.contains(fault) {
                tracing::warn!(
                    tool.name = fault.tool,
                    code = fault.code,
                    error = fault.error,
                    previous_version_offered = fault.previous_version_offered,
                    "Cannot use a WebAssembly tool"
                );
            }
        }
        state.faults = faults;
        drop(state);
        if changes.is_empty() {
            return;
        }
        tracing::info!(
            added = changes.added_names.join(" "),
            removed = changes.removed_names.join(" "),
            changed = changes.changed_names.join(" "),
            "WebAssembly tools changed"
        );
        self.listener.tools_changed();
        changes.publish(None, &self.registry, &self.events);
    }

    /// Returns whether `tool` is registered under its name.
    fn is_registered(&self, tool: &Arc<WasmTool>) -> bool {
        let holder = self.registry.get(tool.definition().name().as_str());
        holder
            .is_some_and(|holder| std::ptr::addr_eq(Arc::as_ptr(holder.tool()), Arc::as_ptr(tool)))
    }
}

/// Checks the folder at intervals, and compiles its files in the background, so that removals of
/// tools and revocations of permissions apply while files are compiled.
async fn watch_folder(
    tools: Weak<WasmTools>,
    mut settings: watch::Receiver<WasmToolsSection>,
    first_check_sender: oneshot::Sender<()>,
) {
    let mut folder: Option<WasmFolder> = None;
    let mut queue = CompileQueue::default();
    let mut pending_sender = Some(first_check_sender);
    let mut check_interval = interval(CHECK_INTERVAL);
    check_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_watched = folder.is_some() || settings.borrow().folder.is_some();
        let mut progress = None;
        tokio::select! {
            result = settings.changed() => if result.is_err() {
                return;
            },
            queue_progress = queue.next() => progress = Some(queue_progress),
            _ = check_interval.tick(), if is_watched => {}
        }
        let Some(tools) = tools.upgrade() else {
            return;
        };
        let section = settings.borrow_and_update().clone();
        let has_folder = section.folder.is_some();
        let mut current_folder = match folder.take() {
            Some(mut folder) => {
                folder.reconfigure(section);
                folder
            }
            None => match WasmFolder::new(section) {
                Ok(folder) => folder,
                Err(error) => {
                    tracing::error!(%error, "Cannot start the WebAssembly runtime");
                    return;
                }
            },
        };
        match progress {
            Some(CompileProgress::Finished(loaded_file)) => {
                current_folder.apply_loaded(*loaded_file);
            }
            Some(CompileProgress::Panicked(name)) => current_folder.mark_failed(&name),
            Some(CompileProgress::Overdue(name)) => current_folder.mark_slow(&name),
            None => {
                // The tools are updated before the folder is read, so that revoked permissions
                // apply at once.
                tools.apply(&current_folder);
                search_folder(&mut current_folder).await;
            }
        }
        tools.apply(&current_folder);
        if queue.has_room()
            && let Some(file) = current_folder.next_file()
        {
            queue.start(file);
        }
        if !queue.has_awaited_file()
            && let Some(sender) = pending_sender.take()
        {
            // An error is ignored: the receiver is dropped if the wait for the first check has
            // timed out.
            let _ = sender.send(());
        }
        folder = Some(current_folder).filter(|_| has_folder);
    }
}

/// Searches the folder for files. A failed search is repeated at the next check.
async fn search_folder(folder: &mut WasmFolder) {
    let search = folder.search();
    match spawn_blocking(move || search.run()).await {
        Ok(outcome) => folder.apply_search(outcome),
        Err(error) => {
            tracing::error!(%error, "Reading the folder of WebAssembly tools failed unexpectedly");
        }
    }
}

fn to_invalid_tool(fault: pillion_wasm_tools::WasmFileError) -> InvalidTool {
    InvalidTool {
        tool: fault.tool,
        code: fault.error.code.to_string(),
        error: fault.error.message,
        previous_version_offered: fault.previous_version_offered,
    }
}

fn registration_fault(name: &ToolName, error: &RegistryError) -> InvalidTool {
    let code = match error {
        RegistryError::AlreadyRegistered(_) => FaultCode::NameTaken,
        _ => FaultCode::BadDefinition,
    };
    InvalidTool {
        tool: Some(name.to_string()),
        code: code.to_string(),
        error: error.to_string(),
        previous_version_offered: false,
    }
}

impl std::fmt::Debug for WasmTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmTools").finish_non_exhaustive()
    }
}
