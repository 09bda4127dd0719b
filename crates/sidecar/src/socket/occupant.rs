use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

use super::{Result, SocketError};

/// Timeout of the connection attempt that shows whether a socket is live. Connecting to a Unix
/// socket normally takes no time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns whether there is a socket at `path`, or an error if there is another kind of file.
pub(super) fn socket_exists(path: &Path) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => Ok(true),
        Ok(_) => Err(SocketError::NotASocket(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SocketError::Probe {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Removes a stale socket at `path`. Returns an error if the socket is live or the file is not a
/// socket.
pub(super) async fn remove_stale_socket(path: &Path) -> Result<()> {
    if !socket_exists(path)? {
        return Ok(());
    }
    let connect_outcome = tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await;
    match connect_outcome {
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => remove(path),
        Ok(Err(source)) if source.kind() != ErrorKind::WouldBlock => Err(SocketError::Probe {
            path: path.to_owned(),
            source,
        }),
        // Some process accepts connections, or listens with a full queue.
        Ok(_) | Err(_) => Err(SocketError::AlreadyServed(path.to_owned())),
    }
}

/// Removes the socket, if it exists.
pub(super) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(SocketError::Remove {
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}
