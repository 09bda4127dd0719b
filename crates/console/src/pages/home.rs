//! The home page: what needs attention now, and the calls of the last hour.

use std::time::Duration;

use axum::extract::{OriginalUri, State};
use axum::response::Response;
use maud::{Markup, html};
use pillion_gateway::connections::ConnectionStatus;
use pillion_management::calls::{self, CallQuery};

use super::PageResult;
use crate::Console;
use crate::sign_in::see_other;
use crate::ui::{
    Bar, Page, Tone, badge, bar_chart, card, count, empty_state, encode_segment, notice, number,
    share, untrusted, untrusted_beginning,
};
use crate::visitor::{Section, Visitor};

/// Number of bars in the chart of calls.
const BARS: usize = 60;
/// The time that each bar shows.
const BAR_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum length of a server's error on the page, in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// Redirects from the console's path to the home page. The redirect is relative to the requested URL,
/// which ends with or without a slash.
pub(super) async fn redirect(OriginalUri(uri): OriginalUri) -> Response {
    let last_segment = uri.path().rsplit('/').next().unwrap_or_default();
    match last_segment {
        "" => see_other("home", None),
        segment => see_other(&format!("{segment}/home"), None),
    }
}

pub(super) async fn show(State(console): State<Console>, visitor: Visitor) -> PageResult {
    let bars = load_bars(&console, &visitor).await;
    let body = html! {
        div #attention .stack data-live-part { (attention(&console, &visitor)) }
        div #calls data-live-part { (call_chart(&visitor, bars)) }
        div #servers data-live-part { (failing_servers(&console, &visitor)) }
    };
    let page = Page::new("Home", Section::Home, body).with_live("call,approval,server,tools");
    Ok(page.render(&visitor))
}

/// Shows what waits for the visitor, and problems of the sidecar itself.
fn attention(console: &Console, visitor: &Visitor) -> Markup {
    let store_failure = console.gateway.store_failure();
    let (approvals, changes) = (
        visitor.waiting(Section::Approvals),
        visitor.waiting(Section::Changes),
    );
    html! {
        @if let Some(failure) = &store_failure {
            (notice(Tone::Bad, html! { strong { "The store cannot be written: " } (untrusted_beginning(failure, MAX_ERROR_BYTES)) }))
        }
        div .cards {
            (tile(visitor, Section::Approvals, approvals, "call waits", "calls wait", "for approval"))
            (tile(visitor, Section::Changes, changes, "tool has", "tools have", "a changed definition"))
        }
    }
}

fn tile(
    visitor: &Visitor,
    section: Section,
    waiting: u64,
    one: &str,
    many: &str,
    rest: &str,
) -> Markup {
    html! {
        a .card href=(visitor.href(section.path())) {
            div .content {
                div .row { span .figure { (number(waiting)) } @if waiting == 0 { (badge(Tone::Good, "all done")) } @else { (badge(Tone::Warning, "waiting")) } }
                p { @if waiting == 1 { (one) } @else { (many) } " " (rest) }
            }
        }
    }
}

/// Returns the calls of each minute of the last hour, or the reason why they cannot be read.
async fn load_bars(console: &Console, visitor: &Visitor) -> Result<Vec<Bar>, String> {
    let query = CallQuery::default();
    let servers = console.servers.as_deref();
    calls::count_by_interval(
        &console.gateway,
        servers,
        visitor.grant(),
        query,
        BAR_INTERVAL,
        BARS,
    )
    .await
    .map(|counts| counts.into_iter().map(Bar::from).collect())
    .map_err(|error| error.to_string())
}

fn call_chart(visitor: &Visitor, bars: Result<Vec<Bar>, String>) -> Markup {
    let all = html! { a href=(visitor.href("calls")) { "All calls" } };
    let content = match bars {
        Err(error) => html! { div .content { (notice(Tone::Warning, untrusted(&error))) } },
        Ok(bars) => {
            let total: u64 = bars.iter().map(|bar| bar.calls).sum();
            let failed: u64 = bars.iter().map(|bar| bar.failed).sum();
            let last_minute = bars.last().map_or(0, |bar| bar.calls);
            let description = format!(
                "{} in the last hour, {} failed",
                count(total, "call"),
                number(failed)
            );
            html! {
                @if total == 0 {
                    (empty_state("No calls in the last hour", html! { "Run a tool on its page under " a href=(visitor.href("tools")) { "Tools" } "." }))
                } @else {
                    div .content {
                        (bar_chart(&bars, &description))
                        p .muted { (description) " (" (share(failed, total)) "), " (count(last_minute, "call")) " in this minute" }
                    }
                }
            }
        }
    };
    card("Calls", Some(all), content)
}

/// Shows the servers that are not connected because of an error.
fn failing_servers(console: &Console, visitor: &Visitor) -> Markup {
    let reports = console.gateway.server_reports();
    let failing: Vec<_> = reports
        .iter()
        .filter(|report| report.status() == ConnectionStatus::Error)
        .collect();
    let all = html! { a href=(visitor.href("servers")) { "All servers" } };
    let content = html! {
        @if reports.is_empty() {
            (empty_state("No MCP servers", html! { "Add one under " a href=(visitor.href("servers")) { "Servers" } "." }))
        } @else if failing.is_empty() {
            div .content { p { (badge(Tone::Good, "ok")) " " (count(reports.len() as u64, "server")) ", none failing" } }
        } @else {
            div .scroll { table {
                thead { tr { th { "Server" } th { "Error" } } }
                tbody {
                    @for report in failing {
                        tr {
                            th scope="row" { a href=(visitor.href(&format!("servers/{}", encode_segment(&report.label)))) { (untrusted(&report.label)) } }
                            td { (untrusted_beginning(report.error.as_deref().unwrap_or_default(), MAX_ERROR_BYTES)) }
                        }
                    }
                }
            } }
        }
    };
    card("MCP servers", Some(all), content)
}
