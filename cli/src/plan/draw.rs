//! Draws the plan: a lane for each rank with its bytes of the file, and below the lanes the collective
//! buffers and the begins of rounds.
//!
//! Bytes are binned by columns of one pixel, so the size of a drawing does not depend on the number of
//! runs.

use std::ops::{ControlFlow, Range};

use capulet_datatype::Cursor;
use capulet_plan::estimate::{CollectiveSteps, NodeSet, Steps};
use capulet_plan::{Direction, FileSide, Plan};
use indicatif::HumanCount;
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text, Title};

use super::planned::{Planned, reason, reason_name};

const COLUMNS: u64 = 900;
const LEFT: f64 = 130.0;
const TOP: f64 = 58.0;
const LANE: f64 = 16.0;
const BAR: f64 = 12.0;
/// Largest number of lanes. If there are more ranks, several ranks share a lane.
const LANES_MAX: usize = 96;
/// Largest number of rows of collective buffers.
const ROWS_MAX: usize = 32;
/// Largest number of runs that are walked for one rank whose offsets are not in order.
const WALKED_RUNS_MAX: u64 = 1_000_000;
/// Largest number of bins of all ranks.
const BINS_MAX: u64 = 8_000_000;
/// Number of shades of a bin.
const SHADES: u64 = 8;
const BYTES_COLOR: &str = "#0072b2";
const BORDER_COLOR: &str = "#444444";
/// Colors of the collective buffers by aggregator: the Okabe-Ito palette, which color-blind readers can
/// tell apart, without the blue of the bytes.
const BUFFER_COLORS: [&str; 6] = ["#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#f0e442"];
const LEGEND_MAX: usize = 6;

/// The range of the file that is drawn, and its place in the drawing.
struct Scale {
    span: Range<u64>,
    columns: u64,
}

impl Scale {
    fn of(span: Range<u64>, ranks: usize) -> Self {
        let bytes = (span.end.saturating_sub(span.start)).max(1);
        let columns = COLUMNS.min(BINS_MAX / ranks.max(1) as u64).max(1);
        Self { span: span.start..span.start.saturating_add(bytes), columns: bytes.min(columns) }
    }

    fn bytes(&self) -> u64 {
        self.span.end - self.span.start
    }

    /// The place at which a file offset is drawn.
    fn x(&self, offset: u64) -> f64 {
        let offset = offset.clamp(self.span.start, self.span.end);
        LEFT + (offset - self.span.start) as f64 / self.bytes() as f64 * COLUMNS as f64
    }

    /// The file offset at which a column begins.
    fn start_of(&self, column: u64) -> u64 {
        self.span.start + (u128::from(self.bytes()) * u128::from(column) / u128::from(self.columns)) as u64
    }

    fn column_of(&self, offset: u64) -> usize {
        let place = u128::from(offset - self.span.start) * u128::from(self.columns);
        (place / u128::from(self.bytes())) as usize
    }
}

/// Returns the drawing as SVG.
pub(crate) fn of(planned: &Planned) -> String {
    let agreed = &planned.estimate.agreed;
    let span = if agreed.bytes == 0 { 0..1 } else { agreed.first..agreed.end };
    let scale = Scale::of(span, planned.parts.len());
    let mut height = TOP;
    let mut document = Document::new().add(heading(planned));
    document = document.add(lanes(planned, &scale, &mut height));
    if let Steps::Collective(steps) = &planned.estimate.steps {
        document = document.add(buffers(steps, &scale, &mut height));
        document = document.add(borders(steps, &scale, height));
    }
    document = document.add(axis(&scale, &mut height));
    document = document.add(legend(planned, &mut height));
    let width = LEFT + COLUMNS as f64 + 40.0;
    let document = document
        .set("viewBox", (0, 0, width as u64, height as u64))
        .set("width", width as u64)
        .set("height", height as u64)
        .set("font-family", "sans-serif")
        .set("font-size", 11);
    format!("{document}\n")
}

fn text(content: impl Into<String>, x: f64, y: f64) -> Text {
    Text::new(content).set("x", rounded(x)).set("y", rounded(y))
}

/// Rounds to a hundredth of a pixel.
fn rounded(place: f64) -> f64 {
    (place * 100.0).round() / 100.0
}

fn bar(x: Range<f64>, y: f64) -> Rectangle {
    Rectangle::new()
        .set("x", rounded(x.start))
        .set("y", rounded(y))
        .set("width", rounded((x.end - x.start).max(0.5)))
        .set("height", BAR)
}

