//! L1: logs, errors and debug output contain no secrets.

use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn l1_no_log_contains_a_token_a_code_or_a_secret() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let server = FakeOAuth::start(OAuthRules {
        refresh: true,
        scope: Some("read".to_owned()),
        call_scope: Some("write".to_owned()),
        ..OAuthRules::default()
    });
    let mut config = oauth(
        &server,
        &json!({"client_id": "me", "client_secret": "hush-mine"}),
    );
    config.authorization.prompt = Some(Consenting::new());
    let shown = format!("{config:?}");
    assert_lacks!(shown, "hush");
    let client = McpClient::new(config);
    // The guard covers this test's runtime, which has one thread.
    let guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
    roll(&client).await.unwrap();
    server.revoke();
    roll(&client).await.unwrap();
    server.revoke();
    server.revoke_refresh_tokens();
    roll(&client).await.unwrap();
    drop(guard);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_contains!(log, "pillion_mcp_client");
    assert_lacks!(log, "hush");
    assert_lacks!(format!("{client:?}"), "hush");
}
