//! The table of the routes.

use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use super::{
    approvals, chat, completions, console, events, executors, formats, messages, models,
    operations, packs, pins, providers, results, schema_check, servers, tool_calls, tool_keys,
    tools, workers,
};
use crate::app::App;

/// Returns the handlers of the routes that the OpenAPI document describes, one entry for each path.
/// A handler's `utoipa::path` attribute has its method and its path; the comment before the
/// attribute is the summary and the description in the document.
pub(super) fn documented_routes() -> impl Iterator<Item = UtoipaMethodRouter<App>> {
    let groups = [
        RouteGroup("tools", "").routes(vec![
            routes!(tools::list::list),
            routes!(tools::list::schemas),
            routes!(tools::list::show),
            routes!(tools::execute::execute),
            routes!(tools::execute::batch_execute),
            routes!(schema_check::check),
            routes!(results::fetch),
        ]),
        RouteGroup("tools", "tool_keys_").routes(vec![
            routes!(tool_keys::list),
            routes!(tool_keys::set, tool_keys::remove),
        ]),
        RouteGroup("tool-calls", "").routes(vec![
            routes!(tool_calls::list),
            routes!(tool_calls::statistics),
            routes!(tool_calls::show),
        ]),
        RouteGroup("formats", "").routes(vec![
            routes!(formats::tools),
            routes!(formats::tool_calls),
            routes!(formats::text),
            routes!(formats::messages),
            routes!(formats::results),
        ]),
        RouteGroup("workers", "").routes(vec![
            routes!(executors::open),
            routes!(workers::connect, workers::list),
        ]),
        RouteGroup("approvals", "").routes(vec![
            routes!(approvals::list),
            routes!(approvals::show),
            routes!(approvals::decide::approve),
            routes!(approvals::decide::deny),
        ]),
        RouteGroup("chat", "chat_").routes(vec![
            routes!(chat::begin, chat::list),
            routes!(chat::go_on, chat::show, chat::forget),
            routes!(completions::complete),
            routes!(completions::models),
            routes!(completions::model),
            routes!(messages::create),
        ]),
        RouteGroup("models", "models_").routes(vec![routes!(models::list), routes!(models::show)]),
        RouteGroup("models", "providers_").routes(vec![
            routes!(providers::list),
            routes!(providers::set_key, providers::remove_key),
        ]),
        RouteGroup("events", "").routes(vec![
            routes!(events::events),
            routes!(events::list),
            routes!(events::listen),
        ]),
        RouteGroup("packs", "").routes(vec![
            routes!(packs::list),
            routes!(packs::list_items),
            routes!(packs::remove),
        ]),
        RouteGroup("pins", "").routes(vec![
            routes!(pins::list),
            routes!(pins::show),
            routes!(pins::accept),
            routes!(pins::reject),
        ]),
        RouteGroup("servers", "").routes(vec![
            routes!(servers::definitions::list, servers::definitions::add),
            routes!(servers::test::test_unsaved),
            routes!(servers::refresh::refresh),
            routes!(
                servers::definitions::show,
                servers::definitions::replace,
                servers::definitions::patch,
                servers::definitions::remove
            ),
            routes!(servers::definitions::enable),
            routes!(servers::definitions::disable),
            routes!(servers::connection::reconnect),
            routes!(servers::connection::connect),
            routes!(servers::connection::disconnect),
            routes!(servers::tools::tools),
            routes!(servers::test::test),
            routes!(servers::refresh::rotate),
        ]),
        RouteGroup("servers", "credentials_").routes(vec![
            routes!(servers::credentials::list),
            routes!(servers::credentials::set, servers::credentials::remove),
        ]),
        RouteGroup("servers", "resources_").routes(vec![
            routes!(servers::resources::list),
            routes!(servers::resources::read),
        ]),
        RouteGroup("operations", "").routes(vec![
            routes!(operations::health),
            routes!(operations::ready),
            routes!(operations::metrics),
            routes!(operations::status),
            routes!(console::create_link),
        ]),
    ];
    groups.into_iter().flatten()
}

/// A group of operations: the tag, and the prefix of the operation IDs. Without the tag and the
/// prefix, the operation IDs are the names of the handlers, which are not unique.
struct RouteGroup(&'static str, &'static str);

impl RouteGroup {
    /// Adds the group's tag and the complete operation ID to each operation of `routes`.
    fn routes(self, mut routes: Vec<UtoipaMethodRouter<App>>) -> Vec<UtoipaMethodRouter<App>> {
        let Self(tag, prefix) = self;
        let items = routes
            .iter_mut()
            .flat_map(|(_, paths, _)| paths.paths.values_mut());
        for operation in items.flat_map(operations) {
            let handler = operation.operation_id.take().unwrap_or_default();
            operation.operation_id = Some(format!("{}_{prefix}{handler}", tag.replace('-', "_")));
            operation.tags = Some(vec![tag.to_owned()]);
            // Unwraps the lines of the handler's comment, and removes the full stop of the summary.
            if let Some(summary) = &mut operation.summary {
                *summary = summary.replace('\n', " ").trim_end_matches('.').to_owned();
            }
            if let Some(description) = &mut operation.description {
                *description = description.replace('\n', " ");
            }
        }
        routes
    }
}

/// Returns the operations of a path.
pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let operations = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ];
    operations.into_iter().flatten()
}
