use futures_util::StreamExt;
use futures_util::future::{BoxFuture, pending};
use futures_util::stream::FuturesUnordered;
use pillion_wasm_tools::{DueFile, TakenUp};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// How many files are compiled at once at most, where some are late: compiling takes a processor and
/// much memory, and cannot be stopped.
const MOST_AT_ONCE: usize = 3;

/// Files that are being taken up, on threads where that may take its time: one after the other, but
/// for those that are late, which nobody waits for any more.
#[derive(Default)]
pub(super) struct Works {
    running: FuturesUnordered<BoxFuture<'static, (u64, Turn)>>,
    awaited: Option<Awaited>,
    begun: u64,
}

/// The file that the next one waits for.
struct Awaited {
    number: u64,
    name: String,
    until: Instant,
}

/// What has become of a file.
pub(super) enum Turn {
    /// It has been taken up, in whatever way.
    Ended(Box<TakenUp>),
    /// Nobody knows how; its name.
    Lost(String),
    /// It goes on, beside others; its name.
    Late(String),
}

impl Works {
    /// Whether another file may begin.
    pub(super) fn has_room(&self) -> bool {
        self.awaited.is_none() && self.running.len() < MOST_AT_ONCE
    }

    /// Whether there is a file that is not late.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    pub(super) fn begin(&mut self, file: DueFile) {
        self.begun += 1;
        let (number, name) = (self.begun, file.name().to_owned());
        self.awaited = Some(Awaited {
            number,
            name: name.clone(),
            until: Instant::now() + file.patience(),
        });
        let task = spawn_blocking(move || file.take_up());
        self.running.push(Box::pin(async move {
            let turn = match task.await {
                Ok(taken_up) => Turn::Ended(Box::new(taken_up)),
                Err(error) => {
                    tracing::error!(%error, tool.name = name, "Taking up a file failed unexpectedly");
                    Turn::Lost(name)
                }
            };
            (number, turn)
        }));
    }

    /// Waits until something has become of a file, for ever if there is none.
    pub(super) async fn next(&mut self) -> Turn {
        let awaited = self.awaited.as_ref();
        let awaited = awaited.map(|awaited| (awaited.until, awaited.name.clone()));
        let late = async move {
            let Some((until, name)) = awaited else {
                return pending().await;
            };
            sleep_until(until).await;
            name
        };
        tokio::select! {
            Some((number, turn)) = self.running.next() => {
                self.awaited = self.awaited.take().filter(|awaited| awaited.number != number);
                turn
            }
            name = late => {
                self.awaited = None;
                Turn::Late(name)
            }
        }
    }
}
