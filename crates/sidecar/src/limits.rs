//! Limits that survive a restart: what the call log has of the calls that they let through.
//!
//! Nothing is stored for them: a call is in the call log before its tool runs, so that the log
//! tells after a crash, too, whatever was let through.

use std::collections::HashSet;
use std::time::Duration;

use pillion_core::executor::{Account, PastCall};
use pillion_core::store::{CallId, PageRequest, StoreError, Timestamp};

use crate::live::Live;
use crate::state::State;

/// A call may wait, for an answer of somebody, so long before it is let through.
const WAITING: Duration = Duration::from_secs(600);

/// What a sidecar that was taken over from lets through is looked for often while it takes last
/// requests, and then now and then until those that waited have run.
const LOOKS: [(u32, Duration); 2] = [
    (12, Duration::from_millis(500)),
    (10, Duration::from_secs(3)),
];

/// A call that it lets through now has come in no longer ago than this.
const RECENT: Duration = Duration::from_secs(60);

/// A call that began later than this after now was recorded while the clock was ahead. How old it
/// is nobody knows; counted as one of now it would block its user for as long as the clock
/// was wrong, and it does not count.
const AHEAD: Duration = Duration::from_secs(60);

/// The calls of other lives of this sidecar, as far as they were counted here.
pub(crate) struct PastCalls {
    state: State,
    live: Live,
    /// Where the next look begins; none before the first.
    from: Option<Timestamp>,
    /// The calls since then that were counted.
    counted: HashSet<CallId>,
}

impl PastCalls {
    pub(crate) fn new(state: State, live: Live) -> Self {
        Self {
            state,
            live,
            from: None,
            counted: HashSet::new(),
        }
    }

    /// Counts what has not been counted yet.
    ///
    /// # Errors
    /// When the call log cannot be read.
    pub(crate) async fn count(&mut self) -> Result<usize, StoreError> {
        let app = self.live.app();
        let look_back = app.executor().limits_look_back();
        let store = self.state.store();
        let process = self.state.process();
        let now = Timestamp::now();
        let from = self.from.unwrap_or(now.minus(look_back + WAITING));
        let recent = *self.from.get_or_insert(now.minus(RECENT));
        let mut page = PageRequest::first(PageRequest::LARGEST);
        let mut count = 0;
        loop {
            let calls = store.calls_that_ran(&process.owner, from, &page).await?;
            let now = Timestamp::now();
            let others = calls.items.into_iter();
            let others = others.filter(|call| call.life != process.life);
            let others = others.filter(|call| call.began_at <= now.plus(AHEAD));
            let new: Vec<_> = others
                .filter(|call| call.id.made_at() < recent || self.counted.insert(call.id))
                .map(|call| PastCall {
                    age: age(call.began_at, now),
                    tool: call.tool,
                    server: call.server,
                    account: match call.principal {
                        Some(principal) => Account::Principal(principal),
                        None => Account::User(call.user.unwrap_or_default()),
                    },
                })
                .collect();
            count += new.len();
            app.executor().count_past_calls(new);
            match calls.next {
                Some(next) => page = PageRequest::after(next, PageRequest::LARGEST),
                None => return Ok(count),
            }
        }
    }

    /// Counts what a sidecar that was taken over from still lets through while it drains.
    pub(crate) async fn follow(mut self) {
        for (looks, apart) in LOOKS {
            for _ in 0..looks {
                if let Err(error) = self.count().await {
                    tracing::warn!(%error, "Cannot read which calls count towards the limits");
                }
                tokio::time::sleep(apart).await;
            }
        }
    }
}

/// How long ago that was. A moment that is just about to come, for a clock that was set back, is
/// now.
fn age(moment: Timestamp, now: Timestamp) -> Duration {
    let milliseconds = now.as_millis().saturating_sub(moment.as_millis());
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
