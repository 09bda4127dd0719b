//! Behavior when the system clock is set back or forward by hours, while the sidecar runs and
//! between restarts. libfaketime sets only the system clock of the process; the monotonic clock
//! is unchanged.

use pillion_wire::ToolOutcome;

use crate::prelude::*;

const CALCULATOR: &str = "/api/v1/tools/execute/calculator";

/// A clock that a test sets.
struct Clock {
    _directory: tempfile::TempDir,
    file: PathBuf,
}

impl Clock {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("offset");
        let clock = Self {
            _directory: directory,
            file,
        };
        clock.set("+0");
        clock
    }

    /// Sets the offset of the clock from the machine's time, such as `-5h` or `+3d`.
    fn set(&self, offset: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{offset}\n")).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    fn daemon(&self, toml: &str) -> Daemon {
        self.with(|variables| Daemon::with_variables(toml, variables))
    }

    /// Restarts a sidecar with this clock.
    fn again(&self, daemon: &Daemon) -> Daemon {
        self.with(|variables| daemon.again_with(variables))
    }

    fn with(&self, start: impl FnOnce(&[(&str, &str)]) -> Daemon) -> Daemon {
        let library = library();
        start(&[
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ])
    }
}

/// Returns the path of libfaketime in Debian and Ubuntu.
fn library() -> PathBuf {
    let directories = std::fs::read_dir("/usr/lib").unwrap();
    let found = directories
        .map(|directory| directory.unwrap().path())
        .map(|directory| directory.join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.exists());
    found.expect("libfaketime, which scripts/setup installs")
}

fn run(socket: &Path, headers: &str) -> http::Reply {
    let body = br#"{"expression": "6 * 7"}"#;
    socket.post_with(CALCULATOR, headers, body)
}

fn outcome(reply: &http::Reply) -> ToolOutcome {
    let ExecuteResponse::Executed(ran) = serde_json::from_slice(&reply.body).unwrap() else {
        panic!("{reply:?}")
    };
    ran.result
}

fn record(socket: &Path, reply: &http::Reply) -> Value {
    let outcome = outcome(reply);
    socket.record(&outcome.metadata["record_id"])
}

/// Returns a text member of a record.
fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key}: {record}"))
}

