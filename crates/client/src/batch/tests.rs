use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use super::*;
use crate::Client;

/// A sidecar that limits the number and the bytes of the calls in one request.
struct Limited {
    _directory: tempfile::TempDir,
    client: Client,
    /// The idempotency keys and the calls of the accepted requests.
    taken: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Limited {
    fn start(max_calls: usize, max_bytes: usize) -> Self {
        Self::answering(move |body| {
            let request: Value = serde_json::from_slice(body).unwrap();
            let calls = request["calls"].as_array().unwrap().len();
            if body.len() > max_bytes {
                return Err((413, "The body is too long".to_owned()));
            }
            if calls > max_calls {
                return Err((400, format!("The batch has {calls} calls")));
            }
            Ok(())
        })
    }

    /// Starts a sidecar that rejects each request for which `check` returns an error.
    fn answering(check: impl Fn(&[u8]) -> Result<(), (u16, String)> + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let taken = Arc::<Mutex<Vec<_>>>::default();
        let notes = Arc::clone(&taken);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                while let Some((key, body)) = read_request(&mut stream) {
                    let (status, text) = match check(&body) {
                        Ok(()) => {
                            let request: Value = serde_json::from_slice(&body).unwrap();
                            notes.lock().unwrap().push((key, request));
                            (200, "{}".to_owned())
                        }
                        Err((status, error)) => {
                            let failure = pillion_wire::Failure::new("invalid_input", error);
                            (status, serde_json::to_string(&failure).unwrap())
                        }
                    };
                    let length = text.len();
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
                    let response = format!("{head}{text}");
                    stream.write_all(response.as_bytes()).unwrap();
                }
            }
        });
        Self {
            client: Client::new(path),
            _directory: directory,
            taken,
        }
    }

    fn run(&self, calls: &[BatchCall]) -> Vec<(Range<usize>, Option<u16>)> {
        let caller = Caller::default().idempotency_key("k");
        let client = &self.client;
        let parts = client.batch_in_parts(calls, BatchMode::Sequential, &caller);
        let of_part = |part: BatchPart| (part.calls, error_status(&part.response));
        parts.unwrap().into_iter().map(of_part).collect()
    }

    fn keys(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        taken.iter().map(|(key, _)| key.clone()).collect()
    }
}

fn read_request(stream: &mut impl Read) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let mut body = vec![0; header("content-length:").parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    Some((header("idempotency-key:"), body))
}

fn calls(count: usize) -> Vec<BatchCall> {
    let call = |id: usize| BatchCall {
        id: id.to_string(),
        name: "t".to_owned(),
        arguments: json!({}),
    };
    (0..count).map(call).collect()
}

#[test]
fn a_batch_that_fits_is_one_request() {
    let sidecar = Limited::start(100, 1 << 20);
    assert_eq!(sidecar.run(&calls(100)), [(0..100, None)]);
    assert_eq!(sidecar.run(&[]), [(0..0, None)]);
    assert_eq!(sidecar.keys(), ["k", "k"]);
    let taken = sidecar.taken.lock().unwrap();
    assert_eq!(
        taken[1].1,
        json!({"calls": [], "mode": "sequential"}),
        "the body is as the API has it"
    );
}

#[test]
fn more_calls_than_the_default_limit_are_several_requests() {
    let sidecar = Limited::start(100, 1 << 20);
    let parts = [(0..100, None), (100..200, None), (200..230, None)];
    assert_eq!(sidecar.run(&calls(230)), parts);
    assert_eq!(sidecar.keys(), ["k.0-100", "k.100-200", "k.200-230"]);
}

#[test]
fn a_batch_over_the_limit_of_the_sidecar_is_halved() {
    let sidecar = Limited::start(3, 1 << 20);
    let parts = [(0..2, None), (2..5, None), (5..7, None), (7..10, None)];
    assert_eq!(sidecar.run(&calls(10)), parts);
}

