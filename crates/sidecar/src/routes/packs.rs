//! Routes under `/api/v1/packs`: the tool packs and their stored data.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillion_core::pack::{Keeping, PackContents};
use pillion_core::tool::ToolOrigin;
use pillion_wire::{KeptEntry, KeptKind, KeptList, KeptRemoved, PackEntry, PackList};

use super::error::RequestError;
use super::page::WantedPage;
use super::parameters::Parameters;
use crate::access::Grant;
use crate::app::App;
use crate::visibility::Visibility;

/// Lists the packs and the amount of data that each pack stores.
#[utoipa::path(
    get,
    path = "/api/v1/packs/",
    tag = "packs",
    summary = "List the packs, and how much each keeps",
    description = "A token sees the packs of which it may use a tool.",
    responses(
        (status = 200, description = "The packs", body = PackList),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(super) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
) -> Result<Json<PackList>, RequestError> {
    let visibility = Visibility::of(grant.tools);
    let mut packs = Vec::new();
    for pack in app.packs_for(&visibility).iter() {
        packs.push(entry(pack, &visibility).await?);
    }
    Ok(Json(PackList {
        success: true,
        packs,
    }))
}

/// Lists the stored entries of one kind.
#[utoipa::path(
    get,
    path = "/api/v1/packs/{pack}/{kind}",
    tag = "packs",
    operation_id = "kept",
    summary = "List what a pack keeps of one kind",
    description = "Over TCP it needs a token of scope `admin`.",
    params(
        ("pack" = String, Path, description = "The pack's name"),
        ("kind" = String, Path, description = "The kind, such as `scenes`"),
        WantedPage,
    ),
    responses(
        (status = 200, description = "A page of what is kept, by name", body = KeptList),
        (status = 400, description = "A parameter is not what it can be"),
        (status = 404, description = "There is no such pack, or it keeps nothing of that kind"),
        (status = 503, description = "The store cannot be read"),
    )
)]
pub(super) async fn kept(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
    path: Result<Path<(String, String)>, PathRejection>,
    Parameters(page): Parameters<WantedPage>,
) -> Result<Json<KeptList>, RequestError> {
    let Path((pack, kind)) = path.map_err(|_| RequestError::UnknownKind)?;
    let keeping = keeping(&app, grant, &pack, &kind)?;
    let page = page.request()?;
    let after = page.after.as_ref().map(|after| after.as_str());
    let kept = keeping.list(after, page.limit).await?;
    let last = kept.last().filter(|_| kept.len() >= page.limit as usize);
    let next = match last {
        Some(last) if !keeping.list(Some(&last.name), 1).await?.is_empty() => {
            Some(last.name.clone())
        }
        _ => None,
    };
    let entries = kept.into_iter().map(|kept| KeptEntry {
        name: kept.name,
        facts: kept.facts,
    });
    Ok(Json(KeptList {
        success: true,
        kept: entries.collect(),
        next,
    }))
}

/// Deletes a stored entry of a pack.
#[utoipa::path(
    delete,
    path = "/api/v1/packs/{pack}/{kind}/{name}",
    tag = "packs",
    summary = "Remove something that a pack keeps",
    description = "Whoever has subscribed to a resource that is made of it is told. Over TCP it needs a token of scope `admin`.",
    params(
        ("pack" = String, Path, description = "The pack's name"),
        ("kind" = String, Path, description = "The kind, such as `scenes`"),
        ("name" = String, Path, description = "Its name, percent-encoded", min_length = 1),
    ),
    responses(
        (status = 200, description = "It is gone", body = KeptRemoved),
        (status = 400, description = "The store cannot have such a name"),
        (status = 404, description = "There is nothing of that name"),
        (status = 503, description = "The store cannot be written to"),
    )
)]
pub(super) async fn remove(
    State(app): State<App>,
    Extension(grant): Extension<Grant>,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Result<Json<KeptRemoved>, RequestError> {
    let Path((pack, kind, name)) = path.map_err(|_| RequestError::NotKept)?;
    let keeping = keeping(&app, grant, &pack, &kind)?;
    let removed = name.clone();
    // Runs to completion even if the client disconnects, so that subscribers are notified.
    let removing = tokio::spawn(async move { keeping.remove(&name).await });
    let was_there = removing.await.map_err(|_| RequestError::Panicked)??;
    if !was_there {
        return Err(RequestError::NotKept);
    }
    tracing::info!(pack, kind, name = removed, "What a pack kept is removed");
    Ok(Json(KeptRemoved {
        success: true,
        removed,
    }))
}

async fn entry(pack: &PackContents, visibility: &Visibility) -> Result<PackEntry, RequestError> {
    let tools = pack.tools().iter().map(|tool| tool.as_str());
    let tools = tools.filter(|tool| visibility.admits_named(tool, tool, &ToolOrigin::Native));
    let mut keeps = Vec::new();
    for keeping in pack.keeps() {
        keeps.push(KeptKind {
            kind: keeping.kind().to_owned(),
            number: keeping.count().await?,
            most: keeping.most(),
        });
    }
    let templates = pack.templates().into_iter();
    let streams = pack.streams().iter();
    Ok(PackEntry {
        name: pack.name().to_owned(),
        tools: tools.map(str::to_owned).collect(),
        resources: templates.map(|template| template.uri_template).collect(),
        streams: streams.map(|stream| stream.name().to_owned()).collect(),
        keeps,
    })
}

/// Returns the storage of a kind, if the client may see the pack.
fn keeping(
    app: &App,
    grant: Grant,
    pack: &str,
    kind: &str,
) -> Result<Arc<dyn Keeping>, RequestError> {
    let packs = app.packs_for(&Visibility::of(grant.tools));
    let keeping = packs.get(pack).and_then(|pack| pack.keeping(kind));
    keeping.cloned().ok_or(RequestError::UnknownKind)
}
