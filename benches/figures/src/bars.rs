//! Groups of horizontal bars on a logarithmic axis.

use plotters::prelude::{
    ChartBuilder, Color, IntoFont, IntoLogRange, PathElement, Rectangle, SeriesLabelPosition, WHITE,
};

use crate::error::Error;
use crate::style::{Area, FAINT, LABEL, SMALL, TITLE, color};

/// The bars of one contender: one value for each group, if it has one.
pub(crate) struct Bars {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// A chart of bars.
pub(crate) struct BarChart<'a> {
    pub(crate) title: &'a str,
    pub(crate) axis: &'a str,
    pub(crate) groups: Vec<String>,
    pub(crate) bars: Vec<Bars>,
}

impl BarChart<'_> {
    /// The least and the largest value, with space around them. The space on the right is for the legend.
    fn range(&self) -> Option<(f64, f64)> {
        let values = || self.bars.iter().flat_map(|bars| bars.values.iter().flatten().copied());
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        (low > 0.0 && low.is_finite()).then_some((low * 0.7, high * 3.0))
    }

    /// Draws the chart with the first group on top. Draws nothing if there are no values.
    pub(crate) fn draw(&self, area: &Area<'_>) -> Result<(), Error> {
        let Some((low, high)) = self.range() else { return Ok(()) };
        let groups = self.groups.len();
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, TITLE)
            .margin(15)
            .x_label_area_size(50)
            .y_label_area_size(230)
            .build_cartesian_2d((low..high).log_scale(), 0.0..groups as f64)?;
        let name = |y: &f64| {
            let group = groups as f64 - y;
            // Labels stand in the middle of their groups.
            if (group.fract() - 0.5).abs() > 0.01 {
                return String::new();
            }
            self.groups.get(group.floor() as usize).cloned().unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(FAINT)
            .y_labels(2 * groups + 1)
            .y_label_formatter(&name)
            .label_style(SMALL)
            .axis_desc_style(LABEL)
            .x_desc(self.axis)
            .draw()?;
        let width = 0.84 / self.bars.len() as f64;
        for (place, bars) in self.bars.iter().enumerate() {
            let fill = color(&bars.name).filled();
            let rectangles = bars.values.iter().enumerate().filter_map(|(group, value)| {
                let top = (groups - group) as f64 - 0.08 - place as f64 * width;
                value.map(|value| Rectangle::new([(low, top), (value, top - 0.92 * width)], fill))
            });
            let color = color(&bars.name);
            chart
                .draw_series(rectangles)?
                .label(&bars.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(8)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleRight)
            .background_style(WHITE.mix(0.85))
            .border_style(FAINT)
            .label_font(SMALL.into_font())
            .draw()?;
        Ok(())
    }
}
