use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{
    LedgerKey, LimitSubject, MAX_LEDGER_ENTRIES, PastCall, RateLimiter, SWEEP_TARGET_ENTRIES,
    UNREGISTERED_TOOL_TTL,
};
use crate::executor::{Executor, ExecutorConfig, QuotaAccount, RateLimits, RateWindows};
use crate::registry::ToolRegistry;
use crate::tests::{add, assert_failure, call, call_for};
use crate::tool::{CallContext, ErrorCode, ToolDefinition, ToolOutput};

fn executor(cooldown: Duration, per_minute: Option<u32>) -> Executor {
    let default = RateWindows {
        per_minute,
        ..RateWindows::default()
    };
    limited(cooldown, default)
}

fn limited(cooldown: Duration, default: RateWindows) -> Executor {
    let builder = ToolDefinition::builder("ping", "Answers").cooldown(cooldown);
    let registry = ToolRegistry::new();
    add(&registry, builder.build().unwrap(), |_, _| async {
        Ok(ToolOutput::text("pong"))
    });
    let mut config = ExecutorConfig::default();
    config.rate_limits.default = default;
    Executor::new(Arc::new(registry), config)
}

fn past(user: &str, seconds: u64) -> PastCall {
    PastCall {
        tool: "ping".to_owned(),
        server: None,
        account: QuotaAccount::User(user.to_owned()),
        age: Duration::from_secs(seconds),
    }
}

/// Returns how long the next call of this user has to wait, in seconds.
async fn wait_of(executor: &Executor, user: &str) -> Option<u64> {
    let result = call_for(executor, user, "ping").await;
    assert!(result.success || result.error_code == Some(ErrorCode::RateLimited));
    result.metadata.get("retry_after")?.as_u64()
}

#[tokio::test(start_paused = true)]
async fn c7_restored_calls_count_in_any_order() {
    let executor = executor(Duration::ZERO, Some(3));
    assert_eq!(executor.rate_limit_lookback(), UNREGISTERED_TOOL_TTL);
    // One of alice's calls is too old, and bob's call does not count for alice.
    let calls = [past("alice", 10), past("alice", 61), past("alice", 50)];
    executor.count_past_calls(calls.into_iter().chain([past("bob", 1)]));
    assert_eq!(wait_of(&executor, "alice").await, None);
    assert_eq!(wait_of(&executor, "alice").await, Some(10));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(wait_of(&executor, "alice").await, None);
    assert_eq!(wait_of(&executor, "alice").await, Some(40));
}

#[tokio::test(start_paused = true)]
async fn c7_of_too_many_restored_calls_the_newest_count() {
    let executor = executor(Duration::ZERO, Some(2));
    executor.count_past_calls((1..50).map(|age| past("alice", age)));
    // The two calls that count are one and two seconds old.
    assert_eq!(wait_of(&executor, "alice").await, Some(58));
}

#[tokio::test(start_paused = true)]
async fn c6_a_cooldown_survives_a_restart() {
    let executor = executor(Duration::from_secs(30), None);
    executor.count_past_calls([past("alice", 29), past("alice", 5), past("alice", 20)]);
    assert_eq!(wait_of(&executor, "alice").await, Some(25));
    assert_eq!(wait_of(&executor, "bob").await, None);
}

#[tokio::test(start_paused = true)]
async fn c6_the_cooldown_of_a_tool_registered_later_survives_a_restart() {
    let executor = executor(Duration::from_secs(600), None);
    assert_eq!(executor.rate_limit_lookback(), Duration::from_secs(600));
    let registry = executor.registry();
    let ping = registry.get("ping").unwrap();
    registry.unregister("ping");
    executor.count_past_calls([past("alice", 200), past("bob", 301)]);
    registry.register(Arc::clone(ping.tool())).unwrap();
    assert_eq!(wait_of(&executor, "alice").await, Some(400));
    assert_eq!(wait_of(&executor, "bob").await, None);
}

#[tokio::test(start_paused = true)]
async fn c6_very_long_cooldowns_are_counted() {
    let executor = executor(Duration::MAX, Some(10));
    assert_eq!(wait_of(&executor, "alice").await, None);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(wait_of(&executor, "alice").await, Some(u64::MAX - 60 + 1));
    assert_eq!(wait_of(&executor, "bob").await, None);
}

#[tokio::test(start_paused = true)]
async fn c7_the_daily_limit_holds() {
    let default = RateWindows {
        per_day: Some(2),
        ..RateWindows::default()
    };
    let executor = limited(Duration::ZERO, default);
    let hour = Duration::from_secs(60 * 60);
    assert_eq!(wait_of(&executor, "alice").await, None);
    tokio::time::advance(10 * hour).await;
    assert_eq!(wait_of(&executor, "alice").await, None);
    let rejected = call_for(&executor, "alice", "ping").await;
    let message = "Rate limit exceeded (per-day). Retry after 50400 seconds.";
    assert_failure(&rejected, ErrorCode::RateLimited, message);
    assert_eq!(wait_of(&executor, "bob").await, None);
    tokio::time::advance(14 * hour - Duration::from_secs(1)).await;
    assert_eq!(wait_of(&executor, "alice").await, Some(1));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(wait_of(&executor, "alice").await, None);
    assert_eq!(wait_of(&executor, "alice").await, Some(10 * 60 * 60));
}

#[tokio::test(start_paused = true)]
async fn c7_a_claimed_user_counts_as_its_principal() {
    let executor = executor(Duration::ZERO, Some(2));
    let run = async |principal: Option<&str>, user: Option<&str>, is_user_verified: bool| {
        let context = CallContext {
            user: user.map(str::to_owned),
            is_user_verified,
            principal: principal.map(str::to_owned),
            ..CallContext::default()
        };
        call(&executor, "ping", json!({}), &context).await.success
    };
    // A token that claims another user for each call does not get past its limit.
    assert!(run(Some("ci"), Some("a"), false).await);
    assert!(run(Some("ci"), Some("b"), false).await);
    assert!(!run(Some("ci"), Some("c"), false).await);
    assert!(!run(Some("ci"), None, false).await);
    // Calls of the token do not count toward the users that it claims, nor toward a user with the
    // token's name.
    assert!(run(Some("web"), Some("a"), true).await);
    assert!(run(Some("web"), Some("ci"), true).await);
    assert!(run(Some("other"), Some("a"), false).await);
    // Without authentication, the claimed user is the account.
    assert!(run(None, Some("b"), false).await);
    assert!(run(None, Some("b"), false).await);
    assert!(!run(None, Some("b"), false).await);
}

#[test]
fn c7_of_too_many_rate_limit_accounts_the_newest_are_kept() {
    let mut limits = RateLimits::default();
    limits.default.per_day = Some(1);
    let limiter = RateLimiter::new(limits);
    let count = u64::try_from(MAX_LEDGER_ENTRIES).unwrap() + 10;
    let calls = (0..count).map(|nth| past(&nth.to_string(), nth));
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    rt.block_on(async {
        tokio::time::advance(Duration::from_secs(count)).await;
        limiter.count(calls, &ToolRegistry::new());
        let ledger = limiter.ledger.lock();
        assert_eq!(ledger.times.len(), SWEEP_TARGET_ENTRIES);
        let has_account = |user: u64| {
            let subject = LimitSubject::Tool("ping".to_owned());
            let account = QuotaAccount::User(user.to_string());
            ledger.times.contains_key(&LedgerKey { account, subject })
        };
        assert!(has_account(0) && !has_account(count - 1));
    });
}
