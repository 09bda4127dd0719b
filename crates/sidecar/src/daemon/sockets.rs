use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::RESTART_LAST_REQUEST_TIMEOUT;
use crate::handover::{
    Confirmation, ControlSocket, DescriptorKind, ReceivedSockets, control_path, is_listening_on,
};
use crate::server::{Listeners, Stop, TcpEndpoint};
use crate::service_manager::ActivatedSockets;
use crate::socket::{Permissions, Result, Socket, SocketError, SocketFileId, SocketGuard};
use pillion_config::Config;
use pillion_gateway::finishing::FinishingLock;
use pillion_gateway::predecessors::Predecessors;

/// Interval at which the sidecar checks that clients can reach its sockets by their paths.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The files and descriptors of the sockets, for cleanup and for a successor.
pub(super) struct Sockets {
    pub(super) path: PathBuf,
    /// Confirms to the predecessor that this process is ready, so that the predecessor stops.
    pub(super) confirmation: Option<Confirmation>,
    /// The guard that owns the path of the Unix socket; `None` if the service manager owns the
    /// path.
    guard: Option<SocketGuard>,
    /// The control socket for the next sidecar process; `None` if binding the control socket
    /// failed.
    control_socket: Option<ControlSocket>,
    /// Earlier processes that are still finishing calls.
    pub(super) predecessors: Predecessors,
    /// The descriptors of the sockets and of the lock, to hand over to a successor.
    descriptors: Vec<(DescriptorKind, OwnedFd)>,
    /// Sends the server a listener that replaces the current one.
    replacements: mpsc::Sender<UnixListener>,
    /// The device and inode numbers of the service manager's socket file, if known.
    activated_file: Option<SocketFileId>,
    /// The last logged problem with the files of the sockets.
    logged_problem: Option<String>,
}

impl Sockets {
    /// Returns the sockets to serve. With `take_over`, takes over the sockets of the running
    /// sidecar; otherwise uses the sockets of the service manager, or binds new sockets if the
    /// service manager provides none.
    pub(super) async fn open(config: &Config, take_over: bool) -> Result<(Self, Listeners)> {
        let configured_path = config.socket.path.clone();
        let path = configured_path.unwrap_or_else(pillion_client::default_socket_path);
        let activated_sockets = ActivatedSockets::receive().map_err(SocketError::Activation)?;
        let mut received_sockets = None;
        if take_over {
            received_sockets = ReceivedSockets::request(&path).await?;
            if received_sockets.is_none()
                && activated_sockets.unix.is_none()
                && !control_path(&path).exists()
            {
                // Waits and tries once more, because a running sidecar restores a removed control
                // socket within this time.
                tokio::time::sleep(CHECK_INTERVAL.mul_f32(1.5)).await;
                received_sockets = ReceivedSockets::request(&path).await?;
            }
        }
        let (group, mode) = (config.socket.group.as_ref(), config.socket.mode);
        let (unix, guard, received_control) = match (&mut received_sockets, activated_sockets.unix)
        {
            (Some(received_sockets), _) => {
                adopt_sockets(received_sockets, &path, Permissions::resolve(group, mode)?)?
            }
            (None, Some(unix)) => {
                let unix = UnixListener::from_std(unix.into()).map_err(SocketError::Activation)?;
                (unix, None, None)
            }
            (None, None) => {
                let bind_outcome = Socket::bind_with_mode(&path, group, mode).await;
                let socket = bind_outcome.map_err(|error| match error {
                    SocketError::AlreadyServed(path) | SocketError::ServedWithoutFile(path)
                        if take_over =>
                    {
                        SocketError::NotHandedOver(path)
                    }
                    error => error,
                })?;
                let (unix, guard) = socket.into_parts();
                (unix, Some(guard), None)
            }
        };
        let received_tcp = received_sockets
            .as_mut()
            .and_then(|sockets| sockets.take(DescriptorKind::Tcp));
        let tcp = match config.tcp.listen {
            None => None,
            Some(address) => {
                let listener = listen(address, [received_tcp, activated_sockets.tcp])
                    .await
                    .map_err(|source| SocketError::Tcp { address, source })?;
                Some(TcpEndpoint {
                    listener,
                    max_connections: config.tcp.max_connections.get(),
                    authentication_timeout: config.tcp.authentication_timeout,
                })
            }
        };
        let control_socket = received_control.or_else(|| bind_control_socket(&path));
        let activated_file = match guard {
            Some(_) => None,
            None => SocketFileId::for_path(&path).unwrap_or_default(),
        };
        let (replacements, replacement_receiver) = mpsc::channel(1);
        let listeners = Listeners {
            unix,
            replacements: Some(replacement_receiver),
            tcp,
        };
        let descriptors = collect_descriptors(&listeners, control_socket.as_ref(), guard.as_ref());
        let (confirmation, predecessors) = received_sockets
            .map(|sockets| (sockets.confirmation, sockets.predecessors))
            .unzip();
        let sockets = Self {
            path,
            confirmation,
            predecessors: predecessors.unwrap_or_default(),
            guard,
            control_socket,
            descriptors: descriptors.map_err(SocketError::TakeOver)?,
            replacements,
            activated_file,
            logged_problem: None,
        };
        Ok((sockets, listeners))
    }

