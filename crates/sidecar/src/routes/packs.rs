//! Routes under `/api/v1/packs`: the tool packs and their stored data.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillion_core::pack::{PackContents, StoredItems};
use pillion_core::tool::ToolOrigin;
use pillion_wire::{
    PackEntry, PackList, StoredItemEntry, StoredItemKind, StoredItemList, StoredItemRemoved, route,
};

use super::parameters::Parameters;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::visibility::Visibility;
use pillion_management::error::{InternalError, NOT_FOUND, Result, route_error};
use pillion_management::page::PageQuery;

route_error! {
    /// The reason why the stored entries of a pack are not listed or removed.
    #[derive(Debug, thiserror::Error)]
    enum PackError {
        #[error("The path is not valid UTF-8")]
        InvalidPath => NOT_FOUND,
        #[error("There is no pack '{pack}' that stores entries of the kind '{kind}'")]
        UnknownKind { pack: String, kind: String } => NOT_FOUND,
        #[error("The pack '{pack}' stores no entry '{name}' of the kind '{kind}'")]
        UnknownItem { pack: String, kind: String, name: String } => NOT_FOUND,
    }
}

/// List the packs and the number of their stored entries.
///
/// A token sees the packs that have a tool the token may call.
#[utoipa::path(
    get,
    path = route::LIST_PACKS.path,
    responses(
        (status = 200, description = "The packs", body = PackList),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
) -> Result<Json<PackList>> {
    let visibility = Visibility::new(grant.tools);
    let mut packs = Vec::new();
    for pack in app.visible_packs(&visibility).iter() {
        packs.push(build_entry(pack, &visibility).await?);
    }
    Ok(Json(PackList {
        success: true,
        packs,
    }))
}

/// List the stored entries of a pack, by kind.
///
/// Requests over TCP need a token with the scope `admin`.
#[utoipa::path(
    get,
    path = route::LIST_PACK_ITEMS.path,
    operation_id = "kept",
    params(
        ("pack" = String, Path, description = "The pack's name"),
        ("kind" = String, Path, description = "The kind of stored entries, such as `scenes`"),
        PageQuery,
    ),
    responses(
        (status = 200, description = "A page of entries, ordered by name", body = StoredItemList),
        (status = 400, description = "A parameter is invalid"),
        (status = 404, description = "Pack not found, or the pack does not store this kind"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(super) async fn list_items(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: Result<Path<(String, String)>, PathRejection>,
    Parameters(page): Parameters<PageQuery>,
) -> Result<Json<StoredItemList>> {
    let Path((pack, kind)) = path.map_err(|_| PackError::InvalidPath)?;
    let items = find_stored_items(&app, grant, &pack, &kind)?;
    let page_request = page.request()?;
    let previous_name = page_request.after.as_ref().map(|cursor| cursor.as_str());
    let page_items = items.list(previous_name, page_request.limit).await?;
    let last_item = page_items
        .last()
        .filter(|_| page_items.len() >= page_request.limit as usize);
    let next = match last_item {
        Some(item) if !items.list(Some(&item.name), 1).await?.is_empty() => Some(item.name.clone()),
        _ => None,
    };
    let entries = page_items.into_iter().map(|item| StoredItemEntry {
        name: item.name,
        details: item.facts,
    });
    Ok(Json(StoredItemList {
        success: true,
        items: entries.collect(),
        next,
    }))
}

/// Remove a stored entry of a pack.
///
/// Notifies subscribers of the resources that come from the entry. Requests over TCP need a token
/// with the scope `admin`.
#[utoipa::path(
    delete,
    path = route::REMOVE_PACK_ITEM.path,
    params(
        ("pack" = String, Path, description = "The pack's name"),
        ("kind" = String, Path, description = "The kind of stored entries, such as `scenes`"),
        ("name" = String, Path, description = "The entry's name, percent-encoded", min_length = 1),
    ),
    responses(
        (status = 200, description = "The entry is removed", body = StoredItemRemoved),
        (status = 400, description = "The name is invalid"),
        (status = 404, description = "Entry not found"),
        (status = 503, description = "The store is not writable"),
    )
)]
pub(super) async fn remove(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Result<Json<StoredItemRemoved>> {
    let Path((pack, kind, name)) = path.map_err(|_| PackError::InvalidPath)?;
    let items = find_stored_items(&app, grant, &pack, &kind)?;
    let removed_name = name.clone();
    // The removal completes even if the client disconnects, so that subscribers are notified.
    let remove_task = tokio::spawn(async move { items.remove(&name).await });
    let was_removed = remove_task.await.map_err(|_| InternalError)??;
    if !was_removed {
        let name = truncate_input(&removed_name);
        return Err(PackError::UnknownItem { pack, kind, name }.into());
    }
    tracing::info!(
        pack,
        kind,
        name = removed_name,
        "Removed a stored entry of a pack"
    );
    Ok(Json(StoredItemRemoved {
        success: true,
        removed: removed_name,
    }))
}

async fn build_entry(pack: &PackContents, visibility: &Visibility) -> Result<PackEntry> {
    let is_visible = |tool: &&str| visibility.is_name_visible(tool, tool, &ToolOrigin::Native);
    let names = pack.tools().iter().map(|tool| tool.as_str());
    let tools = names.filter(is_visible);
    let mut kinds = Vec::new();
    for items in pack.stored_items() {
        kinds.push(StoredItemKind {
            kind: items.kind().to_owned(),
            count: items.count().await?,
            max: items.max_items(),
        });
    }
    let templates = pack.templates().into_iter();
    let streams = pack.streams().iter();
    Ok(PackEntry {
        name: pack.name().to_owned(),
        tools: tools.map(str::to_owned).collect(),
        resources: templates.map(|template| template.uri_template).collect(),
        streams: streams.map(|stream| stream.name().to_owned()).collect(),
        stored_items: kinds,
    })
}

/// Returns the [`StoredItems`] of the kind `kind`, if the client may see the pack.
fn find_stored_items(
    app: &App,
    grant: AccessGrant,
    pack: &str,
    kind: &str,
) -> Result<Arc<dyn StoredItems>, PackError> {
    let packs = app.visible_packs(&Visibility::new(grant.tools));
    let items = packs.get(pack).and_then(|pack| pack.stored_items_of(kind));
    items.cloned().ok_or_else(|| PackError::UnknownKind {
        pack: truncate_input(pack),
        kind: truncate_input(kind),
    })
}
