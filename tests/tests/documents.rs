//! `tests/README.md` names every program of `tests/mpi`, and the files and functions that the pages on the
//! architecture name exist. These tests run no job.

use std::fs;
use std::path::Path;

use capulet_tests::mpi::root;

/// Pages whose files and functions are checked.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "docs/node-memory.md"];

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The parts of a text in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn readme_of_the_tests_names_every_program() {
    let readme = text("tests/README.md");
    let named: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
        .flat_map(|cell| cell.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .collect();
    let folder = fs::read_dir(root().join("tests/mpi")).expect("tests/mpi can be listed");
    let files = folder.map(|entry| entry.expect("tests/mpi can be listed").path());
    let programs: Vec<String> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "c"))
        .map(|file| file.file_stem().expect("the file has a name").to_string_lossy().into_owned())
        .collect();
    assert!(!programs.is_empty(), "tests/mpi has no programs");
    let missing: Vec<_> = programs.iter().filter(|name| !named.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "tests/README.md has no row for {missing:?}");
}

/// A path in backticks must exist. A name with parentheses must be a function of the file named last before
/// it.
#[test]
fn pages_name_files_and_functions_that_exist() {
    for page in PAGES {
        let content = text(page);
        let (mut source, mut functions) = (None, 0);
        // Code blocks are left out: their fences have three backticks, so quoted and plain text would swap.
        let blocks = content.split("```").step_by(2);
        for word in blocks.flat_map(quoted) {
            let is_source = Path::new(word).extension().is_some_and(|extension| extension == "rs");
            let is_path = is_source && word.contains('/') && !word.contains("NAME");
            if is_path {
                source = Some((word, text(word)));
            } else if let Some(name) = word.strip_suffix("()") {
                let (file, code) = source.as_ref().expect("a file is named before its functions");
                let forms = ["(", "<"].map(|next| format!("fn {name}{next}"));
                let is_there = forms.iter().any(|form| code.contains(form));
                assert!(is_there, "{page}: {file} has no function `{name}`");
                functions += 1;
            }
        }
        assert!(functions > 20, "{page} names only {functions} functions");
    }
}