    /// Waits until a successor serves the sockets, and keeps the sockets' files in place until
    /// then. The successor receives the run IDs of the processes that are still finishing calls,
    /// including `run_id`, the run ID of this process. Dropping the returned stream tells the
    /// successor that this process has finished.
    pub(super) async fn hand_over(&mut self, run_id: &str) -> UnixStream {
        loop {
            let accept_future = async {
                match &self.control_socket {
                    Some(control_socket) => control_socket.accept().await,
                    None => std::future::pending().await,
                }
            };
            // Accepts a successor first and restores removed files only if none connects, because
            // the files must not be restored while a successor takes over.
            let Ok(successor) = tokio::time::timeout(CHECK_INTERVAL, accept_future).await else {
                self.restore().await;
                continue;
            };
            let handover = successor.hand_over(&self.descriptors, &self.predecessors, run_id);
            match handover.await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::warn!(%error, "A new sidecar failed to take over");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Binds a socket again if clients or the next sidecar process could not connect to it: the
    /// Unix socket if its file or lock file was removed or replaced, the control socket if its file
    /// was removed. A socket of the service manager is only checked.
    async fn restore(&mut self) {
        let socket_outcome = match &self.guard {
            Some(guard) if !guard.is_intact() => self.restore_socket().await,
            Some(_) => Ok(()),
            None => self.check_activated_file(),
        };
        let problem = socket_outcome
            .and_then(|()| self.restore_control())
            .err()
            .map(|error| error.to_string());
        if problem != self.logged_problem
            && let Some(error) = &problem
        {
            tracing::error!(
                socket = %self.path.display(), error,
                "Cannot restore the socket files: clients may be unable to connect"
            );
        }
        self.logged_problem = problem;
    }

    async fn restore_socket(&mut self) -> Result<()> {
        let Some(guard) = &mut self.guard else {
            return Ok(());
        };
        let listener = guard.restore().await?;
        let to_error = SocketError::TakeOver;
        let lock = guard.lock().try_clone_to_owned().map_err(to_error)?;
        replace_descriptor(&mut self.descriptors, DescriptorKind::Lock, lock);
        if let Some(listener) = listener {
            let descriptor = listener.as_fd().try_clone_to_owned().map_err(to_error)?;
            replace_descriptor(&mut self.descriptors, DescriptorKind::Unix, descriptor);
            // A send error is ignored: the receiver no longer exists if the sidecar is stopping.
            drop(self.replacements.send(listener).await);
        }
        tracing::warn!(
            socket = %self.path.display(),
            "The socket file or its lock file was removed or replaced: listening on {} again",
            self.path.display()
        );
        Ok(())
    }

    fn restore_control(&mut self) -> Result<()> {
        if !self
            .control_socket
            .as_ref()
            .is_some_and(ControlSocket::is_gone)
        {
            return Ok(());
        }
        let control_socket =
            ControlSocket::bind(&self.path).map_err(|source| SocketError::Bind {
                path: self.path.clone(),
                source,
            })?;
        let control_descriptor = control_socket.descriptor().try_clone_to_owned();
        replace_descriptor(
            &mut self.descriptors,
            DescriptorKind::ControlSocket,
            control_descriptor.map_err(SocketError::TakeOver)?,
        );
        self.control_socket = Some(control_socket);
        Ok(())
    }

    /// Checks the file of the service manager's socket, which only the service manager can bind
    /// again.
    fn check_activated_file(&self) -> Result<()> {
        let is_gone = |file| {
            !SocketFileId::for_path(&self.path).is_ok_and(|current_file| current_file == Some(file))
        };
        if self.activated_file.is_some_and(is_gone) {
            return Err(SocketError::ActivatedSocketMissing(self.path.clone()));
        }
        Ok(())
    }

    /// Releases the sockets because this process serves no more requests. Returns
    /// [`Stop::WithSuccessor`] if new connections wait for the next process, or
    /// [`Stop::WithoutSuccessor`] if new connections are rejected.
    pub(super) fn close(&mut self) -> Stop {
        if let Some(control_socket) = self.control_socket.take() {
            control_socket.remove();
        }
        self.descriptors.clear();
        match self.guard {
            Some(_) => Stop::WithoutSuccessor,
            // Without a guard, the service manager owns the socket, and new connections wait in the
            // socket's queue for the next process.
            None => Stop::WithSuccessor {
                last_request_timeout: RESTART_LAST_REQUEST_TIMEOUT,
            },
        }
    }

    /// Releases the sockets, and this process's descriptor of the lock on their path. The successor
    /// has another descriptor of the lock: if the successor dies, a further sidecar can start
    /// although this process is still finishing calls. The returned lock tells that sidecar that
    /// the process `run_id` is still finishing calls.
    pub(super) fn release(&mut self, run_id: &str) -> Option<FinishingLock> {
        self.descriptors.clear();
        self.control_socket = None;
        let Some(guard) = self.guard.take() else {
            // The service manager owns the path, so this process has no lock to release.
            return None;
        };
        match FinishingLock::acquire(&self.path, run_id) {
            Ok(lock) => Some(lock),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "Cannot record that this sidecar is finishing its calls: if the new sidecar \
                     exits early, no other sidecar can start before the calls have ended"
                );
                self.guard = Some(guard);
                None
            }
        }
    }

