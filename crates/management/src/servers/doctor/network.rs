//! The stages of the connection with a server that has a URL, before the first request.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pillion_deadline::timeout;
use pillion_egress::{AddressClass, EgressPolicy, Proxies, look_up_host, start_tls};
use tokio::net::TcpStream;
use url::{Host, Url};

use super::report::{Finding, Recorder};
use super::{StepKind, advice};

/// Maximum time for one stage.
const STAGE_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of addresses to which a connection is tried.
const MAX_ADDRESSES: usize = 4;

/// Looks up the host of `url`, checks its addresses, opens a TCP connection and performs a TLS
/// handshake. Returns `None` if a step has failed.
pub(super) async fn examine_url(
    recorder: &mut Recorder,
    policy: &EgressPolicy,
    url: &Url,
) -> Option<()> {
    let is_tls = matches!(url.scheme(), "https" | "wss");
    let mut request_url = url.clone();
    // The requests that open a WebSocket are HTTP requests. Setting the scheme fails only for URLs
    // with other schemes, which no server has.
    let _ = request_url.set_scheme(if is_tls { "https" } else { "http" });
    let (host, ip) = match request_url.host()? {
        Host::Domain(name) => (name.to_owned(), None),
        Host::Ipv4(address) => (address.to_string(), Some(IpAddr::from(address))),
        Host::Ipv6(address) => (address.to_string(), Some(IpAddr::from(address))),
    };
    let port = request_url.port_or_known_default()?;
    match Proxies::from_environment() {
        Ok(proxies) if proxies.are_used_for(&request_url) => {
            record_proxy(recorder);
            return Some(());
        }
        Ok(_) => {}
        Err(error) => {
            let finding = Finding::new(error.to_string()).with_advice(advice::PROXY);
            recorder.record_failure(StepKind::NameResolution, None, finding);
            return None;
        }
    }
    let addresses = match ip {
        Some(address) => {
            recorder.record_inapplicable(
                StepKind::NameResolution,
                "The URL contains an IP address instead of a name.",
            );
            vec![address]
        }
        None => {
            let lookup = resolve(&host);
            let step = recorder.run(StepKind::NameResolution, STAGE_TIMEOUT, lookup);
            step.await?
        }
    };
    let check = std::future::ready(check_addresses(policy, &host, &addresses));
    let policy_step = recorder.run(StepKind::EgressPolicy, STAGE_TIMEOUT, check);
    let allowed_addresses = policy_step.await?;
    let connecting = connect(&allowed_addresses, port);
    let tcp_step = recorder.run(StepKind::TcpConnection, STAGE_TIMEOUT, connecting);
    let stream = tcp_step.await?;
    if is_tls {
        let handshake = Box::pin(perform_handshake(stream, &host));
        recorder.run(StepKind::Tls, STAGE_TIMEOUT, handshake).await
    } else {
        recorder.record_inapplicable(StepKind::Tls, "The URL does not use TLS.");
        Some(())
    }
}

/// Records that a proxy performs the stages.
fn record_proxy(recorder: &mut Recorder) {
    const REASON: &str = "A proxy of the sidecar's environment connects with the server.";
    let finding = Finding::new(
        "The URL is allowed. Its addresses are not checked, because a proxy resolves the name.",
    );
    recorder.record_inapplicable(StepKind::NameResolution, REASON);
    recorder.record_success(StepKind::EgressPolicy, None, finding);
    recorder.record_inapplicable(StepKind::TcpConnection, REASON);
    recorder.record_inapplicable(StepKind::Tls, REASON);
}

async fn resolve(host: &str) -> Result<(Vec<IpAddr>, Finding), Finding> {
    match look_up_host(host).await {
        Ok(found_addresses) if !found_addresses.is_empty() => {
            // The resolver may return an address several times.
            let mut known_addresses = BTreeSet::new();
            let distinct_addresses: Vec<_> = found_addresses
                .into_iter()
                .filter(|address| known_addresses.insert(*address))
                .collect();
            let finding = Finding::new(format!("'{host}' was found."))
                .with_notes(distinct_addresses.iter().map(IpAddr::to_string).collect());
            Ok((distinct_addresses, finding))
        }
        Ok(_) => Err(Finding::new(format!("'{host}' has no addresses."))
            .with_advice(advice::NAME_RESOLUTION)),
        Err(error) => Err(Finding::new(format!("'{host}' was not found: {error}."))
            .with_advice(advice::NAME_RESOLUTION)),
    }
}

