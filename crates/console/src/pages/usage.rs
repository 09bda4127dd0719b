//! The calls of a period: per interval, tool, server and user.

use std::cmp::Reverse;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use maud::{Markup, html};
use pillion_core::store::Timestamp;
use pillion_gateway::timestamp::format_timestamp;
use pillion_management::calls::{self, CallGrouping, CallQuery, CallStatistics};

use super::PageResult;
use crate::Console;
use crate::error::Result;
use crate::form::{FormFields, QueryFields};
use crate::ui::{
    Bar, Field, FormControl, Page, bar_chart, card, count, duration, empty_state, name, number,
    share, untrusted, user, with_query,
};
use crate::visitor::{Section, Visitor};

/// Maximum number of rows of a table.
const MAX_ROWS: usize = 100;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A period that ends now, and the interval that each bar of the chart shows.
struct Period {
    name: &'static str,
    label: &'static str,
    interval: Duration,
    interval_name: &'static str,
    intervals: u32,
}

const PERIODS: [Period; 4] = [
    Period {
        name: "hour",
        label: "Last hour",
        interval: MINUTE,
        interval_name: "minute",
        intervals: 60,
    },
    Period {
        name: "day",
        label: "Last 24 hours",
        interval: HOUR,
        interval_name: "hour",
        intervals: 24,
    },
    Period {
        name: "week",
        label: "Last 7 days",
        interval: DAY,
        interval_name: "day (UTC)",
        intervals: 7,
    },
    Period {
        name: "month",
        label: "Last 30 days",
        interval: DAY,
        interval_name: "day (UTC)",
        intervals: 30,
    },
];

impl Period {
    /// Returns the period with this name; the last 24 hours if there is none.
    fn find(name: Option<&str>) -> &'static Self {
        let period = PERIODS.iter().find(|period| Some(period.name) == name);
        period.unwrap_or(&PERIODS[1])
    }

    /// Returns the beginning of the period, in RFC 3339.
    fn start(&self) -> String {
        let length = self.interval * self.intervals;
        let length_ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let now_ms = Timestamp::now().as_millis();
        format_timestamp(Timestamp::from_millis(now_ms.saturating_sub(length_ms)))
    }
}

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/usage", get(show))
}

async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    QueryFields(query): QueryFields,
) -> PageResult {
    let period = Period::find(query.text("period"));
    let start = period.start();
    let bars = load_bars(&console, &visitor, period, &query).await?;
    let load_groups = async |grouping| {
        let query = read_filter(&query, &start);
        let servers = console.servers.as_deref();
        calls::group_statistics(&console.gateway, servers, visitor.grant(), query, grouping).await
    };
    let tools = load_groups(CallGrouping::Tool).await?;
    let servers = load_groups(CallGrouping::Server).await?;
    let users = load_groups(CallGrouping::User).await?;
    let total: u64 = tools.iter().map(|group| group.calls).sum();
    let calls_url = |filters: &[(&str, &str)]| {
        let pairs = filters.iter().copied().chain([("from", start.as_str())]);
        with_query(&visitor.href("calls"), pairs)
    };
    let tool_name = |group: &CallStatistics| {
        let tool = group.tool.as_deref().unwrap_or_default();
        html! { a href=(calls_url(&[("tool", tool)])) { (name(tool)) } }
    };
    let server_name = |group: &CallStatistics| match &group.server {
        Some(server) => {
            html! { a href=(calls_url(&[("server", server)])) { (untrusted(server)) } }
        }
        None => html! { span .muted { "Tools of Pillion and of the application" } },
    };
    let user_name = |group: &CallStatistics| match &group.user {
        Some(name) => html! {
            a href=(calls_url(&[("user", name)])) { (user(Some(name), group.user_is_verified).unwrap_or_default()) }
        },
        None => html! { span .muted { "No user" } },
    };
    let body = html! {
        (filter_form(period, &query))
        @if total == 0 {
            section .card { (empty_state("No calls in this period", html! { "Choose a longer period, or run a tool on its page under " a href=(visitor.href("tools")) { "Tools" } "." })) }
        } @else {
            (chart(period, &bars))
            (statistics_card("Tools", "Tool", tools, tool_name))
            div .columns {
                (statistics_card("Servers", "Server", servers, server_name))
                (statistics_card("Users", "User", users, user_name))
            }
        }
    };
    Ok(Page::new("Usage", Section::Usage, body).render(&visitor))
}

