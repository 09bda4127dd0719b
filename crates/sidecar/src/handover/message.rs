//! The message that carries descriptors: a letter for the kind of each descriptor, then a line with
//! the id of each process, and the descriptors as ancillary data.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::DescriptorKind;

const MAX_ITEMS: usize = 64;

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

impl DescriptorKind {
    fn from_letter(letter: u8) -> Option<Self> {
        let all = [
            Self::Unix,
            Self::Tcp,
            Self::ControlSocket,
            Self::Lock,
            Self::Predecessor,
        ];
        all.into_iter().find(|kind| *kind as u8 == letter)
    }
}

pub(super) async fn send(
    stream: &UnixStream,
    descriptors: &[(DescriptorKind, BorrowedFd<'_>)],
    process_ids: &[String],
) -> io::Result<()> {
    let mut letters: Vec<_> = descriptors.iter().map(|(kind, _)| *kind as u8).collect();
    for id in process_ids {
        letters.push(b'\n');
        letters.extend_from_slice(id.as_bytes());
    }
    if letters.len() > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let rights: Vec<_> = descriptors.iter().map(|(_, owned)| *owned).collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ITEMS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&rights)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let text = [IoSlice::new(&letters)];
        let sent = rustix::net::sendmsg(stream, &text, &mut control, SendFlags::NOSIGNAL)?;
        // The system sends a message of this size completely or not at all.
        if sent == letters.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    };
    stream.async_io(Interest::WRITABLE, send).await
}

/// The content of a message: the descriptors with their kinds, and the process ids.
type ReceivedMessage = (Vec<(DescriptorKind, OwnedFd)>, Vec<String>);

pub(super) async fn receive(stream: &UnixStream) -> io::Result<ReceivedMessage> {
    let receive = || {
        let mut letters = [0; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ITEMS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = rustix::net::recvmsg(
            stream,
            &mut [IoSliceMut::new(&mut letters)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let letters = letters[..message.bytes].to_vec();
        Ok((letters, descriptors))
    };
    let (letters, descriptors) = stream.async_io(Interest::READABLE, receive).await?;
    let mut lines = letters.split(|byte| *byte == b'\n');
    let kinds = lines.next().unwrap_or_default();
    if kinds.is_empty() || kinds.len() != descriptors.len() {
        // The other process has closed the connection or rejected the request.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let process_ids = lines.map(|line| String::from_utf8_lossy(line).into_owned());
    // Descriptors of an unknown kind, from a newer version, are closed.
    let with_kind = |(letter, owned)| Some((DescriptorKind::from_letter(letter)?, owned));
    let all = kinds.iter().copied().zip(descriptors);
    Ok((all.filter_map(with_kind).collect(), process_ids.collect()))
}
