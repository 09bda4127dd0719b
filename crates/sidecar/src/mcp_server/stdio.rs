//! The MCP server over standard streams, for one client: a message a line.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use pillion_core::mcp::{Feature, ProtocolVersion, RpcError};
use serde_json::json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::message::{self, INVALID_REQUEST, Inbound, Request};
use super::sessions::Session;
use super::source::{Listener, Source};
use super::stateless::{self, Step};
use super::{Caller, stateful};
use crate::app::App;

/// Longest line that is read, in bytes.
const LONGEST_LINE: u64 = 16 * 1024 * 1024;

/// Messages that may wait to be written.
const MOST_WAITING: usize = 256;

/// Serves one client until it closes `input`, and what it has asked for is answered or `grace`
/// is over; or until `shutdown` resolves.
///
/// # Errors
/// When a stream breaks.
pub(crate) async fn serve(
    app: &App,
    caller: Caller,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let (sender, messages) = mpsc::channel(MOST_WAITING);
    let client = Client {
        app: app.clone(),
        caller,
        out: sender,
        state: Arc::default(),
    };
    let reading = async {
        let mut tasks = JoinSet::new();
        let mut streams = JoinSet::new();
        let outcome = client.read(input, &mut tasks, &mut streams).await;
        let answered = async { while tasks.join_next().await.is_some() {} };
        // What takes longer is given up.
        drop(tokio::time::timeout(grace, answered).await);
        // The writer ends when nobody can say anything any more.
        drop(client);
        outcome
    };
    tokio::select! {
        outcome = async { tokio::try_join!(reading, write(output, messages)) } => outcome.map(drop),
        () = shutdown => Ok(()),
    }
}

/// The client at the other end.
struct Client {
    app: App,
    caller: Caller,
    out: mpsc::Sender<Bytes>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Of revisions with a handshake.
    session: Option<Arc<Session>>,
    /// Requests of 2026-07-28 that are being answered, by their ids as they were written.
    running: HashMap<String, AbortHandle>,
}

impl Client {
    /// Reads to the end. `tasks` are answers, `streams` what goes on for ever.
    async fn read(
        &self,
        mut input: impl AsyncBufRead + Unpin,
        tasks: &mut JoinSet<()>,
        streams: &mut JoinSet<()>,
    ) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            // What has ended leaves.
            while tasks.try_join_next().is_some() {}
            let mut limited = (&mut input).take(LONGEST_LINE + 1);
            if limited.read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            if line.len() as u64 > LONGEST_LINE {
                let reason = "a line is longer than 16 MiB";
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
            }
            let text = String::from_utf8_lossy(&line);
            if text.trim().is_empty() {
                continue;
            }
            match Inbound::parse(&text) {
                Ok(inbound) => self.take(inbound, tasks, streams).await,
                Err(unreadable) => {
                    let id = unreadable.id.as_deref();
                    let error = message::response(id, &Err(unreadable.error));
                    drop(self.out.send(error).await);
                }
            }
        }
    }

    /// Takes one message. Requests are answered side by side.
    async fn take(&self, inbound: Inbound, tasks: &mut JoinSet<()>, streams: &mut JoinSet<()>) {
        let session = self.state.lock().session.clone();
        let request = match inbound {
            Inbound::Request(request) => request,
            Inbound::Notification { method, params }
                if method == "notifications/cancelled" && session.is_none() =>
            {
                let running = params
                    .get("requestId")
                    .and_then(|id| self.state.lock().running.remove(id.get()));
                if let Some(running) = running {
                    running.abort();
                }
                return;
            }
            other => {
                if let Some(session) = session {
                    stateful::hear(&session, other);
                }
                return;
            }
        };
        if is_stateless(&request) {
            let id = request.id.get().to_owned();
            let is_stream = request.method == "subscriptions/listen";
            let task = answer_stateless(
                self.app.clone(),
                self.caller.clone(),
                self.out.clone(),
                request,
            );
            let set = if is_stream { streams } else { tasks };
            let handle = set.spawn(task);
            let mut state = self.state.lock();
            state.running.retain(|_, running| !running.is_finished());
            state.running.insert(id, handle);
            return;
        }
        match (session, request.method.as_str()) {
            (None, "initialize") => self.initialize(&request, streams).await,
            (None, "ping") => self.say(&request, &message::raw(&json!({}))).await,
            (None, _) => {
                let error = RpcError::new(INVALID_REQUEST, "Begin with initialize");
                self.say(&request, &Err(error)).await;
            }
            (Some(session), _) => {
                let (app, caller) = (self.app.clone(), self.caller.clone());
                let out = self.out.clone();
                tasks.spawn(async move {
                    let outcome = stateful::of_session(&app, &session, &request).await;
                    if let Some(outcome) = outcome {
                        let answer = message::response(Some(&request.id), &outcome);
                        drop(out.send(answer).await);
                        return;
                    }
                    let answering =
                        stateful::Answering::start(&app, &caller, &session, request, true);
                    pour(answering, &out).await;
                });
            }
        }
    }

    async fn say(
        &self,
        request: &Request,
        outcome: &Result<Box<serde_json::value::RawValue>, RpcError>,
    ) {
        let answer = message::response(Some(&request.id), outcome);
        drop(self.out.send(answer).await);
    }

    async fn initialize(&self, request: &Request, streams: &mut JoinSet<()>) {
        let (session, result) = match stateful::initialize(&self.app, &self.caller, request) {
            Ok(opened) => opened,
            Err(error) => return self.say(request, &Err(error)).await,
        };
        self.say(request, &Ok(result)).await;
        let listener = Listener::of_session(&self.app, &session);
        self.state.lock().session = Some(session);
        let out = self.out.clone();
        streams.spawn(async move { pour(listener, &out).await });
    }
}

