//! A sidecar that is killed repeatedly under load: afterwards, everything that it acknowledged is
//! present, and nothing twice. `PILLION_KILL_ROUNDS` sets the number of kills, 12 by default. The
//! times of the kills depend on a random seed, which the test prints; `PILLION_KILL_SEED` sets it.

use std::collections::{HashMap, HashSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::prelude::*;

/// Acknowledged changes by kind.
#[derive(Default)]
struct Acknowledged {
    /// The acknowledged calls, by ID, with their arguments.
    calls: HashMap<String, Value>,
    /// The acknowledged approvals, by ID, with their status.
    approvals: HashMap<String, &'static str>,
    servers: Vec<String>,
}

impl Acknowledged {
    fn add(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.servers.extend(other.servers);
        self.approvals.extend(other.approvals);
    }
}

/// Sends a POST request. Returns status and body of a complete response, or `None` if the sidecar
/// is gone.
fn post(socket: &Path, path: &str, body: &Value) -> Option<(u16, Value)> {
    let body = body.to_string();
    let mut stream = UnixStream::connect(socket).ok()?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-pillion-user: load\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// Makes calls until the sidecar is gone, each with a different number from `first` on as the
/// argument.
fn call(socket: &Path, has_ended: &AtomicBool, first: usize) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    for number in first.. {
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
        let arguments = json!({"expression": format!("0 + {number}")});
        let response = post(socket, "/api/v1/tools/execute/calculator", &arguments);
        let Some((200, response)) = response else {
            continue;
        };
        assert_json!(response["result"]["text"], number.to_string());
        let id = response["result"]["metadata"]["record_id"].text();
        let earlier = acknowledged.calls.insert(id.to_owned(), arguments);
        assert!(earlier.is_none(), "{id} is the record of two calls");
    }
    acknowledged
}

/// Requests approvals and decides them until the sidecar is gone.
fn decide(socket: &Path, has_ended: &AtomicBool, round: usize) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    for number in 0.. {
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
        let arguments = json!({"notation": "1d6", "seed": round * 1_000_000 + number});
        let reply = post(socket, "/api/v1/tools/execute/roll_dice", &arguments);
        let Some((200, response)) = reply else {
            continue;
        };
        let id = response["result"]["metadata"]["approval_id"]
            .text()
            .to_owned();
        acknowledged.approvals.insert(id.clone(), "pending");
        let (verdict, status) = if number % 2 == 0 {
            ("approve", "approved")
        } else {
            ("deny", "denied")
        };
        let path = format!("/api/v1/approvals/{id}/{verdict}");
        match post(socket, &path, &json!({})) {
            Some((200, _)) => acknowledged.approvals.insert(id, status),
            // Whether the decision was stored is unknown.
            _ => acknowledged.approvals.remove(&id),
        };
    }
    acknowledged
}

/// Adds MCP servers until the sidecar is gone.
fn add_servers(socket: &Path, has_ended: &AtomicBool, round: usize) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    for number in 0..20 {
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
        let server = json!({"name": format!("s{round}-{number}"), "url": "http://127.0.0.1:9/mcp", "enabled": false});
        if let Some((201, response)) = post(socket, "/api/v1/servers", &server) {
            let id = response["server"]["id"].text();
            acknowledged.servers.push(id.to_owned());
        }
    }
    acknowledged
}

/// Returns all entries of a paginated list.
fn all(socket: &Path, path: &str, field: &str) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut after = String::new();
    loop {
        let page = socket.get(&format!("{path}?limit=1000{after}")).json();
        entries.extend(page[field].items().iter().cloned());
        let Some(next) = page["next"].as_str() else {
            return entries;
        };
        after = format!("&after={next}");
    }
}

/// Asserts that no two entries have equal arguments.
fn assert_distinct<'a>(entries: impl Iterator<Item = &'a Value>) {
    let mut seen = HashSet::new();
    for entry in entries {
        let arguments = entry["arguments"].to_string();
        assert!(seen.insert(arguments), "there twice: {entry}");
    }
}

/// Returns the entries by ID, and asserts that IDs are unique.
fn by_id(entries: Vec<Value>) -> HashMap<String, Value> {
    let count = entries.len();
    let entries: HashMap<_, _> = entries
        .into_iter()
        .map(|entry| (entry["id"].text().to_owned(), entry))
        .collect();
    assert_eq!(entries.len(), count, "something is there twice");
    entries
}

