//! Handles the jobs of a call, and delivers notifications and tokens.

use std::sync::Arc;

use super::{Link, Reported, readable};
use crate::classes::{event, progress};
use crate::json::EmptyObject;
use crate::mcp::connection::Connection;
use crate::mcp::desk::Line;
use crate::mcp::errand::Errand;
use crate::mcp::hooks::{Hooks, NOTIFICATION};
use crate::mcp::{answers, credentials, tool_list};
use crate::runtime::{self, Bound};
use crate::zend::{Failure, call_callable, string_of};

impl Link {
    /// Handles a job of a call on PHP's thread.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn serve(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<Connection>,
        line: &Bound<Line>,
        reported: Option<&Reported<'_>>,
        errand: Errand,
    ) -> Result<(), Failure> {
        match errand {
            Errand::Question(question) => answers::answer(hooks, question),
            Errand::Authorize { url, reply } => {
                self.has_asked.set(true);
                answers::authorize(hooks, &url, reply)
            }
            Errand::Look => {
                while let Some(errand) = line.get().and_then(Line::take) {
                    self.serve(hooks, connection, line, reported, errand)?;
                }
                // A callback may have forked. The child must not use the desk of its parent.
                match line.get() {
                    Some(_) => self.deliver(hooks, connection),
                    None => Ok(()),
                }
            }
            Errand::Progress {
                call,
                progress,
                ticket,
            } => {
                drop(ticket);
                let Some(reported) = reported else {
                    return Ok(());
                };
                let id = reported.ids.get(call).map_or("", String::as_str);
                let progress = progress::new_progress(&progress)?;
                call_callable(reported.callable, [progress, string_of(id)]).map(drop)
            }
        }
    }

    /// Delivers pending jobs, notifications and tokens to PHP after a call.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn settle(&self, hooks: Hooks<'_>, connection: &Arc<Connection>) -> Result<(), Failure> {
        if let Some(open) = connection.client().open_connection()
            && connection.is_new(open.number)
        {
            let version = open.protocol_version.map(|version| version.as_str());
            let server = self.server.shown_name();
            hooks.dispatch(|| event::server_connected(&server, version))?;
        }
        self.deliver(hooks, connection)
    }

    /// Stores changed tokens, and delivers the server's notifications.
    ///
    /// # Errors
    /// An exception of the PHP code.
    pub fn deliver(&self, hooks: Hooks<'_>, connection: &Arc<Connection>) -> Result<(), Failure> {
        if let Some(tokens) = connection.tokens()
            && let Some(text) = credentials::store(hooks, &self.server, tokens)?
            && self.is_personal()
        {
            // Other objects with these tokens find the session under the new key.
            runtime::move_mcp_connection(&self.key(Some(&text)), connection)?;
        }
        let changes = connection.desk().changes();
        if self.told_changes.replace(changes) != changes {
            tool_list::forget(self, hooks)?;
            let server = self.server.shown_name();
            hooks.dispatch(|| event::tools_changed(&server))?;
        }
        // Delivers only the notifications that are pending now, so that a server that keeps sending
        // cannot block the call.
        let mut notices = self.mailbox.take_all();
        while let Some(notice) = notices.pop_front() {
            let told = readable(&notice.params, EmptyObject::StdClass)
                .and_then(|params| hooks.call(NOTIFICATION, [string_of(&notice.method), params]));
            if let Err(failure) = told {
                self.mailbox.put_back(notices);
                return Err(failure);
            }
        }
        Ok(())
    }
}