/// Whether a request is of a revision without handshake.
fn is_stateless(request: &Request) -> bool {
    if request.method == "server/discover" {
        return true;
    }
    let meta = request.meta();
    let version = meta.get(message::PROTOCOL_VERSION);
    let version = version.and_then(|it| serde_json::from_str::<String>(it.get()).ok());
    version.is_some_and(|version| {
        let known = version.parse::<ProtocolVersion>();
        known.map_or(true, |known| known.supports(Feature::RequestMetadata))
    })
}

async fn answer_stateless(app: App, caller: Caller, out: mpsc::Sender<Bytes>, request: Request) {
    let request = Arc::new(request);
    let fail = async |error: RpcError| {
        drop(
            out.send(message::response(Some(&request.id), &Err(error)))
                .await,
        );
    };
    let requester = match stateless::requester(&app, &request, true, |_, _| Ok(())) {
        Ok(requester) => requester,
        Err(error) => return fail(error).await,
    };
    if request.method == "subscriptions/listen" {
        match stateless::listen(&app, &request).await {
            Ok((first, listener)) => {
                drop(out.send(first).await);
                pour(listener, &out).await;
            }
            Err(error) => fail(error).await,
        }
        return;
    }
    match stateless::Answering::start(&app, &caller, &request, requester) {
        Ok(mut answering) => loop {
            match answering.step().await {
                Step::Notice(notice) => drop(out.send(notice).await),
                Step::Done(outcome) => {
                    let answer = message::response(Some(&request.id), &outcome);
                    drop(out.send(answer).await);
                    return;
                }
            }
        },
        Err(error) => fail(error).await,
    }
}

async fn pour(mut source: impl Source, out: &mpsc::Sender<Bytes>) {
    while let Some(message) = source.next().await {
        if out.send(message).await.is_err() {
            return;
        }
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    while let Some(message) = messages.recv().await {
        // Lines of its own a message can only have between its tokens.
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let mut line: Vec<u8> = message.to_vec();
        for byte in line.iter_mut().filter(|byte| is_break(byte)) {
            *byte = b' ';
        }
        line.push(b'\n');
        output.write_all(&line).await?;
        if messages.is_empty() {
            output.flush().await?;
        }
    }
    Ok(())
}
