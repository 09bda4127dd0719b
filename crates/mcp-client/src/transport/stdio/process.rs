//! Runs a server's process in a separate thread.
//!
//! A thread rather than tasks, for three reasons. The kernel kills a child with the *thread* that
//! started it, and tokio's threads come and go. Terminating a child (wait, SIGTERM, wait, SIGKILL,
//! reap) must continue after the runtime has stopped. And waiting requires no SIGCHLD handler,
//! which would be a second one in PHP.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group,
    pidfd_open, waitid,
};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

use super::spawn::spawn;
use crate::{McpErrorKind, StdioCommand};

/// How long a server may take to exit after its input was closed, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval for checking whether a process has ended, on kernels before 5.3, which cannot report
/// it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const SHELL: &str = "/bin/sh";

/// A server's process and its process group. Dropping this value terminates the processes in the
/// background; [`ended`](Self::ended) waits for their end.
pub(super) struct ServerProcess {
    /// The pipe to the supervising thread: writing a byte, or closing the pipe, asks the thread to
    /// terminate the process.
    stop: PipeWriter,
    /// The read end of `stop`, kept open so that writing never raises SIGPIPE, which PHP may not
    /// ignore.
    _stop_reader: Arc<PipeReader>,
    ended: watch::Receiver<Option<ProcessEnd>>,
    /// The PID of the process that started the server. A forked child inherits this value but not
    /// the supervising thread, and must not terminate its parent's server.
    owner: u32,
}

/// How a server's process ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessEnd {
    /// The exit status; `None` if other code has reaped the process.
    pub(super) status: Option<ExitStatus>,
    /// Whether the client asked the process to end.
    pub(super) is_requested: bool,
}

/// The client's ends of the server's standard streams.
pub(super) struct ServerStreams {
    pub(super) input: pipe::Sender,
    pub(super) output: pipe::Receiver,
    pub(super) errors: pipe::Receiver,
}

impl ServerProcess {
    /// Starts the server and its supervising thread, and waits until the server runs.
    ///
    /// # Errors
    /// [`McpErrorKind::Spawn`] if there is no such program or directory, or if the system denies
    /// permission or another process.
    pub(super) async fn start(
        command: &StdioCommand,
    ) -> Result<(Self, ServerStreams), McpErrorKind> {
        Self::start_with(command, Path::new(SHELL)).await
    }

    async fn start_with(
        command: &StdioCommand,
        shell: &Path,
    ) -> Result<(Self, ServerStreams), McpErrorKind> {
        let failed = |source| McpErrorKind::Spawn {
            program: command.program.display().to_string(),
            source,
        };
        let (stop_reader, stop) = io::pipe().map_err(failed)?;
        let stop_reader = Arc::new(stop_reader);
        let (end_sender, ended) = watch::channel(None);
        let (start_sender, started) = oneshot::channel();
        let (thread_command, shell) = (command.clone(), shell.to_owned());
        let thread_stop = Arc::clone(&stop_reader);
        std::thread::Builder::new()
            .name("pillion-stdio".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || {
                run(
                    &thread_command,
                    &shell,
                    start_sender,
                    &thread_stop,
                    &end_sender,
                );
            })
            .map_err(failed)?;
        // From here on, dropping this value, including by dropping the future, terminates the
        // process.
        let process = Self {
            stop,
            _stop_reader: stop_reader,
            ended,
            owner: std::process::id(),
        };
        let pipes = started
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        let streams = pipes.and_then(ServerStreams::try_from).map_err(failed)?;
        Ok((process, streams))
    }

    /// Asks the process to exit by closing its input; after a while sends SIGTERM, then SIGKILL, to
    /// the whole group.
    pub(super) fn end(&self) {
        if self.owner == std::process::id() {
            // The thread gets a byte, because closing the pipe has no effect while a forked child
            // holds a copy of it.
            let _ = (&self.stop).write_all(b".");
        }
    }

