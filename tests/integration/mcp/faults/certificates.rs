//! Certificates of a trusted authority: a valid one is accepted, an expired one is not.

use pillion_testkit::CertificateAuthority;

use super::*;

#[test]
fn l1_an_expired_certificate_is_refused() {
    let authority = CertificateAuthority::new();
    let (current, expired) = (authority.server(), authority.expired_server());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trusted.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    // The client reads the URLs that the test's process has set.
    std::fs::write(file.with_extension("current"), &current.url).unwrap();
    std::fs::write(file.with_extension("expired"), &expired.url).unwrap();
    let trusted = ("SSL_CERT_FILE", file.to_str().unwrap());
    alone("certificates::inner_connect_to_both", trusted);
    assert_eq!(expired.handshakes(), 0);
    assert!(current.handshakes() > 0);
}

#[tokio::test]
#[ignore = "run by l1_an_expired_certificate_is_refused, in a process that trusts the authority"]
async fn inner_connect_to_both() {
    let file = std::path::PathBuf::from(std::env::var("SSL_CERT_FILE").unwrap());
    let url = |which| std::fs::read_to_string(file.with_extension(which)).unwrap();
    // This server only performs handshakes.
    let error = roll_error(&url("current"), TransportKind::StreamableHttp).await;
    assert_lacks!(error.to_string(), "certificate");
    for transport in [TransportKind::Auto, TransportKind::LegacySse] {
        let error = roll_error(&url("expired"), transport).await;
        assert_matches!(error.kind(), McpErrorKind::ConnectionFailed(_));
        assert_eq!(error.class(), ErrorClass::Unavailable);
        assert_contains!(error.to_string(), "expired");
    }
}
