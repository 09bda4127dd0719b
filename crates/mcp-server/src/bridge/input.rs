use std::io;

use axum::body::Bytes;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use tokio::sync::mpsc;

use super::Event;
use crate::stdio::MAX_LINE_LEN;
use pillion_gateway::calling_client::message::{self, Inbound};

/// Reads the client's messages to the end.
pub(super) async fn read(
    mut input: impl AsyncBufRead + Unpin,
    events: mpsc::Sender<Event>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut input).take(MAX_LINE_LEN + 1);
        if limited.read_until(b'\n', &mut line).await? == 0 {
            drop(events.send(Event::ClientClosed).await);
            return Ok(());
        }
        if line.len() as u64 > MAX_LINE_LEN {
            let reason = "a line is longer than 16 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let event = match Inbound::parse(text) {
            Ok(inbound) => Event::Client(inbound, Bytes::copy_from_slice(text.as_bytes())),
            Err(unreadable) => {
                let id = unreadable.id.as_deref();
                Event::InvalidMessage(message::response(id, &Err(unreadable.error)))
            }
        };
        if events.send(event).await.is_err() {
            return Ok(());
        }
    }
}