    /// Removes the file of the socket, which no process serves anymore.
    pub(super) fn remove(self) -> Result<()> {
        self.guard.map_or(Ok(()), SocketGuard::remove)
    }
}

/// Adds a descriptor, in place of an earlier descriptor of the same kind.
fn replace_descriptor(
    descriptors: &mut Vec<(DescriptorKind, OwnedFd)>,
    kind: DescriptorKind,
    descriptor: OwnedFd,
) {
    descriptors.retain(|(old_kind, _)| *old_kind != kind);
    descriptors.push((kind, descriptor));
}

/// Returns the Unix socket, the guard of its path (unless the service manager owns the path), and
/// the control socket.
fn adopt_sockets(
    received_sockets: &mut ReceivedSockets,
    path: &Path,
    permissions: Permissions,
) -> Result<(UnixListener, Option<SocketGuard>, Option<ControlSocket>)> {
    let missing_descriptor = || SocketError::TakeOver(io::ErrorKind::InvalidData.into());
    let mut take = |kind| received_sockets.take(kind).ok_or_else(missing_descriptor);
    let unix_descriptor = take(DescriptorKind::Unix)?;
    let control_descriptor = take(DescriptorKind::ControlSocket)?;
    for (descriptor, expected_path) in [
        (&unix_descriptor, path),
        (&control_descriptor, &control_path(path)),
    ] {
        if !is_listening_on(descriptor, expected_path).map_err(SocketError::TakeOver)? {
            let path = expected_path.to_owned();
            return Err(SocketError::ForeignSocket { path });
        }
    }
    let unix = UnixListener::from_std(unix_descriptor.into()).map_err(SocketError::TakeOver)?;
    let lock = received_sockets.take(DescriptorKind::Lock);
    let guard = lock.map(|lock| SocketGuard::from_handover(path, lock, permissions));
    let control_socket =
        ControlSocket::from_handover(path, control_descriptor).map_err(SocketError::TakeOver)?;
    Ok((unix, guard.transpose()?, Some(control_socket)))
}

