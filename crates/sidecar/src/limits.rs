//! Restores rate limits from the call log after a restart.
//!
//! The limits need no other storage: each call is in the call log before its tool runs, so the log
//! has all admitted calls even after a crash.

use std::collections::HashSet;
use std::time::Duration;

use pillion_core::executor::{PastCall, PastCallCount};
use pillion_core::store::{CallId, PageRequest, StoreError, Timestamp};

use crate::current_app::CurrentApp;
use pillion_gateway::state::State;

/// Maximum time between the start of a call and its admission, for example while the call waits for
/// approval.
const MAX_ADMISSION_DELAY: Duration = Duration::from_secs(600);

/// The intervals at which the calls of a predecessor are read after a takeover: at short intervals
/// while the predecessor accepts last requests, then at longer intervals until its waiting calls
/// have run.
const POLL_SCHEDULE: [(u32, Duration); 2] = [
    (12, Duration::from_millis(500)),
    (10, Duration::from_secs(3)),
];

/// Delay before a failed read of the call log is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

const READ_ERROR_MESSAGE: &str = "Cannot read the recorded calls that count toward the rate limits";

/// Maximum age of a call that a draining predecessor may still admit.
const MAX_RECENT_AGE: Duration = Duration::from_secs(60);

/// Maximum time by which the start of a call may be in the future. A call further in the future was
/// recorded while the clock was wrong. Its real age is unknown, and counting it as new would block
/// its user for as long as the clock was wrong, so such a call is ignored.
const MAX_FUTURE_OFFSET: Duration = Duration::from_secs(60);

/// Counts the calls of earlier processes of this sidecar toward the rate limits.
pub(crate) struct PredecessorCalls {
    state: State,
    current_app: CurrentApp,
    /// The time from which the next read starts; `None` before the first read.
    read_from: Option<Timestamp>,
    /// The counted calls since `read_from`, which the next read finds again.
    counted_ids: HashSet<CallId>,
    /// The part of the first read that is not counted yet; `None` if nothing is left. Until this
    /// part is counted, calls to which rate limits apply wait.
    remaining_read: Option<(CallLogRead, PastCallCount)>,
}

/// A read of the call log, page by page, newest calls first.
struct CallLogRead {
    start: Timestamp,
    /// The next read starts at this time, so the IDs of calls since then are stored to count each
    /// call only once.
    recent_since: Timestamp,
    page: PageRequest,
    counted_calls: usize,
}

impl PredecessorCalls {
    /// Counts the latest calls toward the rate limits. [`finish`](Self::finish) counts the
    /// remaining calls while requests are served, because the call log may have millions of calls.
    ///
    /// # Errors
    /// The call log cannot be read.
    pub(crate) async fn begin(state: State, current_app: CurrentApp) -> Result<Self, StoreError> {
        let mut predecessor_calls = Self {
            state,
            current_app,
            read_from: None,
            counted_ids: HashSet::new(),
            remaining_read: None,
        };
        let mut log_read = predecessor_calls.begin_read();
        if predecessor_calls.count_page(&mut log_read).await? {
            let app = predecessor_calls.current_app.app();
            predecessor_calls.remaining_read =
                Some((log_read, app.executor().begin_past_call_count()));
        } else {
            log_count(log_read.counted_calls);
        }
        Ok(predecessor_calls)
    }

    /// Counts, toward the rate limits, the calls that [`begin`](Self::begin) has not counted.
    pub(crate) async fn finish(&mut self) {
        let Some((mut log_read, count_guard)) = self.remaining_read.take() else {
            return;
        };
        let mut has_failed = false;
        while let Err(error) = self.count_pages(&mut log_read).await {
            if !std::mem::replace(&mut has_failed, true) {
                tracing::warn!(
                    %error,
                    "{READ_ERROR_MESSAGE}; calls with a rate limit or cooldown wait"
                );
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        drop(count_guard);
        log_count(log_read.counted_calls);
    }

    fn begin_read(&mut self) -> CallLogRead {
        let lookback = self.current_app.app().executor().rate_limit_lookback();
        let now = Timestamp::now();
        let read_from = self.read_from;
        CallLogRead {
            start: read_from.unwrap_or(now.minus(lookback + MAX_ADMISSION_DELAY)),
            recent_since: *self.read_from.get_or_insert(now.minus(MAX_RECENT_AGE)),
            page: PageRequest::first(PageRequest::MAX_LIMIT),
            counted_calls: 0,
        }
    }

    /// Counts, toward the rate limits, the calls on the remaining pages of the call log.
    async fn count_pages(&mut self, log_read: &mut CallLogRead) -> Result<(), StoreError> {
        while self.count_page(log_read).await? {}
        Ok(())
    }

    /// Counts, toward the rate limits, those calls of a page that were not counted yet. Returns
    /// whether there are more pages.
    async fn count_page(&mut self, log_read: &mut CallLogRead) -> Result<bool, StoreError> {
        let store = self.state.store();
        let process = self.state.process();
        let calls = store
            .counted_calls(&process.owner, log_read.start, &log_read.page)
            .await?;
        let now = Timestamp::now();
        let new_calls: Vec<_> = calls
            .items
            .into_iter()
            .filter(|call| call.run_id != process.run_id)
            .filter(|call| call.began_at <= now.plus(MAX_FUTURE_OFFSET))
            .filter(|call| {
                call.id.creation_time() < log_read.recent_since || self.counted_ids.insert(call.id)
            })
            .map(|call| PastCall {
                age: elapsed_since(call.began_at, now),
                tool: call.tool,
                server: call.server,
                account: call.account,
            })
            .collect();
        log_read.counted_calls += new_calls.len();
        self.current_app
            .app()
            .executor()
            .count_past_calls(new_calls);
        let has_more = calls.next.is_some();
        if let Some(next) = calls.next {
            log_read.page = PageRequest::after(next, PageRequest::MAX_LIMIT);
        }
        Ok(has_more)
    }

    /// Counts, toward the rate limits, the calls that a predecessor admits while it drains.
    pub(crate) async fn follow_predecessor(&mut self) {
        for (read_count, interval) in POLL_SCHEDULE {
            for _ in 0..read_count {
                let mut log_read = self.begin_read();
                if let Err(error) = self.count_pages(&mut log_read).await {
                    tracing::warn!(%error, "{READ_ERROR_MESSAGE}");
                }
                tokio::time::sleep(interval).await;
            }
        }
    }
}

fn log_count(calls: usize) {
    if calls > 0 {
        tracing::info!(calls, "Counted recorded calls toward the rate limits");
    }
}

/// Returns how long ago `since` was, or zero if `since` is in the future because the clock was set
/// back.
fn elapsed_since(since: Timestamp, now: Timestamp) -> Duration {
    let milliseconds = now.as_millis().saturating_sub(since.as_millis());
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
