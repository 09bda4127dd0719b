//! Offloaded tool results: results that are too large for a response are stored in files, and
//! callers fetch them separately.
//!
//! The first line of a file is a JSON header with the result's owner. There is no other state, so
//! results outlive the process, and several processes may share the directory.

mod file;

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use pillion_config::{Config, ResultsSection};
use pillion_core::executor::{OversizedResult, ResultStore, StoreResultFuture, StoredResult};
use pillion_core::tool::{CallContext, ErrorCode, ToolFailure};
use pillion_deadline::timeout;
use pillion_wire::route;
use tokio::task::spawn_blocking;
use uuid::Uuid;

pub(crate) use file::{Header, OpenedResult};

/// Time after which an unfinished file is removed, because its process must have died.
pub(crate) const UNFINISHED_FILE_TTL: Duration = Duration::from_secs(600);

/// Maximum time for writing a result, including the wait for a blocking thread. The call's deadline
/// does not apply, because the call has already run.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum time between two checks of whether the directory can be written.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that a readiness check waits for the check of the directory.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Size of the file that a check writes, in bytes.
const TRIAL_BYTES: usize = 4 * 1024;

/// The URI prefix of offloaded results for MCP clients, followed by the result's ID.
pub const RESULT_URI_PREFIX: &str = "pillion://results/";

/// The directory of offloaded results. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ResultDirectory {
    path: Arc<PathBuf>,
    /// Locked while files are counted and written.
    write_lock: Arc<Mutex<()>>,
    health: Arc<DirectoryHealth>,
}

/// Stores and finds offloaded results according to one configuration.
#[derive(Debug, Clone)]
pub struct Results {
    directory: ResultDirectory,
    ttl: Duration,
    max_bytes: u64,
}

impl ResultDirectory {
    pub(crate) fn from_config(config: &Config) -> Option<Self> {
        Some(Self {
            path: Arc::new(config.results_directory()?),
            write_lock: Arc::default(),
            health: Arc::default(),
        })
    }

    pub(crate) fn with_section(&self, section: &ResultsSection) -> Results {
        Results {
            directory: self.clone(),
            ttl: section.ttl,
            max_bytes: section.max_bytes,
        }
    }

    /// Creates the directory of offloaded results if it does not exist.
    fn create(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(self.path.as_path())
    }

    /// Returns the files of results, complete or not.
    fn list_files(&self) -> io::Result<Vec<ResultFile>> {
        let entries = match fs::read_dir(self.path.as_path()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let Some(is_whole) = is_complete_result(&path) else {
                continue;
            };
            // The file is skipped, because another process may have removed it.
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            files.push(ResultFile {
                modified_at: metadata.modified()?,
                bytes: metadata.len(),
                is_whole,
                path,
            });
        }
        Ok(files)
    }

    /// Checks that the directory can be written: creates it if necessary, and writes and removes a
    /// file in it.
    fn try_write(&self) -> io::Result<()> {
        self.create()?;
        let name = Uuid::new_v4().simple().to_string() + file::UNFINISHED_SUFFIX;
        let path = self.path.join(name);
        let mut trial_file = file::create(&path)?;
        let result = trial_file.write_all(&[b' '; TRIAL_BYTES]);
        remove(&path)?;
        result
    }
}

/// A file with a result, or with a part of it while the result is being written.
struct ResultFile {
    path: PathBuf,
    modified_at: SystemTime,
    bytes: u64,
    /// Whether the result was written completely.
    is_whole: bool,
}

