//! Notifies the service manager (systemd), and receives sockets from it.
//!
//! Without a service manager, `NOTIFY_SOCKET` and `LISTEN_FDS` are not set, and this module does
//! nothing.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::net::AddressFamily;
use sd_notify::NotifyState;

/// Listening sockets that the service manager has bound and keeps open while the sidecar restarts,
/// so that no client is rejected.
#[derive(Debug, Default)]
pub(crate) struct Activated {
    pub(crate) unix: Option<OwnedFd>,
    pub(crate) tcp: Option<OwnedFd>,
}

impl Activated {
    /// Returns the sockets of `LISTEN_FDS`, distinguished by their address family. Must be called
    /// once, before any other file is opened.
    pub(crate) fn receive() -> io::Result<Self> {
        let mut activated = Self::default();
        for raw in sd_notify::listen_fds()? {
            #[expect(
                unsafe_code,
                reason = "the service manager says by number which descriptors are ours"
            )]
            // SAFETY: `LISTEN_PID` names this process, so these descriptors were opened for it.
            // They are adopted once, at start-up, and nothing else uses them.
            let owned = unsafe { OwnedFd::from_raw_fd(raw) };
            if !rustix::net::sockopt::socket_acceptconn(&owned)? {
                return Err(io::Error::other(format!(
                    "file descriptor {raw} is not a listening socket"
                )));
            }
            rustix::io::ioctl_fionbio(&owned, true)?;
            let family = rustix::net::sockopt::socket_domain(&owned)?;
            let slot = match family {
                AddressFamily::UNIX => &mut activated.unix,
                AddressFamily::INET | AddressFamily::INET6 => &mut activated.tcp,
                _ => {
                    return Err(io::Error::other(format!(
                        "file descriptor {raw} is neither a Unix socket nor a TCP socket"
                    )));
                }
            };
            if slot.replace(owned).is_some() {
                return Err(io::Error::other(
                    "expected at most one Unix socket and one TCP socket",
                ));
            }
        }
        Ok(activated)
    }
}

/// Reports that the sidecar serves requests.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready, NotifyState::Status("Serving")]);
}

/// Reports that this process serves requests as the new main process of the service.
pub(crate) fn ready_as_main_process() {
    let own = NotifyState::MainPid(std::process::id());
    notify(&[own, NotifyState::Ready, NotifyState::Status("Serving")]);
}

/// Reports that the configuration is being reloaded, until [`ready`] or [`reload_failed`].
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Reports that the new configuration was rejected, so the old one stays in effect.
pub(crate) fn reload_failed(error: &str) {
    let status = format!("Serving; rejected the new configuration: {error}");
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the sidecar is stopping.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("Stopping")]);
}

fn notify(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!(%error, "Cannot notify the service manager");
    }
}
