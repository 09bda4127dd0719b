//! Determines which responses mean that the server no longer knows the session, and has not
//! processed the request.
//!
//! The specification requires HTTP 404 (MCP 2025-11-25, "Session Management"). Servers, frameworks
//! and proxies use many other responses after a restart. Only [`session_loss`] decides what a
//! response means, for every transport.

use crate::RpcError;
use crate::peer_text::truncate;

/// Maximum size of a text that is searched, in bytes.
const MAX_SEARCHED_BYTES: usize = 4 * 1024;

/// Whether a response means that the server no longer knows the session of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionLoss {
    /// The response does not suggest that the session is lost.
    None,
    /// The server does not know the session and has not processed the request.
    Certain,
    /// The server does not know the session and has not processed the request, if a `ping` in the
    /// session confirms that. A tool that has run may report another kind of session with the same
    /// words, but then the server responds to the `ping`.
    IfPingConfirms,
    /// Only a `ping` can tell whether the session still exists. If the session has ended, the
    /// server may have processed the request before the end, so only a harmless request is sent
    /// again.
    MayHaveRun,
}

/// The form of a response that is not a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    /// A JSON-RPC error with the ID of the request, whatever the transport and the HTTP status.
    RpcResponse,
    /// An HTTP error whose body is a JSON-RPC error with this code, and with another ID or without
    /// an ID.
    Error(i64),
    /// An HTTP error with any other body, or without a body.
    Other,
}

/// The topic of a response's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseTopic {
    /// The server does not know the session, because the session is missing, invalid, expired or
    /// not initialized.
    UnknownSession,
    /// The session has ended, maybe while the request was processed.
    EndedSession,
    /// The text is not about a session.
    Other,
}

/// Returns whether a response means that the server no longer knows the session. `has_session` is
/// `true` if the request named a session, by `Mcp-Session-Id` or by the URL from an `endpoint`
/// event.
pub(crate) fn session_loss(
    status: u16,
    form: ResponseForm,
    topic: ResponseTopic,
    has_session: bool,
) -> SessionLoss {
    use ResponseForm::{Error, RpcResponse};
    use ResponseTopic::{EndedSession, UnknownSession};
    use SessionLoss::{Certain, IfPingConfirms, MayHaveRun, None};
    match (status, form, topic) {
        // A server that sends a JSON-RPC response has read the request. A server does not process a
        // request of an unknown session, but may have processed a request whose session ended
        // afterwards.
        (_, RpcResponse, UnknownSession) => IfPingConfirms,
        (_, RpcResponse, EndedSession) => MayHaveRun,
        (_, RpcResponse, _) => None,
        // The specification requires HTTP 404 for an unknown session.
        (404, _, _) if has_session => Certain,
        // The official TypeScript SDK, and servers that follow the SDK, respond to an unknown
        // session with HTTP 400 and one of these JSON-RPC error codes.
        (400, Error(-32600 | -32099..=-32000 | -1), UnknownSession | EndedSession)
            if has_session =>
        {
            Certain
        }
        (410, _, _) if has_session => IfPingConfirms,
        // The statuses 407, 502 and 504 report a proxy, 408 and 425 the timing of a request, and
        // 429 a rate limit. None of these statuses means that the session is lost.
        (407 | 408 | 425 | 429 | 502 | 504, _, _) => None,
        // With the other statuses from 400 to 599, only the text of the response tells whether the
        // session may be lost. For example, older versions of `rmcp` report an unknown session with
        // 401, and frameworks with 400 or 500.
        (400..=599, _, UnknownSession | EndedSession) => IfPingConfirms,
        _ => None,
    }
}

/// Returns whether a JSON-RPC error with the ID of the request means that the server no longer
/// knows the session.
pub(crate) fn session_loss_of_error(error: &RpcError) -> SessionLoss {
    let topic = ResponseTopic::from_text(&error.message);
    session_loss(200, ResponseForm::RpcResponse, topic, true)
}

