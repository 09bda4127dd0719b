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
use pillion_config::{Config, ConfigError};
use pillion_gateway::access::{Access, AccessError};
use pillion_gateway::process::Process;
pub use stamp::FileStamps;

/// Interval at which the files are checked.
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
    #[error("reading the configuration failed unexpectedly")]
    Panicked,
}

impl Source {
    /// Reads the configuration file and the environment.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let variables = std::env::vars_os().collect::<Vec<(OsString, OsString)>>();
        let mut config = Config::load(self.file.as_deref(), variables)?;
        if self.socket.is_some() {
            config.socket.path.clone_from(&self.socket);
        }
        Ok(config)
    }

    /// Returns the current state of the configuration's files. Call this before
    /// [`load`](Self::load), so that later changes are detected.
    pub fn look(&self) -> FileStamps {
        FileStamps::of(self.file.iter().cloned().chain(self.files_named()))
    }

    /// Returns the files that the configuration refers to, even if the configuration is invalid.
    fn files_named(&self) -> Vec<PathBuf> {
        Config::files_named(self.file.as_deref(), std::env::vars_os())
    }

    /// Reads the configuration, and resolves its users, groups and tokens.
    fn load_with_access(
        &self,
        store: &Arc<dyn AccessTokenStore>,
    ) -> Result<(Config, Access), ReloadError> {
        let config = self.load()?;
        let access = resolve_access(&config, Some(store))?;
        Ok((config, access))
    }
}

/// Resolves the access rules of the configuration, with this process's environment.
pub fn resolve_access(
    config: &Config,
    store: Option<&Arc<dyn AccessTokenStore>>,
) -> Result<Access, AccessError> {
    Access::resolve(config, |name| std::env::var(name).ok(), store)
}

/// Watches for reasons to reload.
pub(crate) struct Reloader {
    pub(crate) source: Source,
    pub(crate) current_app: CurrentApp,
    pub(crate) servers: Arc<Servers>,
    /// The current configuration.
    pub(crate) config: Config,
    pub(crate) log: LogControl,
    /// The files that a rejected configuration refers to; a change of one may make it valid.
    refused: Vec<PathBuf>,
}

impl Reloader {
    /// Creates a reloader with `config` as the current configuration.
    pub(crate) fn new(
        source: Source,
        config: Config,
        current_app: CurrentApp,
        servers: Arc<Servers>,
        log: LogControl,
    ) -> Self {
        log_warnings(&config);
        Self {
            source,
            current_app,
            servers,
            config,
            log,
            refused: Vec::new(),
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
            // Taken before the files are read, so that a change in the meantime is detected.
            let before = FileStamps::of(self.files().into_iter().chain(self.source.files_named()));
            // Boxed, because the future holds two configurations.
            Box::pin(self.reload()).await;
            stamps = before.restrict_to(self.files());
        }
    }

    /// Returns the files that are watched for changes.
    fn files(&self) -> Vec<PathBuf> {
        let config = self.source.file.iter();
        config
            .chain(&self.config.tcp.tokens_file)
            .chain(&self.config.declared.documents)
            .chain(&self.refused)
            .chain(&self.config.models_file)
            .cloned()
            .collect()
    }

    async fn reload(&mut self) {
        service_manager::reloading();
        let source = self.source.clone();
        let store = self.servers.store() as _;
        // Reading files and looking up users may block, for example on a network.
        let loaded = tokio::task::spawn_blocking(move || source.load_with_access(&store)).await;
        let loaded = loaded.unwrap_or(Err(ReloadError::Panicked));
        let process = self.current_app.app().process().clone();
        let outcome = match loaded {
            Ok((config, access)) => {
                let outcome = self.apply(config, access).await;
                outcome.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(()) => {
                self.refused.clear();
                process.reloaded(None);
                tracing::info!("Reloaded the configuration");
                service_manager::ready();
            }
            Err(error) => {
                self.refused = self.source.files_named();
                refuse(&process, error);
            }
        }
    }

    async fn apply(&mut self, config: Config, access: Access) -> Result<(), ServerError> {
        self.servers.reconfigure(&config, access).await?;
        for key in settings_requiring_restart(&self.config, &config) {
            tracing::warn!(
                key,
                "{key} has changed: restart the sidecar to apply the change"
            );
        }
        self.log.set_filter(&config.log.filter);
        log_warnings(&config);
        self.config = config;
        Ok(())
    }
}

/// Logs the warnings about the configuration that `pillion check` prints.
fn log_warnings(config: &Config) {
    for warning in config.warnings(|name| std::env::var(name).ok()) {
        tracing::warn!("Configuration warning: {warning}");
    }
}

/// Reports why the configuration was rejected.
fn refuse(process: &Process, error: String) {
    tracing::error!(%error, "Rejected the new configuration; the previous one stays in effect");
    service_manager::reload_failed(&error);
    process.reloaded(Some(error));
}

/// Returns the settings that differ and take effect only after a restart.
fn settings_requiring_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let differ = [
        ("socket.path", old.socket.path != new.socket.path),
        ("socket.group", old.socket.group != new.socket.group),
        ("socket.mode", old.socket.mode != new.socket.mode),
        ("tcp.listen", old.tcp.listen != new.tcp.listen),
        (
            "tcp.max_connections",
            old.tcp.max_connections != new.tcp.max_connections,
        ),
        (
            "tcp.authentication_timeout_ms",
            old.tcp.authentication_timeout != new.tcp.authentication_timeout,
        ),
        (
            "http.max_connections",
            old.http.max_connections != new.http.max_connections,
        ),
        (
            "call_log.max_age_days, .max_calls or .max_bytes",
            old.call_log.retention() != new.call_log.retention(),
        ),
        ("chat.retention_ms", old.chat.keep != new.chat.keep),
        ("store", old.store != new.store),
        (
            "results.directory",
            old.results.directory != new.results.directory,
        ),
        ("telemetry", old.telemetry != new.telemetry),
        ("log.format", old.log.format != new.log.format),
        ("shutdown.grace_period_ms", old.shutdown != new.shutdown),
    ];
    let differ = differ.into_iter().filter(|(_, differ)| *differ);
    differ.map(|(key, _)| key).collect()
}
