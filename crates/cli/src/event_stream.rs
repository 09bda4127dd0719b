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
    /// Sends a request for `target`: POST if `body` is set, otherwise GET.
    ///
    /// # Errors
    /// [`CliError::Client`] if no sidecar listens or the sidecar rejects the request.
    pub(super) fn open(
        socket: &Path,
        target: &str,
        headers: &[(&str, String)],
        body: Option<&[u8]>,
    ) -> Result<Self, CliError> {
        // This request only checks that a sidecar listens: if none does, `Client` returns the same
        // error as for other commands.
        Client::new(socket).fetch(route::HEALTH)?;
        let mut stream = UnixStream::connect(socket).map_err(CliError::SidecarStream)?;
        let method = if body.is_some() { "POST" } else { "GET" };
        // The request uses HTTP/1.0, so that the response body is not chunked and ends with the
        // connection.
        let mut request_head =
            format!("{method} {target} HTTP/1.0\r\nhost: pillion\r\naccept: text/event-stream\r\n");
        for (name, value) in headers {
            if value.contains(['\r', '\n', '\0']) {
                return Err(CliError::Usage(format!(
                    "the value of the header {name} has a character that is not allowed"
                )));
            }
            request_head.push_str(&format!("{name}: {value}\r\n"));
        }
        let request_body = body.unwrap_or_default();
        request_head.push_str(&format!("content-length: {}\r\n\r\n", request_body.len()));
        let write_result = stream
            .write_all(request_head.as_bytes())
            .and_then(|()| stream.write_all(request_body));
        let mut reader = BufReader::new(stream);
        let status = match (write_result, read_status(&mut reader)) {
            // The response is read even if the request was not sent completely, because a sidecar
            // that rejects a request may respond without reading the body.
            (_, Ok(status)) if status != 0 => status,
            (Err(error), _) | (Ok(()), Err(CliError::SidecarStream(error))) => {
                return Err(CliError::SidecarStream(error));
            }
            (Ok(()), status) => status?,
        };
        if status == 200 {
            let lines = reader.lines();
            return Ok(Self { lines });
        }
        let mut response_body = Vec::new();
        let read_result = reader.read_to_end(&mut response_body);
        let failure: Failure = match (serde_json::from_slice(&response_body), read_result) {
            (Ok(failure), _) => failure,
            (Err(_), Err(error)) => return Err(CliError::SidecarStream(error)),
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
        while let Some(line) = self
            .lines
            .next()
            .transpose()
            .map_err(CliError::SidecarStream)?
        {
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            } else if let Some(json) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(json)?;
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
        let read_result = reader.read_line(&mut line);
        let byte_count = read_result.map_err(CliError::SidecarStream)?;
        if byte_count == 0 || line.trim_end().is_empty() {
            return Ok(status.unwrap_or_default());
        }
        let word = line.trim_end().split(' ').nth(1);
        status = status.or_else(|| word?.parse().ok());
    }
}
