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

use crate::events::{Bus, ToolChanges, ToolListener};
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
    events: Arc<Bus>,
    settings: watch::Sender<WasmToolsSection>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    offered: HashMap<ToolName, Arc<WasmTool>>,
    faults: Vec<InvalidTool>,
}

impl WasmTools {
    /// Creates the tools, which are registered after [`start`](Self::start).
    pub fn new(
        registry: Arc<ToolRegistry>,
        listener: Arc<dyn ToolListener>,
        events: Arc<Bus>,
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
    /// to `STARTUP_TIMEOUT` for the first check.
    pub async fn start(self: &Arc<Self>) {
        let settings = self.settings.subscribe();
        let has_folder = settings.borrow().folder.is_some();
        let (checked, first_check) = oneshot::channel();
        tokio::spawn(watch_folder(Arc::downgrade(self), settings, checked));
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
        let mut faults: Vec<_> = folder.faults().into_iter().map(faulty).collect();
        let tools = folder.tools();
        let before = std::mem::take(&mut state.offered);
        for (name, tool) in &before {
            let is_there = tools.iter().any(|now| now.definition().name() == name);
            if !is_there && self.is_registered(tool) {
                self.registry.unregister(name.as_str());
                changes.removed.push(name.to_string());
            }
        }
        for tool in tools {
            let name = tool.definition().name().clone();
            let before = before
                .get(&name)
                .filter(|before| self.is_registered(before));
            let registered = match before {
                Some(before) if Arc::ptr_eq(before, &tool) => Ok(()),
                Some(_) => self
                    .registry
                    .replace(Arc::<WasmTool>::clone(&tool))
                    .map(|_| changes.changed.push(name.to_string())),
                None => self
                    .registry
                    .register_preferred(Arc::<WasmTool>::clone(&tool), |holder| {
                        holder.origin().is_mcp()
                    })
                    .map(|_| changes.added.push(name.to_string())),
            };
            match registered {
                Ok(()) => drop(state.offered.insert(name, tool)),
                Err(error) => faults.push(unregistered(&name, &error)),
            }
        }
        for fault in &faults {
            if !state.faults.contains(fault) {
                let InvalidTool {
                    tool,
                    code,
                    error,
                    previous_version_offered,
                } = fault;
                tracing::warn!(
                    tool.name = tool,
                    code,
                    error,
                    previous_version_offered,
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
            added = changes.added.join(" "),
            removed = changes.removed.join(" "),
            changed = changes.changed.join(" "),
            "WebAssembly tools changed"
        );
        self.listener.tools_changed();
        changes.publish(None, &self.registry, &self.events);
    }

    /// Returns whether `tool` is registered under its name.
    fn is_registered(&self, tool: &Arc<WasmTool>) -> bool {
        let registered = self.registry.get(tool.definition().name().as_str());
        registered.is_some_and(|registered| {
            std::ptr::addr_eq(Arc::as_ptr(registered.tool()), Arc::as_ptr(tool))
        })
    }
}

/// Checks the folder at intervals, and compiles its files in the background, so that removed tools
/// and revoked permissions apply in the meantime.
async fn watch_folder(
    tools: Weak<WasmTools>,
    mut settings: watch::Receiver<WasmToolsSection>,
    checked: oneshot::Sender<()>,
) {
    let mut folder: Option<WasmFolder> = None;
    let mut queue = CompileQueue::default();
    let mut checked = Some(checked);
    let mut due = interval(CHECK_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_watched = folder.is_some() || settings.borrow().folder.is_some();
        let mut progress = None;
        tokio::select! {
            changed = settings.changed() => if changed.is_err() {
                return;
            },
            next = queue.next() => progress = Some(next),
            _ = due.tick(), if is_watched => {}
        }
        let Some(tools) = tools.upgrade() else {
            return;
        };
        let section = settings.borrow_and_update().clone();
        let has_folder = section.folder.is_some();
        let mut now = match folder.take() {
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
            Some(CompileProgress::Finished(taken_up)) => now.apply_loaded(*taken_up),
            Some(CompileProgress::Panicked(name)) => now.mark_failed(&name),
            Some(CompileProgress::Late(name)) => now.mark_slow(&name),
            None => {
                // Revoked permissions apply before the folder is read.
                tools.apply(&now);
                search(&mut now).await;
            }
        }
        tools.apply(&now);
        if queue.has_room()
            && let Some(file) = now.next_file()
        {
            queue.begin(file);
        }
        if !queue.is_awaited()
            && let Some(checked) = checked.take()
        {
            // The receiver may have timed out.
            let _ = checked.send(());
        }
        folder = Some(now).filter(|_| has_folder);
    }
}

/// Searches the folder for files. A failed search is repeated at the next check.
async fn search(folder: &mut WasmFolder) {
    let search = folder.search();
    match spawn_blocking(move || search.run()).await {
        Ok(found) => folder.apply_search(found),
        Err(error) => {
            tracing::error!(%error, "Reading the folder of WebAssembly tools failed unexpectedly");
        }
    }
}

fn faulty(fault: pillion_wasm_tools::WasmFileError) -> InvalidTool {
    InvalidTool {
        tool: fault.tool,
        code: fault.error.code.to_string(),
        error: fault.error.what,
        previous_version_offered: fault.previous_version_offered,
    }
}

fn unregistered(name: &ToolName, error: &RegistryError) -> InvalidTool {
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
