//! Charts, drawn as SVG by the sidecar.

use maud::{Markup, html};
use pillion_management::calls::CallCounts;

/// The width of a bar's slot, in units of the drawing.
const SLOT_WIDTH: usize = 10;
/// The height of the drawing.
const HEIGHT: u64 = 80;

/// One bar of a chart: the calls of one span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
}

impl From<CallCounts> for Bar {
    fn from(counts: CallCounts) -> Self {
        Self {
            calls: counts.calls,
            failed: counts.failed,
        }
    }
}

/// Draws bars whose lower part shows the failed calls. `description` says what the chart shows, for
/// readers who do not see it.
pub(crate) fn bar_chart(bars: &[Bar], description: &str) -> Markup {
    let max = bars.iter().map(|bar| bar.calls).max().unwrap_or(0).max(1);
    let height = |calls: u64| (calls * HEIGHT).div_ceil(max);
    let width = bars.len().max(1) * SLOT_WIDTH;
    html! {
        svg .chart viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(description) {
            @for (index, bar) in bars.iter().enumerate() {
                @let x = index * SLOT_WIDTH + 1;
                @if bar.calls > 0 {
                    rect .bar x=(x) y=(HEIGHT - height(bar.calls)) width=(SLOT_WIDTH - 2) height=(height(bar.calls)) {}
                }
                @if bar.failed > 0 {
                    rect .bar.failed x=(x) y=(HEIGHT - height(bar.failed)) width=(SLOT_WIDTH - 2) height=(height(bar.failed)) {}
                }
            }
            line .axis x1="0" x2=(width) y1=(HEIGHT) y2=(HEIGHT) {}
        }
    }
}