    /// Returns whether the process is still running, as far as known.
    pub(super) fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// Waits until the process and its group have ended and were reaped.
    pub(super) async fn ended(&self) -> ProcessEnd {
        let mut ended = self.ended.clone();
        let reported = ended.wait_for(Option::is_some).await;
        // If the supervising thread has ended without a report, the outcome is unknown.
        reported.ok().and_then(|end| *end).unwrap_or(ProcessEnd {
            status: None,
            is_requested: true,
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

type Pipes = (OwnedFd, OwnedFd, OwnedFd);

impl TryFrom<Pipes> for ServerStreams {
    type Error = io::Error;

    fn try_from((input, output, errors): Pipes) -> io::Result<Self> {
        Ok(Self {
            input: pipe::Sender::from_owned_fd(input)?,
            output: pipe::Receiver::from_owned_fd(output)?,
            errors: pipe::Receiver::from_owned_fd(errors)?,
        })
    }
}

/// Supervises the server from its start to its end: the body of the supervising thread.
fn run(
    command: &StdioCommand,
    shell: &Path,
    start_sender: oneshot::Sender<io::Result<Pipes>>,
    stop: &PipeReader,
    end_sender: &watch::Sender<Option<ProcessEnd>>,
) {
    let mut spawned = match spawn(command, shell) {
        Ok(spawned) => spawned,
        Err(error) => {
            let _ = start_sender.send(Err(error));
            return;
        }
    };
    let _ = start_sender.send(take_pipes(&mut spawned.server));
    let pid = Pid::from_child(&spawned.server);
    let group = Pid::from_raw(spawned.group().cast_signed());
    let watch = ProcessWatch {
        pid,
        pidfd: pidfd_open(pid, PidfdFlags::empty()).ok(),
    };
    let signal = |signal| {
        // The signal is also sent to the process id, because the server may have left the group.
        // The system does not reuse the ids of processes that were not reaped.
        if watch.is_unreaped() {
            let _ = kill_process(pid, signal);
        }
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    };
    let is_requested = !watch.wait(Some(stop), None);
    if is_requested && !watch.wait(None, Some(EXIT_TIMEOUT)) {
        signal(Signal::TERM);
        watch.wait(None, Some(EXIT_TIMEOUT));
    }
    // Kills the rest of the group, including the supervisor.
    signal(Signal::KILL);
    let status = spawned.server.wait().ok();
    if let Some(mut supervisor) = spawned.supervisor {
        let _ = supervisor.wait();
    }
    let _ = end_sender.send(Some(ProcessEnd {
        status,
        is_requested,
    }));
}

fn take_pipes(server: &mut Child) -> io::Result<Pipes> {
    let (input, output, errors) = (
        server.stdin.take(),
        server.stdout.take(),
        server.stderr.take(),
    );
    match (input, output, errors) {
        (Some(input), Some(output), Some(errors)) => {
            Ok((input.into(), output.into(), errors.into()))
        }
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Detects a process's end without reaping the process, so that the system does not reuse its ids.
struct ProcessWatch {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl ProcessWatch {
    /// Waits until the process has ended (returns `true`), or until `stop` has input or the time
    /// limit passes (returns `false`).
    fn wait(&self, stop: Option<&PipeReader>, time_limit: Option<Duration>) -> bool {
        let deadline = time_limit.map(|time_limit| Instant::now() + time_limit);
        loop {
            if self.has_ended() {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            let nap = match (&self.pidfd, left) {
                (Some(_), left) => left,
                (None, left) => Some(left.map_or(POLL_INTERVAL, |left| left.min(POLL_INTERVAL))),
            };
            let mut polled: Vec<_> = self
                .pidfd
                .iter()
                .map(AsFd::as_fd)
                .chain(stop.iter().map(|stop| stop.as_fd()))
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
                .collect();
            let timeout = nap.and_then(|nap| Timespec::try_from(nap).ok());
            // `poll` was interrupted, or the system is out of memory: a short pause limits the
            // retries.
            if poll(&mut polled, timeout.as_ref()).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            } else if stop.is_some() && polled.last().is_some_and(|stop| !stop.revents().is_empty())
            {
                return self.has_ended();
            }
        }
    }

    fn has_ended(&self) -> bool {
        !matches!(self.look(), Ok(None))
    }

    /// Returns whether the process is still to be reaped. PHP's `pcntl_wait`, for example, reaps
    /// any child.
    fn is_unreaped(&self) -> bool {
        self.look().is_ok()
    }

    fn look(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.pid), options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeping() -> StdioCommand {
        let mut command = StdioCommand::new("sleep");
        command.args = vec!["1000".to_owned()];
        command
    }

    #[tokio::test]
    async fn a_process_ends_on_request_with_and_without_a_supervisor() {
        for shell in [SHELL, "/no/such/shell"] {
            let (process, streams) = ServerProcess::start_with(&sleeping(), Path::new(shell))
                .await
                .unwrap();
            assert!(process.is_running());
            process.end();
            // `sleep` does not read its input, so closing the input does not end it.
            drop(streams);
            let ended = process.ended().await;
            assert!(ended.is_requested, "{shell}");
            assert!(!process.is_running());
            let status = ended.status.unwrap();
            assert_eq!(status.to_string(), "signal: 15 (SIGTERM)", "{shell}");
        }
    }

    #[tokio::test]
    async fn without_pidfd_the_end_of_a_process_is_noticed_by_polling() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let watch = ProcessWatch {
            pid: Pid::from_child(&child),
            pidfd: None,
        };
        assert!(watch.wait(None, None));
        // `wait` has not reaped the process.
        assert!(watch.is_unreaped());
        assert!(child.wait().unwrap().success());
        assert!(!watch.is_unreaped());
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let watch = ProcessWatch {
            pid: Pid::from_child(&child),
            pidfd: None,
        };
        assert!(!watch.wait(None, Some(Duration::from_millis(120))));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
