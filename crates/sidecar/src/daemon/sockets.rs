use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::LAST_REQUESTS_BEFORE_RESTART;
use crate::config::Config;
use crate::handover::{Confirmation, Control, Inheritance, Item};
use crate::predecessors::Predecessors;
use crate::server::{Listeners, Stop};
use crate::service_manager::Activated;
use crate::socket::{Socket, SocketError, SocketGuard};

/// The sockets beside their listeners: what they leave behind, and who gets them next.
pub(super) struct Sockets {
    pub(super) path: PathBuf,
    /// What the process before this one waits for before it stops.
    pub(super) confirmation: Option<Confirmation>,
    /// Holds the path; none when the service manager does.
    guard: Option<SocketGuard>,
    /// Where a successor asks; none where there is no place for its socket.
    control: Option<Control>,
    /// The processes before this one that still end calls.
    pub(super) predecessors: Predecessors,
    /// What the successor gets.
    items: Vec<(Item, OwnedFd)>,
}

/// Where the sockets come from.
enum Origin {
    Bound(SocketGuard),
    Activated,
}

impl Sockets {
    /// Gets the sockets: those that the service manager holds, else those of the sidecar that
    /// runs if this one is to take over, else new ones.
    pub(super) async fn open(
        config: &Config,
        take_over: bool,
    ) -> Result<(Self, Listeners), SocketError> {
        let path = config.socket.path.clone();
        let path = path.unwrap_or_else(pillion_client::default_socket_path);
        let activated = Activated::receive().map_err(SocketError::Activation)?;
        let mut inheritance = None;
        if take_over {
            let asked = Inheritance::ask(&path).await;
            inheritance = asked.map_err(SocketError::TakeOver)?;
        }
        let (unix, origin, control) = match (&mut inheritance, activated.unix) {
            (Some(inheritance), _) => inherited(inheritance, &path)?,
            (None, Some(unix)) => {
                let unix = UnixListener::from_std(unix.into()).map_err(SocketError::Activation)?;
                (unix, Origin::Activated, None)
            }
            (None, None) => {
                let (group, mode) = (config.socket.group.as_ref(), config.socket.mode);
                let socket = Socket::bind_with_mode(&path, group, mode).await?;
                let (unix, guard) = socket.into_parts();
                (unix, Origin::Bound(guard), None)
            }
        };
        let handed_over = inheritance.as_mut().and_then(|all| all.take(Item::Tcp));
        let tcp = match config.tcp.listen {
            None => None,
            Some(address) => {
                let tcp = listen(address, [handed_over, activated.tcp]).await;
                let tcp = tcp.map_err(|source| SocketError::Tcp { address, source })?;
                Some((tcp, config.tcp.max_connections.get()))
            }
        };
        let control = control.or_else(|| control_beside(&path));
        let guard = match origin {
            Origin::Bound(guard) => Some(guard),
            Origin::Activated => None,
        };
        let listeners = Listeners { unix, tcp };
        let items = items(&listeners, control.as_ref(), guard.as_ref());
        let (confirmation, predecessors) = inheritance
            .map(|inheritance| (inheritance.confirmation, inheritance.predecessors))
            .unzip();
        let sockets = Self {
            path,
            confirmation,
            predecessors: predecessors.unwrap_or_default(),
            guard,
            control,
            items: items.map_err(SocketError::TakeOver)?,
        };
        Ok((sockets, listeners))
    }

    /// Waits until a successor serves the sockets. It hears which processes still end calls,
    /// this one of that `life` among them, which ends when what comes back is dropped.
    pub(super) async fn hand_over(&self, life: &str) -> UnixStream {
        match &self.control {
            Some(control) => {
                let predecessors = &self.predecessors;
                control.hand_over(&self.items, predecessors, life).await
            }
            None => std::future::pending().await,
        }
    }

    /// Lets go of the sockets, for nobody is to be served any more. Says what that means for
    /// those who connect.
    pub(super) fn close(&mut self) -> Stop {
        if let Some(control) = self.control.take() {
            control.remove();
        }
        self.leave();
        match self.guard {
            Some(_) => Stop::Ending,
            // They wait in the queue of the service manager's socket.
            None => Stop::Continued {
                last_requests: LAST_REQUESTS_BEFORE_RESTART,
            },
        }
    }

    /// Lets go of the sockets, which somebody else has.
    pub(super) fn leave(&mut self) {
        self.items.clear();
        self.control = None;
    }

    /// Removes the socket, which nobody serves any more.
    pub(super) fn remove(self) -> Result<(), SocketError> {
        self.guard.map_or(Ok(()), SocketGuard::remove)
    }
}

fn inherited(
    inheritance: &mut Inheritance,
    path: &Path,
) -> Result<(UnixListener, Origin, Option<Control>), SocketError> {
    let missing = || SocketError::TakeOver(io::ErrorKind::InvalidData.into());
    let unix = inheritance.take(Item::Unix).ok_or_else(missing)?;
    let unix = UnixListener::from_std(unix.into()).map_err(SocketError::TakeOver)?;
    let origin = match inheritance.take(Item::Lock) {
        Some(lock) => Origin::Bound(SocketGuard::handed_over(path, lock)?),
        None => Origin::Activated,
    };
    let control = inheritance.take(Item::Control).ok_or_else(missing)?;
    let control = Control::handed_over(path, control).map_err(SocketError::TakeOver)?;
    Ok((unix, origin, Some(control)))
}

/// The first of the sockets that listens on the address, else a new one.
async fn listen(address: SocketAddr, given: [Option<OwnedFd>; 2]) -> io::Result<TcpListener> {
    for owned in given.into_iter().flatten() {
        let listener = TcpListener::from_std(owned.into())?;
        if listener.local_addr()? == address {
            return Ok(listener);
        }
    }
    TcpListener::bind(address).await
}

/// Without it there is nothing to take over from, and everything else works.
fn control_beside(path: &Path) -> Option<Control> {
    match Control::bind(path) {
        Ok(control) => Some(control),
        Err(error) => {
            tracing::warn!(%error, "No sidecar will be able to take over from this one");
            None
        }
    }
}

fn items(
    listeners: &Listeners,
    control: Option<&Control>,
    guard: Option<&SocketGuard>,
) -> io::Result<Vec<(Item, OwnedFd)>> {
    let tcp = listeners.tcp.as_ref().map(|(tcp, _)| tcp.as_fd());
    let all = [
        (Item::Unix, Some(listeners.unix.as_fd())),
        (Item::Tcp, tcp),
        (Item::Control, control.map(Control::descriptor)),
        (Item::Lock, guard.map(SocketGuard::lock)),
    ];
    let there = all
        .into_iter()
        .filter_map(|(item, found)| Some((item, found?)));
    there
        .map(|(item, found)| Ok((item, found.try_clone_to_owned()?)))
        .collect()
}
