//! A line chart as SVG, for curves that a run leaves behind.
//!
//! Colours hold on light and on dark pages; nothing is fetched and no script runs.

use std::fmt::Write as _;

/// One line of a chart.
pub struct Line<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Where it goes through; points that are no numbers are left out.
    pub points: &'a [(f64, f64)],
}

/// A chart of several lines and level marks.
pub struct Chart<'a> {
    /// Above everything.
    pub title: &'a str,
    /// Beneath the horizontal axis.
    pub x: &'a str,
    /// Beside the vertical axis.
    pub y: &'a str,
    /// The lines, the first in front.
    pub lines: Vec<Line<'a>>,
    /// Levels to compare with.
    pub levels: Vec<(&'a str, f64)>,
    /// Where the vertical axis ends.
    pub top: f64,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Left, top, right, bottom of the plot.
const PLOT: (f64, f64, f64, f64) = (64.0, 40.0, 700.0, 348.0);
const COLOURS: [&str; 3] = ["#2f7ed8", "#e08a1e", "#3a9d5d"];
/// A line is drawn with no more points than this.
const MAX_POINTS: usize = 600;

impl Chart<'_> {
    /// The chart's text.
    pub fn to_svg(&self) -> String {
        let (left, top, right, bottom) = PLOT;
        let all = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let x_end = all().map(|(x, _)| x).filter(|x| x.is_finite()).fold(1.0, f64::max);
        let at_x = |x: f64| left + (right - left) * (x / x_end).clamp(0.0, 1.0);
        let at_y = |y: f64| bottom - (bottom - top) * (y / self.top).clamp(0.0, 1.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"#777\">\n\
             <text x=\"{left}\" y=\"24\" font-size=\"14\">{}</text>\n",
            escaped(self.title)
        );
        let mut add = |text: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = writeln!(svg, "{text}");
        };
        let step = nice_step(self.top);
        for i in 0..=(self.top / step + 1e-9) as u32 {
            let value = f64::from(i) * step;
            let y = at_y(value);
            add(format_args!(
                "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#777\" \
                 stroke-opacity=\"0.25\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                y + 4.0,
                shown(value)
            ));
        }
        let step = nice_step(x_end);
        for i in 0..=(x_end / step + 1e-9) as u32 {
            let value = f64::from(i) * step;
            add(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                at_x(value),
                bottom + 18.0,
                shown(value)
            ));
        }
        add(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (left + right) / 2.0,
            bottom + 38.0,
            escaped(self.x)
        ));
        add(format_args!(
            "<text x=\"16\" y=\"{y:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {y:.1})\">{}</text>",
            escaped(self.y),
            y = (top + bottom) / 2.0
        ));
        for (name, level) in &self.levels {
            let y = at_y(*level);
            add(format_args!(
                "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#777\" \
                 stroke-dasharray=\"4 4\"/>\n<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                y - 5.0,
                escaped(name)
            ));
        }
        for (i, line) in self.lines.iter().enumerate().rev() {
            let colour = COLOURS[i % COLOURS.len()];
            let every = line.points.len().div_ceil(MAX_POINTS).max(1);
            let last = line.points.len().saturating_sub(1);
            let kept = line.points.iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last);
            let points: Vec<String> = kept
                .map(|(_, point)| *point)
                .filter(|(x, y)| x.is_finite() && y.is_finite())
                .map(|(x, y)| format!("{:.1},{:.1}", at_x(x), at_y(y)))
                .collect();
            add(format_args!(
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
                points.join(" ")
            ));
            let y = bottom - 12.0 - 18.0 * i as f64;
            add(format_args!(
                "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
                right - 8.0,
                escaped(line.name)
            ));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides `end` into five to ten parts or so.
fn nice_step(end: f64) -> f64 {
    let rough = end.max(f64::MIN_POSITIVE) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power <= rough * 1.000_001);
    factor.unwrap_or(1.0) * power
}

fn shown(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded >= 10_000.0 { format!("{} k", rounded / 1000.0) } else { rounded.to_string() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_numbers() {
        for (end, step) in [(1.0, 0.2), (10.0, 2.0), (3_000.0, 500.0), (29_000.0, 5_000.0), (1.1, 0.2)] {
            assert!((nice_step(end) - step).abs() < 1e-9, "{end}: {}", nice_step(end));
        }
        assert_eq!((shown(0.2 * 3.0), shown(25_000.0)), ("0.6".to_owned(), "25 k".to_owned()));
    }

    #[test]
    fn a_chart_holds_its_lines_and_no_more_points_than_needed() {
        let points: Vec<_> = (0..5_000).map(|i| (f64::from(i), f64::from(i % 7) / 7.0)).collect();
        let odd = [(0.0, f64::NAN), (1.0, 0.5)];
        let lines = vec![Line { name: "a<b", points: &points }, Line { name: "odd", points: &odd }];
        let levels = vec![("enough", 0.9)];
        let svg = Chart { title: "t & t", x: "x", y: "y", lines, levels, top: 1.0 }.to_svg();
        assert!(svg.contains("a&lt;b") && svg.contains("t &amp; t") && svg.contains("enough"));
        assert!(!svg.contains("NaN") && svg.matches(',').count() < 700 && svg.ends_with("</svg>\n"));
    }
}