impl Results {
    /// Returns the result with this ID, unless it has expired.
    pub async fn find(&self, id: &str) -> io::Result<Option<OpenedResult>> {
        let Ok(id) = Uuid::try_parse(id) else {
            return Ok(None);
        };
        let results = self.clone();
        let find = move || {
            let path = results.path(id);
            match OpenedResult::open(&path) {
                Ok(result) if results.is_expired(result.modified_at) => Ok(None),
                Ok(result) => Ok(Some(result)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        spawn_blocking(find).await.map_err(io::Error::other)?
    }

    /// Returns the time for which results are stored.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Removes results that were stored before `stored_before`, and unfinished files last
    /// modified before `unfinished_before`.
    pub(crate) async fn clean_up(&self, stored_before: SystemTime, unfinished_before: SystemTime) {
        let results = self.clone();
        let clean_up = spawn_blocking(move || {
            let _write_guard = results.directory.write_lock.lock();
            for file in results.directory.list_files()? {
                let min_modified_at = if file.is_whole {
                    stored_before
                } else {
                    unfinished_before
                };
                if file.modified_at < min_modified_at {
                    remove(&file.path)?;
                }
            }
            Ok::<_, io::Error>(())
        });
        if let Ok(Err(error)) = clean_up.await {
            let directory = self.directory.path.display();
            tracing::warn!(%error, %directory, "Cannot remove old stored results");
        }
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.directory.path.join(id.simple().to_string())
    }

    fn is_expired(&self, modified_at: SystemTime) -> bool {
        // A file whose time is in the future counts as new, because the system clock may have been
        // set back.
        modified_at.elapsed().is_ok_and(|age| age >= self.ttl)
    }

    fn store_blocking(&self, result: &OversizedResult) -> io::Result<StoredResult> {
        let (content, media_type) = file::serialize_content(&result.output);
        let bytes = content.len() as u64;
        if bytes > self.max_bytes {
            return Err(io::Error::other(format!(
                "the result has {bytes} bytes, and results.max_bytes is {}",
                self.max_bytes
            )));
        }
        let header = Header {
            principal: result.context.principal.clone(),
            user: result.context.user.clone(),
            tool: result.tool.name().as_str().to_owned(),
            media_type: media_type.to_owned(),
        };
        let uuid = Uuid::new_v4();
        let _write_guard = self.directory.write_lock.lock();
        self.directory.create()?;
        self.free_space(bytes)?;
        file::write(&self.path(uuid), &header, &content)?;
        let id = uuid.simple().to_string();
        Ok(StoredResult {
            url: route::FETCH_RESULT.path_with([&id]),
            id,
            bytes,
            media_type: media_type.to_owned(),
        })
    }

    /// Removes the oldest results until there is room for `bytes` bytes. If there is room already,
    /// even expired results stay stored, because the system clock may be wrong.
    fn free_space(&self, bytes: u64) -> io::Result<()> {
        let mut files = self.directory.list_files()?;
        files.sort_by_cached_key(|file| (file.modified_at, file.path.clone()));
        let mut total_bytes: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if total_bytes.saturating_add(bytes) <= self.max_bytes {
                break;
            }
            remove(&file.path)?;
            total_bytes -= file.bytes;
        }
        Ok(())
    }

    /// Returns why results could not be stored at the last [check](Self::check); `None` if they
    /// could.
    pub(crate) fn failure(&self) -> Option<String> {
        self.directory.health.failure.lock().clone()
    }

    /// Checks whether results can be stored, at most once a second. [`failure`](Self::failure)
    /// returns the outcome.
    pub(crate) async fn check(&self) {
        let health = &self.directory.health;
        let Ok(mut checked_at) = Arc::clone(&health.checked_at).try_lock_owned() else {
            return;
        };
        if checked_at.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
            return;
        }
        let directory = self.directory.clone();
        let write_attempt = spawn_blocking(move || {
            let result = directory.try_write();
            *checked_at = Some(Instant::now());
            result
        });
        let result = match timeout(CHECK_TIMEOUT, write_attempt).await {
            Ok(result) => result.unwrap_or_else(|error| Err(io::Error::other(error))),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the file system does not respond",
            )),
        };
        let failure = result.err().map(|error| {
            let path = self.directory.path.display();
            format!("results cannot be stored in '{path}': {error}")
        });
        let mut known_failure = health.failure.lock();
        if let Some(failure) = failure.as_ref().filter(|_| known_failure.is_none()) {
            tracing::error!(error = failure, "Large results of tools cannot be stored");
        }
        *known_failure = failure;
    }
}

/// Returns whether a file is a complete result (`true`) or is being written (`false`); `None` for
/// any other file.
fn is_complete_result(path: &Path) -> Option<bool> {
    let name = path.file_name()?.to_str()?;
    let (id, is_whole) = match name.strip_suffix(file::UNFINISHED_SUFFIX) {
        Some(id) => (id, false),
        None => (name, true),
    };
    Uuid::try_parse(id).ok().map(|_| is_whole)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl ResultStore for Results {
    fn put(&self, result: OversizedResult) -> StoreResultFuture {
        let results = self.clone();
        Box::pin(async move {
            let name = result.tool.name().clone();
            let mut task = spawn_blocking(move || results.store_blocking(&result));
            let outcome = match timeout(STORE_TIMEOUT, &mut task).await {
                Ok(result) => result.unwrap_or_else(|error| Err(io::Error::other(error))),
                Err(_) => {
                    // The result may still be stored, because `abort` has no effect if a thread
                    // already writes the file.
                    task.abort();
                    let seconds = STORE_TIMEOUT.as_secs();
                    let message = format!("the result was not written within {seconds} s");
                    Err(io::Error::new(io::ErrorKind::TimedOut, message))
                }
            };
            outcome.map_err(|error| {
                tracing::error!(tool.name = %name, %error, "Cannot store a large tool result");
                let message = format!(
                    "Tool '{name}' has run, but its result is too large to return and could \
                     not be stored"
                );
                ToolFailure::new(ErrorCode::Unavailable, message)
            })
        })
    }
}

impl Header {
    /// Returns whether the result belongs to the caller and user of `context`.
    pub fn belongs_to(&self, context: &CallContext) -> bool {
        self.principal == context.principal && self.user == context.user
    }
}

/// The outcome of the last check whether results can be stored.
#[derive(Debug, Default)]
struct DirectoryHealth {
    /// Why the directory of results could not be written at the last check; `None` if it could.
    failure: Mutex<Option<String>>,
    /// The time of the last check of the directory. Locked during a check, even if no caller waits
    /// for it anymore.
    checked_at: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

#[cfg(test)]
mod tests;
