use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pillion_client::Client;
use pillion_config::Config;
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{
    FnTool, ParameterType, Tool, ToolDefinition, ToolFailure, ToolOutput, ToolParameter,
};
use pillion_sidecar::app::App;
use pillion_sidecar::server::ShutdownOutcome;
use pillion_sidecar::socket::Socket;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A sidecar in this process, with a separate socket, the built-in tools, and those of
/// [`test_tools`].
pub struct Sidecar {
    _directory: TempDir,
    pub socket: PathBuf,
    /// The number of started calls of `sleep`.
    pub sleeps_begun: Arc<AtomicUsize>,
    /// The number of finished calls of `sleep`, whatever their outcome.
    pub sleeps_ended: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<ShutdownOutcome>>,
}

impl Sidecar {
    /// Starts a sidecar with the default configuration.
    pub fn start() -> Self {
        Self::with_config("")
    }

    /// Starts a sidecar with this configuration.
    pub fn with_config(toml: &str) -> Self {
        let config = Config::parse(toml, "test.toml").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("pillion.sock");
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let sleeps_begun = Arc::new(AtomicUsize::new(0));
        let sleeps_ended = Arc::new(AtomicUsize::new(0));
        let registry = registry(&sleeps_begun, &sleeps_ended);
        let path = socket.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let app = App::build(&config, registry, None);
                let (listener, guard) = Socket::bind(&path, None).await.unwrap().into_parts();
                ready.send(()).unwrap();
                let until = async { drop(stopped.await) };
                let drained =
                    pillion_sidecar::server::run(listener, app, config.shutdown.grace, until);
                let drained = drained.await.unwrap();
                guard.remove().unwrap();
                drained
            })
        });
        is_ready.recv().unwrap();
        Self {
            _directory: directory,
            socket,
            sleeps_begun,
            sleeps_ended,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn client(&self) -> Client {
        Client::builder(&self.socket)
            .timeout(Duration::from_secs(30))
            .build()
    }

    /// Waits until this many calls of `sleep` have started.
    pub fn wait_for_sleeps(&self, count: usize) {
        crate::program::eventually("the calls have begun", || {
            self.sleeps_begun.load(Ordering::SeqCst) >= count
        });
    }

    /// Stops the sidecar; [`end`](Self::end) waits for the end.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended already.
            let _ = stop.send(());
        }
    }

    pub fn end(mut self) -> ShutdownOutcome {
        self.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Increments a counter when it is dropped.
struct CountsItsEnd(Arc<AtomicUsize>);

impl Drop for CountsItsEnd {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn registry(sleeps_begun: &Arc<AtomicUsize>, sleeps_ended: &Arc<AtomicUsize>) -> Arc<ToolRegistry> {
    let registry = pillion_gateway::tools::registry().unwrap();
    for tool in test_tools(sleeps_begun, sleeps_ended) {
        registry.register(tool).unwrap();
    }
    registry
}

/// Returns the test tools `sleep(ms)`, `panic()`, `who()`, `both()` and `reject()`.
fn test_tools(
    sleeps_begun: &Arc<AtomicUsize>,
    sleeps_ended: &Arc<AtomicUsize>,
) -> [Arc<dyn Tool>; 5] {
    let define = |name: &str| ToolDefinition::builder(name, format!("The tool {name}"));
    let sleep = define("sleep")
        .category("test")
        .parameter(ToolParameter::new("ms", ParameterType::Integer));
    let begun = Arc::clone(sleeps_begun);
    let ended = Arc::clone(sleeps_ended);
    [
        Arc::new(FnTool::new(sleep.build().unwrap(), move |arguments, _| {
            begun.fetch_add(1, Ordering::SeqCst);
            let end = CountsItsEnd(Arc::clone(&ended));
            async move {
                let _end = end;
                let ms = arguments["ms"].as_u64().unwrap();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(ToolOutput::text("slept"))
            }
        })),
        Arc::new(FnTool::new(
            define("panic").build().unwrap(),
            |_, _| async { panic!("with a secret inside") },
        )),
        Arc::new(FnTool::new(
            define("who").build().unwrap(),
            |_, context| async move {
                Ok(ToolOutput::value(json!({
                    "user": context.user,
                    "channel": context.channel,
                    "call_id": context.call_id,
                })))
            },
        )),
        Arc::new(FnTool::new(define("both").build().unwrap(), |_, _| async {
            let output = ToolOutput::text("for the model").with_data(json!({"for": "programs"}));
            Ok(output.with_metadata("source", json!("test")))
        })),
        Arc::new(FnTool::new(
            define("refuse").build().unwrap(),
            |_, _| async {
                Err(ToolFailure::invalid_input("No, thank you").with_result(json!({"kept": true})))
            },
        )),
    ]
}
