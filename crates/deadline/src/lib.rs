//! Timeouts for work that depends on another process, such as reading a response.
//!
//! When a stopped process (`SIGSTOP`, a paused container) continues, its timers have expired,
//! although the response may have arrived long ago. These timeouts therefore give the work another
//! second if the timer expires much too late, which shows that this process was stopped. In a
//! process that was not stopped, these timeouts behave like the timeouts of `tokio::time`.

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::unconstrained;
use tokio::time::Instant;

/// Minimum delay of a timer that counts as proof that the process was stopped.
const MIN_STOP_DELAY: Duration = Duration::from_millis(250);

/// Additional time for work whose process was stopped, enough to read what has arrived.
const EXTRA_TIME: Duration = Duration::from_secs(1);

/// The error for a future that did not complete before its deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

pin_project! {
    /// The future of [`timeout`] and [`timeout_at`]. Its output is an error if the work does not
    /// complete in time.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        delay: Sleep,
    }
}

pin_project! {
    /// The future of [`sleep`] and [`sleep_until`].
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Sleep {
        #[pin]
        timer: tokio::time::Sleep,
        // The time at which the timer should expire; `None` before the first poll.
        expected_at: Option<Instant>,
        has_extra_time: bool,
    }
}

/// Waits for `future` for at most `duration`, and for another second if the process was stopped
/// (for example by `SIGSTOP`) during this time.
///
/// ```
/// # use std::time::Duration;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let outcome = pillion_deadline::timeout(Duration::from_secs(1), async { 7 }).await;
/// assert_eq!(outcome, Ok(7));
/// # });
/// ```
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    // The replacement for a duration that overflows the clock, as in `tokio::time::timeout`.
    const FALLBACK_TIMEOUT: Duration = Duration::from_secs(86_400 * 365 * 30);
    let now = Instant::now();
    let deadline = now
        .checked_add(duration)
        .unwrap_or_else(|| now + FALLBACK_TIMEOUT);
    timeout_at(deadline, future)
}

/// Waits for `future` until `deadline`, and for another second if the process was stopped (for
/// example by `SIGSTOP`) during this time.
///
/// ```
/// # use std::time::Duration;
/// # use tokio::time::Instant;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(10);
/// let outcome = pillion_deadline::timeout_at(deadline, std::future::pending::<()>()).await;
/// assert_eq!(outcome, Err(pillion_deadline::Elapsed));
/// # });
/// ```
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout {
        future,
        delay: sleep_until(deadline),
    }
}

/// Sleeps for `duration`, and for another second if the process was stopped (for example by
/// `SIGSTOP`) during this time. Intended for a `select!` whose other branches wait for another
/// process.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Sleeps until `deadline`, and for another second if the process was stopped (for example by
/// `SIGSTOP`) during this time.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        timer: tokio::time::sleep_until(deadline),
        expected_at: None,
        has_extra_time: false,
    }
}

impl Sleep {
    /// Restarts the sleep with a new deadline.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.project();
        this.timer.reset(deadline);
        *this.expected_at = None;
        *this.has_extra_time = false;
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        this.delay.poll(context).map(|()| Err(Elapsed))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let deadline = this.timer.deadline();
        let expected_at = *this
            .expected_at
            .get_or_insert_with(|| deadline.max(Instant::now()));
        // The timer is polled unconstrained, because it must expire even if other work has used up
        // the task's budget.
        ready!(pin!(unconstrained(this.timer.as_mut())).poll(context));
        if *this.has_extra_time || !was_stopped(expected_at) {
            return Poll::Ready(());
        }
        *this.has_extra_time = true;
        this.timer.as_mut().reset(Instant::now() + EXTRA_TIME);
        // The new timer is polled at once, because only a poll registers the task to be woken by
        // the timer.
        pin!(unconstrained(this.timer)).poll(context)
    }
}

/// Returns whether a timer that should have expired at `expected_at`, and expires now, is at least
/// 250 ms late, which shows that the process was stopped.
#[must_use]
pub fn was_stopped(expected_at: Instant) -> bool {
    Instant::now() >= expected_at + MIN_STOP_DELAY
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Simulates a process that is stopped for a minute: all timers expire at once.
    async fn stop_for_a_minute() {
        tokio::task::yield_now().await;
        advance(Duration::from_secs(60)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_arrived_while_the_process_was_stopped_is_in_time() {
        let (sender, receiver) = oneshot::channel();
        let timeout_task = tokio::spawn(timeout(LIMIT, receiver));
        stop_for_a_minute().await;
        // The task that reads the response may run after the task that waits for the response.
        tokio::time::sleep(Duration::from_millis(100)).await;
        sender.send(7).unwrap();
        assert_eq!(timeout_task.await.unwrap().unwrap(), Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_holds_while_the_process_runs() {
        let started_at = Instant::now();
        assert!(timeout(LIMIT, std::future::pending::<()>()).await.is_err());
        assert!(started_at.elapsed() < LIMIT + MIN_STOP_DELAY);
        // A deadline in the past does not mean that the process was stopped.
        let past_deadline = Instant::now() - LIMIT / 2;
        let started_at = Instant::now();
        assert!(
            timeout_at(past_deadline, std::future::pending::<()>())
                .await
                .is_err()
        );
        sleep_until(past_deadline).await;
        assert!(started_at.elapsed() < MIN_STOP_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn the_extra_time_is_limited() {
        let timeout_task = tokio::spawn(timeout(LIMIT, std::future::pending::<()>()));
        let sleep_task = tokio::spawn(sleep(LIMIT));
        stop_for_a_minute().await;
        let started_at = Instant::now();
        assert!(timeout_task.await.unwrap().is_err());
        sleep_task.await.unwrap();
        assert!(started_at.elapsed() < EXTRA_TIME + MIN_STOP_DELAY);
    }
}
