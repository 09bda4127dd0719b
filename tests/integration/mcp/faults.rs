//! Faults below MCP: servers that die or go silent, responses of any size, expired certificates.
//! Only the affected call fails, before its deadline, and nothing leaks.

mod blackhole;
mod certificates;
mod concurrent_calls;
mod killed;
mod large;
mod leaks;

use super::*;

/// Runs one of the ignored tests in this directory in a separate process, with one more
/// environment variable; the test has to pass.
fn alone(name: &str, variable: (&str, &str)) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("mcp::faults::{name}"), "--exact", "--ignored"])
        .env(variable.0, variable.1)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert_contains!(text, "1 passed");
}

fn send(text: &str) -> Fault {
    Fault::Send(text.as_bytes().to_vec())
}

/// Returns the tested faults, each a response that fails.
fn faults() -> Vec<(&'static str, Vec<Fault>)> {
    let drip = b"data: {\"jsonrpc\"".iter().flat_map(|&byte| {
        let pause = Duration::from_millis(100);
        [Fault::Send(vec![byte]), Fault::Wait(pause)]
    });
    let mut slow_drip = vec![Fault::head(EVENT_STREAM)];
    slow_drip.extend(drip.clone());
    slow_drip.push(Fault::Hang);
    let head = || Fault::head(EVENT_STREAM);
    let half_head = send("HTTP/1.1 200 OK\r\nContent-");
    let half_event = send("data: {\"jsonrpc\":\"2.0\",\"id\":");
    let half_json =
        send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{");
    let endless = Fault::Forever(vec![b' '; 65_536]);
    let page = Fault::response("500 Internal Server Error", "text/html", "<h1>");
    vec![
        ("closed at once", vec![Fault::Close]),
        ("cut after the head", vec![head(), Fault::Close]),
        ("cut within the head", vec![half_head, Fault::Close]),
        (
            "cut within an event",
            vec![head(), half_event, Fault::Close],
        ),
        ("cut within JSON", vec![half_json, Fault::Close]),
        ("half-open", vec![Fault::Hang]),
        ("half-open after the head", vec![head(), Fault::Hang]),
        ("slow drip", slow_drip),
        ("without end", vec![Fault::head(JSON), endless]),
        ("an error page", vec![page]),
    ]
}
