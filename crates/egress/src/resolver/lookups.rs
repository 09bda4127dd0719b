use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Maximum number of concurrent lookups, each of which occupies a thread. If DNS does not respond,
/// a lookup takes many seconds and cannot be cancelled, even if its caller has given up.
const MAX_LOOKUPS: usize = 32;

/// Maximum number of concurrent lookups of one name, so that names whose DNS server does not
/// respond leave room for other names.
const MAX_LOOKUPS_PER_NAME: usize = 2;

/// Age of an unfinished lookup after which a new caller starts another lookup of the name, because
/// the DNS server may be responding again.
const MAX_SHARED_AGE: Duration = Duration::from_secs(2);

type Outcome = Result<Vec<IpAddr>, Arc<io::Error>>;
type OutcomeReceiver = watch::Receiver<Option<Outcome>>;
type ResolveFn = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Looks up names with the system's resolver. Each lookup runs on a new thread, not on the
/// runtime's pool of blocking threads, where many lookups would delay the pool's other work.
///
/// Concurrent lookups of a name share one thread. Results are not cached.
pub(super) struct Lookups {
    permits: Arc<Semaphore>,
    running_lookups: Mutex<HashMap<String, Vec<RunningLookup>>>,
    resolve: ResolveFn,
}

struct RunningLookup {
    id: u64,
    started_at: Instant,
    receiver: OutcomeReceiver,
}

/// Dropped when the thread of a lookup ends: removes the lookup from the running lookups, and then
/// releases the lookup's permit.
struct LookupGuard {
    lookups: Arc<Lookups>,
    name: String,
    id: u64,
    _permit: OwnedSemaphorePermit,
}

/// Returns the lookups of this process, which all clients share, because the maximum number of
/// lookups applies to the process. A forked process begins without lookups: the threads of the
/// parent process do not exist in the forked process.
pub(super) fn for_process() -> Arc<Lookups> {
    static LOOKUPS: Mutex<Option<(u32, Arc<Lookups>)>> = Mutex::new(None);
    let mut shared = LOOKUPS.lock();
    match &*shared {
        Some((id, lookups)) if *id == process::id() => Arc::clone(lookups),
        _ => {
            let lookups = Lookups::new(Box::new(|name| {
                let addresses = (name, 0).to_socket_addrs()?;
                Ok(addresses.map(|address| address.ip()).collect())
            }));
            *shared = Some((process::id(), Arc::clone(&lookups)));
            lookups
        }
    }
}

