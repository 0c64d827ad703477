//! No crate of the workspace has a circle of more than [`MODULES_MAX`] modules that import each other. A
//! reader of one module of a circle needs all of them.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use capulet_graph::{Edge, Graph};

/// The largest circle that any crate may have: for example a type, its builder and its iterator.
const MODULES_MAX: usize = 3;

/// The circles that are not broken yet: the root of the crate and the sizes of its circles of more than
/// [`MODULES_MAX`] modules, the largest first. An entry may only shrink, and no entry may be added.
const KNOWN: [(&str, &[usize]); 3] =
    [("adio/src/lib.rs", &[7]), ("capi/src/lib.rs", &[9]), ("drivers/src/lib.rs", &[6])];

#[test]
fn no_circle_has_more_than_three_modules() -> Result<(), Box<dyn Error>> {
    let (workspace, roots) = roots()?;
    assert!(roots.len() > 10, "the workspace has {} crates only", roots.len());
    let mut report = String::new();
    for root in &roots {
        let name = root.strip_prefix(&workspace)?.display().to_string();
        let known =
            KNOWN.iter().find(|(crate_root, _)| *crate_root == name).map_or(&[][..], |(_, sizes)| sizes);
        judge(&name, known, &Graph::read(root)?, &workspace, &mut report)?;
    }
    for (name, _) in KNOWN {
        if !roots.contains(&workspace.join(name)) {
            writeln!(report, "{name}: KNOWN lists this file, but it is not the root of a crate")?;
        }
    }
    assert!(report.is_empty(), "\n{report}");
    Ok(())
}

/// The root of the workspace, and the root module of each of its libraries and programs.
fn roots() -> Result<(PathBuf, Vec<PathBuf>), Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let targets = metadata["packages"].as_array().into_iter().flatten();
    let targets = targets.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let is_built = |target: &&serde_json::Value| {
        let kinds = target["kind"].as_array().into_iter().flatten().filter_map(|kind| kind.as_str());
        kinds.into_iter().any(|kind| kind == "bin" || kind.ends_with("lib"))
    };
    let path = |value: &serde_json::Value| value.as_str().map(PathBuf::from);
    let mut roots: Vec<PathBuf> =
        targets.filter(is_built).filter_map(|target| path(&target["src_path"])).collect();
    roots.sort();
    Ok((path(&metadata["workspace_root"]).ok_or("cargo metadata names no root")?, roots))
}

/// Reports the circles that are larger than `known` allows. If there are none, reports a `known` that has
/// become too large.
fn judge(
    name: &str,
    known: &[usize],
    graph: &Graph,
    workspace: &Path,
    report: &mut String,
) -> std::fmt::Result {
    let mut circles = graph.circles();
    circles.retain(|circle| circle.len() > MODULES_MAX);
    let limit = |index: usize| known.get(index).copied().unwrap_or(MODULES_MAX);
    let too_large: Vec<_> =
        circles.iter().enumerate().filter(|(index, circle)| circle.len() > limit(*index)).collect();
    for (index, circle) in &too_large {
        let (size, limit) = (circle.len(), limit(*index));
        let names = graph.names(circle).join(", ");
        writeln!(
            report,
            "{name}: {size} modules import each other in a circle, at most {limit} may: {names}"
        )?;
        let (closing, others) = graph.closing(circle);
        writeln!(report, "  There is no circle without these imports:")?;
        print(graph, &closing, workspace, report)?;
        writeln!(report, "  The other imports of the circle:")?;
        print(graph, &others, workspace, report)?;
    }
    let sizes: Vec<usize> = circles.iter().map(Vec::len).collect();
    if too_large.is_empty() && sizes != known {
        writeln!(
            report,
            "{name}: the circles became smaller. KNOWN must say {sizes:?} instead of {known:?}."
        )?;
    }
    Ok(())
}

/// Prints each import with its file and first line.
fn print(graph: &Graph, imports: &[&Edge], workspace: &Path, report: &mut String) -> std::fmt::Result {
    for edge in imports {
        let (from, file) = &graph.modules[edge.from];
        let (to, _) = &graph.modules[edge.to];
        let file = file.strip_prefix(workspace).unwrap_or(file).display();
        let line = edge.lines[0];
        match edge.lines.len() {
            1 => writeln!(report, "    {file}:{line}: {from} uses {to}")?,
            count => writeln!(report, "    {file}:{line}: {from} uses {to} ({count} lines)")?,
        }
    }
    Ok(())
}
