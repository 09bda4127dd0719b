use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pillion_config::Config;
use pillion_gateway::credentials::{CredentialError, next_key_file};
use pillion_management::servers::ServerError;
use pillion_store::{MasterKey, Vault, VaultError};
use pillion_wire::route;
use secrecy::ExposeSecret;

use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::operator::OperatorStore;
use crate::output::print_result;
use crate::sidecar::SocketOption;

commands! {
    /// Rotates the key that encrypts stored credentials
    #[command(after_help = examples!["pillion vault rotate --config /etc/pillion/pillion.toml"])]
    pub(super) enum VaultCommand: () {
        Rotate(RotateKey),
    }
}

/// Replaces the vault's key: generates a new key and encrypts every stored credential with it
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "\
Replaces the key in vault.key_file (KEYFILE). During the rotation, the new key is in KEYFILE.new;
if the rotation is interrupted, run this command again to complete it. The old key stays in
KEYFILE.old, or KEYFILE.old-2 and so on if that file exists: older backups of the store need it.

",
    examples!["pillion vault rotate --config /etc/pillion/pillion.toml"]
))]
pub(crate) struct RotateKey {
    #[command(flatten)]
    socket: SocketOption,
    /// The sidecar's configuration file
    #[arg(long, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl RunCommand<()> for RotateKey {
    fn run(self, (): &()) -> CommandResult {
        let config = Config::load(self.config.as_deref(), std::env::vars_os())?;
        let key_path = config.vault.key_file.ok_or(ServerError::NoKeyFile)?;
        let next_path = next_key_file(&key_path);
        generate_next_key(&key_path, &next_path).map_err(|error| file_error(&next_path, &error))?;
        // If a sidecar is running, the sidecar rotates the key, so that it does not write secrets
        // with the old key afterwards.
        let client = self.socket.create_client(Duration::from_secs(120));
        match client.request(route::ROTATE_VAULT, []).send() {
            Ok(_) => {}
            Err(error) if error.is_not_running() => {
                rotate_store(self.config.as_deref(), &key_path, &next_path)?;
            }
            Err(error) => return Err(error.into()),
        }
        let old_path = replace_key_file(&key_path, &next_path)
            .map_err(|error| file_error(&key_path, &error))?;
        print_result(&format!(
            "{} has the new key; older backups need {}",
            key_path.display(),
            old_path.display()
        ))
    }
}

/// Re-encrypts the secrets of a store that no sidecar has open.
fn rotate_store(config: Option<&Path>, key_path: &Path, next_path: &Path) -> Result<(), CliError> {
    let operator_store = OperatorStore::open(config)?;
    let read_key = |path| MasterKey::from_file(path).map_err(ServerError::NextKey);
    let (key, next_key) = (read_key(key_path)?, read_key(next_path)?);
    operator_store
        .run(async {
            let store = || operator_store.store() as _;
            match Vault::open(store(), key).await {
                Ok(vault) => vault.rotate(next_key).await.map(drop),
                // An interrupted rotation has already re-encrypted the store with the next key, so
                // the secrets are not re-encrypted again.
                Err(VaultError::WrongKey { .. }) => Vault::open(store(), next_key).await.map(drop),
                Err(error) => Err(error),
            }
        })
        .map_err(CredentialError::from)?;
    Ok(())
}

/// Generates the next key and writes it to a new file. Keeps the file with the next key if an
/// interrupted rotation has left one. The new file gets the same owner as the file with the current
/// key.
fn generate_next_key(key_path: &Path, next_path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut next_file = match options.open(next_path) {
        Ok(next_file) => next_file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    };
    let write_result = (|| {
        let owner = fs::metadata(key_path)?;
        std::os::unix::fs::fchown(&next_file, Some(owner.uid()), Some(owner.gid()))?;
        let key = MasterKey::generate();
        writeln!(next_file, "{}", key.to_base64().expose_secret())?;
        next_file.sync_all()
    })();
    if write_result.is_err() {
        drop(fs::remove_file(next_path));
    }
    write_result
}

/// Replaces the current key file with the next key file atomically. Returns the path at which the
/// old key remains.
fn replace_key_file(key_path: &Path, next_path: &Path) -> io::Result<PathBuf> {
    let old_path = link_old_key(key_path)?;
    fs::rename(next_path, key_path)?;
    let directory = key_path
        .parent()
        .filter(|path| !path.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(old_path)
}

/// Creates a hard link to the key file, under an unused name, so that the old key remains. Returns
/// the path of the link.
fn link_old_key(key_path: &Path) -> io::Result<PathBuf> {
    let numbered_suffixes = (2..).map(|suffix_number| format!(".old-{suffix_number}"));
    for suffix in std::iter::once(".old".to_owned()).chain(numbered_suffixes) {
        let old_path = with_suffix(key_path, &suffix);
        match fs::hard_link(key_path, &old_path) {
            Ok(()) => return Ok(old_path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        // If a file with this name has the same content, an interrupted rotation has already
        // created the link.
        if fs::read(&old_path)? == fs::read(key_path)? {
            return Ok(old_path);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn file_error(path: &Path, error: &io::Error) -> CliError {
    let path = path.display();
    CliError::Usage(format!("cannot rotate the key in {path}: {error}"))
}