fn heading(planned: &Planned) -> Group {
    let (agreed, setup) = (&planned.estimate.agreed, &planned.setup);
    let verb = if setup.direction == Direction::Read { "read" } else { "write" };
    let kind = if setup.is_collective { "Collective" } else { "Independent" };
    let how = match planned.estimate.plan {
        None | Some(Plan::Independent(_)) => "each rank by itself",
        Some(Plan::Nothing) => "nothing is moved",
        Some(Plan::TwoPhase(_)) => "two-phase, with collective buffers",
    };
    let why = planned.estimate.plan.and_then(reason).map(reason_name).unwrap_or_default().replace('_', " ");
    let why = if why.is_empty() { why } else { format!(" ({why})") };
    let amounts = format!(
        "{} bytes in {} runs, {} ranks on {} nodes",
        HumanCount(agreed.bytes),
        HumanCount(agreed.runs),
        HumanCount(setup.node_of.len() as u64),
        HumanCount(setup.nodes() as u64)
    );
    Group::new()
        .set("id", "heading")
        .add(text(format!("{kind} {verb}: {how}{why}"), 10.0, 22.0).set("font-size", 15))
        .add(text(amounts, 10.0, 40.0))
}

/// The number of bytes that a rank has in each column.
fn bins(side: &FileSide, scale: &Scale) -> Vec<u64> {
    if side.bytes() == 0 {
        return vec![0; scale.columns as usize];
    }
    if side.is_monotone() {
        let below: Vec<u64> =
            (0..=scale.columns).map(|column| side.bytes_below(scale.start_of(column))).collect();
        return below.windows(2).map(|pair| pair[1] - pair[0]).collect();
    }
    let mut bins = vec![0; scale.columns as usize];
    let mut cursor = Cursor::new(side.file().clone());
    cursor.seek(side.file_start());
    let mut left = WALKED_RUNS_MAX;
    let _ = cursor.for_each_run(side.bytes(), |run| {
        let start = (side.displacement_bytes() + run.offset) as u64;
        let (first, last) = (scale.column_of(start), scale.column_of(start + run.len - 1));
        for (column, bin) in bins.iter_mut().enumerate().take(last + 1).skip(first) {
            let column = scale.start_of(column as u64)..scale.start_of(column as u64 + 1);
            *bin += (start + run.len).min(column.end).saturating_sub(start.max(column.start));
        }
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bins
}

/// Draws a lane for each rank, or for each group of consecutive ranks if there are too many.
fn lanes(planned: &Planned, scale: &Scale, height: &mut f64) -> Group {
    let ranks = planned.parts.len();
    let each = ranks.div_ceil(LANES_MAX);
    let mut group = Group::new().set("id", "ranks");
    for start in (0..ranks).step_by(each) {
        let end = (start + each).min(ranks);
        let mut bins_of_lane = vec![0_u64; scale.columns as usize];
        for part in &planned.parts[start..end] {
            let bins = bins(&part.side, scale);
            bins_of_lane.iter_mut().zip(bins).for_each(|(sum, bin)| *sum = sum.saturating_add(bin));
        }
        let name = if each == 1 { format!("rank {start}") } else { format!("ranks {start} to {}", end - 1) };
        let lane = Group::new().set("id", format!("lane-{start}")).set("fill", BYTES_COLOR);
        group = group.add(text(name, LEFT - 8.0, *height + BAR - 2.0).set("text-anchor", "end")).add(shades(
            lane,
            &bins_of_lane,
            scale,
            *height,
            (end - start) as u64,
        ));
        *height += LANE;
    }
    *height += 8.0;
    group
}

/// Draws rectangles for the columns with bytes. Neighboring columns of one shade share a rectangle.
fn shades(mut lane: Group, bins: &[u64], scale: &Scale, y: f64, ranks: u64) -> Group {
    let shade = |column: usize| {
        let bytes = scale.start_of(column as u64 + 1) - scale.start_of(column as u64);
        let all = u128::from(bytes.max(1)) * u128::from(ranks);
        (u128::from(bins[column]) * u128::from(SHADES)).div_ceil(all).min(u128::from(SHADES)) as u64
    };
    let mut column = 0;
    while column < bins.len() {
        let (start, level) = (column, shade(column));
        while column < bins.len() && shade(column) == level {
            column += 1;
        }
        if level > 0 {
            let x = scale.x(scale.start_of(start as u64))..scale.x(scale.start_of(column as u64));
            let opacity = rounded(0.2 + 0.8 * level as f64 / SHADES as f64);
            lane = lane.add(bar(x, y).set("fill-opacity", opacity));
        }
    }
    lane
}

fn color_of(aggregator: u32) -> &'static str {
    BUFFER_COLORS[aggregator as usize % BUFFER_COLORS.len()]
}

/// Draws a row of collective buffers for each node group. If a buffer is narrower than a pixel, only the
/// first one in each pixel is drawn.
fn buffers(steps: &CollectiveSteps, scale: &Scale, height: &mut f64) -> Group {
    let mut group = Group::new().set("id", "buffers");
    for node_set in steps.node_sets.iter().take(ROWS_MAX) {
        let name = if steps.node_sets.len() == 1 {
            "buffers".to_owned()
        } else {
            format!("buffers, node {}", node_set.nodes[0])
        };
        let mut row = Group::new().set("class", "node-set");
        let mut drawn = 0.0;
        for (number, round) in node_set.rounds.iter().enumerate() {
            for buffer in &round.buffers {
                let x = scale.x(buffer.file.start)..scale.x(buffer.file.end);
                if x.end - drawn < 1.0 && drawn > 0.0 {
                    continue;
                }
                drawn = x.end;
                let title = format!("round {}, collective buffer of rank {}", number + 1, buffer.aggregator);
                let color = color_of(buffer.aggregator);
                row = row.add(bar(x, *height).set("fill", color).add(Title::new(title)));
            }
        }
        group = group.add(text(name, LEFT - 8.0, *height + BAR - 2.0).set("text-anchor", "end")).add(row);
        *height += LANE;
    }
    group
}

/// Draws a line where each round begins. Of the rounds that begin in one column only the first is drawn.
fn borders(steps: &CollectiveSteps, scale: &Scale, bottom: f64) -> Group {
    let mut group = Group::new()
        .set("id", "rounds")
        .set("stroke", BORDER_COLOR)
        .set("stroke-width", 1)
        .set("stroke-dasharray", "3,2");
    let rounds =
        |node_set: &NodeSet| node_set.rounds.iter().map(|round| scale.x(round.base)).collect::<Vec<_>>();
    let mut places: Vec<f64> = steps.node_sets.iter().flat_map(rounds).collect();
    places.sort_by(f64::total_cmp);
    places.dedup_by(|next, kept| *next - *kept < 1.0);
    for x in places.into_iter().map(rounded) {
        group = group.add(Line::new().set("x1", x).set("x2", x).set("y1", TOP - 6.0).set("y2", bottom));
    }
    group
}

fn axis(scale: &Scale, height: &mut f64) -> Group {
    const TICKS: u64 = 5;
    let mut group = Group::new().set("id", "offsets").set("stroke", BORDER_COLOR);
    let y = *height + 4.0;
    group = group.add(Line::new().set("x1", LEFT).set("x2", LEFT + COLUMNS as f64).set("y1", y).set("y2", y));
    let mut offsets: Vec<u64> = (0..=TICKS)
        .map(|tick| {
            scale.span.start + (u128::from(scale.bytes()) * u128::from(tick) / u128::from(TICKS)) as u64
        })
        .collect();
    offsets.dedup();
    for offset in offsets {
        let x = rounded(scale.x(offset));
        let label = HumanCount(offset).to_string();
        let label = text(label, x, y + 17.0).set("text-anchor", "middle").set("stroke", "none");
        group = group.add(Line::new().set("x1", x).set("x2", x).set("y1", y).set("y2", y + 5.0)).add(label);
    }
    *height += 36.0;
    group
        .add(text("file offset, bytes", LEFT - 8.0, y + 17.0).set("text-anchor", "end").set("stroke", "none"))
}

fn legend(planned: &Planned, height: &mut f64) -> Group {
    let mut entries = vec![(BYTES_COLOR, "bytes of a rank; darker means more".to_owned())];
    if let Steps::Collective(steps) = &planned.estimate.steps {
        let buffers =
            steps.node_sets.iter().flat_map(|node_set| &node_set.rounds).flat_map(|round| &round.buffers);
        let mut owners: Vec<u32> = Vec::new();
        for buffer in buffers {
            if owners.len() > LEGEND_MAX {
                break;
            }
            if !owners.contains(&buffer.aggregator) {
                owners.push(buffer.aggregator);
            }
        }
        owners.sort_unstable();
        let named = owners.iter().take(LEGEND_MAX);
        entries.extend(named.map(|rank| (color_of(*rank), format!("collective buffer of rank {rank}"))));
        if owners.len() > LEGEND_MAX {
            entries.push(("none", "more ranks, with the same colors".to_owned()));
        }
        entries.push((BORDER_COLOR, "dashed: a round begins".to_owned()));
        if steps.node_sets.iter().any(|node_set| !node_set.is_whole) || steps.node_sets.len() > ROWS_MAX {
            entries.push(("none", "not all rounds are drawn".to_owned()));
        }
    }
    let mut group = Group::new().set("id", "legend");
    for row in entries.chunks(4) {
        for (column, (color, name)) in row.iter().enumerate() {
            let x = 10.0 + column as f64 * 250.0;
            group = group.add(bar(x..x + BAR, *height).set("fill", *color)).add(text(
                name.as_str(),
                x + BAR + 6.0,
                *height + BAR - 2.0,
            ));
        }
        *height += LANE + 4.0;
    }
    *height += 6.0;
    group
}
