use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use pillion_client::{Client, ClientError};
use pillion_wire::{Failure, route};
use serde_json::Value;

use super::error::CliError;

/// Server-sent events from a running sidecar.
pub(super) struct SidecarEvents {
    lines: Lines<BufReader<UnixStream>>,
}

pub(super) struct StreamedEvent {
    pub(super) kind: String,
    pub(super) data: Value,
}

impl StreamedEvent {
    /// Returns the data as JSON text, with the event's kind as the member `type`.
    pub(super) fn to_json(&self) -> String {
        let mut json = self.data.clone();
        json["type"] = Value::from(self.kind.as_str());
        json.to_string()
    }
}

impl SidecarEvents {
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
        // If no sidecar listens, this request fails with the same error as other commands.
        Client::new(socket).fetch(route::HEALTH)?;
        let mut stream = UnixStream::connect(socket).map_err(CliError::Streams)?;
        let method = if body.is_some() { "POST" } else { "GET" };
        // With HTTP/1.0, the response body is not chunked and ends with the connection.
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
        let request_body = body.unwrap_or_default();
        head.push_str(&format!("content-length: {}\r\n\r\n", request_body.len()));
        let sent = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(request_body));
        let mut reader = BufReader::new(stream);
        let status = match (sent, read_status(&mut reader)) {
            // A sidecar that has stopped reading the body may already have sent a response.
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
        let mut response_body = Vec::new();
        let read = reader.read_to_end(&mut response_body);
        let failure: Failure = match (serde_json::from_slice(&response_body), read) {
            (Ok(failure), _) => failure,
            (Err(_), Err(error)) => return Err(CliError::Streams(error)),
            (Err(error), Ok(_)) => return Err(error.into()),
        };
        Err(CliError::Client(ClientError::Status {
            status,
            failure: Box::new(failure),
        }))
    }

    /// Returns the next event; `None` at the end of the stream. Fails if an event is not JSON.
    pub(super) fn next(&mut self) -> Result<Option<StreamedEvent>, CliError> {
        let mut kind = String::new();
        while let Some(line) = self.lines.next().transpose().map_err(CliError::Streams)? {
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data)?;
                return Ok(Some(StreamedEvent { kind, data }));
            }
        }
        Ok(None)
    }
}

/// Reads the response head and returns the status.
fn read_status(reader: &mut impl BufRead) -> Result<u16, CliError> {
    let mut status = None;
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).map_err(CliError::Streams)?;
        if read == 0 || line.trim_end().is_empty() {
            return Ok(status.unwrap_or_default());
        }
        let word = line.trim_end().split(' ').nth(1);
        status = status.or_else(|| word?.parse().ok());
    }
}
