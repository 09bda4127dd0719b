use crate::prelude::*;
use crate::workers::Worker;

fn servers(servers: &[(&str, &McpServer)]) -> String {
    let entry = |(label, server): &(&str, &McpServer)| detected_entry(label, &server.url, "");
    servers.iter().map(entry).collect()
}

fn reloads(daemon: &Daemon) -> usize {
    daemon.count_logged("Reloaded the configuration")
        + daemon.count_logged("Rejected the new configuration")
}

/// Calls `far_echo` in a loop, where every call has to succeed, during ten changes. Waits for a call
/// after each change.
pub fn calls_succeed_during(socket: &Path, change: impl Fn(usize)) {
    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let client = Client::new(socket);
            while !stop.load(Ordering::Relaxed) {
                let response = client.execute("far_echo", &json!({}), &Caller::default());
                assert!(response.unwrap().is_success());
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        for number in 1..=10 {
            let before = calls.load(Ordering::Relaxed);
            change(number);
            eventually("calls go on", || {
                caller.is_finished() || calls.load(Ordering::Relaxed) > before
            });
        }
        stop.store(true, Ordering::Relaxed);
        caller.join().unwrap();
    });
}

/// Writes the file, and waits until the daemon has noticed and applied the change.
pub fn rewrite(daemon: &Daemon, toml: &str) {
    let before = reloads(daemon);
    std::fs::write(daemon.config_path(), toml).unwrap();
    eventually("the file is applied", || reloads(daemon) > before);
}

/// Writes the file, sends SIGHUP, and waits until the daemon has read the file.
pub fn reload(daemon: &Daemon, toml: &str) {
    let before = reloads(daemon);
    // The last line is new each time: otherwise, a file from which lines were removed would look
    // like an interrupted write.
    let toml = format!("{toml}\n# Change {before}.\n");
    std::fs::write(daemon.config_path(), toml).unwrap();
    daemon.signal(Signal::SIGHUP);
    eventually("the file is looked at", || reloads(daemon) > before);
}

#[test]
fn a_reload_changes_servers_and_limits_and_keeps_unchanged_sessions() {
    let (unchanged, gone, new) = (McpServer::echo(), McpServer::echo(), McpServer::echo());
    let daemon = Daemon::with_config(&servers(&[("kept", &unchanged), ("gone", &gone)]));
    let client = daemon.client();
    assert!(daemon.offers("gone_echo"));
    let hellos = unchanged.count("initialize") + unchanged.count("server/discover");
    let limit = "[tools.calculator]\nrate_limit = { per_minute = 1 }\n";
    reload(
        &daemon,
        &(limit.to_owned() + &servers(&[("kept", &unchanged), ("new", &new)])),
    );
    let offered = ["kept_echo", "new_echo", "gone_echo"].map(|tool| daemon.offers(tool));
    assert_eq!(offered, [true, true, false]);
    client
        .execute("kept_echo", &json!({}), &Caller::default())
        .unwrap();
    assert_eq!(
        unchanged.count("initialize") + unchanged.count("server/discover"),
        hellos
    );

    let call = || {
        let arguments = json!({"expression": "1"});
        client
            .execute("calculator", &arguments, &Caller::default())
            .unwrap()
            .is_success()
    };
    assert!(call());
    assert!(!call(), "the new limit holds");
    // The counts of the limits are kept.
    reload(
        &daemon,
        &(limit.to_owned() + "[executor]\ntimeout_ms = 20000"),
    );
    assert!(!call());
}

#[test]
fn a_bad_file_is_rejected_with_its_line_and_the_old_configuration_stays() {
    let server = McpServer::echo();
    let daemon = Daemon::with_config(&servers(&[("far", &server)]));
    let client = daemon.client();
    assert!(daemon.offers("far_echo"));
    reload(&daemon, "\n[executor]\ntimeout_ms = \"soon\"\n");
    assert!(daemon.offers("far_echo"));
    let response = daemon.get("/readyz").json();
    assert_eq!(response["status"], "ready");
    let error = response["last_reload"]["error"].text();
    assert_contains!(error, "pillion.toml:3: executor.timeout_ms: ");
    let status = client.fetch(route::STATUS).unwrap();
    assert!(!status.last_reload.unwrap().success);
    reload(&daemon, &servers(&[("far", &server)]));
    let response = daemon.get("/readyz").json();
    assert_eq!(response["last_reload"]["success"], true);
}

