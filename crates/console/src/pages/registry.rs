//! The MCP servers of an MCP registry, which can be installed.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{Markup, html};
use pillion_core::store::Timestamp;
use pillion_core::truncated;
use pillion_gateway::access::Scope;
use pillion_gateway::timestamp::format_timestamp;
use pillion_management::RequestError;
use pillion_management::registry::{
    InstallError, InstallField, InstallMethod, InstallPlan, ListPosition, Registry,
    RegistryDetails, RegistryEntry, RegistryPage, RegistryServer, RegistrySummary, publisher,
};
use pillion_management::servers::{InstallRequest, ServerError, run_to_completion};

use super::{PageResult, redirect_to, require_servers};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Field, FormControl, Page, Tone, badge, card, empty_state, encode_segment, facts, hidden_fields,
    name, notice, time, untrusted, untrusted_beginning, with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum lengths of texts, in bytes, so that a page of hostile entries has less than 60 KB.
const MAX_TITLE_BYTES: usize = 60;
const MAX_DESCRIPTION_BYTES: usize = 150;
const MAX_VERSION_BYTES: usize = 40;
const MAX_ADDRESS_BYTES: usize = 200;
const MAX_SETTINGS_BYTES: usize = 200;
const MAX_LEAD_BYTES: usize = 500;
const MAX_HINT_BYTES: usize = 200;
const MAX_FAILURE_BYTES: usize = 500;

/// Maximum number of remotes, and of packages, on the page of a server.
const MAX_SHOWN_METHODS: usize = 4;

/// Maximum number of choices for which the form has a list, and the maximum length of one. For
/// other choices, the form has a field for text.
const MAX_LISTED_CHOICES: usize = 10;
const MAX_CHOICE_BYTES: usize = 40;

/// The prefix of the names of the form's fields for the values of an installation.
const VALUE_PREFIX: &str = "value-";

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/registry", get(list))
        .route("/registry/server", get(show))
        .route("/registry/install", get(open_form).post(install))
}

/// Returns the URL of a page about a server of the registry.
fn server_url<'a>(
    visitor: &Visitor,
    path: &str,
    server: &'a str,
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let pairs = [("name", server)].into_iter().chain(parameters);
    with_query(&visitor.href(path), pairs)
}

async fn list(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let page = |body| Page::new("Registry", Section::Registry, body).render(&visitor);
    let Some(servers) = &console.servers else {
        let next_step = html! { "Servers of the registry are installed in the store, and this sidecar has none: set " code { "store.location" } "." };
        return Ok(page(plain_card(&empty_state("No store", next_step))));
    };
    let registry = servers.registry();
    if !registry.is_enabled() {
        let next_step = html! { "Set " code { "registry.enabled = true" } " in the configuration file to search MCP servers and to install them." };
        let heading = "The registry is disabled";
        return Ok(page(plain_card(&empty_state(heading, next_step))));
    }
    // Without a search, no request is sent to the registry.
    let search = query.get("q").map(str::trim);
    let results = match search {
        Some(search) => search_results(&visitor, &registry, search, &query).await?,
        None => {
            let all_url = with_query(&visitor.href("registry"), [("q", "")]);
            plain_card(&empty_state(
                "Find MCP servers",
                html! { "Search for a name, or " a href=(all_url) { "list all servers" } "." },
            ))
        }
    };
    let body = html! {
        p .lead { "MCP servers that others have published. The sidecar sends each search to " (name(registry.host())) ". The servers are not reviewed: install only those whose publisher you trust." }
        form .filters method="get" role="search" {
            div .field { label for="q" { "Search" } input #q name="q" type="search" value=(search.unwrap_or_default()) maxlength="100" data-key="/"; }
            button type="submit" { "Search" }
        }
        (results)
    };
    Ok(page(body))
}

fn plain_card(content: &Markup) -> Markup {
    html! { section .card { (content) } }
}

async fn search_results(
    visitor: &Visitor,
    registry: &Registry,
    search: &str,
    query: &FormFields,
) -> Result<Markup> {
    let offset = query.text("offset").and_then(|offset| offset.parse().ok());
    let position = match (query.text("cursor"), offset) {
        (Some(cursor), _) => ListPosition::Cursor(cursor.to_owned()),
        (None, Some(offset)) => ListPosition::Mirror(offset),
        (None, None) => ListPosition::Start,
    };
    let page = registry
        .list(search, &position)
        .await
        .map_err(RequestError::from)?;
    let url = |parameter: Option<(&str, &str)>| {
        let pairs = [("q", search)].into_iter().chain(parameter);
        with_query(&visitor.href("registry"), pairs)
    };
    let next_url = match &page.next {
        Some(ListPosition::Cursor(cursor)) => Some(url(Some(("cursor", cursor.as_str())))),
        Some(ListPosition::Mirror(offset)) => {
            let offset_text = offset.to_string();
            Some(url(Some(("offset", offset_text.as_str()))))
        }
        Some(ListPosition::Start) | None => None,
    };
    let first_url = (position != ListPosition::Start).then(|| url(None));
    Ok(html! {
        (source_notice(page.failure.as_deref(), page.fetched_at))
        section #servers .card {
            (server_table(visitor, &page))
            @if first_url.is_some() || next_url.is_some() {
                nav .pages aria-label="Pages" {
                    span { @if let Some(first_url) = first_url { a href=(first_url) { "← First page" } } }
                    span { @if let Some(next_url) = next_url { a href=(next_url) rel="next" { "Next page →" } } }
                }
            }
        }
        @if page.skipped > 0 {
            p .muted.small { "Entries of this page that are left out, because they are invalid or too large: " (page.skipped) }
        }
    })
}

