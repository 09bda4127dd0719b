//! Lists of MCP servers that are huge in number, in bytes or in their entries, and long parameters
//! that are compared with them. Other requests are answered meanwhile, the memory stays bounded, and
//! small entries of the same list are offered.

use crate::expensive_schemas::{MAX_GROWTH, MAX_WAIT, longest_wait, resident};
use crate::hostile_server::{self, HostileReply};
use crate::prelude::*;
use crate::routes::mcp::last;

/// A list of a server: the method, the member, and the beginning of the entry with this number.
type List = (&'static str, &'static str, fn(usize) -> String);

const LISTS: [List; 4] = [
    ("tools/list", "tools", |nth| {
        format!(r#"{{"name":"t{nth}","inputSchema":{{"type":"object"}}"#)
    }),
    ("resources/list", "resources", |nth| {
        format!(r#"{{"uri":"a:{nth}""#)
    }),
    ("resources/templates/list", "resourceTemplates", |nth| {
        format!(r#"{{"uriTemplate":"{{a}}x{{b}}y{nth}""#)
    }),
    ("prompts/list", "prompts", |nth| {
        format!(r#"{{"name":"p{nth}","title":5"#)
    }),
];

/// Returns the shapes of huge lists: a name, the number of entries, and the rest of each entry.
fn shapes() -> Vec<(&'static str, usize, String)> {
    let members: Vec<_> = (0..90_000).map(|nth| format!("\"{nth}\":1")).collect();
    vec![
        ("many", 150_000, String::new()),
        (
            "large",
            15,
            format!(r#","_meta":{{"x":"{}"}}"#, "x".repeat(1_000_000)),
        ),
        (
            "too large",
            7,
            format!(r#","_meta":{{"x":"{}"}}"#, "x".repeat(2_000_000)),
        ),
        ("members", 15, format!(",{}", members.join(","))),
        (
            "icons",
            15,
            format!(r#","icons":[{}]"#, vec!["{}"; 300_000].join(",")),
        ),
        (
            "long names",
            1_500,
            format!(r#","title":"{}""#, "n".repeat(9_000)),
        ),
    ]
}

fn server(method: &'static str, body: &str) -> String {
    let body = format!(r#""result":{body}"#);
    hostile_server::start(move |request| match request["method"] == method {
        true => HostileReply::rpc(request, &body),
        false => HostileReply::well(request),
    })
}

fn daemon(hostile: &str) -> Daemon {
    let well = hostile_server::start(HostileReply::well);
    let servers =
        [("evil", hostile), ("well", &well)].map(|(label, url)| server_entry(label, url, ""));
    let daemon = Daemon::with_config(&servers.concat());
    let called = daemon.execute("well_echo", &json!({}));
    assert_json!(called["result"]["success"], true);
    daemon
}

fn send(socket: &Path, verb: &str, path: &str, headers: &str, body: &str) -> http::Reply {
    let timeout = Duration::from_secs(120);
    socket.send_within(verb, path, headers, body.as_bytes(), timeout)
}

fn ask(socket: &Path, session: &Session<'_>, method: &str, params: &Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    last(&send(
        socket,
        "POST",
        "/mcp",
        &session.headers,
        &message.to_string(),
    ))
}

/// The requests that read a list, or compare a parameter with its entries.
fn requests(long: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("tools/call", json!({"name": long, "arguments": {}})),
        ("resources/read", json!({"uri": long})),
        ("resources/subscribe", json!({"uri": long})),
        ("resources/unsubscribe", json!({"uri": long})),
        ("prompts/get", json!({"name": long})),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/prompt", "name": long},
                "argument": {"name": "a", "value": "b"},
            }),
        ),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/resource", "uri": long},
                "argument": {"name": "a", "value": "b"},
            }),
        ),
        ("tools/list", json!({"cursor": long})),
        ("resources/list", json!({"cursor": long})),
    ]
}

/// Tests each shape of list in one kind of list; with `PILLION_LONG_TESTS`, in all.
#[test]
fn a_huge_list_delays_no_other_request() {
    let is_long = std::env::var_os("PILLION_LONG_TESTS").is_some();
    for (number, (shape, count, rest)) in shapes().into_iter().enumerate() {
        let lists = LISTS.iter().cycle().skip(number + 1);
        for &(method, member, entry) in lists.take(if is_long { LISTS.len() } else { 1 }) {
            let entries: Vec<_> = (0..count).map(|nth| entry(nth) + &rest + "}").collect();
            let sibling = entry(count) + "}";
            let body = format!(r#"{{"{member}":[{sibling},{}]}}"#, entries.join(","));
            drop(entries);
            let daemon = daemon(&server(method, &body));
            let socket = &daemon.socket;
            let session = Session::open(socket, "2025-06-18", json!({}));
            let before = resident(socket);
            let paths = ["/healthz", "POST /api/v1/tools/execute/well_echo"];
            let waited = longest_wait(socket, &paths, || {
                for long in ["z".repeat(8 * 1024), "z".repeat(800_000)] {
                    for (method, params) in requests(&long) {
                        let response = ask(socket, &session, method, &params);
                        let is_too_long = long.len() > 8 * 1024 && params != json!({});
                        assert!(!is_too_long || response["error"].is_object(), "{method}");
                    }
                }
                let of_mcp = ask(socket, &session, method, &json!({}));
                let offered = of_mcp["result"][member].items();
                assert!(offered.len() <= 10_010, "{}", offered.len());
                let sibling: Value = serde_json::from_str(&sibling).unwrap();
                let id = ["uri", "uriTemplate", "name"]
                    .into_iter()
                    .find(|id| sibling[id].is_string())
                    .unwrap();
                let has_sibling = offered.iter().any(|entry| entry[id] == sibling[id]);
                assert!(has_sibling, "{method}, {shape}: the sibling is missing");
                for path in [
                    "/api/v1/tools/",
                    "/api/v1/tools/schemas",
                    "/api/v1/servers/evil/resources",
                ] {
                    let response = send(socket, "GET", path, "", "");
                    assert_eq!(response.status, 200, "{path}");
                }
            });
            assert!(waited < MAX_WAIT, "{method}, {shape}: {waited:?}");
            let growth = resident(socket).saturating_sub(before);
            assert!(growth < MAX_GROWTH, "{method}, {shape}: {growth} bytes");
        }
    }
}

#[test]
fn a_limit_of_a_list_is_logged_with_the_server_and_the_limit() {
    let entries = vec![r#"{"uri":"a:1"}"#; 10_001].join(",");
    let daemon = daemon(&server(
        "resources/list",
        &format!(r#"{{"resources":[{entries}]}}"#),
    ));
    let session = Session::open(&daemon.socket, "2025-06-18", json!({}));
    ask(&daemon.socket, &session, "resources/list", &json!({}));
    let warning = "MCP server `evil` lists more than 10000 resources; the rest is dropped";
    assert_contains!(daemon.log(), warning);
}
