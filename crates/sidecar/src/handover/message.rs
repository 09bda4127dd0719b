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

use super::Item;

const MAX_ITEMS: usize = 64;

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

impl Item {
    fn letter(self) -> u8 {
        match self {
            Self::Unix => b'u',
            Self::Tcp => b't',
            Self::Control => b'c',
            Self::Lock => b'l',
            Self::Line => b'p',
        }
    }

    fn of(letter: u8) -> Option<Self> {
        let all = [Self::Unix, Self::Tcp, Self::Control, Self::Lock, Self::Line];
        all.into_iter().find(|item| item.letter() == letter)
    }
}

pub(super) async fn send(
    stream: &UnixStream,
    items: &[(Item, BorrowedFd<'_>)],
    lives: &[String],
) -> io::Result<()> {
    let mut letters: Vec<_> = items.iter().map(|(item, _)| item.letter()).collect();
    for life in lives {
        letters.push(b'\n');
        letters.extend_from_slice(life.as_bytes());
    }
    if letters.len() > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let descriptors: Vec<_> = items.iter().map(|(_, descriptor)| *descriptor).collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ITEMS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let text = [IoSlice::new(&letters)];
        let sent = rustix::net::sendmsg(stream, &text, &mut control, SendFlags::NOSIGNAL)?;
        // A message of this size is sent in one piece or not at all.
        if sent == letters.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    };
    stream.async_io(Interest::WRITABLE, send).await
}

/// The content of a message: the descriptors with their kinds, and the process ids.
type Received = (Vec<(Item, OwnedFd)>, Vec<String>);

pub(super) async fn receive(stream: &UnixStream) -> io::Result<Received> {
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
    let letters = lines.next().unwrap_or_default();
    let lives = lines.map(|line| String::from_utf8_lossy(line).into_owned());
    let lives = lives.collect();
    if letters.is_empty() || letters.len() != descriptors.len() {
        // The other process has closed the connection or rejected the request.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let items = letters.iter().copied().zip(descriptors);
    // Unknown descriptors of a newer version are closed.
    let items = items.filter_map(|(letter, owned)| Some((Item::of(letter)?, owned)));
    Ok((items.collect(), lives))
}
