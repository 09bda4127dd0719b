use std::fmt;
use std::io::Read as _;

use ureq::BodyReader;

use super::ClientBuilder;
use crate::ClientError;

/// A response body that is read as it arrives, such as server-sent events. Created by
/// [`Request::send_for_stream`](crate::Request::send_for_stream).
///
/// The client's timeout and size limit apply to the whole body. Dropping the stream closes the
/// connection, and the sidecar cancels the request.
pub struct Stream {
    settings: ClientBuilder,
    reader: BodyReader<'static>,
}

impl Stream {
    pub(super) fn new(settings: ClientBuilder, reader: BodyReader<'static>) -> Self {
        Self { settings, reader }
    }

    /// Reads the next bytes and returns their number; 0 at the end of the body.
    ///
    /// # Errors
    /// [`ClientError`]: the deadline passed, the wait was interrupted, the connection broke, or
    /// the response is larger than the client's size limit.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ClientError> {
        let read_outcome = self.reader.read(buffer);
        read_outcome.map_err(|error| self.settings.translate(error.into()))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
