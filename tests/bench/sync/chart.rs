//! A picture of time against N, both on logarithmic scales, as SVG.

use super::measure::Figures;

const PANELS: [&str; 3] = ["cold", "push-all", "push-one"];
const SYSTEMS: [(&str, &str); 3] = [
    ("flux", "#326ce5"),
    ("driftless", "#d9480f"),
    ("floor", "#495057"),
];
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 44.0;

/// The range of a scale, as powers of ten.
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let logs: Vec<f64> = values
            .filter(|value| *value > 0.0)
            .map(f64::log10)
            .collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let high = logs.iter().copied().fold(low + 1.0, f64::max).ceil();
        Self { low, high }
    }

    /// Returns the place of a value between 0 and 1.
    fn place(&self, value: f64) -> f64 {
        (value.max(1e-9).log10() - self.low) / (self.high - self.low)
    }

    fn powers(&self) -> impl Iterator<Item = f64> + use<> {
        (self.low as i32..=self.high as i32).map(|power| 10f64.powi(power))
    }
}

/// Draws the times of W(N), a panel for each work.
pub fn draw(all: &[Figures]) -> String {
    let shown: Vec<&Figures> = all
        .iter()
        .filter(|one| one.world == "W" && PANELS.contains(&one.work.as_str()))
        .collect();
    if shown.is_empty() {
        return String::from("<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n");
    }
    let sizes = Range::of(shown.iter().map(|one| one.size as f64));
    let times = Range::of(shown.iter().map(|one| one.seconds));
    let step = WIDTH + LEFT + 16.0;
    let (width, height) = (step * PANELS.len() as f64, HEIGHT + TOP + 60.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (at, work) in PANELS.iter().enumerate() {
        svg += &format!(
            "<g transform=\"translate({},{TOP})\">\n",
            at as f64 * step + LEFT
        );
        svg += &axes(work, &sizes, &times);
        for (system, color) in SYSTEMS {
            let rows = shown.iter().filter(|one| one.work == *work);
            let mut points: Vec<(f64, f64)> = rows
                .filter(|one| one.system == system)
                .map(|one| {
                    (
                        WIDTH * sizes.place(one.size as f64),
                        HEIGHT * (1.0 - times.place(one.seconds)),
                    )
                })
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            svg += &line(&points, color);
        }
        svg += "</g>\n";
    }
    svg + &legend(height) + "</svg>\n"
}

fn axes(work: &str, sizes: &Range, times: &Range) -> String {
    let mut svg = format!(
        "<text x=\"0\" y=\"-14\" font-weight=\"bold\">{work}: seconds against Kustomizations</text>\n"
    );
    for power in sizes.powers() {
        let x = WIDTH * sizes.place(power);
        svg += &format!(
            "<path d=\"M{x:.1} 0V{HEIGHT}\" stroke=\"#dee2e6\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{power}</text>\n",
            HEIGHT + 16.0
        );
    }
    for power in times.powers() {
        let y = HEIGHT * (1.0 - times.place(power));
        svg += &format!(
            "<path d=\"M0 {y:.1}H{WIDTH}\" stroke=\"#dee2e6\"/>\
             <text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{power}</text>\n",
            y + 4.0
        );
    }
    svg
}

fn line(points: &[(f64, f64)], color: &str) -> String {
    let places: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let mut svg = format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n",
        places.join(" ")
    );
    for (x, y) in points {
        svg += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{color}\"/>\n");
    }
    svg
}

fn legend(height: f64) -> String {
    let entry = |(at, (system, color)): (usize, &(&str, &str))| {
        let (x, y) = (LEFT + 120.0 * at as f64, height - 14.0);
        format!(
            "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{color}\"/>\
             <text x=\"{}\" y=\"{y}\">{system}</text>\n",
            y - 6.0,
            x + 20.0
        )
    };
    SYSTEMS.iter().enumerate().map(entry).collect()
}
