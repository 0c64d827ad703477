//! Hints, spelled as in ROMIO (MPI 4.1, section 14.2.8).
//!
//! An unknown key is ignored, and a value that cannot be parsed keeps the value in force, as the standard
//! requires. [`Hints::pairs`] returns the hints in force, not the requested ones.

use std::hash::{DefaultHasher, Hash, Hasher};

use capulet_comm::Mechanism;
use capulet_drivers::{Caps, FileLayout};
use capulet_plan::aggregators::ConfigList;
pub use capulet_plan::grid::{COLLECTIVE_BUFFER_BYTES, COLLECTIVE_BUFFER_BYTES_MAX};
use capulet_sieve::{CollectiveMode, Holes, PlanHints, Sieve, SieveMode, Sieves};

use crate::mode::AccessMode;

/// Hints in force on an open file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hints {
    /// `cb_buffer_size`: bytes of each aggregator's collective buffer.
    pub collective_buffer_bytes: u64,
    /// `cb_nodes`: requested number of aggregators of all nodes. 0: the number in `config_list`.
    pub aggregators: u64,
    /// `cb_config_list`: the nodes that have aggregators, and how many each has. Fixed at open.
    pub config_list: ConfigList,
    /// `romio_cb_read`.
    pub read: CollectiveMode,
    /// `romio_cb_write`.
    pub write: CollectiveMode,
    /// `striping_unit`: requested bytes of a stripe. 0: the stripe of the storage.
    pub stripe_bytes: u64,
    /// `romio_no_indep_rw`: the program promises collective access only.
    pub no_independent: bool,
    /// `capulet_sync_on_close`: a close forces the data to the device.
    pub sync_on_close: bool,
    /// `capulet_exclusive_pages`: the program promises that no two nodes write to one page of the file while
    /// it is open.
    pub exclusive_pages: bool,
    /// `capulet_exclusive`: the program promises that no other access writes between the first and the last
    /// byte of an access while it writes. For a collective access, these are the first and the last byte of
    /// all ranks together.
    pub holes: Holes,
    /// `capulet_lock_timeout_ms`: time in milliseconds that an access in atomic mode waits for other accesses
    /// before it fails. 0: no limit. Fixed when atomic mode is first set.
    pub lock_timeout_ms: u64,
    /// `capulet_lock`: the lock of atomic mode. Fixed when atomic mode is first set.
    pub lock: LockChoice,
    /// `capulet_words`: how ranks of several nodes reach the words of locks and shared file pointers. Fixed
    /// at open.
    pub words: Mechanism,
    /// `file_perm`: permission bits of a created file, octal.
    pub permissions: u32,
    /// `ind_rd_buffer_size` and `romio_ds_read`, `ind_wr_buffer_size` and `romio_ds_write`: data sieving of
    /// independent accesses of this rank. May differ between ranks.
    pub sieves: Sieves,
}

/// The lock of atomic mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockChoice {
    /// Capulet chooses the lock; see [`File::set_atomicity`](crate::File::set_atomicity).
    Auto,
    /// Locks the whole file by a wait list. A message wakes a waiting rank.
    Hybrid,
    /// Locks the whole file by a wait list. A waiting rank polls a word.
    OneSided,
    /// Locks the whole file by a queue of all ranks.
    Mcs,
    /// Locks the whole file by a queue in the shared memory of one node.
    Shared,
    /// Locks the whole file by a queue of the ranks of each node and a queue of the nodes.
    TwoLevel,
    /// Locks ranges of bytes.
    Range,
    /// Locks ranges of bytes by the locks of the storage.
    Fcntl,
}

impl LockChoice {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::Auto, "auto"),
        (Self::Hybrid, "hybrid"),
        (Self::OneSided, "onesided"),
        (Self::Mcs, "mcs"),
        (Self::Shared, "shared"),
        (Self::TwoLevel, "twolevel"),
        (Self::Range, "range"),
        (Self::Fcntl, "fcntl"),
    ];

    fn parse(value: &str) -> Option<Self> {
        let value = value.to_ascii_lowercase();
        Self::NAMES.iter().find(|(_, name)| *name == value).map(|(choice, _)| *choice)
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(choice, _)| *choice == self).map_or("auto", |(_, name)| name)
    }
}

fn parse_mode(value: &str) -> Option<CollectiveMode> {
    match value.to_ascii_lowercase().as_str() {
        "enable" => Some(CollectiveMode::Enable),
        "disable" => Some(CollectiveMode::Disable),
        "automatic" => Some(CollectiveMode::Automatic),
        _ => None,
    }
}

