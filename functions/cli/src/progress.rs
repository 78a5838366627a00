//! One moving line on a terminal that says what is being done; nothing elsewhere.

use crate::term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// How often the line moves.
const TICK: Duration = Duration::from_millis(120);

/// The line. It is gone when this is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows a text.
    pub fn new(text: impl Into<String>) -> Self {
        // Hidden by itself when stderr is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let form = match term::colours() {
            true => "{spinner:.cyan} {wide_msg}",
            false => "{spinner} {wide_msg}",
        };
        // A form that cannot be read would leave the bar that counts to nothing.
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        let progress = Self(bar);
        progress.say(text);
        progress.0.enable_steady_tick(TICK);
        progress
    }

    /// Shows another text.
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
