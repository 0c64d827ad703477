//! Lines over a logarithmic axis of counts.

use plotters::prelude::{
    ChartBuilder, Circle, Color, IntoFont, IntoLogRange, LineSeries, PathElement, SeriesLabelPosition,
    TriangleMarker, WHITE,
};

use crate::error::Error;
use crate::style::{Area, FAINT, GRAY, LABEL, Look, Mark, SMALL, TITLE, line};

/// Radius of a mark, in pixels.
const MARK: i32 = 3;

/// A line, with its points by increasing count.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) look: Look,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart of lines.
pub(crate) struct LineChart {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) lines: Vec<Line>,
    /// The value at which a level is drawn.
    pub(crate) level: Option<f64>,
    pub(crate) legend: SeriesLabelPosition,
    /// Factor by which the axis extends beyond the last point, to make room for the legend.
    pub(crate) room: f64,
}

impl LineChart {
    /// Draws the chart. Draws nothing if there are no points.
    pub(crate) fn draw(&self, area: &Area<'_>) -> Result<(), Error> {
        let xs = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let ys = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)).chain(self.level);
        let (Some((left, right)), Some((low, high))) = (hull(xs), hull(ys)) else { return Ok(()) };
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, TITLE)
            .margin(15)
            .x_label_area_size(50)
            .y_label_area_size(70)
            .build_cartesian_2d(
                (left * 0.9..right * self.room).log_scale(),
                (low * 0.8..high * 1.25).log_scale(),
            )?;
        // The axis has labels only at points, because counts are no powers of a common number.
        let label = |x: &f64| {
            let near = |point: &(f64, f64)| (point.0 / x - 1.0).abs() < 1e-6;
            let is_point = self.lines.iter().any(|line| line.points.iter().any(near));
            if is_point { format!("{x:.0}") } else { String::new() }
        };
        let level_label = |y: &f64| level_label(*y);
        chart
            .configure_mesh()
            .x_label_formatter(&label)
            .y_label_formatter(&level_label)
            .light_line_style(WHITE)
            .bold_line_style(FAINT)
            .label_style(SMALL)
            .axis_desc_style(LABEL)
            .x_desc(self.x)
            .y_desc(self.y)
            .draw()?;
        if let Some(level) = self.level {
            chart.draw_series(LineSeries::new([(left, level), (right, level)], GRAY.stroke_width(2)))?;
        }
        for Line { name, look, points } in &self.lines {
            let look = *look;
            chart
                .draw_series(LineSeries::new(points.iter().copied(), line(look)))?
                .label(name)
                .legend(move |at| sample(at, look));
            let points = points.iter().copied();
            let fill = look.color.filled();
            match look.mark {
                Mark::Circle => chart.draw_series(points.map(|point| Circle::new(point, MARK, fill)))?,
                Mark::Triangle => {
                    chart.draw_series(points.map(|point| TriangleMarker::new(point, 2 * MARK, fill)))?
                }
            };
        }
        chart
            .configure_series_labels()
            .position(self.legend.clone())
            .background_style(WHITE.mix(0.85))
            .border_style(FAINT)
            .label_font(SMALL.into_font())
            .draw()?;
        Ok(())
    }
}

/// The sample of a line in the legend. It shows the mark at the points unless the mark is the usual one.
fn sample((x, y): (i32, i32), look: Look) -> PathElement<(i32, i32)> {
    let bump: &[(i32, i32)] = match look.mark {
        Mark::Circle => &[],
        Mark::Triangle => &[(3, 0), (9, -8), (15, 0), (3, 0)],
    };
    let path = [&[(0, 0)], bump, &[(18, 0)]].concat();
    PathElement::new(path.into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>(), line(look))
}

/// A label of a logarithmic axis. Only 1, 2 and 5 of each power of ten have labels, because more would
/// overlap. The label leaves out the digits that come from rounding in a sum of tenths.
fn level_label(y: f64) -> String {
    let exponent = y.log10().floor() as i32;
    let digits = y / 10_f64.powi(exponent);
    let near = |wanted: f64| (digits - wanted).abs() < 1e-6;
    if [1.0, 2.0, 5.0, 10.0].into_iter().any(near) {
        format!("{y:.*}", usize::try_from(-exponent).unwrap_or(0))
    } else {
        String::new()
    }
}

/// The least and the largest of the positive values.
fn hull(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && *value > 0.0).fold(None, |hull, value| match hull {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

#[cfg(test)]
mod tests {
    use super::level_label;

    #[test]
    fn labels_stand_at_1_2_and_5_and_are_short() {
        // The axis makes its marks by sums: a power of ten and its multiples.
        let marks = |power: f64| (0..=9).map(move |i| power * (1.0 + f64::from(i)));
        let labels: Vec<String> = [0.01, 0.1, 1.0, 100.0]
            .into_iter()
            .flat_map(marks)
            .map(level_label)
            .filter(|l| !l.is_empty())
            .collect();
        assert_eq!(labels.join(" "), "0.01 0.02 0.05 0.1 0.1 0.2 0.5 1 1 2 5 10 100 200 500 1000");
    }
}
