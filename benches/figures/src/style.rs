//! The common look of all figures: the colors of the contenders, and the font.

use plotters::coord::Shift;
use plotters::prelude::{BitMapBackend, Color, DrawingArea, FontStyle, RGBColor, ShapeStyle};
use plotters::style::register_font;

use crate::error::Error;

pub(crate) type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

pub(crate) const TITLE: (&str, u32) = ("sans-serif", 30);
pub(crate) const LABEL: (&str, u32) = ("sans-serif", 20);
pub(crate) const SMALL: (&str, u32) = ("sans-serif", 16);
pub(crate) const GRAY: RGBColor = RGBColor(150, 150, 150);
pub(crate) const FAINT: RGBColor = RGBColor(225, 225, 225);

/// The name of Capulet's series.
pub(crate) const OURS: &str = "Capulet";

/// Registers the font that every text here uses.
pub(crate) fn use_own_font() -> Result<(), Error> {
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular()).map_err(|_| Error::Font)
}

/// The color of a contender, from the Okabe-Ito palette, which color-blind readers can tell apart.
pub(crate) fn color(name: &str) -> RGBColor {
    match name {
        OURS => RGBColor(213, 94, 0),
        "openmpi" => RGBColor(86, 180, 233),
        "openmpi5" => RGBColor(0, 114, 178),
        "mpich" => RGBColor(120, 200, 150),
        "mpich5" => RGBColor(0, 158, 115),
        "loops" => RGBColor(204, 121, 167),
        _ => GRAY,
    }
}

/// The look of a line.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) color: RGBColor,
    pub(crate) mark: Mark,
    pub(crate) is_broad: bool,
}

/// The mark at the points of a line.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    Circle,
    Triangle,
}

/// The look of line number `n` in a list. When the colors are used up, they repeat with another mark.
pub(crate) fn nth_look(n: usize, is_broad: bool) -> Look {
    const COLORS: [RGBColor; 8] = [
        RGBColor(213, 94, 0),
        RGBColor(0, 114, 178),
        RGBColor(0, 158, 115),
        RGBColor(204, 121, 167),
        RGBColor(230, 159, 0),
        RGBColor(86, 180, 233),
        RGBColor(90, 90, 90),
        RGBColor(140, 86, 75),
    ];
    let mark = if n < COLORS.len() { Mark::Circle } else { Mark::Triangle };
    Look { color: COLORS[n % COLORS.len()], mark, is_broad }
}

/// The style of a line. Capulet's lines are broad.
pub(crate) fn line(look: Look) -> ShapeStyle {
    look.color.stroke_width(if look.is_broad { 4 } else { 2 })
}
