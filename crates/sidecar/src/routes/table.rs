//! The table of the routes.

use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use super::{
    approvals, chat, completions, events, executors, formats, health, messages, metrics, models,
    packs, pins, providers, ready, results, schema_check, servers, status, streams, tool_calls,
    tool_keys, tools, workers,
};
use crate::app::App;

/// Returns the handlers of the routes that the OpenAPI document describes, one entry for each path.
/// A handler's `utoipa::path` attribute has its method, its path and its description.
pub(super) fn documented_routes() -> Vec<UtoipaMethodRouter<App>> {
    vec![
        routes!(tools::list::list),
        routes!(tools::schemas::schemas),
        routes!(tools::show::show),
        routes!(tools::execute::execute),
        routes!(tools::batch_execute::batch_execute),
        routes!(tool_calls::list::list),
        routes!(tool_calls::statistics::statistics),
        routes!(tool_calls::show::show),
        routes!(schema_check::check),
        routes!(formats::tools),
        routes!(formats::tool_calls),
        routes!(formats::text),
        routes!(formats::messages),
        routes!(formats::results),
        routes!(executors::open),
        routes!(workers::connect, workers::list),
        routes!(results::fetch),
        routes!(approvals::list::list),
        routes!(approvals::show::show),
        routes!(approvals::decide::approve),
        routes!(approvals::decide::deny),
        routes!(chat::begin, chat::list),
        routes!(chat::go_on, chat::show, chat::forget),
        routes!(completions::complete),
        routes!(completions::models),
        routes!(completions::model),
        routes!(messages::create),
        routes!(models::list),
        routes!(models::show),
        routes!(providers::list),
        routes!(providers::set_key, providers::remove_key),
        routes!(tool_keys::list),
        routes!(tool_keys::set, tool_keys::remove),
        routes!(events::events),
        routes!(streams::list),
        routes!(streams::listen),
        routes!(packs::list),
        routes!(packs::list_items),
        routes!(packs::remove),
        routes!(pins::list),
        routes!(pins::show),
        routes!(pins::accept),
        routes!(servers::list::list, servers::add::add),
        routes!(servers::test::test_unsaved),
        routes!(servers::refresh::refresh),
        routes!(
            servers::show::show,
            servers::change::replace,
            servers::change::patch,
            servers::remove::remove
        ),
        routes!(servers::change::enable),
        routes!(servers::change::disable),
        routes!(servers::change::reconnect),
        routes!(servers::connection::connect),
        routes!(servers::connection::disconnect),
        routes!(servers::credentials::list),
        routes!(servers::credentials::set, servers::credentials::remove),
        routes!(servers::tools::tools),
        routes!(servers::resources::list),
        routes!(servers::resources::read),
        routes!(servers::test::test),
        routes!(servers::refresh::rotate),
        routes!(health::health),
        routes!(ready::ready),
        routes!(metrics::metrics),
        routes!(status::status),
    ]
}
