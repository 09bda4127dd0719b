//! The configuration in force, its warnings, and the last reloads.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};
use pillion_config::{EffectiveSetting, SettingOrigin, SettingValue};
use pillion_core::truncated;
use pillion_gateway::access::Scope;
use pillion_gateway::process::{Reload, ReloadTrigger};
use pillion_gateway::timestamp::format_timestamp;
use tokio::time::timeout;

use super::{PageResult, redirect_to};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::QueryFields;
use crate::ui::{
    Page, Tone, action_form, badge, card, count, empty_state, name, notice, time, untrusted,
    untrusted_beginning, with_query,
};
use crate::visitor::{Section, Visitor};

/// Number of settings on a page.
const SETTINGS_PER_PAGE: usize = 80;

/// Maximum length of a key, a value or an origin on the page, in bytes.
const MAX_VALUE_BYTES: usize = 160;

/// Maximum length of a warning, or of the error of a reload, in bytes.
const MAX_MESSAGE_BYTES: usize = 400;

/// Maximum number of warnings on the page.
const MAX_WARNINGS: usize = 20;

/// Maximum number of changes of one reload on the page.
const MAX_CHANGES: usize = 5;

/// Maximum length of the searched text, in bytes.
const MAX_SEARCH_BYTES: usize = 100;

/// Maximum time for which a page waits for the end of a reload.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/settings", get(show))
        .route("/settings/reload", post(reload))
}

async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    visitor.require_section(Section::Settings)?;
    let search = truncated(query.text("q").unwrap_or_default(), MAX_SEARCH_BYTES);
    let page_number = query.text("page").and_then(|page| page.parse().ok());
    let settings = SettingsPage::new(
        console.effective_config.settings(),
        search,
        page_number.unwrap_or(1),
    );
    let process = console.gateway.process();
    let body = html! {
        p .lead { "The configuration in force. Values that may be credentials are hidden, and only the scheme and the host of a URL are shown. Entries such as MCP servers show only the keys that are set." }
        div #warnings data-live-part { (warnings(&console)) }
        form .filters method="get" action=(visitor.href("settings")) role="search" {
            div .field { label for="q" { "Search in keys, values and origins" } input #q name="q" type="search" value=(search) data-key="/"; }
            button type="submit" { "Search" }
        }
        div #settings .stack data-live-part { (setting_cards(&visitor, &settings)) }
        div #reloads data-live-part { (reload_card(&process.reloads())) }
    };
    let can_reload = visitor.may(Scope::Admin) && process.accepts_reload_requests();
    let actions = can_reload.then(|| {
        let label = "Reload the configuration";
        action_form(&visitor, "settings/reload", label, "")
    });
    let page = Page::new("Settings", Section::Settings, body)
        .with_live("configuration")
        .with_actions(actions);
    Ok(page.render(&visitor))
}

fn warnings(console: &Console) -> Markup {
    let warnings = &console.warnings;
    let omitted_count = warnings.len().saturating_sub(MAX_WARNINGS);
    html! {
        @if warnings.is_empty() {
            (notice(Tone::Good, html! { "No warnings about the configuration." }))
        } @else {
            (notice(Tone::Warning, html! {
                p { strong { (count(warnings.len() as u64, "warning")) " about the configuration" } }
                ul { @for warning in warnings.iter().take(MAX_WARNINGS) {
                    li { (untrusted_beginning(&warning.to_string(), MAX_MESSAGE_BYTES)) }
                } }
                @if omitted_count > 0 { p { (count(omitted_count as u64, "more warning")) ": run " code { "pillion check" } "." } }
            }))
        }
    }
}

/// One page of the settings that match a search.
struct SettingsPage<'a> {
    search: &'a str,
    /// The number of this page, from 1.
    number: usize,
    page_count: usize,
    /// The settings of this page whose values differ from their defaults.
    changed: Vec<&'a EffectiveSetting>,
    /// The settings of this page that have their defaults.
    unchanged: Vec<&'a EffectiveSetting>,
    changed_total: usize,
    unchanged_total: usize,
}

impl<'a> SettingsPage<'a> {
    /// Selects the settings of a page. A page that does not exist is the last one.
    fn new(settings: &'a [EffectiveSetting], search: &'a str, requested_number: usize) -> Self {
        let lower_search = search.to_lowercase();
        let matching_settings = settings
            .iter()
            .filter(|setting| matches_search(setting, &lower_search));
        let (unchanged, changed): (Vec<_>, Vec<_>) =
            matching_settings.partition(|setting| setting.is_default());
        let (changed_total, unchanged_total) = (changed.len(), unchanged.len());
        let page_count = (changed_total + unchanged_total)
            .div_ceil(SETTINGS_PER_PAGE)
            .max(1);
        let number = requested_number.clamp(1, page_count);
        let start = (number - 1) * SETTINGS_PER_PAGE;
        let changed_on_page: Vec<_> = changed
            .into_iter()
            .skip(start)
            .take(SETTINGS_PER_PAGE)
            .collect();
        let unchanged_on_page = unchanged
            .into_iter()
            .skip(start.saturating_sub(changed_total))
            .take(SETTINGS_PER_PAGE - changed_on_page.len());
        Self {
            search,
            number,
            page_count,
            unchanged: unchanged_on_page.collect(),
            changed: changed_on_page,
            changed_total,
            unchanged_total,
        }
    }

