//! Receives the browser's redirect request.

use std::io;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::form_urlencoded;

/// Maximum total size of the request line and the headers, in bytes.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Timeout for reading a request, and for sending the response.
const IO_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes that end the headers.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Maximum number of concurrent connections. Greater than 1, because browsers open connections
/// before they send requests.
const MAX_CONNECTIONS: usize = 64;

/// The expected response to an authorization request.
pub(super) struct ExpectedRedirect<'a> {
    pub(super) path: &'a str,
    pub(super) state: &'a str,
    /// The `state` values of earlier authorization requests. A redirect with one of these values
    /// comes from a browser that reloads an old redirect page, and is not the expected response.
    pub(super) past_states: &'a [String],
}

/// Waits for the response to an authorization request and returns its path and query, unparsed. A
/// response with an unknown `state` also ends the wait; the caller reports the mismatch. Other
/// requests get an error response and are ignored.
pub(super) async fn wait_for_redirect(
    listener: &TcpListener,
    expected_redirect: &ExpectedRedirect<'_>,
) -> io::Result<String> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            result = listener.accept(), if connections.len() < MAX_CONNECTIONS => match result {
                Ok((stream, _)) => connections.push(serve_connection(stream, expected_redirect)),
                // An aborted connection is ignored, because later connections can still be
                // accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            },
            Some(redirect) = connections.next() => if let Some(target) = redirect {
                return Ok(target);
            },
        }
    }
}

/// Serves one connection. Returns the path and query of the request if the request is the expected
/// response.
async fn serve_connection(
    mut stream: TcpStream,
    expected_redirect: &ExpectedRedirect<'_>,
) -> Option<String> {
    let read_outcome = timeout(IO_TIMEOUT, read_head(&mut stream)).await;
    let head = read_outcome.ok()?.ok()?;
    let ((status, text), redirect) = match parse_target(&head) {
        Err(status) => ((status, "This is not a page of Pillion."), None),
        Ok(target) => {
            let (response, is_final) = evaluate_request(target, expected_redirect);
            (response, is_final.then(|| target.to_owned()))
        }
    };
    let response = format_page_response(status, text);
    // A failure to send the page is ignored, because the authorization response has already
    // arrived.
    let _ = timeout(IO_TIMEOUT, async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
    redirect
}

/// Returns the HTTP status and text for a request, and whether the request ends the wait (RFC 6749
/// sections 4.1.2 and 4.1.2.1).
fn evaluate_request(
    target: &str,
    expected_redirect: &ExpectedRedirect<'_>,
) -> ((&'static str, &'static str), bool) {
    const BAD_REQUEST: &str = "400 Bad Request";
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != expected_redirect.path {
        return (("404 Not Found", "Page not found."), false);
    }
    let parameter = |key: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find_map(|(name, value)| (name == key).then_some(value))
    };
    let (state, error) = (parameter("state"), parameter("error"));
    if error.is_none() && parameter("code").is_none() {
        let text = "This is not an authorization response.";
        return ((BAD_REQUEST, text), false);
    }
    let past_states = expected_redirect.past_states;
    match state.as_deref() {
        Some(state) if state == expected_redirect.state => {
            let text = match error {
                None => "Pillion received the authorization. You can close this window.",
                Some(_) => "The authorization was not granted. You can close this window.",
            };
            (("200 OK", text), true)
        }
        Some(state) if past_states.iter().any(|past_state| past_state == state) => {
            let text = "This authorization request was already completed.";
            ((BAD_REQUEST, text), false)
        }
        _ => {
            let text = "This response belongs to another authorization request.";
            ((BAD_REQUEST, text), true)
        }
    }
}

/// Reads the request line and the headers, up to [`MAX_HEAD_BYTES`].
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).await?;
        // The search for the end of the headers begins a few bytes before the new bytes, because
        // the end marker may have arrived in two reads.
        let unchecked_start = head.len().saturating_sub(HEAD_END.len());
        head.extend_from_slice(&bytes[..count]);
        if count == 0 || head.len() >= MAX_HEAD_BYTES || is_complete(&head[unchecked_start..]) {
            return Ok(head);
        }
    }
}

fn is_complete(head: &[u8]) -> bool {
    head.windows(HEAD_END.len()).any(|end| end == HEAD_END)
}

/// Returns the path and query of a complete GET request, or the error status.
fn parse_target(head: &[u8]) -> Result<&str, &'static str> {
    const BAD_REQUEST: &str = "400 Bad Request";
    if !is_complete(head) {
        return Err(if head.len() < MAX_HEAD_BYTES {
            BAD_REQUEST
        } else {
            "431 Request Header Fields Too Large"
        });
    }
    let bytes = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(bytes).map_err(|_| BAD_REQUEST)?;
    let words: Vec<_> = line.splitn(4, ' ').collect();
    match words[..] {
        [method, target, version] if version.starts_with("HTTP/1.") && target.starts_with('/') => {
            match method {
                "GET" => Ok(target),
                _ => Err("405 Method Not Allowed"),
            }
        }
        _ => Err(BAD_REQUEST),
    }
}

