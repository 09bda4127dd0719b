//! Hands the sockets of a running sidecar over to its successor (`--take-over`).
//!
//! Beside the Unix socket is a control socket, with the suffix `.control`, that only the sidecar's
//! user and root may use. The successor connects to the control socket and receives the descriptors
//! of the listening sockets and of the lock on the path (`SCM_RIGHTS`). When the successor is
//! ready, it confirms, and the predecessor stops accepting. The sockets listen without
//! interruption, so a new connection waits in a socket's queue at worst.
//!
//! Until the confirmation, the predecessor serves as before, so a successor that fails at any step
//! does not interrupt the service. The connection stays open after the confirmation: its end tells
//! the successor that the predecessor has finished its calls. A successor hands its connections to
//! earlier processes over to the next successor, because several processes may still be finishing
//! calls.

mod message;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pillion_deadline::timeout;
use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::socket::{SocketError, SocketFileId};
use pillion_gateway::predecessors::{Predecessor, Predecessors, clone_connection};

/// Maximum time to wait for each step of the other process. A step may take as long as the
/// successor's start-up.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The line with which a successor requests the descriptors of the sockets.
const REQUEST_LINE: &[u8] = b"pillion take-over 1\n";
/// The line with which the successor reports that it is ready to serve the sockets.
const READY_LINE: &[u8] = b"ready\n";
/// The line with which the predecessor responds to `READY_LINE`.
const CONFIRMATION_REPLY: &[u8] = b"goodbye\n";

/// The kind of a descriptor that is handed over, with its letter in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DescriptorKind {
    /// The listening Unix socket.
    Unix = b'u',
    /// The listening TCP socket.
    Tcp = b't',
    /// The control socket, for the next successor.
    ControlSocket = b'c',
    /// The lock on the socket's path.
    Lock = b'l',
    /// A connection to an earlier process. The connections are in the order of the run IDs in the
    /// message.
    Predecessor = b'p',
}

/// Returns the path of the control socket beside `socket`.
pub(crate) fn control_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".control");
    path.into()
}

/// The control socket, to which a successor process connects.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// A connection from a process that requests to take over.
#[derive(Debug)]
pub(crate) struct Successor(UnixStream);

impl ControlSocket {
    /// Binds the control socket beside `socket`, whose path the caller has locked.
    pub(crate) fn bind(socket: &Path) -> io::Result<Self> {
        let path = control_path(socket);
        // Because the caller holds the lock, no other sidecar serves this control socket.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
        Ok(Self { listener, path })
    }

    /// Adopts a control socket that was handed over.
    pub(crate) fn from_handover(socket: &Path, listener: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from_std(listener.into())?;
        let path = control_path(socket);
        Ok(Self { listener, path })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Removes the control socket, after which no successor can connect.
    pub(crate) fn remove(self) {
        drop(std::fs::remove_file(&self.path));
    }

    /// Returns whether the file of the control socket is gone, so that no successor can connect.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(SocketFileId::for_path(&self.path), Ok(None))
    }

