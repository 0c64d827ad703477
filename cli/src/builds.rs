//! The build folders of the measuring programs.

use std::path::{Path, PathBuf};

/// Paths at which `program` of the build `build` may lie, in the order of the search. Builds are
/// neighbors: `target/MPI/PROFILE`.
pub(crate) fn candidates(executable: &Path, build: &str, program: &str) -> Vec<PathBuf> {
    let Some(profile) = executable.parent() else { return Vec::new() };
    let Some(builds) = profile.parent().and_then(Path::parent) else { return Vec::new() };
    let mut profiles: Vec<_> = profile.file_name().into_iter().collect();
    profiles.push("release".as_ref());
    profiles.into_iter().map(|profile| builds.join(build).join(profile).join(program)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_other_mpis_lie_in_neighboring_builds() {
        let found =
            candidates(Path::new("/src/target/openmpi/debug/capulet"), "mpich5", "capulet-bench-types");
        let expected =
            ["debug", "release"].map(|profile| format!("/src/target/mpich5/{profile}/capulet-bench-types"));
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(candidates(Path::new("/"), "mpich", "capulet-bench-types").is_empty());
    }
}
