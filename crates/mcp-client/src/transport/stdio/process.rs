//! Runs a server's process in a separate thread.
//!
//! The supervisor is a thread, not a task, for three reasons. The kernel kills a child with the
//! *thread* that started it, and tokio's threads come and go. Terminating a child (wait, SIGTERM,
//! wait, SIGKILL, reap) must continue after the runtime has stopped. A thread can wait for the
//! child without a SIGCHLD handler, which would be a second handler in a PHP process.

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

/// Maximum time that a server may take to exit after its input was closed, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval for checking whether a process has ended, on kernels before 5.3, which cannot report
/// the end of a process through a file descriptor.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const SHELL: &str = "/bin/sh";

/// A server's process and its process group. Dropping this value terminates the processes in the
/// background; [`wait_for_end`](Self::wait_for_end) waits for their end.
pub(super) struct ServerProcess {
    /// The pipe to the supervising thread. A written byte, or the end of the pipe, tells the thread
    /// to terminate the process.
    stop_writer: PipeWriter,
    /// The read end of `stop_writer`, kept open so that writing never raises SIGPIPE, which PHP
    /// does not always ignore.
    _stop_reader: Arc<PipeReader>,
    end_receiver: watch::Receiver<Option<ProcessEnd>>,
    /// The PID of the process that started the server. A forked child inherits this value but not
    /// the supervising thread, and must not terminate its parent's server.
    owner_pid: u32,
}

/// How a server's process ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessEnd {
    /// The exit status; `None` if other code has reaped the process.
    pub(super) status: Option<ExitStatus>,
    /// Whether the client asked the process to end.
    pub(super) was_requested: bool,
}

/// The client's ends of the server's standard streams.
pub(super) struct ServerStreams {
    pub(super) input: pipe::Sender,
    pub(super) output: pipe::Receiver,
    pub(super) error_output: pipe::Receiver,
}

impl ServerProcess {
    /// Starts the server and its supervising thread, and waits until the server runs.
    ///
    /// # Errors
    /// [`McpErrorKind::Spawn`] if there is no such program or directory, if the permission is
    /// missing, or if the system cannot create another process.
    pub(super) async fn start(
        command: &StdioCommand,
    ) -> Result<(Self, ServerStreams), McpErrorKind> {
        Self::start_with_shell(command, Path::new(SHELL)).await
    }

    async fn start_with_shell(
        command: &StdioCommand,
        shell: &Path,
    ) -> Result<(Self, ServerStreams), McpErrorKind> {
        let to_error = |source| McpErrorKind::Spawn {
            program: command.program.display().to_string(),
            source,
        };
        let (pipe_reader, stop_writer) = io::pipe().map_err(to_error)?;
        let stop_reader = Arc::new(pipe_reader);
        let (end_sender, end_receiver) = watch::channel(None);
        let (start_sender, start_receiver) = oneshot::channel();
        let (thread_command, shell) = (command.clone(), shell.to_owned());
        let reader = Arc::clone(&stop_reader);
        std::thread::Builder::new()
            .name("pillion-stdio".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || {
                supervise(&thread_command, &shell, start_sender, &reader, &end_sender);
            })
            .map_err(to_error)?;
        // From here on, dropping this value, including by dropping the future, terminates the
        // process.
        let process = Self {
            stop_writer,
            _stop_reader: stop_reader,
            end_receiver,
            owner_pid: std::process::id(),
        };
        let pipes = start_receiver
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        let streams = pipes.and_then(ServerStreams::try_from).map_err(to_error)?;
        Ok((process, streams))
    }

    /// Asks the process to exit by closing its input; after a while sends SIGTERM, then SIGKILL, to
    /// the whole group.
    pub(super) fn request_end(&self) {
        if self.owner_pid == std::process::id() {
            // The thread gets a byte, because closing the pipe has no effect while a forked child
            // holds a copy of it.
            let _ = (&self.stop_writer).write_all(b".");
        }
    }

    /// Returns whether the process is still running, as far as known.
    pub(super) fn is_running(&self) -> bool {
        self.end_receiver.borrow().is_none()
    }

