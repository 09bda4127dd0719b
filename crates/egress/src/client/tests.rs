use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{AddressClass, HostName};
use super::*;

/// Returns a lookup that finds these addresses for every name, and the counter of its lookups.
fn names(addresses: &[&str]) -> (Lookup, Arc<AtomicUsize>) {
    let parsed = addresses.iter().map(|text| text.parse().unwrap());
    let addresses: Vec<IpAddr> = parsed.collect();
    let lookups = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&lookups);
    let lookup: Lookup = Arc::new(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        let addresses = addresses.clone();
        Box::pin(async move { Ok(addresses) })
    });
    (lookup, lookups)
}

/// Starts a server on 127.0.0.1 that sends one response. Returns the server's port.
fn server(response: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let _ = peer.read(&mut [0; 4096]);
        peer.write_all(response.as_bytes()).unwrap();
    });
    port
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

fn policy(value: serde_json::Value) -> EgressPolicy {
    serde_json::from_value(value).unwrap()
}

async fn get(policy: &EgressPolicy, lookup: Lookup, url: &str) -> Result<u16, reqwest::Error> {
    let settings = EgressClientSettings {
        timeout: Some(Duration::from_secs(20)),
        ..EgressClientSettings::for_server(Trust::NoCertificates)
    };
    let client = EgressClient::with_lookup(policy, settings, lookup).unwrap();
    let request = client.request(Method::GET, &url.parse().unwrap(), HeaderMap::new());
    let response = request.unwrap().send().await?;
    Ok(response.status().as_u16())
}

#[tokio::test]
async fn a_name_with_only_denied_addresses_is_not_connected_to() {
    let policy =
        policy(serde_json::json!({"allow_http": ["mcp.internal"], "allow_loopback": false}));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for (addresses, class) in [
        (["169.254.169.254", "fe80::1"], AddressClass::LinkLocal),
        (["fd00:ec2::254", "127.0.0.1"], AddressClass::Metadata),
        (["::ffff:127.0.0.1", "0.0.0.0"], AddressClass::Loopback),
        (["0.0.0.0", "127.0.0.1"], AddressClass::Unspecified),
        (["64:ff9b::a9fe:a9fe", "::"], AddressClass::LinkLocal),
    ] {
        let (lookup, _) = names(&addresses);
        let url = format!("http://mcp.internal:{port}/?token=hush");
        let error = get(&policy, lookup, &url).await.unwrap_err();
        let cause = EgressError::cause_of(&error).unwrap();
        let expected = EgressError::Resolved {
            host: HostName::from_name("mcp.internal"),
            address: addresses[0].parse().unwrap(),
            class,
        };
        assert_eq!(*cause, expected);
        assert!(!format!("{cause} {cause:?}").contains("hush"));
    }
}

#[tokio::test]
async fn only_allowed_addresses_of_a_name_are_connected_to() {
    let policy = policy(serde_json::json!({"allow_http": ["mcp.internal"]}));
    let port = server(OK);
    let (lookup, lookups) = names(&["169.254.169.254", "fe80::1", "127.0.0.1", "0.0.0.0"]);
    let url = format!("http://mcp.internal:{port}/");
    assert_eq!(get(&policy, lookup, &url).await.unwrap(), 200);
    // The connection uses the addresses that were checked.
    assert_eq!(lookups.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn localhost_is_never_resolved_by_dns() {
    let port = server(OK);
    for host in ["localhost", "mcp.localhost"] {
        let url = format!("http://{host}:{port}/");
        let (lookup, _) = names(&["10.0.0.1", "1.1.1.1"]);
        let sent = get(&EgressPolicy::default(), lookup, &url).await;
        let error = sent.unwrap_err();
        let cause = EgressError::cause_of(&error).unwrap().to_string();
        let expected = format!(
            "'{host}' resolves to the private address 10.0.0.1, to which connections are not \
             allowed"
        );
        assert_eq!(cause, expected);
    }
    let (lookup, _) = names(&["1.1.1.1", "127.0.0.1"]);
    let url = format!("http://localhost:{port}/");
    let sent = get(&EgressPolicy::default(), lookup, &url).await;
    assert_eq!(sent.unwrap(), 200);
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_checked_like_a_request() {
    // The name resolves to a metadata address between the request and its redirect.
    const ELSEWHERE: &str = "HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\n\
        Content-Length: 0\r\nConnection: close\r\n\r\n";
    let lookups = AtomicUsize::new(0);
    let lookup: Lookup = Arc::new(move |_| {
        let addresses = ["127.0.0.1", "169.254.169.254"];
        let address = addresses[lookups.fetch_add(1, Ordering::SeqCst).min(1)];
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
    });
    let policy = policy(serde_json::json!({"allow_http": ["mcp.internal"]}));
    let url = format!("http://mcp.internal:{}/", server(ELSEWHERE));
    let error = get(&policy, lookup, &url).await.unwrap_err();
    let cause = EgressError::cause_of(&error).unwrap().to_string();
    let address = "the link-local address 169.254.169.254";
    assert!(cause.contains(address), "{cause}");
}

#[tokio::test]
async fn a_name_without_addresses_is_not_a_denial() {
    let (lookup, _) = names(&[]);
    let policy = policy(serde_json::json!({"allow_http": ["mcp.internal"]}));
    let sent = get(&policy, lookup, "http://mcp.internal/").await;
    let error = sent.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert!(EgressError::cause_of(&error).is_none(), "{error:?}");
}

/// Starts a server that keeps its connections, and counts the connections.
fn keeping_server() -> (Url, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            let mut peer = peer.unwrap();
            std::thread::spawn(move || {
                while peer.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                    peer.write_all(response).unwrap();
                }
            });
        }
    });
    (url.parse().unwrap(), connections)
}

#[tokio::test]
async fn a_kept_connection_is_not_used_after_its_idle_time() {
    let (url, connections) = keeping_server();
    let policy = EgressPolicy::default();
    let settings = EgressClientSettings::for_server(Trust::NoCertificates);
    let client = EgressClient::new(&policy, settings).unwrap();
    let send = async |max_idle| {
        let headers = HeaderMap::new();
        let pool_use = PoolUse::Pooled {
            max_idle,
            idle_time: None,
        };
        let request = client.request_over_pool(pool_use, Method::GET, &url, headers);
        request.unwrap().send().await.unwrap();
        connections.load(Ordering::SeqCst)
    };
    let short = Duration::from_secs(2);
    assert_eq!(send(short).await, 1);
    assert_eq!(send(short - Duration::from_millis(10)).await, 1);
    tokio::time::sleep(short).await;
    for _ in 0..3 {
        assert_eq!(send(short).await, 2, "the new connection is kept");
    }
    // Requests have no limit of the idle time, or a limit that allows no connection.
    for max_idle in [Duration::MAX, POOL_IDLE_TIMEOUT] {
        assert_eq!(send(max_idle).await, 3);
    }
    assert_eq!(send(Duration::ZERO).await, 4);
    assert_eq!(send(Duration::ZERO).await, 5);
    let limited = client.shared.limited_clients.read();
    let keeps_connections = |limited: &&LimitedClient| !limited.max_idle.is_zero();
    assert_eq!(limited.iter().filter(keeps_connections).count(), 1);
    assert_eq!(limited.len(), 2, "one client keeps no connections");
}
