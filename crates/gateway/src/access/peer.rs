use std::net::SocketAddr;

/// The peer of a connection, as an extension of every request on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A process of this host on the Unix socket, with credentials from the kernel, which cannot be
    /// forged.
    Process {
        /// The user id of the process when it connected.
        uid: u32,
        /// The primary group id of the process when it connected.
        gid: u32,
        /// The process id, if the system reports it. The process may have ended since.
        pid: Option<i32>,
    },
    /// A client that is connected over TCP.
    Network {
        /// The address and port of the client.
        address: SocketAddr,
    },
}

impl Peer {
    /// Returns the kind of connection, for logs and metrics: `unix` or `tcp`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Process { .. } => "unix",
            Self::Network { .. } => "tcp",
        }
    }
}
