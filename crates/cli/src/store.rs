//! `pillion store`: maintenance of the store. The commands open the store themselves, whether or
//! not the sidecar is running.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pillion_core::store::StoreError;
use pillion_store::{SqlStore, StoreLocation, StoreOptions};

use super::dispatch::{CommandResult, RunCommand};
use super::error::CliError;
use super::operator::{OperatorError, check_owner};
use super::output::{print, print_result};
use super::process::restrict_new_files;
use pillion_config::Config;
use pillion_gateway::state;

/// Checks, backs up or migrates the sidecar's store
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion store check",
    "pillion store backup /var/lib/pillion/copy.db",
    "pillion store migrate --config /etc/pillion/pillion.toml",
])]
pub(super) struct StoreCommand {
    #[command(subcommand)]
    command: StoreSubcommand,
    /// The sidecar's configuration file, which names the store
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

commands! {
    enum StoreSubcommand: StoreOptions {
        Check(CheckStore),
        Backup(BackUpStore),
        Migrate(MigrateStore),
    }
}

/// Checks the integrity of the store; exit code 1 if there are errors
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion store check"])]
struct CheckStore;

/// Copies a store that is a file, as a consistent snapshot, while calls continue
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion store backup /var/lib/pillion/copy.db"])]
struct BackUpStore {
    /// The path of the copy, which must not exist
    file: PathBuf,
}

/// Creates the store or migrates its schema, as `pillion serve` does when it starts
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion store migrate --config /etc/pillion/pillion.toml"])]
struct MigrateStore;

impl RunCommand<()> for StoreCommand {
    fn run(self, (): &()) -> CommandResult {
        restrict_new_files();
        let config = Config::load(self.config.as_deref(), std::env::vars_os())?;
        self.command.run(&state::store_options(&config)?)
    }
}

impl RunCommand<StoreOptions> for CheckStore {
    fn run(self, options: &StoreOptions) -> CommandResult {
        check_owner_if_exists(options)?;
        let (schema_version, problems) = block_on(async {
            let store = SqlStore::open_existing(options).await?;
            let schema_and_problems = (store.schema_version().await?, store.check().await?);
            store.close().await;
            Ok(schema_and_problems)
        })?;
        if !problems.is_empty() {
            print(&problems.join("\n"))?;
            return Ok(ExitCode::FAILURE);
        }
        let newest_version = SqlStore::required_schema_version();
        print_result(&if schema_version == newest_version {
            format!("Store OK, schema {schema_version} (current)")
        } else {
            format!(
                "Store OK, schema {schema_version}; `pillion store migrate` migrates the schema to \
                {newest_version}"
            )
        })
    }
}

impl RunCommand<StoreOptions> for BackUpStore {
    fn run(self, options: &StoreOptions) -> CommandResult {
        check_owner_if_exists(options)?;
        block_on(async {
            let store = SqlStore::open_existing(options).await?;
            store.backup(&self.file).await?;
            store.close().await;
            Ok(())
        })?;
        print_result(&format!("Copied to {}.", self.file.display()))
    }
}

impl RunCommand<StoreOptions> for MigrateStore {
    fn run(self, options: &StoreOptions) -> CommandResult {
        if let StoreLocation::File(path) = &options.location {
            state::make_directory(options)?;
            check_owner(path)?;
        }
        let previous_version = block_on(async {
            let schema_version = match SqlStore::open_existing(options).await {
                Ok(store) => {
                    let schema_version = store.schema_version().await?;
                    store.close().await;
                    Some(schema_version)
                }
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error),
            };
            SqlStore::open(options).await?.close().await;
            Ok(schema_version)
        })?;
        let newest_version = SqlStore::required_schema_version();
        print_result(&match previous_version {
            None => format!("Created the store with schema {newest_version}."),
            Some(schema_version) if schema_version == newest_version => {
                format!("The schema is already {newest_version}.")
            }
            Some(schema_version) => {
                format!("Migrated the schema from {schema_version} to {newest_version}.")
            }
        })
    }
}

/// Fails if another user owns the store, because the sidecar could not access files that the
/// current user creates. Succeeds if the store does not exist; a command that needs an existing
/// store then fails later, without creating files.
fn check_owner_if_exists(options: &StoreOptions) -> Result<(), OperatorError> {
    match &options.location {
        StoreLocation::File(path) if path.exists() => check_owner(path),
        _ => Ok(()),
    }
}

fn block_on<T>(operation: impl Future<Output = Result<T, StoreError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::Runtime)?;
    Ok(runtime.block_on(operation)?)
}
