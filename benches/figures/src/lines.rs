//! Lines over a logarithmic axis of counts.

use plotters::prelude::{
    ChartBuilder, Circle, Color, IntoFont, IntoLogRange, LineSeries, PathElement, RGBColor,
    SeriesLabelPosition, WHITE,
};

use crate::error::Error;
use crate::style::{Area, FAINT, GRAY, LABEL, SMALL, TITLE, line};

/// A line: points by increasing count.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) color: RGBColor,
    pub(crate) is_ours: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What is drawn.
pub(crate) struct LineChart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    pub(crate) lines: Vec<Line>,
    /// Where a level is marked.
    pub(crate) level: Option<f64>,
    pub(crate) legend: SeriesLabelPosition,
    /// How far the axis goes on behind the last point, as a factor: room for the legend.
    pub(crate) room: f64,
}

impl LineChart<'_> {
    /// Draws it. Nothing without points.
    pub(crate) fn draw(&self, area: &Area<'_>) -> Result<(), Error> {
        let xs = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let ys = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)).chain(self.level);
        let (Some((left, right)), Some((low, high))) = (hull(xs), hull(ys)) else { return Ok(()) };
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, TITLE)
            .margin(15)
            .x_label_area_size(50)
            .y_label_area_size(70)
            .build_cartesian_2d(
                (left * 0.9..right * self.room).log_scale(),
                (low * 0.8..high * 1.25).log_scale(),
            )?;
        // Labels only where points are: counts are powers of nothing in particular.
        let label = |x: &f64| {
            let near = |point: &(f64, f64)| (point.0 / x - 1.0).abs() < 1e-6;
            let is_point = self.lines.iter().any(|line| line.points.iter().any(near));
            if is_point { format!("{x:.0}") } else { String::new() }
        };
        chart
            .configure_mesh()
            .x_label_formatter(&label)
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
        for Line { name, color, is_ours, points } in &self.lines {
            let style = line(*color, *is_ours);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
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

/// The least and the largest value, of positive ones.
fn hull(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && *value > 0.0).fold(None, |hull, value| match hull {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}
