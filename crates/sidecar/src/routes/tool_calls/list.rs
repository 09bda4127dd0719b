use axum::extract::State;
use axum::{Extension, Json};
use pillion_wire::{ToolCallList, route};

use super::{CallQuery, ServerIds, entry};
use crate::app::App;
use crate::routes::error::RequestError;
use crate::routes::page::{PageQuery, convert_records};
use crate::routes::parameters::Parameters;
use crate::routes::store::store_of;
use pillion_gateway::access::AccessGrant;

/// List recorded calls, newest first.
///
/// A token for one user sees only the calls in which that user is verified.
#[utoipa::path(
    get,
    path = route::LIST_TOOL_CALLS.path,
    params(CallQuery, PageQuery),
    responses(
        (status = 200, description = "A page of calls", body = ToolCallList),
        (status = 400, description = "A parameter is invalid"),
        (status = 403, description = "The token is for another user"),
        (status = 503, description = "The store is not readable"),
    )
)]
pub(in crate::routes) async fn list(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    Parameters(query): Parameters<CallQuery>,
    Parameters(page): Parameters<PageQuery>,
) -> Result<Json<ToolCallList>, RequestError> {
    let servers = ServerIds::of(&app);
    let (filter, page) = (query.filter(&grant, &servers)?, page.request()?);
    let page = store_of(&app)?.calls(&filter, &page).await?;
    let to_entry = move |call| entry::of(call, &servers);
    let calls = convert_records(&grant, page.items, entry::bytes, to_entry);
    Ok(Json(ToolCallList {
        success: true,
        calls: calls.await,
        next: page.next.map(|cursor| cursor.to_string()),
    }))
}
