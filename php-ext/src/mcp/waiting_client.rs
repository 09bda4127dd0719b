use std::cell::OnceCell;
use std::sync::Arc;

use super::connection::McpConnection;
use super::hooks::Hooks;
use super::link::{ProgressReceiver, ServerLink};
use super::router::{CallHandle, WaitGuard};
use super::server_job::ServerJob;
use crate::runtime::Bound;
use crate::wait::{JobSender, wait_serving};
use crate::zend::Failure;

/// A client that takes part in a wait: for its own call, or for an execution that uses tools of its
/// server. The client's callbacks answer the server's requests during the wait.
pub struct WaitingClient<'a> {
    pub(super) link: &'a ServerLink,
    pub(super) hooks: Hooks<'a>,
    pub(super) connection: Arc<McpConnection>,
    pub(super) progress_receiver: Option<&'a ProgressReceiver<'a>>,
    opened: OnceCell<(Bound<WaitGuard>, Bound<CallHandle>)>,
}

impl<'a> WaitingClient<'a> {
    /// Prepares a client for a wait, and delivers its pending notifications and tokens to PHP.
    ///
    /// # Errors
    /// A failure of [`ServerLink::connection`], or an exception of the PHP code.
    pub fn new(link: &'a ServerLink, hooks: Hooks<'a>) -> Result<Self, Failure> {
        let connection = link.connection(hooks)?;
        link.deliver(hooks, &connection)?;
        Ok(Self::for_connection(link, hooks, connection, None))
    }

    pub(super) fn for_connection(
        link: &'a ServerLink,
        hooks: Hooks<'a>,
        connection: Arc<McpConnection>,
        progress_receiver: Option<&'a ProgressReceiver<'a>>,
    ) -> Self {
        Self {
            link,
            hooks,
            connection,
            progress_receiver,
            opened: OnceCell::new(),
        }
    }

    /// Registers a call of the client, which this PHP thread waits for. `start` starts the call.
    /// Must be called only once.
    pub fn open_call<T>(
        &self,
        jobs: JobSender<ServerJob>,
        start: impl FnOnce(&CallHandle) -> T,
    ) -> T {
        let handle = self.link.open_call(&self.connection, jobs);
        let started = start(&handle);
        let _ = self.opened.set((handle.begin_wait(), Bound::new(handle)));
        started
    }

    /// Handles one of the server's jobs on PHP's thread.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn serve(&self, job: ServerJob) -> Result<(), Failure> {
        let Some((_, handle)) = self.opened.get() else {
            return Ok(());
        };
        let (link, hooks) = (self.link, self.hooks);
        link.serve(hooks, &self.connection, handle, self.progress_receiver, job)
    }

    /// Waits for a call of this client.
    ///
    /// # Errors
    /// The failures of [`wait_serving`].
    pub fn wait<T, F>(&self, call: impl FnOnce(&CallHandle) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        wait_serving(
            |jobs| self.open_call(jobs, |handle| handle.run(call(handle))),
            |job| self.serve(job),
        )
    }

    /// Delivers pending notifications and tokens to PHP after a call.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn finish(self) -> Result<(), Failure> {
        drop(self.opened);
        self.link.deliver_after_call(self.hooks, &self.connection)
    }
}
