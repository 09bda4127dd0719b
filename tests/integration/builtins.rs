//! The built-in tools that use network services, as the sidecar offers them.

use crate::prelude::*;

const KEY: &str = "k3y-0f-th3-t3st";

fn names(daemon: &Daemon) -> Vec<String> {
    let mut names = daemon.tool_names();
    // The memory tools are excluded, because they are always offered.
    names.retain(|name| !["search_memory", "remember", "forget"].contains(&name.as_str()));
    names
}

fn call(daemon: &Daemon, tool: &str, arguments: &Value) -> Value {
    daemon.execute(tool, arguments)
}

/// Starts a service that answers every request with this body.
async fn service(body: Value) -> FaultServer {
    let body = body.to_string();
    FaultServer::start(move |_| vec![Fault::json(&body)]).await
}

/// Starts a search service that finds one page.
async fn brave() -> FaultServer {
    let page =
        json!({"title": "Rust", "url": "https://www.rust-lang.org/", "description": "A language"});
    service(json!({"web": {"results": [page]}})).await
}

fn base(server: &FaultServer) -> String {
    server.url.replace("/sse", "")
}

#[test]
fn tools_of_services_are_not_offered_without_a_provider_and_name_the_setting() {
    let daemon = Daemon::start();
    assert_eq!(names(&daemon), ["calculator", "get_time", "roll_dice"]);
    let status = daemon.get("/api/v1/tools/schemas").json();
    assert_lacks!(status.to_string(), "web_search");
    let listed = crate::routes::mcp::ask(&daemon.socket, "tools/list", json!({}));
    for name in ["get_weather", "web_search"] {
        assert!(!listed.to_string().contains(name), "{listed}");
    }
    for name in ["get_weather", "weather_tool"] {
        let response = call(&daemon, name, &json!({"location": "Oslo"}));
        assert_json!(response["result"]["error_code"], "unavailable");
        assert_contains!(response["result"]["error"].text(), "[tools.get_weather]");
    }
    for name in ["web_search", "search_tool"] {
        let shown = daemon.get(&format!("/api/v1/tools/{name}"));
        assert_eq!(shown.status, 404, "{shown:?}");
        let response = call(&daemon, name, &json!({"query": "rust"}));
        assert_json!(response["result"]["error_code"], "unavailable");
        assert_contains!(response["result"]["error"].text(), "GOOGLE_SEARCH_API_KEY");
    }
    failure(
        &daemon.run(&["tools", "call", "web_search", "{\"query\": \"rust\"}"]),
        1,
    );
}

