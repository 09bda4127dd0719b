use std::fmt;
use std::io::Read as _;

use ureq::BodyReader;

use super::ClientBuilder;
use crate::ClientError;

/// An answer that is read as it comes, such as server-sent events: made by
/// [`Raw::chat_events`](crate::Raw::chat_events). The deadline and the limit of the client hold for
/// all of it. Dropping it ends the connection, and with it what the sidecar does for it.
pub struct Stream {
    settings: ClientBuilder,
    reader: BodyReader<'static>,
}

impl Stream {
    pub(super) fn new(settings: ClientBuilder, reader: BodyReader<'static>) -> Self {
        Self { settings, reader }
    }

    /// Waits for the next bytes; 0 of them at the end.
    ///
    /// # Errors
    /// [`ClientError`]: the deadline passed, the wait was interrupted, the connection broke, or
    /// the answer is longer than the limit.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, ClientError> {
        let read = self.reader.read(into);
        read.map_err(|error| self.settings.translate(error.into()))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
