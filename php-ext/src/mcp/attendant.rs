use std::cell::OnceCell;
use std::sync::Arc;

use super::connection::Connection;
use super::desk::{Line, Wait};
use super::errand::Errand;
use super::hooks::Hooks;
use super::link::{Link, Reported};
use crate::runtime::Bound;
use crate::wait::{JobSender, wait_serving};
use crate::zend::Failure;

/// A client that takes part in a wait: for its own call, or for an execution whose tools belong to
/// its server. Its callbacks answer the server's requests during the wait.
pub struct Attendant<'a> {
    pub(super) link: &'a Link,
    pub(super) hooks: Hooks<'a>,
    pub(super) connection: Arc<Connection>,
    pub(super) reported: Option<&'a Reported<'a>>,
    opened: OnceCell<(Bound<Wait>, Bound<Line>)>,
}

impl<'a> Attendant<'a> {
    /// Delivers pending notifications and tokens to PHP before a call.
    ///
    /// # Errors
    /// Same as [`Link::connection`], and an exception of the PHP code.
    pub fn new(link: &'a Link, hooks: Hooks<'a>) -> Result<Self, Failure> {
        let connection = link.connection(hooks)?;
        link.deliver(hooks, &connection)?;
        Ok(Self::of(link, hooks, connection, None))
    }

    pub(super) fn of(
        link: &'a Link,
        hooks: Hooks<'a>,
        connection: Arc<Connection>,
        reported: Option<&'a Reported<'a>>,
    ) -> Self {
        Self {
            link,
            hooks,
            connection,
            reported,
            opened: OnceCell::new(),
        }
    }

    /// Opens the client's line to its waiting PHP thread. `call` starts calls on this line. Must be
    /// called only once.
    pub fn open<T>(&self, errands: JobSender<Errand>, call: impl FnOnce(&Line) -> T) -> T {
        let line = self.link.open_line(&self.connection, errands);
        let called = call(&line);
        let _ = self.opened.set((line.wait(), Bound::new(line)));
        called
    }

    /// Handles one of the server's jobs on PHP's thread.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn serve(&self, errand: Errand) -> Result<(), Failure> {
        let Some((_, line)) = self.opened.get() else {
            return Ok(());
        };
        let (link, hooks) = (self.link, self.hooks);
        link.serve(hooks, &self.connection, line, self.reported, errand)
    }

    /// Waits for a call on this client's line.
    ///
    /// # Errors
    /// Same as [`wait_serving`].
    pub fn wait<T, F>(&self, call: impl FnOnce(&Line) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        wait_serving(
            |errands| self.open(errands, |line| line.call(call(line))),
            |errand| self.serve(errand),
        )
    }

    /// Delivers pending notifications and tokens to PHP after a call.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn settle(self) -> Result<(), Failure> {
        drop(self.opened);
        self.link.settle(self.hooks, &self.connection)
    }
}
