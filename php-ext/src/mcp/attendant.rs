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

/// A client that takes part in a wait: of its own call, or of others' whose tools are those of
/// its server. What the server asks meanwhile is answered by its callbacks.
pub struct Attendant<'a> {
    pub(super) link: &'a Link,
    pub(super) hooks: Hooks<'a>,
    pub(super) connection: Arc<Connection>,
    pub(super) reported: Option<&'a Reported<'a>>,
    opened: OnceCell<(Bound<Wait>, Bound<Line>)>,
}

impl<'a> Attendant<'a> {
    /// Tells PHP what there is to tell before a call.
    ///
    /// # Errors
    /// Same as [`Link::connection`], and what the PHP code throws.
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

    /// From now on the client can be asked; `call` makes a call of its line. To be done once.
    pub fn open<T>(&self, errands: JobSender<Errand>, call: impl FnOnce(&Line) -> T) -> T {
        let line = self.link.open_line(&self.connection, errands);
        let called = call(&line);
        let _ = self.opened.set((line.wait(), Bound::new(line)));
        called
    }

    /// Does on PHP's thread what the server wants.
    ///
    /// # Errors
    /// What the PHP code throws.
    pub fn serve(&self, errand: Errand) -> Result<(), Failure> {
        let Some((_, line)) = self.opened.get() else {
            return Ok(());
        };
        let (link, hooks) = (self.link, self.hooks);
        link.serve(hooks, &self.connection, line, self.reported, errand)
    }

    /// Waits for a call of this client's line.
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

    /// Tells PHP what there is to tell after a call.
    ///
    /// # Errors
    /// What the PHP code throws.
    pub fn settle(self) -> Result<(), Failure> {
        drop(self.opened);
        self.link.settle(self.hooks, &self.connection)
    }
}