    /// Waits until the process and its group have ended and were reaped.
    pub(super) async fn wait_for_end(&self) -> ProcessEnd {
        let mut end_receiver = self.end_receiver.clone();
        let reported_end = end_receiver.wait_for(Option::is_some).await;
        // If the supervising thread has ended without a report, the outcome is unknown.
        let end = reported_end.ok().and_then(|end| *end);
        end.unwrap_or(ProcessEnd {
            status: None,
            was_requested: true,
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.request_end();
    }
}

type Pipes = (OwnedFd, OwnedFd, OwnedFd);

impl TryFrom<Pipes> for ServerStreams {
    type Error = io::Error;

    fn try_from((input, output, error_output): Pipes) -> io::Result<Self> {
        Ok(Self {
            input: pipe::Sender::from_owned_fd(input)?,
            output: pipe::Receiver::from_owned_fd(output)?,
            error_output: pipe::Receiver::from_owned_fd(error_output)?,
        })
    }
}

/// Supervises the server from its start to its end. Runs on the supervising thread.
fn supervise(
    command: &StdioCommand,
    shell: &Path,
    start_sender: oneshot::Sender<io::Result<Pipes>>,
    stop_reader: &PipeReader,
    end_sender: &watch::Sender<Option<ProcessEnd>>,
) {
    let mut spawned_server = match spawn(command, shell) {
        Ok(spawned_server) => spawned_server,
        Err(error) => {
            let _ = start_sender.send(Err(error));
            return;
        }
    };
    let _ = start_sender.send(take_pipes(&mut spawned_server.server));
    let pid = Pid::from_child(&spawned_server.server);
    let group = Pid::from_raw(spawned_server.group_id().cast_signed());
    let watch = ProcessWatch {
        pid,
        pidfd: pidfd_open(pid, PidfdFlags::empty()).ok(),
    };
    let send_signal = |signal| {
        // The signal is also sent to the process ID, because the server may have left the group.
        // The system does not reuse the IDs of processes that were not reaped.
        if watch.is_unreaped() {
            let _ = kill_process(pid, signal);
        }
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    };
    let was_requested = !watch.wait(Some(stop_reader), None);
    if was_requested && !watch.wait(None, Some(EXIT_TIMEOUT)) {
        send_signal(Signal::TERM);
        watch.wait(None, Some(EXIT_TIMEOUT));
    }
    // Kills the remaining processes of the server's process group, including the supervisor.
    send_signal(Signal::KILL);
    let status = spawned_server.server.wait().ok();
    if let Some(mut supervisor) = spawned_server.supervisor {
        let _ = supervisor.wait();
    }
    let _ = end_sender.send(Some(ProcessEnd {
        status,
        was_requested,
    }));
}

fn take_pipes(server: &mut Child) -> io::Result<Pipes> {
    let (input, output) = (server.stdin.take(), server.stdout.take());
    match (input, output, server.stderr.take()) {
        (Some(input), Some(output), Some(error_output)) => {
            Ok((input.into(), output.into(), error_output.into()))
        }
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Detects a process's end without reaping the process, so that the system does not reuse its IDs.
struct ProcessWatch {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl ProcessWatch {
    /// Waits until the process has ended (returns `true`), or until `stop_reader` has input or
    /// `timeout` expires (returns `false`).
    fn wait(&self, stop_reader: Option<&PipeReader>, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.has_ended() {
                return true;
            }
            let remaining_time =
                deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if remaining_time.is_some_and(|time| time.is_zero()) {
                return false;
            }
            let poll_timeout = match (&self.pidfd, remaining_time) {
                (Some(_), time) => time,
                (None, time) => Some(time.map_or(POLL_INTERVAL, |time| time.min(POLL_INTERVAL))),
            };
            let mut poll_fds: Vec<_> = self
                .pidfd
                .iter()
                .map(AsFd::as_fd)
                .chain(stop_reader.iter().map(|reader| reader.as_fd()))
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
                .collect();
            let timespec = poll_timeout.and_then(|time| Timespec::try_from(time).ok());
            // `poll` was interrupted, or the system is out of memory: a short pause limits the
            // retries.
            if poll(&mut poll_fds, timespec.as_ref()).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            } else if stop_reader.is_some()
                && poll_fds
                    .last()
                    .is_some_and(|stop_fd| !stop_fd.revents().is_empty())
            {
                return self.has_ended();
            }
        }
    }

    fn has_ended(&self) -> bool {
        !matches!(self.peek_status(), Ok(None))
    }

    /// Returns whether the process was not reaped yet. Other code may have reaped it: PHP's
    /// `pcntl_wait`, for example, reaps any child.
    fn is_unreaped(&self) -> bool {
        self.peek_status().is_ok()
    }

    fn peek_status(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
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
            let (process, streams) = ServerProcess::start_with_shell(&sleeping(), Path::new(shell))
                .await
                .unwrap();
            assert!(process.is_running());
            process.request_end();
            // `sleep` does not read its input, so closing the input does not end it.
            drop(streams);
            let ended = process.wait_for_end().await;
            assert!(ended.was_requested, "{shell}");
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
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("1000").spawn().unwrap();
        let watch = ProcessWatch {
            pid: Pid::from_child(&child),
            pidfd: None,
        };
        assert!(!watch.wait(None, Some(Duration::from_millis(120))));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