/// Shows that a page is from the mirror, the reason, and the time of the mirrored response.
fn source_notice(failure: Option<&str>, fetched_at: Option<Timestamp>) -> Markup {
    let source = match fetched_at {
        Some(at) => {
            html! { "This is from the mirror; the registry sent it at " (time(&format_timestamp(at))) "." }
        }
        None => html! { "The mirror is empty." },
    };
    html! {
        @if let Some(failure) = failure {
            (notice(Tone::Warning, html! { (untrusted_beginning(failure, MAX_FAILURE_BYTES)) ". " (source) }))
        }
    }
}

fn server_table(visitor: &Visitor, page: &RegistryPage) -> Markup {
    if page.servers.is_empty() {
        let next_step =
            html! { "Search for another word, such as the name of a product or of its publisher." };
        return empty_state("No servers found", next_step);
    }
    html! {
        div .scroll { table {
            thead { tr { th { "Server" } th { "Publisher" } th { "Description" } th { "Version" } th { "Runs as" } } }
            tbody { @for server in &page.servers { (row(visitor, server)) } }
        } }
    }
}

fn row(visitor: &Visitor, server: &RegistrySummary) -> Markup {
    let title = server
        .title
        .as_deref()
        .filter(|title| !title.trim().is_empty());
    let short_name = short_name(&server.name);
    html! {
        tr data-row {
            th scope="row" {
                a href=(server_url(visitor, "registry/server", &server.name, [])) { (untrusted_beginning(title.unwrap_or(short_name), MAX_TITLE_BYTES)) }
                @if title.is_some() { p .small.muted { (untrusted(short_name)) } }
            }
            td { (untrusted(publisher(&server.name))) }
            td { (untrusted_beginning(&server.description, MAX_DESCRIPTION_BYTES)) }
            td { (untrusted_beginning(&server.version, MAX_VERSION_BYTES)) " " (status(&server.status)) }
            td {
                @for kind in &server.remotes { (untrusted_badge(kind)) " " }
                @for kind in &server.packages { (untrusted_badge(kind)) " " }
            }
        }
    }
}

/// Shows a status other than `active`.
fn status(status: &str) -> Markup {
    let tone = match status {
        "active" => return html! {},
        "deprecated" => Tone::Warning,
        "deleted" => Tone::Bad,
        _ => Tone::Neutral,
    };
    match tone {
        Tone::Neutral => untrusted_badge(status),
        tone => badge(tone, status),
    }
}

/// Shows a word of an entry.
fn untrusted_badge(text: &str) -> Markup {
    html! { span .badge { (untrusted_beginning(text, MAX_VERSION_BYTES)) } }
}