impl Lookups {
    fn new(resolve: ResolveFn) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            running_lookups: Mutex::default(),
            resolve,
        })
    }

    /// Returns the addresses of a name. A caller that gives up while it waits for a thread starts
    /// no lookup.
    ///
    /// # Errors
    /// The system's resolver fails, or no thread can be started.
    pub(super) async fn lookup(self: &Arc<Self>, name: String) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let mut receiver = match self.join(&name) {
            Some(receiver) => receiver,
            None => {
                let permits = Arc::clone(&self.permits);
                let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
                // Another caller may have started a lookup of the name while this caller waited.
                match self.join(&name) {
                    Some(receiver) => receiver,
                    None => self.start(name, permit)?,
                }
            }
        };
        let received_outcome = receiver.wait_for(Option::is_some).await;
        match received_outcome.map(|outcome| outcome.clone()) {
            Ok(Some(Ok(addresses))) => Ok(addresses),
            Ok(Some(Err(error))) => Err(io::Error::new(error.kind(), error)),
            Ok(None) | Err(_) => Err(io::Error::other("the lookup of the host name was aborted")),
        }
    }

    /// Returns the receiver of a running lookup's outcome, unless the caller should start another
    /// lookup.
    fn join(&self, name: &str) -> Option<OutcomeReceiver> {
        let running_lookups = self.running_lookups.lock();
        let lookups_of_name = running_lookups.get(name)?;
        let newest_lookup = lookups_of_name.last()?;
        let is_shared = newest_lookup.started_at.elapsed() < MAX_SHARED_AGE
            || lookups_of_name.len() >= MAX_LOOKUPS_PER_NAME;
        is_shared.then(|| newest_lookup.receiver.clone())
    }

    fn start(
        self: &Arc<Self>,
        name: String,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<OutcomeReceiver> {
        let (sender, receiver) = watch::channel(None);
        let id = {
            let mut running_lookups = self.running_lookups.lock();
            let lookups_of_name = running_lookups.entry(name.clone()).or_default();
            let id = lookups_of_name.last().map_or(0, |newest| newest.id + 1);
            lookups_of_name.push(RunningLookup {
                id,
                started_at: Instant::now(),
                receiver: receiver.clone(),
            });
            id
        };
        let guard = LookupGuard {
            lookups: Arc::clone(self),
            name,
            id,
            _permit: permit,
        };
        let thread = thread::Builder::new().name("dns-lookup".to_owned());
        thread.spawn(move || {
            let outcome = (guard.lookups.resolve)(&guard.name).map_err(Arc::new);
            // The lookup is removed before its outcome is sent, so that a later caller does not
            // join a finished lookup.
            drop(guard);
            sender.send_replace(Some(outcome));
        })?;
        Ok(receiver)
    }
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        let mut running_lookups = self.lookups.running_lookups.lock();
        if let Some(lookups_of_name) = running_lookups.get_mut(&self.name) {
            lookups_of_name.retain(|lookup| lookup.id != self.id);
            if lookups_of_name.is_empty() {
                running_lookups.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::Condvar;
    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    /// A DNS server that does not respond for names that start with `slow`, until the test unblocks
    /// it.
    #[derive(Default)]
    struct FakeDns {
        is_open: Mutex<bool>,
        opened: Condvar,
        threads: AtomicUsize,
    }

    impl FakeDns {
        fn lookups(self: &Arc<Self>) -> Arc<Lookups> {
            let dns = Arc::clone(self);
            Lookups::new(Box::new(move |name| dns.resolve(name)))
        }

        fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.threads.fetch_add(1, Ordering::SeqCst);
            let mut is_open = self.is_open.lock();
            while !*is_open && name.starts_with("slow") {
                self.opened.wait(&mut is_open);
            }
            self.threads.fetch_sub(1, Ordering::SeqCst);
            if name.starts_with("bad") {
                return Err(io::Error::new(io::ErrorKind::NotFound, "no such host"));
            }
            Ok(vec![IpAddr::from([127, 0, 0, 1])])
        }

        fn open(&self) {
            *self.is_open.lock() = true;
            self.opened.notify_all();
        }
    }

    /// Looks up each name, and gives up after a short time.
    async fn give_up(lookups: &Arc<Lookups>, names: impl Iterator<Item = String>) {
        let mut tasks = JoinSet::new();
        for name in names {
            let lookups = Arc::clone(lookups);
            tasks.spawn(async move { timeout(SHORT, lookups.lookup(name)).await });
        }
        for outcome in tasks.join_all().await {
            assert!(outcome.is_err(), "{outcome:?}");
        }
    }

    #[tokio::test]
    async fn abandoned_lookups_of_a_few_names_leave_threads_for_other_names() {
        let dns = Arc::new(FakeDns::default());
        let lookups = dns.lookups();
        for _ in 0..30 {
            let names = (0..200).map(|number| format!("slow-{}", number % 4));
            give_up(&lookups, names).await;
            lookups.lookup("good".to_owned()).await.unwrap();
        }
        assert_eq!(dns.threads.load(Ordering::SeqCst), 4 * MAX_LOOKUPS_PER_NAME);
        dns.open();
        lookups.lookup("slow-0".to_owned()).await.unwrap();
    }

    #[tokio::test]
    async fn lookups_take_a_limited_number_of_threads_and_leave_nothing_behind() {
        let dns = Arc::new(FakeDns::default());
        let lookups = dns.lookups();
        give_up(&lookups, (0..200).map(|number| format!("slow-{number}"))).await;
        assert_eq!(dns.threads.load(Ordering::SeqCst), MAX_LOOKUPS);
        let tasks = tokio::spawn({
            let lookups = Arc::clone(&lookups);
            async move { lookups.lookup("good".to_owned()).await }
        });
        sleep(SHORT).await;
        assert!(!tasks.is_finished());
        dns.open();
        tasks.await.unwrap().unwrap();
        while lookups.permits.available_permits() < MAX_LOOKUPS {
            sleep(SHORT).await;
        }
        assert!(lookups.running_lookups.lock().is_empty());
    }

    #[tokio::test]
    async fn an_outcome_is_shared_and_not_cached() {
        let lookups = Arc::new(FakeDns::default()).lookups();
        for _ in 0..10 {
            let error = lookups.lookup("bad".to_owned()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(error.to_string(), "no such host");
            assert!(lookups.running_lookups.lock().is_empty());
        }
        // An address needs no lookup, and thus no permit.
        let permits = Arc::clone(&lookups.permits);
        let _all = permits.acquire_many_owned(MAX_LOOKUPS as u32).await;
        assert_eq!(lookups.lookup("::1".to_owned()).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_system_resolves_the_names_of_this_machine() {
        let addresses = for_process().lookup("localhost".to_owned()).await.unwrap();
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback));
    }
}