#[test]
fn d2_the_default_time_zone_can_be_set_and_changed() {
    let zone = |zone: &str| format!("[tools.get_time]\ntimezone = \"{zone}\"\n");
    let daemon = Daemon::with_config(&zone("Asia/Tokyo"));
    let reported = |body: &str| {
        let response = daemon.post("/api/v1/tools/execute/get_time", body).json();
        response["result"]["metadata"]["timezone"].clone()
    };
    assert_eq!(reported("{}"), "Asia/Tokyo");
    assert_eq!(reported(r#"{"timezone": "UTC"}"#), "UTC");
    reload(&daemon, &zone("Europe/Berlin"));
    assert_eq!(reported("{}"), "Europe/Berlin");
    reload(&daemon, &zone("Mars/Olympus"));
    assert_eq!(reported("{}"), "Europe/Berlin");
    reload(&daemon, "# No settings.\n");
    assert_eq!(reported("{}"), "UTC");
    assert_contains!(daemon.log(), "Unknown timezone: Mars/Olympus");
}

#[test]
fn settings_that_need_a_restart_are_reported() {
    let daemon = Daemon::start();
    reload(&daemon, "[log]\nfilter = \"debug\"\n");
    assert_lacks!(daemon.log(), "restart the sidecar to apply");
    let changed = "[chat]\nretention_ms = 1000\n[store]\ndurability = \"power-loss\"\n\
                   [results]\ndirectory = \"/nowhere\"\n";
    reload(&daemon, changed);
    let log = daemon.log();
    for key in ["chat.retention_ms", "store", "results.directory"] {
        let line = format!("{key} has changed: restart the sidecar to apply the change");
        assert!(log.contains(&line), "{key}: {log}");
    }
}

#[test]
fn a_changed_file_is_loaded_without_a_signal() {
    let server = McpServer::echo();
    let daemon = Daemon::with_config("");
    assert!(!daemon.offers("far_echo"));
    std::fs::write(daemon.config_path(), servers(&[("far", &server)])).unwrap();
    eventually("the server is there", || daemon.offers("far_echo"));
}

#[test]
fn b1_a_name_moves_between_kinds_of_tools_while_it_is_called() {
    const NAME: &str = "get_weather";
    let daemon = Daemon::with_config("");
    let document = daemon.directory().join("weather.yaml");
    let operations = format!(
        "openapi: 3.1.0\nservers: [{{url: 'http://127.0.0.1:1'}}]\n\
         paths: {{/now: {{get: {{operationId: {NAME}, description: an operation}}}}}}\n"
    );
    std::fs::write(&document, operations).unwrap();
    let none = "[tools.get_weather]\nprovider = \"none\"\n";
    let composed = format!(
        "{none}[[composed_tools]]\nname = \"{NAME}\"\ndescription = \"composed\"\n\
         steps = [{{ name = \"a\", tool = \"calculator\", arguments = {{ expression = \"6 * 7\" }} }}]\n"
    );
    let http = format!(
        "{none}[[http_tools]]\nname = \"{NAME}\"\ndescription = \"an endpoint\"\n\
         url = \"http://127.0.0.1:1/now\"\n"
    );
    let openapi = format!(
        "{none}[[openapi]]\nname = \"w\"\nprefix = \"\"\noperations = [\"{NAME}\"]\n\
         document = \"{}\"\n",
        document.display()
    );
    let built_in = "[tools.get_weather]\nprovider = \"mock\"\n".to_owned();
    let kinds = [
        (&built_in, "Get the current weather of a location, invented"),
        (&composed, "composed"),
        (&http, "an endpoint"),
        (&openapi, "an operation"),
    ];
    let client = daemon.client();
    reload(&daemon, &built_in);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let path = format!("/api/v1/tools/{NAME}");
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(daemon.get(&path).status, 200);
            }
        });
        let orders = [1, 2, 3, 0, 2, 1, 0, 3, 2, 0, 1, 3, 1];
        for (toml, description) in orders.map(|kind| kinds[kind]) {
            reload(&daemon, toml);
            let list = client.fetch(route::LIST_TOOLS).unwrap().tools;
            let tool = list.iter().find(|tool| tool.name == NAME);
            let listed = &tool.unwrap_or_else(|| panic!("{description}")).description;
            assert_starts_with!(listed, description);
            assert!(!caller.is_finished());
        }
        is_over.store(true, Ordering::Relaxed);
        caller.join().unwrap();
    });
}