#[test]
fn h3_mocks_can_be_called_by_their_aliases() {
    let toml = "[tools.get_weather]\nprovider = \"mock\"\nunits = \"fahrenheit\"\n\
                [tools.web_search]\nprovider = \"mock\"\n";
    let daemon = Daemon::with_config(toml);
    assert!(names(&daemon).ends_with(&["get_weather".into(), "web_search".into()]));
    for name in ["get_weather", "weather_tool", "weather"] {
        let response = call(&daemon, name, &json!({"location": "Tokyo"}));
        let result = &response["result"];
        assert_eq!(result["data"]["temperature"], 77.0, "{response}");
        assert_eq!(result["metadata"]["source"], "mock");
    }
    for name in ["web_search", "search_tool"] {
        let response = call(&daemon, name, &json!({"query": "q", "num_results": 99}));
        let results = response["result"]["data"]["results"].as_array();
        assert_eq!(results.map(Vec::len), Some(10), "{response}");
    }
    let output = daemon.run(&["tools", "call", "get_weather", "{\"location\": \"London\"}"]);
    let expected = "London: 59.0 °F, Partly Cloudy, humidity 65 %, wind 12 km/h\n";
    assert_eq!(stdout(&output), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn n1_results_are_cached_for_all_users_and_only_the_service_receives_the_key() {
    let server = brave().await;
    let toml = format!(
        "[tools.web_search]\nprovider = \"brave\"\nbase_url = \"{}\"\napi_key_env = \"MY_KEY\"\n\
         [log]\nfilter = \"trace\"\n",
        base(&server)
    );
    let daemon = Daemon::with_variables(&toml, &[("MY_KEY", KEY)]);
    let client = daemon.client();
    for (user, request_count) in [("alice", 1), ("bob", 1)] {
        let caller = Caller::default().user(user);
        let outcome = client.run_tool("web_search", &json!({"query": "rust"}), &caller);
        assert!(outcome.success, "{outcome:?}");
        assert_eq!(server.requests.all().len(), request_count);
    }
    assert_eq!(server.requests.all()[0].header("x-subscription-token"), KEY);
    for path in [
        "/api/v1/tools/",
        "/api/v1/tools/web_search",
        "/api/v1/status",
        "/api/v1/tool-calls",
        "/metrics",
    ] {
        assert!(!daemon.get(path).text().contains(KEY), "{path}");
    }
    assert!(!daemon.log().contains(KEY));
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_another_provider_takes_over_while_the_sidecar_runs() {
    let forecast = json!({"current": {"temperature_2m": -0.04, "weather_code": 0}});
    let server = service(forecast).await;
    let daemon = Daemon::with_config("[tools.get_weather]\nprovider = \"mock\"\n");
    let at = json!({"location": "52.52,13.41"});
    let response = call(&daemon, "get_weather", &at);
    assert_eq!(response["result"]["metadata"]["source"], "mock");
    // Cached results of one provider are not returned for another.
    let real = format!(
        "[tools.get_weather]\nprovider = \"open-meteo\"\nbase_url = \"{}\"\n",
        base(&server)
    );
    reload(&daemon, &real);
    let response = call(&daemon, "get_weather", &at);
    let result = &response["result"];
    assert_eq!(result["metadata"]["source"], "open-meteo", "{response}");
    assert_eq!(
        result["data"],
        json!({"location": "52.52,13.41", "temperature": 0, "units": "celsius",
            "conditions": "Clear sky", "humidity": null, "wind_speed": null,
            "wind_speed_units": "km/h"})
    );
    reload(&daemon, "[tools.get_weather]\nprovider = \"none\"\n");
    assert_eq!(names(&daemon), ["calculator", "get_time", "roll_dice"]);
    let response = call(&daemon, "get_weather", &at);
    assert_eq!(response["error_code"], "not_found");
    reload(&daemon, "[tools.web_search]\nprovider = \"mock\"\n");
    assert!(names(&daemon).contains(&"web_search".to_owned()));
}

#[test]
fn d7_a_provider_without_its_key_is_an_error_at_start() {
    let directory = std::env::temp_dir();
    let socket = directory.join("never.sock");
    let output = run(
        &["serve", "--socket", socket.to_str().unwrap()],
        &[("PILLION__TOOLS__WEB_SEARCH__PROVIDER", "brave")],
    );
    assert!(!output.status.success());
    let error = stderr(&output);
    let expected = "set the environment variable BRAVE_SEARCH_API_KEY or api_key_env";
    assert_contains!(error, expected);
}

#[test]
fn l1_a_key_for_a_tool_without_keyed_provider_is_rejected_with_a_list() {
    let daemon = Daemon::start();
    for (tool, expected) in [
        (
            "web_search",
            "The tool web_search has no provider that needs an API key: set tools.web_search.provider (google, brave)",
        ),
        (
            "get_time",
            "There is no built-in tool 'get_time' whose service needs an API key",
        ),
    ] {
        let path = format!("/api/v1/tool-keys/{tool}");
        let response = daemon.send("PUT", &path, "", b"{\"key\": \"x\"}");
        assert_eq!(response.expect(404)["error"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l1_a_key_in_the_vault_is_used_at_once_and_only_for_its_service() {
    let server = brave().await;
    let config = |provider: &str| {
        format!(
            "[vault]\nkey_env = \"VAULT\"\n[log]\nfilter = \"trace\"\n\
             [tools.web_search]\nprovider = \"{provider}\"\ncx = \"c\"\nbase_url = \"{}\"\n\
             cache_ttl_ms = 0\n",
            base(&server)
        )
    };
    let vault = ("VAULT", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=");
    let daemon = Daemon::with_variables(&config("brave"), &[vault]);
    let query = json!({"query": "rust"});
    let without = |daemon: &Daemon| {
        let response = call(daemon, "web_search", &query);
        assert_json!(response["result"]["error_code"], "unavailable");
        let error = response["result"]["error"].text().to_owned();
        assert_contains!(error, "pillion tools set-key web_search");
    };
    without(&daemon);
    let socket = daemon.socket.to_str().unwrap();
    let keys = || stdout(&daemon.run(&["tools", "keys"]));
    assert_contains!(keys(), "web_search  brave    none");

    let mut set = pillion(&["tools", "set-key", "web_search", "--socket", socket]);
    success(&run_with_input(&mut set, format!("{KEY}\n")));
    let response = call(&daemon, "web_search", &query);
    assert_json!(response["result"]["success"], true);
    assert_eq!(server.requests.all()[0].header("x-subscription-token"), KEY);
    assert_contains!(keys(), "web_search  brave    vault");

    // The error for a provider without keys differs from that for an unknown tool.
    let set_key = |tool: &str| stderr(&daemon.run(&["tools", "set-key", tool]));
    assert_contains!(set_key("nope"), "no built-in tool 'nope'");
    let expected = "set tools.get_weather.provider (openweathermap)";
    assert_contains!(set_key("get_weather"), expected);
    // Other services do not receive the key.
    reload(&daemon, &config("google"));
    without(&daemon);
    assert_eq!(server.requests.all().len(), 1);
    reload(&daemon, &config("brave"));
    success(&daemon.run(&["tools", "remove-key", "web_search"]));
    without(&daemon);
    failure(&daemon.run(&["tools", "remove-key", "get_time"]), 1);
    assert!(!daemon.log().contains(KEY));
    let store = std::fs::read(daemon.store_path()).unwrap();
    assert_lacks!(String::from_utf8_lossy(&store), KEY);
}