/// Returns the addresses that the policy allows.
fn check_addresses(
    policy: &EgressPolicy,
    host: &str,
    addresses: &[IpAddr],
) -> Result<(Vec<IpAddr>, Finding), Finding> {
    let mut allowed_addresses = Vec::new();
    let mut notes = Vec::new();
    for address in addresses {
        let verdict = match policy.check_resolved_address(host, *address) {
            Ok(()) => {
                allowed_addresses.push(*address);
                "allowed"
            }
            Err(_) => "forbidden",
        };
        let class = AddressClass::from_ip(*address);
        notes.push(format!("{address} ({class}): {verdict}"));
    }
    if allowed_addresses.is_empty() {
        return Err(
            Finding::new(format!("All addresses of '{host}' are forbidden."))
                .with_advice(advice::EGRESS)
                .with_notes(notes),
        );
    }
    let detail = if allowed_addresses.len() == addresses.len() {
        "All addresses are allowed."
    } else {
        "Pillion connects only with the allowed addresses."
    };
    let finding = Finding::new(detail).with_notes(notes);
    Ok((allowed_addresses, finding))
}

/// Connects with the first of the addresses that accepts a connection.
async fn connect(addresses: &[IpAddr], port: u16) -> Result<(TcpStream, Finding), Finding> {
    let tried_addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    // All attempts end before the stage's timeout, which would hide their errors.
    let attempt_count = u32::try_from(tried_addresses.len()).unwrap_or(u32::MAX);
    let attempt_timeout = STAGE_TIMEOUT * 9 / 10 / attempt_count.max(1);
    let mut failures = Vec::new();
    let mut last_kind = ErrorKind::Other;
    for address in tried_addresses {
        let socket_address = SocketAddr::new(*address, port);
        let attempt = timeout(attempt_timeout, TcpStream::connect(socket_address));
        match attempt.await {
            Ok(Ok(stream)) => {
                let detail = format!("{socket_address} accepts connections.");
                return Ok((stream, Finding::new(detail).with_notes(failures)));
            }
            Ok(Err(error)) => {
                last_kind = error.kind();
                failures.push(format!("{socket_address}: {error}"));
            }
            Err(_) => {
                last_kind = ErrorKind::TimedOut;
                failures.push(format!("{socket_address}: no response"));
            }
        }
    }
    Err(Finding::new("No connection can be opened.")
        .with_advice(advice::for_connect(last_kind))
        .with_notes(failures))
}

async fn perform_handshake(stream: TcpStream, host: &str) -> Result<((), Finding), Finding> {
    match start_tls(stream, host).await {
        Ok(version) => {
            let detail = format!("{version}; the certificate is valid and trusted.");
            Ok(((), Finding::new(detail)))
        }
        Err(failure) => {
            let advice = advice::for_tls(failure.kind);
            Err(Finding::new(failure.to_string()).with_advice(advice))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::super::{Diagnosis, StepOutcome};
    use super::*;

    async fn diagnose(url: &str, policy: &EgressPolicy) -> Diagnosis {
        let mut recorder = Recorder::new(&StepKind::OF_URL, Duration::from_secs(20));
        let parsed_url: Url = url.parse().unwrap();
        examine_url(&mut recorder, policy, &parsed_url).await;
        recorder.finish()
    }

    fn outcome(diagnosis: &Diagnosis, kind: StepKind) -> StepOutcome {
        let mut steps = diagnosis.steps.iter();
        steps.find(|step| step.kind == kind).unwrap().outcome
    }

    #[tokio::test]
    async fn a_closed_port_fails_at_the_tcp_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let policy = EgressPolicy::default();
        let url = format!("http://{address}/mcp");
        let open = diagnose(&url, &policy).await;
        assert_eq!(outcome(&open, StepKind::TcpConnection), StepOutcome::Ok);
        assert_eq!(outcome(&open, StepKind::Tls), StepOutcome::NotApplicable);
        drop(listener);
        let closed = diagnose(&url, &policy).await;
        let failed_step = closed.failed_step().unwrap();
        assert_eq!(failed_step.kind, StepKind::TcpConnection);
        assert!(failed_step.notes[0].starts_with(&address.to_string()));
        assert!(failed_step.advice.as_ref().unwrap().contains("listens"));
        assert_eq!(
            outcome(&closed, StepKind::NameResolution),
            StepOutcome::NotApplicable
        );
        assert_eq!(outcome(&closed, StepKind::Tls), StepOutcome::Skipped);
    }

    #[tokio::test]
    async fn a_forbidden_address_fails_at_the_egress_policy() {
        let policy: EgressPolicy = serde_json::from_str(r#"{"allow_loopback": false}"#).unwrap();
        let diagnosis = diagnose("http://localhost:9/mcp", &policy).await;
        let failed_step = diagnosis.failed_step().unwrap();
        assert_eq!(failed_step.kind, StepKind::EgressPolicy);
        assert!(failed_step.notes[0].ends_with("(loopback): forbidden"));
    }

    #[test]
    fn only_allowed_addresses_are_used() {
        let policy: EgressPolicy = serde_json::from_str(r#"{"allow_private": false}"#).unwrap();
        let addresses = ["10.0.0.1", "1.1.1.1"].map(|address| address.parse::<IpAddr>().unwrap());
        let (allowed_addresses, _) = check_addresses(&policy, "x.example", &addresses).unwrap();
        assert_eq!(allowed_addresses, addresses[1..]);
        assert!(check_addresses(&policy, "x.example", &addresses[..1]).is_err());
    }
}
