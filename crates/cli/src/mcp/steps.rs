//! The connection attempts of a probe or of a failed connection.

use pillion_mcp_client::ProbeStep;
use serde_json::{Value, json};

use super::plain;

pub(super) fn format_steps(steps: &[ProbeStep]) -> String {
    const MAX_LINE_CHARS: usize = 300;
    let mut lines = vec!["Tried".to_owned()];
    lines.extend(steps.iter().map(|step| {
        let line = match &step.outcome {
            Ok(summary) => format!("{}: {summary}", step.attempt),
            Err(error) => format!("{}: failed: {error}", step.attempt),
        };
        plain::truncate(&plain::to_one_line(&line), MAX_LINE_CHARS)
    }));
    lines.join("\n  ")
}

pub(super) fn to_json(steps: &[ProbeStep]) -> Value {
    let step_json = |step: &ProbeStep| match &step.outcome {
        Ok(summary) => json!({"attempt": step.attempt, "outcome": summary}),
        Err(error) => json!({"attempt": step.attempt, "error": error}),
    };
    steps.iter().map(step_json).collect()
}