#[test]
fn only_the_call_that_is_too_large_is_rejected() {
    let sidecar = Limited::start(100, 1000);
    let mut batch = calls(5);
    batch[3].arguments = json!({"text": "x".repeat(2000)});
    let parts = sidecar.run(&batch);
    let rejected: Vec<_> = parts
        .iter()
        .filter(|(_, status)| status.is_some())
        .collect();
    assert_eq!(rejected, [&(3..4, Some(413))]);
    assert_eq!(parts.iter().map(|(calls, _)| calls.len()).sum::<usize>(), 5);
    // A rejected call is also rejected if it is the only call of a batch.
    assert_eq!(sidecar.run(&batch[3..4]), [(0..1, Some(413))]);
}

#[test]
fn large_calls_are_sent_in_several_requests() {
    let sidecar = Limited::start(100, 1 << 20);
    let mut batch = calls(4);
    for call in &mut batch {
        call.arguments = json!({"text": "x".repeat(400_000)});
    }
    assert_eq!(sidecar.run(&batch), [(0..2, None), (2..4, None)]);
}

#[test]
fn deeply_nested_arguments_are_sent_as_a_string() {
    let sidecar = Limited::start(100, 1 << 20);
    let deep = |levels: usize| {
        let text = format!(
            "{}{}",
            "{\"a\":".repeat(levels - 1) + "{",
            "}".repeat(levels)
        );
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let mut batch = calls(2);
    batch[0].arguments = deep(MAX_ARGUMENTS_DEPTH);
    batch[1].arguments = deep(MAX_ARGUMENTS_DEPTH + 1);
    assert_eq!(sidecar.run(&batch), [(0..2, None)]);
    let taken = sidecar.taken.lock().unwrap();
    let sent = &taken[0].1["calls"];
    assert_eq!(sent[0]["arguments"], batch[0].arguments);
    let text = batch[1].arguments.to_string();
    assert_eq!(sent[1]["arguments"], json!(text));
}

#[test]
fn only_size_errors_split_a_batch() {
    let requests = Arc::new(Mutex::new(0));
    let count = Arc::clone(&requests);
    let sidecar = Limited::answering(move |_| {
        *count.lock().unwrap() += 1;
        Err((400, "The header x must be UTF-8".to_owned()))
    });
    let caller = Caller::default();
    let client = &sidecar.client;
    let rejected = client.batch_in_parts(&calls(64), BatchMode::Parallel, &caller);
    let error = rejected.unwrap_err();
    assert_eq!(error.to_string(), "The header x must be UTF-8");
    assert_eq!(*requests.lock().unwrap(), 2);
}

#[test]
fn without_a_sidecar_the_whole_batch_fails() {
    let client = Client::new("/nonexistent/pillion.sock");
    let caller = Caller::default();
    let error = client.batch_in_parts(&calls(150), BatchMode::Parallel, &caller);
    assert!(error.unwrap_err().is_not_running());
}

#[test]
fn after_a_request_without_an_answer_the_remaining_calls_are_not_sent() {
    let requests = Arc::new(Mutex::new(0));
    let count = Arc::clone(&requests);
    // The response to the second request takes longer than the client waits.
    let sidecar = Limited::answering(move |_| {
        let number = {
            let mut requests = count.lock().unwrap();
            *requests += 1;
            *requests
        };
        if number == 2 {
            thread::sleep(std::time::Duration::from_secs(3));
        }
        Ok(())
    });
    let client = Client::builder(sidecar.client.socket_path())
        .timeout(std::time::Duration::from_secs(1))
        .build();
    let caller = Caller::default();
    let parts = client.batch_in_parts(&calls(450), BatchMode::Parallel, &caller);
    let mut outcomes = parts.unwrap().into_iter().map(|part| part.response);
    assert!(outcomes.next().unwrap().is_ok());
    assert_eq!(outcomes.next().unwrap().unwrap_err().code(), "timeout");
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), "unavailable");
        assert_eq!(
            error.to_string(),
            "The call was not sent: Tool 't' returned no result within 1.0s"
        );
    }
    assert_eq!(*requests.lock().unwrap(), 2);
}
