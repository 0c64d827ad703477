//! The amount of memory that the control groups of this process still allow (cgroup v2, as in the kernel's
//! `Documentation/admin-guide/cgroup-v2.rst`).
//!
//! Containers and batch systems limit memory by control groups. The limit includes shared memory. The
//! kernel ends a process beyond the limit by a signal, so an allocation must check the room beforehand. The
//! room of the process is the minimum over its group and all enclosing groups, because each group has its
//! own limit. The page cache of a group counts as room, because the kernel reclaims the page cache when
//! memory is short.

use std::fs;
use std::path::Path;

/// The conventional mount point of the single hierarchy of version 2.
const MOUNT: &str = "/sys/fs/cgroup";

/// The bytes that this process may still allocate. `None` if there is no limit, or if no limit can be read.
/// Reads some small files.
pub(crate) fn room_bytes() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    room_below(Path::new(MOUNT), &own)
}

/// As [`room_bytes`], for the text `own` of a `/proc/PID/cgroup` and a hierarchy that is mounted at
/// `mount`.
fn room_below(mount: &Path, own: &str) -> Option<u64> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // The path of a group outside of the own cgroup namespace contains "..", which must not be followed.
    let inside = path.split('/').take_while(|part| *part != "..").collect::<Vec<_>>().join("/");
    let folder = mount.join(inside);
    folder.ancestors().take_while(|group| group.starts_with(mount)).filter_map(room_of).min()
}

/// The bytes that one group still allows. `None` if the group has no limit: the file contains `max`, or
/// does not exist, as in the root group.
fn room_of(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let limit_bytes = number("memory.max")?;
    let used_bytes = number("memory.current")?;
    let facts = read("memory.stat").unwrap_or_default();
    let fact = |key: &str| {
        let value = facts.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    // These two lists contain no shared memory: the kernel keeps shared memory on the lists of anonymous
    // memory.
    let given_back_bytes = fact("inactive_file").saturating_add(fact("active_file"));
    Some(limit_bytes.saturating_sub(used_bytes.saturating_sub(given_back_bytes)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A hierarchy of control groups as plain files. Dropping the value removes the files.
    struct Hierarchy(tempfile::TempDir);

    impl Hierarchy {
        fn new() -> Self {
            Hierarchy(tempfile::tempdir().expect("a temporary folder"))
        }

        fn group(self, path: &str, limit: &str, used: &str, facts: &str) -> Self {
            let folder: PathBuf = self.0.path().join(path);
            fs::create_dir_all(&folder).expect("the test can create the folder");
            for (name, text) in [("memory.max", limit), ("memory.current", used), ("memory.stat", facts)] {
                fs::write(folder.join(name), format!("{text}\n")).expect("the test can write the file");
            }
            self
        }

        fn room(&self, own: &str) -> Option<u64> {
            room_below(self.0.path(), own)
        }
    }

    #[test]
    fn room_is_the_limit_minus_the_use_that_is_not_reclaimable() {
        let facts = "anon 500\nfile 900\nshmem 300\ninactive_file 100\nactive_file 50\nactive_file_x 7";
        let tree = Hierarchy::new().group("job", "1000", "700", facts);
        assert_eq!(tree.room("0::/job\n"), Some(1000 - 700 + 150));
        assert_eq!(tree.room("4:memory:/other\n0::/job\n"), Some(450));
    }

    #[test]
    fn enclosing_groups_limit_the_room() {
        let tree = Hierarchy::new().group("a/b/c", "1000", "1", "").group("a/b", "max", "9", "");
        let tree = tree.group("a", "500", "400", "");
        assert_eq!(tree.room("0::/a/b/c\n"), Some(100));
        assert_eq!(tree.room("0::/a/b\n"), Some(100));
    }

    #[test]
    fn full_group_has_no_room_and_missing_limit_is_none() {
        let tree = Hierarchy::new().group("full", "10", "20", "").group("free", "max", "20", "");
        assert_eq!(tree.room("0::/full\n"), Some(0));
        assert_eq!(tree.room("0::/free\n"), None);
        assert_eq!(tree.room("0::/missing\n"), None);
        assert_eq!(tree.room("0::/\n"), None);
        assert_eq!(tree.room("4:memory:/full\n"), None);
        assert_eq!(tree.room("nonsense"), None);
    }

    #[test]
    fn container_finds_its_limit_in_its_root_group() {
        let tree = Hierarchy::new().group("", "1000", "250", "");
        assert_eq!(tree.room("0::/\n"), Some(750));
        // The process has been moved out of its cgroup namespace.
        assert_eq!(tree.room("0::/../elsewhere\n"), Some(750));
    }

    #[test]
    fn malformed_numbers_are_no_limit() {
        let tree = Hierarchy::new().group("odd", "many", "1", "").group("odder", "10", "-1", "");
        assert_eq!(tree.room("0::/odd\n"), None);
        assert_eq!(tree.room("0::/odder\n"), None);
    }
}
