//! Queries the kernel about other sockets of this host and network namespace, through sock_diag(7).

#[cfg(not(target_os = "linux"))]
use std::{net::SocketAddr, os::fd::BorrowedFd};

#[cfg(target_os = "linux")]
pub(super) use linux::{tcp_receive_queue, unix_peer_receive_queue};

#[cfg(not(target_os = "linux"))]
pub(super) fn tcp_receive_queue(
    _own_address: SocketAddr,
    _peer_address: SocketAddr,
) -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn unix_peer_receive_queue(_socket: BorrowedFd<'_>) -> Option<u64> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::{AsRawFd, BorrowedFd};

    use nix::libc;
    use nix::sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
    };
    use nix::sys::stat::fstat;

    /// The message type of queries and their responses (`SOCK_DIAG_BY_FAMILY`).
    const QUERY_BY_FAMILY: u16 = 20;
    /// The flag of each query (`NLM_F_REQUEST`).
    const REQUEST_FLAG: u16 = 1;
    /// The size of `struct nlmsghdr`.
    const HEADER_BYTES: usize = 16;
    /// Selects sockets in all states.
    const ALL_STATES: [u8; 4] = [0xff; 4];
    /// Selects sockets with any cookie (`INET_DIAG_NOCOOKIE`).
    const NO_COOKIE: [u8; 8] = [0xff; 8];

    /// The offset of `idiag_rqueue` in `struct inet_diag_msg`.
    const INET_RECEIVE_QUEUE: usize = 56;
    /// The size of `struct unix_diag_msg`, which attributes follow.
    const UNIX_MESSAGE_BYTES: usize = 16;
    /// Selects the attribute [`PEER_ATTRIBUTE`] (`UDIAG_SHOW_PEER`).
    const SHOW_PEER: u32 = 0x04;
    /// Selects the attribute [`QUEUES_ATTRIBUTE`] (`UDIAG_SHOW_RQLEN`).
    const SHOW_QUEUES: u32 = 0x10;
    /// The inode of the peer (`UNIX_DIAG_PEER`).
    const PEER_ATTRIBUTE: u16 = 2;
    /// The state of a listening socket (`TCP_LISTEN`).
    const LISTEN_STATE: u8 = 10;
    /// The attribute with the lengths of the queues, received bytes first (`UNIX_DIAG_RQLEN`).
    const QUEUES_ATTRIBUTE: u16 = 4;

    /// Returns the number of bytes that the TCP socket with the address `own_address`, connected to
    /// `peer_address`, has received and its process has not read; `None` if this host has no such
    /// socket.
    pub(in super::super) fn tcp_receive_queue(
        own_address: SocketAddr,
        peer_address: SocketAddr,
    ) -> Option<u64> {
        let (own_ip, peer_ip) = (
            own_address.ip().to_canonical(),
            peer_address.ip().to_canonical(),
        );
        let family = match own_ip {
            IpAddr::V4(_) => libc::AF_INET,
            IpAddr::V6(_) => libc::AF_INET6,
        };
        // The query is a `struct inet_diag_req_v2`.
        let mut query = vec![
            u8::try_from(family).ok()?,
            u8::try_from(libc::IPPROTO_TCP).ok()?,
            0,
            0,
        ];
        query.extend(ALL_STATES);
        query.extend(own_address.port().to_be_bytes());
        query.extend(peer_address.port().to_be_bytes());
        query.extend(pad_address(own_ip));
        query.extend(pad_address(peer_ip));
        query.extend([0; 4]);
        query.extend(NO_COOKIE);
        let response = send_query(&query)?;
        // If there is no such connection, the kernel returns a socket that listens on the port
        // instead.
        let is_connection = response.get(1)? != &LISTEN_STATE
            && response.get(4..6)? == own_address.port().to_be_bytes()
            && response.get(6..8)? == peer_address.port().to_be_bytes();
        is_connection.then(|| read_number(response.get(INET_RECEIVE_QUEUE..)?))?
    }

    /// Returns the number of bytes that the peer of a Unix socket has received and its process has
    /// not read; `None` if the peer is in another network namespace.
    pub(in super::super) fn unix_peer_receive_queue(socket: BorrowedFd<'_>) -> Option<u64> {
        let own_inode = u32::try_from(fstat(socket).ok()?.st_ino).ok()?;
        let peer_inode = unix_attribute(own_inode, SHOW_PEER, PEER_ATTRIBUTE)?;
        unix_attribute(
            u32::try_from(peer_inode).ok()?,
            SHOW_QUEUES,
            QUEUES_ATTRIBUTE,
        )
    }

    /// Returns the first number in the attribute `attribute` of the Unix socket with the inode
    /// `inode`.
    fn unix_attribute(inode: u32, show_flags: u32, attribute: u16) -> Option<u64> {
        // The query is a `struct unix_diag_req`.
        let mut query = vec![u8::try_from(libc::AF_UNIX).ok()?, 0, 0, 0];
        query.extend(ALL_STATES);
        query.extend(inode.to_ne_bytes());
        query.extend(show_flags.to_ne_bytes());
        query.extend(NO_COOKIE);
        let response = send_query(&query)?;
        let mut rest = response.get(UNIX_MESSAGE_BYTES..)?;
        while let Some((head, _)) = rest.split_first_chunk::<4>() {
            let [length_0, length_1, type_0, type_1] = *head;
            let length = usize::from(u16::from_ne_bytes([length_0, length_1]));
            if u16::from_ne_bytes([type_0, type_1]) == attribute {
                return read_number(rest.get(4..length)?);
            }
            rest = rest.get(length.max(4).next_multiple_of(4)..)?;
        }
        None
    }

    /// Sends a query, and returns the response without its header; `None` if there is no such
    /// socket, or if the process may not query sockets.
    fn send_query(query: &[u8]) -> Option<Vec<u8>> {
        let diagnostics = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )
        .ok()?;
        let length = u32::try_from(HEADER_BYTES + query.len()).ok()?;
        // The header is a `struct nlmsghdr`.
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(QUERY_BY_FAMILY.to_ne_bytes());
        message.extend(REQUEST_FLAG.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(query);
        send(diagnostics.as_raw_fd(), &message, MsgFlags::empty()).ok()?;
        let mut response = vec![0; 1024];
        // The response is available at once, because the kernel responds before `send` returns.
        let received_bytes = recv(
            diagnostics.as_raw_fd(),
            &mut response,
            MsgFlags::MSG_DONTWAIT,
        );
        response.truncate(received_bytes.ok()?);
        let (header, payload) = response.split_at_checked(HEADER_BYTES)?;
        let is_response = header.get(4..6)? == QUERY_BY_FAMILY.to_ne_bytes();
        is_response.then(|| payload.to_vec())
    }

    fn read_number(bytes: &[u8]) -> Option<u64> {
        let number_bytes = bytes.first_chunk::<4>()?;
        Some(u64::from(u32::from_ne_bytes(*number_bytes)))
    }

    fn pad_address(address: IpAddr) -> [u8; 16] {
        match address {
            IpAddr::V6(address) => address.octets(),
            IpAddr::V4(address) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&address.octets());
                octets
            }
        }
    }
}
