//! What a call asks of PHP, and what there is to tell it.

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
    /// Does on PHP's thread what a call asks for.
    ///
    /// # Errors
    /// What the PHP code throws.
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
                // A callback may have forked: the child leaves its parent's desk alone.
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

    /// Tells PHP what there is to tell after a call.
    ///
    /// # Errors
    /// What the PHP code throws.
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

    /// Stores tokens that have changed, and passes on what the server said on its own account.
    ///
    /// # Errors
    /// What the PHP code throws.
    pub fn deliver(&self, hooks: Hooks<'_>, connection: &Arc<Connection>) -> Result<(), Failure> {
        if let Some(tokens) = connection.tokens()
            && let Some(text) = credentials::store(hooks, &self.server, tokens)?
            && self.is_personal()
        {
            // Who comes with these tokens finds the session.
            runtime::move_mcp_connection(&self.key(Some(&text)), connection)?;
        }
        let changes = connection.desk().changes();
        if self.told_changes.replace(changes) != changes {
            tool_list::forget(self, hooks)?;
            let server = self.server.shown_name();
            hooks.dispatch(|| event::tools_changed(&server))?;
        }
        // Those that are there now: a server that goes on talking must not hold the call.
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
