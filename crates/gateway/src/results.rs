//! Offloaded tool results: results that are too large for a response are stored in files, which
//! their callers fetch.
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

/// Maximum time for writing a result, including the wait for a thread. The call's deadline does not
/// apply, because the call has already run.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum time between two checks of the directory.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that a readiness check waits for the directory.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Size of the file that a check writes, in bytes.
const TRIAL_BYTES: usize = 4 * 1024;

/// The URI prefix of offloaded results for MCP clients, followed by the result's id.
pub const RESULT_URI_PREFIX: &str = "pillion://results/";

/// The directory of offloaded results. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ResultDirectory {
    path: Arc<PathBuf>,
    /// Locked while files are counted and written.
    writing: Arc<Mutex<()>>,
    health: Arc<DirectoryHealth>,
}

/// The offloaded results, with the settings of one configuration.
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
            writing: Arc::default(),
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

    /// Creates the directory if it does not exist.
    fn create(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(self.path.as_path())
    }

    /// Returns the files of results, complete or not.
    fn files(&self) -> io::Result<Vec<ResultFile>> {
        let entries = match fs::read_dir(self.path.as_path()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let Some(is_whole) = is_ours(&path) else {
                continue;
            };
            // Another process may have removed the file.
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            files.push(ResultFile {
                since: metadata.modified()?,
                bytes: metadata.len(),
                is_whole,
                path,
            });
        }
        Ok(files)
    }

    /// Creates the directory if necessary, and writes and removes a file there.
    fn try_write(&self) -> io::Result<()> {
        self.create()?;
        let name = Uuid::new_v4().simple().to_string() + file::UNFINISHED_SUFFIX;
        let path = self.path.join(name);
        let mut trial = file::create(&path)?;
        let written = trial.write_all(&[b' '; TRIAL_BYTES]);
        remove(&path)?;
        written
    }
}

/// A file of a result.
struct ResultFile {
    path: PathBuf,
    since: SystemTime,
    bytes: u64,
    /// Whether the result was written completely.
    is_whole: bool,
}

impl Results {
    /// Returns the result with this id, unless it has expired.
    pub async fn find(&self, id: &str) -> io::Result<Option<OpenedResult>> {
        let Ok(id) = Uuid::try_parse(id) else {
            return Ok(None);
        };
        let this = self.clone();
        let find = move || {
            let path = this.path(id);
            match OpenedResult::open(&path) {
                Ok(found) if this.is_expired(found.since) => Ok(None),
                Ok(found) => Ok(Some(found)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        spawn_blocking(find).await.map_err(io::Error::other)?
    }

    /// Returns the time for which results are kept.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Removes results that were stored before `oldest`, and unfinished files older than
    /// `oldest_unfinished`.
    pub(crate) async fn clean_up(&self, oldest: SystemTime, oldest_unfinished: SystemTime) {
        let this = self.clone();
        let cleaned = spawn_blocking(move || {
            let _writing = this.directory.writing.lock();
            for file in this.directory.files()? {
                let oldest = if file.is_whole {
                    oldest
                } else {
                    oldest_unfinished
                };
                if file.since < oldest {
                    remove(&file.path)?;
                }
            }
            Ok::<_, io::Error>(())
        });
        if let Ok(Err(error)) = cleaned.await {
            let directory = self.directory.path.display();
            tracing::warn!(%error, %directory, "Cannot remove old stored results");
        }
    }

    fn path(&self, id: Uuid) -> PathBuf {
        self.directory.path.join(id.simple().to_string())
    }

    fn is_expired(&self, since: SystemTime) -> bool {
        // If the clock was set back, a result counts as new.
        since.elapsed().is_ok_and(|age| age >= self.ttl)
    }

    fn store_blocking(&self, result: &OversizedResult) -> io::Result<StoredResult> {
        let (content, media_type) = file::content(&result.output);
        let bytes = content.len() as u64;
        if bytes > self.max_bytes {
            return Err(io::Error::other(
                "the result is larger than results.max_bytes",
            ));
        }
        let header = Header {
            principal: result.context.principal.clone(),
            user: result.context.user.clone(),
            tool: result.tool.name().as_str().to_owned(),
            media_type: media_type.to_owned(),
        };
        let uuid = Uuid::new_v4();
        let _writing = self.directory.writing.lock();
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

    /// Removes the oldest results until there is room for `bytes` bytes. Removes nothing by age: the
    /// system clock may be wrong.
    fn free_space(&self, bytes: u64) -> io::Result<()> {
        let mut files = self.directory.files()?;
        files.sort_by(|one, other| (one.since, &one.path).cmp(&(other.since, &other.path)));
        let mut sum: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if sum.saturating_add(bytes) <= self.max_bytes {
                break;
            }
            remove(&file.path)?;
            sum -= file.bytes;
        }
        Ok(())
    }

    /// Returns why results cannot be stored, as far as the last [check](Self::check) has shown.
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
        let trial = spawn_blocking(move || {
            let written = directory.try_write();
            *checked_at = Some(Instant::now());
            written
        });
        let written = match timeout(CHECK_TIMEOUT, trial).await {
            Ok(Ok(written)) => written,
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the file system does not respond",
            )),
        };
        let failure = written.err().map(|error| {
            let path = self.directory.path.display();
            format!("results cannot be stored in '{path}': {error}")
        });
        let mut known = health.failure.lock();
        if let Some(failure) = failure.as_ref().filter(|_| known.is_none()) {
            tracing::error!(error = failure, "Large results of tools cannot be stored");
        }
        *known = failure;
    }
}

/// Returns whether a file is a complete result (`true`) or is being written (`false`); `None` for
/// any other file.
fn is_ours(path: &Path) -> Option<bool> {
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
        let this = self.clone();
        Box::pin(async move {
            let name = result.tool.name().clone();
            let mut storing = spawn_blocking(move || this.store_blocking(&result));
            let stored = match timeout(STORE_TIMEOUT, &mut storing).await {
                Ok(stored) => stored.unwrap_or_else(|error| Err(io::Error::other(error))),
                Err(_) => {
                    // Has no effect if a thread already writes the file.
                    storing.abort();
                    Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!(
                            "the result was not written within {} s",
                            STORE_TIMEOUT.as_secs()
                        ),
                    ))
                }
            };
            stored.map_err(|error| {
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
    pub fn is_of(&self, context: &CallContext) -> bool {
        self.principal == context.principal && self.user == context.user
    }
}

/// Whether results could be stored at the last check.
#[derive(Debug, Default)]
struct DirectoryHealth {
    /// Why the directory cannot be written, if it cannot.
    failure: Mutex<Option<String>>,
    /// When the directory was last checked. Locked during a check, even if no caller waits for it
    /// anymore.
    checked_at: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

#[cfg(test)]
mod tests;
