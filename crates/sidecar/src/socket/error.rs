use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) type Result<T, E = SocketError> = std::result::Result<T, E>;

/// The reason why the socket cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The path is too long for a socket's address.
    #[error(
        "the socket path is {length} bytes long, but the system allows at most 107: {}",
        path.display()
    )]
    PathTooLong {
        /// The path that is too long.
        path: PathBuf,
        /// The length of the path, in bytes.
        length: usize,
    },
    /// The configured group does not exist.
    #[error("socket.group: there is no group '{0}'")]
    UnknownGroup(String),
    /// The lookup of the configured group failed.
    #[error("socket.group: cannot look up the group '{name}': {source}")]
    GroupLookup {
        /// The group's name.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path has no file name, such as `/`.
    #[error("the socket path names no file: {}", .0.display())]
    NoFileName(PathBuf),
    /// The directory cannot be created, read or given its mode.
    #[error(
        "cannot prepare the socket's directory {}: {source}{}",
        directory.display(),
        other_path_advice(source)
    )]
    Directory {
        /// The directory of the socket.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The parent path of the socket is not a directory.
    #[error("the socket's directory {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Every user may replace files in the socket's directory, including the socket.
    #[error(
        "any user can replace files in the socket's directory {directory}: remove the write \
         permission of others (chmod o-w {directory})",
        directory = .0.display()
    )]
    DirectoryWritableByAll(PathBuf),
    /// The group that should be able to connect cannot enter the directory.
    #[error(
        "the group {group} cannot enter the socket's directory {directory}: run chgrp {group} \
         {directory} && chmod g+x {directory}",
        directory = directory.display()
    )]
    GroupCannotEnter {
        /// The directory of the socket.
        directory: PathBuf,
        /// The ID of the group.
        group: u32,
    },
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The path of the lock file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another sidecar serves the path, or is starting or stopping.
    #[error(
        "another process already serves {}; use --take-over to replace it",
        .0.display()
    )]
    AlreadyServed(PathBuf),
    /// Another sidecar holds the lock on the path, but the file of its socket is gone.
    #[error(
        "another process holds the lock on {path}, but its socket file is gone: a running sidecar \
         recreates the file within a second if it can write to the directory; use --take-over to \
         replace the process",
        path = .0.display()
    )]
    ServedWithoutFile(PathBuf),
    /// The process that serves the path, or holds the lock on the path, offers no takeover.
    #[error(
        "cannot take over {path}: another process serves it or holds its lock {path}.lock, but no \
         sidecar answers on {path}.control: the process may be starting or stopping, so try again, \
         or stop it",
        path = .0.display()
    )]
    NotHandedOver(PathBuf),
    /// The file at the path is not a socket.
    #[error(
        "{} exists and is not a socket: remove the file or choose another socket path",
        .0.display()
    )]
    NotASocket(PathBuf),
    /// The state of the socket at the path cannot be determined.
    #[error("cannot tell whether {} is in use: {source}", path.display())]
    Probe {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A stale socket cannot be removed.
    #[error("cannot remove the socket {}: {source}", path.display())]
    Remove {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The socket cannot be bound.
    #[error("cannot listen on {}: {source}", path.display())]
    Bind {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The socket's group or mode cannot be set.
    #[error("cannot set the permissions of {}: {source}", path.display())]
    Permissions {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The address of `tcp.listen` cannot be bound.
    #[error("tcp.listen: cannot listen on {address}: {source}")]
    Tcp {
        /// The address that cannot be bound.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file descriptor that the service manager passed is not a usable socket.
    #[error("the service manager's sockets (LISTEN_FDS) cannot be used: {0}")]
    Activation(#[source] io::Error),
    /// The control socket belongs to a process of an untrusted user.
    #[error(
        "cannot take over from the running sidecar: {} belongs to a process of user {uid}: take \
         over as that user",
        path.display()
    )]
    ForeignControl {
        /// The path of the control socket.
        path: PathBuf,
        /// The user of the listening process.
        uid: u32,
    },
    /// The socket that was handed over listens at another path.
    #[error(
        "cannot take over from the running sidecar: the socket that it handed over does not \
         listen on {}",
        path.display()
    )]
    ForeignSocket {
        /// The expected path of the socket.
        path: PathBuf,
    },
    /// The file of the service manager's socket is gone, and only the service manager can bind it.
    #[error(
        "the file of the service manager's socket {} is gone: restart the socket unit",
        .0.display()
    )]
    ActivatedSocketMissing(PathBuf),
    /// The running sidecar's sockets cannot be taken over.
    #[error("cannot take over from the running sidecar: {0}")]
    TakeOver(#[source] io::Error),
}

/// Returns advice to append to an error if the user has no write permission.
fn other_path_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; choose another socket with --socket or socket.path",
        _ => "",
    }
}
