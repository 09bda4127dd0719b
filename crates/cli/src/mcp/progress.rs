use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pillion_mcp_client::ProgressNotification;

use super::plain;
use crate::output::print_diagnostic;

/// Number of steps of the progress bar. The progress values of MCP, which are arbitrary numbers,
/// are scaled to this number.
const BAR_RESOLUTION: u64 = 1000;

/// Shows the progress of a request: as a bar on a terminal, as lines with `--verbose`, otherwise
/// not at all.
pub(super) struct ProgressDisplay {
    bar: Option<ProgressBar>,
    is_verbose: bool,
}

impl ProgressDisplay {
    pub(super) fn new(is_verbose: bool) -> Self {
        let is_on_terminal = std::io::stderr().is_terminal() && !is_verbose;
        Self {
            bar: is_on_terminal.then(ProgressBar::hidden),
            is_verbose,
        }
    }

    pub(super) fn begin(&self) {
        const TICK_INTERVAL: Duration = Duration::from_millis(120);
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_style(ProgressStyle::default_spinner());
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK_INTERVAL);
        }
    }

    pub(super) fn show(&self, progress: &ProgressNotification) {
        let message = plain::summarize(progress.message.as_deref().unwrap_or_default(), 200);
        let total = progress.total.filter(|total| *total > 0.0);
        if self.is_verbose {
            let progress_text = match total {
                Some(total) => format!("{} of {total}", progress.progress),
                None => progress.progress.to_string(),
            };
            let line = format!("progress: {progress_text} {message}");
            print_diagnostic(line.trim_end());
        }
        let Some(bar) = &self.bar else { return };
        if let Some(total) = total {
            let bar_style = ProgressStyle::with_template("{bar:30} {percent:>3}% {wide_msg}");
            if let (None, Ok(bar_style)) = (bar.length(), bar_style) {
                bar.set_style(bar_style);
            }
            bar.set_length(BAR_RESOLUTION);
            bar.set_position(compute_bar_position(progress.progress / total));
        }
        bar.set_message(message);
    }

    /// Hides the bar until the next [`begin`](Self::begin).
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.finish_and_clear();
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped to 0..=1 first, and BAR_RESOLUTION is small"
)]
fn compute_bar_position(completed_share: f64) -> u64 {
    (completed_share.clamp(0.0, 1.0) * BAR_RESOLUTION as f64) as u64
}
