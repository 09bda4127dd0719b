//! Schemas of other parties that take long to compile. Other requests are answered meanwhile, the
//! memory stays bounded, and the other tools of the same list can be called.

use serde_json::Map;

use crate::prelude::*;
use crate::workers::Worker;

/// Maximum time that another request may take meanwhile. Without other load, a request takes some
/// milliseconds.
pub const MAX_WAIT: Duration = Duration::from_secs(2);

/// Maximum growth of the sidecar's resident memory, in bytes.
pub const MAX_GROWTH: u64 = 300 * 1024 * 1024;

/// Returns a schema with this number of patterns, each of which takes long to compile.
fn expensive(patterns: usize) -> Value {
    let properties: Map<_, _> = (0..patterns)
        .map(|nth| {
            let pattern = format!("^(a{{1,200}}b{{1,200}}){{1,3}}{nth}");
            (
                format!("p{nth}"),
                json!({"type": "string", "pattern": pattern}),
            )
        })
        .collect();
    json!({"type": "object", "properties": properties})
}

fn tool(name: &str, schema: &Value) -> Value {
    json!({"name": name, "description": "Works", "inputSchema": schema})
}

/// Sends requests from other threads while `work` runs. Returns the longest time that one of these
/// requests took.
pub fn longest_wait(socket: &Path, paths: &[&str], work: impl FnOnce()) -> Duration {
    let is_over = Arc::new(AtomicBool::new(false));
    let probes: Vec<_> = paths
        .iter()
        .map(|path| {
            let (is_over, socket, path) =
                (Arc::clone(&is_over), socket.to_owned(), (*path).to_owned());
            thread::spawn(move || {
                let mut max_time = Duration::ZERO;
                while !is_over.load(Ordering::SeqCst) {
                    let began = Instant::now();
                    let response = match path.strip_prefix("POST ") {
                        Some(path) => socket.post(path, "{}"),
                        None => socket.get(&path),
                    };
                    assert_eq!(response.status, 200, "{path}");
                    max_time = max_time.max(began.elapsed());
                    thread::sleep(Duration::from_millis(10));
                }
                max_time
            })
        })
        .collect();
    work();
    is_over.store(true, Ordering::SeqCst);
    let max_time = probes.into_iter().map(|probe| probe.join().unwrap());
    max_time.max().unwrap()
}

pub fn resident(socket: &Path) -> u64 {
    let status = socket.get("/api/v1/status").json();
    status["process"]["resident_bytes"].as_u64().unwrap()
}

fn call(socket: &Path, tool: &str, arguments: &Value) -> Value {
    socket.execute(tool, arguments)["result"].clone()
}

/// Sends a request that may take long in a debug build.
fn send_slowly(socket: &Path, method: &str, path: &str, body: &str) -> Value {
    let timeout = Duration::from_secs(120);
    let response = socket.send_within(method, path, "", body.as_bytes(), timeout);
    assert_eq!(response.status, 200, "{path}");
    response.json()
}

fn daemon(servers: &[(&str, &McpServer)]) -> Daemon {
    let entries = servers
        .iter()
        .map(|(label, server)| server_entry(label, &server.url, ""));
    let settings = "[mcp]\ndiscovery_timeout_ms = 120000\n";
    let daemon = Daemon::with_config(&(settings.to_owned() + &entries.collect::<String>()));
    eventually("the daemon is ready", || {
        std::os::unix::net::UnixStream::connect(&daemon.socket).is_ok()
    });
    daemon
}

#[test]
fn a_list_of_expensive_schemas_delays_no_other_request() {
    for (tools, patterns) in [(100, 100), (1_000, 100)] {
        let mut listed: Vec<_> = (0..tools)
            .map(|nth| tool(&format!("t{nth}"), &expensive(patterns)))
            .collect();
        listed.push(tool("costly", &expensive(20)));
        listed.push(tool("sibling", &json!({"type": "object"})));
        let evil = McpServer::start(json!(listed));
        let well = McpServer::echo();
        let daemon = daemon(&[("evil", &evil), ("well", &well)]);
        let socket = &daemon.socket;
        assert_eq!(call(socket, "well_echo", &json!({}))["success"], true);
        let before = resident(socket);

        let paths = ["/healthz", "POST /api/v1/tools/execute/well_echo"];
        let waited = longest_wait(socket, &paths, || {
            let list = send_slowly(socket, "GET", "/api/v1/tools/", "");
            assert!(list["total"].as_u64().unwrap() > tools, "{}", list["total"]);
            let invalid = &list["invalid_tools"][0];
            assert_eq!(invalid["tool"], "evil_t0");
            assert_eq!(invalid["code"], "schema_too_large");
        });
        assert!(waited < MAX_WAIT, "{tools} tools: {waited:?}");

        // The first call compiles the schema.
        let waited = longest_wait(socket, &paths, || {
            let valid = call(socket, "evil_costly", &json!({"p0": "ab0"}));
            assert_json!(valid["success"], true);
            let invalid = call(socket, "evil_costly", &json!({"p0": "x"}));
            assert_json!(invalid["error_code"], "invalid_input");
        });
        assert!(waited < MAX_WAIT, "calls of {tools} tools: {waited:?}");
        assert_eq!(call(socket, "evil_sibling", &json!({}))["success"], true);
        let rejected = call(socket, "evil_t0", &json!({"p0": "x"}));
        assert_eq!(rejected["error_code"], "unavailable");
        let reason = "The arguments of tool 'evil_t0' cannot be validated: the patterns of the \
                      schema take too much time and memory to compile";
        assert_eq!(rejected["error"], reason);
        let growth = resident(socket).saturating_sub(before);
        assert!(growth < MAX_GROWTH, "{tools} tools: {growth} bytes");
    }
}