/// Returns a server's name without the namespace of its publisher.
fn short_name(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, name)| name)
}

/// Returns the server that the query or the form names.
async fn find_server(registry: &Registry, fields: &FormFields) -> Result<RegistryDetails> {
    let server_name = fields.text("name").unwrap_or_default();
    let version = fields.text("version");
    let details = registry.find(server_name, version).await;
    Ok(details.map_err(RequestError::from)?)
}

async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let registry = require_servers(&console)?.registry();
    let details = find_server(&registry, &query).await?;
    let server = &details.entry.server;
    let remotes = (0..server.remotes.len()).map(InstallMethod::Remote);
    let packages = (0..server.packages.len()).map(InstallMethod::Package);
    let body = html! {
        @if !server.description.is_empty() { p .lead { (untrusted_beginning(&server.description, MAX_LEAD_BYTES)) } }
        (source_notice(details.failure.as_deref(), Some(details.fetched_at)))
        @if details.entry.status() == "deprecated" || details.entry.status() == "deleted" {
            (notice(Tone::Warning, html! { "The registry says that this version is " (details.entry.status()) "." }))
        }
        (card("The server", None, html! { div .content { (server_facts(&details.entry)) } }))
        (methods(&visitor, &registry, &details.entry, "Remotes", remotes))
        (methods(&visitor, &registry, &details.entry, "Packages", packages))
        (versions(&visitor, &details))
    };
    let page = Page::new(&server.name, Section::Registry, body);
    Ok(page.render(&visitor))
}

fn server_facts(entry: &RegistryEntry) -> Markup {
    let server = &entry.server;
    let text = |text: &Option<String>| {
        let shown_text = text.as_deref().filter(|text| !text.is_empty());
        shown_text.map(|text| untrusted_beginning(text, MAX_ADDRESS_BYTES))
    };
    let repository = server.repository.as_ref();
    let repository_url = repository.and_then(|repository| repository.url.as_deref());
    facts([
        ("Title", text(&server.title)),
        ("Publisher", Some(name(publisher(&server.name)))),
        (
            "Version",
            Some(
                html! { (untrusted_beginning(&server.version, MAX_VERSION_BYTES)) " " (status(entry.status())) },
            ),
        ),
        ("Published", text(&entry.official().published_at)),
        ("Changed", text(&entry.official().updated_at)),
        (
            "Repository",
            repository_url
                .filter(|url| !url.is_empty())
                .map(|url| copyable_text("repository", url)),
        ),
        ("Website", text(&server.website_url)),
    ])
}

/// Shows a short text of an entry with a button that copies it. The text is not a link, because its
/// author would choose the target.
fn copyable_text(id: &str, text: &str) -> Markup {
    html! {
        span #(id) { (untrusted_beginning(text, MAX_ADDRESS_BYTES)) }
        " " button type="button" data-copy=(id) aria-label={ "Copy the " (id) } { "Copy" }
    }
}

/// Shows the remotes or the packages of a server.
fn methods(
    visitor: &Visitor,
    registry: &Registry,
    entry: &RegistryEntry,
    heading: &str,
    methods: impl ExactSizeIterator<Item = InstallMethod>,
) -> Markup {
    let method_count = methods.len();
    if method_count == 0 {
        return html! {};
    }
    let omitted = method_count.saturating_sub(MAX_SHOWN_METHODS);
    let content = html! {
        @for method in methods.take(MAX_SHOWN_METHODS) {
            section .content aria-label=(method) {
                (method_details(visitor, registry, entry, method))
            }
        }
        @if omitted > 0 { div .content { p .muted { "… and " (omitted) " more" } } }
    };
    card(heading, None, content)
}

