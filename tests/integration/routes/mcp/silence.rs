//! Calls that take long and send nothing meanwhile.

use std::thread::{Scope, ScopedJoinHandle};

use super::*;

/// A response, and how long its first bytes took.
struct Timed {
    head_after: Duration,
    text: String,
}

impl Timed {
    fn is_stream(&self) -> bool {
        self.text.contains("content-type: text/event-stream")
    }

    /// Returns whether a comment precedes the first event.
    fn begins_with_comment(&self) -> bool {
        let comment = self.text.find("\n: \n");
        let event = self.text.find("event: message");
        comment.is_some() && comment < event
    }
}

fn exchange<'scope>(
    scope: &'scope Scope<'scope, '_>,
    sidecar: &'scope Sidecar,
    headers: &str,
    body: &Value,
) -> ScopedJoinHandle<'scope, Timed> {
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    scope.spawn(move || {
        let mut stream = UnixStream::connect(&sidecar.socket).unwrap();
        let wait = Some(Duration::from_secs(60));
        stream.set_read_timeout(wait).unwrap();
        let began = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = vec![0];
        stream.read_exact(&mut text).unwrap();
        let head_after = began.elapsed();
        stream.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        Timed { head_after, text }
    })
}

#[test]
fn a_silent_call_becomes_an_event_stream_with_heartbeats() {
    const CALL: Duration = Duration::from_secs(9);
    let sidecar = Sidecar::start();
    let ms = u64::try_from(CALL.as_millis()).unwrap();
    let params = json!({"name": "sleep", "arguments": {"ms": ms}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let sessions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
        .map(|version| Session::open(&sidecar.socket, version, json!({})));
    std::thread::scope(|scope| {
        let (headers, stateless_call) = stateless("tools/call", params.clone(), json!({}));
        let mut streams = vec![
            exchange(scope, &sidecar, &headers, &stateless_call),
            exchange(scope, &sidecar, ACCEPT, &call),
            exchange(scope, &sidecar, &sessions[1].headers, &json!([call])),
        ];
        for session in &sessions {
            streams.push(exchange(scope, &sidecar, &session.headers, &call));
        }
        let mut plain = Vec::new();
        for accept in ["", "accept: application/json\r\n", "accept: */*\r\n"] {
            plain.push(exchange(scope, &sidecar, accept, &call));
            let headers = headers.replace(ACCEPT, accept);
            plain.push(exchange(scope, &sidecar, &headers, &stateless_call));
        }
        for stream in streams {
            let stream = stream.join().unwrap();
            assert!(stream.is_stream(), "{}", stream.text);
            assert!(stream.begins_with_comment(), "{}", stream.text);
            assert!(stream.head_after < CALL - Duration::from_secs(1));
            assert_contains!(stream.text, "\"isError\":false");
        }
        for plain in plain {
            let plain = plain.join().unwrap();
            assert!(!plain.is_stream(), "{}", plain.text);
            assert!(plain.head_after >= CALL);
            assert_contains!(plain.text, "\"isError\":false");
        }
    });
}

#[test]
fn a_call_that_is_cancelled_after_its_stream_is_open_has_no_response() {
    let sidecar = Sidecar::start();
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let call = call_request("a", "sleep", json!({"ms": 30_000}));
    std::thread::scope(|scope| {
        let call = exchange(scope, &sidecar, &session.headers, &call);
        std::thread::sleep(Duration::from_secs(7));
        let cancel = cancellation("a");
        assert_eq!(session.send(&cancel).status, 202);
        let stream = call.join().unwrap();
        assert!(stream.is_stream(), "{}", stream.text);
        assert_lacks!(stream.text, "event: message");
        assert!(stream.head_after < Duration::from_secs(7));
    });
}
