use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use pin_project_lite::pin_project;

/// A timer for hyper that gives each timeout another second if the process was suspended in the
/// meantime ([`pillion_deadline`]).
#[derive(Clone, Debug)]
pub(super) struct StopTolerantTimer;

pin_project! {
    struct StopTolerantSleep {
        #[pin]
        inner: pillion_deadline::Sleep,
    }
}

impl Timer for StopTolerantTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(StopTolerantSleep {
            inner: pillion_deadline::sleep_until(deadline.into()),
        })
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        if let Some(sleep) = sleep.as_mut().downcast_mut_pin::<StopTolerantSleep>() {
            sleep.project().inner.reset(new_deadline.into());
        }
    }
}

impl Sleep for StopTolerantSleep {}

impl Future for StopTolerantSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().inner.poll(context)
    }
}