#[test]
fn b1_a_configured_tool_waits_until_a_worker_releases_its_name() {
    let daemon = Daemon::with_config("[workers]\ngrace_period_ms = 1\n");
    let client = daemon.client();
    let tools = json!([{"name": "pick", "description": "a worker's", "inputSchema": {}}]);
    let worker = Worker::connect(&daemon.socket, &tools);
    let declared = "[workers]\ngrace_period_ms = 1\n\
        [[composed_tools]]\nname = \"pick\"\ndescription = \"composed\"\n\
        steps = [{ name = \"a\", tool = \"calculator\", arguments = { expression = \"6 * 7\" } }]\n";
    let listed = || {
        let list = client.fetch(route::LIST_TOOLS).unwrap().tools;
        let tool = list.into_iter().find(|tool| tool.name == "pick");
        tool.map(|tool| tool.description)
    };
    reload(&daemon, declared);
    assert_eq!(listed().as_deref(), Some("a worker's"));
    drop(worker);
    eventually("the composed tool is there", || {
        listed().as_deref() == Some("composed")
    });
}

#[test]
fn a_rejected_document_is_tried_again_when_it_changes() {
    let good = "openapi: 3.1.0\nservers: [{url: 'http://127.0.0.1:1'}]\n\
        paths: {/a: {get: {operationId: a}}}\n";
    let daemon = Daemon::with_config("");
    let document = daemon.directory().join("api.yaml");
    std::fs::write(&document, "openapi: [").unwrap();
    let toml = format!(
        "[[openapi]]\nname = \"far\"\noperations = [\"*\"]\ndocument = \"{}\"\n",
        document.display()
    );
    reload(&daemon, &toml);
    let is_there = || daemon.offers("far_a");
    assert!(!is_there());
    std::fs::write(&document, good).unwrap();
    eventually("the document is read again", is_there);
    // The file is first valid, then invalid, and then valid again.
    let before = reloads(&daemon);
    std::fs::write(&document, "openapi: [").unwrap();
    eventually("the document is refused", || reloads(&daemon) > before);
    assert!(is_there());
    std::fs::write(&document, good.replace("operationId: a", "operationId: b")).unwrap();
    eventually("the document is read again", || daemon.offers("far_b"));
}

#[test]
fn running_calls_finish_with_their_original_configuration() {
    let server = McpServer::echo();
    let daemon = Daemon::with_config(&servers(&[("far", &server)]));
    calls_succeed_during(&daemon.socket, |limit| {
        let limit = format!("[executor]\nmax_concurrent = {limit}\n");
        reload(&daemon, &(limit + &servers(&[("far", &server)])));
    });
}

#[test]
fn h2_a_changed_models_file_is_read_again() {
    let provider = "[[providers]]\nname = \"p\"\nbase_url = \"http://127.0.0.1:9\"\n";
    let model = |id: &str| format!("[[models]]\nid = \"{id}\"\nprovider = \"p\"\n");
    let daemon = Daemon::with_config(provider);
    let main = daemon.config_path();
    let models = main.with_file_name("models.toml");
    std::fs::write(&models, model("one")).unwrap();
    reload(
        &daemon,
        &format!("models_file = \"models.toml\"\n{provider}"),
    );
    let list = || daemon.get("/api/v1/models/").json();
    assert_eq!(list()["models"][0]["id"], "one");
    std::fs::write(&models, model("two") + &model("three")).unwrap();
    eventually("the file of the models is read", || {
        list()["models"][0]["id"] == "two"
    });

    let check = || {
        let config = main.to_str().unwrap();
        run(&["check", "--config", config], &[])
    };
    let output = check();
    assert_contains!(stdout(&output), "providers: 1, models: 2");
    std::fs::write(&models, "[[models]]\nid = \"x\"\nprovider = \"q\"\n").unwrap();
    let output = check();
    success(&output);
    let warning = "warning: models[0].provider: there is no [[providers]] entry named 'q'";
    assert!(stderr(&output).contains(warning), "{output:?}");
    std::fs::write(&models, "[[models]]\nid = 7\n").unwrap();
    let error = failure(&check(), 2);
    assert_contains!(error, "models.toml:2: models[0].id: ");
    assert_eq!(list()["models"][0]["id"], "two");
}
