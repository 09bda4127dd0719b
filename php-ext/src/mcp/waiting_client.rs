use std::cell::OnceCell;
use std::sync::Arc;

use super::connection::McpConnection;
use super::hooks::Hooks;
use super::link::{ProgressReceiver, ServerLink};
use super::router::{CallHandle, WaitGuard};
use super::server_job::ServerJob;
use crate::runtime::ProcessBound;
use crate::wait::{JobSender, wait_serving};
use crate::zend::Result;

/// An MCP client whose callbacks handle the server's requests while PHP waits for a call of the
/// client, or for an execution that uses tools of the client's server.
pub struct WaitingClient<'a> {
    pub(super) link: &'a ServerLink,
    pub(super) hooks: Hooks<'a>,
    pub(super) connection: Arc<McpConnection>,
    pub(super) progress_receiver: Option<&'a ProgressReceiver<'a>>,
    open_handle: OnceCell<(ProcessBound<WaitGuard>, ProcessBound<CallHandle>)>,
}

impl<'a> WaitingClient<'a> {
    /// Creates a client for a call that this PHP thread waits for. First delivers the pending
    /// notifications and tokens of the connection to PHP.
    ///
    /// # Errors
    /// A failure of [`ServerLink::connection`], or an exception of the PHP code that ran, such as a
    /// callback or the token store.
    pub fn new(link: &'a ServerLink, hooks: Hooks<'a>) -> Result<Self> {
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
            open_handle: OnceCell::new(),
        }
    }

    /// Registers a call of the client, which this PHP thread waits for. `start` starts the call.
    /// This method must be called only once for each client.
    pub fn open_call<T>(
        &self,
        job_sender: JobSender<ServerJob>,
        start: impl FnOnce(&CallHandle) -> T,
    ) -> T {
        let handle = self.link.open_call(&self.connection, job_sender);
        let start_result = start(&handle);
        let _ = self
            .open_handle
            .set((handle.begin_wait(), ProcessBound::new(handle)));
        start_result
    }

    /// Handles one of the server's jobs on PHP's thread.
    ///
    /// # Errors
    /// An exception of the PHP code that ran, such as a callback or the token store.
    pub fn serve(&self, job: ServerJob) -> Result<()> {
        let Some((_, handle)) = self.open_handle.get() else {
            return Ok(());
        };
        let (link, hooks) = (self.link, self.hooks);
        link.serve(hooks, &self.connection, handle, self.progress_receiver, job)
    }

    /// Waits for a call of this client.
    ///
    /// # Errors
    /// The same errors as [`wait_serving`].
    pub fn wait<T, F>(&self, call: impl FnOnce(&CallHandle) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        wait_serving(
            |job_sender| self.open_call(job_sender, |handle| handle.run(call(handle))),
            |job| self.serve(job),
        )
    }

    /// Delivers pending notifications and tokens to PHP after a call.
    ///
    /// # Errors
    /// An exception of the PHP code that ran, such as a callback or the token store.
    pub fn finish(self) -> Result<()> {
        drop(self.open_handle);
        self.link.deliver_after_call(self.hooks, &self.connection)
    }
}