fn mode_name(mode: CollectiveMode) -> &'static str {
    match mode {
        CollectiveMode::Enable => "enable",
        CollectiveMode::Disable => "disable",
        CollectiveMode::Automatic => "automatic",
    }
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            collective_buffer_bytes: COLLECTIVE_BUFFER_BYTES,
            aggregators: 0,
            config_list: ConfigList::default(),
            read: CollectiveMode::Automatic,
            write: CollectiveMode::Automatic,
            stripe_bytes: 0,
            no_independent: false,
            sync_on_close: false,
            exclusive_pages: false,
            holes: Holes::Untouched,
            lock_timeout_ms: 0,
            lock: LockChoice::Auto,
            words: Mechanism::Auto,
            permissions: 0o666,
            sieves: Sieves::default(),
        }
    }
}

fn parse_sieve(value: &str) -> Option<SieveMode> {
    match value.to_ascii_lowercase().as_str() {
        "enable" => Some(SieveMode::Always),
        "disable" => Some(SieveMode::Never),
        "automatic" => Some(SieveMode::Automatic),
        _ => None,
    }
}

fn sieve_name(mode: SieveMode) -> String {
    match mode {
        SieveMode::Always => "enable",
        SieveMode::Never => "disable",
        SieveMode::Automatic => "automatic",
    }
    .to_owned()
}

/// Applies a hint to the sieve of its direction.
fn set_sieve(sieve: &mut Sieve, key: &str, value: &str) {
    if key.starts_with("romio_ds") {
        sieve.mode = parse_sieve(value).unwrap_or(sieve.mode);
    } else if let Some(bytes) = value.parse().ok().filter(|bytes| *bytes > 0) {
        sieve.buffer_bytes = COLLECTIVE_BUFFER_BYTES_MAX.min(bytes);
    }
}

