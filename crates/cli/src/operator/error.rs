use std::io;
use std::path::PathBuf;

use pillion_core::store::StoreError;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OperatorError {
    #[error("cannot start the runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error("{0}")]
    Store(#[source] StoreError),
    #[error(
        "this user has no default directory for a store: set the sidecar's configuration with \
        --config"
    )]
    NoStore,
    #[error(
        "the store is in the sidecar's memory (store.location): this command needs a store in a \
        file or in Postgres"
    )]
    MemoryStore,
    #[error(
        "{} belongs to another user: run this command as the sidecar's user (id {owner})",
        path.display()
    )]
    OtherOwner { path: PathBuf, owner: u32 },
    #[error(
        "nothing was changed: the sidecar that listens on {} uses another store. Set its \
        configuration with --config, or another sidecar's socket with PILLION_SOCKET",
        socket.display()
    )]
    OtherStore { socket: PathBuf },
    #[error(
        "there is no store in {}: {source}. Set the sidecar's configuration with --config, and run \
        this command as the sidecar's user",
        path.display()
    )]
    Directory { path: PathBuf, source: io::Error },
}
