//! The life of a server's process, in a thread of its own.
//!
//! A thread rather than tasks: the kernel ends a child with the *thread* that started it,
//! and tokio's come and go; the end of a child (wait, SIGTERM, wait, SIGKILL, reap) must go
//! on when the runtime has stopped; and waiting needs no handler for SIGCHLD, which in PHP
//! would be a second one.

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
use crate::mcp::{McpErrorKind, StdioCommand};

/// How long a server may take to end after its input has, and again after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often to look where the kernel cannot tell us of a process's end (before 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(50);

const SHELL: &str = "/bin/sh";

/// A server's process and all that it started in its process group. Dropping this ends
/// them, in the background; [`ended`](Self::ended) tells when that is done.
pub(super) struct ServerProcess {
    /// A byte here, or its end, asks the thread to end the process.
    stop: PipeWriter,
    /// Kept so that writing never fails: PHP may not ignore SIGPIPE.
    _stop_reader: Arc<PipeReader>,
    ended: watch::Receiver<Option<Ended>>,
    /// The process of ours that this belongs to: a forked child has no such thread, and
    /// its parent's server is not its own to end.
    owner: u32,
}

/// How a server's process came to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// None when somebody else has reaped the process.
    pub(super) status: Option<ExitStatus>,
    /// Whether it was asked to.
    pub(super) asked: bool,
}

/// Our ends of the server's standard streams.
pub(super) struct Streams {
    pub(super) input: pipe::Sender,
    pub(super) output: pipe::Receiver,
    pub(super) errors: pipe::Receiver,
}

impl ServerProcess {
    /// Starts the server.
    ///
    /// # Errors
    /// [`McpErrorKind::Spawn`].
    pub(super) async fn start(command: &StdioCommand) -> Result<(Self, Streams), McpErrorKind> {
        Self::start_with(command, Path::new(SHELL)).await
    }

    async fn start_with(
        command: &StdioCommand,
        shell: &Path,
    ) -> Result<(Self, Streams), McpErrorKind> {
        let failed = |source| McpErrorKind::Spawn {
            program: command.program.display().to_string(),
            source,
        };
        let (stop_reader, stop) = io::pipe().map_err(failed)?;
        let stop_reader = Arc::new(stop_reader);
        let (tell_end, ended) = watch::channel(None);
        let (tell_start, started) = oneshot::channel();
        let (to_start, shell) = (command.clone(), shell.to_owned());
        let asking = Arc::clone(&stop_reader);
        std::thread::Builder::new()
            .name("pillion-stdio".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || run(&to_start, &shell, tell_start, &asking, &tell_end))
            .map_err(failed)?;
        // From here on dropping it, with this very future too, ends the process.
        let process = Self {
            stop,
            _stop_reader: stop_reader,
            ended,
            owner: std::process::id(),
        };
        let pipes = started
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        let streams = pipes.and_then(Streams::try_from).map_err(failed)?;
        Ok((process, streams))
    }

    /// Asks the process to end: its input has ended, or does so now; after a while come
    /// SIGTERM and SIGKILL, to its whole group.
    pub(super) fn end(&self) {
        if self.owner == std::process::id() {
            // The byte, not the pipe's end: a forked child may hold the pipe, too.
            let _ = (&self.stop).write_all(b".");
        }
    }

