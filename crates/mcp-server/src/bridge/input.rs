use std::io;

use axum::body::Bytes;
use tokio::io::AsyncBufRead;
use tokio::sync::mpsc;

use super::BridgeEvent;
use crate::lines::{read_line, trim_message};
use pillion_gateway::calling_client::message::{self, Inbound};

/// Reads the client's messages until the client closes its input.
pub(super) async fn read_messages(
    mut input: impl AsyncBufRead + Unpin,
    events: mpsc::Sender<BridgeEvent>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        if !read_line(&mut input, &mut line).await? {
            drop(events.send(BridgeEvent::ClientClosed).await);
            return Ok(());
        }
        let decoded_line = String::from_utf8_lossy(&line);
        let text = trim_message(&decoded_line);
        if text.is_empty() {
            continue;
        }
        let event = match Inbound::parse(text) {
            Ok(inbound) => BridgeEvent::Client(inbound, Bytes::copy_from_slice(text.as_bytes())),
            Err(parse_failure) => {
                let id = parse_failure.id.as_deref();
                BridgeEvent::InvalidMessage(message::response(id, &Err(parse_failure.error)))
            }
        };
        if events.send(event).await.is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn byte_order_marks_are_not_forwarded() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let input = format!("\u{feff}{ping}\n\u{feff}\r\n\u{feff} {ping}\r\n");
        let (events, mut receiver) = mpsc::channel(8);
        read_messages(input.as_bytes(), events).await.unwrap();
        for _ in 0..2 {
            match receiver.recv().await {
                Some(BridgeEvent::Client(Inbound::Request(_), line)) => assert_eq!(line, ping),
                _ => panic!("no request"),
            }
        }
        let last_event = receiver.recv().await;
        assert!(matches!(last_event, Some(BridgeEvent::ClientClosed)));
    }
}
