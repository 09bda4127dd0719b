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

/// Maximum time between the start of a call and its admission, for example while it waits for
/// approval.
const MAX_ADMISSION_DELAY: Duration = Duration::from_secs(600);

/// How often the calls of a predecessor are read after a takeover: at short intervals while it
/// accepts last requests, then at longer intervals until its waiting calls have run.
const POLL_SCHEDULE: [(u32, Duration); 2] = [
    (12, Duration::from_millis(500)),
    (10, Duration::from_secs(3)),
];

/// Delay before a failed read is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

const UNREADABLE: &str = "Cannot read the recorded calls that count towards the rate limits";

/// Maximum age of a call that a draining predecessor may still admit.
const MAX_RECENT_AGE: Duration = Duration::from_secs(60);

/// Maximum time by which the start of a call may be in the future. A call further in the future was
/// recorded while the clock was wrong. Its real age is unknown, and counting it as new would block
/// its user for as long as the clock was wrong, so it is ignored.
const MAX_FUTURE_OFFSET: Duration = Duration::from_secs(60);

/// Counts the calls of earlier processes of this sidecar toward the limits.
pub(crate) struct PredecessorCalls {
    state: State,
    current_app: CurrentApp,
    /// Where the next read starts; `None` before the first read.
    from: Option<Timestamp>,
    /// The counted calls since `from`, which the next read finds again.
    counted: HashSet<CallId>,
    /// The rest of the first read. Calls with limits wait until it is counted.
    rest: Option<(CallLogRead, PastCallCount)>,
}

/// A read of the call log, page by page, newest calls first.
struct CallLogRead {
    from: Timestamp,
    /// Calls that came in since this time may be read again.
    recent: Timestamp,
    page: PageRequest,
    calls: usize,
}

impl PredecessorCalls {
    /// Counts the latest calls. [`finish`](Self::finish) counts the remaining calls while requests
    /// are served, because there may be millions.
    ///
    /// # Errors
    /// If the call log cannot be read.
    pub(crate) async fn begin(state: State, current_app: CurrentApp) -> Result<Self, StoreError> {
        let mut this = Self {
            state,
            current_app,
            from: None,
            counted: HashSet::new(),
            rest: None,
        };
        let mut read = this.read();
        if this.count_page(&mut read).await? {
            let app = this.current_app.app();
            this.rest = Some((read, app.executor().begin_past_call_count()));
        } else {
            log_count(read.calls);
        }
        Ok(this)
    }

    /// Counts the calls that [`begin`](Self::begin) has not counted.
    pub(crate) async fn finish(&mut self) {
        let Some((mut read, waiting)) = self.rest.take() else {
            return;
        };
        let mut has_failed = false;
        while let Err(error) = self.count_pages(&mut read).await {
            if !std::mem::replace(&mut has_failed, true) {
                tracing::warn!(%error, "{UNREADABLE}; calls with limits wait");
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        drop(waiting);
        log_count(read.calls);
    }

    fn read(&mut self) -> CallLogRead {
        let lookback = self.current_app.app().executor().rate_limit_lookback();
        let now = Timestamp::now();
        let from = self.from;
        CallLogRead {
            from: from.unwrap_or(now.minus(lookback + MAX_ADMISSION_DELAY)),
            recent: *self.from.get_or_insert(now.minus(MAX_RECENT_AGE)),
            page: PageRequest::first(PageRequest::MAX_LIMIT),
            calls: 0,
        }
    }

    /// Counts the calls on the remaining pages.
    async fn count_pages(&mut self, read: &mut CallLogRead) -> Result<(), StoreError> {
        while self.count_page(read).await? {}
        Ok(())
    }

    /// Counts a page of calls that were not counted yet. Returns whether there are more pages.
    async fn count_page(&mut self, read: &mut CallLogRead) -> Result<bool, StoreError> {
        let store = self.state.store();
        let process = self.state.process();
        let calls = store
            .counted_calls(&process.owner, read.from, &read.page)
            .await?;
        let now = Timestamp::now();
        let new: Vec<_> = calls
            .items
            .into_iter()
            .filter(|call| call.run_id != process.run_id)
            .filter(|call| call.began_at <= now.plus(MAX_FUTURE_OFFSET))
            .filter(|call| call.id.creation_time() < read.recent || self.counted.insert(call.id))
            .map(|call| PastCall {
                age: age(call.began_at, now),
                tool: call.tool,
                server: call.server,
                account: call.account,
            })
            .collect();
        read.calls += new.len();
        self.current_app.app().executor().count_past_calls(new);
        let has_more = calls.next.is_some();
        if let Some(next) = calls.next {
            read.page = PageRequest::after(next, PageRequest::MAX_LIMIT);
        }
        Ok(has_more)
    }

    /// Counts the calls that a predecessor admits while it drains.
    pub(crate) async fn follow(&mut self) {
        for (reads, interval) in POLL_SCHEDULE {
            for _ in 0..reads {
                let mut read = self.read();
                if let Err(error) = self.count_pages(&mut read).await {
                    tracing::warn!(%error, "{UNREADABLE}");
                }
                tokio::time::sleep(interval).await;
            }
        }
    }
}

fn log_count(calls: usize) {
    if calls > 0 {
        tracing::info!(calls, "Counted recorded calls towards the rate limits");
    }
}

/// Returns how long ago `since` was, or zero if `since` is in the future because the clock was set
/// back.
fn age(since: Timestamp, now: Timestamp) -> Duration {
    let milliseconds = now.as_millis().saturating_sub(since.as_millis());
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
