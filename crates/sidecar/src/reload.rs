//! Reloads the configuration without interrupting calls.
//!
//! SIGHUP, a changed file and a request in the console have the same effect: the configuration is
//! read and validated as at start-up. If it is valid, it applies to all further requests; otherwise
//! nothing changes, and the log, `/readyz` and `pillion status` report the error.

mod stamp;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pillion_core::store::AccessTokenStore;
use tokio::signal::unix::Signal;
use tokio::time::{MissedTickBehavior, interval};

use crate::current_app::CurrentApp;
use crate::logging::LogControl;
use crate::service_manager;
use pillion_config::{Config, ConfigError, ConfigFile, ConfigWarning};
use pillion_gateway::access::{Access, AccessError};
use pillion_gateway::process::{Reload, ReloadTrigger};
use pillion_management::servers::{ServerError, Servers};
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

/// The reason why a configuration cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Servers(#[from] ServerError),
    #[error("reading the configuration failed unexpectedly: the log has the reason")]
    Panicked,
}

/// A loaded configuration and its token file.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The configuration, with the files from which it was read.
    pub config: Config,
    /// The token file of the TCP listener; `None` until the file is read, or if none is configured.
    tokens_file: Option<ConfigFile>,
}

/// The outcome of an attempt to read the configuration, and the files concerned.
struct ReadAttempt<T> {
    /// The states of the files before reading, so that later changes are detected.
    stamps: FileStamps,
    /// The files that the configuration refers to, even if the configuration is invalid.
    named_files: Vec<PathBuf>,
    outcome: T,
}

impl LoadedConfig {
    /// Resolves the access rules of the configuration, with this process's environment. Reads the
    /// token file only once, so that every use of the file sees the same text.
    ///
    /// # Errors
    /// [`AccessError`] if a user, a group or the token file of the access rules cannot be resolved.
    pub fn resolve_access(
        &mut self,
        store: Option<&Arc<dyn AccessTokenStore>>,
    ) -> Result<Access, AccessError> {
        if self.tokens_file.is_none() {
            self.tokens_file = Access::read_tokens(&self.config)?;
        }
        let read_variable = |name: &str| std::env::var(name).ok();
        let tokens_file = self.tokens_file.as_ref();
        Access::resolve(&self.config, tokens_file, read_variable, store)
    }

    /// Returns an error if one of the configuration files appears to be incompletely written. Does
    /// not compare the files with those that the running sidecar has read.
    pub(crate) fn check_complete(&self) -> Result<(), ConfigError> {
        let mut files = self.config.files().chain(&self.tokens_file);
        files.try_for_each(ConfigFile::check_complete)
    }

    /// Returns an error if a file appears to be incompletely written, compared with the file from
    /// which `previous_config` was read.
    fn check_replaces(&self, previous_config: &Self) -> Result<(), ConfigError> {
        self.config.check_replaces(&previous_config.config)?;
        match (&self.tokens_file, &previous_config.tokens_file) {
            // A truncated token file is rejected, because it would revoke the tokens on its missing
            // lines.
            (Some(file), Some(previous_file)) if file.path() == previous_file.path() => {
                file.check_replaces(previous_file)
            }
            _ => Ok(()),
        }
    }

    /// Returns the keys that differ from those of `previous_config`, and the other files whose
    /// contents differ.
    fn list_changes(&self, previous_config: &Self) -> Vec<String> {
        let mut changes = self
            .config
            .effective
            .changed_keys(&previous_config.config.effective);
        // The configuration file and the models file are compared key by key.
        for file in self.other_files() {
            let mut previous_files = previous_config.other_files();
            let previous_file = previous_files.find(|previous| previous.path() == file.path());
            if previous_file.is_some_and(|previous| previous.text() != file.text()) {
                changes.push(format!("the contents of {}", file.path().display()));
            }
        }
        changes
    }