#[test]
fn checks_and_registrations_of_expensive_schemas_delay_no_other_request() {
    let daemon = daemon(&[]);
    let socket = &daemon.socket;
    let tools: Vec<_> = (0..90)
        .map(|nth| tool(&format!("t{nth}"), &expensive(30)))
        .collect();
    let before = resident(socket);
    let waited = longest_wait(socket, &["/healthz"], || {
        let check = json!({"tools": tools}).to_string();
        send_slowly(socket, "POST", "/api/v1/schemas/check", &check);
        drop(Worker::connect(socket, &json!(tools)));
    });
    assert!(waited < MAX_WAIT, "{waited:?}");
    let growth = resident(socket).saturating_sub(before);
    assert!(growth < MAX_GROWTH, "{growth} bytes");
}

/// Returns small schemas, each of which takes long to compile although nothing in it looks
/// expensive.
fn disguised(nth: usize) -> Vec<Value> {
    let patterns = |pattern: &dyn Fn(usize) -> String| {
        let properties: Map<_, _> = (0..10)
            .map(|property| {
                let pattern = pattern(property + 10 * nth);
                (format!("p{property}"), json!({"pattern": pattern}))
            })
            .collect();
        json!({"type": "object", "properties": properties})
    };
    let copied: Map<_, _> = (0..12)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            let schema = json!({"allOf": [next, next], "unevaluatedProperties": false});
            (format!("d{level}"), schema)
        })
        .chain([("d12".to_owned(), json!({"maxProperties": nth}))])
        .collect();
    vec![
        patterns(&|id| format!("(?x)#[\n(a{{1,100}}b{{1,100}}){{1,50}}{id}")),
        patterns(&|id| format!("(?=x)(?<a>y{id}{{1,100}}\\g<a>?\\g<a>?)")),
        patterns(&|id| format!("(?x)#[\n(?<=((a{{1,100}}){{1,100}}){{1,9}})x{id}")),
        json!({"type": "object", "allOf": [{"$ref": "#/$defs/d0"}], "$defs": copied}),
    ]
}

#[test]
fn a_short_list_of_disguised_schemas_delays_no_other_request() {
    for kind in 0..disguised(0).len() {
        let mut listed: Vec<_> = (0..50)
            .map(|nth| tool(&format!("t{nth}"), &disguised(nth)[kind]))
            .collect();
        listed.push(tool("sibling", &json!({"type": "object"})));
        let evil = McpServer::start(json!(listed));
        let daemon = daemon(&[("evil", &evil)]);
        let socket = &daemon.socket;
        let before = resident(socket);
        let waited = longest_wait(socket, &["/healthz"], || {
            let list = send_slowly(socket, "GET", "/api/v1/tools/", "");
            assert!(list["total"].as_u64() > Some(50), "{}", list["total"]);
        });
        assert!(waited < MAX_WAIT, "schemas {kind}: {waited:?}");
        assert_eq!(call(socket, "evil_sibling", &json!({}))["success"], true);
        let growth = resident(socket).saturating_sub(before);
        assert!(growth < MAX_GROWTH, "schemas {kind}: {growth} bytes");
    }
}

#[test]
fn formats_of_schemas_with_references_that_multiply_stay_small() {
    let daemon = daemon(&[]);
    let socket = &daemon.socket;
    let definitions: Map<_, _> = (0..16)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            let schema = json!({"type": "object", "properties": {"a": next, "b": next}});
            (format!("d{level}"), schema)
        })
        .chain([("d16".to_owned(), json!({"type": "string"}))])
        .collect();
    let schema = json!({
        "type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions,
    });
    let tools: Vec<_> = (0..200)
        .map(|nth| tool(&format!("t{nth}"), &schema))
        .collect();
    let body = json!({"tools": tools}).to_string();
    for provider in ["openai", "openai-responses", "anthropic", "google"] {
        let waited = longest_wait(socket, &["/healthz"], || {
            let path = format!("/api/v1/formats/tools?provider={provider}");
            let formatted = send_slowly(socket, "POST", &path, &body).to_string();
            let limit = 2 * body.len() + 2_000_000;
            assert!(formatted.len() < limit, "{provider}: {}", formatted.len());
        });
        assert!(waited < MAX_WAIT, "{provider}: {waited:?}");
    }
}
