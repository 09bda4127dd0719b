//! Takes up a changed configuration without dropping a call.
//!
//! SIGHUP and a changed file lead to the same: the file is read and checked as at start-up. If
//! it is good, requests that come from then on have what it says; if not, nothing changes, and
//! the log, `/readyz` and `pillion status` say what is wrong and where.

mod stamp;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::AccessTokenStore;
use tokio::signal::unix::Signal;
use tokio::time::{MissedTickBehavior, interval};

use crate::access::{Access, AccessError};
use crate::config::{Config, ConfigError};
use crate::live::Live;
use crate::logging::LogControl;
use crate::process::Process;
use crate::servers::{ServerError, Servers};
use crate::service_manager;
pub(crate) use stamp::Stamps;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// The socket that the command line names.
    pub(crate) socket: Option<PathBuf>,
}

/// Why a configuration is not taken up.
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
    /// Reads it, with the environment.
    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        let variables = std::env::vars_os().collect::<Vec<(OsString, OsString)>>();
        let mut config = Config::load(self.file.as_deref(), variables)?;
        if self.socket.is_some() {
            config.socket.path.clone_from(&self.socket);
        }
        Ok(config)
    }

    /// Looks at its files. [`load`](Self::load) is to be called after that.
    pub(crate) fn look(&self) -> Stamps {
        Stamps::of(self.file.iter().cloned().chain(self.files_named()))
    }

    /// The files that it names, good or not.
    fn files_named(&self) -> Vec<PathBuf> {
        Config::files_named(self.file.as_deref(), std::env::vars_os())
    }

    /// Reads it and what it names: users, groups, tokens.
    fn load_with_access(
        &self,
        store: &Arc<dyn AccessTokenStore>,
    ) -> Result<(Config, Access), ReloadError> {
        let config = self.load()?;
        let access = access_of(&config, Some(store))?;
        Ok((config, access))
    }
}

/// Looks up and reads what the configuration names, in this process' environment.
pub(crate) fn access_of(
    config: &Config,
    store: Option<&Arc<dyn AccessTokenStore>>,
) -> Result<Access, AccessError> {
    Access::resolve(config, |name| std::env::var(name).ok(), store)
}

/// Watches for a reason to reload.
pub(crate) struct Reloader {
    pub(crate) source: Source,
    pub(crate) live: Live,
    pub(crate) servers: Arc<Servers>,
    /// What is in force.
    pub(crate) config: Config,
    pub(crate) log: LogControl,
    /// What else a configuration names that was refused: it may be good when one of these is.
    refused: Vec<PathBuf>,
}

impl Reloader {
    /// With `config` in force.
    pub(crate) fn new(
        source: Source,
        config: Config,
        live: Live,
        servers: Arc<Servers>,
        log: LogControl,
    ) -> Self {
        tell_doubts(&config);
        Self {
            source,
            live,
            servers,
            config,
            log,
            refused: Vec::new(),
        }
    }

    /// Reloads whenever there is a reason; never ends. `before` is the look at the files before
    /// what is in force was read.
    pub(crate) async fn run(mut self, before: Stamps, mut hangup: Signal) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stamps = before.narrowed_to(self.files());
        loop {
            tokio::select! {
                signal = hangup.recv() => if signal.is_none() {
                    return;
                },
                _ = look.tick() => if !stamps.have_changed_and_settled() {
                    continue;
                },
            }
            // As they were before they are read: what changes meanwhile is looked at once more.
            let before = Stamps::of(self.files().into_iter().chain(self.source.files_named()));
            // Boxed, because the future holds two configurations.
            Box::pin(self.reload()).await;
            stamps = before.narrowed_to(self.files());
        }
    }

    /// The files whose change is a reason.
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
        // Files are read and users looked up: perhaps over a network.
        let loaded = tokio::task::spawn_blocking(move || source.load_with_access(&store)).await;
        let loaded = loaded.unwrap_or(Err(ReloadError::Panicked));
        let process = self.live.app().process().clone();
        let outcome = match loaded {
            Ok((config, access)) => {
                let outcome = self.put_in_force(config, access).await;
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

    async fn put_in_force(&mut self, config: Config, access: Access) -> Result<(), ServerError> {
        self.servers.reconfigure(&config, access).await?;
        for key in needing_a_restart(&self.config, &config) {
            tracing::warn!(key, "{key} has changed; it takes effect at the next start");
        }
        self.log.set_filter(&config.log.filter);
        tell_doubts(&config);
        self.config = config;
        Ok(())
    }
}

/// Logs what is probably not meant so, which `pillion check` says as well.
fn tell_doubts(config: &Config) {
    for doubt in config.doubts(|name| std::env::var(name).ok()) {
        tracing::warn!("The configuration may not mean what it says: {doubt}");
    }
}

/// Says why nothing has changed.
fn refuse(process: &Process, error: String) {
    tracing::error!(%error, "The configuration is refused; what held before still does");
    service_manager::reload_failed(&error);
    process.reloaded(Some(error));
}

/// The settings that hold for as long as the process does, where they differ.
fn needing_a_restart(old: &Config, new: &Config) -> Vec<&'static str> {
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
        ("chat.keep_ms", old.chat.keep != new.chat.keep),
        ("store", old.store != new.store),
        (
            "results.directory",
            old.results.directory != new.results.directory,
        ),
        ("telemetry", old.telemetry != new.telemetry),
        ("log.format", old.log.format != new.log.format),
        ("shutdown.grace_ms", old.shutdown != new.shutdown),
    ];
    let differ = differ.into_iter().filter(|(_, differ)| *differ);
    differ.map(|(key, _)| key).collect()
}
