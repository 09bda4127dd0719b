use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use pillion_client::{Client, ClientError};
use pillion_wire::{Failure, route};

use super::CliError;

/// Server-sent events from a running sidecar.
pub(super) struct EventStream {
    lines: Lines<BufReader<UnixStream>>,
}

/// A server-sent event.
pub(super) struct StreamedEvent {
    pub(super) kind: String,
    /// The data, as JSON text.
    pub(super) data: String,
}

impl EventStream {
    /// Requests `target`, with POST if there is a body.
    ///
    /// # Errors
    /// [`CliError::Client`] if no sidecar listens or it rejects the request.
    pub(super) fn open(
        socket: &Path,
        target: &str,
        headers: &[(&str, String)],
        body: Option<&[u8]>,
    ) -> Result<Self, CliError> {
        // Gives the same error as other commands if no sidecar listens.
        Client::new(socket).fetch(route::HEALTH)?;
        let mut stream = UnixStream::connect(socket).map_err(CliError::Streams)?;
        let method = if body.is_some() { "POST" } else { "GET" };
        // With HTTP/1.0, the body ends with the connection and is not chunked.
        let mut head =
            format!("{method} {target} HTTP/1.0\r\nhost: pillion\r\naccept: text/event-stream\r\n");
        for (name, value) in headers {
            if value.contains(['\r', '\n', '\0']) {
                return Err(CliError::Usage(format!(
                    "the value of {name} has a character that is not allowed in a header"
                )));
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.unwrap_or_default();
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let sent = stream.write_all(head.as_bytes());
        let sent = sent.and_then(|()| stream.write_all(body));
        let mut reader = BufReader::new(stream);
        let status = match (sent, status_of(&mut reader)) {
            // A sidecar that stopped reading the body has still sent a response.
            (_, Ok(status)) if status != 0 => status,
            (Err(error), _) | (Ok(()), Err(CliError::Streams(error))) => {
                return Err(CliError::Streams(error));
            }
            (Ok(()), status) => status?,
        };
        if status == 200 {
            return Ok(Self {
                lines: reader.lines(),
            });
        }
        let mut body = Vec::new();
        let read = reader.read_to_end(&mut body);
        let failure: Failure = match (serde_json::from_slice(&body), read) {
            (Ok(failure), _) => failure,
            (Err(_), Err(error)) => return Err(CliError::Streams(error)),
            (Err(error), Ok(_)) => return Err(CliError::Answer(error)),
        };
        Err(CliError::Client(ClientError::Status {
            status,
            failure: Box::new(failure),
        }))
    }

    /// Returns the next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`CliError::Streams`].
    pub(super) fn next(&mut self) -> Result<Option<StreamedEvent>, CliError> {
        let mut kind = String::new();
        for line in self.lines.by_ref() {
            let line = line.map_err(CliError::Streams)?;
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = data.to_owned();
                return Ok(Some(StreamedEvent { kind, data }));
            }
        }
        Ok(None)
    }
}

/// Reads the response head and returns the status.
fn status_of(reader: &mut impl BufRead) -> Result<u16, CliError> {
    let mut status = None;
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).map_err(CliError::Streams)?;
        let line = line.trim_end();
        if read == 0 || line.is_empty() {
            return Ok(status.unwrap_or_default());
        }
        let word = line.split(' ').nth(1);
        status = status.or_else(|| word?.parse().ok());
    }
}