impl Hints {
    /// Applies the pairs with known keys. Of several pairs with one key, the last wins.
    pub fn apply<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (key, value) in pairs {
            self.apply_one(key, value.trim());
        }
        if self.no_independent {
            // As in ROMIO, this promise means that only aggregators access the file.
            self.read = CollectiveMode::Enable;
            self.write = CollectiveMode::Enable;
        }
    }

    fn apply_one(&mut self, key: &str, value: &str) {
        let number = value.parse::<u64>().ok();
        match key {
            "cb_buffer_size" => {
                if let Some(bytes) = number.filter(|bytes| *bytes > 0) {
                    let page = capulet_sieve::two_phase::PAGE_BYTES;
                    self.collective_buffer_bytes =
                        bytes.min(COLLECTIVE_BUFFER_BYTES_MAX).next_multiple_of(page);
                }
            }
            "cb_nodes" => self.aggregators = number.unwrap_or(self.aggregators),
            "cb_config_list" => match value.parse() {
                Ok(list) => self.config_list = list,
                Err(error) => tracing::debug!(value, %error, "cb_config_list ignored"),
            },
            "romio_cb_read" => self.read = parse_mode(value).unwrap_or(self.read),
            "romio_cb_write" => self.write = parse_mode(value).unwrap_or(self.write),
            "striping_unit" => self.stripe_bytes = number.unwrap_or(self.stripe_bytes),
            "ind_rd_buffer_size" | "romio_ds_read" => set_sieve(&mut self.sieves.read, key, value),
            "ind_wr_buffer_size" | "romio_ds_write" => set_sieve(&mut self.sieves.write, key, value),
            "romio_no_indep_rw" => set_flag(&mut self.no_independent, value),
            "capulet_sync_on_close" => set_flag(&mut self.sync_on_close, value),
            "capulet_exclusive_pages" => set_flag(&mut self.exclusive_pages, value),
            "capulet_exclusive" => {
                let mut is_promised = self.holes == Holes::Rewritten;
                set_flag(&mut is_promised, value);
                self.holes = if is_promised { Holes::Rewritten } else { Holes::Untouched };
            }
            "capulet_lock_timeout_ms" => self.lock_timeout_ms = number.unwrap_or(self.lock_timeout_ms),
            "capulet_lock" => self.lock = LockChoice::parse(value).unwrap_or(self.lock),
            "capulet_words" => self.words = value.to_ascii_lowercase().parse().unwrap_or(self.words),
            "file_perm" => {
                let bits = u32::from_str_radix(value.trim_start_matches("0o"), 8).ok();
                self.permissions = bits.filter(|bits| *bits <= 0o777).unwrap_or(self.permissions);
            }
            _ => {}
        }
    }

    /// Bytes of a stripe: the requested number. Without a request, the stripe bytes of the storage. `None` if
    /// the storage does not stripe the file.
    pub fn stripe_bytes(&self, layout: &FileLayout) -> Option<u64> {
        match self.stripe_bytes {
            0 => (layout.stripe_count > 1).then_some(layout.stripe_bytes),
            asked => Some(asked),
        }
    }

    /// The hints that the planner needs.
    pub fn plan(&self) -> PlanHints {
        PlanHints { read: self.read, write: self.write, holes: self.holes }
    }

    /// Whether the holes of a write may be written back. This follows the promise, if the file is readable.
    /// There are two exceptions. In atomic mode another access may write between the read and the write of a
    /// hole. If the storage caches pages on each node, the read may return bytes that another node has
    /// replaced.
    pub(crate) fn holes_of(&self, mode: AccessMode, caps: Caps, is_atomic: bool) -> Holes {
        let sees_all = caps.contains(Caps::BYTE_WRITES | Caps::IMMEDIATE_VISIBILITY);
        if mode.reads() && sees_all && !is_atomic { self.holes } else { Holes::Untouched }
    }

    /// A digest of the hints that must be the same on all ranks.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let agreed = Self { sieves: Sieves::default(), ..self.clone() };
        agreed.hash(&mut hasher);
        hasher.finish()
    }

    /// The hints in force, as `MPI_File_get_info` returns them.
    pub(crate) fn pairs(&self, force: &InForce) -> Vec<(String, String)> {
        let flag = |value: bool| if value { "true" } else { "false" }.to_owned();
        let is_rewritten = |holes: Holes| holes == Holes::Rewritten;
        let writes = self.sieves.write.mode;
        let mut pairs = vec![
            ("cb_buffer_size", self.collective_buffer_bytes.to_string()),
            ("cb_nodes", force.aggregators.to_string()),
            ("cb_config_list", self.config_list.to_string()),
            ("romio_cb_read", mode_name(self.read).to_owned()),
            ("romio_cb_write", mode_name(self.write).to_owned()),
            ("ind_rd_buffer_size", self.sieves.read.buffer_bytes.to_string()),
            ("ind_wr_buffer_size", self.sieves.write.buffer_bytes.to_string()),
            ("romio_ds_read", sieve_name(self.sieves.read.mode)),
            // Writes do not sieve without the promise of `capulet_exclusive`, or if Capulet cannot use it.
            ("romio_ds_write", sieve_name(if is_rewritten(force.holes) { writes } else { SieveMode::Never })),
            // Capulet has no persistent file realms, unlike an engine of ROMIO. The file domains follow the
            // access.
            ("romio_cb_pfr", "disable".to_owned()),
            ("romio_cb_fr_types", "aar".to_owned()),
            ("romio_no_indep_rw", flag(self.no_independent)),
            ("romio_visibility_immediate", flag(force.is_visible)),
            ("romio_filesystem_type", format!("CAPULET {}", force.driver_name)),
            ("capulet_sync_on_close", flag(self.sync_on_close)),
            ("capulet_exclusive_pages", flag(self.exclusive_pages)),
            ("capulet_exclusive", flag(is_rewritten(self.holes))),
            ("capulet_lock_timeout_ms", self.lock_timeout_ms.to_string()),
            ("capulet_lock", self.lock.name().to_owned()),
            ("capulet_words", force.words.unwrap_or(self.words).name().to_owned()),
        ];
        if let Some(stripe_bytes) = self.stripe_bytes(&force.layout) {
            pairs.push(("striping_unit", stripe_bytes.to_string()));
        }
        if force.layout.stripe_count > 1 {
            pairs.push(("striping_factor", force.layout.stripe_count.to_string()));
        }
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn set_flag(flag: &mut bool, value: &str) {
    match value.to_ascii_lowercase().as_str() {
        "true" | "enable" => *flag = true,
        "false" | "disable" => *flag = false,
        _ => {}
    }
}

/// Properties of the open file that `MPI_File_get_info` also returns.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    /// Aggregators over all nodes.
    pub aggregators: u64,
    /// Name of the driver.
    pub driver_name: &'static str,
    /// Whether the next read of any rank sees a written byte, without a sync.
    pub is_visible: bool,
    /// Layout of the file on the storage.
    pub layout: FileLayout,
    /// Whether a write that begins now may write holes back.
    pub holes: Holes,
    /// How the words of the shared file pointer are reached. `None` if they are in memory of one node, or if
    /// there are none.
    pub words: Option<Mechanism>,
}

