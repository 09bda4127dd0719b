use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::RESTART_LAST_REQUEST_TIMEOUT;
use crate::handover::{
    Confirmation, ControlSocket, DescriptorKind, ReceivedSockets, control_path, listens_on,
};
use crate::server::{Listeners, Stop, TcpEndpoint};
use crate::service_manager::Activated;
use crate::socket::{Permissions, Socket, SocketError, SocketFileId, SocketGuard};
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
    /// The guard that owns the path; `None` if the service manager owns the path.
    guard: Option<SocketGuard>,
    /// The control socket for successors; `None` if it could not be bound.
    control: Option<ControlSocket>,
    /// The predecessors that still finish calls.
    pub(super) predecessors: Predecessors,
    /// The descriptors that the successor gets.
    descriptors: Vec<(DescriptorKind, OwnedFd)>,
    /// Sends the server a listener that replaces the current one.
    replacements: mpsc::Sender<UnixListener>,
    /// The id of the file of the service manager's socket, if known.
    activated_file: Option<SocketFileId>,
    /// The problem with the sockets' files that was logged last.
    trouble: Option<String>,
}

impl Sockets {
    /// Returns the sockets: with `take_over` those of the running sidecar, otherwise those of the
    /// service manager, otherwise new ones.
    pub(super) async fn open(
        config: &Config,
        take_over: bool,
    ) -> Result<(Self, Listeners), SocketError> {
        let configured = config.socket.path.clone();
        let path = configured.unwrap_or_else(pillion_client::default_socket_path);
        let activated = Activated::receive().map_err(SocketError::Activation)?;
        let mut inheritance = None;
        if take_over {
            inheritance = ReceivedSockets::request(&path).await?;
            if inheritance.is_none() && activated.unix.is_none() && !control_path(&path).exists() {
                // A running sidecar restores a removed control socket within this time.
                tokio::time::sleep(CHECK_INTERVAL.mul_f32(1.5)).await;
                inheritance = ReceivedSockets::request(&path).await?;
            }
        }
        let (group, mode) = (config.socket.group.as_ref(), config.socket.mode);
        let (unix, guard, control) = match (&mut inheritance, activated.unix) {
            (Some(inheritance), _) => {
                inherited(inheritance, &path, Permissions::resolve(group, mode)?)?
            }
            (None, Some(unix)) => {
                let unix = UnixListener::from_std(unix.into()).map_err(SocketError::Activation)?;
                (unix, None, None)
            }
            (None, None) => {
                let bound = Socket::bind_with_mode(&path, group, mode).await;
                let socket = bound.map_err(|error| match error {
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
        let handed_over = inheritance
            .as_mut()
            .and_then(|all| all.take(DescriptorKind::Tcp));
        let tcp = match config.tcp.listen {
            None => None,
            Some(address) => {
                let listener = listen(address, [handed_over, activated.tcp])
                    .await
                    .map_err(|source| SocketError::Tcp { address, source })?;
                Some(TcpEndpoint {
                    listener,
                    max_connections: config.tcp.max_connections.get(),
                    authentication_timeout: config.tcp.authentication_timeout,
                })
            }
        };
        let control = control.or_else(|| bind_control_socket(&path));
        let activated_file = match guard {
            Some(_) => None,
            None => SocketFileId::at(&path).unwrap_or_default(),
        };
        let (replacements, replaced) = mpsc::channel(1);
        let listeners = Listeners {
            unix,
            replacements: Some(replaced),
            tcp,
        };
        let descriptors = descriptors(&listeners, control.as_ref(), guard.as_ref());
        let (confirmation, predecessors) = inheritance
            .map(|inheritance| (inheritance.confirmation, inheritance.predecessors))
            .unzip();
        let sockets = Self {
            path,
            confirmation,
            predecessors: predecessors.unwrap_or_default(),
            guard,
            control,
            descriptors: descriptors.map_err(SocketError::TakeOver)?,
            replacements,
            activated_file,
            trouble: None,
        };
        Ok((sockets, listeners))
    }

    /// Waits until a successor serves the sockets, and keeps the sockets' files in place meanwhile.
    /// The successor learns which processes still finish calls, including this process with its
    /// `run_id`, until the returned stream is dropped.
    pub(super) async fn hand_over(&mut self, run_id: &str) -> UnixStream {
        loop {
            let accepted = async {
                match &self.control {
                    Some(control) => control.accept().await,
                    None => std::future::pending().await,
                }
            };
            // The files are not restored while a successor takes over.
            let Ok(successor) = tokio::time::timeout(CHECK_INTERVAL, accepted).await else {
                self.restore().await;
                continue;
            };
            let handed = successor.hand_over(&self.descriptors, &self.predecessors, run_id);
            match handed.await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::warn!(%error, "A new sidecar failed to take over");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Binds those sockets again that clients and successors can no longer reach by path.
    async fn restore(&mut self) {
        let socket = match &self.guard {
            Some(guard) if !guard.is_intact() => self.restore_socket().await,
            Some(_) => Ok(()),
            None => self.check_activated_file(),
        };
        let trouble = socket
            .and_then(|()| self.restore_control())
            .err()
            .map(|error| error.to_string());
        if trouble != self.trouble
            && let Some(error) = &trouble
        {
            tracing::error!(
                socket = %self.path.display(), error,
                "Cannot restore the socket files: clients may be unable to connect"
            );
        }
        self.trouble = trouble;
    }

    async fn restore_socket(&mut self) -> Result<(), SocketError> {
        let Some(guard) = &mut self.guard else {
            return Ok(());
        };
        let listener = guard.restore().await?;
        let error = SocketError::TakeOver;
        let lock = guard.lock().try_clone_to_owned().map_err(error)?;
        put(&mut self.descriptors, DescriptorKind::Lock, lock);
        if let Some(listener) = listener {
            let copy = listener.as_fd().try_clone_to_owned().map_err(error)?;
            put(&mut self.descriptors, DescriptorKind::Unix, copy);
            // The receiver no longer exists if the sidecar is stopping.
            drop(self.replacements.send(listener).await);
        }
        tracing::warn!(
            socket = %self.path.display(),
            "The socket file or its lock file was removed or replaced: listening on {} again",
            self.path.display()
        );
        Ok(())
    }

    fn restore_control(&mut self) -> Result<(), SocketError> {
        if !self.control.as_ref().is_some_and(ControlSocket::is_gone) {
            return Ok(());
        }
        let control = ControlSocket::bind(&self.path).map_err(|source| SocketError::Bind {
            path: self.path.clone(),
            source,
        })?;
        let copy = control.descriptor().try_clone_to_owned();
        put(
            &mut self.descriptors,
            DescriptorKind::ControlSocket,
            copy.map_err(SocketError::TakeOver)?,
        );
        self.control = Some(control);
        Ok(())
    }

    /// Checks the file of the service manager's socket, which only the service manager can bind
    /// again.
    fn check_activated_file(&self) -> Result<(), SocketError> {
        let is_gone = |file| !SocketFileId::at(&self.path).is_ok_and(|found| found == Some(file));
        match self.activated_file {
            Some(file) if is_gone(file) => Err(SocketError::ActivatedIsGone(self.path.clone())),
            _ => Ok(()),
        }
    }

    /// Releases the sockets because this process serves no more requests. Returns
    /// [`Stop::Continued`] if new connections wait for the next process, or [`Stop::Ending`] if
    /// they are rejected.
    pub(super) fn close(&mut self) -> Stop {
        if let Some(control) = self.control.take() {
            control.remove();
        }
        self.descriptors.clear();
        match self.guard {
            Some(_) => Stop::Ending,
            // New connections wait in the queue of the service manager's socket.
            None => Stop::Continued {
                last_requests: RESTART_LAST_REQUEST_TIMEOUT,
            },
        }
    }

    /// Releases the sockets and the lock on their path, of which the successor has a copy: if the
    /// successor dies, another sidecar can start although this process still finishes calls. The
    /// returned lock tells that sidecar that the process `run_id` still finishes calls.
    pub(super) fn leave(&mut self, run_id: &str) -> Option<FinishingLock> {
        self.descriptors.clear();
        self.control = None;
        let Some(guard) = self.guard.take() else {
            return None; // The service manager owns the path.
        };
        match FinishingLock::acquire(&self.path, run_id) {
            Ok(lock) => Some(lock),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "Cannot mark this process as finishing its calls: if the new sidecar dies \
                     before they end, no other sidecar can start until then"
                );
                self.guard = Some(guard);
                None
            }
        }
    }

    /// Removes the file of the socket, which no process serves anymore.
    pub(super) fn remove(self) -> Result<(), SocketError> {
        self.guard.map_or(Ok(()), SocketGuard::remove)
    }
}

/// Replaces the descriptor of one kind.
fn put(descriptors: &mut Vec<(DescriptorKind, OwnedFd)>, item: DescriptorKind, owned: OwnedFd) {
    descriptors.retain(|(known, _)| *known != item);
    descriptors.push((item, owned));
}

/// Returns the Unix socket, the guard of its path (unless the service manager owns the path), and
/// the control socket.
fn inherited(
    inheritance: &mut ReceivedSockets,
    path: &Path,
    permissions: Permissions,
) -> Result<(UnixListener, Option<SocketGuard>, Option<ControlSocket>), SocketError> {
    let missing = || SocketError::TakeOver(io::ErrorKind::InvalidData.into());
    let unix = inheritance.take(DescriptorKind::Unix).ok_or_else(missing)?;
    let control = inheritance
        .take(DescriptorKind::ControlSocket)
        .ok_or_else(missing)?;
    for (owned, path) in [(&unix, path), (&control, &control_path(path))] {
        if !listens_on(owned, path).map_err(SocketError::TakeOver)? {
            let path = path.to_owned();
            return Err(SocketError::ForeignSocket { path });
        }
    }
    let unix = UnixListener::from_std(unix.into()).map_err(SocketError::TakeOver)?;
    let lock = inheritance.take(DescriptorKind::Lock);
    let guard = lock.map(|lock| SocketGuard::handed_over(path, lock, permissions));
    let control = ControlSocket::handed_over(path, control).map_err(SocketError::TakeOver)?;
    Ok((unix, guard.transpose()?, Some(control)))
}

/// Returns the first of `received` that listens on `address`, or else a new socket.
async fn listen(address: SocketAddr, received: [Option<OwnedFd>; 2]) -> io::Result<TcpListener> {
    for owned in received.into_iter().flatten() {
        let listener = TcpListener::from_std(owned.into())?;
        if listener.local_addr()? == address {
            return Ok(listener);
        }
    }
    TcpListener::bind(address).await
}

/// Binds the control socket. If this fails, no sidecar can take over, and everything else works.
fn bind_control_socket(path: &Path) -> Option<ControlSocket> {
    match ControlSocket::bind(path) {
        Ok(control) => Some(control),
        Err(error) => {
            tracing::warn!(
                %error,
                "Cannot create the control socket: no other sidecar can take over from this one"
            );
            None
        }
    }
}

fn descriptors(
    listeners: &Listeners,
    control: Option<&ControlSocket>,
    guard: Option<&SocketGuard>,
) -> io::Result<Vec<(DescriptorKind, OwnedFd)>> {
    let tcp = listeners.tcp.as_ref().map(|tcp| tcp.listener.as_fd());
    let all = [
        (DescriptorKind::Unix, Some(listeners.unix.as_fd())),
        (DescriptorKind::Tcp, tcp),
        (
            DescriptorKind::ControlSocket,
            control.map(ControlSocket::descriptor),
        ),
        (DescriptorKind::Lock, guard.map(SocketGuard::lock)),
    ];
    all.into_iter()
        .filter_map(|(item, found)| Some((item, found?)))
        .map(|(item, found)| Ok((item, found.try_clone_to_owned()?)))
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
            let control = ControlSocket::bind(&path).unwrap();
            let copies = [
                (
                    DescriptorKind::Unix,
                    listener.as_fd().try_clone_to_owned().unwrap(),
                ),
                (
                    DescriptorKind::ControlSocket,
                    control.descriptor().try_clone_to_owned().unwrap(),
                ),
            ];
            let handing = tokio::spawn(async move {
                let successor = control.accept().await;
                let none = Predecessors::default();
                drop(successor.hand_over(&copies, &none, "a").await);
            });
            let mut inheritance = ReceivedSockets::request(&path).await.unwrap().unwrap();
            let taken = inherited(&mut inheritance, &path, permissions);
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
