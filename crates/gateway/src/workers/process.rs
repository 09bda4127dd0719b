use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe::Receiver;

/// Time in which the last output of an ended process is read.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);

/// Resolves a moment after the process with this id has ended; never resolves if the process cannot
/// be observed.
///
/// The connection alone does not show the end: programs that the process has started may have
/// inherited the connection and keep it open.
pub fn ended(pid: Option<i32>) -> impl Future<Output = ()> + Send + 'static {
    let pid = pid.and_then(Pid::from_raw);
    let watched = pid.map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK));
    async move {
        let is_over = match watched {
            Some(Ok(process)) => end_of(process).await.is_ok(),
            // The process has already ended.
            Some(Err(error)) => error == Errno::SRCH,
            None => false,
        };
        if !is_over {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(LAST_OUTPUT_TIMEOUT).await;
    }
}

async fn end_of(process: OwnedFd) -> io::Result<()> {
    // A pidfd is not a pipe, but becomes readable like one; nothing is read from it.
    Receiver::from_owned_fd_unchecked(process)?.readable().await
}