/// Parses a hint file in the format of `ROMIO_HINTS`: each line has a key and a value, and `#` starts a
/// comment.
pub(crate) fn parse_hint_file(text: &str) -> Vec<(String, String)> {
    let line_pair = |line: &str| {
        let line = line.split('#').next().unwrap_or("").trim();
        let (key, value) = line.split_once(char::is_whitespace)?;
        Some((key.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(line_pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(pairs: &[(&str, &str)]) -> Hints {
        let mut hints = Hints::default();
        hints.apply(pairs.iter().copied());
        hints
    }

    #[test]
    fn bad_values_keep_the_default() {
        let bad = [
            ("cb_buffer_size", "-5"),
            ("cb_buffer_size", "many"),
            ("romio_cb_read", "maybe"),
            ("cb_nodes", ""),
        ];
        assert_eq!(hints(&bad), Hints::default());
        assert_eq!(hints(&[("no_such_key", "1")]), Hints::default());
        assert_eq!(hints(&[("file_perm", "9")]).permissions, 0o666);
    }

    #[test]
    fn later_pairs_win_and_romio_no_indep_rw_enables_two_phase() {
        assert_eq!(
            hints(&[("cb_buffer_size", "8192"), ("cb_buffer_size", "5000")]).collective_buffer_bytes,
            8192
        );
        let promised = hints(&[("romio_no_indep_rw", "true"), ("romio_cb_write", "disable")]);
        assert_eq!((promised.read, promised.write), (CollectiveMode::Enable, CollectiveMode::Enable));
        assert_eq!(hints(&[("file_perm", "640")]).permissions, 0o640);
    }

    #[test]
    fn hints_of_independent_access_are_not_in_the_digest() {
        let sieves = hints(&[
            ("ind_rd_buffer_size", "49"),
            ("ind_wr_buffer_size", "1048576"),
            ("romio_ds_read", "disable"),
        ]);
        assert_eq!((sieves.sieves.read.buffer_bytes, sieves.sieves.write.buffer_bytes), (49, 1 << 20));
        assert_eq!(sieves.sieves.read.mode, SieveMode::Never);
        assert_eq!(sieves.digest(), Hints::default().digest());
        assert_ne!(hints(&[("cb_nodes", "1")]).digest(), Hints::default().digest());
        let wrong = [("ind_rd_buffer_size", "0"), ("ind_wr_buffer_size", "-1"), ("romio_ds_write", "maybe")];
        assert_eq!(hints(&wrong), Hints::default());
        let all = u64::MAX.to_string();
        assert_eq!(
            hints(&[("ind_rd_buffer_size", &all)]).sieves.read.buffer_bytes,
            COLLECTIVE_BUFFER_BYTES_MAX
        );
    }

    #[test]
    fn malformed_config_list_is_ignored() {
        let asked = hints(&[("cb_config_list", "a:2,*:1"), ("cb_config_list", "a:b"), ("cb_nodes", "1")]);
        assert_eq!(asked.config_list.to_string(), "a:2,*:1");
        assert_eq!(hints(&[("cb_config_list", "")]), Hints::default());
    }

    #[test]
    fn holes_are_rewritten_only_if_a_read_returns_the_current_bytes() {
        let all = Caps::BYTE_WRITES | Caps::IMMEDIATE_VISIBILITY;
        let promised = hints(&[("capulet_exclusive", "true")]);
        let holes = |mode, caps, is_atomic| promised.holes_of(mode, caps, is_atomic);
        assert_eq!(holes(AccessMode::READ_WRITE, all, false), Holes::Rewritten);
        assert_eq!(hints(&[]).holes_of(AccessMode::READ_WRITE, all, false), Holes::Untouched);
        for (mode, caps, is_atomic) in [
            (AccessMode::WRITE_ONLY, all, false),
            (AccessMode::READ_WRITE, Caps::BYTE_WRITES, false),
            (AccessMode::READ_WRITE, Caps::IMMEDIATE_VISIBILITY, false),
            (AccessMode::READ_WRITE, all, true),
        ] {
            assert_eq!(holes(mode, caps, is_atomic), Holes::Untouched, "{mode:?}, {caps:?}, {is_atomic}");
        }
    }

    #[test]
    fn hint_file_is_parsed() {
        let text = "# a comment\ncb_nodes 2\n\nromio_cb_write   enable # why\nlonely\n";
        let pairs = parse_hint_file(text);
        assert_eq!(pairs, [("cb_nodes".into(), "2".into()), ("romio_cb_write".into(), "enable".into())]);
    }
}
