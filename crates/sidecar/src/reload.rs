//! Reloads the configuration without interrupting calls.
//!
//! SIGHUP and a changed file have the same effect: the configuration is read and validated as at
//! start-up. If it is valid, it applies to all further requests; otherwise nothing changes, and the
//! log, `/readyz` and `pillion status` report the error.

mod stamp;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::AccessTokenStore;
use tokio::signal::unix::Signal;
use tokio::time::{MissedTickBehavior, interval};

use crate::current_app::CurrentApp;
use crate::logging::LogControl;
use crate::servers::{ServerError, Servers};
use crate::service_manager;
use pillion_config::{Config, ConfigError, ConfigFile, ConfigWarning};
use pillion_gateway::access::{Access, AccessError};
pub use stamp::FileStamps;

/// Interval at which the configuration files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The source of the configuration.
#[derive(Debug, Clone)]
pub struct Source {
    /// The configuration file, if any.
    pub file: Option<PathBuf>,
    /// The socket path on the command line, if any.
    pub socket: Option<PathBuf>,
}

/// Why a configuration cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Servers(#[from] ServerError),
    #[error("reading the configuration failed unexpectedly")]
    Panicked,
}

/// A loaded configuration and its file of tokens.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The configuration, with the files from which it was read.
    pub config: Config,
    /// The file with the tokens of the TCP listener, once it was read.
    tokens: Option<ConfigFile>,
}

/// The outcome of an attempt to read the configuration, and the files concerned.
struct Attempt<T> {
    /// The states of the files before reading, so that later changes are detected.
    before: FileStamps,
    /// The files that the configuration refers to, even if the configuration is invalid.
    named: Vec<PathBuf>,
    outcome: T,
}

impl LoadedConfig {
    /// Resolves the access rules of the configuration, with this process's environment. Reads the
    /// file of the tokens only once, so that all uses see the same text.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn resolve_access(
        &mut self,
        store: Option<&Arc<dyn AccessTokenStore>>,
    ) -> Result<Access, AccessError> {
        if self.tokens.is_none() {
            self.tokens = Access::read_tokens(&self.config)?;
        }
        let variable = |name: &str| std::env::var(name).ok();
        Access::resolve(&self.config, self.tokens.as_ref(), variable, store)
    }

    /// Fails if one of the files looks like an unfinished write, regardless of what the running
    /// sidecar has read.
    pub(crate) fn check_complete(&self) -> Result<(), ConfigError> {
        let mut files = self.config.files().chain(&self.tokens);
        files.try_for_each(ConfigFile::check_complete)
    }

    /// Fails if a file looks like an unfinished write of the file that `previous` was read from.
    fn check_replaces(&self, previous: &Self) -> Result<(), ConfigError> {
        self.config.check_replaces(&previous.config)?;
        match (&self.tokens, &previous.tokens) {
            // A truncated file of tokens would revoke the tokens on its missing lines.
            (Some(file), Some(previous)) if file.path() == previous.path() => {
                file.check_replaces(previous)
            }
            _ => Ok(()),
        }
    }

    /// Returns the warnings of `pillion check`.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigWarning> {
        self.config.warnings(|name| std::env::var(name).ok())
    }
}

