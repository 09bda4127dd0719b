use pillion_testkit::Reply;

use super::*;

/// Starts a server with a resource, whose tools change on request.
fn server() -> (FakeMcp, Arc<AtomicBool>) {
    let changed = Arc::new(AtomicBool::new(false));
    let has_changed = Arc::clone(&changed);
    let resources = json!({"resources": [{"uri": "a://b"}]});
    let server = FakeMcp::builder(Dialect::StreamableSse)
        .with_get_stream()
        .on("tools/list", move |_| {
            let is_new = has_changed.load(Ordering::SeqCst);
            let name = if is_new { "new" } else { "old" };
            Reply::result(&json!({"tools": [{"name": name, "inputSchema": {"type": "object"}}]}))
        })
        .on("resources/list", fixed(resources))
        .on("resources/subscribe", fixed(json!({})))
        .on("resources/unsubscribe", fixed(json!({})))
        .start();
    (server, changed)
}

fn sidecar(server: &FakeMcp) -> Sidecar {
    Sidecar::with_config(&server_entry("far", &server.url, ""))
}

fn push(server: &FakeMcp, notice: &Value) {
    server.push(format!("data: {notice}\n\n"));
}

fn tools(sidecar: &Sidecar) -> String {
    ask(&sidecar.socket, "tools/list", json!({})).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_upstream_server_is_announced_and_the_list_is_new() {
    let (server, changed) = server();
    let sidecar = sidecar(&server);
    assert_contains!(tools(&sidecar), "\"old\"");
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    let notifications = json!({"notifications": {"toolsListChanged": true}});
    let mut received = Stream::subscribe(&sidecar.socket, notifications);
    let first = received.next().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"]["toolsListChanged"], true);
    eventually("the sidecar listens", || server.open_streams() > 0);
    // The stream may be open before the subscription exists.
    changed.store(true, Ordering::SeqCst);
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let prompts = json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"});
    push(&server, &prompts);
    push(&server, &notice);
    assert_eq!(pushed.next().unwrap()["method"], prompts["method"]);
    assert_eq!(pushed.next().unwrap()["method"], notice["method"]);
    // The other client subscribed only to tools.
    let reported = received.next().unwrap();
    assert_eq!(reported["method"], notice["method"]);
    let meta = &reported["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], 7);
    assert_contains!(tools(&sidecar), "\"new\"");
    drop(sidecar);
    let last = received.next().unwrap();
    assert_json!(last["id"], 7);
    assert_json!(last["result"]["resultType"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_added_later_is_announced() {
    let (server, changed) = server();
    let daemon = Daemon::start();
    let session = Session::open(&daemon.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    let tools = || ask(&daemon.socket, "tools/list", json!({})).to_string();
    let notice = "notifications/tools/list_changed";
    let new = json!({"name": "far", "url": server.url, "transport": "streamable_http"});
    let added = daemon.post("/api/v1/servers", new.to_string());
    assert_eq!(added.status, 201, "{added:?}");
    assert_eq!(pushed.next().unwrap()["method"], notice);
    // The next request lists the server's tools again.
    assert_contains!(tools(), "\"old\"");
    eventually("the sidecar listens", || server.open_streams() > 0);
    changed.store(true, Ordering::SeqCst);
    push(&server, &json!({"jsonrpc": "2.0", "method": notice}));
    assert_eq!(pushed.next().unwrap()["method"], notice);
    assert_contains!(tools(), "\"new\"");
    // After its removal, no listener remains at the server.
    let removed = daemon.send("DELETE", "/api/v1/servers/far", "", b"");
    assert_eq!(removed.status, 200);
    assert_eq!(pushed.next().unwrap()["method"], notice);
    eventually("the sidecar does not listen", || server.open_streams() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_subscription_goes_to_the_server_of_the_resource() {
    let (server, _) = server();
    let sidecar = sidecar(&server);
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    let uri = json!({"uri": "a://b"});
    let subscribed = session.ask("resources/subscribe", uri.clone());
    assert_eq!(subscribed["result"], json!({}));
    assert_eq!(server.requests.count("resources/subscribe"), 1);
    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "a://b", "own": 1}});
    push(&server, &updated);
    let reported = pushed.next().unwrap();
    assert_eq!(reported["method"], updated["method"]);
    assert_eq!(reported["params"], updated["params"]);
    let unsubscribed = session.ask("resources/unsubscribe", uri);
    assert_eq!(unsubscribed["result"], json!({}));
    let is_received = || server.requests.count("resources/unsubscribe") == 1;
    eventually("the server receives the subscription", is_received);
    let unknown = session.ask("resources/subscribe", json!({"uri": "no://thing"}));
    assert_json!(unknown["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_list_changes_of_a_server_delay_no_other() {
    let is_silent = Arc::new(AtomicBool::new(false));
    let says_nothing = Arc::clone(&is_silent);
    let server = FakeMcp::builder(Dialect::StreamableSse)
        .with_get_stream()
        .on("tools/list", move |_| {
            let list = json!({"tools": [{"name": "old", "inputSchema": {"type": "object"}}]});
            let is_slow = says_nothing.load(Ordering::SeqCst);
            let seconds = if is_slow { 60 } else { 0 };
            Reply::result(&list).after(Duration::from_secs(seconds))
        })
        .start();
    let url = &server.url;
    let sidecar = Sidecar::with_config(&format!(
        "[mcp]\ndiscovery_timeout_ms = 2000\nretry_after_ms = 300000\n\
         [[mcp_servers]]\nlabel = \"far\"\nurl = \"{url}\"\ntransport = \"streamable_http\"\n"
    ));
    assert_contains!(tools(&sidecar), "\"old\"");
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    eventually("the sidecar listens", || server.open_streams() > 0);
    is_silent.store(true, Ordering::SeqCst);
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    push(&server, &notice);
    assert_eq!(pushed.next().unwrap()["method"], notice["method"]);
    let list_requests = || server.requests.count("tools/list");
    let before = list_requests();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| assert!(tools(&sidecar).contains("\"old\"")));
        }
        while began.elapsed() < Duration::from_secs(3) {
            push(&server, &notice);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    // Sequential attempts would have taken 20 seconds.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    // The server is backed off, although it announces changes.
    assert_eq!(list_requests(), before + 1);
    assert_contains!(tools(&sidecar), "\"old\"");
    assert_eq!(list_requests(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_changes_is_announced_a_few_times() {
    let (server, _) = server();
    let sidecar = sidecar(&server);
    let session = Session::open(&sidecar.socket, "2025-11-25", json!({}));
    let mut pushed = session.listen();
    eventually("the sidecar listens", || server.open_streams() > 0);
    let tools = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let prompts = json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"});
    let many = format!("data: {tools}\n\n").repeat(200) + &format!("data: {prompts}\n\n");
    server.push(many);
    // The first change is announced at once; later changes are announced together.
    let reported = [(); 3].map(|()| pushed.next().unwrap()["method"].clone());
    let expected = [&tools, &prompts, &tools].map(|notice| notice["method"].clone());
    assert_eq!(reported, expected);
    drop(sidecar);
    assert_eq!(pushed.next(), None);
}
