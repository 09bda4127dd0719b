use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pillion_config::Config;
use pillion_gateway::credentials::{CredentialError, next_key_file};
use pillion_sidecar::servers::ServerError;
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
        let file = config.vault.key_file.ok_or(ServerError::NoKeyFile)?;
        let next = next_key_file(&file);
        generate_next_key(&file, &next).map_err(|error| file_error(&next, &error))?;
        // A running sidecar rotates the key itself, so that it writes nothing with the old key.
        let client = self.socket.client(Duration::from_secs(120));
        match client.request(route::ROTATE_VAULT, []).send() {
            Ok(_) => {}
            Err(error) if error.is_not_running() => {
                rotate_store(self.config.as_deref(), &file, &next)?;
            }
            Err(error) => return Err(error.into()),
        }
        let old = replace_key_file(&file, &next).map_err(|error| file_error(&file, &error))?;
        print_result(&format!(
            "{} has the new key; older backups need {}",
            file.display(),
            old.display()
        ))
    }
}

/// Re-encrypts the secrets of a store that no sidecar has open.
fn rotate_store(config: Option<&Path>, file: &Path, next: &Path) -> Result<(), CliError> {
    let operator = OperatorStore::open(config)?;
    let read_key = |path| MasterKey::from_file(path).map_err(ServerError::NextKey);
    let (key, next_key) = (read_key(file)?, read_key(next)?);
    operator
        .run(async {
            let store = || operator.store() as _;
            match Vault::open(store(), key).await {
                Ok(vault) => vault.rotate(next_key).await.map(drop),
                // The store already has the next key if a rotation was interrupted after
                // re-encrypting.
                Err(VaultError::WrongKey { .. }) => Vault::open(store(), next_key).await.map(drop),
                Err(error) => Err(error),
            }
        })
        .map_err(CredentialError::from)?;
    Ok(())
}

/// Generates the next key, unless an interrupted rotation has left one. The new file has the owner
/// of the key file.
fn generate_next_key(file: &Path, next: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut key_file = match options.write(true).create_new(true).mode(0o600).open(next) {
        Ok(key_file) => key_file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    };
    let written = (|| {
        let owner = fs::metadata(file)?;
        std::os::unix::fs::fchown(&key_file, Some(owner.uid()), Some(owner.gid()))?;
        let key = MasterKey::generate();
        writeln!(key_file, "{}", key.to_base64().expose_secret())?;
        key_file.sync_all()
    })();
    if written.is_err() {
        drop(fs::remove_file(next));
    }
    written
}

/// Replaces the key file atomically and returns the path of the old key.
fn replace_key_file(file: &Path, next: &Path) -> io::Result<PathBuf> {
    let old = link_old_key(file)?;
    fs::rename(next, file)?;
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(old)
}

/// Links the key file to an unused name.
fn link_old_key(file: &Path) -> io::Result<PathBuf> {
    let suffixes = (2..).map(|number| format!(".old-{number}"));
    for suffix in std::iter::once(".old".to_owned()).chain(suffixes) {
        let old = with_suffix(file, &suffix);
        match fs::hard_link(file, &old) {
            Ok(()) => return Ok(old),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        // An interrupted rotation has already created this link.
        if fs::read(&old)? == fs::read(file)? {
            return Ok(old);
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
    CliError::Usage(format!("{}: {error}", path.display()))
}