#[test]
fn f4_g3_acknowledged_calls_and_decisions_survive_every_kill_under_load() {
    let rounds: usize =
        std::env::var("PILLION_KILL_ROUNDS").map_or(12, |rounds| rounds.parse().unwrap());
    let seed: u64 = std::env::var("PILLION_KILL_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    eprintln!("PILLION_KILL_SEED={seed} PILLION_KILL_ROUNDS={rounds}");
    let mut random = StdRng::seed_from_u64(seed);
    let toml = "[executor]\ntimeout_ms = 20000\n[tools.roll_dice]\nrequire_approval = \"always\"\n[approvals]\nmax_pending = 100000\n";
    let mut daemon = Daemon::with_config(toml);
    let store = daemon.store_path();
    let mut acknowledged = Acknowledged::default();
    let mut tokens = Vec::new();
    for round in 0..rounds {
        let has_ended = AtomicBool::new(false);
        let socket = daemon.socket.clone();
        thread::scope(|scope| {
            let work = [
                scope.spawn(|| call(&socket, &has_ended, 2 * round * 1_000_000)),
                scope.spawn(|| call(&socket, &has_ended, (2 * round + 1) * 1_000_000)),
                scope.spawn(|| decide(&socket, &has_ended, round)),
                scope.spawn(|| add_servers(&socket, &has_ended, round)),
            ];
            if round % 4 == 0 {
                let name = format!("t{round}");
                let location = [("PILLION__STORE__LOCATION", store.to_str().unwrap())];
                success(&run(
                    &["tokens", "create", &name, "--scope", "read"],
                    &location,
                ));
                tokens.push(name);
            }
            thread::sleep(Duration::from_micros(random.random_range(2_000..250_000)));
            daemon.kill();
            has_ended.store(true, Ordering::Relaxed);
            for work in work {
                acknowledged.add(work.join().unwrap());
            }
        });
        daemon = daemon.again();
    }
    assert!(acknowledged.calls.len() > rounds && !acknowledged.approvals.is_empty());
    let calls = by_id(all(&daemon.socket, "/api/v1/tool-calls", "calls"));
    for (id, arguments) in &acknowledged.calls {
        let call = calls
            .get(id)
            .unwrap_or_else(|| panic!("the call {id} is lost"));
        assert_json!(call["status"], "success");
        assert_json!(call["arguments"], *arguments);
    }
    let of_the_calculator = || calls.values().filter(|it| it["toolName"] == "calculator");
    assert_distinct(of_the_calculator());
    let mut cut_off = 0;
    for call in of_the_calculator() {
        let status = call["status"].text();
        assert!(["success", "interrupted"].contains(&status), "{call}");
        cut_off += usize::from(status == "interrupted");
    }
    let approvals = by_id(all(&daemon.socket, "/api/v1/approvals", "approvals"));
    for (id, status) in &acknowledged.approvals {
        let approval = approvals
            .get(id)
            .unwrap_or_else(|| panic!("the approval {id} is lost"));
        assert_json!(approval["status"], *status);
    }
    assert_distinct(approvals.values());
    let servers = daemon.get("/api/v1/servers").json();
    let servers = by_id(servers["servers"].items().clone());
    let lost: Vec<_> = acknowledged
        .servers
        .iter()
        .filter(|id| !servers.contains_key(*id))
        .collect();
    assert!(lost.is_empty(), "servers are lost: {lost:?}");
    let location = [("PILLION__STORE__LOCATION", store.to_str().unwrap())];
    let list = stdout(&run(&["tokens", "list"], &location));
    for token in &tokens {
        let lines = list
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(token));
        assert_eq!(lines.count(), 1, "{token}: {list}");
    }
    eprintln!(
        "{rounds} kills: acknowledged and there once {} calls, {} approvals, {} servers, {} tokens; \
         {} calls recorded, {cut_off} of them interrupted",
        acknowledged.calls.len(),
        acknowledged.approvals.len(),
        acknowledged.servers.len(),
        tokens.len(),
        of_the_calculator().count(),
    );
}