#[test]
fn f4_calls_have_the_time_of_the_clock_and_are_listed_once() {
    let clock = Clock::new();
    let daemon = clock.daemon("");
    let mut started = Vec::new();
    for offset in ["+0", "-5h", "+5h", "-20d", "+0"] {
        clock.set(offset);
        for _ in 0..2 {
            let reply = run(&daemon.socket, "");
            assert!(outcome(&reply).success);
            let record = record(&daemon.socket, &reply);
            let (begin, end) = (text(&record, "startedAt"), text(&record, "completedAt"));
            assert!(begin <= end, "{record}");
            assert!(record["durationMs"].as_f64().unwrap() >= 0.0);
            started.push(begin.to_owned());
        }
    }
    assert!(started[2] < started[0] && started[4] > started[0] && started[6] < started[2]);
    // The pages contain each call once, ordered by the clock's time.
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let target = format!("/api/v1/tool-calls?limit=3{after}");
        let page = daemon.get(&target).json();
        let calls = page["calls"].items().iter();
        listed.extend(calls.map(|call| text(call, "startedAt").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    started.sort();
    started.reverse();
    assert_eq!(listed, started);
    assert_lacks!(daemon.log(), "panicked");
}

#[test]
fn c2_c7_deadlines_and_limits_use_the_monotonic_clock() {
    let server = McpServer::echo();
    let clock = Clock::new();
    let daemon = clock.daemon(&format!(
        "[tools.calculator]\nrate_limit = {{ per_hour = 2 }}\n[tools.far_echo]\ntimeout_ms = 1500\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{}\"\n",
        server.url
    ));
    daemon.get("/api/v1/tools/");
    assert!(outcome(&run(&daemon.socket, "")).success);
    assert!(outcome(&run(&daemon.socket, "")).success);
    for offset in ["-5h", "+5h", "+0"] {
        clock.set(offset);
        let rejected = outcome(&run(&daemon.socket, ""));
        assert_eq!(rejected.error_code.as_deref(), Some("rate_limited"));
        let wait = rejected.metadata["retry_after"].as_u64().unwrap();
        assert!((3_000..=3_600).contains(&wait), "{offset}: {wait}");
    }
    server.set_mood(Mood::Asleep);
    for offset in ["-5h", "+5h"] {
        clock.set("+0");
        let socket = daemon.socket.clone();
        let begun = Instant::now();
        let seen = server.count("tools/call");
        let call = std::thread::spawn(move || socket.post("/api/v1/tools/execute/far_echo", "{}"));
        eventually("the call runs", || server.count("tools/call") > seen);
        clock.set(offset);
        let outcome = outcome(&call.join().unwrap());
        assert_eq!(outcome.error_code.as_deref(), Some("timeout"));
        assert!(begun.elapsed() >= Duration::from_millis(1400));
    }
}

#[test]
fn g3_approvals_expire_by_the_system_clock() {
    let clock = Clock::new();
    let config = "[tools.get_time]\nrequire_approval = \"always\"\n";
    let daemon = clock.daemon(config);
    let ask = || daemon.post("/api/v1/tools/execute/get_time", "{}");
    let first = outcome(&ask());
    assert_eq!(first.error_code.as_deref(), Some("approval_required"));
    let id = first.metadata["approval_id"].text().to_owned();
    let status = |id: &str| {
        let shown = daemon.get(&format!("/api/v1/approvals/{id}")).json();
        shown["approval"]["status"].text().to_owned()
    };
    // With the clock set back, the approval is listed.
    clock.set("-5h");
    assert_eq!(status(&id), "pending");
    assert_eq!(outcome(&ask()).metadata["approval_id"], json!(id));
    // With the clock set forward, the approval has expired, and a repeated call requests a new one.
    clock.set("+5h");
    assert_eq!(status(&id), "expired");
    let late = daemon.post(&format!("/api/v1/approvals/{id}/approve"), "{}");
    assert_eq!(late.status, 409);
    let second = outcome(&ask()).metadata["approval_id"].clone();
    assert_ne!(second, json!(id));
}

#[test]
fn f4_no_change_of_the_clock_runs_an_idempotency_key_twice() {
    let clock = Clock::new();
    let mut daemon = clock.daemon("");
    let key = |number: usize| format!("idempotency-key: k{number}\r\n");
    let mut responses = Vec::new();
    for (number, (offset, restart)) in [
        ("+0", false),
        ("+25h", false),
        ("+40d", true),
        ("-40d", false),
        ("-40d", true),
        ("+400d", true),
        ("+0", true),
    ]
    .into_iter()
    .enumerate()
    {
        clock.set(offset);
        if restart {
            daemon.kill();
            daemon = clock.again(&daemon);
        }
        responses.push(run(&daemon.socket, &key(number)).json());
        for (number, response) in responses.iter().enumerate() {
            let repeated = run(&daemon.socket, &key(number)).json();
            assert_eq!(&repeated, response, "key {number} at {offset}");
        }
    }
}

#[test]
fn c7_after_a_restart_calls_with_future_times_do_not_fill_a_limit() {
    let clock = Clock::new();
    clock.set("+5h");
    let mut daemon = clock.daemon("[tools.calculator]\nrate_limit = { per_hour = 1 }\n");
    assert!(outcome(&run(&daemon.socket, "")).success);
    let rejected = outcome(&run(&daemon.socket, ""));
    assert_eq!(rejected.error_code.as_deref(), Some("rate_limited"));
    daemon.kill();
    // This sidecar uses the machine's clock.
    let mut daemon = daemon.again();
    assert!(outcome(&run(&daemon.socket, "")).success);
    let daemon = daemon.restart();
    let rejected = outcome(&run(&daemon.socket, ""));
    assert_eq!(rejected.error_code.as_deref(), Some("rate_limited"));
}

#[test]
fn f4_a_start_with_a_wrong_clock_removes_no_call() {
    let clock = Clock::new();
    let mut daemon = clock.daemon("[call_log]\nmax_age_days = 30\n");
    let mut recorded = 0;
    for (offset, is_new) in [
        ("+0", false),
        ("+40d", true),
        ("-40d", true),
        ("+400d", true),
        ("+0", false),
        ("-1d", true),
        ("+0", false),
    ] {
        clock.set(offset);
        daemon.kill();
        daemon = clock.again(&daemon);
        eventually("the clock is read", || {
            !is_new || daemon.log().contains("The system clock was changed")
        });
        for _ in 0..3 {
            assert!(outcome(&run(&daemon.socket, "")).success);
            recorded += 1;
        }
        // Old calls are removed right after the start.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!daemon.log().contains("Removed old calls"), "{offset}");
        let listed = daemon.recorded("?limit=100");
        assert_eq!(listed.len(), recorded, "{offset}");
    }
}
