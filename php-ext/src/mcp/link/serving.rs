//! Handles the jobs that a call sends to PHP's thread, such as running a callback, and delivers
//! notifications and tokens to PHP.

use std::sync::Arc;

use super::{ProgressReceiver, ServerLink, decode_message};
use crate::json::EmptyObject;
use crate::mcp::connection::McpConnection;
use crate::mcp::hooks::{Hooks, NOTIFICATION_CALLBACK};
use crate::mcp::router::CallHandle;
use crate::mcp::server_job::ServerJob;
use crate::mcp::{credentials, request_handlers, sessions, tool_list};
use crate::runtime::ProcessBound;
use crate::values::{event, progress};
use crate::zend::{Result, call_callable, new_string};

impl ServerLink {
    /// Handles a job that a call has sent to PHP's thread.
    ///
    /// # Errors
    /// An exception of the PHP code that ran, such as a callback or the token store.
    pub fn serve(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<McpConnection>,
        handle: &ProcessBound<CallHandle>,
        progress_receiver: Option<&ProgressReceiver<'_>>,
        job: ServerJob,
    ) -> Result<()> {
        match job {
            ServerJob::Request(request) => request_handlers::handle_request(hooks, request),
            ServerJob::Authorize { url, reply_sender } => {
                self.has_prompted_user.set(true);
                request_handlers::authorize(hooks, &url, reply_sender)
            }
            ServerJob::Wake => {
                while let Some(job) = handle.get().and_then(CallHandle::take_job) {
                    self.serve(hooks, connection, handle, progress_receiver, job)?;
                }
                // The handle is requested again, because a callback may have forked the process,
                // and a forked child must not use the router of its parent.
                match handle.get() {
                    Some(_) => self.deliver(hooks, connection),
                    None => Ok(()),
                }
            }
            ServerJob::Progress {
                call_index,
                progress,
                permit,
            } => {
                drop(permit);
                let Some(receiver) = progress_receiver else {
                    return Ok(());
                };
                let id = receiver.ids.get(call_index).map_or("", String::as_str);
                let progress_object = progress::new_progress(&progress)?;
                call_callable(receiver.callable, [progress_object, new_string(id)]).map(drop)
            }
        }
    }

    /// Delivers pending jobs, notifications and tokens to PHP after a call.
    ///
    /// # Errors
    /// An exception of the PHP code that ran, such as a callback or the token store.
    pub fn deliver_after_call(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<McpConnection>,
    ) -> Result<()> {
        if let Some(session) = connection.client().open_connection()
            && connection.mark_session_reported(session.number)
        {
            let protocol_version = session.protocol_version.map(|version| version.as_str());
            let server = self.server.display_name();
            hooks.dispatch(|| event::new_server_connected(&server, protocol_version))?;
        }
        self.deliver(hooks, connection)
    }

    /// Saves changed tokens in the `TokenStore`, and delivers the server's notifications.
    ///
    /// # Errors
    /// An exception of the PHP code that ran, such as a callback or the token store.
    pub fn deliver(&self, hooks: Hooks<'_>, connection: &Arc<McpConnection>) -> Result<()> {
        if let Some(tokens) = connection.tokens()
            && let Some(token_json) = credentials::store(hooks, &self.server, tokens)?
            && self.has_user_tokens()
        {
            // The session is stored under the key with the new tokens, so that other objects with
            // the new tokens find the session.
            sessions::change_key(connection, &self.connection_key(Some(&token_json)))?;
        }
        let change_count = connection.router().tools_change_count();
        if self.reported_change_count.replace(change_count) != change_count {
            tool_list::forget(self, hooks)?;
            let server = self.server.display_name();
            hooks.dispatch(|| event::new_tools_changed(&server))?;
        }
        // Only the notifications that are pending now are delivered, so that a server that keeps
        // sending cannot block the call.
        let mut notifications = self.inbox.take_all();
        while let Some(notification) = notifications.pop_front() {
            let params = decode_message(&notification.params, EmptyObject::StdClass);
            let method = new_string(&notification.method);
            let call = |params| hooks.call(NOTIFICATION_CALLBACK, [method, params]);
            if let Err(failure) = params.and_then(call) {
                self.inbox.put_back(notifications);
                return Err(failure);
            }
        }
        Ok(())
    }
}
