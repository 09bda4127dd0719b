//! Opens the console: forwards the requests of browsers on this machine to the sidecar's socket.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, LOCATION, UPGRADE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use pillion_client::Client;
use pillion_sidecar::daemon::{DaemonError, StopSignals};
use pillion_wire::{ConsoleLinkRequest, route};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;

use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::{print, print_result};
use crate::process::run_without_joining;
use crate::sidecar::SocketOption;

/// The beginning of the headers by which processes on the Unix socket identify users. Requests of
/// browsers must not contain such headers.
const OWN_HEADER_PREFIX: &str = "x-pillion-";

/// Maximum number of connections of browsers at the same time.
const MAX_CONNECTIONS: usize = 64;

/// Pause after a connection could not be accepted.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Opens the console in a browser on this machine
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion console",
    "pillion console --port 7421 --user ada",
    "pillion console --link https://pillion.example.com",
])]
pub(super) struct ConsoleCommand {
    #[command(flatten)]
    socket: SocketOption,
    /// The port on 127.0.0.1 [default: a free port]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The name that is recorded with your decisions [default: the sidecar records your user ID]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Prints a sign-in link for the sidecar's own TCP listener, which browsers reach at this URL,
    /// and exits. Needs `console.tcp`
    #[arg(long, value_name = "URL", conflicts_with = "port")]
    link: Option<String>,
}

impl RunCommand<()> for ConsoleCommand {
    fn run(self, (): &()) -> CommandResult {
        let client = self.socket.create_client(Duration::from_secs(10));
        let sign_in_path = create_sign_in_path(&client, self.user)?;
        match self.link {
            Some(url) => print_result(&format!("{}{sign_in_path}", url.trim_end_matches('/'))),
            None => run_without_joining(serve(
                client.socket_path().to_owned(),
                self.port,
                sign_in_path,
            )),
        }
    }
}

/// Requests a sign-in link. Returns its path, which contains the code.
fn create_sign_in_path(client: &Client, user: Option<String>) -> Result<String, CliError> {
    let request = client.request(route::CREATE_CONSOLE_LINK, []);
    let response = request.send_json(&ConsoleLinkRequest { user })?;
    Ok(response.decode()?.path)
}

/// Forwards requests until a signal stops the program.
async fn serve(socket: PathBuf, port: Option<u16>, sign_in_path: String) -> Result<(), CliError> {
    let stop_signals = StopSignals::listen().map_err(DaemonError::Signals)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| CliError::ConsolePort { address, error })?;
    let address = listener
        .local_addr()
        .map_err(|error| CliError::ConsolePort { address, error })?;
    print(&format!(
        "Open this link within a minute: http://{address}{sign_in_path}\n\
         Press Ctrl+C to close the console."
    ))?;
    let forwarder = Arc::new(Forwarder { socket, address });
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let accept_all = async {
        loop {
            let permit = Arc::clone(&permits).acquire_owned().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = Arc::clone(&forwarder).serve_connection(stream);
                    tokio::spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                // Usually, the process is out of file descriptors.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await,
            }
        }
    };
    tokio::select! {
        () = accept_all => {}
        () = stop_signals.wait_for_first() => {}
    }
    Ok(())
}

/// Forwards the requests of browsers to the sidecar.
struct Forwarder {
    socket: PathBuf,
    /// The address on which browsers connect.
    address: SocketAddr,
}

type ForwardedResponse = Response<BoxBody<Bytes, hyper::Error>>;

impl Forwarder {
    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(move |request| {
            let forwarder = Arc::clone(&self);
            async move { Ok::<_, Infallible>(forwarder.respond(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        // An error means that the browser has closed the connection.
        drop(connection.await);
    }

    /// Forwards a request for a page of the console, and rejects all others: the socket itself needs
    /// no sign-in, so a web page could otherwise call tools through this port.
    async fn respond(&self, request: Request<Incoming>) -> ForwardedResponse {
        if !self.is_own_host(request.headers()) {
            return error_response(
                StatusCode::MISDIRECTED_REQUEST,
                "Open the console with the address that pillion console has printed.",
            );
        }
        match request.uri().path() {
            "/" => {
                let mut response =
                    error_response(StatusCode::SEE_OTHER, "The console is at /console/home.");
                response.headers_mut().insert(
                    LOCATION,
                    hyper::header::HeaderValue::from_static("/console/home"),
                );
                response
            }
            path if path == "/console" || path.starts_with("/console/") => {
                match forward(&self.socket, request).await {
                    Ok(response) => response,
                    Err(error) => error_response(
                        StatusCode::BAD_GATEWAY,
                        &format!(
                            "The sidecar does not respond: {error}. Load the page again once it runs."
                        ),
                    ),
                }
            }
            _ => error_response(
                StatusCode::NOT_FOUND,
                "This address serves only the console.",
            ),
        }
    }

    /// Returns whether the browser has requested this address. Under another name, a web page of the
    /// owner of that name could send requests (DNS rebinding).
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let port = self.address.port();
        host == Some(self.address.to_string().as_str())
            || host == Some(format!("localhost:{port}").as_str())
    }
}

/// Sends a request to the sidecar, on a connection of its own.
async fn forward(
    socket: &Path,
    mut request: Request<Incoming>,
) -> Result<ForwardedResponse, Box<dyn std::error::Error + Send + Sync>> {
    let headers = request.headers_mut();
    let own_names: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(OWN_HEADER_PREFIX))
        .cloned()
        .collect();
    for name in own_names {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    headers.remove(UPGRADE);
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    Ok(response.map(BodyExt::boxed))
}

fn error_response(status: StatusCode, message: &str) -> ForwardedResponse {
    let body = Full::new(Bytes::from(format!("{message}\n")))
        .map_err(|never| match never {})
        .boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