    /// Whether it has not ended, as far as is known.
    pub(super) fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// Waits until the process and its group are gone and reaped.
    pub(super) async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let known = ended.wait_for(Option::is_some).await;
        // Without its thread nobody knows.
        known.ok().and_then(|known| *known).unwrap_or(Ended {
            status: None,
            asked: true,
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

type Pipes = (OwnedFd, OwnedFd, OwnedFd);

impl TryFrom<Pipes> for Streams {
    type Error = io::Error;

    fn try_from((input, output, errors): Pipes) -> io::Result<Self> {
        Ok(Self {
            input: pipe::Sender::from_owned_fd(input)?,
            output: pipe::Receiver::from_owned_fd(output)?,
            errors: pipe::Receiver::from_owned_fd(errors)?,
        })
    }
}

/// The thread's work, from start to end.
fn run(
    command: &StdioCommand,
    shell: &Path,
    tell_start: oneshot::Sender<io::Result<Pipes>>,
    stop: &PipeReader,
    tell_end: &watch::Sender<Option<Ended>>,
) {
    let mut spawned = match spawn(command, shell) {
        Ok(spawned) => spawned,
        Err(error) => {
            let _ = tell_start.send(Err(error));
            return;
        }
    };
    let _ = tell_start.send(take_pipes(&mut spawned.server));
    let pid = Pid::from_child(&spawned.server);
    let group = Pid::from_raw(spawned.group().cast_signed());
    let watch = Watch {
        pid,
        pidfd: pidfd_open(pid, PidfdFlags::empty()).ok(),
    };
    let signal = |signal| {
        // By its own id as well: a server may have left the group. Neither id can be
        // anybody else's before it is reaped.
        if watch.is_ours() {
            let _ = kill_process(pid, signal);
        }
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    };
    let asked = !watch.wait(Some(stop), None);
    if asked && !watch.wait(None, Some(PATIENCE)) {
        signal(Signal::TERM);
        watch.wait(None, Some(PATIENCE));
    }
    // Whatever is left of the group; the keeper and a server that has ended are part of it.
    signal(Signal::KILL);
    let status = spawned.server.wait().ok();
    if let Some(mut keeper) = spawned.keeper {
        let _ = keeper.wait();
    }
    let _ = tell_end.send(Some(Ended { status, asked }));
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

/// Sees a process's end without reaping it, so that its ids stay its own.
struct Watch {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Watch {
    /// Waits until the process has ended (true), or until `stop` speaks or the time is up
    /// (false).
    fn wait(&self, stop: Option<&PipeReader>, longest: Option<Duration>) -> bool {
        let deadline = longest.map(|longest| Instant::now() + longest);
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
                (None, left) => Some(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY))),
            };
            let descriptors = self.pidfd.iter().map(AsFd::as_fd);
            let descriptors = descriptors.chain(stop.iter().map(|stop| stop.as_fd()));
            let mut asked: Vec<_> = descriptors
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
                .collect();
            let nap = nap.and_then(|nap| Timespec::try_from(nap).ok());
            // An interruption or a lack of memory: look again, not too often.
            if poll(&mut asked, nap.as_ref()).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            } else if stop.is_some() && asked.last().is_some_and(|stop| !stop.revents().is_empty())
            {
                return self.has_ended();
            }
        }
    }

    fn has_ended(&self) -> bool {
        !matches!(self.look(), Ok(None))
    }

    /// False when somebody else has reaped it, as `pcntl_wait` of PHP does with any child.
    fn is_ours(&self) -> bool {
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
    async fn a_process_ends_when_it_is_asked_to_with_a_keeper_and_without() {
        for shell in [SHELL, "/no/such/shell"] {
            let (process, streams) = ServerProcess::start_with(&sleeping(), Path::new(shell))
                .await
                .unwrap();
            assert!(process.is_running());
            process.end();
            // It does not look at its input.
            drop(streams);
            let ended = process.ended().await;
            assert!(ended.asked, "{shell}");
            assert!(!process.is_running());
            let status = ended.status.unwrap();
            assert_eq!(status.to_string(), "signal: 15 (SIGTERM)", "{shell}");
        }
    }

    #[tokio::test]
    async fn where_the_kernel_does_not_tell_an_end_is_noticed_by_looking() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let watch = Watch {
            pid: Pid::from_child(&child),
            pidfd: None,
        };
        assert!(watch.wait(None, None));
        // The one who reaps it later still finds it.
        assert!(watch.is_ours());
        assert!(child.wait().unwrap().success());
        assert!(!watch.is_ours());
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let watch = Watch {
            pid: Pid::from_child(&child),
            pidfd: None,
        };
        assert!(!watch.wait(None, Some(Duration::from_millis(120))));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
