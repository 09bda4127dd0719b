//! Restores rate limits after a restart from the call log.
//!
//! Nothing else is stored for the limits: each call is in the call log before its tool runs, so the
//! log has all admitted calls even after a crash.

use std::collections::HashSet;
use std::time::Duration;

use pillion_core::executor::{PastCall, QuotaAccount};
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

/// Maximum age of a call that a predecessor admits now.
const MAX_RECENT_AGE: Duration = Duration::from_secs(60);

/// Maximum time by which the start of a call may be in the future. A call further in the future was
/// recorded while the clock was wrong. Its real age is unknown, and counting it as new would block
/// its user for as long as the clock was wrong, so it is ignored.
const MAX_FUTURE_OFFSET: Duration = Duration::from_secs(60);

/// The calls of earlier processes of this sidecar that were counted.
pub(crate) struct PredecessorCalls {
    state: State,
    current_app: CurrentApp,
    /// Where the next read starts; `None` before the first read.
    from: Option<Timestamp>,
    /// The calls since `from` that were counted.
    counted: HashSet<CallId>,
}

impl PredecessorCalls {
    pub(crate) fn new(state: State, current_app: CurrentApp) -> Self {
        Self {
            state,
            current_app,
            from: None,
            counted: HashSet::new(),
        }
    }

    /// Counts calls that were not counted yet. Returns their number.
    ///
    /// # Errors
    /// If the call log cannot be read.
    pub(crate) async fn count(&mut self) -> Result<usize, StoreError> {
        let app = self.current_app.app();
        let lookback = app.executor().rate_limit_lookback();
        let store = self.state.store();
        let process = self.state.process();
        let now = Timestamp::now();
        let from = self
            .from
            .unwrap_or(now.minus(lookback + MAX_ADMISSION_DELAY));
        let recent = *self.from.get_or_insert(now.minus(MAX_RECENT_AGE));
        let mut page = PageRequest::first(PageRequest::MAX_LIMIT);
        let mut count = 0;
        loop {
            let calls = store.counted_calls(&process.owner, from, &page).await?;
            let now = Timestamp::now();
            let others = calls.items.into_iter();
            let others = others.filter(|call| call.life != process.life);
            let others = others.filter(|call| call.began_at <= now.plus(MAX_FUTURE_OFFSET));
            let new: Vec<_> = others
                .filter(|call| call.id.creation_time() < recent || self.counted.insert(call.id))
                .map(|call| PastCall {
                    age: age(call.began_at, now),
                    tool: call.tool,
                    server: call.server,
                    account: match call.principal {
                        Some(principal) => QuotaAccount::Principal(principal),
                        None => QuotaAccount::User(call.user.unwrap_or_default()),
                    },
                })
                .collect();
            count += new.len();
            app.executor().count_past_calls(new);
            match calls.next {
                Some(next) => page = PageRequest::after(next, PageRequest::MAX_LIMIT),
                None => return Ok(count),
            }
        }
    }

    /// Counts the calls that a predecessor admits while it drains.
    pub(crate) async fn follow(mut self) {
        for (looks, apart) in POLL_SCHEDULE {
            for _ in 0..looks {
                if let Err(error) = self.count().await {
                    tracing::warn!(
                        %error,
                        "Cannot read the recorded calls that count towards the rate limits"
                    );
                }
                tokio::time::sleep(apart).await;
            }
        }
    }
}

/// Returns how long ago `since` was; zero if it is in the future because the clock was set back.
fn age(since: Timestamp, now: Timestamp) -> Duration {
    let milliseconds = now.as_millis().saturating_sub(since.as_millis());
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
