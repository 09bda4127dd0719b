use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::BenchError;
use super::gateway::TOKEN;
use super::llm::WORDS;

/// A keep-alive connection to the model or to the sidecar.
pub(super) struct Caller {
    connection: SendRequest<Full<Bytes>>,
}

impl Caller {
    pub(super) async fn open(port: u16) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(Self { connection })
    }

    async fn send(&mut self, body: &Value) -> Result<Response<Incoming>, BenchError> {
        self.connection.ready().await?;
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = "/v1/chat/completions".parse()?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, format!("Bearer {TOKEN}").parse()?);
        let response = self.connection.send_request(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let body = response.into_body().collect().await?.to_bytes();
        Err(format!("rejected: {}", String::from_utf8_lossy(&body)).into())
    }

    async fn message(&mut self, body: &Value) -> Result<Value, BenchError> {
        let collected = self.send(body).await?.into_body().collect().await?;
        let mut response: Value = serde_json::from_slice(&collected.to_bytes())?;
        Ok(response["choices"][0]["message"].take())
    }

    /// Runs a chat through the sidecar.
    pub(super) async fn chat(&mut self, calls: usize) -> Result<(), BenchError> {
        let body = json!({"model": "bench", "messages": [user(calls)]});
        check_words(&self.message(&body).await?)
    }

    /// Sends to the model directly the requests that the sidecar sends for a chat, one after the
    /// other and with equal tool results. The duration is the time of the provider and of a minimal
    /// client.
    pub(super) async fn same_requests(&mut self, calls: usize) -> Result<(), BenchError> {
        let mut messages = vec![user(calls)];
        for _ in 0..calls {
            let body = json!({"model": "bench", "messages": messages, "tools": []});
            let message = self.message(&body).await?;
            let id = message["tool_calls"][0]["id"].clone();
            messages.push(message);
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": "42"}));
        }
        let body = json!({"model": "bench", "messages": messages, "tools": []});
        check_words(&self.message(&body).await?)
    }

    /// Requests a stream, and returns the microseconds until its first words. Then reads the rest
    /// of the stream.
    pub(super) async fn first_words(&mut self) -> Result<f64, BenchError> {
        let request = json!({"model": "bench", "messages": [user(0)], "stream": true});
        let start = std::time::Instant::now();
        let mut body = self.send(&request).await?.into_body();
        let mut received = Vec::new();
        let mut first = None;
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                received.extend_from_slice(&data);
                let has_words = || String::from_utf8_lossy(&received).contains(WORDS);
                if first.is_none() && has_words() {
                    first = Some(start.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        first.ok_or_else(|| "the stream has no words".into())
    }
}

fn user(calls: usize) -> Value {
    json!({"role": "user", "content": calls.to_string()})
}

fn check_words(message: &Value) -> Result<(), BenchError> {
    if message["content"] != WORDS {
        return Err(format!("another answer: {message}").into());
    }
    Ok(())
}
