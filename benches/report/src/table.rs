//! Prints rows as a table for people.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::merge::Row;

const HEADER: [&str; 12] = [
    "suite", "case", "element", "op", "unit", "ours", "best MPI", "MPI", "x MPI", "x loops", "x memcpy",
    "x lines",
];
/// Columns before this one hold words.
const FIRST_NUMBER: usize = 5;
const PEER_NAME: usize = 7;

/// The table. Columns that start with `x` tell how many times faster Capulet is.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(HEADER);
    for row in rows {
        table.add_row(cells(row));
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        if at >= FIRST_NUMBER && at != PEER_NAME {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn cells(row: &Row) -> [String; 12] {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    [
        row.suite.clone(),
        row.case.clone(),
        row.element.clone(),
        row.op.clone(),
        row.unit.name().to_owned(),
        number(Some(row.ours)),
        number(row.peer),
        row.peer_name.clone().unwrap_or_else(|| "-".to_owned()),
        number(row.ratio),
        number(row.hand_ratio),
        number(row.memcpy_ratio),
        number(row.lines_ratio),
    ]
}
