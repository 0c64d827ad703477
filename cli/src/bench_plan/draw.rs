//! Draws the rows as lines over the number of ranks. Both axes are logarithmic.

use svg::Document;
use svg::node::element::{Circle, Group, Line, Polyline, Text};

use super::rank::View;
use super::row::Row;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const GAP: f64 = 90.0;
const LABELS: [&str; 10] = ["1", "10", "100", "1 k", "10 k", "100 k", "1 M", "10 M", "100 M", "1 G"];
const FRAME: &str = "#444444";

/// One line of a panel: its name, its color, its view, and its value in a row.
struct Series {
    name: &'static str,
    color: &'static str,
    view: View,
    value: fn(&Row) -> u64,
}

struct Panel {
    title: &'static str,
    series: [Series; 3],
}

fn panels() -> [Panel; 3] {
    let three = |ours: fn(&Row) -> u64, romio: fn(&Row) -> u64| {
        [
            Series { name: "Capulet, strided", color: "#d55e00", view: View::Strided, value: ours },
            Series { name: "Capulet, irregular", color: "#e69f00", view: View::Irregular, value: ours },
            // The formula gives the same value for both views.
            Series { name: "ROMIO (formula)", color: "#0072b2", view: View::Strided, value: romio },
        ]
    };
    [
        Panel {
            title: "Memory of a rank, bytes (Capulet's is measured)",
            series: three(|row| row.ours.memory_bytes, |row| row.romio.memory_bytes),
        },
        Panel {
            title: "Bytes that a rank sends beside the data (formulas)",
            series: three(|row| row.ours.sent_bytes, |row| row.romio.sent_bytes),
        },
        Panel {
            title: "Messages of a rank, including data (formulas)",
            series: three(|row| row.ours.messages, |row| row.romio.messages),
        },
    ]
}

/// Returns the drawing as SVG.
pub(super) fn of(rows: &[Row]) -> String {
    let mut document = Document::new()
        .set("viewBox", (0, 0, (3.0 * (WIDTH + GAP)) as u32, (HEIGHT + 170.0) as u32))
        .set("font-family", "sans-serif")
        .set("font-size", 12);
    for (place, panel) in panels().iter().enumerate() {
        document = document.add(draw(panel, rows, LEFT + place as f64 * (WIDTH + GAP)));
    }
    format!("{document}\n")
}

/// The powers of ten that enclose the values.
fn decades(values: impl Iterator<Item = u64>) -> (u32, u32) {
    let (low, high) = values.fold((u64::MAX, 1), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = (low.clamp(1, high).ilog10(), (high - 1).max(1).ilog10() + 1);
    (low, high.max(low + 1))
}

fn draw(panel: &Panel, rows: &[Row], left: f64) -> Group {
    let values = panel.series.iter().flat_map(|series| rows.iter().map(series.value));
    let (low, high) = decades(values);
    let (first, last) = decades(rows.iter().map(|row| row.scenario.ranks));
    let place = |value: u64, low: u32, high: u32| {
        ((value.max(1) as f64).log10() - f64::from(low)) / f64::from(high - low)
    };
    let rounded = |place: f64| (place * 100.0).round() / 100.0;
    let x = |ranks: u64| rounded(left + WIDTH * place(ranks, first, last));
    let y = |value: u64| rounded(TOP + HEIGHT * (1.0 - place(value, low, high)));
    let mut group =
        Group::new().add(Text::new(panel.title).set("x", left).set("y", TOP - 16.0).set("font-size", 14));
    for power in low..=high {
        let at = y(10_u64.saturating_pow(power));
        let line = Line::new().set("x1", left).set("x2", left + WIDTH).set("y1", at).set("y2", at);
        group = group.add(line.set("stroke", "#e1e1e1")).add(label(power, left - 6.0, at + 4.0, "end"));
    }
    for power in first..=last {
        let at = x(10_u64.saturating_pow(power));
        let line =
            Line::new().set("x1", at).set("x2", at).set("y1", TOP + HEIGHT).set("y2", TOP + HEIGHT + 5.0);
        group = group.add(line.set("stroke", FRAME)).add(label(power, at, TOP + HEIGHT + 19.0, "middle"));
    }
    for (number, series) in panel.series.iter().enumerate() {
        let rows = rows.iter().filter(|row| row.scenario.view == series.view);
        let points: Vec<(f64, f64)> =
            rows.map(|row| (x(row.scenario.ranks), y((series.value)(row)))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let line = Polyline::new().set("points", path.join(" ")).set("fill", "none");
        group = group.add(line.set("stroke", series.color).set("stroke-width", 2));
        for (x, y) in points {
            group = group.add(Circle::new().set("cx", x).set("cy", y).set("r", 3).set("fill", series.color));
        }
        let (x, y) = (left + 210.0 * (number % 2) as f64, TOP + HEIGHT + 64.0 + 20.0 * (number / 2) as f64);
        let sample = Line::new().set("x1", x).set("x2", x + 18.0).set("y1", y - 4.0).set("y2", y - 4.0);
        group = group
            .add(sample.set("stroke", series.color).set("stroke-width", 2))
            .add(Text::new(series.name).set("x", x + 24.0).set("y", y));
    }
    let axis = Text::new("ranks").set("x", left + WIDTH / 2.0).set("y", TOP + HEIGHT + 38.0);
    group.add(axis.set("text-anchor", "middle"))
}

fn label(power: u32, x: f64, y: f64, anchor: &str) -> Text {
    let name = LABELS.get(power as usize).copied().map_or_else(|| format!("10^{power}"), str::to_owned);
    Text::new(name).set("x", x).set("y", y).set("text-anchor", anchor)
}
