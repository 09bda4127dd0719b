use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use ureq::unversioned::transport::{Buffers, LazyBuffers, NextTimeout, Transport};

use super::InterruptHook;

/// Maximum time between two calls of the interrupt hook while a call waits. A signal usually ends
/// the wait at once, but not if the signal arrives just before the wait begins.
pub(super) const INTERRUPT_INTERVAL: Duration = Duration::from_millis(200);

/// The error inside `ureq::Error::Io` when the interrupt hook ended a wait.
pub(crate) const INTERRUPTED_ERROR: Interrupted = Interrupted;

/// The type of [`INTERRUPTED_ERROR`].
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// A connection to the socket.
pub(crate) struct Connection {
    stream: UnixStream,
    buffers: LazyBuffers,
    interrupt_hook: Option<InterruptHook>,
    /// Whether the peer has stopped reading. The peer may already have responded, for example to a
    /// body above its limit. Further writes are therefore discarded as if they had succeeded, and
    /// reading the response decides the result.
    has_peer_stopped_reading: bool,
}

/// The result of one attempt to read or write within a slice of the waiting time.
enum WaitResult {
    Pending,
    Done(usize),
}

impl Connection {
    pub(super) fn new(
        stream: UnixStream,
        buffers: LazyBuffers,
        interrupt_hook: Option<InterruptHook>,
    ) -> Self {
        Self {
            stream,
            buffers,
            interrupt_hook,
            has_peer_stopped_reading: false,
        }
    }

    /// Runs `attempt` in slices of waiting time until it is done or the deadline has passed.
    fn wait(
        &mut self,
        timeout: NextTimeout,
        mut attempt: impl FnMut(&mut Self, Duration) -> io::Result<WaitResult>,
    ) -> Result<usize, ureq::Error> {
        let started_at = Instant::now();
        loop {
            let remaining_time = (*timeout.after).saturating_sub(started_at.elapsed());
            if remaining_time.is_zero() {
                return Err(ureq::Error::Timeout(timeout.reason));
            }
            let wait_slice = if self.interrupt_hook.is_some() {
                remaining_time.min(INTERRUPT_INTERVAL)
            } else {
                remaining_time
            };
            match attempt(self, wait_slice) {
                Ok(WaitResult::Done(byte_count)) => return Ok(byte_count),
                Ok(WaitResult::Pending) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
            if self.interrupt_hook.as_ref().is_some_and(|hook| hook()) {
                return Err(io::Error::other(INTERRUPTED_ERROR).into());
            }
        }
    }

    fn send_slice(&mut self, start: usize, end: usize, wait_slice: Duration) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(wait_slice))?;
        let output = &self.buffers.output()[start..end];
        // Uses `send` with MSG_NOSIGNAL, because `write` could raise SIGPIPE, whose effect depends
        // on the host process.
        match send(self.stream.as_raw_fd(), output, MsgFlags::MSG_NOSIGNAL) {
            Ok(sent_bytes) => Ok(sent_bytes),
            Err(Errno::EPIPE | Errno::ECONNRESET) => {
                self.has_peer_stopped_reading = true;
                Ok(end - start)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn is_silent(&mut self) -> io::Result<bool> {
        self.stream.set_nonblocking(true)?;
        let is_silent = matches!(
            self.stream.read(&mut [0]),
            Err(error) if error.kind() == ErrorKind::WouldBlock
        );
        self.stream.set_nonblocking(false)?;
        Ok(is_silent)
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        if self.has_peer_stopped_reading {
            return Ok(());
        }
        let mut sent_bytes = 0;
        self.wait(timeout.for_write(), |connection, wait_slice| {
            sent_bytes += connection.send_slice(sent_bytes, amount, wait_slice)?;
            Ok(if sent_bytes == amount {
                WaitResult::Done(sent_bytes)
            } else {
                WaitResult::Pending
            })
        })?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let byte_count = self.wait(timeout.for_read(), |connection, wait_slice| {
            connection.stream.set_read_timeout(Some(wait_slice))?;
            let input = connection.buffers.input_append_buf();
            connection.stream.read(input).map(WaitResult::Done)
        })?;
        self.buffers.input_appended(byte_count);
        Ok(byte_count > 0)
    }

    /// Returns whether the connection can be used again, because the peer has neither closed it nor
    /// sent unexpected bytes.
    fn is_open(&mut self) -> bool {
        !self.has_peer_stopped_reading && self.is_silent().unwrap_or(false)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("stream", &self.stream)
            .field("peer_stopped_reading", &self.has_peer_stopped_reading)
            .finish_non_exhaustive()
    }
}
