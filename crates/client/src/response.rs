use std::borrow::Cow;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::ClientError;

/// The undecoded body of a successful response, which is an `R` as JSON.
#[derive(Debug)]
pub struct Response<R> {
    status: u16,
    body: Vec<u8>,
    body_type: PhantomData<fn() -> R>,
}

impl<R> Response<R> {
    pub(crate) fn new(status: u16, body: Vec<u8>) -> Self {
        Self {
            status,
            body,
            body_type: PhantomData,
        }
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the body as text, with U+FFFD in place of invalid UTF-8.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// [`ClientError::Decode`]: the body is not an `R`.
    pub fn decode(&self) -> Result<R, ClientError>
    where
        R: DeserializeOwned,
    {
        serde_json::from_slice(&self.body).map_err(|source| ClientError::Decode {
            status: self.status,
            source,
        })
    }
}
