//! Proxies from environment variables.

use std::net::TcpListener;

use crate::prelude::*;

/// Starts a proxy that accepts connections and closes them. Returns its URL and the number of
/// connections.
fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (url, connections)
}

#[test]
fn l2_requests_to_this_machine_bypass_proxies() {
    let server = McpServer::echo();
    let by_name = server.url.replace("127.0.0.1", "localhost");
    assert_ne!(by_name, server.url);
    let (proxy, connections) = proxy();
    // The header is a credential that any proxy could read over plain http.
    let toml = format!(
        "[[mcp_servers]]\nlabel = \"name\"\nurl = \"{by_name}\"\n\
         authentication = {{ type = \"bearer\", token = \"hush\" }}\n\
         [[mcp_servers]]\nlabel = \"address\"\nurl = \"{}\"\ntransport = \"streamable_http\"\n\
         [[http_tools]]\nname = \"get_nothing\"\ndescription = \"A test\"\nmethod = \"GET\"\nurl = \"{by_name}\"\n\
         success = [\"2XX\", \"4XX\", \"5XX\"]\n",
        server.url
    );
    let variables = [
        ("HTTP_PROXY", &*proxy),
        ("http_proxy", &proxy),
        ("ALL_PROXY", &proxy),
    ];
    let daemon = Daemon::with_variables(&toml, &variables);
    for tool in ["name_echo", "address_echo", "get_nothing"] {
        let response = daemon.execute(tool, &json!({}));
        assert_eq!(response["result"]["success"], true, "{tool}: {response}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);

    // A host that is not this machine is reached through the proxy, which resolves the name.
    let toml = "[[mcp_servers]]\nlabel = \"far\"\nurl = \"http://mcp.example/mcp\"\n\
                egress = { allow_http = [\"mcp.example\"] }\n";
    let daemon = Daemon::with_variables(toml, &variables);
    daemon.post("/api/v1/tools/execute/far_echo", "{}");
    assert_ne!(connections.load(Ordering::SeqCst), 0);
}
