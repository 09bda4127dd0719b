use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop a command.
pub(super) struct InterruptSignals {
    interrupt: Signal,
    terminate: Signal,
}

/// A signal that stops a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    Interrupt,
    Terminate,
}

impl InterruptSignals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}

impl StopSignal {
    /// Returns 128 plus the signal number, as shells report a program that was terminated by a
    /// signal.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}
