use futures_util::StreamExt;
use futures_util::future::{BoxFuture, pending};
use futures_util::stream::FuturesUnordered;
use pillion_wasm_tools::{LoadedFile, PendingFile};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// Maximum number of files that are compiled concurrently, including late ones. Compiling uses a
/// CPU and much memory, and cannot be aborted.
const MAX_CONCURRENT: usize = 3;

/// Compiles files on blocking threads, one at a time. A late file no longer delays further files.
#[derive(Default)]
pub(super) struct CompileQueue {
    running: FuturesUnordered<BoxFuture<'static, (u64, CompileProgress)>>,
    awaited: Option<AwaitedFile>,
    begun: u64,
}

/// The file that is being compiled, for which further files wait.
struct AwaitedFile {
    number: u64,
    name: String,
    until: Instant,
}

/// The progress of compiling a file.
pub(super) enum CompileProgress {
    /// The file was compiled, successfully or not.
    Finished(Box<LoadedFile>),
    /// Compiling the file with this name panicked.
    Panicked(String),
    /// Compiling the file with this name takes too long, and continues beside further files.
    Late(String),
}

impl CompileQueue {
    /// Returns whether another file may start.
    pub(super) fn has_room(&self) -> bool {
        self.awaited.is_none() && self.running.len() < MAX_CONCURRENT
    }

    /// Returns whether a file is being compiled that further files wait for.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    pub(super) fn begin(&mut self, file: PendingFile) {
        self.begun += 1;
        let (number, name) = (self.begun, file.name().to_owned());
        self.awaited = Some(AwaitedFile {
            number,
            name: name.clone(),
            until: Instant::now() + file.load_timeout(),
        });
        let task = spawn_blocking(move || file.load());
        self.running.push(Box::pin(async move {
            let progress = match task.await {
                Ok(taken_up) => CompileProgress::Finished(Box::new(taken_up)),
                Err(error) => {
                    tracing::error!(
                        %error, tool.name = name,
                        "Loading a WebAssembly tool failed unexpectedly"
                    );
                    CompileProgress::Panicked(name)
                }
            };
            (number, progress)
        }));
    }

    /// Waits for the next progress of a file; never resolves without files.
    pub(super) async fn next(&mut self) -> CompileProgress {
        let awaited = self.awaited.as_ref();
        let deadline = awaited.map(|awaited| (awaited.until, awaited.name.clone()));
        let late = async move {
            let Some((until, name)) = deadline else {
                return pending().await;
            };
            sleep_until(until).await;
            name
        };
        tokio::select! {
            Some((number, progress)) = self.running.next() => {
                self.awaited = self.awaited.take().filter(|awaited| awaited.number != number);
                progress
            }
            name = late => {
                self.awaited = None;
                CompileProgress::Late(name)
            }
        }
    }
}
