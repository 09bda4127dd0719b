//! The resources of packs, which this process serves itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pillion_core::pack::{Packs, ResourceBody, ResourceChange, ResourceReader, split_query};
use pillion_core::tool::ErrorCode;
use pillion_mcp_client::RpcError;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::Caller;
use super::list_kind::ListKind;
use super::resource_not_found::{resource_not_found, resource_not_found_for};
use pillion_gateway::calling_client::link::ClientLink;
use pillion_gateway::calling_client::message::{INTERNAL_ERROR, Request, raw};

const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// Returns the entries of the given kind in the packs that the caller may see.
pub(super) async fn list(caller: &Caller, kind: ListKind) -> Vec<Box<RawValue>> {
    match kind {
        ListKind::Prompts => Vec::new(),
        ListKind::Resources => serialize_entries(
            &find_visible_packs(caller)
                .resources(create_reader(caller))
                .await,
        ),
        ListKind::Templates => serialize_entries(&find_visible_packs(caller).templates()),
    }
}

fn serialize_entries(list: &[impl Serialize]) -> Vec<Box<RawValue>> {
    list.iter().filter_map(|entry| raw(entry).ok()).collect()
}

/// Returns the packs that the caller may see. A URI of a hidden pack is never forwarded to a
/// server.
fn find_visible_packs(caller: &Caller) -> Packs {
    caller.mcp.gateway.visible_packs(&caller.visibility)
}

fn create_reader(caller: &Caller) -> ResourceReader<'_> {
    ResourceReader {
        context: &caller.context,
        only_user: caller.visibility.only_user(),
    }
}

/// Returns the `ReadResourceResult` if the resource belongs to a pack.
pub(super) async fn read(
    caller: &Caller,
    request: &Request,
    link: &ClientLink,
) -> Result<Option<Box<RawValue>>, RpcError> {
    let uri = request.text("uri")?;
    if caller.mcp.gateway.packs().provider_of(&uri).is_none() {
        return Ok(None);
    }
    let packs = find_visible_packs(caller);
    let provider = packs
        .provider_of(&uri)
        .ok_or_else(|| resource_not_found_for(link, &uri))?;
    let read_result = provider.read(&uri, create_reader(caller)).await;
    let contents = read_result.map_err(|error| match error.code {
        ErrorCode::NotFound => resource_not_found_for(link, &uri),
        _ => RpcError::new(INTERNAL_ERROR, error.message),
    })?;
    let mut content = json!({"uri": uri, "mimeType": contents.mime_type});
    match contents.body {
        ResourceBody::Text(text) => content["text"] = json!(text),
        ResourceBody::Bytes(bytes) => content["blob"] = json!(STANDARD.encode(bytes)),
        _ => {
            let reason =
                format!("The contents of the resource '{uri}' are neither text nor binary");
            return Err(RpcError::new(INTERNAL_ERROR, reason));
        }
    }
    raw(&json!({"contents": [content]})).map(Some)
}

/// Returns an empty `CompleteResult` for a parameter of a pack's template, because packs suggest no
/// values. Returns `None` if the template belongs to no pack.
pub(super) fn complete(caller: &Caller, uri: &str) -> Option<Result<Box<RawValue>, RpcError>> {
    let packs = find_visible_packs(caller);
    let is_template = || {
        let templates = packs.templates();
        templates.iter().any(|entry| entry.uri_template == uri)
    };
    let is_local = packs.provider_of(uri).is_some() || is_template();
    is_local.then(|| raw(&json!({"completion": {"values": [], "hasMore": false}})))
}

/// Subscribes to a resource if it belongs to a pack. `notify` receives the notifications until the
/// subscription is dropped.
pub(super) fn subscribe(
    caller: &Caller,
    uri: &str,
    notify: impl Fn(&str, &RawValue) + Send + 'static,
) -> Option<Result<AbortOnDropHandle<()>, RpcError>> {
    caller.mcp.gateway.packs().provider_of(uri)?;
    let packs = find_visible_packs(caller);
    let Some(provider) = packs.provider_of(uri) else {
        return Some(Err(resource_not_found(uri)));
    };
    let params = match raw(&json!({"uri": uri})) {
        Ok(params) => params,
        Err(error) => return Some(Err(error)),
    };
    let (changes, uri) = (provider.changes(), uri.to_owned());
    Some(Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        let Some(mut changes) = changes else {
            return std::future::pending().await;
        };
        while let Some(change) = changes.next().await {
            if is_affected(&change, &uri) {
                notify(RESOURCE_UPDATED, &params);
            }
        }
    }))))
}

/// Returns whether a change may affect the contents of the resource.
fn is_affected(change: &ResourceChange, uri: &str) -> bool {
    match change {
        ResourceChange::Updated(changed) => changed == uri || changed == split_query(uri).0,
        ResourceChange::Missed => true,
        _ => false,
    }
}