fn method_details(
    visitor: &Visitor,
    registry: &Registry,
    entry: &RegistryEntry,
    method: InstallMethod,
) -> Markup {
    let server = &entry.server;
    let plan = registry.plan(entry, method);
    let address = match &plan {
        Ok(plan) => plan.address(),
        Err(_) => published_address(server, method),
    };
    let address_label = match method {
        InstallMethod::Remote(_) => "URL",
        InstallMethod::Package(_) if plan.is_ok() => "Command",
        InstallMethod::Package(_) => "Package",
    };
    let settings = plan.as_ref().ok().map(plan_settings);
    let details = facts([
        (
            "Type",
            Some(untrusted_badge(published_type(server, method))),
        ),
        (
            address_label,
            Some(untrusted_beginning(&address, MAX_ADDRESS_BYTES)),
        ),
        ("Values", settings),
    ]);
    let method_text = method.to_string();
    let parameters = [("version", &*server.version), ("method", &*method_text)];
    let install_url = server_url(visitor, "registry/install", &server.name, parameters);
    html! {
        (details)
        @match &plan {
            Ok(_) => {
                @if visitor.may(Scope::Admin) { div { a .button.primary href=(install_url) { "Install …" } } }
            }
            Err(error) => { p .muted { (untrusted_beginning(&error.to_string(), MAX_SETTINGS_BYTES)) } }
        }
    }
}

/// Shows the names of the values that an installation needs.
fn plan_settings(plan: &InstallPlan) -> Markup {
    let field_text = |field: &InstallField| match (field.is_required, field.is_secret) {
        (true, true) => format!("{}, required, secret", field.label),
        (true, false) => format!("{}, required", field.label),
        (false, true) => format!("{}, secret", field.label),
        (false, false) => field.label.clone(),
    };
    let texts: Vec<_> = plan.fields().iter().map(field_text).collect();
    html! {
        @if texts.is_empty() { span .muted { "none" } }
        @else { (untrusted_beginning(&texts.join("; "), MAX_SETTINGS_BYTES)) }
    }
}

/// Returns the URL or the package of an entry that cannot be installed.
fn published_address(server: &RegistryServer, method: InstallMethod) -> String {
    match method {
        InstallMethod::Remote(index) => {
            let remote = server.remotes.get(index);
            remote.map(|remote| remote.url.clone()).unwrap_or_default()
        }
        InstallMethod::Package(index) => {
            let package = server.packages.get(index);
            package.map_or_else(String::new, |package| {
                let version = package.version.as_deref().unwrap_or_default();
                format!("{} {version}", package.identifier)
            })
        }
    }
}

fn published_type(server: &RegistryServer, method: InstallMethod) -> &str {
    let kind = match method {
        InstallMethod::Remote(index) => server.remotes.get(index).map(|remote| &remote.kind),
        InstallMethod::Package(index) => {
            let package = server.packages.get(index);
            package.map(|package| &package.registry_type)
        }
    };
    kind.map(String::as_str).unwrap_or_default()
}

fn versions(visitor: &Visitor, details: &RegistryDetails) -> Markup {
    let server = &details.entry.server;
    if details.versions.len() < 2 {
        return html! {};
    }
    let content = html! {
        div .content { ul {
            @for version in &details.versions {
                li {
                    @if *version == server.version { strong { (untrusted_beginning(version, MAX_VERSION_BYTES)) } }
                    @else { a href=(server_url(visitor, "registry/server", &server.name, [("version", &**version)])) { (untrusted_beginning(version, MAX_VERSION_BYTES)) } }
                }
            }
        } }
    };
    card("Versions", None, content)
}

/// The form that installs a server: what was typed, and why it was rejected.
struct InstallForm<'a> {
    server: &'a RegistryServer,
    method: InstallMethod,
    plan: &'a InstallPlan,
    name: String,
    /// The typed value of each field.
    values: Vec<String>,
    fault: Option<FormFault>,
}

/// The field of the form that was rejected, and the message.
struct FormFault {
    field: FaultyField,
    message: String,
}

#[derive(PartialEq, Eq)]
enum FaultyField {
    Name,
    Value(usize),
    /// The form as a whole.
    Form,
}

impl From<&ServerError> for FormFault {
    fn from(error: &ServerError) -> Self {
        let field = match error {
            ServerError::NameTaken { .. } => FaultyField::Name,
            ServerError::Invalid { key, .. } if key == "name" => FaultyField::Name,
            ServerError::Install(InstallError::Value { index, .. }) => FaultyField::Value(*index),
            _ => FaultyField::Form,
        };
        let message = match error {
            ServerError::Invalid { key, message } if key == "name" => message.clone(),
            _ => error.to_string(),
        };
        Self { field, message }
    }
}

