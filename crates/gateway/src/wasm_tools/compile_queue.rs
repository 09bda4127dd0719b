use futures_util::StreamExt;
use futures_util::future::{BoxFuture, pending};
use futures_util::stream::FuturesUnordered;
use pillion_wasm_tools::{LoadedFile, PendingFile};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// Maximum number of files that are compiled concurrently, including overdue ones. Compiling uses a
/// CPU and much memory, and cannot be aborted.
const MAX_CONCURRENT_FILES: usize = 3;

/// Compiles files on blocking threads, one after the other. A file that exceeds the time limit
/// no longer delays further files.
#[derive(Default)]
pub(super) struct CompileQueue {
    running_tasks: FuturesUnordered<BoxFuture<'static, (u64, CompileProgress)>>,
    awaited_file: Option<AwaitedFile>,
    started_count: u64,
}

/// The file that is being compiled, for which further files wait.
struct AwaitedFile {
    number: u64,
    name: String,
    deadline: Instant,
}

/// The progress of compiling a file.
pub(super) enum CompileProgress {
    /// The file was compiled, successfully or not.
    Finished(Box<LoadedFile>),
    /// Compiling the file with this name panicked.
    Panicked(String),
    /// Compiling the file with this name exceeds the time limit. The compilation continues, and no
    /// longer delays other files.
    Overdue(String),
}

impl CompileQueue {
    /// Returns whether the queue can start to compile another file.
    pub(super) fn has_room(&self) -> bool {
        self.awaited_file.is_none() && self.running_tasks.len() < MAX_CONCURRENT_FILES
    }

    /// Returns whether a file is being compiled that further files wait for.
    pub(super) fn has_awaited_file(&self) -> bool {
        self.awaited_file.is_some()
    }

    pub(super) fn start(&mut self, file: PendingFile) {
        self.started_count += 1;
        let (number, name) = (self.started_count, file.name().to_owned());
        self.awaited_file = Some(AwaitedFile {
            number,
            name: name.clone(),
            deadline: Instant::now() + file.load_timeout(),
        });
        let task = spawn_blocking(move || file.load());
        self.running_tasks.push(Box::pin(async move {
            let progress = match task.await {
                Ok(file) => CompileProgress::Finished(Box::new(file)),
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

    /// Waits until the compilation of a file finishes, panics or exceeds the time limit; never
    /// resolves if no file is being compiled.
    pub(super) async fn next(&mut self) -> CompileProgress {
        let awaited_file = self.awaited_file.as_ref();
        let deadline_and_name = awaited_file.map(|file| (file.deadline, file.name.clone()));
        let overdue_name = async move {
            let Some((deadline, name)) = deadline_and_name else {
                return pending().await;
            };
            sleep_until(deadline).await;
            name
        };
        tokio::select! {
            Some((number, progress)) = self.running_tasks.next() => {
                self.awaited_file = self.awaited_file.take().filter(|file| file.number != number);
                progress
            }
            name = overdue_name => {
                self.awaited_file = None;
                CompileProgress::Overdue(name)
            }
        }
    }
}
