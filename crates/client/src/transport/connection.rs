use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use ureq::unversioned::transport::{Buffers, LazyBuffers, NextTimeout, Transport};

use super::InterruptHook;

/// Maximum time between two calls of the interrupt hook. A signal usually ends a wait at once;
/// this limit covers a signal that arrives just before the wait begins.
pub(super) const INTERRUPT_INTERVAL: Duration = Duration::from_millis(200);

/// The error inside `ureq::Error::Io` when the interrupt hook ended a wait.
pub(crate) const INTERRUPTED: Interrupted = Interrupted;

/// The type of [`INTERRUPTED`].
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// A connection to the socket.
pub(crate) struct Connection {
    stream: UnixStream,
    buffers: LazyBuffers,
    interrupt: Option<InterruptHook>,
    /// Whether the peer has stopped reading. It may have responded before, for example to a body
    /// over its limit, so further writes are discarded as if they succeeded, and the read decides
    /// the result.
    peer_stopped_reading: bool,
}

/// The result of one slice of waiting.
enum Wait {
    Again,
    Done(usize),
}

impl Connection {
    pub(super) fn new(
        stream: UnixStream,
        buffers: LazyBuffers,
        interrupt: Option<InterruptHook>,
    ) -> Self {
        Self {
            stream,
            buffers,
            interrupt,
            peer_stopped_reading: false,
        }
    }

    /// Runs `attempt` in slices of waiting time until it is done or the deadline has passed.
    fn wait(
        &mut self,
        timeout: NextTimeout,
        mut attempt: impl FnMut(&mut Self, Duration) -> io::Result<Wait>,
    ) -> Result<usize, ureq::Error> {
        let started = Instant::now();
        loop {
            let left = (*timeout.after).saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(ureq::Error::Timeout(timeout.reason));
            }
            let slice = if self.interrupt.is_some() {
                left.min(INTERRUPT_INTERVAL)
            } else {
                left
            };
            match attempt(self, slice) {
                Ok(Wait::Done(amount)) => return Ok(amount),
                Ok(Wait::Again) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
            if self.interrupt.as_ref().is_some_and(|hook| hook()) {
                return Err(io::Error::other(INTERRUPTED).into());
            }
        }
    }

    fn send_slice(&mut self, from: usize, to: usize, slice: Duration) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(slice))?;
        let output = &self.buffers.output()[from..to];
        // `write` could raise SIGPIPE, whose effect depends on the host process.
        match send(self.stream.as_raw_fd(), output, MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) => Ok(sent),
            Err(Errno::EPIPE | Errno::ECONNRESET) => {
                self.peer_stopped_reading = true;
                Ok(to - from)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn probe(&mut self) -> io::Result<bool> {
        self.stream.set_nonblocking(true)?;
        let silent = matches!(
            self.stream.read(&mut [0]),
            Err(error) if error.kind() == ErrorKind::WouldBlock
        );
        self.stream.set_nonblocking(false)?;
        Ok(silent)
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        if self.peer_stopped_reading {
            return Ok(());
        }
        let mut sent = 0;
        self.wait(timeout.for_write(), |connection, slice| {
            sent += connection.send_slice(sent, amount, slice)?;
            Ok(if sent == amount {
                Wait::Done(sent)
            } else {
                Wait::Again
            })
        })?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let amount = self.wait(timeout.for_read(), |connection, slice| {
            connection.stream.set_read_timeout(Some(slice))?;
            let input = connection.buffers.input_append_buf();
            connection.stream.read(input).map(Wait::Done)
        })?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Returns whether the connection is idle: the peer has neither closed it nor sent unexpected
    /// bytes.
    fn is_open(&mut self) -> bool {
        !self.peer_stopped_reading && self.probe().unwrap_or(false)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("stream", &self.stream)
            .field("peer_stopped_reading", &self.peer_stopped_reading)
            .finish_non_exhaustive()
    }
}
