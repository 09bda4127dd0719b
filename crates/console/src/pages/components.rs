//! A page with every component, for those who change the pages.

use std::time::Duration;

use axum::extract::State;
use maud::html;

use super::PageResult;
use crate::Console;
use crate::ui::{
    Bar, Field, FormControl, Page, Tone, action_form, badge, bar_chart, byte_count, card, copyable,
    count, duration, empty_state, facts, json, message, name, notice, pagination, status_badge,
    time, untrusted, untrusted_beginning, user,
};
use crate::visitor::{Section, Visitor};

pub(super) async fn show(State(_console): State<Console>, visitor: Visitor) -> PageResult {
    let bars: Vec<_> = (0..60)
        .map(|minute| Bar {
            calls: minute * 7 % 23,
            failed: minute % 5,
        })
        .collect();
    let statuses = [
        "success",
        "approved",
        "connected",
        "pending",
        "running",
        "changed",
        "error",
        "denied",
        "interrupted",
        "disabled",
    ];
    let body = html! {
        div .columns {
            (card("States", None, html! { div .content { div .row { @for status in statuses { (status_badge(status)) } (badge(Tone::Neutral, "badge")) } } }))
            (card("Text from outside", None, html! { div .content {
                p { (untrusted("<script>alert(1)</script> right\u{202e}to\u{202c}left, zero\u{200b}width")) }
                p { (untrusted_beginning(&"long ".repeat(40), 60)) }
                p { (name("tool_name")) }
                (facts([("User", user(Some("ada"), true)), ("Claimed user", user(Some("bob"), false))]))
            } }))
        }
        (notice(Tone::Good, html! { "It worked." })) (notice(Tone::Warning, html! { "It needs attention." })) (notice(Tone::Bad, html! { "It failed." }))
        (card("Chart", None, html! { div .content { (bar_chart(&bars, "Calls of the last hour")) } }))
        (card("JSON", None, html! { div .content { (json("example", r#"{"a":[1,2,{"b":"\u202e"}],"c":{}}"#, None)) } }))
        (card("Text to copy", None, html! { div .content { (copyable("to-copy", "pillion console")) } }))
        (card("Conversation", None, html! { div .content {
            (message("You", "user", html! { p { (untrusted("What is 6 * 7?")) } }))
            (message("Model", "", html! { p { (untrusted("It is 42.")) } }))
        } }))
        (card("Table", None, html! {
            div .scroll { table {
                thead { tr { th { "Name" } th { "Time" } th .number { "Size" } th .number { "Duration" } } }
                tbody { tr { th scope="row" { (name("roll_dice")) } td .time { (time("2026-11-30T08:00:00Z")) } td .number { (byte_count(123_456)) } td .number { (duration(Duration::from_millis(42))) } } }
            } }
            (pagination(Some("components".to_owned()), Some("components".to_owned())))
        }))
        (card("Form", None, html! {
            form .content method="get" action="components" {
                (Field::text("text", "Text", "value").with_hint("A hint").render())
                (Field::text("faulty", "Rejected", "value").with_fault(Some("Why it was rejected")).render())
                (Field::new("secret", "Secret", FormControl::Secret).render())
                (Field::new("box", "Box", FormControl::Checkbox { is_checked: true }).render())
                (Field::new("choice", "Choice", FormControl::Select { value: "b", options: vec![("a", "A"), ("b", "B")] }).render())
                (Field::new("json", "JSON", FormControl::Json { value: "{}", rows: 4 }).render())
                div .row { button .primary type="submit" { "Primary" } button type="submit" { "Secondary" } button .danger type="submit" { "Dangerous" } }
            }
        }))
        (card("Nothing to show", None, empty_state("No calls yet", html! { "Run a tool: " (count(2, "tool")) " are offered." })))
        p { (action_form(&visitor, "sign-out", "A form with one button", "")) }
    };
    Ok(Page::new("Components", Section::Home, body).render(&visitor))
}
