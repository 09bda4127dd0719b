//! The diagnosis of the connection with an MCP server.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use maud::{Markup, html};
use pillion_gateway::access::Scope;
use pillion_management::servers::{Diagnosis, DiagnosisStep, StepOutcome};

use super::{PageResult, require_servers};
use crate::Console;
use crate::ui::{
    Page, Tone, badge, card, duration, encode_segment, hidden_fields, notice, untrusted,
};
use crate::visitor::{Section, Visitor};

pub(super) fn routes() -> Router<Console> {
    Router::new().route("/servers/{id}/doctor", get(show).post(run))
}

async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    let server = require_servers(&console)?.entry(&id, &console.gateway)?;
    Ok(page(&visitor, &server.id, &server.name, None))
}

async fn run(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    let server = servers.entry(&id, &console.gateway)?;
    let grant = visitor.grant();
    let diagnosis = Box::pin(servers.diagnose(grant, &server.id, visitor.user())).await?;
    Ok(page(&visitor, &server.id, &server.name, Some(&diagnosis)))
}

fn page(visitor: &Visitor, id: &str, server: &str, diagnosis: Option<&Diagnosis>) -> Markup {
    let path = format!("servers/{}", encode_segment(id));
    let body = html! {
        p .lead {
            "The diagnosis examines each stage of the connection with the server, up to the list of tools, and says what helps after a failure. "
            "It uses a separate connection and calls no tool."
        }
        @if let Some(diagnosis) = diagnosis { (report(diagnosis)) }
        @if visitor.may(Scope::Admin) {
            form method="post" action=(visitor.href(&format!("{path}/doctor"))) {
                (hidden_fields(visitor))
                div .row {
                    button .primary type="submit" { @if diagnosis.is_some() { "Diagnose again" } @else { "Diagnose the connection" } }
                    a .button href=(visitor.href(&path)) { "Back to the server" }
                }
                p .muted .small { "This takes at most 25 seconds." }
            }
        } @else {
            p { "A diagnosis sends requests with the server's credential, which needs the scope " code { "admin" } ". " a href=(visitor.href(&path)) { "Back to the server" } }
        }
    };
    let title = format!("Diagnosis of {server}");
    Page::new(&title, Section::Servers, body).render(visitor)
}

fn report(diagnosis: &Diagnosis) -> Markup {
    let time = duration(diagnosis.duration);
    html! {
        @match diagnosis.failed_step() {
            Some(step) => {
                (notice(Tone::Bad, html! {
                    strong { (step.kind.title()) " failed. " }
                    @if let Some(advice) = &step.advice { (untrusted(advice)) }
                }))
            }
            None => {
                (notice(Tone::Good, html! { "The connection works. The diagnosis took " (time) "." }))
            }
        }
        (card("Steps", None, html! {
            div .scroll { table #diagnosis {
                thead { tr {
                    th scope="col" { "Step" } th scope="col" { "Outcome" } th .number scope="col" { "Duration" } th scope="col" { "Finding" }
                } }
                tbody { @for step in &diagnosis.steps { (row(step)) } }
            } }
        }))
    }
}

fn row(step: &DiagnosisStep) -> Markup {
    let is_failed = step.outcome == StepOutcome::Failed;
    html! {
        tr {
            th scope="row" { (step.kind.title()) }
            td { (badge(tone(step.outcome), step.outcome.as_str())) }
            td .number { @if let Some(time) = step.duration { (duration(time)) } }
            td {
                @if !step.detail.is_empty() { p { (untrusted(&step.detail)) } }
                @if let Some(advice) = &step.advice { p .muted { (untrusted(advice)) } }
                @if !step.notes.is_empty() {
                    details open[is_failed] {
                        summary { "Details" }
                        ul { @for note in &step.notes { li { (untrusted(note)) } } }
                    }
                }
            }
        }
    }
}

fn tone(outcome: StepOutcome) -> Tone {
    match outcome {
        StepOutcome::Ok => Tone::Good,
        StepOutcome::Failed => Tone::Bad,
        StepOutcome::NotApplicable | StepOutcome::Skipped => Tone::Neutral,
    }
}