    /// Returns the URL of another page of the same search.
    fn url(&self, visitor: &Visitor, number: usize) -> String {
        let number_text = number.to_string();
        let search_pair = (!self.search.is_empty()).then_some(("q", self.search));
        let pairs = search_pair
            .into_iter()
            .chain([("page", number_text.as_str())]);
        with_query(&visitor.href("settings"), pairs)
    }
}

/// Returns whether the key, the shown value or the origin of a setting contains the text.
fn matches_search(setting: &EffectiveSetting, lower_search: &str) -> bool {
    let contains = |text: &str| text.to_lowercase().contains(lower_search);
    let is_in_value = match &setting.value {
        SettingValue::Shown(value) => contains(value),
        SettingValue::Hidden => false,
    };
    is_in_value || contains(&setting.key) || contains(&setting.origin.to_string())
}

fn setting_cards(visitor: &Visitor, page: &SettingsPage<'_>) -> Markup {
    html! {
        @if page.changed_total + page.unchanged_total == 0 {
            (empty_state("No setting matches", html! { a href=(visitor.href("settings")) { "Show all settings" } }))
        }
        @if !page.changed.is_empty() {
            (card(&format!("Different from the default ({})", page.changed_total), None, setting_table(&page.changed)))
        }
        @if !page.unchanged.is_empty() {
            (card(&format!("Defaults ({})", page.unchanged_total), None, setting_table(&page.unchanged)))
        }
        @if page.page_count > 1 {
            nav .pages aria-label="Pages" {
                span { @if page.number > 1 { a href=(page.url(visitor, page.number - 1)) rel="prev" { "← Previous" } } }
                span .muted { "Page " (page.number) " of " (page.page_count) }
                span { @if page.number < page.page_count { a href=(page.url(visitor, page.number + 1)) rel="next" { "Next →" } } }
            }
        }
    }
}

/// Shows settings, with a row above the settings of each section.
fn setting_table(settings: &[&EffectiveSetting]) -> Markup {
    let sections = settings.chunk_by(|setting, next| setting.section() == next.section());
    html! {
        div .scroll { table {
            thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "Origin" } } }
            @for section in sections {
                tbody {
                    @if let Some(setting) = section.first() {
                        tr { th colspan="3" scope="rowgroup" { (untrusted(&section_title(setting))) } }
                    }
                    @for setting in section { (setting_row(setting)) }
                }
            }
        } }
    }
}

/// Returns the section of a setting as a configuration file names the section.
fn section_title(setting: &EffectiveSetting) -> String {
    let section = setting.section();
    match setting.key.strip_prefix(section) {
        Some(rest) if rest.starts_with('[') => format!("[[{section}]]"),
        Some("") => "Top level".to_owned(),
        _ => format!("[{section}]"),
    }
}

fn setting_row(setting: &EffectiveSetting) -> Markup {
    let default = setting
        .default
        .filter(|_| setting.origin != SettingOrigin::Default && !setting.is_default());
    html! {
        tr {
            th scope="row" { (name(truncated(&setting.key, MAX_VALUE_BYTES))) }
            td {
                @match &setting.value {
                    SettingValue::Shown(value) => { code { (untrusted_beginning(value, MAX_VALUE_BYTES)) } }
                    SettingValue::Hidden => { span .muted { "hidden" } }
                }
                @if let Some(default) = default { " " span .muted.small { "default: " (default) } }
            }
            td .small { (untrusted_beginning(&setting.origin.to_string(), MAX_VALUE_BYTES)) }
        }
    }
}

fn reload_card(reloads: &[Reload]) -> Markup {
    let content = html! {
        @if reloads.is_empty() {
            (empty_state("No reloads since the sidecar started", html! { "The sidecar reloads the configuration when one of its files changes, and on SIGHUP." }))
        } @else {
            div .scroll { table {
                thead { tr { th scope="col" { "Time" } th scope="col" { "Trigger" } th scope="col" { "Outcome" } th scope="col" { "Changes" } } }
                tbody { @for reload in reloads { (reload_row(reload)) } }
            } }
        }
    };
    card("Last reloads", None, content)
}

fn reload_row(reload: &Reload) -> Markup {
    let trigger = match reload.trigger {
        ReloadTrigger::Signal => "SIGHUP",
        ReloadTrigger::FileChange => "a file has changed",
        ReloadTrigger::Request => "the console",
    };
    let omitted_count = reload.changes.len().saturating_sub(MAX_CHANGES);
    html! {
        tr {
            th scope="row" { (time(&format_timestamp(reload.at.into()))) }
            td { (trigger) }
            td {
                @match &reload.error {
                    None => { (badge(Tone::Good, "applied")) }
                    Some(error) => {
                        (badge(Tone::Bad, "rejected"))
                        p .small { (untrusted_beginning(error, MAX_MESSAGE_BYTES)) }
                    }
                }
            }
            td .small {
                @if reload.error.is_none() && reload.changes.is_empty() { span .muted { "none" } }
                @for change in reload.changes.iter().take(MAX_CHANGES) { p { (name(truncated(change, MAX_VALUE_BYTES))) } }
                @if omitted_count > 0 { p .muted { "and more" } }
                @if !reload.restart_settings.is_empty() {
                    p { "Restart the sidecar to apply: " (reload.restart_settings.join(", ")) }
                }
            }
        }
    }
}