/// Returns an HTTP response with a page. The page repeats nothing from the request, which is
/// untrusted.
fn format_page_response(status: &str, text: &str) -> String {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Pillion</title><p>{text}</p></html>\n"
    );
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: ExpectedRedirect<'_> = ExpectedRedirect {
        path: "/callback",
        state: "s t",
        past_states: &[],
    };

    #[test]
    fn only_a_complete_get_request_is_read() {
        let request = b"GET /a?b=c HTTP/1.1\r\nA: b\r\n\r\n";
        assert_eq!(parse_target(request), Ok("/a?b=c"));
        for (head, status) in [
            (&b"POST /a?b HTTP/1.1\r\n\r\n"[..], "405"),
            (b"GET http://a/b?c HTTP/1.1\r\n\r\n", "400"),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"),
            (b"GET /a?b HTTP/1.1\r\n", "400"),
            (b"GET /a b HTTP/1.1\r\n\r\n", "400"),
            (b"GET /\xff HTTP/1.1\r\n\r\n", "400"),
            (b"\x16\x03\x01\r\n\r\n", "400"),
            (b"", "400"),
            (&[b'a'; MAX_HEAD_BYTES], "431"),
        ] {
            let error = parse_target(head).unwrap_err();
            assert!(error.starts_with(status), "{head:?}");
        }
    }

    #[test]
    fn an_authorization_response_ends_the_wait() {
        let past_states = ["old".to_owned()];
        let expected_redirect = ExpectedRedirect {
            past_states: &past_states,
            ..EXPECTED
        };
        for (target, status, expected_is_final) in [
            ("/callback?code=c&state=s+t", "200", true),
            ("/callback?state=s%20t&code=c&iss=i", "200", true),
            ("/callback?error=access_denied&state=s+t", "200", true),
            ("/callback?code=c&state=other", "400", true),
            ("/callback?code=c", "400", true),
            ("/callback?error=server_error", "400", true),
            ("/callback?code=c&state=old", "400", false),
            ("/callback?state=s+t", "400", false),
            ("/callback?a=b", "400", false),
            ("/callback", "400", false),
            ("/callback/?code=c&state=s+t", "404", false),
            ("/favicon.ico", "404", false),
            ("/?code=c&state=s+t", "404", false),
        ] {
            let ((returned, _), is_final) = evaluate_request(target, &expected_redirect);
            assert!(returned.starts_with(status), "{target}: {returned}");
            assert_eq!(is_final, expected_is_final, "{target}");
        }
    }

    /// Sends `bytes` to the redirect listener and returns the response, as far as it arrives.
    async fn send_bytes(stream: &mut TcpStream, bytes: &[u8]) -> String {
        let mut response = Vec::new();
        // The listener may close the connection while a request that is too large is being sent.
        let _ = stream.write_all(bytes).await;
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8(response).unwrap()
    }

    #[tokio::test]
    async fn unrelated_requests_neither_end_nor_delay_the_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let browser = async {
            let connect = || async { TcpStream::connect(address).await.unwrap() };
            // Browsers may open connections before they send requests.
            let mut early_connection = connect().await;
            let mut idle_connections = Vec::new();
            for _ in 0..5 {
                idle_connections.push(connect().await);
            }
            for _ in 0..2 * MAX_CONNECTIONS {
                drop(connect().await);
            }
            for (bytes, status) in [
                (&b"GET /favicon.ico HTTP/1.1\r\n\r\n"[..], "404"),
                (b"\x16\x03\x01\r\n\r\n", "400"),
                (b"HEAD /callback?code=c&state=s+t HTTP/1.1\r\n\r\n", "405"),
            ] {
                let response = send_bytes(&mut connect().await, bytes).await;
                let start = format!("HTTP/1.1 {status} ");
                assert!(response.starts_with(&start), "{response}");
            }
            send_bytes(&mut connect().await, &[b'a'; 10 * MAX_HEAD_BYTES]).await;
            let start = b"GET /callback?code=c&st";
            early_connection.write_all(start).await.unwrap();
            let response = send_bytes(&mut early_connection, b"ate=s+t HTTP/1.1\r\n\r\n").await;
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            let text = "You can close this window.";
            assert!(response.contains(text), "{response}");
            assert!(!response.contains("s+t"), "{response}");
        };
        let (target, ()) = tokio::join!(wait_for_redirect(&listener, &EXPECTED), browser);
        assert_eq!(target.unwrap(), "/callback?code=c&state=s+t");
    }
}
