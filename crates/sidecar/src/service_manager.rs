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
pub(crate) struct ActivatedSockets {
    pub(crate) unix: Option<OwnedFd>,
    pub(crate) tcp: Option<OwnedFd>,
}

impl ActivatedSockets {
    /// Returns the sockets of `LISTEN_FDS`, distinguished by their address family. Must be called
    /// once, before any other file is opened.
    pub(crate) fn receive() -> io::Result<Self> {
        let mut sockets = Self::default();
        for number in sd_notify::listen_fds()? {
            #[expect(
                unsafe_code,
                reason = "the service manager passes descriptors by number"
            )]
            // SAFETY: `LISTEN_PID` names this process, so these descriptors were opened for it.
            // The sidecar adopts each descriptor once, at start-up, and nothing else uses it.
            let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
            if !rustix::net::sockopt::socket_acceptconn(&descriptor)? {
                return Err(io::Error::other(format!(
                    "file descriptor {number} is not a listening socket"
                )));
            }
            rustix::io::ioctl_fionbio(&descriptor, true)?;
            let family = rustix::net::sockopt::socket_domain(&descriptor)?;
            let slot = match family {
                AddressFamily::UNIX => &mut sockets.unix,
                AddressFamily::INET | AddressFamily::INET6 => &mut sockets.tcp,
                _ => {
                    return Err(io::Error::other(format!(
                        "file descriptor {number} is neither a Unix socket nor a TCP socket"
                    )));
                }
            };
            if slot.replace(descriptor).is_some() {
                return Err(io::Error::other(
                    "expected at most one Unix socket and one TCP socket",
                ));
            }
        }
        Ok(sockets)
    }
}

/// Reports that the sidecar serves requests.
pub(crate) fn notify_ready() {
    notify(&[NotifyState::Ready, NotifyState::Status("Serving")]);
}

/// Reports that this process serves requests as the new main process of the service.
pub(crate) fn notify_ready_as_main_process() {
    let main_pid = NotifyState::MainPid(std::process::id());
    notify(&[main_pid, NotifyState::Ready, NotifyState::Status("Serving")]);
}

/// Reports that the configuration is being reloaded, until [`notify_ready`] or
/// [`notify_reload_failed`].
pub(crate) fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Reports that the new configuration was rejected, so the old one stays in effect.
pub(crate) fn notify_reload_failed(error: &str) {
    let status = format!("Serving; rejected the new configuration: {error}");
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the sidecar is stopping.
pub(crate) fn notify_stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("Stopping")]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "Cannot notify the service manager");
    }
}
