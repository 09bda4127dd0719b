use pillion_mcp_client::TransportKind;

use crate::check::{CHECKS, Check, Outcome};

/// The results of one server.
pub struct Row {
    pub name: &'static str,
    package: &'static str,
    /// The detected transport and revision, or the reason why none was detected.
    pub found: Result<(TransportKind, Option<&'static str>), String>,
    /// The pinned revisions in which a tool could be called.
    pub revisions: Vec<&'static str>,
    pub checks: Vec<(Check, Outcome)>,
}

impl Row {
    pub fn new(name: &'static str, package: &'static str) -> Self {
        Self {
            name,
            package,
            found: Err("nothing".to_owned()),
            revisions: Vec::new(),
            checks: Vec::new(),
        }
    }

    /// Returns the failures, one line each.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let found = self
            .found
            .as_ref()
            .err()
            .map(|instead| format!("finding out: {instead}"));
        let checks = self.checks.iter().filter_map(|(check, outcome)| {
            let Outcome::Fails(why) = outcome else {
                return None;
            };
            Some(format!("{}: {why}", heading(*check)))
        });
        found.into_iter().chain(checks)
    }

    fn cells(&self) -> Vec<String> {
        let found = self.found.as_ref().map_or_else(
            |_| "**fails**".to_owned(),
            |(transport, version)| {
                format!("{}, {}", name(*transport), version.unwrap_or("no revision"))
            },
        );
        let mut cells = vec![
            format!("`{}`", self.name),
            self.package.to_owned(),
            found,
            revisions(&self.revisions),
        ];
        cells.extend(self.checks.iter().map(|(_, outcome)| {
            let cell = match outcome {
                Outcome::Works => "yes",
                Outcome::NotOffered => "–",
                Outcome::Fails(_) => "**no**",
            };
            cell.to_owned()
        }));
        cells
    }
}

/// Formats revisions as `2024-11-05 to 2025-11-25 (4)`; the number shows gaps.
fn revisions(spoken: &[&str]) -> String {
    match spoken {
        [] => "none".to_owned(),
        [only] => (*only).to_owned(),
        [first, .., last] => format!("{first} to {last} ({})", spoken.len()),
    }
}

fn name(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::StreamableHttp => "Streamable HTTP",
        TransportKind::LegacySse => "HTTP+SSE",
        TransportKind::Stdio => "stdio",
        TransportKind::WebSocket => "WebSocket",
        _ => "another",
    }
}

fn heading(check: Check) -> &'static str {
    match check {
        Check::List => "list",
        Check::Call => "call",
        Check::Error => "error",
        Check::Progress => "progress",
        Check::Structured => "structured",
        Check::Resources => "resources",
        Check::Prompts => "prompts",
        Check::Completion => "completion",
        Check::Elicitation => "elicitation",
        Check::Sampling => "sampling",
    }
}

/// Returns the page with these rows.
pub fn page(rows: &[Row]) -> String {
    let mut headings = vec!["server", "package", "detected", "revisions, pinned"];
    headings.extend(CHECKS.map(heading));
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); headings.len()];
    let headings = headings.into_iter().map(str::to_owned).collect();
    let rows = rows.iter().map(|row| line(row.cells()));
    let lines = [line(headings), line(rule)].into_iter().chain(rows);
    include_str!("page.md").replace("{table}", &lines.collect::<String>())
}
