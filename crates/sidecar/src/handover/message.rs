//! The message that carries descriptors: one letter for the kind of each descriptor, then one line
//! with the run ID of each process that is finishing calls, and the descriptors as ancillary data.

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

/// Maximum number of descriptors in a message.
const MAX_DESCRIPTORS: usize = 64;

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

impl DescriptorKind {
    fn from_letter(letter: u8) -> Option<Self> {
        let kinds = [
            Self::Unix,
            Self::Tcp,
            Self::ControlSocket,
            Self::Lock,
            Self::Predecessor,
        ];
        kinds.into_iter().find(|kind| *kind as u8 == letter)
    }
}

pub(super) async fn send(
    stream: &UnixStream,
    descriptors: &[(DescriptorKind, BorrowedFd<'_>)],
    run_ids: &[String],
) -> io::Result<()> {
    let mut payload: Vec<_> = descriptors.iter().map(|(kind, _)| *kind as u8).collect();
    for id in run_ids {
        payload.push(b'\n');
        payload.extend_from_slice(id.as_bytes());
    }
    if payload.len() > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let passed_descriptors: Vec<_> = descriptors
        .iter()
        .map(|(_, descriptor)| *descriptor)
        .collect();
    let send = || {
        let mut control_bytes =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut control_bytes);
        if !control.push(SendAncillaryMessage::ScmRights(&passed_descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let payload_slices = [IoSlice::new(&payload)];
        let sent_bytes =
            rustix::net::sendmsg(stream, &payload_slices, &mut control, SendFlags::NOSIGNAL)?;
        // No loop is needed, because the system sends a message of this size completely or not at
        // all.
        if sent_bytes == payload.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    };
    stream.async_io(Interest::WRITABLE, send).await
}

/// The content of a message: the descriptors with their kinds, and the run IDs.
type ReceivedMessage = (Vec<(DescriptorKind, OwnedFd)>, Vec<String>);

pub(super) async fn receive(stream: &UnixStream) -> io::Result<ReceivedMessage> {
    let receive = || {
        let mut buffer = [0; MAX_MESSAGE_BYTES];
        let mut control_bytes =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut control_bytes);
        let message = rustix::net::recvmsg(
            stream,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed_descriptors) = message {
                descriptors.extend(passed_descriptors);
            }
        }
        let payload = buffer[..message.bytes].to_vec();
        Ok((payload, descriptors))
    };
    let (payload, descriptors) = stream.async_io(Interest::READABLE, receive).await?;
    let mut lines = payload.split(|byte| *byte == b'\n');
    let kind_letters = lines.next().unwrap_or_default();
    if kind_letters.is_empty() || kind_letters.len() != descriptors.len() {
        // An empty message means that the other process has closed the connection or rejected the
        // request.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let run_ids = lines.map(|line| String::from_utf8_lossy(line).into_owned());
    // Descriptors of an unknown kind, which a newer version of Pillion may send, are closed.
    let to_kind = |(letter, descriptor)| Some((DescriptorKind::from_letter(letter)?, descriptor));
    let lettered_descriptors = kind_letters.iter().copied().zip(descriptors);
    Ok((
        lettered_descriptors.filter_map(to_kind).collect(),
        run_ids.collect(),
    ))
}