    /// Returns the OpenAPI documents and the token file.
    fn other_files(&self) -> impl Iterator<Item = &ConfigFile> {
        let documents = self.config.declared.documents.iter();
        documents.chain(&self.tokens_file)
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
    /// [`ConfigError`] if the configuration cannot be read or is invalid.
    pub fn load(&self) -> Result<LoadedConfig, ConfigError> {
        self.read_config([], None).outcome
    }

    /// Records the states of the configuration files, and then reads the configuration like
    /// [`load`](Self::load).
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration cannot be read or is invalid.
    pub fn load_with_stamps(&self) -> Result<(LoadedConfig, FileStamps), ConfigError> {
        let attempt = self.read_config([], None);
        let loaded_config = attempt.outcome?;
        Ok((loaded_config, attempt.stamps))
    }

    /// Reads the configuration. The configuration file is read once: a second read could return
    /// another text, or nothing. `watched_files` are further files whose states are returned.
    fn read_config(
        &self,
        watched_files: impl IntoIterator<Item = PathBuf>,
        previous_config: Option<&LoadedConfig>,
    ) -> ReadAttempt<Result<LoadedConfig, ConfigError>> {
        let stamps = FileStamps::new(self.file.iter().cloned().chain(watched_files));
        let variables = std::env::vars_os().collect::<Vec<(OsString, OsString)>>();
        let (file, error) = match self.file.as_deref().map(ConfigFile::read) {
            None => (None, None),
            Some(Ok(file)) => (Some(file), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let named_files = Config::referenced_files(file.as_ref(), variables.clone());
        let blank_error = || {
            let blank_file = file.as_ref().filter(|file| file.is_blank())?;
            let previous_file = previous_config?.config.file.as_ref()?;
            blank_file.check_replaces(previous_file).err()
        };
        let config = match error.or_else(blank_error) {
            Some(error) => Err(error),
            None => Config::from_file(file.as_ref(), variables),
        };
        ReadAttempt {
            stamps: stamps.with_files(named_files.iter().cloned()),
            named_files,
            outcome: config.map(|mut config| {
                if let Some(path) = &self.socket {
                    config.set_socket_path(path.clone());
                }
                LoadedConfig {
                    config,
                    tokens_file: None,
                }
            }),
        }
    }

    /// Reads the configuration that will replace `previous_config`, and resolves its users, groups
    /// and tokens.
    fn read_config_with_access(
        &self,
        watched_files: Vec<PathBuf>,
        previous_config: &LoadedConfig,
        store: &Arc<dyn AccessTokenStore>,
    ) -> ReadAttempt<Result<(LoadedConfig, Access), ReloadError>> {
        let attempt = self.read_config(watched_files, Some(previous_config));
        let resolve = |mut loaded_config: LoadedConfig| {
            let access = loaded_config.resolve_access(Some(store))?;
            loaded_config.check_replaces(previous_config)?;
            Ok((loaded_config, access))
        };
        ReadAttempt {
            stamps: attempt.stamps,
            named_files: attempt.named_files,
            outcome: attempt.outcome.map_err(ReloadError::from).and_then(resolve),
        }
    }
}

/// What a reload has changed.
struct AppliedChanges {
    /// The changed keys and files.
    changes: Vec<String>,
    /// The changed settings that take effect only after a restart.
    restart_settings: Vec<&'static str>,
}

/// Reloads the configuration on SIGHUP, when a file changes, and on request.
pub(crate) struct Reloader {
    pub(crate) source: Source,
    pub(crate) current_app: CurrentApp,
    pub(crate) servers: Arc<Servers>,
    /// The current configuration.
    pub(crate) loaded_config: LoadedConfig,
    pub(crate) log: LogControl,
    /// The files that a rejected configuration refers to. A change of such a file may make the
    /// configuration valid.
    rejected_files: Vec<PathBuf>,
}

impl Reloader {
    /// Creates a reloader with `loaded_config` as the current configuration.
    pub(crate) fn new(
        source: Source,
        loaded_config: LoadedConfig,
        current_app: CurrentApp,
        servers: Arc<Servers>,
        log: LogControl,
    ) -> Self {
        log_warnings(&loaded_config);
        Self {
            source,
            current_app,
            servers,
            loaded_config,
            log,
            rejected_files: Vec::new(),
        }
    }

    /// Reloads on each SIGHUP, change of a file and request; never ends. `initial_stamps` is the
    /// state of the files before the current configuration was read.
    pub(crate) async fn run(mut self, initial_stamps: FileStamps, mut hangup_signals: Signal) {
        let mut check_interval = interval(CHECK_INTERVAL);
        check_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stamps = initial_stamps.restrict_to(self.files());
        let process = Arc::clone(self.current_app.app().process());
        process.enable_reload_requests();
        loop {
            let trigger = tokio::select! {
                signal = hangup_signals.recv() => {
                    if signal.is_none() {
                        return;
                    }
                    ReloadTrigger::Signal
                }
                () = process.wait_for_reload_request() => ReloadTrigger::Request,
                _ = check_interval.tick() => {
                    if !stamps.have_changed_and_settled() {
                        continue;
                    }
                    ReloadTrigger::FileChange
                }
            };
            // The future is boxed because it is large, as it contains two configurations.
            let new_stamps = Box::pin(self.reload(trigger)).await;
            stamps = new_stamps.restrict_to(self.files());
        }
    }

    /// Returns the files that are watched for changes.
    fn files(&self) -> Vec<PathBuf> {
        let config = &self.loaded_config.config;
        let config_files = config.files().map(|file| file.path().to_owned());
        let referenced_files = self.source.file.iter().chain(&config.tcp.tokens_file);
        config_files
            .chain(referenced_files.chain(&self.rejected_files).cloned())
            .collect()
    }

    /// Reloads the configuration, and returns the states of the files before they were read.
    async fn reload(&mut self, trigger: ReloadTrigger) -> FileStamps {
        service_manager::notify_reloading();
        let (source, previous_config) = (self.source.clone(), self.loaded_config.clone());
        let (watched_files, store) = (self.files(), self.servers.store() as _);
        // Runs on a thread that may block, because files and the user database may be on a network.
        let attempt_task = tokio::task::spawn_blocking(move || {
            source.read_config_with_access(watched_files, &previous_config, &store)
        });
        let attempt = attempt_task.await.unwrap_or_else(|_| ReadAttempt {
            stamps: FileStamps::new(self.files()),
            named_files: self.rejected_files.clone(),
            outcome: Err(ReloadError::Panicked),
        });
        let process = self.current_app.app().process().clone();
        let apply_outcome = match attempt.outcome {
            Ok((loaded_config, access)) => Box::pin(self.apply(loaded_config, access)).await,
            Err(error) => Err(error),
        };
        self.rejected_files.clear();
        let mut reload = Reload {
            at: SystemTime::now(),
            trigger,
            error: None,
            changes: Vec::new(),
            restart_settings: Vec::new(),
        };
        match apply_outcome {
            Ok(applied_changes) => {
                reload.changes = applied_changes.changes;
                reload.restart_settings = applied_changes.restart_settings;
                process.record_reload(reload);
                tracing::info!("Reloaded the configuration");
                service_manager::notify_ready();
            }
            Err(rejection) => {
                self.rejected_files = attempt.named_files;
                let error = rejection.to_string();
                tracing::error!(%error, "Rejected the new configuration; the previous one stays in effect");
                service_manager::notify_reload_failed(&error);
                reload.error = Some(error);
                process.record_reload(reload);
            }
        }
        attempt.stamps
    }

    async fn apply(
        &mut self,
        loaded_config: LoadedConfig,
        access: Access,
    ) -> Result<AppliedChanges, ReloadError> {
        let config = &loaded_config.config;
        self.servers.reconfigure(config, access).await?;
        let applied_changes = AppliedChanges {
            changes: limit_changes(loaded_config.list_changes(&self.loaded_config)),
            restart_settings: settings_requiring_restart(&self.loaded_config.config, config),
        };
        for &key in &applied_changes.restart_settings {
            tracing::warn!(
                key,
                "{key} has changed: restart the sidecar to apply the change"
            );
        }
        self.log.set_filter(&config.log.filter);
        log_warnings(&loaded_config);
        self.loaded_config = loaded_config;
        Ok(applied_changes)
    }
}

/// Maximum number of changes of a reload that are remembered.
const MAX_CHANGES: usize = 50;

/// Limits the list of changes. The last entry is then the number of omitted changes.
fn limit_changes(mut changes: Vec<String>) -> Vec<String> {
    let omitted_count = changes.len().saturating_sub(MAX_CHANGES);
    if omitted_count > 0 {
        changes.truncate(MAX_CHANGES);
        changes.push(format!("{omitted_count} more"));
    }
    changes
}

/// Logs the warnings about the configuration that `pillion check` prints.
fn log_warnings(loaded_config: &LoadedConfig) {
    for warning in loaded_config.warnings() {
        tracing::warn!("Configuration warning: {warning}");
    }
}

/// Returns the settings that differ between the two configurations and take effect only after a
/// restart.
fn settings_requiring_restart(old_config: &Config, new_config: &Config) -> Vec<&'static str> {
    macro_rules! changes {
        ($($key:literal ($($setting:tt)+))+) => {
            [$(($key, old_config.$($setting)+ != new_config.$($setting)+)),+]
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
    let changed_settings = changes.into_iter().filter(|(_, is_changed)| *is_changed);
    changed_settings.map(|(key, _)| key).collect()
}
