//! Everything under `/api/v1/tool-calls`: the call log (requirement F4).

mod entry;
pub(super) mod list;
pub(super) mod show;
pub(super) mod statistics;

use std::sync::Arc;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use jiff::Timestamp as Moment;
use pillion_core::store::{
    CallFilter, CallStatus, Cursor, PageRequest, Store, StoreError, Timestamp,
};
use serde::Deserialize;

use super::error::RequestError;
use crate::app::App;

/// Which calls, and which of their pages.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only calls of tools of this MCP server, by its label.
    server: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// Only calls on behalf of this user.
    user: Option<String>,
    /// Only calls of this status: `pending`, `running`, `success`, `error`, `cancelled`,
    /// `interrupted` or `denied`.
    status: Option<String>,
    /// Only calls that came in at this time (RFC 3339) or later.
    from: Option<String>,
    /// Only calls that came in before this time (RFC 3339).
    until: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most so many calls, 1 to 1000; 50 when it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A [`Wanted`] that makes sense.
pub(super) struct CallQuery {
    filter: CallFilter,
    page: PageRequest,
}

impl FromRequestParts<App> for CallQuery {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, RequestError> {
        let query = Query::from_request_parts(parts, app).await;
        let Query(wanted): Query<Wanted> = query.map_err(|_| RequestError::BadQuery)?;
        let invalid = |name| RequestError::BadParameter { name };
        let status = match wanted.status {
            None => None,
            Some(name) => Some(CallStatus::from_name(&name).ok_or_else(|| invalid("status"))?),
        };
        let limit = wanted.limit.unwrap_or(PageRequest::default().limit);
        if !(1..=PageRequest::LARGEST).contains(&limit) {
            return Err(invalid("limit"));
        }
        Ok(Self {
            filter: CallFilter {
                server: wanted.server,
                tool: wanted.tool,
                user: wanted.user,
                status,
                from: moment(wanted.from.as_deref()).ok_or_else(|| invalid("from"))?,
                until: moment(wanted.until.as_deref()).ok_or_else(|| invalid("until"))?,
            },
            page: PageRequest {
                after: wanted.after.map(Cursor::new),
                limit,
            },
        })
    }
}

/// A time, if it is given; none when it is no time.
fn moment(text: Option<&str>) -> Option<Option<Timestamp>> {
    let Some(text) = text else {
        return Some(None);
    };
    let moment: Moment = text.parse().ok()?;
    Some(Some(Timestamp::from_millis(moment.as_millisecond())))
}

/// The store, where the sidecar has one.
fn store_of(app: &App) -> Result<Arc<dyn Store>, RequestError> {
    app.store().ok_or(RequestError::NoStore)
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "The store failed");
        Self::Store(error)
    }
}