    /// Waits for the next process that requests to take over. Cancel safe: no connection is lost
    /// when the future is dropped.
    pub(crate) async fn accept(&self) -> Successor {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return Successor(stream),
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "Cannot accept the connection of a new sidecar that takes over"
                    );
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

impl Successor {
    /// Hands the sockets over and waits until the successor is ready to serve them. A failed
    /// attempt changes nothing. The caller keeps the returned stream until this process ends: the
    /// end of the stream tells the successor that the process has ended.
    ///
    /// # Errors
    /// The successor belongs to an untrusted user, closes the connection too early, or exceeds the
    /// timeout of a step.
    pub(crate) async fn hand_over(
        self,
        descriptors: &[(DescriptorKind, OwnedFd)],
        predecessors: &Predecessors,
        run_id: &str,
    ) -> io::Result<UnixStream> {
        let Self(mut stream) = self;
        if !is_trusted(stream.peer_cred()?.uid()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        with_step_timeout(expect_line(&mut stream, REQUEST_LINE)).await?;
        let mut run_ids = Vec::new();
        let mut connections = Vec::new();
        for predecessor in predecessors.copy_newest()? {
            // Predecessors without a connection are omitted, because the successor could not detect
            // when they end.
            if let Some(connection) = predecessor.connection {
                run_ids.push(predecessor.run_id);
                connections.push(connection);
            }
        }
        run_ids.push(run_id.to_owned());
        let socket_descriptors = descriptors
            .iter()
            .map(|(kind, descriptor)| (*kind, descriptor.as_fd()));
        let predecessor_descriptors = connections
            .iter()
            .map(|connection| (DescriptorKind::Predecessor, connection.as_fd()));
        let all_descriptors: Vec<_> = socket_descriptors.chain(predecessor_descriptors).collect();
        with_step_timeout(message::send(&stream, &all_descriptors, &run_ids)).await?;
        with_step_timeout(expect_line(&mut stream, READY_LINE)).await?;
        // A write error is ignored, because the successor is ready even if it does not receive
        // `CONFIRMATION_REPLY`.
        drop(with_step_timeout(stream.write_all(CONFIRMATION_REPLY)).await);
        Ok(stream)
    }
}

/// The sockets that a successor has received but does not serve yet.
#[derive(Debug)]
pub(crate) struct ReceivedSockets {
    /// The descriptors with their kinds.
    pub(crate) descriptors: Vec<(DescriptorKind, OwnedFd)>,
    /// Earlier processes that are finishing calls on these sockets.
    pub(crate) predecessors: Predecessors,
    pub(crate) confirmation: Confirmation,
}

/// The connection on which the successor confirms that it serves the sockets.
#[derive(Debug)]
pub(crate) struct Confirmation(UnixStream);

impl ReceivedSockets {
    /// Requests the sockets from the sidecar that serves `socket`; returns `None` if no sidecar
    /// serves `socket`. In a directory where other users may create files, the control socket may
    /// belong to any user, so this function requests nothing from a process of an untrusted user.
    ///
    /// # Errors
    /// [`SocketError::ForeignControl`] if the process belongs to an untrusted user;
    /// [`SocketError::TakeOver`] if the sockets cannot be received.
    pub(crate) async fn request(socket: &Path) -> Result<Option<Self>, SocketError> {
        let path = control_path(socket);
        let stream = match UnixStream::connect(&path).await {
            Ok(stream) => stream,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => return Ok(None),
                _ => return Err(SocketError::TakeOver(error)),
            },
        };
        // The `uid` is that of the listening process, which may differ from the owner of the
        // socket's file.
        let uid = stream.peer_cred().map_err(SocketError::TakeOver)?.uid();
        if !is_trusted(uid) {
            return Err(SocketError::ForeignControl { path, uid });
        }
        let received_sockets = Self::receive(stream).await;
        received_sockets.map(Some).map_err(SocketError::TakeOver)
    }

    async fn receive(mut stream: UnixStream) -> io::Result<Self> {
        with_step_timeout(stream.write_all(REQUEST_LINE)).await?;
        let (received_descriptors, run_ids) = with_step_timeout(message::receive(&stream)).await?;
        let (predecessor_descriptors, descriptors): (Vec<_>, Vec<_>) = received_descriptors
            .into_iter()
            .partition(|(kind, _)| *kind == DescriptorKind::Predecessor);
        let earlier_connections = predecessor_descriptors
            .into_iter()
            .map(|(_, descriptor)| descriptor);
        // The last connection is the one to the sidecar that handed its sockets over.
        let mut connections = earlier_connections.chain([clone_connection(&stream)?]);
        let predecessors = run_ids.into_iter().map(|run_id| Predecessor {
            run_id,
            connection: connections.next(),
        });
        Ok(Self {
            descriptors,
            predecessors: Predecessors::new(predecessors.collect()),
            confirmation: Confirmation(stream),
        })
    }

