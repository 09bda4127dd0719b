//! The service manager (systemd): what it is told, and the sockets that it holds for us.
//!
//! Where there is none, `NOTIFY_SOCKET` and `LISTEN_FDS` are not set and nothing happens.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::net::AddressFamily;
use sd_notify::NotifyState;

/// Sockets that listen already, bound by the service manager: it keeps them while we are
/// replaced, so that nobody is refused.
#[derive(Debug, Default)]
pub(crate) struct Activated {
    pub(crate) unix: Option<OwnedFd>,
    pub(crate) tcp: Option<OwnedFd>,
}

impl Activated {
    /// The sockets of `LISTEN_FDS`, told apart by their kind. Must be called once, before
    /// anything else is opened.
    pub(crate) fn receive() -> io::Result<Self> {
        let mut activated = Self::default();
        for raw in sd_notify::listen_fds()? {
            #[expect(
                unsafe_code,
                reason = "the service manager says by number which descriptors are ours"
            )]
            // SAFETY: LISTEN_PID names this process, so these descriptors were opened for it;
            // they are looked at once, at start-up, and nobody else knows of them.
            let owned = unsafe { OwnedFd::from_raw_fd(raw) };
            if !rustix::net::sockopt::socket_acceptconn(&owned)? {
                return Err(io::Error::other(format!(
                    "descriptor {raw} does not listen"
                )));
            }
            rustix::io::ioctl_fionbio(&owned, true)?;
            let family = rustix::net::sockopt::socket_domain(&owned)?;
            let place = match family {
                AddressFamily::UNIX => &mut activated.unix,
                AddressFamily::INET | AddressFamily::INET6 => &mut activated.tcp,
                _ => {
                    return Err(io::Error::other(format!(
                        "descriptor {raw} is no socket of ours"
                    )));
                }
            };
            if place.replace(owned).is_some() {
                return Err(io::Error::other("there are two sockets of one kind"));
            }
        }
        Ok(activated)
    }
}

/// We serve.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("Serving")]);
}

/// We serve in the place of the process that was the service's.
pub(crate) fn ready_in_place_of_another() {
    let own = NotifyState::MainPid(std::process::id());
    tell(&[own, NotifyState::Ready, NotifyState::Status("Serving")]);
}

/// The configuration is being read again; [`ready`] or [`reload_failed`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The configuration is wrong, and what held before still does.
pub(crate) fn reload_failed(error: &str) {
    let status = format!("Serving; the new configuration is refused: {error}");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// We are about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("Stopping")]);
}

fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!(%error, "Cannot tell the service manager");
    }
}
