//! A spinner with a message on a terminal; nothing elsewhere.

use crate::term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// The interval of the animation.
const TICK: Duration = Duration::from_millis(120);

/// A line with a spinner and a message. It is cleared on drop.
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows the line with a message.
    pub fn new(text: impl Into<String>) -> Self {
        // The bar hides itself if stderr is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let form = match term::colours() {
            true => "{spinner:.cyan} {wide_msg}",
            false => "{spinner} {wide_msg}",
        };
        // With an invalid template the default bar stays, which has no length here.
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        let progress = Self(bar);
        progress.say(text);
        progress.0.enable_steady_tick(TICK);
        progress
    }

    /// Replaces the message.
    pub fn say(&self, text: impl Into<String>) {
        let text = text.into();
        self.0.set_message(term::plain(&text).replace('\n', " "));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