/// Reloads the configuration, and shows the outcome in the list of reloads.
async fn reload(State(console): State<Console>, visitor: Visitor) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    let process = Arc::clone(console.gateway.process());
    if !process.accepts_reload_requests() {
        return Err(PageError::Rejected {
            status: StatusCode::CONFLICT,
            message: "This process does not reload its configuration.".to_owned(),
        });
    }
    tracing::info!(
        user = visitor.name(),
        "A user of the console reloads the configuration"
    );
    // A reload that takes longer continues: the page shows the outcome later.
    drop(timeout(RELOAD_TIMEOUT, process.reload()).await);
    Ok(redirect_to(&visitor.href("settings#reloads")))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use pillion_config::Config;

    use super::*;

    fn keys<'a>(settings: &[&'a EffectiveSetting]) -> Vec<&'a str> {
        settings
            .iter()
            .map(|setting| setting.key.as_str())
            .collect()
    }

    #[test]
    fn settings_that_differ_from_the_default_are_first_and_every_setting_is_on_one_page() {
        let text = "[executor]\nmax_queued = 1000\ntimeout_ms = 5\n[[mcp_servers]]\nlabel = 'a'\n\
            url = 'https://mcp.example/s/swordfish'\nheaders = { X-Key = 'swordfish' }\n";
        let config = Config::parse(text, "c.toml").unwrap();
        let settings = config.effective.settings();
        let first_page = SettingsPage::new(settings, "", 1);
        let changed_keys = [
            "executor.timeout_ms",
            "mcp_servers[0].headers.X-Key",
            "mcp_servers[0].label",
            "mcp_servers[0].url",
        ];
        assert_eq!(keys(&first_page.changed), changed_keys);
        let same_as_default = SettingsPage::new(settings, "max_queued", 1);
        assert_eq!(keys(&same_as_default.unchanged), ["executor.max_queued"]);
        let mut shown_count = 0;
        for number in 1..=first_page.page_count {
            let page = SettingsPage::new(settings, "", number);
            shown_count += page.changed.len() + page.unchanged.len();
            let table = setting_table(&[page.changed, page.unchanged].concat()).into_string();
            assert!(!table.contains("swordfish"), "{table}");
            assert!(table.len() < 50 * 1024, "{}", table.len());
        }
        assert_eq!(shown_count, settings.len());
        let beyond = SettingsPage::new(settings, "", usize::MAX);
        assert_eq!(beyond.number, first_page.page_count);
    }

    #[test]
    fn the_search_finds_keys_values_and_origins_but_no_hidden_value() {
        let text = "[chat]\nmodel = 'GPT-4'\n[[models]]\nid = 'GPT-4'\n\
            [[mcp_servers]]\nlabel = 'a'\nurl = 'https://mcp.example/'\nheaders = { X-Key = 'swordfish' }\n";
        let config = Config::parse(text, "c.toml").unwrap();
        let settings = config.effective.settings();
        for (search, expected) in [
            ("gpt-4", &["chat.model", "models[0].id"][..]),
            ("c.toml:2", &["chat.model"]),
            ("CHAT.MODEL", &["chat.model"]),
            ("swordfish", &[]),
        ] {
            let page = SettingsPage::new(settings, search, 1);
            assert_eq!(keys(&page.changed), expected, "{search}");
            assert!(page.unchanged.is_empty(), "{search}");
        }
    }

    #[test]
    fn a_section_is_named_as_in_the_file() {
        let text = "[cache]\nenabled = false\n[[models]]\nid = 'a'\n";
        let config = Config::parse(text, "c.toml").unwrap();
        let settings = config.effective.settings();
        let title = |key: &str| {
            let setting = settings.iter().find(|setting| setting.key == key).unwrap();
            section_title(setting)
        };
        assert_eq!(title("cache.enabled"), "[cache]");
        assert_eq!(title("models[0].id"), "[[models]]");
        assert_eq!(title("models_file"), "Top level");
    }

    #[test]
    fn a_reload_shows_its_error_as_text() {
        let reload = Reload {
            at: SystemTime::UNIX_EPOCH,
            trigger: ReloadTrigger::FileChange,
            error: Some("c.toml:1: <b>".to_owned()),
            changes: Vec::new(),
            restart_settings: vec!["tcp.listen"],
        };
        let card = reload_card(&[reload]).into_string();
        for expected in ["a file has changed", "rejected", "&lt;b&gt;", "tcp.listen"] {
            assert!(card.contains(expected), "{card}");
        }
    }
}
