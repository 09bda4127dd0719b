//! Connections to the sidecar that are upgraded from HTTP and then have a message per line.

use crate::prelude::*;

pub struct JsonLines {
    reader: BufReader<UnixStream>,
    pub writer: UnixStream,
}

impl JsonLines {
    /// Sends a request to upgrade the connection. Returns head and body of a rejection.
    pub fn open(
        socket: &Path,
        path: &str,
        protocol: &str,
        body: &Value,
    ) -> Result<Self, (String, Value)> {
        let headers = format!("connection: Upgrade\r\nupgrade: {protocol}\r\n");
        let writer = socket.begin("POST", path, &headers, body.to_string());
        let mut reader = BufReader::new(writer.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        if head.starts_with("HTTP/1.1 101") {
            return Ok(Self { reader, writer });
        }
        let lower = head.to_lowercase();
        let (_, rest) = lower.split_once("content-length: ").unwrap();
        let length = rest.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        Err((head, serde_json::from_slice(&body).unwrap()))
    }

    /// Returns the next message, or `None` if the sidecar closed the connection.
    pub fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn write(&mut self, message: &Value) {
        writeln!(self.writer, "{message}").unwrap();
    }
}
