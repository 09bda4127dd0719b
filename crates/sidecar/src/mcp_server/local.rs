//! Resources of packs, which this process has itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pillion_core::mcp::RpcError;
use pillion_core::pack::{ChangeListener, Reader, ResourceBody, ResourceChange, without_query};
use pillion_core::tool::ErrorCode;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Caller;
use super::catalog::{Kind, not_found};
use super::link::Link;
use super::listening::Change;
use super::message::{INTERNAL_ERROR, Members, Request, raw};
use super::subscriptions::Subscribed;
use crate::app::App;

const UPDATED: &str = "notifications/resources/updated";

/// The part of a list that packs have.
pub(super) async fn list(app: &App, caller: &Caller, kind: Kind) -> Vec<Members> {
    match kind {
        Kind::Prompts => Vec::new(),
        Kind::Resources => entries(&app.packs().resources(reader(caller)).await),
        Kind::Templates => entries(&app.packs().templates()),
    }
}

fn entries(list: &[impl Serialize]) -> Vec<Members> {
    let entries = list
        .iter()
        .filter_map(|entry| serde_json::from_value(json!(entry)).ok());
    entries.collect()
}

fn reader(caller: &Caller) -> Reader<'_> {
    Reader {
        context: &caller.context,
        confined_to: caller.visibility.only_user(),
    }
}

/// `ReadResourceResult`, if the resource is a pack's.
pub(super) async fn read(
    app: &App,
    caller: &Caller,
    request: &Request,
    link: &Link,
) -> Result<Option<Box<RawValue>>, RpcError> {
    let uri = request.text("uri")?;
    let Some(provider) = app.packs().provider_of(&uri) else {
        return Ok(None);
    };
    let contents = provider.read(&uri, reader(caller)).await;
    let contents = contents.map_err(|error| match error.code {
        ErrorCode::NotFound => not_found(&uri, link),
        _ => RpcError::new(INTERNAL_ERROR, error.message),
    })?;
    let mut written = json!({"uri": uri, "mimeType": contents.mime_type});
    match contents.body {
        ResourceBody::Text(text) => written["text"] = json!(text),
        ResourceBody::Bytes(bytes) => written["blob"] = json!(STANDARD.encode(bytes)),
        _ => return Err(RpcError::new(INTERNAL_ERROR, "The contents have no form")),
    }
    raw(&json!({"contents": [written]})).map(Some)
}

/// `CompleteResult` for a parameter of a pack's template: nothing is known of it.
pub(super) fn complete(app: &App, uri: &str) -> Option<Result<Box<RawValue>, RpcError>> {
    let is_template = || {
        let templates = app.packs().templates();
        templates
            .iter()
            .any(|template| template.uri_template == uri)
    };
    let is_local = app.packs().provider_of(uri).is_some() || is_template();
    is_local.then(|| raw(&json!({"completion": {"values": [], "hasMore": false}})))
}

/// Subscribes to a resource, if it is a pack's: `hear` gets the notices until the subscription is
/// dropped.
pub(super) fn subscribe(
    app: &App,
    uri: &str,
    hear: impl Fn(&str, &RawValue) + Send + 'static,
) -> Option<Result<Subscribed, RpcError>> {
    let provider = app.packs().provider_of(uri)?;
    let params = match raw(&json!({"uri": uri})) {
        Ok(params) => params,
        Err(error) => return Some(Err(error)),
    };
    let (changes, uri) = (provider.changes(), uri.to_owned());
    Some(Ok(Subscribed::new(tokio::spawn(async move {
        let Some(mut changes) = changes else {
            return std::future::pending().await;
        };
        while let Some(change) = changes.next().await {
            if concerns(&change, &uri) {
                hear(UPDATED, &params);
            }
        }
    }))))
}

/// Whether a change may have made other contents of the resource of that URI.
fn concerns(change: &ResourceChange, uri: &str) -> bool {
    match change {
        ResourceChange::Updated(changed) => changed == uri || changed == without_query(uri).0,
        ResourceChange::Missed => true,
        _ => false,
    }
}

/// Hears of changes of the packs' lists.
#[derive(Debug)]
pub(super) struct LocalEar(Vec<ChangeListener>);

impl LocalEar {
    pub(super) fn new(app: &App) -> Self {
        let providers = app.packs().providers().iter();
        Self(
            providers
                .filter_map(|provider| provider.changes())
                .collect(),
        )
    }

    /// The next change. Its future may be dropped, and nothing is lost.
    pub(super) async fn next(&mut self) -> Change {
        loop {
            if self.0.is_empty() {
                return std::future::pending().await;
            }
            let next = self.0.iter_mut().map(|changes| Box::pin(changes.next()));
            let (change, place, _) = futures_util::future::select_all(next).await;
            match change {
                Some(ResourceChange::ListChanged | ResourceChange::Missed) => {
                    return super::listening::RESOURCES_CHANGED;
                }
                Some(_) => {}
                None => drop(self.0.swap_remove(place)),
            }
        }
    }
}