/// Returns the filter that the query names, for calls since `start`.
fn read_filter(query: &FormFields, start: &str) -> CallQuery {
    let text = |name| query.text(name).map(str::to_owned);
    CallQuery {
        server: text("server"),
        tool: text("tool"),
        user: text("user"),
        from: Some(start.to_owned()),
        ..CallQuery::default()
    }
}

async fn load_bars(
    console: &Console,
    visitor: &Visitor,
    period: &Period,
    query: &FormFields,
) -> Result<Vec<Bar>> {
    let filter = CallQuery {
        from: None,
        ..read_filter(query, "")
    };
    let counts = calls::count_by_interval(
        &console.gateway,
        console.servers.as_deref(),
        visitor.grant(),
        filter,
        period.interval,
        period.intervals as usize,
    )
    .await?;
    Ok(counts.into_iter().map(Bar::from).collect())
}

fn filter_form(period: &Period, query: &FormFields) -> Markup {
    let options = PERIODS.iter().map(|period| (period.name, period.label));
    let control = FormControl::Select {
        value: period.name,
        options: options.collect(),
    };
    let text = |name, label| {
        let value = query.text(name).unwrap_or_default();
        Field::text(name, label, value).render()
    };
    html! {
        form .filters method="get" {
            (Field::new("period", "Period", control).render())
            (text("tool", "Tool"))
            (text("server", "Server"))
            (text("user", "User"))
            button type="submit" { "Show" }
        }
    }
}

fn chart(period: &Period, bars: &[Bar]) -> Markup {
    let total: u64 = bars.iter().map(|bar| bar.calls).sum();
    let failed: u64 = bars.iter().map(|bar| bar.failed).sum();
    let max = bars.iter().map(|bar| bar.calls).max().unwrap_or_default();
    let description = format!(
        "{}, {} failed ({}), at most {} per {}",
        count(total, "call"),
        number(failed),
        share(failed, total),
        number(max),
        period.interval_name
    );
    let content =
        html! { div .content { (bar_chart(bars, &description)) p .muted { (description) } } };
    card(period.label, None, content)
}

/// Shows the groups with the most calls, up to [`MAX_ROWS`].
fn statistics_card(
    heading: &str,
    column: &str,
    mut groups: Vec<CallStatistics>,
    group_name: impl Fn(&CallStatistics) -> Markup,
) -> Markup {
    groups.sort_by_key(|group| Reverse(group.calls));
    let omitted = groups.len().saturating_sub(MAX_ROWS);
    let time = |value: Option<Duration>| html! { td .number { @if let Some(value) = value { (duration(value)) } } };
    let table = html! {
        div .scroll { table {
            thead { tr { th { (column) } th .number { "Calls" } th .number { "Failed" } th .number { "p50" } th .number { "p95" } } }
            tbody {
                @for group in groups.iter().take(MAX_ROWS) {
                    tr {
                        th scope="row" { (group_name(group)) }
                        td .number { (number(group.calls)) }
                        td .number { (number(group.failed)) " (" (share(group.failed, group.calls)) ")" }
                        (time(group.p50))
                        (time(group.p95))
                    }
                }
            }
        } }
        @if omitted > 0 { p .content .muted { "… and " (number(omitted as u64)) " more with fewer calls" } }
    };
    card(heading, None, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_period_is_the_last_day() {
        assert_eq!(Period::find(Some("week")).intervals, 7);
        assert_eq!(Period::find(Some("century")).name, "day");
        assert_eq!(Period::find(None).name, "day");
    }
}
