//! The connection attempts of a probe or of a failed connection.

use pillion_mcp_client::ProbeStep;
use serde_json::{Value, json};

use super::plain;

pub(super) fn as_text(steps: &[ProbeStep]) -> String {
    const MAX_LINE_CHARS: usize = 300;
    let mut lines = vec!["Tried".to_owned()];
    lines.extend(steps.iter().map(|step| {
        let line = match &step.outcome {
            Ok(agreed) => format!("{}: {agreed}", step.attempt),
            Err(error) => format!("{}: failed: {error}", step.attempt),
        };
        plain::truncate(&plain::one_line(&line), MAX_LINE_CHARS)
    }));
    lines.join("\n  ")
}

pub(super) fn as_json(steps: &[ProbeStep]) -> Value {
    let step = |step: &ProbeStep| match &step.outcome {
        Ok(agreed) => json!({"attempt": step.attempt, "outcome": agreed}),
        Err(error) => json!({"attempt": step.attempt, "error": error}),
    };
    steps.iter().map(step).collect()
}
