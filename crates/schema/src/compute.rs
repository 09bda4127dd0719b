//! Long computations over data of other parties, such as a server's list of tools.
//!
//! The computations run on blocking threads, so that the threads that serve requests stay free. As
//! many computations run at once as there are processors. Each account has one computation at a
//! time, so an account with many computations delays the other accounts by one computation.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Maximum size of data that is processed on the current thread, in bytes, because moving the work
/// to another thread would take longer than the work. Applies only to work whose time is
/// proportional to the size.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;

/// One permit for each processor. All computations of the process share the permits, because they
/// share the processors.
static PROCESSORS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let processors = available_parallelism().map_or(1, NonZeroUsize::get);
    Arc::new(Semaphore::new(processors))
});

/// The accounts with running or waiting computations; each account has one permit.
static ACCOUNTS: LazyLock<Mutex<HashMap<String, Arc<Semaphore>>>> = LazyLock::new(Mutex::default);

/// Runs `work` over `bytes` bytes of data: at once if the data are small, or else on another thread
/// when `account` has its turn. If the time of `work` is not proportional to the size, as for
/// compiling schemas, the caller passes [`usize::MAX`] as `bytes`. `work` that has begun is
/// finished even if the future is dropped.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let text = "1".repeat(1_000_000);
/// let length = pillion_schema::compute::run("weather", text.len(), move || text.len()).await;
/// assert_eq!(length, 1_000_000);
/// # });
/// ```
///
/// # Panics
/// If `work` panics.
pub async fn run<T: Send + 'static>(
    account: &str,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= MAX_INLINE_BYTES {
        return work();
    }
    // The future is boxed, because the futures of requests and calls with little data would be
    // larger otherwise.
    Box::pin(run_in_turn(account, work)).await
}

async fn run_in_turn<T: Send + 'static>(
    account: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let turn = AccountTurn::for_account(account);
    // Acquiring the permits cannot fail, because the semaphores are never closed.
    let account_permit = Arc::clone(&turn.semaphore).acquire_owned().await;
    let processor_permit = Arc::clone(&PROCESSORS).acquire_owned().await;
    let task = spawn_blocking(move || {
        let output = work();
        drop((processor_permit, account_permit, turn));
        output
    });
    match task.await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The task was cancelled, because the runtime is shutting down. The runtime also drops
            // this future.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The semaphore of one account. The last user of the semaphore removes the account.
struct AccountTurn {
    account: String,
    semaphore: Arc<Semaphore>,
}

impl AccountTurn {
    fn for_account(account: &str) -> Self {
        let mut accounts = ACCOUNTS.lock();
        let semaphore = accounts
            .entry(account.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(1)));
        Self {
            account: account.to_owned(),
            semaphore: Arc::clone(semaphore),
        }
    }
}

impl Drop for AccountTurn {
    fn drop(&mut self) {
        let mut accounts = ACCOUNTS.lock();
        // If only the map and this value refer to the semaphore, the account has no other
        // computation.
        if Arc::strong_count(&self.semaphore) <= 2 {
            accounts.remove(&self.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LARGE: usize = MAX_INLINE_BYTES + 1;

    #[tokio::test]
    async fn an_account_with_many_computations_delays_others_by_one() {
        let slow_work = || std::thread::sleep(Duration::from_millis(300));
        let tasks: Vec<_> = (0..20)
            .map(|_| tokio::spawn(run("compute-many", LARGE, slow_work)))
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        run("compute-one", LARGE, || ()).await;
        let finished_count = tasks.iter().filter(|task| task.is_finished()).count();
        assert!(finished_count < 10, "{finished_count}");
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn accounts_are_forgotten() {
        let thread_id = run("compute-gone", LARGE, || std::thread::current().id()).await;
        assert_ne!(thread_id, std::thread::current().id());
        let current_thread_id = run("compute-gone", 1, || std::thread::current().id()).await;
        assert_eq!(current_thread_id, std::thread::current().id());
        // The thread drops its permits only after it has sent its result.
        let is_removed = || !ACCOUNTS.lock().contains_key("compute-gone");
        while !is_removed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let panicked = tokio::spawn(run("compute-gone", LARGE, || panic!("on purpose")));
        assert!(panicked.await.is_err());
        run("compute-gone", LARGE, || ()).await;
    }
}
