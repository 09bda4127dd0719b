use http::HeaderMap;
use http::header::{CONTENT_LENGTH, HOST};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::server::{Captured, Form, check};
use super::{BenchError, Caller};

/// A client that does only the minimum that an MCP client has to do: POST the same headers and body
/// over a connection that stays open, reject an error status, read the whole body, and take
/// `result` out of the JSON as raw text. This client has no limits, deadlines, request IDs or error
/// recovery.
#[derive(Clone)]
pub(super) struct RawPeer {
    client: reqwest::Client,
    url: reqwest::Url,
    headers: HeaderMap,
    body: bytes::Bytes,
    form: Form,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

impl RawPeer {
    /// Returns a client that repeats the last `tools/call` that the server at `url` received.
    pub(super) async fn like_last_call(url: &str, form: Form) -> Result<Self, BenchError> {
        let client = reqwest::Client::new();
        let captured = client.get(url).send().await?.bytes().await?;
        let Captured { headers, body } = serde_json::from_slice(&captured)?;
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            sent.insert(http::HeaderName::try_from(name)?, value.try_into()?);
        }
        // reqwest sets these headers itself.
        sent.remove(HOST);
        sent.remove(CONTENT_LENGTH);
        Ok(Self {
            client,
            url: url.parse()?,
            headers: sent,
            body: body.into(),
            form,
        })
    }
}

impl Caller for RawPeer {
    async fn call(&self) -> Result<(), BenchError> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(self.body.clone());
        let response = request.send().await?.error_for_status()?;
        let body = response.bytes().await?;
        let text = std::str::from_utf8(&body)?;
        let json = match self.form {
            Form::Json => text,
            Form::EventStream => {
                let mut data = text.lines().filter_map(|line| line.strip_prefix("data: "));
                data.next().ok_or("no event")?
            }
        };
        let response: Response<'_> = serde_json::from_str(json)?;
        check(&response.result.to_owned())
    }
}