fn parse_method(fields: &FormFields) -> Result<InstallMethod> {
    let method = fields.text("method").and_then(InstallMethod::parse);
    method.ok_or(PageError::NotFound(
        "The server has no such remote or package.",
    ))
}

async fn open_form(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let registry = require_servers(&console)?.registry();
    let method = parse_method(&query)?;
    let details = find_server(&registry, &query).await?;
    let server = &details.entry.server;
    let plan = registry
        .plan(&details.entry, method)
        .map_err(ServerError::from)?;
    let default_value = |field: &InstallField| match field.is_secret {
        true => String::new(),
        false => field.default.clone().unwrap_or_default(),
    };
    let form = InstallForm {
        server,
        method,
        plan: &plan,
        name: short_name(&server.name).to_owned(),
        values: plan.fields().iter().map(default_value).collect(),
        fault: None,
    };
    Ok(install_page(&visitor, &form))
}

async fn install(
    State(console): State<Console>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    let registry = servers.registry();
    let method = parse_method(&fields)?;
    let details = find_server(&registry, &fields).await?;
    let server = &details.entry.server;
    let plan = registry
        .plan(&details.entry, method)
        .map_err(ServerError::from)?;
    let typed_value = |index: usize| {
        let value = fields.get(&format!("{VALUE_PREFIX}{index}"));
        value.unwrap_or_default().to_owned()
    };
    let request = InstallRequest {
        entry: details.entry.clone(),
        method,
        digest: fields.get("digest").unwrap_or_default().to_owned(),
        name: fields.text("server-name").unwrap_or_default().to_owned(),
        values: (0..plan.fields().len()).map(typed_value).collect(),
    };
    let (name, values) = (request.name.clone(), request.values.clone());
    match run_to_completion(async move { servers.install(&request).await }).await {
        Ok(id) => Ok(redirect_to(
            &visitor.href(&format!("servers/{}", encode_segment(&id))),
        )),
        Err(error) => {
            let form = InstallForm {
                server,
                method,
                plan: &plan,
                name,
                values: repeatable_values(&error, values),
                fault: Some(FormFault::from(&error)),
            };
            let (status, _) = error.status_and_code();
            Ok((status, install_page(&visitor, &form)).into_response())
        }
    }
}

/// Returns the typed values that a rejected form shows again: none if the entry has changed,
/// because a value that was a secret may be none in the new entry, or be sent elsewhere.
fn repeatable_values(error: &ServerError, values: Vec<String>) -> Vec<String> {
    if matches!(error, ServerError::Install(InstallError::Changed)) {
        Vec::new()
    } else {
        values
    }
}

