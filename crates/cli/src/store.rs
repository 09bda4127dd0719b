//! `pillion store`: maintenance of the store. The commands open the store themselves, whether or
//! not the sidecar is running.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nix::sys::stat::{Mode, umask};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};

use super::operator::check_owner;
use super::{CliError, print};
use pillion_config::Config;
use pillion_gateway::state;

/// `pillion store`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillion store check
  pillion store backup /var/lib/pillion/copy.db
  pillion store migrate --config /etc/pillion/pillion.toml")]
pub(super) struct Store {
    #[command(subcommand)]
    command: Command,
    /// The sidecar's configuration file, which names the store
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks the integrity of the store; exit code 1 if there are errors
    Check,
    /// Copies a store that is a file, as a consistent snapshot, while calls continue
    Backup {
        /// The path of the copy, which must not exist
        file: PathBuf,
    },
    /// Creates the store or migrates its schema, as `pillion serve` does when it starts
    Migrate,
}

impl Store {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        // Set before any thread starts, so that new files are accessible only to this user.
        umask(Mode::from_bits_truncate(0o077));
        let config = Config::load(self.config.as_deref(), std::env::vars_os())?;
        let options = state::store_options(&config)?;
        self.check_user(&options)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(CliError::Runtime)?;
        runtime.block_on(async {
            match self.command {
                Command::Check => check(&options).await,
                Command::Backup { file } => backup(&options, file).await,
                Command::Migrate => migrate(&options).await,
            }
        })
    }

    /// Fails if another user owns the store: files that this user creates would be inaccessible to
    /// the sidecar.
    fn check_user(&self, options: &StoreOptions) -> Result<(), CliError> {
        let StoreLocation::File(path) = &options.location else {
            return Ok(());
        };
        match self.command {
            Command::Migrate => state::make_directory(options)?,
            // Creates nothing if the store does not exist.
            _ if !path.exists() => return Ok(()),
            _ => {}
        }
        Ok(check_owner(path)?)
    }
}

async fn check(options: &StoreOptions) -> Result<ExitCode, CliError> {
    let store = SqlStore::open_existing(options).await?;
    let schema = store.schema().await?;
    let newest = SqlStore::schema_number();
    let wrong = store.check().await?;
    store.close().await;
    if !wrong.is_empty() {
        print(&wrong.join("\n"))?;
        return Ok(ExitCode::FAILURE);
    }
    print(&if schema == newest {
        format!("Store OK, schema {schema} (current)")
    } else {
        format!("Store OK, schema {schema}; `pillion store migrate` migrates it to {newest}")
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn backup(options: &StoreOptions, file: PathBuf) -> Result<ExitCode, CliError> {
    let store = SqlStore::open_existing(options).await?;
    store.backup(&file).await?;
    store.close().await;
    print(&format!("Copied to {}.", file.display()))?;
    Ok(ExitCode::SUCCESS)
}

async fn migrate(options: &StoreOptions) -> Result<ExitCode, CliError> {
    let before = match SqlStore::open_existing(options).await {
        Ok(store) => {
            let schema = store.schema().await?;
            store.close().await;
            Some(schema)
        }
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    SqlStore::open(options).await?.close().await;
    let newest = SqlStore::schema_number();
    print(&match before {
        None => format!("Created the store with schema {newest}."),
        Some(schema) if schema == newest => format!("The schema is already {newest}."),
        Some(schema) => format!("Migrated the schema from {schema} to {newest}."),
    })?;
    Ok(ExitCode::SUCCESS)
}
