//! Handles the jobs of a call, and delivers notifications and tokens.

use std::sync::Arc;

use super::{ProgressReceiver, ServerLink, decode_message};
use crate::json::EmptyObject;
use crate::mcp::connection::McpConnection;
use crate::mcp::hooks::{Hooks, NOTIFICATION};
use crate::mcp::router::CallHandle;
use crate::mcp::server_job::ServerJob;
use crate::mcp::{credentials, request_handlers, sessions, tool_list};
use crate::runtime::Bound;
use crate::values::{event, progress};
use crate::zend::{Failure, call_callable, string_of};

impl ServerLink {
    /// Handles a job of a call on PHP's thread.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn serve(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<McpConnection>,
        handle: &Bound<CallHandle>,
        progress_receiver: Option<&ProgressReceiver<'_>>,
        job: ServerJob,
    ) -> Result<(), Failure> {
        match job {
            ServerJob::Request(request) => request_handlers::handle_request(hooks, request),
            ServerJob::Authorize { url, reply } => {
                self.has_prompted_user.set(true);
                request_handlers::authorize(hooks, &url, reply)
            }
            ServerJob::Wake => {
                while let Some(job) = handle.get().and_then(CallHandle::take_job) {
                    self.serve(hooks, connection, handle, progress_receiver, job)?;
                }
                // A callback may have forked. The child must not use the router, which belongs to
                // its parent.
                match handle.get() {
                    Some(_) => self.deliver(hooks, connection),
                    None => Ok(()),
                }
            }
            ServerJob::Progress {
                call,
                progress,
                permit,
            } => {
                drop(permit);
                let Some(receiver) = progress_receiver else {
                    return Ok(());
                };
                let id = receiver.ids.get(call).map_or("", String::as_str);
                let progress = progress::new_progress(&progress)?;
                call_callable(receiver.callable, [progress, string_of(id)]).map(drop)
            }
        }
    }

    /// Delivers pending jobs, notifications and tokens to PHP after a call.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn deliver_after_call(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<McpConnection>,
    ) -> Result<(), Failure> {
        if let Some(open) = connection.client().open_connection()
            && connection.mark_session_reported(open.number)
        {
            let version = open.protocol_version.map(|version| version.as_str());
            let server = self.server.display_name();
            hooks.dispatch(|| event::server_connected(&server, version))?;
        }
        self.deliver(hooks, connection)
    }

    /// Saves changed tokens in the `TokenStore`, and delivers the server's notifications.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn deliver(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<McpConnection>,
    ) -> Result<(), Failure> {
        if let Some(tokens) = connection.tokens()
            && let Some(text) = credentials::store(hooks, &self.server, tokens)?
            && self.is_personal()
        {
            // The session moves to the key with the new tokens, so that other objects with these
            // tokens find it.
            sessions::rename(connection, &self.key(Some(&text)))?;
        }
        let changes = connection.router().changes();
        if self.reported_changes.replace(changes) != changes {
            tool_list::forget(self, hooks)?;
            let server = self.server.display_name();
            hooks.dispatch(|| event::tools_changed(&server))?;
        }
        // Only the notifications that are pending now are delivered, so that a server that keeps
        // sending cannot block the call.
        let mut pending = self.inbox.take_all();
        while let Some(notification) = pending.pop_front() {
            let delivered =
                decode_message(&notification.params, EmptyObject::StdClass).and_then(|params| {
                    hooks.call(NOTIFICATION, [string_of(&notification.method), params])
                });
            if let Err(failure) = delivered {
                self.inbox.put_back(pending);
                return Err(failure);
            }
        }
        Ok(())
    }
}