    /// Removes and returns the descriptor of the kind `kind`.
    pub(crate) fn take(&mut self, kind: DescriptorKind) -> Option<OwnedFd> {
        let mut descriptors = self.descriptors.iter();
        let index = descriptors.position(|(other_kind, _)| *other_kind == kind)?;
        Some(self.descriptors.swap_remove(index).1)
    }
}

impl Confirmation {
    /// Confirms that this process is ready; the predecessor then stops accepting.
    pub(crate) async fn confirm(mut self) -> io::Result<()> {
        with_step_timeout(self.0.write_all(READY_LINE)).await?;
        with_step_timeout(expect_line(&mut self.0, CONFIRMATION_REPLY)).await
    }
}

/// Returns whether the Unix socket `socket` listens at `path`. If the socket's address is a
/// relative path, only the file name is compared, because the path depends on the other process's
/// working directory.
pub(crate) fn is_listening_on(socket: &OwnedFd, path: &Path) -> io::Result<bool> {
    let is_listener = sockopt::socket_domain(socket)? == AddressFamily::UNIX
        && sockopt::socket_type(socket)? == SocketType::STREAM
        && sockopt::socket_acceptconn(socket)?;
    if !is_listener {
        return Ok(false);
    }
    let local_address = StdListener::from(socket.try_clone()?).local_addr()?;
    let Some(address) = local_address.as_pathname() else {
        return Ok(false);
    };
    let has_same_name = address.file_name() == path.file_name();
    Ok(has_same_name
        && (address.is_relative() || resolve_directory(address) == resolve_directory(path)))
}

/// Returns the directory of a socket, without symbolic links if the directory exists.
fn resolve_directory(socket: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(socket).ok()?;
    let directory = path.parent()?;
    let canonical_directory = directory.canonicalize();
    Some(canonical_directory.unwrap_or_else(|_| directory.to_owned()))
}

/// Returns whether a process of the user `uid` may hand over or receive sockets.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == nix::unistd::geteuid().as_raw()
}

async fn with_step_timeout<T>(step_future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let outcome = timeout(STEP_TIMEOUT, step_future).await;
    outcome.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn expect_line(stream: &mut UnixStream, line: &[u8]) -> io::Result<()> {
    let mut received_line = vec![0; line.len()];
    stream.read_exact(&mut received_line).await?;
    if received_line == line {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_sockets_are_handed_over_only_when_the_successor_is_ready() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let control = ControlSocket::bind(&path).unwrap();
        let descriptor = listener.as_fd().try_clone_to_owned().unwrap();
        let descriptors = vec![(DescriptorKind::Unix, descriptor)];
        let (other_end, line) = UnixStream::pair().unwrap();
        let before = Predecessors::new(vec![Predecessor {
            run_id: "a".to_owned(),
            connection: Some(clone_connection(&line).unwrap()),
        }]);
        let handing = tokio::spawn(async move {
            loop {
                let successor = control.accept().await;
                if let Ok(line) = successor.hand_over(&descriptors, &before, "b").await {
                    return (control, line);
                }
            }
        });
        // A successor that disconnects before its confirmation changes nothing.
        drop(ReceivedSockets::request(&path).await.unwrap().unwrap());
        let mut inheritance = ReceivedSockets::request(&path).await.unwrap().unwrap();
        assert!(!handing.is_finished());
        assert_eq!(inheritance.predecessors.ids(), ["a", "b"]);
        let inherited = inheritance.take(DescriptorKind::Unix).unwrap();
        assert!(inheritance.take(DescriptorKind::Tcp).is_none());
        inheritance.confirmation.confirm().await.unwrap();
        let (control, own_line) = handing.await.unwrap();
        drop(listener);
        // Each predecessor is tracked until it ends.
        let predecessors = inheritance.predecessors.clone();
        let (ended, mut has_ended) = tokio::sync::mpsc::channel(8);
        predecessors.watch(move || {
            let sent = ended.try_send(());
            async move { sent.unwrap() }
        });
        drop(own_line);
        has_ended.recv().await.unwrap();
        assert_eq!(predecessors.ids(), ["a"]);
        drop(other_end);
        has_ended.recv().await.unwrap();
        assert!(predecessors.ids().is_empty());
        // The socket continues to listen, and its queued connections are kept.
        let inherited = UnixListener::from_std(inherited.into()).unwrap();
        let _client = UnixStream::connect(&path).await.unwrap();
        inherited.accept().await.unwrap();
        control.remove();
        assert!(ReceivedSockets::request(&path).await.unwrap().is_none());
    }
}
