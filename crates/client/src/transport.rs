//! HTTP over a Unix socket, as a transport for `ureq`.

mod connect;
mod connection;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{ConnectionDetails, Connector, LazyBuffers, NextTimeout};

pub(crate) use connect::SocketConnectError;
use connection::Connection;
pub(crate) use connection::Interrupted;

/// A hook that is called at intervals while a call waits; returning true ends the wait.
pub(crate) type InterruptHook = Arc<dyn Fn() -> bool + Send + Sync>;

/// Opens connections to one socket, regardless of the host in the URI.
pub(crate) struct UnixConnector {
    pub(crate) path: PathBuf,
    pub(crate) interrupt_hook: Option<InterruptHook>,
}

impl Connector for UnixConnector {
    type Out = Connection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let stream = connect::connect(&self.path, details.timeout, self.interrupt_hook.as_ref())?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let interrupt_hook = self.interrupt_hook.clone();
        Ok(Some(Connection::new(stream, buffers, interrupt_hook)))
    }
}

impl fmt::Debug for UnixConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixConnector")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Resolves every host to a placeholder address, which `ureq` requires. The default resolver would
/// query DNS on a separate thread.
#[derive(Debug)]
pub(crate) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Ok(addresses)
    }
}
