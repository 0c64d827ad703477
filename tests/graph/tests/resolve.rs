//! Which paths in the code of a module are dependencies on which other modules.

use std::path::Path;

use capulet_graph::{Error, Graph};

/// The dependencies of a crate with these files, as `from -> to: lines`.
fn edges(files: &[(&str, &str)]) -> Result<Vec<String>, Error> {
    let read = |file: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == file);
        found.map(|(_, text)| (*text).to_owned())
    };
    let graph = Graph::of(Path::new("lib.rs"), &read)?;
    let name = |module: usize| &graph.modules[module].0;
    let edge = |edge: &capulet_graph::Edge| {
        let lines: Vec<String> = edge.lines.iter().map(ToString::to_string).collect();
        format!("{} -> {}: {}", name(edge.from), name(edge.to), lines.join(" "))
    };
    Ok(graph.edges.iter().map(edge).collect())
}

/// The dependencies of the module `user`, which contains `text`, beside fixed other modules.
fn of_user(text: &str) -> Result<Vec<String>, Error> {
    edges(&[
        ("lib.rs", "mod user; mod tool; pub mod deep; pub use deep::Found as Renamed; pub struct Top;"),
        ("user.rs", text),
        ("tool.rs", "pub struct Tool; pub fn tool() {} macro_rules! make { () => {} } pub(crate) use make;"),
        ("deep/mod.rs", "mod inner; pub use inner::*; pub fn shallow() {}"),
        ("deep/inner.rs", "pub struct Found; pub fn find() {} pub enum Which { One }"),
    ])
}

#[test]
fn imports_and_paths_in_code_are_dependencies() -> Result<(), Error> {
    let tool = ["user -> tool: 1"];
    assert_eq!(of_user("use crate::tool::Tool;")?, tool);
    assert_eq!(of_user("use super::tool::{self, Tool as Other};")?, tool);
    assert_eq!(of_user("fn f() { crate::tool::tool() }")?, tool);
    assert_eq!(of_user("fn f() { use crate::tool; tool::tool() }")?, tool);
    assert_eq!(of_user("fn f() -> super::tool::Tool { super::tool::Tool }")?, tool);
    assert_eq!(of_user("use crate::tool::*;")?, tool);
    assert_eq!(of_user("\nuse super::tool;\nfn f() {\n tool::tool() }")?, ["user -> tool: 4"]);
    Ok(())
}

#[test]
fn paths_in_macros_and_attributes_are_dependencies() -> Result<(), Error> {
    let tool = ["user -> tool: 1"];
    assert_eq!(of_user("fn f() { println!(\"{}\", crate::tool::tool()) }")?, tool);
    assert_eq!(of_user("macro_rules! m { () => { $crate::tool::tool() } }")?, tool);
    assert_eq!(of_user("struct S { #[arg(value_parser = crate::tool::tool)] s: u8 }")?, tool);
    assert_eq!(of_user("make!();")?, tool);
    assert_eq!(of_user("fn f() { crate::tool::make!() }")?, tool);
    Ok(())
}

#[test]
fn re_exported_name_leads_to_the_defining_module() -> Result<(), Error> {
    let inner = ["user -> deep::inner: 1"];
    assert_eq!(of_user("use crate::Renamed;")?, inner);
    assert_eq!(of_user("use crate::deep::Found;")?, inner);
    assert_eq!(of_user("fn f() { crate::deep::find() }")?, inner);
    assert_eq!(of_user("use crate::deep::Which::One;")?, inner);
    assert_eq!(of_user("use crate::deep::shallow;")?, ["user -> deep: 1"]);
    assert_eq!(of_user("use crate::Top;")?, ["user -> lib.rs: 1"]);
    // A re-export is a dependency only where the code uses the name.
    assert_eq!(of_user("pub use crate::tool::Tool;")?, [""; 0]);
    assert_eq!(of_user("pub use crate::tool::Tool;\nfn f(_: Tool) {}")?, ["user -> tool: 2"]);
    Ok(())
}

#[test]
fn other_crates_tests_and_the_same_file_are_no_dependencies() -> Result<(), Error> {
    let none = [""; 0];
    assert_eq!(
        of_user("use std::io; use ::tool::Tool; use other::{tool, Tool}; fn f(_: io::Error) {}")?,
        none
    );
    assert_eq!(of_user("#[cfg(test)] mod tests { use crate::tool::Tool; }")?, none);
    assert_eq!(of_user("#[cfg(all(test, not(miri)))] use crate::tool::Tool;")?, none);
    assert_eq!(of_user("#[cfg(test)] mod no_such_file;")?, none);
    assert_eq!(of_user("mod inline { use super::Here; } use self::inline as other; struct Here;")?, none);
    assert_eq!(of_user("#[cfg(not(test))] use crate::tool::Tool;")?, ["user -> tool: 1"]);
    Ok(())
}

#[test]
fn missing_or_malformed_file_is_an_error() {
    let missing = edges(&[("lib.rs", "mod gone;")]);
    assert!(matches!(missing, Err(Error::Missing { module, .. }) if module == "gone"));
    let broken = edges(&[("lib.rs", "mod bad;"), ("bad.rs", "\nfn (")]);
    assert!(matches!(broken, Err(Error::Syntax { line: 2, .. })), "{broken:?}");
}

#[test]
fn circle_is_open_without_its_closing_imports() -> Result<(), Error> {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; use crate::c::C; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::d::D; pub struct C;"),
        ("d.rs", "\nuse crate::a::A; pub struct D;"),
    ];
    let read = |file: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == file);
        found.map(|(_, text)| (*text).to_owned())
    };
    let graph = Graph::of(Path::new("lib.rs"), &read)?;
    let circles = graph.circles();
    assert_eq!(circles.len(), 1);
    assert_eq!(graph.names(&circles[0]), ["a", "b", "c", "d"]);
    let (closing, others) = graph.closing(&circles[0]);
    assert_eq!((closing.len(), others.len()), (1, 4));
    assert_eq!(closing[0].lines, [if closing[0].from == 4 { 2 } else { 1 }]);
    Ok(())
}
