//! Few connections stay open, however a server closes connections.

use super::*;

/// A server that responds to the first request of a connection, and counts the connections that the
/// client has not closed.
struct FirstOnly {
    url: Url,
    open: Arc<AtomicUsize>,
}

impl FirstOnly {
    /// Starts the server. `is_early` is whether the server ends its side of a connection after the
    /// response; if not, the server ends its side when the next request arrives.
    async fn start(is_early: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&open);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let counter = Arc::clone(&counter);
                tokio::spawn(async move {
                    read_request(&mut stream).await;
                    stream.write_all(PLAIN.as_bytes()).await.unwrap();
                    if !is_early {
                        let _ = stream.read(&mut [0; 1024]).await;
                    }
                    let _ = stream.shutdown().await;
                    while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
                    counter.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        let url = format!("http://127.0.0.1:{port}/").parse().unwrap();
        Self { url, open }
    }

    /// Sends calls and checks that the client keeps few connections open.
    async fn check(&self, shortcut: &Arc<DirectClient>, calls: usize, max: usize, case: &str) {
        for call in 0..calls {
            let choice = match call % 5 {
                4 => ConnectionChoice::New,
                _ => ConnectionChoice::Reliable,
            };
            if let SendOutcome::Response(response) = post_over(shortcut, choice).await {
                let _ = response.text().await;
            }
        }
        assert!(idle_connections(shortcut) <= max, "{case}");
        let mut turns = 0;
        while self.open.load(Ordering::SeqCst) > max {
            turns += 1;
            let open = self.open.load(Ordering::SeqCst);
            assert!(turns < 500, "{case}: {open} connections are open");
            sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_breaks_kept_connections_leaves_none_open() {
    let server = FirstOnly::start(false).await;
    let shortcut = client_for(&server.url);
    for idle in [300, 120] {
        assert_eq!(text(&shortcut).await, "{}");
        sleep(Duration::from_millis(idle)).await;
        let sent = post_over(&shortcut, ConnectionChoice::Reliable).await;
        assert!(matches!(sent, SendOutcome::Broken(_)));
    }
    assert!(shortcut.keep_alive.is_proven());
    server.check(&shortcut, 500, 0, "two breaks").await;
}

#[tokio::test]
async fn whatever_a_server_does_with_connections_few_stay_open() {
    type Note = fn(&KeepAliveEstimate);
    let notes: [(&str, Note); 7] = [
        ("kept", |keep_alive| keep_alive.note_reused()),
        ("broken at once", |keep_alive| {
            keep_alive.note_broken(Duration::ZERO);
        }),
        ("broken", |keep_alive| {
            keep_alive.note_broken(Duration::from_millis(40));
        }),
        ("broken late", |keep_alive| {
            keep_alive.note_broken(Duration::from_secs(9));
        }),
        ("closed at once", |keep_alive| {
            keep_alive.note_closed(Duration::ZERO);
        }),
        ("closed late", |keep_alive| {
            keep_alive.note_closed(Duration::from_secs(9));
        }),
        ("restarted", |keep_alive| keep_alive.forget_closes()),
    ];
    for is_early in [false, true] {
        for first in &notes {
            for second in &notes {
                for third in &notes {
                    let server = FirstOnly::start(is_early).await;
                    let shortcut = client_for(&server.url);
                    // These connections were opened before the client knew how the server closes
                    // connections.
                    for _ in 0..3 {
                        let _ = post(&shortcut).await;
                    }
                    let names = [first, second, third].map(|(name, note)| {
                        note(&shortcut.keep_alive);
                        *name
                    });
                    let case = format!("{is_early} {names:?}");
                    let max = MAX_UNPROVEN_CONNECTIONS + 1;
                    server.check(&shortcut, 20, max, &case).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn the_number_of_idle_connections_is_limited() {
    let server = Server::with(&[PLAIN; 10]).await;
    let shortcut = server.shortcut();
    shortcut.keep_alive.note_reused();
    let mut responses = Vec::new();
    for _ in 0..MAX_IDLE_CONNECTIONS + 20 {
        responses.push(response(post(&shortcut).await));
    }
    for received in responses {
        assert_eq!(received.text().await.unwrap(), "{}");
    }
    assert_eq!(idle_connections(&shortcut), MAX_IDLE_CONNECTIONS);
}