fn install_page(visitor: &Visitor, form: &InstallForm<'_>) -> Markup {
    let fault = |field: FaultyField| {
        let fault = form.fault.as_ref().filter(|fault| fault.field == field);
        fault.map(|fault| fault.message.as_str())
    };
    let server = form.server;
    let parameters = [("version", &*server.version)];
    let server_page = server_url(visitor, "registry/server", &server.name, parameters);
    let (address_label, constants_label) = match form.plan.is_program() {
        true => ("Starts the command", "Always sets"),
        false => ("Sends requests to", "Always sends"),
    };
    let constants: Vec<_> = form
        .plan
        .constants()
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let description = form.plan.description();
    // Each fact is shown completely, so that the user sees all that is installed.
    let summary = facts([
        ("Server", Some(name(&server.name))),
        ("Version", Some(untrusted(&server.version))),
        (
            "Description",
            (!description.is_empty()).then(|| untrusted(description)),
        ),
        (address_label, Some(untrusted(&form.plan.address()))),
        (
            constants_label,
            (!constants.is_empty()).then(|| untrusted(&constants.join("; "))),
        ),
    ]);
    let next_steps = html! {
        "The server is added disabled, and its tools are pinned: no model can use it. Test it, look at its tools, and then enable it."
        @if form.plan.is_program() { " The test starts the package with the permissions of the sidecar's user." }
    };
    let body = html! {
        @if let Some(message) = fault(FaultyField::Form) { (notice(Tone::Bad, untrusted_beginning(message, MAX_FAILURE_BYTES))) }
        (card("What is installed", None, html! { div .content { (summary) p { (next_steps) } } }))
        section .card { form .content method="post" action=(visitor.href("registry/install")) {
            (hidden_fields(visitor))
            input type="hidden" name="name" value=(server.name);
            input type="hidden" name="version" value=(server.version);
            input type="hidden" name="method" value=(form.method);
            input type="hidden" name="digest" value=(form.plan.digest());
            (Field::text("server-name", "Name", &form.name).with_hint("The server's name in this sidecar, and the beginning of its tools' names.").with_fault(fault(FaultyField::Name)).render())
            @for (index, field) in form.plan.fields().iter().enumerate() {
                (value_field(index, field, form.values.get(index).map_or("", String::as_str), fault(FaultyField::Value(index))))
            }
            div .row {
                button .primary type="submit" { "Install" }
                a .button href=(server_page) { "Cancel" }
            }
        } }
    };
    Page::new("Install a server", Section::Registry, body).render(visitor)
}

fn value_field(index: usize, field: &InstallField, value: &str, fault: Option<&str>) -> Markup {
    let control_name = format!("{VALUE_PREFIX}{index}");
    let necessity = match field.is_required {
        true => "Required.",
        false => "Optional.",
    };
    let mut hints = vec![necessity];
    if field.is_secret {
        hints.push("Encrypted in the store, and never shown again.");
    }
    if let Some(description) = &field.description {
        hints.push(truncated(description, MAX_HINT_BYTES));
    }
    let is_short = |choice: &String| choice.len() <= MAX_CHOICE_BYTES;
    let is_listed = (1..=MAX_LISTED_CHOICES).contains(&field.choices.len())
        && field.choices.iter().all(is_short);
    let control = if field.is_secret {
        FormControl::Secret
    } else if is_listed {
        let choices = field.choices.iter().map(|choice| (&**choice, &**choice));
        let options = [("", "")].into_iter().chain(choices).collect();
        FormControl::Select { value, options }
    } else {
        FormControl::Text { value }
    };
    let hint = hints.join(" ");
    Field::new(&control_name, &field.label, control)
        .with_hint(&*hint)
        .with_fault(fault)
        .render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_texts_of_a_field_are_shown_and_secrets_are_not() {
        let field = InstallField {
            label: "<script>\u{202e}".to_owned(),
            description: Some("<img src=x>".to_owned()),
            is_required: true,
            is_secret: true,
            default: Some("default".to_owned()),
            choices: vec!["a".to_owned()],
        };
        let shown = value_field(3, &field, "s3cret", None).into_string();
        assert!(shown.contains("&lt;script&gt;"), "{shown}");
        assert!(shown.contains(">U+202E<"), "{shown}");
        assert!(shown.contains("name=\"value-3\""), "{shown}");
        assert!(
            !shown.contains("s3cret") && !shown.contains("<img"),
            "{shown}"
        );
    }

    #[test]
    fn a_fault_names_the_field_of_the_form() {
        let faults = [
            ServerError::NameTaken {
                name: "a".to_owned(),
            },
            InstallError::Value {
                index: 2,
                message: "b".to_owned(),
            }
            .into(),
            InstallError::Changed.into(),
        ]
        .map(|error: ServerError| FormFault::from(&error).field);
        let expected = [FaultyField::Name, FaultyField::Value(2), FaultyField::Form];
        assert!(faults == expected);
    }

    #[test]
    fn typed_values_are_not_shown_in_the_form_of_a_changed_entry() {
        let typed_values = vec!["s3cret".to_owned()];
        let changed = InstallError::Changed.into();
        assert!(repeatable_values(&changed, typed_values.clone()).is_empty());
        let disabled = InstallError::Disabled.into();
        let values = repeatable_values(&disabled, typed_values.clone());
        assert_eq!(values, typed_values);
    }
}
