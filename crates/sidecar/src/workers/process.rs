use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe::Receiver;

/// How long what a process has written before its end may take to be read.
const AFTERMATH: Duration = Duration::from_millis(200);

/// Resolves a moment after the process with that id has ended; never where that cannot be seen.
///
/// Programs that it has started may have inherited its connection, and hold it open.
pub(crate) fn ended(pid: Option<i32>) -> impl Future<Output = ()> + Send + 'static {
    let pid = pid.and_then(Pid::from_raw);
    let watched = pid.map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK));
    async move {
        let is_over = match watched {
            Some(Ok(process)) => end_of(process).await.is_ok(),
            // Too late to see it end.
            Some(Err(error)) => error == Errno::SRCH,
            None => false,
        };
        if !is_over {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(AFTERMATH).await;
    }
}

async fn end_of(process: OwnedFd) -> io::Result<()> {
    // No pipe, but what can be waited for like one; nothing is read from it.
    Receiver::from_owned_fd_unchecked(process)?.readable().await
}