impl ResponseTopic {
    /// Returns the topic of an error message or of a body.
    pub(crate) fn from_text(text: &str) -> Self {
        const NOT_INITIALIZED_PHRASES: [&str; 9] = [
            "not initialized",
            "not initialised",
            "not been initialized",
            "not yet initialized",
            "uninitialized",
            "before initiali",
            "must initialize",
            "initialize first",
            "initialization required",
        ];
        // Words that occur in the rejection of a session by a server that has too many sessions.
        // Such a text does not mean that the session is unknown, and the server would reject a new
        // session, too.
        const CAPACITY_WORDS: [&str; 4] = ["too many", "limit", "maximum", "quota"];
        const END_WORDS: [&str; 5] = ["terminated", "closed", "ended", "deleted", "shut down"];
        let lowercase_text = truncate(text, MAX_SEARCHED_BYTES).to_ascii_lowercase();
        let contains_any = |words: &[&str]| words.iter().any(|word| lowercase_text.contains(word));
        if contains_any(&NOT_INITIALIZED_PHRASES) {
            return Self::UnknownSession;
        }
        if !lowercase_text.contains("session") || contains_any(&CAPACITY_WORDS) {
            return Self::Other;
        }
        if contains_any(&END_WORDS) {
            Self::EndedSession
        } else {
            Self::UnknownSession
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ResponseForm::{Error, Other, RpcResponse};
    use super::ResponseTopic::{EndedSession, UnknownSession};
    use super::SessionLoss::{Certain, IfPingConfirms, MayHaveRun, None};
    use super::*;

    #[test]
    fn texts_about_the_session_are_recognized() {
        for (text, topic) in [
            ("Session not found", UnknownSession),
            ("Bad Request: Server not initialized", UnknownSession),
            ("Bad Request: No valid session ID provided", UnknownSession),
            (
                "Bad Request: Mcp-Session-Id header is required",
                UnknownSession,
            ),
            (
                r#"{"error":"Invalid or missing session ID"}"#,
                UnknownSession,
            ),
            ("Unauthorized: Session not found", UnknownSession),
            ("Not Found: unknown SESSION", UnknownSession),
            ("Session expired", UnknownSession),
            (
                "The session is not initialized: send initialize first",
                UnknownSession,
            ),
            (
                "Received request before initialization was complete",
                UnknownSession,
            ),
            ("Invalid or expired session.", UnknownSession),
            ("Session terminated", EndedSession),
            ("Not Found: Session has been terminated", EndedSession),
            ("session closed", EndedSession),
            ("", ResponseTopic::Other),
            ("Not Found", ResponseTopic::Other),
            ("The city is unknown", ResponseTopic::Other),
            ("Too many sessions", ResponseTopic::Other),
            ("Session limit reached", ResponseTopic::Other),
            ("Request timed out", ResponseTopic::Other),
            ("initialized", ResponseTopic::Other),
        ] {
            assert_eq!(ResponseTopic::from_text(text), topic, "{text}");
        }
        let late = format!("{}session not found", "ä".repeat(MAX_SEARCHED_BYTES));
        assert_eq!(ResponseTopic::from_text(&late), ResponseTopic::Other);
    }

    #[test]
    fn every_response_has_one_meaning() {
        let (unknown, ended) = ("Session not found", "Session terminated");
        for (status, form, text, meaning) in [
            (404, Other, "", Certain),
            (404, Other, "Not Found", Certain),
            (404, Error(-32001), unknown, Certain),
            (404, RpcResponse, unknown, IfPingConfirms),
            (404, RpcResponse, "Method not found", None),
            (
                400,
                Error(-32000),
                "Bad Request: Server not initialized",
                Certain,
            ),
            (400, Error(-32000), ended, Certain),
            (400, Error(-32602), unknown, IfPingConfirms),
            (400, Error(-32602), "Invalid params", None),
            (400, Other, "Invalid session ID", IfPingConfirms),
            (400, Other, "Bad Request", None),
            (400, RpcResponse, unknown, IfPingConfirms),
            (401, Error(-32001), "Session expired", IfPingConfirms),
            (
                401,
                Other,
                "Unauthorized: Session not found",
                IfPingConfirms,
            ),
            (401, Other, "", None),
            (410, Other, "", IfPingConfirms),
            (410, RpcResponse, "The offer is gone", None),
            (429, Other, unknown, None),
            (500, Error(-32603), ended, IfPingConfirms),
            (500, RpcResponse, ended, MayHaveRun),
            (500, Other, "", None),
            (502, Other, unknown, None),
            (200, RpcResponse, unknown, IfPingConfirms),
            (200, RpcResponse, ended, MayHaveRun),
            (200, RpcResponse, "The city is unknown", None),
            (307, Other, unknown, None),
        ] {
            let loss = session_loss(status, form, ResponseTopic::from_text(text), true);
            assert_eq!(loss, meaning, "{status} {form:?} {text}");
        }
        // If the request named no session, a status alone does not mean an unknown session.
        for (status, text, meaning) in [
            (404, "", None),
            (410, "", None),
            (404, unknown, IfPingConfirms),
        ] {
            let loss = session_loss(status, Other, ResponseTopic::from_text(text), false);
            assert_eq!(loss, meaning, "{status} {text}");
        }
    }
}
