use std::net::SocketAddr;

/// Who is at the other end of a connection: an extension of every request on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A process of this host, on the Unix socket. The kernel says who; nobody can pretend.
    Process {
        /// The user that it ran as when it connected.
        uid: u32,
        /// Its first group then.
        gid: u32,
        /// Its id, where the system tells it. It may have ended since.
        pid: Option<i32>,
    },
    /// Somebody on TCP.
    Network {
        /// Where they connect from.
        address: SocketAddr,
    },
}

impl Peer {
    /// The kind of connection, for logs and statistics: `unix` or `tcp`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Process { .. } => "unix",
            Self::Network { .. } => "tcp",
        }
    }
}