/// Returns the first of `received_descriptors` that listens on `address`, or else a new socket.
async fn listen(
    address: SocketAddr,
    received_descriptors: [Option<OwnedFd>; 2],
) -> io::Result<TcpListener> {
    for descriptor in received_descriptors.into_iter().flatten() {
        let listener = TcpListener::from_std(descriptor.into())?;
        if listener.local_addr()? == address {
            return Ok(listener);
        }
    }
    TcpListener::bind(address).await
}

/// Binds the control socket. If this fails, no sidecar can take over, and everything else works.
fn bind_control_socket(path: &Path) -> Option<ControlSocket> {
    match ControlSocket::bind(path) {
        Ok(control_socket) => Some(control_socket),
        Err(error) => {
            tracing::warn!(
                %error,
                "Cannot create the control socket: no other sidecar can take over from this one"
            );
            None
        }
    }
}

fn collect_descriptors(
    listeners: &Listeners,
    control_socket: Option<&ControlSocket>,
    guard: Option<&SocketGuard>,
) -> io::Result<Vec<(DescriptorKind, OwnedFd)>> {
    let tcp = listeners.tcp.as_ref().map(|tcp| tcp.listener.as_fd());
    let control = control_socket.map(ControlSocket::descriptor);
    let sources = [
        (DescriptorKind::Unix, Some(listeners.unix.as_fd())),
        (DescriptorKind::Tcp, tcp),
        (DescriptorKind::ControlSocket, control),
        (DescriptorKind::Lock, guard.map(SocketGuard::lock)),
    ];
    sources
        .into_iter()
        .filter_map(|(kind, descriptor)| Some((kind, descriptor?)))
        .map(|(kind, descriptor)| Ok((kind, descriptor.try_clone_to_owned()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn l3_a_handed_over_socket_with_another_path_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (directory.path().join("s"), directory.path().join("other"));
        let permissions = Permissions::resolve(None, None).unwrap();
        for listens in [&elsewhere, &path] {
            drop(std::fs::remove_file(listens));
            let listener = UnixListener::bind(listens).unwrap();
            let control_socket = ControlSocket::bind(&path).unwrap();
            let copies = [
                (DescriptorKind::Unix, listener.as_fd()),
                (DescriptorKind::ControlSocket, control_socket.descriptor()),
            ]
            .map(|(kind, descriptor)| (kind, descriptor.try_clone_to_owned().unwrap()));
            let handing = tokio::spawn(async move {
                let successor = control_socket.accept().await;
                let none = Predecessors::default();
                drop(successor.hand_over(&copies, &none, "a").await);
            });
            let mut inheritance = ReceivedSockets::request(&path).await.unwrap().unwrap();
            let taken = adopt_sockets(&mut inheritance, &path, permissions);
            match taken {
                Ok(_) => assert_eq!(listens, &path),
                Err(SocketError::ForeignSocket { path: rejected }) => {
                    assert_eq!((listens, &rejected), (&elsewhere, &path));
                }
                Err(other) => panic!("{other}"),
            }
            handing.abort();
        }
    }
}