impl Source {
    /// Reads the configuration file and the environment.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(&self) -> Result<LoadedConfig, ConfigError> {
        self.attempt([], None).outcome
    }

    /// Reads the configuration like [`load`](Self::load), and before it the states of its files.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load_with_stamps(&self) -> Result<(LoadedConfig, FileStamps), ConfigError> {
        let attempt = self.attempt([], None);
        attempt.outcome.map(|loaded| (loaded, attempt.before))
    }

    /// Reads the configuration. The configuration file is read once: a second read could return
    /// another text, or nothing. `watched` are further files whose states are returned.
    fn attempt(
        &self,
        watched: impl IntoIterator<Item = PathBuf>,
        previous: Option<&LoadedConfig>,
    ) -> Attempt<Result<LoadedConfig, ConfigError>> {
        let stamps = FileStamps::new(self.file.iter().cloned().chain(watched));
        let variables = std::env::vars_os().collect::<Vec<(OsString, OsString)>>();
        let (file, error) = match self.file.as_deref().map(ConfigFile::read) {
            None => (None, None),
            Some(Ok(file)) => (Some(file), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let named = Config::files_named(file.as_ref(), variables.clone());
        let blank_error = || {
            let blank = file.as_ref().filter(|file| file.is_blank())?;
            blank.check_replaces(previous?.config.file.as_ref()?).err()
        };
        let config = match error.or_else(blank_error) {
            Some(error) => Err(error),
            None => Config::from_file(file.as_ref(), variables),
        };
        Attempt {
            before: stamps.extended_by(named.iter().cloned()),
            named,
            outcome: config.map(|mut config| {
                if self.socket.is_some() {
                    config.socket.path.clone_from(&self.socket);
                }
                LoadedConfig {
                    config,
                    tokens: None,
                }
            }),
        }
    }

    /// Reads the configuration that will replace `previous`, and resolves its users, groups and
    /// tokens.
    fn attempt_with_access(
        &self,
        watched: Vec<PathBuf>,
        previous: &LoadedConfig,
        store: &Arc<dyn AccessTokenStore>,
    ) -> Attempt<Result<(LoadedConfig, Access), ReloadError>> {
        let attempt = self.attempt(watched, Some(previous));
        let resolve = |mut loaded: LoadedConfig| {
            let access = loaded.resolve_access(Some(store))?;
            loaded.check_replaces(previous)?;
            Ok((loaded, access))
        };
        Attempt {
            before: attempt.before,
            named: attempt.named,
            outcome: attempt.outcome.map_err(ReloadError::from).and_then(resolve),
        }
    }
}

/// Reloads the configuration on SIGHUP and when a file changes.
pub(crate) struct Reloader {
    pub(crate) source: Source,
    pub(crate) current_app: CurrentApp,
    pub(crate) servers: Arc<Servers>,
    /// The current configuration.
    pub(crate) loaded: LoadedConfig,
    pub(crate) log: LogControl,
    /// The files that a rejected configuration refers to. A change of such a file may make the
    /// configuration valid.
    rejected_files: Vec<PathBuf>,
}

impl Reloader {
    /// Creates a reloader with `loaded` as the current configuration.
    pub(crate) fn new(
        source: Source,
        loaded: LoadedConfig,
        current_app: CurrentApp,
        servers: Arc<Servers>,
        log: LogControl,
    ) -> Self {
        log_warnings(&loaded);
        Self {
            source,
            current_app,
            servers,
            loaded,
            log,
            rejected_files: Vec::new(),
        }
    }

    /// Reloads on each SIGHUP and change of a file; never ends. `before` is the state of the files
    /// before the current configuration was read.
    pub(crate) async fn run(mut self, before: FileStamps, mut hangup: Signal) {
        let mut look = interval(CHECK_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stamps = before.restrict_to(self.files());
        loop {
            tokio::select! {
                signal = hangup.recv() => if signal.is_none() {
                    return;
                },
                _ = look.tick() => if !stamps.have_changed_and_settled() {
                    continue;
                },
            }
            // Boxed, because the future holds two configurations.
            let before = Box::pin(self.reload()).await;
            stamps = before.restrict_to(self.files());
        }
    }

    /// Returns the files that are watched for changes.
    fn files(&self) -> Vec<PathBuf> {
        let config = &self.loaded.config;
        let read = config.files().map(|file| file.path().to_owned());
        let named = self.source.file.iter().chain(&config.tcp.tokens_file);
        read.chain(named.chain(&self.rejected_files).cloned())
            .collect()
    }

    /// Reloads the configuration, and returns the states of the files before they were read.
    async fn reload(&mut self) -> FileStamps {
        service_manager::reloading();
        let (source, previous) = (self.source.clone(), self.loaded.clone());
        let (watched, store) = (self.files(), self.servers.store() as _);
        // Reading files and looking up users may block, for example on a network.
        let attempting = tokio::task::spawn_blocking(move || {
            source.attempt_with_access(watched, &previous, &store)
        });
        let attempt = attempting.await.unwrap_or_else(|_| Attempt {
            before: FileStamps::new(self.files()),
            named: self.rejected_files.clone(),
            outcome: Err(ReloadError::Panicked),
        });
        let process = self.current_app.app().process().clone();
        let applied = match attempt.outcome {
            Ok((loaded, access)) => Box::pin(self.apply(loaded, access)).await,
            Err(error) => Err(error),
        };
        self.rejected_files.clear();
        match applied {
            Ok(()) => {
                process.record_reload(None);
                tracing::info!("Reloaded the configuration");
                service_manager::ready();
            }
            Err(rejection) => {
                self.rejected_files = attempt.named;
                let error = rejection.to_string();
                tracing::error!(%error, "Rejected the new configuration; the previous one stays in effect");
                service_manager::reload_failed(&error);
                process.record_reload(Some(error));
            }
        }
        attempt.before
    }

    async fn apply(&mut self, loaded: LoadedConfig, access: Access) -> Result<(), ReloadError> {
        let config = &loaded.config;
        self.servers.reconfigure(config, access).await?;
        for key in settings_requiring_restart(&self.loaded.config, config) {
            tracing::warn!(
                key,
                "{key} has changed: restart the sidecar to apply the change"
            );
        }
        self.log.set_filter(&config.log.filter);
        log_warnings(&loaded);
        self.loaded = loaded;
        Ok(())
    }
}

/// Logs the warnings about the configuration that `pillion check` prints.
fn log_warnings(loaded: &LoadedConfig) {
    for warning in loaded.warnings() {
        tracing::warn!("Configuration warning: {warning}");
    }
}

/// Returns the settings that differ and take effect only after a restart.
fn settings_requiring_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    macro_rules! changes {
        ($($key:literal ($($setting:tt)+))+) => {
            [$(($key, old.$($setting)+ != new.$($setting)+)),+]
        };
    }
    let changes = changes! {
        "socket.path" (socket.path)
        "socket.group" (socket.group)
        "socket.mode" (socket.mode)
        "tcp.listen" (tcp.listen)
        "tcp.max_connections" (tcp.max_connections)
        "tcp.authentication_timeout_ms" (tcp.authentication_timeout)
        "http.max_connections" (http.max_connections)
        "call_log.max_age_days, .max_calls or .max_bytes" (call_log.retention())
        "chat.retention_ms" (chat.retention)
        "store" (store)
        "results.directory" (results.directory)
        "telemetry" (telemetry)
        "log.format" (log.format)
        "shutdown.grace_period_ms" (shutdown)
    };
    let changed = changes.into_iter().filter(|(_, is_changed)| *is_changed);
    changed.map(|(key, _)| key).collect()
}
